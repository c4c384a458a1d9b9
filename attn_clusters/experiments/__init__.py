"""Experiments: one module per chapter, every figure registered once."""

from .core import (
    Bounded,
    Experiment,
    FigureResult,
    Measured,
    bounded,
    experiment,
    experiments,
    figure,
    figures,
    find,
)

__all__ = ["Bounded", "Experiment", "FigureResult", "Measured", "bounded", "experiment",
           "experiments", "figure", "figures", "find"]
