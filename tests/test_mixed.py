"""Polytope times subspace: the boundary's distance against a solver, verdicts, near misses."""

import numpy as np
import pytest
from scipy.optimize import minimize

import attn_clusters as ac
from attn_clusters.experiments.mixed import mixed_run, walls
from attn_clusters.geometry import Hull
from attn_clusters.simulate import Trajectory
from attn_clusters.statements.hyperplanes import coordinates_in_F

MIXED = ac.statements["mixed"]
TIMES = np.linspace(0, 12, 61)


def cloud(seed, n, d):
    return np.random.default_rng(seed).uniform(-5, 5, (n, d))


def nearest_in_hull(point, corners):
    """Distance to the hull by another solver: quadratic programming over convex weights."""
    m = len(corners)
    found = minimize(lambda w: ((w @ corners - point) ** 2).sum(), np.full(m, 1 / m),
                     jac=lambda w: 2 * corners @ (w @ corners - point), bounds=[(0, 1)] * m,
                     constraints={"type": "eq", "fun": lambda w: w.sum() - 1,
                                  "jac": lambda w: np.ones(m)},
                     options={"ftol": 1e-14, "maxiter": 500})
    return np.sqrt(found.fun)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_boundary_distance_against_a_solver(d):
    hull = Hull(cloud(d, 12, d))
    outside = 2 * cloud(10 + d, 40, d)
    outside = outside[hull.excess(outside) > 0.1][:8]
    expected = [nearest_in_hull(point, hull.points[hull.vertices]) for point in outside]
    # SLSQP stops at an objective good to about 1e-9.
    assert np.abs(hull.boundary_distance(outside) - expected).max() < 1e-4
    inside = 0.2 * cloud(20 + d, 20, d)
    inside = inside[hull.excess(inside) == 0]
    slack = -np.array([hull._beyond(point[None])[0] for point in inside])
    assert len(inside) and np.abs(hull.boundary_distance(inside) - slack).max() < 1e-12


def test_boundary_distance_of_known_shapes():
    square = Hull(np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 2.0], [0.0, 2.0]]))
    points = np.array([[1.0, 1.0], [0.5, 1.0], [3.0, 3.0], [1.0, 2.5], [0.0, 0.7]])
    assert np.allclose(square.boundary_distance(points), [1, 0.5, np.sqrt(2), 0.5, 0], atol=1e-14)
    segment = Hull(np.array([[0.0, 0.0], [2.0, 0.0]]))  # flat: its own boundary
    assert np.allclose(segment.boundary_distance(np.array([[1.0, 0.0], [1.0, 1.0], [3.0, 0.0]])),
                       [0, 1, 1], atol=1e-14)
    point = Hull(np.zeros((1, 2)))
    assert np.allclose(point.boundary_distance(np.array([[3.0, 4.0]])), 5.0)


@pytest.mark.parametrize("seed", range(3))
def test_mixed_holds_on_random_runs(seed):
    rng = np.random.default_rng(seed)
    basis = np.eye(3) + 0.3 * rng.normal(size=(3, 3))  # F and G not orthogonal
    V = basis @ np.diag((1.0, 1.0, -0.5)) @ np.linalg.inv(basis)
    metric = np.eye(3) + 0.3 * np.ones((3, 3))
    run = ac.simulate(ac.RescaledFlow(np.eye(3), metric, V), cloud(seed, 30, 3), TIMES)
    assert MIXED.verify(run).holds


def test_both_flows_agree_within_F():
    x, V = cloud(5, 20, 3), np.diag((1.0, 1.0, -0.5))
    inside = [coordinates_in_F(ac.simulate(flow(np.eye(3), np.eye(3), V), x, TIMES[:31]))[0]
              for flow in (ac.RescaledFlow, ac.TokenFlow)]
    # Each keeps a relative tolerance of 1e-9; leader changes amplify it.
    assert np.abs(np.abs(inside[0]) - np.abs(inside[1])).max() < 1e-5


def test_mixed_can_say_no():
    assert not MIXED.verify(mixed_run(30, 2, -0.5, 1.0)).holds  # too short
    run = mixed_run(30, 2, -0.5, 12.0)
    moved = run.tokens.copy()
    moved[-1, 0] /= 2  # half way between 0 and the boundary
    assert MIXED.verify(run).holds
    assert not MIXED.verify(Trajectory(run.flow, run.times, moved, run.method, 0)).holds
    x, identity = cloud(3, 20, 3), np.eye(3)
    for V in (np.diag((1.0, 1.0, -1.5)), -identity):  # G dominates; no positive eigenvalue
        report = MIXED.verify(ac.simulate(ac.RescaledFlow(identity, identity, V), x, TIMES[:11]))
        assert not report.applies and not report.holds


def test_a_passing_leader_looks_like_a_vertex():
    # Its third coordinate, growing like e^{0.8 t}, keeps it a leader until t = 8.8, not for ever.
    early, late = (MIXED.verify(mixed_run(40, 1, 0.8, final)) for final in (6.0, 20.0))
    assert early.holds and late.holds
    gaps = np.linalg.norm(early.limit[:, None] - late.limit, axis=2).min(axis=1)
    assert gaps.max() > 0.5  # a vertex of the early hull that the late one has lost


@pytest.mark.parametrize(("V", "K", "name", "margin"), [
    (np.diag((1.0, 1.0 - 1e-9, -0.5)), np.eye(3), "V = lambda Id on F", -1e-9),
    (np.diag((1.0, 1.0, 1.0 - 1e-6)), np.eye(3), "spectral radius on G", 1e-6),
    (np.diag((1.0, 1.0, -0.5)), np.diag((1.0, 1.0, -1e-9)), "positive definite", -1e-9),
])
def test_near_misses_state_their_margin(V, K, name, margin):
    found = {key: items for key, _, items in ac.classify(np.eye(3), K, V)}["mixed"]
    item = next(item for item in found if name in item.name)
    assert item.holds == (margin > 0) and item.margin == pytest.approx(margin, rel=2e-3)


def test_walls_contain_the_tokens_at_the_end():
    run = mixed_run(30, 4, -0.5, 10.0)
    panels, lines = walls(run, 5.0)
    assert panels.shape[1:] == (4, 3) and lines.shape[1:] == (2, 3)
    corners = lines[:, 0, :2]
    gaps = np.linalg.norm(run.tokens[-1][:, None, :2] - corners, axis=2).min(axis=1)
    assert gaps.max() < 1e-2  # exp(-10) of tokens of size 5, and leader changes on the way
