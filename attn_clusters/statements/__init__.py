"""The papers' statements: hypotheses -> predicted limit -> measured distance -> verdict."""

from types import MappingProxyType

from .. import _checks
from ..attention import query_key
from . import beyond, clusters, high_dimension, hyperplanes, low_temperature, mean_field
from .core import Classification, Hypothesis, Measurement, Report, Statement

__all__ = ["Classification", "Hypothesis", "Measurement", "Report", "Statement", "classify",
           "statements"]

MODULES = (clusters, hyperplanes, beyond, high_dimension, mean_field, low_temperature)
statements = MappingProxyType({item.key: item for module in MODULES for item in module.STATEMENTS})


def classify(Q, K, V):
    """Say which statements apply to given matrices, with the number behind each hypothesis.

    Parameters
    ----------
    Q, K : arrays, shape (k, d)
        Query and key matrices.
    V : array, shape (d, d)
        Value matrix.

    Returns
    -------
    Classification
        Prints as a table and iterates over (statement key, applies, hypotheses).

    Raises
    ------
    ValueError
        If shapes disagree or numbers are not finite.
    """
    V = _checks.matrix("V", V, square=True)
    return Classification(statements, *query_key(Q, K, len(V)), V)
