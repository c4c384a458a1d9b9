"""Right-hand sides. A flow is called as ``flow(t, tokens)`` and returns the time derivative.

Each flow is a frozen dataclass that holds its matrices; tokens have shape (n, d), or (runs, n, d)
for a batch of independent runs. A flow may also offer

``layer(step)``
    the discrete-time transformer that belongs to it: a function (k, tokens) -> tokens,
``check_horizon(tokens, time)``
    a ValueError before the run if numbers would leave the range of float64,
``retract(tokens)``
    the way back to the set on which the tokens live, against rounding.

`simulate` uses them where they exist; any other callable with the same signature is a flow too.
"""

from dataclasses import dataclass

import numpy as np

from . import _checks
from .attention import attention_average, query_key
from .spectrum import propagator

LARGEST_SCORE = 1e300


@dataclass(frozen=True, eq=False)
class _MatrixFlow:
    """Common part of the flows with one query, one key and one value matrix."""

    Q: np.ndarray
    K: np.ndarray
    V: np.ndarray

    def __post_init__(self):
        V = _checks.matrix("V", self.V, square=True)
        Q, K = query_key(self.Q, self.K, len(V))
        for name, value in (("Q", Q), ("K", K), ("V", V), ("B", Q.T @ K)):
            object.__setattr__(self, name, _checks.frozen(value))
        object.__setattr__(self, "_propagator", propagator(V))

    @property
    def dimension(self):
        """Dimension d of the tokens."""
        return len(self.V)

    def propagate(self, t, tokens):
        """e^{tV} x for each token x: from rescaled to unrescaled tokens (t may be negative)."""
        return tokens @ self._propagator(t).T

    def check_horizon(self, tokens, time):
        """Refuse a final time at which e^{tV} x has scores outside float64.

        Raises
        ------
        ValueError
            With the latest time that passes for these tokens, to two digits.
        """
        if self._score_size(tokens, time) < LARGEST_SCORE:
            return
        passes, fails = 0.0, float(time)
        while fails - passes > 0.01 * fails:
            middle = (passes + fails) / 2
            good = self._score_size(tokens, middle) < LARGEST_SCORE
            passes, fails = (middle, fails) if good else (passes, middle)
        raise ValueError(f"times: e^(tV) would overflow float64 at t = {time:g}; for these tokens "
                         f"and matrices the latest time is about {passes:.2g}")

    def _score_size(self, tokens, time):
        with np.errstate(over="ignore", invalid="ignore"):
            radius = np.abs(self.propagate(time, tokens)).max()
            size = radius**2 * self.dimension * max(np.abs(self.B).max(), 1.0)
        return size if np.isfinite(size) else np.inf


class TokenFlow(_MatrixFlow):
    """Self-attention dynamics of the tokens x_i (equation A1).

    dx_i/dt = sum_j P_ij V x_j,  P_ij = softmax over j of <Q x_i, K x_j>.

    Parameters
    ----------
    Q, K : arrays, shape (k, d)
        Query and key matrices; only B = Q^T K enters.
    V : array, shape (d, d)
        Value matrix.

    Raises
    ------
    ValueError
        If shapes disagree or numbers are not finite.
    """

    def __call__(self, t, tokens):
        """Time derivative of the tokens, same shape. It does not depend on t."""
        tokens = _checks.tokens(tokens, dimension=self.dimension)
        return attention_average(tokens @ self.B, tokens, tokens) @ self.V.T

    def rescale(self, t, tokens):
        """z_i = e^{-tV} x_i."""
        return self.propagate(-t, tokens)

    def layer(self, step):
        """x_i^{k+1} = x_i^k + step sum_j P_ij V x_j^k, as a function (k, tokens) -> tokens."""
        return lambda k, tokens: tokens + step * self(k * step, tokens)


class RescaledFlow(_MatrixFlow):
    """Dynamics of the rescaled tokens z_i = e^{-tV} x_i (equation A2).

    dz_i/dt = sum_j P_ij(t) V (z_j - z_i), with P evaluated at the unrescaled tokens e^{tV} z.

    Parameters
    ----------
    Q, K : arrays, shape (k, d)
        Query and key matrices; only B = Q^T K enters.
    V : array, shape (d, d)
        Value matrix.

    Raises
    ------
    ValueError
        If shapes disagree or numbers are not finite.
    """

    def __call__(self, t, tokens):
        """Time derivative of the rescaled tokens, same shape."""
        tokens = _checks.tokens(tokens, dimension=self.dimension)
        unscaled = self.propagate(t, tokens)
        average = attention_average(unscaled @ self.B, unscaled, tokens)
        return (average - tokens) @ self.V.T

    def rescale(self, t, tokens):
        """The tokens themselves, which are the z_i already."""
        return tokens

    def layer(self, step):
        """Discrete counterpart of A2, exactly equivalent to the layers of `TokenFlow`.

        With R = I + step V and z^k = R^{-k} x^k,
        z_i^{k+1} = z_i^k + step sum_j P_ij(R^k z^k) R^{-1} V (z_j^k - z_i^k).

        Raises
        ------
        ValueError
            If R is not invertible.
        """
        R = np.eye(self.dimension) + step * self.V
        if np.linalg.cond(R) > 1e12:
            raise ValueError(f"step: I + step V must be invertible, got condition number "
                             f"{np.linalg.cond(R):.2g} for step = {step:g}")
        move = step * np.linalg.solve(R, self.V)

        def advance(k, tokens):
            unscaled = tokens @ np.linalg.matrix_power(R, k).T
            average = attention_average(unscaled @ self.B, unscaled, tokens)
            return tokens + (average - tokens) @ move.T

        return advance
