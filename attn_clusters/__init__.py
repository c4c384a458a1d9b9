"""Companion library of two papers on attention as an interacting particle system."""

from .attention import attention_average, attention_matrix, hardmax_average
from .experiments import figure, figures
from .flows import (
    ConsensusFlow,
    FeedForwardFlow,
    MultiHeadFlow,
    RescaledFlow,
    SphereFlow,
    TokenFlow,
    ZeroTemperatureFlow,
    attention_field,
    consensus_point,
    zero_temperature_field,
)
from .index import figure_index, statement_index
from .measures import wasserstein2
from .simulate import Trajectory, simulate
from .spectrum import collapse_rate
from .statements import classify, statements
from .sweep import SweepError, sweep

__version__ = "0.1.0"

__all__ = [
    "ConsensusFlow",
    "FeedForwardFlow",
    "MultiHeadFlow",
    "RescaledFlow",
    "SphereFlow",
    "SweepError",
    "TokenFlow",
    "Trajectory",
    "ZeroTemperatureFlow",
    "attention_average",
    "attention_field",
    "attention_matrix",
    "classify",
    "collapse_rate",
    "consensus_point",
    "figure",
    "figure_index",
    "figures",
    "hardmax_average",
    "simulate",
    "statement_index",
    "statements",
    "sweep",
    "wasserstein2",
    "zero_temperature_field",
]
