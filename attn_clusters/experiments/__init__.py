"""Experiments: one module per chapter, every figure registered once."""

from .core import Experiment, FigureResult, experiment, experiments, figure, figures, find
from .numbers import Bounded, Measured, bounded

__all__ = ["Bounded", "Experiment", "FigureResult", "Measured", "bounded", "experiment",
           "experiments", "figure", "figures", "find"]
