"""The one expensive kernel: averages of values under softmax (or hardmax) weights.

For queries q_i, keys k_j, values v_j and log-weights l_j the softmax average is

    m_i = sum_j exp(<q_i, k_j> + l_j) v_j / sum_j exp(<q_i, k_j> + l_j).

It is computed a block of queries at a time, so that no (n, n) array is ever held, and relative to
the largest score of each row, so that nothing overflows. Scores more than 700 below the largest
are raised to that level: their weight, e^-700 = 1e-304, is below anything float64 can add to 1, and
the exponential of still smaller numbers is denormal, hence many times slower to compute with.
"""

import numpy as np

from . import _checks

BLOCK = 256
LOWEST_SCORE = -700.0


def attention_average(query, key, value, log_weights=None):
    r"""Average of the values under softmax weights, ``softmax(query key^T + log_weights) value``.

    Parameters
    ----------
    query : array, shape (..., m, k)
    key : array, shape (..., n, k)
    value : array, shape (..., n, p)
        All three with the same leading axes (none, or one for a batch of runs).
    log_weights : array, shape (n,), optional
        Logarithms of the tokens' weights; they need not be normalised.

    Returns
    -------
    array, shape (..., m, p)
        Row i is a convex combination of the rows of `value` (equation A1, without V).

    Raises
    ------
    ValueError
        If shapes disagree, if numbers are not finite, or if a score <q_i, k_j> exceeds float64.
    """
    query, key, value, log_weights = _checked(query, key, value, log_weights)
    result = np.empty((*query.shape[:-1], value.shape[-1]))
    for start in range(0, query.shape[-2], BLOCK):
        rows = slice(start, start + BLOCK)
        weights = _softmax_weights(_scores(query[..., rows, :], key, log_weights))
        result[..., rows, :] = weights @ value / weights.sum(axis=-1, keepdims=True)
    return result


def attention_matrix(x, Q, K, beta=1.0, weights=None):
    r"""Attention matrix P of equation A1.

    P_ij = w_j exp(beta <Q x_i, K x_j>) / sum_l w_l exp(beta <Q x_i, K x_l>).

    Parameters
    ----------
    x : array, shape (n, d) or (runs, n, d)
        Tokens.
    Q, K : arrays, shape (k, d)
        Query and key matrices.
    beta : float
        Inverse temperature, positive.
    weights : array, shape (n,), optional
        Positive weights of the tokens with sum 1; None means equal weights.

    Returns
    -------
    array, shape (n, n) or (runs, n, n)
        Non-negative, rows sum to 1.

    Raises
    ------
    ValueError
        For bad shapes or numbers, and if a score exceeds float64.
    """
    x = _checks.tokens(x, "x")
    Q, K = query_key(Q, K, x.shape[-1])
    beta = _checks.positive("beta", beta)
    weights = _checks.weights(weights, x.shape[-2])
    log_weights = None if weights is None else np.log(weights)
    softmax = _softmax_weights(_scores(beta * (x @ Q.T), x @ K.T, log_weights))
    return softmax / softmax.sum(axis=-1, keepdims=True)


def hardmax_average(query, key, value, tie=0.0):
    """Average of the values whose keys have the largest score: the limit of large scores.

    Parameters
    ----------
    query, key, value : arrays
        As for `attention_average`.
    tie : float
        Scores within `tie` of the largest count as equal to it.

    Returns
    -------
    array, shape (..., m, p)
        The limit of ``attention_average(beta * query, key, value)`` for beta to infinity.
    """
    query, key, value, _ = _checked(query, key, value, None)
    if float(_checks.array("tie", tie, ndim=0)) < 0:
        raise ValueError(f"tie: expected a number of at least 0, got {tie:g}")
    result = np.empty((*query.shape[:-1], value.shape[-1]))
    for start in range(0, query.shape[-2], BLOCK):
        rows = slice(start, start + BLOCK)
        scores = _scores(query[..., rows, :], key, None)
        largest = (scores >= scores.max(axis=-1, keepdims=True) - tie).astype(float)
        result[..., rows, :] = largest @ value / largest.sum(axis=-1, keepdims=True)
    return result


def query_key(Q, K, dimension):
    """Check a query and a key matrix against each other and the tokens' dimension."""
    Q = _checks.matrix("Q", Q, columns=dimension)
    K = _checks.matrix("K", K, columns=dimension)
    if Q.shape != K.shape:
        raise ValueError(f"K: expected the shape {Q.shape} of Q, got {K.shape}")
    return Q, K


def _scores(query, key, log_weights):
    with np.errstate(over="ignore", invalid="ignore"):
        scores = query @ key.swapaxes(-1, -2)
    if log_weights is not None:
        scores += log_weights
    if not np.isfinite(scores.max(axis=-1)).all():
        raise ValueError("query: a score <q, k> exceeds the range of float64 (1.8e308); "
                         "scale the tokens or stop the run earlier")
    return scores


def _softmax_weights(scores):
    """Exponentials relative to each row's largest score, in place."""
    scores -= scores.max(axis=-1, keepdims=True)
    np.maximum(scores, LOWEST_SCORE, out=scores)
    return np.exp(scores, out=scores)


def _checked(query, key, value, log_weights):
    query = _checks.array("query", query, ndim=(2, 3))
    key = _checks.array("key", key, ndim=query.ndim)
    value = _checks.array("value", value, ndim=query.ndim)
    if key.shape[:-2] != query.shape[:-2] or key.shape[-1] != query.shape[-1]:
        raise ValueError(f"key: expected shape {(*query.shape[:-2], 'n', query.shape[-1])} "
                         f"to match query, got {key.shape}")
    if value.shape[:-1] != key.shape[:-1] or 0 in key.shape[-2:]:
        raise ValueError(f"value: expected one row for each of the keys {key.shape}, "
                         f"at least one, got {value.shape}")
    if log_weights is not None:
        log_weights = _checks.array("log_weights", log_weights, ndim=1)
        if log_weights.shape != (key.shape[-2],):
            raise ValueError(f"log_weights: expected shape ({key.shape[-2]},), "
                             f"got {log_weights.shape}")
    return query, key, value, log_weights
