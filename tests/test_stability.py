"""The flow as a map of measures: it depends on the measure alone, and moves little if that does."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import attn_clusters as ac
from attn_clusters.experiments.stability import (
    distances,
    grid_tokens,
    lipschitz_constant,
    perturbations,
    sampled_distances,
    stability_bound,
)


def instance(seed, n=12, d=2):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (n, d)), *rng.standard_normal((3, d, d))


@pytest.mark.parametrize("flow", [ac.TokenFlow, ac.RescaledFlow])
def test_copies_of_all_tokens_change_nothing(flow):
    """The empirical measure is all that enters."""
    x, Q, K, V = instance(0)
    alone = flow(Q, K, V)(0.3, x)
    assert_allclose(flow(Q, K, V)(0.3, np.repeat(x, 3, axis=0)), np.repeat(alone, 3, axis=0),
                    atol=1e-13)


def test_continuity_equation_in_weak_form():
    """d/dt of the mean of f is the mean of <grad f, X[mu]>, for f = sin(x_1) x_2."""
    x, Q, K, V = instance(1)
    flow, h = ac.TokenFlow(Q, K, V), 1e-5
    field = flow(0.0, x)
    gradient = np.stack([np.cos(x[:, 0]) * x[:, 1], np.sin(x[:, 0])], axis=1)
    run = ac.simulate(lambda t, y: flow(t, y), x, [0.0, h, 2 * h], rtol=1e-12, atol=1e-14)
    mean = np.mean(np.sin(run.tokens[..., 0]) * run.tokens[..., 1], axis=1)
    slope = (-3 * mean[0] + 4 * mean[1] - mean[2]) / (2 * h)
    # One-sided differences of second order: h^2 times third derivatives, rounding 1e-16 / h.
    assert slope == pytest.approx(np.mean(np.sum(gradient * field, axis=1)), abs=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_the_field_obeys_the_lipschitz_constant(seed):
    """Fields of two coupled clouds differ in L2 by at most L times their distance."""
    x, Q, K, V = instance(seed)
    rng = np.random.default_rng(seed + 50)
    y = x + rng.choice([1e-4, 0.1, 1.0]) * rng.standard_normal(x.shape)
    radius = np.linalg.norm([x, y], axis=2).max()
    flow = ac.TokenFlow(Q, K, V)
    L = lipschitz_constant(radius, np.linalg.norm(V, 2), np.linalg.norm(Q.T @ K, 2))
    assert np.linalg.norm(flow(0.0, x) - flow(0.0, y)) <= L * np.linalg.norm(x - y)


def test_distances_stay_below_the_bound():
    x, Q, K, V = instance(3)
    Q, K, V = 0.7 * Q, 0.7 * K, V / 2
    times = np.linspace(0, 1, 41)
    found, radii = distances(ac.TokenFlow(Q, K, V), x, perturbations(x, 0.05, np.random.default_rng(4)),
                             times)
    bound = stability_bound(times, radii, np.linalg.norm(V, 2), np.linalg.norm(Q.T @ K, 2))
    assert (found <= found[:, :1] * bound * (1 + 1e-9)).all()
    assert (found[:, -1] > 0).all()


def test_perturbations_have_the_size_asked_for():
    x, *_ = instance(5, n=40)
    sizes = [ac.wasserstein2(x, y) for y in perturbations(x, 1e-3, np.random.default_rng(6))]
    assert_allclose(sizes, 1e-3, rtol=1e-6)  # smaller than gaps: the identity is optimal


def test_samples_come_closer_to_the_grid():
    """More tokens, less distance; the grid itself is at distance 0."""
    reference = grid_tokens(8, 1.0)
    assert_allclose(reference.mean(axis=0), 0, atol=1e-15)
    found = sampled_distances((4, 64), reference, 1.0, np.array([0.0, 0.5]), 6, 7)
    assert (found[:, 1] < found[:, 0] / 2).all()  # theory: 16 times as many tokens, a quarter
