"""Averages under softmax weights for many tokens, tile by tile: the kernel of `attention`.

For queries q_i, keys k_j, values v_j and log-weights l_j the softmax average is

    m_i = sum_j exp(<q_i, k_j> + l_j) v_j / sum_j exp(<q_i, k_j> + l_j).

The scores are cut into tiles of 256 keys by 256 queries (1024 from about 48 dimensions on), small
enough for the cache, so that no (n, n) array is ever held. What makes a tile cheap:

* A shift s_i, the log-weights and the centre c of the keys go into the product that makes the
  scores, <(k_j - c, l_j, 1), (q_i, 1, -s_i)>; the normaliser comes out of the product that averages
  the values, through a last column of ones.
* Where Cauchy-Schwarz keeps all scores within 300 of 0, exp can neither overflow nor underflow:
  s_i = 0, and a tile is a product, exp, a product.
* Elsewhere s_i is the largest score among a few leaders, keys that are the best for some of the
  queries. Scores are held between -600 and 600. Below, the weight is 1e-261, which float64 cannot
  add to 1, and the exponential of still smaller numbers would be denormal, hence many times slower
  to compute with. Above, the leaders were not good enough: a normaliser of e^600 tells so
  afterwards, and the few queries concerned are computed again with exact maxima. Where this would
  concern many, as a sample shows, all maxima are exact from the start.
* From eight tiles on, tokens are first sorted, so that tiles are compact boxes. Over a box the
  scores of a query lie between bounds that cost nothing: tiles whose every weight is below
  e^-40 / n of the largest are left out, others are spared the limits.

Errors of scores, a few units of rounding times |q| |k|, are those of the plain formula. Blocks of
queries are independent of each other and, from about 4000 tokens on, run in THREADS threads. Their
widths are multiples of eight: then the result is the same to the last bit however many threads
there are, here or in numpy's linear algebra.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from math import prod
from typing import NamedTuple

import numpy as np

try:
    from threadpoolctl import ThreadpoolController
except ImportError:  # an optional extra
    ThreadpoolController = None

TILE, DEPTH, LONG, BOXES_FROM, SAMPLE = 256, 256, 48, 8, 64
WITHOUT_SHIFT, HIGHEST, LOWEST = 300.0, 600.0, -600.0
LARGEST_BOUND = 1e306
THREADS = os.cpu_count()
THREADS_FROM = 4000**2
LINEAR_ALGEBRA = ThreadpoolController and ThreadpoolController()
OVERFLOW = ("query: a score <q, k> exceeds the range of float64 (1.8e308); "
            "scale the tokens or stop the run earlier")


class _Plan(NamedTuple):
    """What all blocks of queries share.

    `tiles` are pairs of keys (height, k + 1) and values (p + 1, height). `leaders` is None where no
    shift is needed, `boxes` where tokens are not sorted.
    """

    tiles: list
    leaders: np.ndarray | None
    boxes: tuple | None


def tiled_average(query, key, value, log_weights):
    """The average of one run: arrays of shape (m, k), (n, k), (n, p) and (n,) or None."""
    keys, bound = _folded(query, key, log_weights)
    scale = max(1.0, value.max(), -value.min())
    values = _columns(value if scale == 1 else value / scale, 1.0)
    order, leaders, boxes, exact, height = None, None, None, False, _height(len(key))
    if bound > WITHOUT_SHIFT:
        if len(key) >= BOXES_FROM * TILE:
            order, columns = _neighbours(query, TILE), _neighbours(keys, height)
            keys, values = keys[columns], values[columns]
            boxes = _boxes(keys, height, 8 * np.finfo(float).eps * bound)
        leaders, exact = _leaders(query, keys)
    plan = _Plan([(keys[start:start + height], values[start:start + height].T)
                  for start in range(0, len(keys), height)], leaders, boxes)
    if order is not None:
        query = query[order]
    sums = _sums(query, plan, exact)
    if leaders is not None:
        lost = np.flatnonzero(sums[:, -1] >= np.exp(HIGHEST))
        sums[lost] = _sums(query[lost], plan, True)
    average = sums[:, :value.shape[1]] / sums[:, -1:] * scale
    if order is None:
        return average
    result = np.empty_like(average)
    result[order] = average
    return result


def _sums(query, plan, exact):
    """Sums of weights times (v, 1), shape (queries, p + 1), in threads where these pay."""
    count, (keys, values) = len(query), plan.tiles[0]
    width, sums = _width(keys.shape[1]), np.empty((count, len(values)))
    # Threads take their blocks from one iterator, so that a slow core gets fewer of them.
    starts = iter(range(0, count, width))

    def work():
        buffer = aligned(len(keys) * min(width, count + 7))
        for start in starts:
            some = query[start:start + width]
            block = _block(some, keys.shape[1])
            sums[start:start + width] = _block_sums(block, plan, exact, buffer).T[:len(some)]

    threads = _threads(count * len(keys) * len(plan.tiles), max(keys.shape[1], len(values)))
    threads = min(threads, count // (2 * width))  # at least two blocks for each
    if threads <= 1:
        work()
        return sums
    with _one_thread_of_linear_algebra(), ThreadPoolExecutor(threads - 1) as pool:
        others = [pool.submit(work) for _ in range(threads - 1)]
        work()
        for other in others:
            other.result()
    return sums


def _threads(scores, width):
    """Threads for so many scores. Products of more than 256 x 256 x 4 numpy's linear algebra shares
    out by itself, and threads of threads would wait for each other."""
    return THREADS if scores >= THREADS_FROM and (LINEAR_ALGEBRA or width <= 4) else 1


def _one_thread_of_linear_algebra():
    return LINEAR_ALGEBRA.limit(limits=1, user_api="blas") if LINEAR_ALGEBRA else nullcontext()


def aligned(*shape):
    """Memory that begins with a cache line, which makes what is done to a tile cheaper by a quarter."""
    size = prod(shape)
    memory = np.empty(size + 7)
    start = -memory.__array_interface__["data"][0] % 64 // 8
    return memory[start:start + size].reshape(shape)


def _height(count):
    """Height of the tiles that share out `count` keys evenly."""
    return -(-count // -(-count // TILE))


def _width(size):
    """Width of the tiles: the longer the keys, the more queries must share their way from memory."""
    return TILE if size <= LONG else 4 * TILE


def _columns(*parts):
    """Arrays of shape (n, .) and numbers side by side; zeros before the last make the number even.

    Numpy's linear algebra is faster on an even number of columns.
    """
    n, width = len(parts[0]), sum(part.shape[1] if np.ndim(part) else 1 for part in parts)
    result, column = np.zeros((n, width + width % 2)), 0
    for part in parts[:-1]:
        result[:, column:column + part.shape[1]] = part
        column += part.shape[1]
    result[:, -1] = parts[-1]
    return result


def _folded(query, key, log_weights):
    """Keys (k - c, l - mean l, 1) and a bound on their products with (q, 1, 0), the scores."""
    with np.errstate(over="ignore", invalid="ignore"):
        parts = [key - np.add.reduce(key, axis=0) / len(key)]
        bound = _largest_norm(query)
        if log_weights is not None:
            parts.append((log_weights - log_weights.mean())[:, None])
            bound = np.hypot(bound, 1.0)
        keys = _columns(*parts, 0.0)
        bound *= _largest_norm(keys)
    if not bound < LARGEST_BOUND:
        raise ValueError(OVERFLOW)
    keys[:, -1] = 1.0
    return keys, bound


def _block(query, size):
    """Columns (q, 1, 0) to multiply with keys of that size; some more make it a multiple of eight."""
    m, d = query.shape
    # Where no log-weights were folded in, the ones meet the zeros that make the keys' number even.
    block = np.zeros((size, m + -m % 8))
    block[:d, :m], block[d:-1] = query.T, 1.0
    return block


def _largest_norm(vectors):
    square = np.maximum.reduce(np.einsum("ij,ij->i", vectors, vectors))
    if 1e-200 < square < 1e200:
        return np.sqrt(square)
    largest = np.abs(vectors).max()  # squares leave the range of float64
    return largest * _largest_norm(vectors / largest) if 0 < largest < np.inf else largest


def _neighbours(points, size):
    """An order in which the points of a tile are close: halve the longest side, again and again."""
    def halved(inside, part):
        if len(part) <= size:
            return [part]
        middle = size * (-(-len(part) // size) // 2)
        side = np.argmax(inside.max(axis=1) - inside.min(axis=1))
        order = np.argpartition(inside[side], middle)
        inside, part = inside.take(order, axis=1), part.take(order)
        return halved(inside[:, :middle], part[:middle]) + halved(inside[:, middle:], part[middle:])

    # Coordinates first: extremes along long rows are much faster.
    return np.concatenate(halved(points.T.copy(), np.arange(len(points))))


def _boxes(keys, height, slack):
    """Mean and half-widths of each tile's keys, and what rounding may add to a score."""
    tiles = [keys[start:start + height].T.copy() for start in range(0, len(keys), height)]
    centres = np.array([tile.mean(axis=1) for tile in tiles])
    halves = np.array([np.abs(tile - centre[:, None]).max(axis=1)
                       for tile, centre in zip(tiles, centres, strict=True)])
    return centres, halves, slack


