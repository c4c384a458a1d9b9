"""Equations A1 and A2: naive loops, closed forms, equivariance, and their exact equivalence."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import rescaled_change, rotation, token_change
from scipy.linalg import expm

import attn_clusters as ac


def instance(seed, n=8, d=3, k=2):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, d)), *rng.standard_normal((2, k, d)),
            rng.standard_normal((d, d)) / 2)


@pytest.mark.parametrize("seed", range(5))
def test_token_flow_agrees_with_the_naive_loop(seed):
    x, Q, K, V = instance(seed)
    assert_allclose(ac.TokenFlow(Q, K, V)(0.0, x), token_change(x, Q, K, V), atol=1e-13)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("t", [0.0, 0.7])
def test_rescaled_flow_agrees_with_the_naive_loop(seed, t):
    z, Q, K, V = instance(seed)
    x = z @ expm(t * V).T
    assert_allclose(ac.RescaledFlow(Q, K, V)(t, z), rescaled_change(z, x, Q, K, V), atol=1e-12)


def test_only_the_product_of_query_and_key_enters():
    x, Q, K, V = instance(0)
    direct = ac.TokenFlow(Q, K, V)(0.0, x)
    assert_allclose(direct, ac.TokenFlow(np.eye(3), Q.T @ K, V)(0.0, x), atol=1e-14)


def test_one_token_follows_the_matrix_exponential():
    """n = 1: x(t) = e^{tV} x(0), and z stands still."""
    x, Q, K, V = instance(1, n=1)
    run = ac.simulate(ac.TokenFlow(Q, K, V), x, [0, 1, 2], rtol=1e-11)
    assert_allclose(run.tokens[-1], x @ expm(2 * V).T, rtol=1e-9)
    assert_allclose(ac.simulate(ac.RescaledFlow(Q, K, V), x, [0, 2]).tokens[-1], x, atol=1e-14)


def test_equal_tokens_stay_equal_and_follow_the_exponential():
    _, Q, K, V = instance(2)
    x = np.tile([0.3, -1.0, 0.5], (6, 1))
    run = ac.simulate(ac.TokenFlow(Q, K, V), x, [0, 1], rtol=1e-11)
    assert_allclose(run.tokens[-1], x @ expm(V).T, rtol=1e-9)


def test_without_values_nothing_moves():
    x, Q, K, _ = instance(3)
    for flow in (ac.TokenFlow, ac.RescaledFlow):
        assert not flow(Q, K, np.zeros((3, 3)))(0.4, x).any()


@pytest.mark.parametrize("seed", range(4))
def test_the_two_flows_are_one(seed):
    """z = e^{-tV} x carries solutions of A1 into solutions of A2."""
    x, Q, K, V = instance(seed)
    times = np.linspace(0, 2, 5)
    tokens = ac.simulate(ac.TokenFlow(Q, K, V), x, times, rtol=1e-11, atol=1e-12)
    rescaled = ac.simulate(ac.RescaledFlow(Q, K, V), x, times, rtol=1e-11, atol=1e-12)
    for t, xs, zs in zip(times, tokens.tokens, rescaled.tokens, strict=True):
        # Two paths of a solver at 1e-11 per step, stretched by e^{tV}.
        assert_allclose(zs @ expm(t * V).T, xs, atol=1e-8 * np.abs(xs).max())
        assert_allclose(tokens.flow.rescale(t, xs), zs, atol=1e-8 * np.abs(zs).max())


@pytest.mark.parametrize("seed", range(4))
def test_discrete_layers_are_one(seed):
    """z^k = R^{-k} x^k with R = I + step V, exactly, at a step far from the continuous limit."""
    x, Q, K, V = instance(seed)
    step, times = 0.3, np.arange(6) * 0.3
    layers = ac.simulate(ac.TokenFlow(Q, K, V), x, times, method="Euler")
    rescaled = ac.simulate(ac.RescaledFlow(Q, K, V), x, times, method="Euler")
    R = np.eye(3) + step * V
    for k, (xs, zs) in enumerate(zip(layers.tokens, rescaled.tokens, strict=True)):
        assert_allclose(zs @ np.linalg.matrix_power(R, k).T, xs, atol=1e-11 * np.abs(xs).max())


def test_discrete_layer_is_the_transformers():
    x, Q, K, V = instance(4)
    run = ac.simulate(ac.TokenFlow(Q, K, V), x, [0, 0.5], method="Euler")
    assert_allclose(run.tokens[-1], x + 0.5 * token_change(x, Q, K, V), atol=1e-13)


@pytest.mark.parametrize("flow", [ac.TokenFlow, ac.RescaledFlow])
def test_permutation_equivariance(flow):
    x, Q, K, V = instance(5)
    order = np.random.default_rng(0).permutation(len(x))
    right = flow(Q, K, V)
    assert_allclose(right(0.5, x[order]), right(0.5, x)[order], atol=1e-13)


@pytest.mark.parametrize("flow", [ac.TokenFlow, ac.RescaledFlow])
def test_rotation_equivariance(flow):
    """Turning tokens by U and the matrices to Q U^T, K U^T, U V U^T turns the derivative by U."""
    x, Q, K, V = instance(6)
    U = rotation(3, 7)
    turned = flow(Q @ U.T, K @ U.T, U @ V @ U.T)(0.5, x @ U.T)
    assert_allclose(turned, flow(Q, K, V)(0.5, x) @ U.T, atol=1e-12)


@pytest.mark.parametrize("flow", [ac.TokenFlow, ac.RescaledFlow])
def test_a_batch_is_its_runs(flow):
    x, Q, K, V = instance(7)
    batch = np.stack([x, 2 * x, -x])
    right = flow(Q, K, V)
    single = np.stack([right(0.3, run) for run in batch])
    assert_allclose(right(0.3, batch), single, atol=1e-13)


@pytest.mark.parametrize("changes, name", [
    (dict(V=np.ones((2, 3))), "V"), (dict(Q=np.ones((2, 2))), "Q"), (dict(K=np.ones((1, 3))), "K"),
    (dict(V=np.full((3, 3), np.inf)), "V"), (dict(Q=[["a"] * 3]), "Q")])
def test_bad_matrices_are_refused_by_name(changes, name):
    good = dict(Q=np.ones((2, 3)), K=np.ones((2, 3)), V=np.eye(3))
    with pytest.raises(ValueError, match=f"^{name}"):
        ac.RescaledFlow(**(good | changes))


def test_flows_are_frozen_and_keep_their_own_matrices():
    V = np.eye(2)
    flow = ac.TokenFlow(np.eye(2), np.eye(2), V)
    V[0, 0] = 7.0
    assert flow.V[0, 0] == 1.0
    with pytest.raises(ValueError):
        flow.V[0, 0] = 2.0
    with pytest.raises(AttributeError):
        flow.V = V


def test_wrong_number_of_coordinates_is_refused():
    with pytest.raises(ValueError, match="^tokens"):
        ac.TokenFlow(np.eye(2), np.eye(2), np.eye(2))(0.0, np.ones((4, 3)))
