"""Many tokens: the fast paths against the direct sum, and the errors that they promise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import attn_clusters as ac
from attn_clusters import fast
from attn_clusters.fast import circle_field, line_average

N = 3000
V = np.array([[1.0, 0.3], [-0.2, 2.0]])
TURN = np.array([[0.6, -0.8], [0.8, 0.6]])
MATRICES = [np.eye(2), TURN, np.diag([1.0, -1.0]), np.diag([1.0, 0.15]),
            np.array([[0.3, 1.0], [-0.5, 0.2]])]


def circle(angles):
    return np.column_stack([np.cos(angles), np.sin(angles)])


def tokens_and_weights(seed):
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 1.5, N)
    return circle(rng.vonmises(1, 2, N)), weights / weights.sum()


@pytest.mark.parametrize("backend", ["numpy", "finufft"])
@pytest.mark.parametrize("beta", [0.1, 5.0, 20.0, 300.0])
@pytest.mark.parametrize("B", MATRICES, ids=["identity", "turn", "reflection", "diagonal", "general"])
def test_circle_keeps_the_error_it_promises(B, beta, backend, monkeypatch):
    if backend == "finufft":
        pytest.importorskip("finufft", reason="the extra fft is not installed")
        monkeypatch.setattr(fast, "MANY_MODES", 8)
    else:
        monkeypatch.setattr(fast, "finufft", None)
    x, weights = tokens_and_weights(1)
    average, error = fast._circle(x, x, beta * B, weights)
    direct = ac.attention_field(x, x, B, np.eye(2), beta, weights)
    assert error < 1e-9  # the fast path was taken, at the default tolerance
    # The direct sum is itself off by a few eps times its scores of up to beta |B|.
    assert np.abs(average - direct).max() < error + 1e-15 * beta
    assert_allclose(circle_field(x, x, B, V, beta, weights), average @ V.T, rtol=0, atol=0)


def test_circle_at_points_that_are_not_tokens():
    x, weights = tokens_and_weights(2)
    points = circle(np.linspace(0, 6, 2000))
    assert_allclose(circle_field(points, x, np.eye(2), V, 7.0, weights),
                    ac.attention_field(points, x, np.eye(2), V, 7.0, weights), atol=1e-9)


def test_circle_takes_arrays_of_any_layout():
    x, weights = tokens_and_weights(6)
    expected = circle_field(x, x, TURN, V, 7.0, weights)
    for other in (np.asfortranarray(x), np.repeat(x, 2, axis=0)[::2]):
        assert_allclose(circle_field(other, other, TURN, V, 7.0, weights), expected, atol=1e-14)


def test_circle_falls_back_where_the_normaliser_is_lost():
    """All tokens near one point, a query opposite: e^(-2 beta) is below the rounding of the sums."""
    x = circle(np.random.default_rng(3).normal(0, 0.01, N))
    points = np.concatenate([-x[:1], x])
    _, error = fast._circle(points, x, 40 * np.eye(2), None)
    assert error > 1
    found = circle_field(points, x, np.eye(2), V, 40.0)
    assert np.array_equal(found, ac.attention_field(points, x, np.eye(2), V, 40.0))


def test_circle_promises_nothing_for_few_tokens_or_huge_beta():
    x = circle(np.arange(50.0))
    for beta in (1.0, 1e12):
        assert fast._circle(x, x, beta * np.eye(2), None)[1] == np.inf
        assert np.array_equal(circle_field(x, x, np.eye(2), V, beta),
                              ac.attention_field(x, x, np.eye(2), V, beta))


def test_circle_with_a_singular_matrix_falls_back():
    """|B^T x| has a kink, so its Fourier series never ends."""
    x, weights = tokens_and_weights(4)
    B = np.diag([1.0, 0.0])
    assert fast._circle(x, x, 10 * B, weights)[1] == np.inf
    assert np.array_equal(circle_field(x, x, B, V, 10.0, weights),
                          ac.attention_field(x, x, B, V, 10.0, weights))


@pytest.mark.parametrize("beta", [1e-4, 1.0, 1e2, 1e4, 1e8])
@pytest.mark.parametrize("weighted", [False, True])
def test_line_keeps_the_error_it_promises(beta, weighted):
    rng = np.random.default_rng(5)
    key, value = rng.uniform(-1, 1, (2 * N, 1)), rng.standard_normal((2 * N, 2))
    query = beta * rng.standard_normal((2 * N, 1))
    log_weights = rng.standard_normal(2 * N) if weighted else None
    average, error = fast._line(query[:, 0], key[:, 0], value, log_weights)
    direct = ac.attention_average(query, key, value, log_weights)
    assert error < 1e-9
    # Rounding of a score q k moves the direct average by the same amount relative to the values.
    rounding = 1e-15 * min(beta * 4, 1e4)
    assert np.abs(average - direct).max() < (error + rounding) * np.abs(value).max()
    assert np.array_equal(line_average(query, key, value, log_weights), average)


def test_line_far_from_all_heavy_tokens_falls_back():
    key = np.concatenate([np.zeros(N), [1.0]])[:, None]
    log_weights = np.concatenate([np.zeros(N), [-45.0]])
    query = np.linspace(1, 1e3, N)[:, None]
    _, error = fast._line(query[:, 0], key[:, 0], key, log_weights)
    assert error > 1e-9
    assert np.array_equal(line_average(query, key, key, log_weights),
                          ac.attention_average(query, key, key, log_weights))


def test_line_with_equal_keys_or_few_tokens_is_the_direct_sum():
    value = np.arange(float(N))[:, None]
    assert_allclose(line_average(value, np.ones((N, 1)), value), value.mean(), rtol=1e-13)
    assert np.array_equal(line_average(value[:9], value[:9], value[:9]),
                          ac.attention_average(value[:9], value[:9], value[:9]))


@pytest.mark.parametrize("flow, tokens", [
    (lambda fast: ac.SphereFlow(np.diag([1.0, 0.5]), V, 4.0, fast=fast), tokens_and_weights(6)[0]),
    (lambda fast: ac.RescaledFlow([[1.0]], [[1.0]], [[1.0]], fast=fast),
     np.random.default_rng(7).uniform(-2, 2, (N, 1))),
    (lambda fast: ac.TokenFlow([[1.0]], [[1.0]], [[-1.0]], fast=fast),
     np.random.default_rng(8).uniform(-2, 2, (N, 1)))], ids=["sphere", "rescaled", "tokens"])
def test_flows_take_the_fast_path_when_asked(flow, tokens):
    quick, direct = flow(True)(0.7, tokens), flow(False)(0.7, tokens)
    assert_allclose(quick, direct, atol=1e-9)
    assert not np.array_equal(quick, direct)
    few = tokens[:30]
    assert np.array_equal(flow(True)(0.7, few), flow(False)(0.7, few))


@pytest.mark.parametrize("call, name", [
    (lambda: circle_field(2 * np.eye(2), np.eye(2), np.eye(2), V, 1.0), "points"),
    (lambda: circle_field(np.eye(2), np.eye(3), np.eye(2), V, 1.0), "tokens"),
    (lambda: circle_field(np.eye(2), np.eye(2), np.eye(3), V, 1.0), "B"),
    (lambda: circle_field(np.eye(2), np.eye(2), np.eye(2), V, 0.0), "beta"),
    (lambda: circle_field(np.eye(2), np.eye(2), np.eye(2), V, 1.0, [1.0]), "weights"),
    (lambda: circle_field(np.eye(2), np.eye(2), np.eye(2), V, 1.0, tolerance=0.0), "tolerance"),
    (lambda: line_average(np.eye(2), np.eye(2), np.eye(2)), "query"),
    (lambda: line_average(np.ones((2, 1)), np.ones((2, 1)), np.ones((3, 1))), "value"),
])
def test_bad_input_is_refused_by_name(call, name):
    with pytest.raises(ValueError, match=f"^{name}"):
        call()