def _leaders(query, keys):
    """Keys with the largest score for a sample of queries; whether those serve others badly."""
    sample = query[::-(-len(query) // SAMPLE)]
    sample = _block(sample, keys.shape[1]).T[:len(sample)]
    best, largest = np.zeros(len(sample), int), np.full(len(sample), -np.inf)
    for start in range(0, len(keys), 4 * TILE):
        scores = sample @ keys[start:start + 4 * TILE].T
        found = scores.argmax(axis=1)
        found_scores = scores[np.arange(len(sample)), found]
        best = np.where(found_scores > largest, start + found, best)
        largest = np.maximum(found_scores, largest)
    scores = sample @ keys[best].T
    np.fill_diagonal(scores, -np.inf)
    unserved = (largest - scores.max(axis=1) > HIGHEST).any()
    return keys[np.unique(best)], len(query) > SAMPLE and unserved


def _block_sums(block, plan, exact, buffer):
    """Sums of weights times (v, 1) for one block of queries, shape (p + 1, queries)."""
    tiles, leaders, boxes = plan
    chosen, limits = range(len(tiles)), [leaders is not None] * len(tiles)
    if leaders is not None:
        block[-1] = -(leaders @ block).max(axis=0)
    if boxes is not None:
        chosen, limits = _bounded(block, *boxes)
    if exact:
        return _sums_by_exact_maxima(block, [tiles[tile] for tile in chosen], buffer)
    sums = np.zeros((len(tiles[0][1]), block.shape[1]))
    for tile in chosen:
        keys, values = tiles[tile]
        scores = _product(keys, block, buffer)
        if limits[tile]:
            np.clip(scores, LOWEST, HIGHEST, out=scores)
        sums += values @ np.exp(scores, out=scores)
    return sums


def _product(keys, block, buffer):
    scores = buffer[:len(keys) * block.shape[1]].reshape(len(keys), -1)
    if len(block) <= DEPTH:
        return np.matmul(keys, block, out=scores)
    # Longer sums numpy's linear algebra may cut at places that depend on its threads.
    np.matmul(keys[:, :DEPTH], block[:DEPTH], out=scores)
    for start in range(DEPTH, len(block), DEPTH):
        scores += keys[:, start:start + DEPTH] @ block[start:start + DEPTH]
    return scores


def _bounded(block, centres, halves, slack):
    """Tiles that matter, and for each tile whether its scores need limits."""
    means, spread = centres @ block, halves @ np.abs(block) + slack
    most, least = (means + spread).max(axis=1), (means - spread).min(axis=1)
    matter = np.flatnonzero(most > _negligible(len(centres)))
    return matter.tolist(), ((least < LOWEST) | (most > HIGHEST)).tolist()


def _negligible(tiles):
    """A score, relative to the largest, below which all keys together change no digit."""
    return -40.0 - np.log(TILE * tiles)


def _sums_by_exact_maxima(block, tiles, buffer):
    """The same sums in two passes, of which the first finds the largest score of each query.

    In the second, each tile is computed only for the queries for which it matters.
    """
    maxima = np.array([_product(keys, block, buffer).max(axis=0) for keys, _ in tiles])
    block[-1] -= maxima.max(axis=0)
    maxima -= maxima.max(axis=0)
    sums = np.zeros((len(tiles[0][1]), block.shape[1]))
    for (keys, values), largest in zip(tiles, maxima, strict=True):
        live = _in_eights(np.flatnonzero(largest > _negligible(len(tiles))))
        if not len(live):
            continue
        scores = _product(keys, block[:, live], buffer)
        np.clip(scores, LOWEST, HIGHEST, out=scores)
        sums[:, live] += values @ np.exp(scores, out=scores)
    return sums


def _in_eights(indices):
    """The indices, the first one repeated until their number is a multiple of eight."""
    return np.concatenate([indices, indices[:1].repeat(-len(indices) % 8)])
