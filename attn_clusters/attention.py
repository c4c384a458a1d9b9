"""The one expensive kernel: averages of values under softmax (or hardmax) weights.

For queries q_i, keys k_j, values v_j and log-weights l_j the softmax average is

    m_i = sum_j exp(<q_i, k_j> + l_j) v_j / sum_j exp(<q_i, k_j> + l_j).

Few tokens are one product, exp and another product. Many tokens are cut into tiles of 256 queries
by 256 keys, small enough for the cache, so that no (n, n) array is ever held. What makes a tile
cheap:

* A shift s_i, the log-weights and the centre c of the keys go into the product that makes the
  scores, <(q_i, 1, -s_i), (k_j - c, l_j, 1)>; the normaliser comes out of the product that averages
  the values, through a last column of ones.
* Where Cauchy-Schwarz keeps all scores within 300 of 0, exp can neither overflow nor underflow:
  s_i = 0, and a tile is a product, exp, a product.
* Elsewhere tokens are first sorted, so that tiles are compact boxes. Over a box the scores of a
  query lie between bounds that cost nothing, and its score with the mean of a box is at most the
  largest of its row, hence a safe shift. Tiles whose every weight is below e^-40 / n of the largest
  are left out; of the others the largest and smallest scores are looked at only where the bounds
  call for it.

Scores more than 600 below the shift are raised to that level: their weight, 1e-261, is below
anything float64 can add to 1, and the exponential of still smaller numbers would be denormal, hence
many times slower to compute with. The errors of scores, a few units of rounding times |q| |k|, are
those of the plain formula. Row blocks are independent of each other and, from about 4000 tokens on,
run in THREADS threads; the result is the same to the last bit whatever their number. (From about
eight dimensions on, numpy's linear algebra also uses threads of its own, which can change the last
bit.)
"""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from . import _arrays, _checks

TILE = 256
LARGEST_EXPONENT, LOWEST_EXPONENT = 300.0, -600.0
NEGLIGIBLE = 40.0
THREADS = os.cpu_count()
THREADS_FROM = 4000**2
LARGEST_BOUND = 1e306
OVERFLOW = ("query: a score <q, k> exceeds the range of float64 (1.8e308); "
            "scale the tokens or stop the run earlier")


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
    average = _few if size <= TILE**2 else _many
    if query.ndim == 2:
        return average(query, key, value, log_weights)
    result = np.empty((*query.shape[:-1], value.shape[-1]))
    group = max(1, TILE**2 // max(size, 1))
    for start in range(0, len(query), group):
        runs = slice(start, start + group) if average is _few else start
        result[runs] = average(query[runs], key[runs], value[runs], log_weights)
    return result


def _few(query, key, value, log_weights):
    """The average in one piece, for at most one tile of scores (of one run, or several)."""
    weights = _softmax_weights(query, key, log_weights)
    return _keys_last(weights) @ value / np.add.reduce(weights, axis=0)[..., None]


def _many(query, key, value, log_weights):
    """The average of one run, tile by tile."""
    query, key, bound = _folded(query, key, log_weights)
    scale = max(1.0, np.abs(value).max())
    value = np.column_stack([value / scale, np.ones(len(value))])
    rows, boxes = slice(None), None
    if bound > LARGEST_EXPONENT:
        rows, columns = _neighbours(query), _neighbours(key)
        query, key, value = query[rows], key[columns], value[columns]
        boxes = _boxes(key, 8 * np.finfo(float).eps * bound)
    transposed = key.T.copy()
    tiles = [(transposed[:, start:start + TILE], value[start:start + TILE])
             for start in range(0, len(key), TILE)]
    sums = np.empty((len(query), value.shape[1]))
    work = partial(_row_blocks, query, tiles, boxes, sums)
    threads = THREADS if len(query) * len(key) >= THREADS_FROM else 1
    if threads == 1:
        work(range(0, len(query), TILE))
    else:
        shares = [range(TILE * share, len(query), TILE * threads) for share in range(threads)]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, shares))
    result = np.empty((len(query), value.shape[1] - 1))
    result[rows] = sums[:, :-1] / sums[:, -1:] * scale
    return result


def _folded(query, key, log_weights):
    """Queries (q, 1, 0), keys (k - c, l - mean l, 1) and a bound on their scores."""
    with np.errstate(over="ignore", invalid="ignore"):
        key = key - key.mean(axis=0)
        if log_weights is not None:
            query = np.column_stack([query, np.ones(len(query))])
            key = np.column_stack([key, log_weights - log_weights.mean()])
        bound = _largest_norm(query) * _largest_norm(key)
    if not bound < LARGEST_BOUND:
        raise ValueError(OVERFLOW)
    return (np.column_stack([query, np.zeros(len(query))]),
            np.column_stack([key, np.ones(len(key))]), bound)


