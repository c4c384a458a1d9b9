"""Many tokens: the average tile by tile, against the plain formula in longer precision."""

import importlib.util
import os
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import attn_clusters as ac
from attn_clusters import _tiles

N = 2 * _tiles.TILE + 61
EPS = np.finfo(float).eps


def plain(query, key, value, log_weights=0.0):
    """The formula in long double, with whole (m, n) arrays."""
    scores = query.astype(np.longdouble) @ key.T.astype(np.longdouble) + log_weights
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights @ value / weights.sum(axis=1, keepdims=True)


def allowed(query, key, log_weights=0.0):
    """1e-13, or what rounding of scores does where they are large: in float64 every score is off by
    a few units in the last place of |q| |k|, and the average by as much relative to the values."""
    size = np.linalg.norm(query, axis=1).max() * np.linalg.norm(key, axis=1).max()
    return max(1e-13, 4 * EPS * (size + np.abs(log_weights).max()))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("beta", [0.01, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("d", [1, 2, 3, 5, 64])
def test_every_dimension_and_temperature(d, beta, weighted):
    rng = np.random.default_rng(d)
    x = rng.uniform(-1, 1, (N, d))
    log_weights = 3 * rng.standard_normal(N) if weighted else np.zeros(N)
    result = ac.attention_average(beta * x, x, x, log_weights if weighted else None)
    assert_allclose(result, plain(beta * x, x, x, log_weights), rtol=0,
                    atol=allowed(beta * x, x, log_weights))


def test_a_row_to_fifty_digits():
    rng = np.random.default_rng(1)
    x = rng.uniform(-5, 5, (N, 2))
    result = ac.attention_average(x, x, x)
    with localcontext(prec=50):
        exact = [[Decimal(entry) for entry in row] for row in x.tolist()]
        for row in (0, N - 1):
            weights = [sum(map(Decimal.__mul__, exact[row], key)).exp() for key in exact]
            for axis in (0, 1):
                total = sum(weight * key[axis] for weight, key in zip(weights, exact, strict=True))
                # Scores are at most 50, hence relative errors of weights about 50 eps = 1e-14.
                assert abs(total / sum(weights) - Decimal(float(result[row, axis]))) < 1e-13


@pytest.mark.parametrize("scale", [1e2, 1e4, 1e8])
def test_clusters_at_late_times(scale):
    """Tokens next to five corners, far apart: whole tiles are left out."""
    rng = np.random.default_rng(2)
    corners = rng.uniform(-1, 1, (5, 2))
    x = scale * (corners[rng.integers(5, size=4 * N)] + rng.standard_normal((4 * N, 2)) / scale)
    values = x / scale
    assert_allclose(ac.attention_average(x[:N], x, values), plain(x[:N], x, values), rtol=0,
                    atol=allowed(x[:N], x))


def test_largest_scores_far_above_the_means_of_their_tiles():
    """One far key in each tile: scores spread over thousands, and another best key for each half."""
    key = np.full((4 * _tiles.TILE, 1), -1.0)
    key[::_tiles.TILE] = np.array([[4.0], [3.0], [2.0], [1.0]])
    query = np.linspace(-900, 900, N)[:, None]
    value = np.random.default_rng(3).standard_normal((len(key), 2))
    assert_allclose(ac.attention_average(query, key, value), plain(query, key, value), rtol=0,
                    atol=allowed(query, key))
    # And with keys in rising order, so that the largest score comes last.
    order = np.argsort(key[:, 0])
    assert_allclose(ac.attention_average(query, key[order], value[order]),
                    plain(query, key, value), rtol=0, atol=allowed(query, key))


def test_log_weights_over_thousands():
    rng = np.random.default_rng(4)
    x, log_weights = rng.uniform(-1, 1, (N, 2)), rng.uniform(-3000, 0, N)
    assert_allclose(ac.attention_average(x, x, x, log_weights), plain(x, x, x, log_weights),
                    rtol=0, atol=allowed(x, x, log_weights))


@pytest.mark.parametrize("exponent", [3, 10, 20, 60, 150])
@pytest.mark.parametrize("d", [1, 2, 7])
def test_no_scale_leaves_the_hull_of_the_values(d, exponent):
    """Scores up to 1e300: convex combinations all the same, and no NaN."""
    rng = np.random.default_rng(d)
    x = 10.0**exponent * rng.uniform(-1, 1, (N, d))
    value = rng.uniform(1, 2, (N, 3))
    result = ac.attention_average(x, x, value)
    assert (result >= 1 - 4 * EPS).all() and (result <= 2 + 8 * EPS).all()


def test_far_scores_choose_the_largest():
    """Scores of 1e18 apart by more than their rounding: the average is the hardmax."""
    key = np.random.default_rng(5).permutation(np.arange(1.0, N + 1))[:, None]
    query = np.where(np.arange(N) % 2, 1e16, -1e16)[:, None]
    assert_allclose(ac.attention_average(query, key, key),
                    np.where(query > 0, float(N), 1.0), rtol=4 * EPS)


def test_scores_and_values_at_the_edge_of_float64():
    x = np.random.default_rng(6).standard_normal((N, 2))
    with pytest.raises(ValueError, match=r"^query: a score"):
        ac.attention_average(1e200 * x, 1e200 * x, x)
    huge = np.full((N, 1), 1.7e308)
    assert_allclose(ac.attention_average(x, x, huge), huge, rtol=8 * EPS)


def test_a_batch_of_large_runs_is_its_runs():
    x = np.random.default_rng(7).uniform(-3, 3, (3, N, 2))
    batch = ac.attention_average(x, x, x)
    assert np.array_equal(batch, np.stack([ac.attention_average(run, run, run) for run in x]))


@pytest.mark.parametrize("d, size", [(2, 1.0), (2, 1e3), (2, 1e6), (40, 1.0), (40, 1e3)])
def test_threads_change_no_bit(d, size, monkeypatch):
    x = size * np.random.default_rng(8).uniform(-1, 1, (3 * N, d))
    monkeypatch.setattr(_tiles, "THREADS_FROM", 1)
    monkeypatch.setattr(_tiles, "_threads", lambda scores, width: _tiles.THREADS)
    results = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(_tiles, "THREADS", threads)
        results.append(ac.attention_average(x, x, x))
    assert np.array_equal(results[0], results[1]) and np.array_equal(results[0], results[2])


def test_threads_of_the_linear_algebra_change_no_bit():
    """Tiles have widths and depths for which numpy's library adds in one order, shared out or not."""
    code = ("import numpy as np, attn_clusters as ac\n"
            "for d in (1, 2, 3, 10, 41, 64, 127, 500):\n"
            "    for n in (123, 256, 701):\n"
            "        x = np.random.default_rng(9).uniform(-1, 1, (n, d)) / d**0.5\n"
            "        for beta in (1, 1e4, 1e7):\n"
            "            print(ac.attention_average(beta * x[:-7], x, x).tobytes().hex())")
    found = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                            env=os.environ | {"OPENBLAS_NUM_THREADS": count}).stdout
             for count in ("1", "2", "4")]
    assert found[0] == found[1] == found[2] and len(found[0]) > 10**6


