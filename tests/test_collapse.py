"""V = -I: collapse to 0, its bounds, and the algebraic rates that linearisation gives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracles import positive_definite

import attn_clusters as ac
from attn_clusters.spectrum import square_root
from attn_clusters.statements.beyond import log_energy, measure_collapse, outward_radius
from attn_clusters.statements.core import decay_rate


def flow(d):
    return ac.TokenFlow(np.eye(d), np.eye(d), -np.eye(d))


def cloud(n, d, seed, half=2.0):
    return np.random.default_rng(seed).uniform(-half, half, (n, d))


def run_of(tokens, final=1000.0, **options):
    times = np.concatenate([[0.0], np.geomspace(1e-2, final, 60)])
    return ac.simulate(flow(tokens.shape[1]), tokens, times, **options)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 5, 12])
def test_collapse_holds_on_random_runs(n, d):
    report = ac.statements["collapse"].verify(run_of(cloud(n, d, n + d)), tolerance=0.05)
    assert report.holds and report.algebraic
    if n > d:  # otherwise the mean may be all there is, and falls like exp(-t)
        assert report.rate == pytest.approx(0.5, abs=0.01)  # corrections of relative order 1/t


def test_collapse_can_say_no():
    """Too early; a token left behind; a rising energy; other values; other scores."""
    collapse, good = ac.statements["collapse"], run_of(cloud(8, 2, 0))
    early = collapse.verify(run_of(cloud(8, 2, 0), final=1.0))
    assert early.applies and not early.holds and early.distances.max() > early.tolerance
    moved = good.tokens.copy()
    moved[-1, 0] = 1.0
    report = collapse.verify(ac.Trajectory(good.flow, good.times, moved, "none", 0))
    assert collapse.verify(good).holds and not report.holds and not report.checks[1].holds
    away = 9.0 * good.tokens[::-1]  # backwards: leaves the ball, grows
    report = collapse.verify(ac.Trajectory(good.flow, good.times, away, "none", 0))
    assert not report.holds and not any(check.holds for check in report.checks[1:])
    other = ac.simulate(ac.TokenFlow(np.eye(2), np.eye(2), np.eye(2)), cloud(8, 2, 0), [0, 1])
    assert not collapse.verify(other).applies


def test_with_the_opposite_scores_zero_repels():
    """Q^T K = -I: deviations obey dC/dt = +2 C^2, and tokens do not collapse."""
    other = ac.TokenFlow(np.eye(2), -np.eye(2), -np.eye(2))
    run = ac.simulate(other, cloud(8, 2, 1), np.linspace(0, 20, 5))
    assert not ac.statements["collapse"].verify(run).applies
    assert measure_collapse(run, 0.02).distances[-1].max() > 1.0


@settings(max_examples=100, deadline=None)
@given(n=st.integers(1, 15), d=st.integers(1, 4), seed=st.integers(0, 10**6),
       half=st.floats(0.1, 6.0))
def test_radius_bounds(n, d, seed, half):
    """No token farther out than `outward_radius`, let alone sqrt(2n), moves outwards."""
    x = cloud(n, d, seed, half)
    outwards = np.sum(x * flow(d)(0.0, x), axis=1)
    far = np.linalg.norm(x, axis=1) > outward_radius(n)
    assert (outwards[far] < 0).all()
    assert outward_radius(n) < np.sqrt(2 * n)


def test_the_outward_radius_is_sharp():
    """All other scores at -1, where s e^s is least: just inside a token still moves outwards."""
    for n in (2, 10, 100):
        for factor, sign in ((0.99, 1), (1.01, -1)):
            r = factor * outward_radius(n)
            x = np.concatenate([[[r]], np.full((n - 1, 1), -1 / r)])
            assert np.sign(flow(1)(0.0, x)[0, 0]) == sign


@pytest.mark.parametrize("seed", range(4))
def test_energy_identity(seed):
    """dF/dt = -2 sum_i Z_i |dx_i/dt|^2, by a central difference along the velocity."""
    x = cloud(9, 3, seed)
    velocity, h = flow(3)(0.0, x), 1e-5
    Z = np.exp(x @ x.T).sum(axis=1)
    exact = -2 * (Z @ np.sum(velocity**2, axis=1)) / Z.sum()
    slope = (log_energy(x + h * velocity) - log_energy(x - h * velocity)) / (2 * h)
    assert_allclose(slope, exact, rtol=1e-7)  # h^2 times third derivatives, rounding 1e-16 / h
    assert log_energy(x) >= 2 * np.log(9)


def test_rates_near_zero():
    """With y = x - mean: 2t cov(y) -> I, and mean -> -(1/2) (2t)^(-5/2) mean(u |u|^2), u = sqrt(2t) y."""
    run = run_of(cloud(10, 2, 3), final=3000.0, rtol=1e-10, atol=1e-16)
    errors = []
    for t, x in zip(run.times[[-6, -1]], run.tokens[[-6, -1]], strict=True):
        u = np.sqrt(2 * t) * (x - x.mean(axis=0))
        errors.append(np.abs(u.T @ u / len(u) - np.eye(2)).max())
        mean = -0.5 * (2 * t) ** -2.5 * (u * np.sum(u**2, axis=1, keepdims=True)).mean(axis=0)
        # The next order is smaller by |x|^2, about 1/t, up to a factor of order ten.
        assert_allclose(x.mean(axis=0), mean, atol=30 / t * np.abs(mean).max())
    ratio = run.times[-1] / run.times[-6]
    assert errors[1] < 2 * errors[0] / ratio  # falls like log(t) / t
    assert errors[1] < 0.01


def test_one_token_and_few_tokens_fall_exponentially():
    x = cloud(1, 2, 4)
    assert_allclose(ac.simulate(flow(2), x, [0, 3]).tokens[-1], x * np.exp(-3), rtol=1e-8)
    together = np.tile(x, (5, 1))
    assert_allclose(ac.simulate(flow(2), together, [0, 3]).tokens[-1], together * np.exp(-3),
                    rtol=1e-8)


def test_any_positive_definite_score_is_the_identity_in_other_coordinates():
    """V = -I commutes with A = B^(1/2): A x solves the equation with Q^T K = I."""
    B = positive_definite(3, 5)
    A, x = square_root(B), cloud(7, 3, 6)
    velocity = ac.TokenFlow(np.eye(3), B, -np.eye(3))(0.0, x)
    assert_allclose(flow(3)(0.0, x @ A.T), velocity @ A.T, atol=1e-13)


def test_algebraic_rate_of_a_power():
    times = np.linspace(0, 50, 101)
    powers = np.concatenate([[1.0], times[1:] ** -0.5])
    assert decay_rate(times, powers, 0.0, algebraic=True) == pytest.approx(0.5, rel=1e-12)
    assert "t^(-0.50)" in repr(ac.statements["collapse"].verify(run_of(cloud(6, 2, 0))))
