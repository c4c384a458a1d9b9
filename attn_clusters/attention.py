"""Averages of values under softmax (or hardmax) weights, and the attention matrix.

Few tokens are one product, exp and another product, for one run or for many at once. Many tokens go
through the tiles of `_tiles`, and arrays of other libraries through the array API.
"""

import numpy as np

from . import _arrays, _checks
from ._tiles import LOWEST, OVERFLOW, TILE, aligned, tiled_average


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
        Row i is a convex combination of the rows of `value` (equation A1, without V). Float64
        arrays of torch or JAX give an array of the same kind (extra ``arrays``).

    Raises
    ------
    ValueError
        If shapes disagree, if numbers are not finite, or if a score <q_i, k_j> exceeds float64.
    """
    return softmax_average(*checked(query, key, value, log_weights))


def softmax_average(query, key, value, log_weights=None):
    """`attention_average` without its checks, for arrays that were checked already."""
    if _arrays.foreign(query):
        return _in_another_library(query, key, value, log_weights)
    size = query.shape[-2] * key.shape[-2]
    # Products larger than this numpy's linear algebra may share out among threads of its own.
    few = size * max(4, key.shape[-1], value.shape[-1]) <= 4 * TILE**2
    average = _few if few else tiled_average
    if query.ndim == 2:
        return average(query, key, value, log_weights)
    result = np.empty((*query.shape[:-1], value.shape[-1]))
    group = max(1, TILE**2 // max(size, 1))
    for start in range(0, len(query), group):
        runs = slice(start, start + group) if few else start
        result[runs] = average(query[runs], key[runs], value[runs], log_weights)
    return result


def _few(query, key, value, log_weights):
    """The average in one piece, for at most one tile of scores (of one run, or several)."""
    weights = _softmax_weights(query, key, log_weights)
    result = _keys_last(weights) @ value
    result /= np.add.reduce(weights, axis=0)[..., None]
    return result


def _in_another_library(query, key, value, log_weights):
    """The average in the functions of the array API, some rows at a time."""
    xp, rows = _arrays.namespace(query), 1 + 64 * TILE**2 // key.shape[-2]
    log_weights, blocks = _arrays.like(log_weights, query), []
    for start in range(0, query.shape[-2], rows):
        stop = min(start + rows, query.shape[-2])
        with np.errstate(over="ignore", invalid="ignore"):  # for libraries that rest on numpy
            scores = query[..., start:stop, :] @ xp.matrix_transpose(key)
        scores = scores if log_weights is None else scores + log_weights
        largest = xp.max(scores, axis=-1, keepdims=True)
        if not bool(xp.all(xp.isfinite(largest))):
            raise ValueError(OVERFLOW)
        weights = xp.exp(xp.clip(scores - largest, min=LOWEST))
        blocks.append(weights @ value / xp.sum(weights, axis=-1, keepdims=True))
    return xp.concat(blocks, axis=-2)


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
    softmax = _softmax_weights(beta * (x @ Q.T), x @ K.T, log_weights)
    return _keys_last(softmax / softmax.sum(axis=0))


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
    query, key, value, _ = checked(query, key, value, None)
    if float(_checks.array("tie", tie, ndim=0)) < 0:
        raise ValueError(f"tie: expected a number of at least 0, got {tie:g}")
    result = np.empty((*query.shape[:-1], value.shape[-1]))
    block = 1 + 16 * TILE**2 // key[..., 0].size
    for start in range(0, query.shape[-2], block):
        rows = slice(start, start + block)
        scores, largest = _scores(query[..., rows, :], key, None)
        tied = (scores >= largest - tie).astype(float)
        result[..., rows, :] = _keys_last(tied) @ value / tied.sum(axis=0)[..., None]
    return result


def query_key(Q, K, dimension):
    """Check a query and a key matrix against each other and the tokens' dimension."""
    Q = _checks.matrix("Q", Q, columns=dimension)
    K = _checks.matrix("K", K, columns=dimension)
    if Q.shape != K.shape:
        raise ValueError(f"K: expected the shape {Q.shape} of Q, got {K.shape}")
    return Q, K


def _scores(query, key, log_weights):
    """Scores of shape (n, ..., m) and the largest of each query.

    The keys come first: sums and maxima over them then run along whole rows of the array, which is
    several times faster for small systems and for batches of them.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        if query.ndim == 2:
            scores = key.dot(query.T)
        else:
            scores = aligned(key.shape[-2], *query.shape[:-1])
            # Many small products are three times slower with a transposed view than with its copy.
            np.matmul(key, query.swapaxes(-1, -2).copy(), out=scores.swapaxes(0, -2))
    if log_weights is not None:
        scores += log_weights.reshape(-1, *[1] * (scores.ndim - 1))
    # The reductions of ufuncs do without the wrappers of methods, which count for 40 tokens.
    largest = np.maximum.reduce(scores, axis=0)
    if not _checks.all_finite(largest):
        raise ValueError(OVERFLOW)
    return scores, largest


def _keys_last(scores):
    """From shape (n, ..., m) to (..., m, n)."""
    return scores.swapaxes(0, -2).swapaxes(-1, -2)


def _softmax_weights(query, key, log_weights):
    """Exponentials of the scores relative to each query's largest, shape (n, ..., m)."""
    scores, largest = _scores(query, key, log_weights)
    scores -= largest
    # (clip is several times faster than maximum with a number.)
    scores.clip(LOWEST, 0.0, out=scores)
    return np.exp(scores, out=scores)


def checked(query, key, value, log_weights):
    """The arguments of `attention_average` as float64 arrays that fit each other."""
    query = _checks.array("query", query, ndim=(2, 3), copy=False)
    key = _checks.array("key", key, ndim=query.ndim, copy=False)
    value = _checks.array("value", value, ndim=query.ndim, copy=False)
    if len({_arrays.namespace(given) for given in (query, key, value)}) > 1:
        raise ValueError("value: expected query, key and value of one array library, got "
                         f"{type(query).__name__}, {type(key).__name__}, {type(value).__name__}")
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