def _largest_norm(vectors):
    largest = np.abs(vectors).max()
    return largest and largest * np.sqrt(((vectors / largest)**2).sum(axis=1).max())


def _neighbours(points):
    """An order in which the points of a tile are close: halve the longest side, again and again."""
    def halved(part):
        if len(part) <= TILE:
            return [part]
        inside = points[part]
        middle = TILE * (-(-len(part) // TILE) // 2)
        side = np.argmax(np.ptp(inside, axis=0))
        order = np.argpartition(inside[:, side], middle)
        return halved(part[order[:middle]]) + halved(part[order[middle:]])

    return np.concatenate(halved(np.arange(len(points))))


def _boxes(key, slack):
    """Mean and half-widths of each tile's keys, and what rounding may add to a score."""
    tiles = [key[start:start + TILE] for start in range(0, len(key), TILE)]
    centres = np.array([tile.mean(axis=0) for tile in tiles])
    halves = np.array([np.abs(tile - centre).max(axis=0)
                       for tile, centre in zip(tiles, centres, strict=True)])
    return centres, halves, slack


def _row_blocks(query, tiles, boxes, sums, starts):
    """Write the sums of weights times (v, 1) for some of the row blocks."""
    buffer = np.empty((TILE, TILE))
    for start in starts:
        rows = slice(start, start + TILE)
        sums[rows] = _row_block(query[rows], tiles, boxes, buffer)


def _row_block(query, tiles, boxes, buffer):
    low = high = np.zeros((1, len(tiles)))
    if boxes is not None:
        low, high = _shift(query, *boxes)
    least, most = low.min(axis=0), high.max(axis=0)
    sums = np.zeros((len(query), tiles[0][1].shape[1]))
    # The most promising tiles first: after them the shift is seldom raised, and more is left out.
    for tile in np.argsort(-most):
        if most[tile] < -NEGLIGIBLE - np.log(TILE * len(tiles)):
            continue
        key, value = tiles[tile]
        scores = np.matmul(query, key, out=buffer[:len(query), :len(value)])
        if most[tile] > LARGEST_EXPONENT and scores.max() > LARGEST_EXPONENT:
            excess = np.maximum(scores.max(axis=1, keepdims=True), 0.0)
            scores -= excess
            query[:, -1:] -= excess
            sums *= np.exp(np.maximum(-excess, LOWEST_EXPONENT))
            least, most = (low := low - excess).min(axis=0), (high := high - excess).max(axis=0)
        if least[tile] < LOWEST_EXPONENT:
            np.maximum(scores, LOWEST_EXPONENT, out=scores)
        np.exp(scores, out=scores)
        sums += scores @ value
    return sums


def _shift(query, centres, halves, slack):
    """Set each query's shift to the score of the best tile's mean; bound its scores by tile."""
    means, spread = query @ centres.T, np.abs(query) @ halves.T + slack
    shift = means.max(axis=1, keepdims=True) - slack
    query[:, -1:] = -shift
    return means - spread - shift, means + spread - shift


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
        weights = xp.exp(xp.clip(scores - largest, min=LOWEST_EXPONENT))
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
    scores = np.empty((key.shape[-2], *query.shape[:-1]))
    with np.errstate(over="ignore", invalid="ignore"):
        np.matmul(key, query.swapaxes(-1, -2), out=scores.swapaxes(0, -2))
    if log_weights is not None:
        scores += log_weights.reshape(-1, *[1] * (scores.ndim - 1))
    # The reductions of ufuncs do without the wrappers of methods, which count for 40 tokens.
    largest = np.maximum.reduce(scores, axis=0)
    if not np.logical_and.reduce(np.isfinite(largest), axis=None):
        raise ValueError(OVERFLOW)
    return scores, largest


def _keys_last(scores):
    """From shape (n, ..., m) to (..., m, n)."""
    return scores.swapaxes(0, -2).swapaxes(-1, -2)


def _softmax_weights(query, key, log_weights):
    """Exponentials of the scores relative to each query's largest, shape (n, ..., m)."""
    scores, largest = _scores(query, key, log_weights)
    scores -= largest
    np.maximum(scores, LOWEST_EXPONENT, out=scores)
    return np.exp(scores, out=scores)


def checked(query, key, value, log_weights):
    """The arguments of `attention_average` as float64 arrays that fit each other."""
    query = _checks.array("query", query, ndim=(2, 3))
    key = _checks.array("key", key, ndim=query.ndim)
    value = _checks.array("value", value, ndim=query.ndim)
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
