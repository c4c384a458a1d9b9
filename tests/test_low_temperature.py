"""The three phases at low temperature: predictions against the full flow, verdicts, invariants."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import attn_clusters as ac
from attn_clusters import phases as phase
from attn_clusters.flows import SphereFlow, ZeroTemperatureFlow
from attn_clusters.measures import CosineLaw, UniformLaw, wasserstein2
from attn_clusters.simulate import simulate
from attn_clusters.spectrum import collapse_rate

V, B = np.diag([1.0, 2.0]), np.diag([1.0, 0.15])
EAST, NORTH = np.array([1.0, 0.0]), np.array([0.0, 1.0])


def worked_run(beta=100.0, final=10.0, law=None, B=B, V=V, nodes=120):
    tokens, weights = (law or CosineLaw(NORTH, 0.5)).quadrature(nodes)
    flow = SphereFlow(B, V, beta, weights)
    return simulate(flow, tokens, np.linspace(0.0, final, 101), rtol=1e-7, atol=1e-9)


def commuting(rng, d, signs=(1, 1)):
    """B and V with common eigenvectors: b_1 and v_1 have the given signs and v_1 b_1 leads."""
    frame = np.linalg.qr(rng.standard_normal((d, d)))[0]
    v = np.append(signs[1] * 1.0, rng.uniform(-2.0, 2.0, d - 1))
    products = np.append(1.0, rng.uniform(-0.5, 0.5, d - 1))
    return (frame * (products / v)) @ frame.T, (frame * v) @ frame.T


def centre_modes(B, V, phi, beta=40.0, step=1e-5):
    """Eigenvalues of the Jacobian of two atoms at +-phi in the full flow, by differences."""
    d, pair = len(phi), np.array([phi, -phi])
    frame = np.linalg.svd(phi[None])[2][1:]
    moves = [np.outer(side, vector) for side in np.eye(2) for vector in frame]
    flow = SphereFlow(B, V, beta)
    changes = [(flow(0, flow.retract(pair + step * move)) - flow(0, flow.retract(pair - step * move)))
               / (2 * step) for move in moves]
    return np.linalg.eigvals([[np.sum(change * move) for change in changes] for move in moves]), d


@pytest.mark.parametrize("signs", [(1, 1), (-1, -1)])
@pytest.mark.parametrize("seed", range(5))
def test_growth_is_the_largest_mode_of_two_atoms_in_the_full_flow(seed, signs):
    B, V = commuting(np.random.default_rng(seed), 4, signs)
    found = phase.phases(B, V)
    modes, _ = centre_modes(B, V, found.direction)
    # Central differences: error about step^2 beta^2 = 2e-7; the other atom weighs e^-80.
    assert modes.real.max() == pytest.approx(found.growth.max(), abs=1e-5)


@pytest.mark.parametrize("d", [2, 3, 6])
def test_collapse_rates_agree_with_the_spectrum_of_the_zero_temperature_flow(d):
    B, V = commuting(np.random.default_rng(d), d)
    found = phase.phases(B, V)
    # Two roads to (mu_1 - mu_2) / |B^T phi|, equal up to rounding.
    assert found.collapse.min() == pytest.approx(collapse_rate(B, V).token, rel=1e-12)


def test_collapse_rates_are_those_of_tokens_near_phi():
    B, V = commuting(np.random.default_rng(7), 4)
    found = phase.phases(B, V)
    others = np.linalg.eigh((V @ B.T + B @ V.T) / 2)[1][:, -2::-1]
    flow = ZeroTemperatureFlow(B, V)
    for rate, vector in zip(found.collapse, others.T, strict=True):
        token = flow.retract((found.direction + 1e-5 * vector)[None])
        speed = flow(0, token)[0] @ vector
        # The next order is the square of the offset, 1e-10.
        assert -speed / (token[0] @ vector) == pytest.approx(rate, rel=1e-7)


def test_two_atoms_follow_the_oja_flow_of_v():
    """The centre of a cluster moves by the Oja flow of V: full flow against that equation."""
    V = np.array([[1.0, 0.3, 0.0], [0.0, 2.0, 0.2], [0.1, 0.0, 0.5]])
    start = np.array([[1.0, 0.01, 0.02], [-1.0, 0.03, -0.01]])
    start /= np.linalg.norm(start, axis=1, keepdims=True)
    tokens = np.repeat(start, 3, axis=0)
    run = simulate(SphereFlow(np.eye(3), V, 300.0), tokens, [0.0, 2.0])

    def oja(t, m):
        return V @ m - (m @ V @ m) * m

    for cluster, m in enumerate(start):
        exact = solve_ivp(oja, (0, 2), m, rtol=1e-11, atol=1e-13).y[:, -1]
        # Until t = 2 the clusters stay apart (e^-300 of each other's weight): only solver error.
        np.testing.assert_allclose(run.tokens[-1, 3 * cluster], exact, atol=1e-7)


@pytest.mark.parametrize("y", [0.05, 0.5, 2.0])
def test_a_gaussian_cluster_moves_at_the_predicted_rates(y):
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    keep = weights > 1e-25  # positive weights that float64 can hold
    nodes, weights = nodes[keep], weights[keep] / weights[keep].sum()
    width, b, v, b_j, v_j = 1e-4, 0.8, 1.1, 0.3, 2.0
    beta = y / (b * width**2)
    heights = width * (nodes + 0.1)
    right = np.column_stack([np.sqrt(1 - heights**2), heights])
    tokens = np.concatenate([right, right * [-1, 1]])
    flow = SphereFlow(np.diag([b, b_j]), np.diag([v, v_j]), beta, np.tile(weights / 2, 2))
    speed = flow(0, tokens)[:len(nodes), 1]
    mean = weights @ heights
    of_centre = weights @ speed / mean
    of_width = weights @ ((heights - mean) * (speed - weights @ speed)) / width**2
    expected = phase.cluster_rates(width, beta, b, v, b_j, v_j)
    # Curvature of the circle enters with the square of the width, 1e-8, times beta width^2 ~ 1.
    np.testing.assert_allclose((of_width, of_centre), expected, atol=1e-6)


def test_cluster_rates_join_the_two_regimes():
    b, v, b_j, v_j = 1.0, 1.0, 0.15, 2.0
    found = phase.phases(B, V)
    wide = phase.cluster_rates(1e3, 1e6, b, v, b_j, v_j)
    narrow = phase.cluster_rates(1e-9, 1e6, b, v, b_j, v_j)
    # y is 1e12 and 1e-12 at these widths, and enters to first order.
    np.testing.assert_allclose(wide, -found.collapse[0] * np.ones(2), atol=1e-11)
    np.testing.assert_allclose(narrow, (-found.contraction, found.growth[0]), atol=1e-11)


def test_slopes_are_those_of_the_reduced_equation_at_very_low_temperature():
    """Integrate the two equations of a cluster at beta far out of reach of the full flow."""
    found, times = phase.phases(B, V), np.linspace(0.0, 80.0, 4001)
    closest, left, betas = [], [], np.array([1e12, 1e20])
    for beta in betas:
        def model(t, logs, beta=beta):
            return phase.cluster_rates(np.exp(logs[0]), beta, 1.0, 1.0, 0.15, 2.0)

        logs = solve_ivp(model, (0, 80), [-1.0, -1.0], t_eval=times, rtol=1e-9, atol=1e-9).y
        distance = np.exp(logs).sum(axis=0)
        closest.append(times[distance.argmin()])
        left.append(phase.crossing_time(times, distance, 1e-2))
    gap = np.diff(np.log(betas))[0]
    # The grid of times is 0.02, over a difference of logarithms of 18.
    assert np.diff(closest)[0] / gap == pytest.approx(found.approach_slope, abs=0.003)
    assert np.diff(left)[0] / gap == pytest.approx(found.departure_slope, abs=0.003)


def test_exponents_follow_from_the_two_rates():
    found = phase.phases(B, V)
    c, r = found.rates
    t = 3.0
    beta = np.exp(t / found.approach_slope)
    # At the closest approach both terms are equal, and equal to beta^(-1/2).
    assert beta**found.error_power * np.exp(r * t) == pytest.approx(np.exp(-c * t))
    beta = np.exp(t / found.departure_slope)
    # At the departure the second term is 1, and beta^(-1/2) e^{C_1 t} with the least C_1 too.
    assert beta**found.error_power * np.exp(r * t) == pytest.approx(1.0)
    assert beta**-0.5 * np.exp(found.least_exponent * t) == pytest.approx(1.0)


def test_phases_refuses_what_it_cannot_predict():
    with pytest.raises(ValueError, match="multiplicity 2"):
        phase.phases(np.diag([1.0, 1.0, 0.1]), np.eye(3))
    with pytest.raises(ValueError, match="symmetric"):
        phase.phases(np.eye(2), np.array([[1.0, 1.0], [0.0, 2.0]]))
    stable = phase.phases(np.eye(2), np.diag([2.0, 1.0]))
    assert not stable.leaves
    with pytest.raises(ValueError, match="stable"):
        stable.departure_slope  # noqa: B018


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("by", ["real part", "magnitude"])
def test_principal_space_is_invariant_and_carries_the_leading_eigenvalues(seed, by):
    V = np.random.default_rng(seed).standard_normal((5, 5))
    basis = phase.principal_space(V, by)
    small = basis.T @ V @ basis
    # Schur vectors: invariance and eigenvalues hold to rounding times the condition of V.
    np.testing.assert_allclose(V @ basis, basis @ small, atol=1e-10)
    inside, everything = np.linalg.eigvals(small), np.linalg.eigvals(V)
    size = np.real if by == "real part" else np.abs
    assert size(inside).min() == pytest.approx(size(everything).max(), rel=1e-10)
    assert len(inside) == np.sum(size(everything) > size(everything).max() - 1e-9)


def test_principal_space_readings_differ_where_they_should():
    V = np.diag([1.0, -2.0, 1.0])
    assert phase.principal_space(V).shape == (3, 2)
    np.testing.assert_allclose(np.abs(phase.principal_space(V, "magnitude")[:, 0]), [0, 1, 0],
                               atol=1e-15)
    with pytest.raises(ValueError, match="by"):
        phase.principal_space(V, "size")


def test_distance_to_collapsed_is_the_exact_distance():
    run = worked_run(final=2.0, nodes=24)
    limit = np.sign(run.tokens[0, :, :1]) * EAST
    weights = run.flow.weights
    exact = [wasserstein2(x, limit, weights, weights) for x in run.tokens[::50]]
    # The linear program is certified to 1e-10 of the square.
    np.testing.assert_allclose(phase.distance_to_collapsed(run)[::50], exact, atol=1e-8)


def test_distance_to_collapsed_bounds_the_exact_distance_on_a_circle():
    V, B = np.diag([1.0, 1.0, 2.0]), np.diag([1.0, 1.0, 0.15])
    run = worked_run(20.0, 6.0, CosineLaw([0.6, 0.0, 0.8], 0.5), B, V, nodes=50)
    limit = run.tokens[0] * [1, 1, 0]
    limit /= np.linalg.norm(limit, axis=1, keepdims=True)
    weights = run.flow.weights
    exact = np.array([wasserstein2(x, limit, weights, weights) for x in run.tokens[[10, 100]]])
    bound = phase.distance_to_collapsed(run)[[10, 100]]
    assert (exact <= bound + 1e-8).all()  # the linear program's accuracy


def test_least_constant_bounds_the_grid_and_touches_it():
    betas, times = np.array([10.0, 100.0]), np.linspace(0.0, 10.0, 101)
    distances = np.array([phase.distance_to_collapsed(worked_run(beta)) for beta in betas])
    constant = phase.least_constant(distances, betas, times, 0.7, 1.0)
    slack = constant * phase.concentration_bound(betas, times, 0.7, 1.0) - distances
    # It touches, up to the rounding of one product.
    assert -1e-14 < slack.min() < 1e-14
    naive = [[np.sqrt(np.log(beta + 1) / beta) * np.exp(t) + np.exp(-0.7 * t) for t in times]
             for beta in betas]
    np.testing.assert_allclose(phase.concentration_bound(betas, times, 0.7, 1.0), naive, rtol=1e-13)


def test_crossing_time_interpolates_and_says_never():
    times = np.array([0.0, 1.0, 2.0, 3.0])
    assert phase.crossing_time(times, np.array([2.0, 0.0, 1.0, 3.0]), 2.0) == 2.5
    assert phase.crossing_time(times, np.zeros(4), 2.0) == np.inf
    with pytest.raises(ValueError, match="values"):
        phase.crossing_time(times, np.array([0.0, np.nan, 1.0, 2.0]), 1.0)


def test_departed_share_counts_mass_beyond_45_degrees():
    angles = np.radians([0.0, 44.9, 45.1, 180.0, -100.0])
    tokens = np.column_stack([np.cos(angles), np.sin(angles)])
    weights = np.array([0.1, 0.2, 0.3, 0.15, 0.25])
    assert phase.departed_share(tokens, EAST, weights) == pytest.approx(0.55)
    assert phase.departed_share(tokens, EAST) == pytest.approx(0.4)


def test_a_mirror_image_of_the_law_moves_like_a_mirror_image():
    tokens, flow = UniformLaw(2).sample(50, 3), SphereFlow(B, V, 30.0)
    mirror = np.array([1.0, -1.0])
    # Only the order of sums differs.
    np.testing.assert_allclose(flow(0, tokens * mirror), flow(0, tokens) * mirror, atol=1e-13)


def test_an_exactly_symmetric_law_stays_where_a_tilted_one_leaves():
    run = worked_run(50.0, 15.0, UniformLaw(2))
    assert phase.departed_share(run.tokens[-1], EAST, run.flow.weights) == 0
    turn = np.array([[1.0, 0.02], [-0.02, 1.0]]) / np.hypot(1, 0.02)
    tilted = simulate(run.flow, run.tokens[0] @ turn, run.times, rtol=1e-7, atol=1e-9)
    # All of the mass, whose weights sum to 1 up to rounding.
    assert phase.departed_share(tilted.tokens[-1], EAST, run.flow.weights) == pytest.approx(1)


def test_tokens_stay_on_the_sphere():
    run = worked_run()
    assert np.abs(np.linalg.norm(run.tokens, axis=2) - 1).max() < 1e-12


def test_concentration_holds_in_the_waiting_phase():
    report = ac.statements["concentration"].verify(worked_run(final=3.5), tolerance=1.0)
    assert report.applies
    assert report.holds


def test_concentration_can_say_no():
    concentration = ac.statements["concentration"]
    assert not concentration.verify(worked_run(final=1.0), tolerance=1.0).holds  # too early
    assert not concentration.verify(worked_run(final=10.0), tolerance=1.0).holds  # gone
    skew = ac.classify(np.eye(2), np.diag([1.0, 0.4]), np.array([[1.0, 0.0], [0.2, 2.0]]))
    assert "concentration" not in skew.applicable  # V B^T is not symmetric


def test_metastability_holds_on_the_worked_instance():
    report = ac.statements["metastability"].verify(worked_run(), tolerance=1.0)
    assert report.holds
    names = [item.name for item in report.hypotheses]
    assert any("eigenvector of V" in name for name in names)


def test_metastability_can_say_no():
    metastability = ac.statements["metastability"]
    stays = metastability.verify(worked_run(law=UniformLaw(2)), tolerance=1.0)
    assert stays.applies and not stays.holds  # a symmetric law never leaves
    hot = metastability.verify(worked_run(beta=2.0), tolerance=0.5)
    assert not hot.holds  # comes nowhere near
    stable = metastability.verify(worked_run(V=np.diag([2.0, 1.0])), tolerance=1.0)
    assert not stable.applies  # phi leads V too: nothing to leave for


def test_metastability_wants_phi_among_the_eigenvectors_of_v():
    V = np.array([[1.0, 0.0], [0.4, 2.0]])
    B = np.linalg.solve(V, np.diag([1.0, 0.3])).T
    failing = [item.name for item in ac.statements["metastability"].conditions(np.eye(2), B, V)
               if not item.holds]
    assert len(failing) == 1 and failing[0].startswith("phi eigenvector of V")


def test_terminal_holds_on_the_worked_instance():
    report = ac.statements["terminal"].verify(worked_run(50.0, 25.0))
    assert report.holds
    np.testing.assert_allclose(np.abs(report.limit[:, 0]), NORTH, atol=1e-12)


def test_terminal_holds_for_a_negative_eigenvalue_of_largest_magnitude():
    run = worked_run(50.0, 25.0, CosineLaw([np.cos(1), np.sin(1)], 0.5),
                     np.diag([-1.0, -0.15]), np.diag([-1.0, -2.0]))
    assert ac.statements["terminal"].verify(run).holds


@pytest.mark.parametrize("beta", [20.0, 50.0, 100.0])
def test_terminal_can_say_no_to_a_balanced_pair(beta):
    """Two opposite clusters at <x, Bx> = 0 of equal mass see a mean of 0: at rest off the space."""
    law = CosineLaw([np.cos(0.8), np.sin(0.8)], 0.5, 2)
    run = worked_run(beta, 60.0, law, np.diag([1.0, -0.15]), nodes=64)
    report = ac.statements["terminal"].verify(run)
    assert report.applies and not report.holds
    assert report.checks[0].holds  # it is at rest
    angle = np.arctan2(np.abs(run.tokens[-1][:, 1]), np.abs(run.tokens[-1][:, 0]))
    # The pair is reached exponentially fast; 1e-4 is far below its distance 0.36 from e_2.
    np.testing.assert_allclose(angle, np.arctan(np.sqrt(1 / 0.15)), atol=1e-4)


def test_terminal_can_say_no_to_a_turning_law():
    V = np.array([[1.0, -1.5], [1.5, 1.0]])
    B = np.linalg.solve(V, np.diag([1.0, 0.3])).T
    report = ac.statements["terminal"].verify(worked_run(50.0, 25.0, B=B, V=V, nodes=64))
    assert report.applies and not report.holds
    assert not report.checks[0].holds


@pytest.mark.parametrize("key", ["concentration", "metastability", "terminal"])
def test_verdicts_refuse_runs_of_other_flows(key):
    flow = ZeroTemperatureFlow(B, V)
    run = simulate(flow, UniformLaw(2).sample(5, 0), [0.0, 1.0])
    with pytest.raises(ValueError, match="SphereFlow"):
        ac.statements[key].verify(run)


def test_the_mechanisms_of_exceptions_are_told_apart():
    from attn_clusters.experiments.terminal import mechanism

    space = NORTH[:, None]
    pair = np.array([EAST, -EAST])
    assert mechanism(pair, np.diag([0.0, 1.0]), space, 2, 0.05) == "balanced"
    assert mechanism(np.array([NORTH, NORTH, EAST]), np.eye(2), space, 2, 0.05) == "stragglers"
    assert mechanism(pair, np.eye(2), space, 3, 0.05) == "turns"
    assert mechanism(pair, np.eye(2), space, 2, 0.05) == "other"


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_random_instances_satisfy_a1_and_their_kind(kind):
    from attn_clusters.experiments.terminal import KINDS, random_instance

    for seed in range(10):
        V, B, _ = random_instance(KINDS[kind], 3, seed)
        found = ac.statements["terminal"].conditions(np.eye(3), B, V)
        assert all(item.holds for item in found)
        if kind == 0:
            assert np.abs(B @ V - V @ B).max() < 1e-14
        if kind <= 1:
            assert np.linalg.eigvalsh(B + B.T).min() > 0
