"""Attention averages of very many tokens, in time proportional to their number.

Two settings allow it: tokens on the circle, whose scores e^{r cos(.)} are diagonal in Fourier space,
and tokens on the line, where the average is a smooth function of one number. Both paths compute the
numerator and the normaliser of the average relative to the largest score that any token could have,
to an absolute error that is known, and hence know the error of their quotient: it is large only for
queries whose normaliser is tiny, far from every token. If for some query the error could exceed
`tolerance`, or if there are so few tokens that nothing is gained, the direct sum runs instead.
"""

import numpy as np
from numpy.polynomial import chebyshev
from scipy.special import ive

from . import _checks
from ._tiles import LOWEST
from .attention import checked, softmax_average

try:
    import finufft
except ImportError:  # an optional extra
    finufft = None

EPS = np.finfo(float).eps
BLOCK = 512
MANY_MODES = 64
LARGEST_TABLE, LARGEST_CONDITION = 1e6, 50.0
DEGREE = 26
LARGEST_RADIUS, LARGEST_SCORE = 1e8, 1e150


def circle_field(points, tokens, B, V, beta, weights=None, tolerance=1e-9):
    r"""`attention_field` on the circle, with Fourier series.

    With B^T x = r (cos psi, sin psi) and tokens at the angles theta_j the normaliser is

    sum_j w_j e^{beta r cos(psi - theta_j)} = sum_k I_k(beta r) e^{i k psi} sum_j w_j e^{-i k theta_j}

    with modified Bessel functions I_k, of which about 9 sqrt(beta r) matter; the numerator has the
    same form. The cost is proportional to (tokens + points) sqrt(beta), or, where the package
    finufft is installed (extra ``fft``), to tokens + points alone.

    Parameters
    ----------
    points : array, shape (m, 2)
        Points of the unit circle.
    tokens : array, shape (n, 2)
        Tokens on the unit circle.
    B, V : arrays, shape (2, 2)
    beta : float
        Inverse temperature, positive.
    weights : array, shape (n,), optional
        Positive, with sum 1; None means equal weights.
    tolerance : float
        Largest error allowed, relative to the size of V. It bounds the error that float64 makes
        of the series; where it cannot be kept the direct sum is returned.

    Returns
    -------
    array, shape (m, 2)

    Raises
    ------
    ValueError
        For bad shapes or numbers, and if tokens or points are off the circle by more than 1e-9.
    """
    V = _checks.matrix("V", V, square=True, columns=2)
    B = _checks.positive("beta", beta) * _checks.matrix("B", B, square=True, columns=2)
    points, tokens = _on_circle("points", points), _on_circle("tokens", tokens)
    weights = _checks.weights(weights, len(tokens))
    tolerance = _checks.positive("tolerance", tolerance)
    average, error = _circle(points, tokens, B, weights)
    if not error <= tolerance:
        log_weights = None if weights is None else np.log(weights)
        average = softmax_average(points @ B, tokens, tokens, log_weights)
    return average @ V.T


def line_average(query, key, value, log_weights=None, tolerance=1e-9):
    r"""`attention_average` for k = 1, with piecewise Chebyshev polynomials in the query.

    For q > 0 the sums sum_j w_j e^{-q (k_max - k_j)} (1, v_j) are Laplace transforms: on every
    interval [a, 2a] polynomials of degree 26 carry them to 5.8^-26 = 1e-20 of the sum of the
    weights. They are summed at 27 nodes for each interval that holds queries, the first one being
    [0, 1 / (k_max - k_min)]; likewise for q < 0. The cost is proportional to n + m times the
    logarithm of the largest score.

    Parameters
    ----------
    query, key, value : arrays, shapes (m, 1), (n, 1), (n, p)
    log_weights : array, shape (n,), optional
    tolerance : float
        Largest error allowed, relative to the largest value. Where rounding would exceed it the
        direct sum is returned.

    Returns
    -------
    array, shape (m, p)

    Raises
    ------
    ValueError
        As `attention_average`, and if queries and keys are not of shape (m, 1) and (n, 1).
    """
    query, key, value, log_weights = checked(query, key, value, log_weights)
    if query.ndim != 2 or query.shape[1] != 1:
        raise ValueError(f"query: expected shape (m, 1), got {query.shape}")
    tolerance = _checks.positive("tolerance", tolerance)
    average, error = _line(query[:, 0], key[:, 0], value, log_weights)
    return average if error <= tolerance else softmax_average(query, key, value, log_weights)