def test_threads_share_the_blocks(monkeypatch):
    """Two blocks of 256 queries or more for each thread, and no threads for few scores."""
    pools = []

    class Recorded(ThreadPoolExecutor):
        def __init__(self, workers):
            pools.append(workers)
            super().__init__(workers)

    monkeypatch.setattr(_tiles, "ThreadPoolExecutor", Recorded)
    monkeypatch.setattr(_tiles, "THREADS", 64)
    x = np.random.default_rng(13).uniform(-1, 1, (4096, 2))
    ac.attention_average(x, x, x)
    ac.attention_average(x[:2048], x, x)
    assert pools == [7]  # eight, with the one that runs the test
    monkeypatch.setattr(_tiles, "THREADS_FROM", 1)
    ac.attention_average(x[:1536], x, x)
    ac.attention_average(x[:1000], x, x)
    assert pools == [7, 2]


def test_own_threads_wait_for_nobody(monkeypatch):
    """Products large enough for threads of numpy's library get none of ours, unless its can be held."""
    monkeypatch.setattr(_tiles, "THREADS", 2)
    monkeypatch.setattr(_tiles, "LINEAR_ALGEBRA", None)
    assert _tiles._threads(10**8, 4) == 2 and _tiles._threads(10**8, 5) == 1
    assert _tiles._threads(10**4, 4) == 1
    with _tiles._one_thread_of_linear_algebra():
        pass
    monkeypatch.setattr(_tiles, "LINEAR_ALGEBRA", object())
    assert _tiles._threads(10**8, 5) == 2


def test_linear_algebra_is_held_to_one_thread():
    pytest.importorskip("threadpoolctl")
    with _tiles._one_thread_of_linear_algebra():
        held = [library["num_threads"] for library in _tiles.LINEAR_ALGEBRA.info()
                if library["user_api"] == "blas"]
    assert held and set(held) == {1}


def test_queries_whose_best_key_no_leader_shows(monkeypatch):
    """One query in 100 looks where no sampled query does: its largest score is 1e5 above the leaders'."""
    rng = np.random.default_rng(11)
    query, key = rng.uniform(-1, 1, (2, N, 3))
    query[:, 0], query[:, 1:] = 0.0, 1e3 * query[:, 1:]
    odd = np.arange(5, N, 99)
    assert not set(odd) & set(range(0, N, -(-N // _tiles.SAMPLE)))
    query[odd] = [1e4, 0.0, 0.0]
    key[:, 0] = 0.0
    key[7] = [10.0, 0.0, 0.0]
    value = rng.standard_normal((N, 2))
    blocks, exact = [], _tiles._sums_by_exact_maxima
    monkeypatch.setattr(_tiles, "_sums_by_exact_maxima",
                        lambda block, *others: blocks.append(block.shape[1]) or exact(block, *others))
    assert_allclose(ac.attention_average(query, key, value), plain(query, key, value), rtol=0,
                    atol=allowed(query, key))
    assert blocks == [len(odd) + -len(odd) % 8]
    assert_allclose(ac.attention_average(query, key, value)[odd], value[[7] * len(odd)], atol=0)


@pytest.mark.parametrize("size", [1.0, 30.0])
def test_no_array_of_n_squared_numbers(size):
    """A run of 3000 tokens: an (n, n) array would take 72 MB."""
    x = size * np.random.default_rng(10).uniform(-1, 1, (3000, 2))
    flow = ac.RescaledFlow(np.eye(2), np.eye(2), np.eye(2))
    tracemalloc.start()
    ac.simulate(flow, x, [0.0, 0.05], method="Euler")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6


def test_the_benchmarks_loops_compute_what_the_flow_does():
    path = Path(__file__).resolve().parent.parent / "benchmarks" / "loops.py"
    spec = importlib.util.spec_from_file_location("loops", path)
    loops = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loops)
    rng = np.random.default_rng(12)
    z, Q, K, V = rng.standard_normal((6, 2)), *rng.standard_normal((3, 2, 2))
    expected = ac.RescaledFlow(Q, K, V)(0.7, z)
    for change in (loops.rescaled_change, loops.rescaled_change_with_one_exponential):
        assert_allclose(change(0.7, z, Q, K, V), expected, atol=1e-13)
