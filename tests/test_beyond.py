"""Beyond the theorems: feed-forward layers, several heads, other scores and values, two tokens."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import rescaled_change, rotation, token_change
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import attn_clusters as ac
from attn_clusters.statements.beyond import (
    cluster_labels,
    feedforward_drive,
    log_split,
    measure_clusters,
)

ACTIVATIONS = {"relu": lambda u: max(u, 0.0), "tanh": np.tanh, "identity": lambda u: u}


def instance(seed, n=8, d=3, k=2):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, d)), *rng.standard_normal((2, k, d)),
            *rng.standard_normal((2, d, d)) / 2)


def heads_instance(seed, heads=3, n=7, d=3, k=2):
    rng = np.random.default_rng(seed)
    return (rng.standard_normal((n, d)), *rng.standard_normal((2, heads, k, d)),
            rng.standard_normal((heads, d, d)) / 2)


# --- feed-forward --------------------------------------------------------------------------------

@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("t", [0.0, 0.6])
def test_feedforward_agrees_with_the_naive_loop(activation, t):
    z, Q, K, V, W = instance(1)
    inner = rescaled_change(z, z @ expm(t * V).T, Q, K, V)
    slow = np.array([[sum(W[a, b] * ACTIVATIONS[activation](float(row[b])) for b in range(3))
                      for a in range(3)] for row in inner])
    assert_allclose(ac.FeedForwardFlow(Q, K, V, W, activation)(t, z), slow, atol=1e-13)


def test_identity_activation_is_the_rescaled_flow():
    z, Q, K, V, _ = instance(2)
    flow = ac.FeedForwardFlow(Q, K, V, np.eye(3), "identity")
    assert_allclose(flow(0.4, z), ac.RescaledFlow(Q, K, V)(0.4, z), atol=1e-15)
    own = ac.FeedForwardFlow(Q, K, V, np.eye(3), lambda u: u)
    assert_allclose(own(0.4, z), flow(0.4, z), atol=0)


def test_feedforward_equivariance():
    """Permutations of tokens always; permutations of coordinates, since sigma acts on each."""
    z, Q, K, V, W = instance(3)
    flow, order = ac.FeedForwardFlow(Q, K, V, W, "relu"), np.random.default_rng(4).permutation(8)
    assert_allclose(flow(0.3, z[order]), flow(0.3, z)[order], atol=1e-14)
    S = np.eye(3)[[2, 0, 1]]
    turned = ac.FeedForwardFlow(Q @ S.T, K @ S.T, S @ V @ S.T, S @ W @ S.T, "relu")
    assert_allclose(turned(0.3, z @ S.T), flow(0.3, z) @ S.T, atol=1e-13)
    batch = np.stack([z, z[order]])
    assert_allclose(flow(0.3, batch)[0], flow(0.3, z), atol=1e-14)


def order_of(flow, tokens):
    exact = ac.simulate(flow, tokens, [0, 1], rtol=1e-11, atol=1e-13).tokens[-1]
    errors = [np.abs(ac.simulate(flow, tokens, [0, 1], method="Euler", step=step).tokens[-1]
                     - exact).max() for step in (1 / 100, 1 / 200, 1 / 400)]
    return np.log2(np.array(errors[:-1]) / errors[1:])


def test_layers_of_both_flows_converge_at_first_order():
    """Halving the step halves the error, up to terms of relative order step."""
    z, Q, K, V, W = instance(5)
    assert_allclose(order_of(ac.FeedForwardFlow(Q, K, V, W, "tanh"), z), 1, atol=0.05)
    x, Qs, Ks, Vs = heads_instance(6)
    assert_allclose(order_of(ac.MultiHeadFlow(Qs, Ks, Vs), x), 1, atol=0.05)


POSITIVE = np.array([[0.65, 0.82], [0.61, 0.63]])  # phi_1 has positive entries only


def feedforward_run(activation, W, V=POSITIVE, seed=1, final=10.0):
    flow = ac.FeedForwardFlow(np.eye(2), np.eye(2), V, W, activation)
    tokens = np.random.default_rng(seed).uniform(-5, 5, (20, 2))
    return ac.simulate(flow, tokens, np.linspace(0, final, 11), method="Euler", step=0.05)


def test_feedforward_verdict_says_yes_and_no():
    feedforward = ac.statements["feedforward"]
    assert feedforward.verify(feedforward_run("tanh", np.eye(2))).holds
    relu = feedforward.verify(feedforward_run("relu", np.eye(2)))
    assert relu.applies and not relu.holds  # one side stands still
    assert not feedforward.verify(feedforward_run("tanh", np.eye(2), V=-POSITIVE, final=1)).applies
    with pytest.raises(ValueError, match="FeedForwardFlow"):
        good = ac.RescaledFlow(np.eye(2), np.eye(2), POSITIVE)
        feedforward.verify(ac.simulate(good, np.ones((2, 2)), [0, 1]))


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("W", [np.eye(2), -np.eye(2)])
def test_drive_predicts_what_tokens_do(activation, W):
    """W = I: the far side is reached; W = -I: back to the plane; ReLU below the plane: neither."""
    run = feedforward_run(activation, W)
    levels = run.tokens @ np.real(ac.spectrum.leading_eigenpair(POSITIVE).left)
    up, down = feedforward_drive(run.flow)
    assert np.sign(up) == W[0, 0]
    assert np.sign(down) == (0 if activation == "relu" else W[0, 0])
    middle = levels[5]  # by then every token has chosen its side
    tokens_above = np.flatnonzero(middle > 0.3)
    gaps = levels[:, tokens_above].max(axis=1, keepdims=True) - levels[:, tokens_above]
    if up > 0:
        assert np.median(gaps[-1]) < 0.05 * np.median(gaps[0])
    if down == 0:
        still = np.flatnonzero(levels[0] < -1.0)
        still = still[levels[-1, still] < 0]
        moved = np.abs(levels[-1, still] - levels[2, still])
        assert len(still) > 2 and np.median(moved) < 0.05


# --- several heads -------------------------------------------------------------------------------

@pytest.mark.parametrize("seed", range(3))
def test_multihead_agrees_with_the_naive_loop(seed):
    x, Qs, Ks, Vs = heads_instance(seed)
    slow = sum(token_change(x, Q, K, V) for Q, K, V in zip(Qs, Ks, Vs, strict=True))
    assert_allclose(ac.MultiHeadFlow(Qs, Ks, Vs)(0.0, x), slow, atol=1e-13)


def test_one_head_is_the_token_flow():
    x, Q, K, V, _ = instance(7)
    flow, alone = ac.MultiHeadFlow([Q], [K], [V]), ac.TokenFlow(Q, K, V)
    assert_allclose(flow(0.0, x), alone(0.0, x), atol=1e-15)
    assert_allclose(flow.rescale(0.7, x), alone.rescale(0.7, x), atol=1e-13)
    layers = [ac.simulate(each, x, [0, 0.3, 0.6], method="Euler").tokens for each in (flow, alone)]
    assert_allclose(layers[0], layers[1], atol=1e-13)


def test_equal_heads_are_one_head_with_the_sum_of_values():
    x, Qs, Ks, Vs = heads_instance(8)
    equal = ac.MultiHeadFlow(np.tile(Qs[0], (3, 1, 1)), np.tile(Ks[0], (3, 1, 1)), Vs)
    one = ac.TokenFlow(Qs[0], Ks[0], Vs.sum(axis=0))
    assert_allclose(equal(0.0, x), one(0.0, x), atol=1e-13)
    order = [2, 0, 1]
    permuted = ac.MultiHeadFlow(Qs[order], Ks[order], Vs[order])
    assert_allclose(permuted(0.0, x), ac.MultiHeadFlow(Qs, Ks, Vs)(0.0, x), atol=1e-13)


def test_multihead_equivariance():
    x, Qs, Ks, Vs = heads_instance(9)
    flow, R = ac.MultiHeadFlow(Qs, Ks, Vs), rotation(3, 10)
    turned = ac.MultiHeadFlow(Qs @ R.T, Ks @ R.T, R @ Vs @ R.T)
    assert_allclose(turned(0.0, x @ R.T), flow(0.0, x) @ R.T, atol=1e-13)
    order = np.random.default_rng(11).permutation(7)
    assert_allclose(flow(0.0, x[order]), flow(0.0, x)[order], atol=1e-14)


def test_multihead_verdict_says_yes_and_no():
    rng = np.random.default_rng(12)
    Qs, x = rng.standard_normal((4, 2, 2)), rng.uniform(-5, 5, (20, 2))
    flow = ac.MultiHeadFlow(Qs, Qs, np.tile(np.eye(2) / 4, (4, 1, 1)))
    times = np.linspace(0, 10, 11)
    assert ac.statements["multihead"].verify(ac.simulate(flow, x, times)).holds
    early = ac.statements["multihead"].verify(ac.simulate(flow, x, [0, 0.01]))
    assert early.applies and not early.holds
    alone = ac.MultiHeadFlow(Qs[:1], Qs[:1], [np.eye(2)])
    assert not ac.statements["multihead"].verify(ac.simulate(alone, x, times)).applies


# --- other scores, other values ------------------------------------------------------------------

@pytest.mark.parametrize("B", [np.diag([1.0, -1.0]), -np.eye(2), [[0.5, 2.0], [-1.0, 0.3]]])
def test_indefinite_scores_cluster(B):
    tokens = np.random.default_rng(13).uniform(-5, 5, (20, 2))
    run = ac.simulate(ac.RescaledFlow(np.eye(2), B, np.eye(2)), tokens, np.linspace(0, 15, 16))
    report = ac.statements["indefinite"].verify(run)
    applies = np.linalg.eigvalsh(np.array(B) + np.transpose(B))[0] < 0
    assert report.applies == applies and report.holds == applies


@pytest.mark.parametrize("V", [[[1.0, -0.5], [0.5, 1.0]], [[1.0, -2.0], [0.5, 1.0]]])
def test_complex_pair_with_positive_real_part_clusters(V):
    tokens = np.random.default_rng(14).uniform(-5, 5, (20, 2))
    flow = ac.RescaledFlow(np.eye(2), np.eye(2), V)
    run = ac.simulate(flow, tokens, np.linspace(0, 15, 16), method="Euler", step=0.02)
    assert ac.statements["random_v"].verify(run).holds


def test_clusters_can_say_no():
    """A cloud that does not gather; a pair with negative real part; matrices of another kind."""
    cloud = np.random.default_rng(15).uniform(-5, 5, (20, 2))
    assert not measure_clusters(np.stack([cloud, cloud]), 0.02).checks[0].holds
    spread = np.stack([cloud, np.tile(cloud[:4], (5, 1))])
    assert measure_clusters(spread, 0.02).checks[0].holds
    V = [[-1.0, -0.5], [0.5, -1.0]]
    run = ac.simulate(ac.RescaledFlow(np.eye(2), np.eye(2), V), cloud, np.linspace(0, 10, 11))
    report = ac.statements["random_v"].verify(run)
    assert not report.applies and not report.holds and not report.checks[0].holds
    assert not ac.statements["random_v"].verify(
        ac.simulate(ac.RescaledFlow(np.eye(2), np.eye(2), np.eye(2)), cloud, [0, 1])).applies
    definite = ac.simulate(ac.RescaledFlow(np.eye(2), np.eye(2), np.eye(2)), cloud, [0, 1])
    assert not ac.statements["indefinite"].verify(definite).applies


def test_cluster_distances_follow_a_cloud_that_turns():
    """Clusters that move rigidly are clusters; labels do not depend on the order of tokens."""
    centres = np.array([[3.0, 0.0], [-1.0, 2.0], [0.0, -2.0]])
    tokens = np.repeat(centres, 4, axis=0)
    turned = np.stack([tokens @ rotation(2, seed).T for seed in range(3)])
    assert measure_clusters(turned, 0.02).distances.max() < 1e-14
    order = np.random.default_rng(16).permutation(12)
    labels = cluster_labels(tokens[order], 0.1)
    assert labels.max() == 2
    assert_allclose(tokens[order][labels == labels[0]], tokens[order][0] * np.ones((4, 2)))


# --- two tokens ----------------------------------------------------------------------------------

@pytest.mark.parametrize("e", [0.3, 0.5, 1.0, 2.0, 5.0])
def test_two_tokens_end_where_the_closed_form_says(e):
    """The full flow of two tokens against the quadrature, to 1e-10."""
    flow = ac.RescaledFlow(np.eye(2), np.eye(2), np.eye(2))
    run = ac.simulate(flow, [[1.0, e], [1.0, -e]], [0, 3 + 1 / (2 * e**2)], rtol=1e-12, atol=1e-14)
    assert run.tokens[-1, 0, 1] == pytest.approx(np.exp(log_split(e)), rel=0, abs=1e-10)
    assert ac.statements["two_tokens"].verify(run, tolerance=1e-10).holds


def test_two_tokens_in_any_dimension():
    """Only the distance of two tokens of equal norm enters."""
    rng = np.random.default_rng(17)
    pair = rng.standard_normal((2, 4))
    pair /= np.linalg.norm(pair, axis=1, keepdims=True)
    run = ac.simulate(ac.RescaledFlow(*np.tile(np.eye(4), (3, 1, 1))), pair, [0, 8],
                      rtol=1e-12, atol=1e-14)
    assert ac.statements["two_tokens"].verify(run, tolerance=1e-8).holds


def test_two_tokens_can_say_no():
    """Too early; one cluster, as the remark has it; other values; other tokens."""
    flow, pair = ac.RescaledFlow(np.eye(2), np.eye(2), np.eye(2)), [[1.0, 0.5], [1.0, -0.5]]
    two_tokens = ac.statements["two_tokens"]
    early = two_tokens.verify(ac.simulate(flow, pair, [0, 1]))
    assert early.applies and not early.holds and not early.checks[0].holds
    merged = ac.Trajectory(flow, np.array([0.0, 10.0]),
                           np.array([pair, [[1.0, 0.0], [1.0, 0.0]]]), "none", 0)
    assert two_tokens.verify(merged).distances.max() == pytest.approx(np.exp(log_split(0.5)))
    assert not two_tokens.verify(merged).holds
    other = ac.RescaledFlow(np.eye(2), np.eye(2), 2 * np.eye(2))
    assert not two_tokens.verify(ac.simulate(other, pair, [0, 1])).applies
    with pytest.raises(ValueError, match="equal norm"):
        two_tokens.verify(ac.simulate(flow, [[1.0, 0.5], [1.0, -0.4]], [0, 1]))


@pytest.mark.parametrize("e", [0.05, 0.2, 0.7, 3.0])
def test_log_split_agrees_with_the_scalar_equation(e):
    """log c = log e - int (1 - tanh e(t)^2) dt, with the scalar equation for u = log e(t)."""
    def change(t, y):
        grown = np.tanh(np.exp(2 * y[0]))
        return [grown, grown - 1]

    # After t = 1/(2 e^2) + 4 the integrand is below exp(-2 e^(2 * 3)), that is 0.
    solution = solve_ivp(change, (0, 1 / (2 * e**2) + 4), [np.log(e), np.log(e)], method="DOP853",
                         rtol=1e-13, atol=1e-13)
    assert log_split(e) == pytest.approx(solution.y[1, -1], abs=1e-10, rel=1e-12)


def test_log_split_for_small_and_large_distances():
    """The constant sqrt(pi) exp(-gamma/2), the first correction e^2/6, and c = e far apart."""
    for e in (0.05, 0.1):
        leading = np.log(np.pi) / 2 - np.euler_gamma / 2 - 1 / (2 * e**2)
        # The next term of the series is e^6 / 270.
        assert log_split(e) - leading == pytest.approx(e**2 / 6, abs=e**6 / 200 + 1e-12)
    assert log_split(10.0) == pytest.approx(np.log(10.0), abs=1e-13)  # (1 - tanh 100) is 0


def test_bad_arguments_are_refused_by_name():
    eye = np.eye(2)
    for make, name in [
            (lambda: ac.FeedForwardFlow(eye, eye, eye, np.eye(3)), "W"),
            (lambda: ac.FeedForwardFlow(eye, eye, eye, eye, "softplus"), "activation"),
            (lambda: ac.FeedForwardFlow(eye, eye, eye, eye * np.nan), "W"),
            (lambda: ac.FeedForwardFlow(eye, eye, eye, eye)(0.0, np.ones((2, 3))), "tokens"),
            (lambda: ac.MultiHeadFlow(eye, eye, eye), "Qs"),
            (lambda: ac.MultiHeadFlow([eye], [eye, eye], [eye]), "Ks"),
            (lambda: ac.MultiHeadFlow([eye], [eye], [eye, eye]), "Vs"),
            (lambda: ac.MultiHeadFlow([eye], [eye], [np.ones((2, 3))]), "Vs"),
            (lambda: ac.MultiHeadFlow([eye], [eye], [eye])(0.0, np.ones((2, 3))), "tokens"),
    ]:
        with pytest.raises(ValueError, match=rf"^{name}: "):
            make()