def _circle(points, tokens, B, weights):
    """The average of the tokens and a bound on its error: infinity if the direct sum is cheaper."""
    radius, smallest = np.linalg.svd(B, compute_uv=False)
    # Near B^T x = 0 the radius has a kink, and its Fourier series is too long to gain anything.
    if not smallest * LARGEST_CONDITION > radius or not radius < LARGEST_RADIUS:
        return None, np.inf
    modes = np.count_nonzero(ive(np.arange(40 + 10 * np.sqrt(radius)), radius) > EPS / 100)
    cost = (len(points) + len(tokens)) * (min(modes, MANY_MODES) if finufft else modes)
    if 8 * cost > len(points) * len(tokens):
        return None, np.inf
    mass = np.full(len(tokens), 1 / len(tokens)) if weights is None else weights
    moments = _moments(_directions(tokens), mass, modes + 1)
    before = np.concatenate([moments[1:2].conj(), moments[:-2]])
    sums = np.stack([moments[:-1], (before + moments[1:]) / 2, (before - moments[1:]) / 2j])
    if radius - smallest <= 8 * EPS * radius:
        series = sums * _bessel(np.arange(modes), radius)
        found = _series(series, _directions(points @ B))
    else:
        series = _in_the_angle_of_the_points(sums, B)
        if series is None:
            return None, np.inf
        found = _series(series, _directions(points))
    # A wave e^{ik.} is off by a few k eps, and only modes up to about sqrt(radius) weigh much.
    error = EPS * (16 + 8 * np.sqrt(radius) + 500 * _by_finufft(modes))
    least = max(found[0].min(), np.finfo(float).tiny)
    return (found[1:] / found[0]).T, error / least


