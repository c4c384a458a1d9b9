"""Tokens on the line (d = 1, V > 0, b = QK > 0): which ends of the line attract them.

Unrescaled tokens obey dx_i/dt = V m(b x_i), where m(s) = sum_j x_j e^{s x_j} / sum_j e^{s x_j} grows
with s. Hence gaps between tokens never shrink, their order is kept, and a token that runs off to
+infinity (-infinity) ends up with all its attention on the largest (smallest) token. What is left
to know is each token's side.
"""

import numpy as np
from scipy.special import lambertw

from . import _checks


def settled_sides(tokens, b):
    r"""Sides to which tokens on the line are bound: +1, -1, or 0 where this test cannot tell.

    Let x_i > 0 and let k tokens lie below it. Those at or above x_i add at least
    (n - k) x_i e^{b x_i^2} to the numerator of m(b x_i), those below take at most k / (e b x_i)
    from it, since u e^{-b x_i u} <= 1 / (e b x_i). So x_i grows if

        b x_i^2 e^{b x_i^2} > k / (e (n - k)),   that is   b x_i^2 > W(k / (e (n - k)))

    with Lambert's W. As order, hence k, is kept and x_i grows, the condition then holds for ever:
    x_i goes to +infinity, and every token above it too. The same with all signs turned.

    Parameters
    ----------
    tokens : array, shape (n, 1) or (runs, n, 1)
        Unrescaled tokens x_i at any one time.
    b : float
        The positive number QK.

    Returns
    -------
    array of int, shape (n,) or (runs, n)

    Raises
    ------
    ValueError
        If tokens are not on the line or b is not positive.
    """
    x = _checks.tokens(tokens, dimension=1)[..., 0]
    b = _checks.positive("b", b)
    order = np.argsort(x, axis=-1, kind="stable")
    ranked = np.take_along_axis(x, order, axis=-1)
    ranked_sides = _go_up(ranked, b).astype(int) - _go_up(-ranked[..., ::-1], b)[..., ::-1]
    sides = np.empty_like(ranked_sides)
    np.put_along_axis(sides, order, ranked_sides, axis=-1)
    return sides


def _go_up(ranked, b):
    """Whether each of the tokens, sorted upwards, is sure to go to +infinity."""
    n = ranked.shape[-1]
    below = np.arange(n)
    needed = lambertw(below / (np.e * (n - below))).real
    certain = (ranked > 0) & (b * ranked**2 > needed)
    return np.logical_or.accumulate(certain, axis=-1)


def boolean_limit(tokens, sides):
    """The limit of the attention matrix for given sides of the tokens.

    Parameters
    ----------
    tokens : array, shape (n, 1)
        Tokens at any one time: only which is smallest and which largest matters.
    sides : array of int, shape (n,)
        As from `settled_sides`.

    Returns
    -------
    array, shape (n, n)
        Row i has its 1 at the largest token if i goes up, at the smallest if it goes down; it is
        zero, hence no probability vector, where the side is 0.

    Raises
    ------
    ValueError
        If the shapes disagree or a side is none of -1, 0, 1.
    """
    x = _checks.tokens(_checks.array("tokens", tokens, ndim=2), dimension=1)[:, 0]
    sides = np.asarray(sides)
    if sides.shape != x.shape or not np.isin(sides, (-1, 0, 1)).all():
        raise ValueError(f"sides: expected {len(x)} numbers among -1, 0, 1, got {sides}")
    limit = np.zeros((len(x), len(x)))
    limit[sides > 0, x.argmax()] = 1.0
    limit[sides < 0, x.argmin()] = 1.0
    return limit