def _in_the_angle_of_the_points(sums, B):
    """The series where the radius |B^T x| changes with x: on a grid of angles, then transformed."""
    modes, size = sums.shape[1], 4 * sums.shape[1]
    while size * modes <= LARGEST_TABLE:
        angles = 2 * np.pi * np.arange(size) / size
        queries = np.column_stack([np.cos(angles), np.sin(angles)]) @ B
        # Powers by doubling would be too rough here: coefficients down to eps / 4 are told from 0.
        waves = np.exp(1j * np.arange(modes)[:, None] * np.arctan2(queries[:, 1], queries[:, 0]))
        values = (sums @ (_bessel(np.arange(modes)[:, None], _length(queries)) * waves)).real
        series = np.fft.rfft(values) / size
        series[:, 1:] *= 2
        largest = np.abs(series).max(axis=0)
        # Rounding on a symmetric grid can add up to a few eps in a coefficient of high order.
        if largest[size // 3:].max() < 4 * EPS:
            return series[:, :np.flatnonzero(largest[:size // 3] > EPS / 4)[-1] + 1]
        size *= 2
    return None


def _bessel(modes, radius):
    """Factors b_k of e^{r (cos a - 1)} = sum over k >= 0 of b_k cos(k a)."""
    return ive(modes, radius) * np.where(modes == 0, 1.0, 2.0)


def _length(vectors):
    return np.hypot(vectors[:, 0], vectors[:, 1])


def _directions(vectors):
    """The numbers e^{i theta} with the angles theta of the vectors."""
    return np.ascontiguousarray(vectors / _length(vectors)[:, None]).view(complex)[:, 0]


def _on_circle(name, points):
    points = _checks.array(name, points, ndim=2)
    if points.shape[1] != 2 or not len(points):
        raise ValueError(f"{name}: expected shape (n, 2), got {points.shape}")
    error = np.abs(_length(points) - 1).max()
    if error > 1e-9:
        raise ValueError(f"{name}: expected norm 1 to 1e-09, got norms off by up to {error:.2g}")
    return points


def _by_finufft(modes):
    return finufft is not None and modes > MANY_MODES


def _moments(directions, mass, modes):
    """sum_j m_j e^{-i k theta_j} for 0 <= k < modes."""
    if _by_finufft(modes):
        both = finufft.nufft1d1(np.angle(directions), mass.astype(complex), 2 * modes, eps=1e-15, isign=-1)
        return both[modes:]
    return sum(_waves(directions[block], modes) @ mass[block] for block in _blocks(mass)).conj()


def _series(series, directions):
    """Re sum_k c_k e^{i k theta} for each row of coefficients, at all directions e^{i theta}."""
    count = series.shape[1]
    if _by_finufft(count):
        both = np.concatenate([np.zeros_like(series), series], axis=1)
        return finufft.nufft1d2(np.angle(directions), both, eps=1e-15, isign=1).real
    result = np.empty((len(series), len(directions)))
    for block in _blocks(directions):
        result[:, block] = (series @ _waves(directions[block], count)).real
    return result


def _waves(directions, count):
    """e^{i k theta}, shape (count, n), by doubling: log2(count) products instead of exponentials."""
    waves = np.empty((count, len(directions)), complex)
    waves[0] = 1.0
    step, known = directions, 1
    while known < count:
        new = min(known, count - known)
        np.multiply(waves[:new], step, out=waves[known:known + new])
        step, known = step * step, known + new
    return waves


def _blocks(numbers):
    return [slice(start, start + BLOCK) for start in range(0, len(numbers), BLOCK)]


def _line(query, key, value, log_weights):
    """The average and a bound on its error: infinity if the direct sum is cheaper."""
    size, width = np.abs(query), np.ptp(key)
    with np.errstate(over="ignore"):
        largest = size.max(initial=0.0) * width
    if not 0 < largest < LARGEST_SCORE:
        return None, np.inf
    # Piece 0 is [0, 1] / width, piece k > 0 is [2^(k-1), 2^k] / width.
    pieces = 2 * np.frexp(np.maximum(size * width, 0.5))[1] + (query < 0)
    occupied = np.unique(pieces)
    if 4 * (DEGREE + 1) * len(occupied) > len(query):
        return None, np.inf
    mass = np.ones(len(key)) if log_weights is None else np.exp(log_weights - log_weights.max())
    scale = np.abs(value).max() or 1.0
    terms = np.column_stack([np.ones(len(key)), value / scale]) * (mass / mass.sum())[:, None]
    found = np.empty((terms.shape[1], len(query)))
    for piece in occupied:
        inside, high = pieces == piece, 2.0**(piece // 2) / width
        low = high / 2 if piece > 1 else 0.0
        gaps = key - key.min() if piece % 2 else key.max() - key
        series = _chebyshev(lambda q, gaps=gaps: _laplace(q, gaps, terms), low, high)
        found[:, inside] = chebyshev.chebval((2 * size[inside] - low - high) / (high - low), series)
    # Polynomials, exponents and their sums are each off by a few eps of the sum of the weights.
    least = max(found[0].min(), np.finfo(float).tiny)
    return (found[1:] / found[0]).T * scale, 32 * EPS / least


def _chebyshev(function, low, high):
    """Coefficients of the polynomials that agree with the function at Chebyshev's points."""
    nodes = chebyshev.chebpts1(DEGREE + 1)
    values = function((low + high) / 2 + (high - low) / 2 * nodes)
    series = chebyshev.chebvander(nodes, DEGREE).T @ values * (2 / (DEGREE + 1))
    series[0] /= 2
    return series


def _laplace(nodes, gaps, terms):
    """sum_j e^{-q gap_j} term_j for each node q."""
    return sum(np.exp(np.clip(-nodes[:, None] * gaps[block], LOWEST, 0.0)) @ terms[block]
               for block in _blocks(gaps))
