"""Statements of the second paper: assumptions, rates, the Laplace principle, one objective."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special

import attn_clusters as ac
from attn_clusters import measures
from attn_clusters.spectrum import collapse_rate
from attn_clusters.statements import mean_field

EAST = np.array([1.0, 0.0])


def random_instance(d, dim_E, seed, negative=False):
    """(B, V) with V B^T symmetric, its largest eigenvalue 1 of multiplicity dim_E, det B < 0 or not.

    The eigenvectors are a random orthonormal frame; the next eigenvalue is at most 1/2.
    """
    rng = np.random.default_rng(seed)
    frame = np.linalg.qr(rng.standard_normal((d, d)))[0]
    values = np.concatenate([np.ones(dim_E), rng.uniform(-1, 0.5, d - dim_E)])
    B = np.eye(d) + rng.uniform(-1, 1, (d, d)) / np.sqrt(d) / 2
    if negative != (np.linalg.det(B) < 0):
        B[0] *= -1
    M = (frame * values) @ frame.T
    return B, (M + M.T) / 2 @ np.linalg.inv(B).T, frame[:, :dim_E]


# Assumptions


def test_a1_holds_and_each_part_of_it_can_fail():
    B, V, _ = random_instance(4, 2, 1)
    assert all(item.holds for item in mean_field.assumption_a1(np.eye(4), B, V))
    eye = np.eye(2)
    for failing, (K, V) in enumerate([(np.diag([1.0, 0.0]), eye),
                                      (eye, np.array([[1.0, 1.0], [0.0, 0.5]])),
                                      (eye, np.zeros((2, 2)))]):
        found = [item.holds for item in mean_field.assumption_a1(eye, K, V)]
        if failing < 2:
            assert not found[failing]
        else:  # one eigenvalue only: nothing to separate, and no token moves
            assert found == [True, True, True]


def test_gap_is_taken_between_distinct_eigenvalues():
    B, V, _ = random_instance(5, 3, 2)
    spectrum = np.linalg.eigvals(V @ B.T).real
    second = np.sort(spectrum)[-4]
    gap = mean_field.assumption_a1(np.eye(5), B, V)[2].value
    assert_allclose(gap, 1 - second, rtol=1e-10)  # eigenvalues to rounding times cond(B) < 100


@pytest.mark.parametrize(("law", "dim_E", "exact"), [
    (measures.UniformLaw(2), 1, 1.0),
    (measures.UniformLaw(3), 1, 1.0),
    (measures.UniformLaw(3), 2, 2.0),
    (measures.UniformLaw(6), 2, 2.0),
    (measures.VonMisesFisherLaw(EAST, 2.0), 1, 1.0),
    (measures.EquatorLaw(EAST, 0.5), 1, 0.5),
    (measures.EquatorLaw(np.eye(3)[0], 0.5), 1, 0.5),
])
def test_moment_order_is_dim_e_less_the_exponent(law, dim_E, exact):
    # Three standard errors of 2 % each.
    assert_allclose(mean_field.moment_order(law, np.eye(law.d)[:, :dim_E]), exact, rtol=0.06)


def test_a2_tells_orders_apart():
    B, V = np.eye(2), np.diag([1.0, 0.3])
    law = measures.EquatorLaw(EAST, 0.5)
    assert mean_field.assumption_a2(B, V, law)[0].holds
    assert not mean_field.assumption_a2(B, V, law, order=0.75)[0].holds
    assert mean_field.assumption_a2(B, V, measures.UniformLaw(2), order=0.75)[0].holds
    cap = measures.CapLaw(EAST, 0.5)  # keeps 60 degrees from the complement of E: all moments
    assert mean_field.assumption_a2(B, V, cap, order=5.0)[0].holds


@pytest.mark.parametrize(("law", "positive", "lipschitz"), [
    (measures.UniformLaw(3), True, True),
    (measures.VonMisesFisherLaw(EAST, 20.0), True, True),
    (measures.CosineLaw(EAST, 0.9, degree=3), True, True),
    (measures.KinkedLaw(EAST, 2.0), True, True),
    (measures.CapLaw(EAST, 0.2), False, False),
    (measures.EquatorLaw(EAST, 0.5), True, False),
])
def test_a3_measures_what_the_law_states(law, positive, lipschitz):
    found = mean_field.assumption_a3(np.eye(law.d), np.eye(law.d), law)
    assert [item.holds for item in found] == [positive, lipschitz]
    assert (law.full_support, law.lipschitz) == (positive, lipschitz)


def test_assumptions_print_as_one_table():
    B, V, _ = random_instance(3, 1, 18)
    table = mean_field.assumptions(B, V, measures.UniformLaw(3))
    assert len(table) == 6 and all(item.holds for item in table)
    assert repr(table).count("holds") == table._repr_html_().count("<td>holds</td>") == 6
    cap = mean_field.assumptions(np.eye(2), [[0.0, 1.0], [-1.0, 0.0]], measures.CapLaw(EAST, 0.5))
    assert [item.holds for item in cap] == [True, False, True, False, False]


def test_classify_covers_the_statements():
    B, V, _ = random_instance(3, 1, 3)
    found = ac.classify(np.eye(3), B, V).applicable
    assert {"laplace", "zero_temperature", "cbo"} <= set(found)
    skew = np.array([[0.0, 1.0], [-1.0, 0.0]])
    found = ac.classify(np.eye(2), np.eye(2), skew).applicable
    assert "laplace" in found and "zero_temperature" not in found


# The flow at zero temperature


@pytest.mark.parametrize(("d", "dim_E"), [(2, 1), (3, 1), (3, 2), (10, 1), (10, 4), (10, 9)])
@pytest.mark.parametrize("negative", [False, True])
def test_zero_temperature_holds_on_random_runs(d, dim_E, negative):
    B, V, basis = random_instance(d, dim_E, 10 * d + dim_E, negative)
    start = measures.UniformLaw(d).sample(100, 4)
    time = 30 * np.linalg.norm(B, 2)  # the bound e^{-gamma t / |B|} is e^-15 or less
    run = ac.simulate(ac.ZeroTemperatureFlow(B, V), start, np.linspace(0, time, 31))
    report = ac.statements["zero_temperature"].verify(run)
    assert report.holds
    # E is known here from the construction, not from an eigensolver.
    assert_allclose(report.limit, measures.principal_projection(start, basis), atol=1e-10)


def test_zero_temperature_can_say_no():
    B, V, _ = random_instance(3, 1, 5)
    start, times = measures.UniformLaw(3).sample(50, 6), np.linspace(0, 60, 31)
    run = ac.simulate(ac.ZeroTemperatureFlow(B, V), start, times)
    verify = ac.statements["zero_temperature"].verify
    assert verify(run).holds
    # One token on the wrong side; a run too short; a V that makes V B^T rotate.
    wrong = run.tokens.copy()
    wrong[-1, 0] *= -1
    assert not verify(ac.Trajectory(run.flow, times, wrong, "none", 0)).holds
    assert not verify(ac.simulate(run.flow, start, [0.0, 0.1])).holds
    turning = ac.ZeroTemperatureFlow(np.eye(3), V + np.array([[0, 1, 0], [-1, 0, 0], [0, 0, 0.0]]))
    assert not verify(ac.simulate(turning, start, [0.0, 1.0, 20.0])).applies
    with pytest.raises(ValueError, match="^run: "):
        verify(ac.simulate(ac.SphereFlow(B, V, 1.0), start, [0.0, 0.1]))


def test_backward_run_breaks_the_lyapunov_check():
    B, V, _ = random_instance(3, 1, 7)
    start = measures.UniformLaw(3).sample(20, 8)
    run = ac.simulate(ac.ZeroTemperatureFlow(B, V), start, np.linspace(0, 3, 7))
    backward = ac.Trajectory(run.flow, run.times, run.tokens[::-1], "none", 0)
    checks = ac.statements["zero_temperature"].verify(backward).checks
    assert not checks[0].holds and not checks[1].holds


@pytest.mark.parametrize("seed", range(3))
def test_solution_by_clocks_agrees_with_the_solver(seed):
    B, V, _ = random_instance(4, 2, 20 + seed, negative=bool(seed % 2))
    start, times = measures.UniformLaw(4).sample(20, seed), np.linspace(0, 6, 7)
    flow = ac.ZeroTemperatureFlow(B, V)
    run = ac.simulate(flow, start, times, rtol=1e-12, atol=1e-14)
    # Two methods, each at about 1e-12 a step over a few hundred steps.
    assert_allclose(flow.solution(start, times), run.tokens, rtol=0, atol=1e-9)


def test_natural_coupling_is_optimal_at_zero_temperature():
    """Pi is constant along the flow and Pi(x) is the nearest point of the sphere of E to x."""
    B, V, basis = random_instance(3, 2, 9)
    start = measures.UniformLaw(3).sample(60, 10)
    limit = measures.principal_projection(start, basis)
    for x in ac.ZeroTemperatureFlow(B, V).solution(start, [0.0, 0.5, 2.0]):
        exact = measures.wasserstein2(x, limit)
        # The square is exact to 1e-15 of the largest cost, about 4, and distances exceed 1e-2.
        assert_allclose(measures.coupling_bound(x, limit), exact, rtol=1e-10)


@pytest.mark.parametrize(("score", "values"), [
    ((1.0, 0.15), (1.0, 0.3)), ((0.15, 1.0), (1.0, 0.3)), ((0.6, -1.5), (1.0, -1.0))])
def test_rate_of_the_law_on_the_circle(score, values):
    """W2 on nodes graded towards the equator, against the rate from the spectrum."""
    from attn_clusters.experiments.zero_temperature import graded_tokens

    B = np.diag(score)
    V = np.diag(np.divide(values, score))
    rates = collapse_rate(B, V)
    tokens, weights = graded_tokens(2, 1, across=2)
    limit = measures.principal_projection(tokens, np.eye(2)[:, :1])
    times = np.linspace(0, 12 / rates.law, 41)
    path = ac.ZeroTemperatureFlow(B, V).solution(tokens, times)
    distance = [measures.coupling_bound(x, limit, weights) for x in path]
    slope = -np.polyfit(times[20:], np.log(distance[20:]), 1)[0]
    # The slower of the two exponentials leads by e^{-2 |token - escape| t}, below 1e-3 here.
    assert_allclose(slope, rates.law, rtol=1e-3)


def test_collapse_rate_by_hand():
    """B = diag(0.5, 2, 1), V B^T = diag(1, 0.4, -1): token (1 - 0.4) / 0.5; escape from E_2 at
    0.6 / 2 per unit of time and from E_3 at (2 + 1.4) / 1, of which half the smaller counts."""
    B = np.diag([0.5, 2.0, 1.0])
    V = np.diag([1.0, 0.4, -1.0]) @ np.linalg.inv(B)
    rates = collapse_rate(B, V)
    assert_allclose([rates.gap, rates.token, rates.escape, rates.law, rates.proved],
                    [0.6, 1.2, 0.15, 0.15, 0.3], rtol=1e-13)
    assert_allclose(collapse_rate(B, V, order=0.5).escape, 0.075, rtol=1e-13)
    with pytest.raises(ValueError, match="^V: "):
        collapse_rate(np.eye(2), np.eye(2))


# The Laplace principle


def test_laplace_holds_for_a_positive_density():
    B, V, _ = random_instance(2, 1, 11)
    tokens, weights = measures.CosineLaw(EAST, 0.5).quadrature(4096)
    run = ac.simulate(ac.SphereFlow(B, V, 300.0, weights), tokens, [0.0])
    report = ac.statements["laplace"].verify(run)
    assert report.holds
    # The bound of the theorem is much larger than what is found: sqrt(log(301)/300) = 0.14.
    assert report.distances.max() < 0.14 * np.linalg.norm(V, 2)


def test_laplace_can_say_no():
    B, V, _ = random_instance(2, 1, 12)
    tokens, weights = measures.CapLaw(EAST, 0.2).quadrature(4096)
    run = ac.simulate(ac.SphereFlow(B, V, 300.0, weights), tokens, [0.0])
    assert not ac.statements["laplace"].verify(run).holds
    warm, weights = measures.UniformLaw(2).quadrature(64)
    run = ac.simulate(ac.SphereFlow(B, V, 1.0, weights), warm, [0.0])
    assert not ac.statements["laplace"].verify(run).holds
    with pytest.raises(ValueError, match="^run: "):
        ac.statements["laplace"].verify(ac.simulate(ac.ZeroTemperatureFlow(B, V), warm, [0.0]))


# One objective


def test_consensus_point_agrees_with_a_gaussian():
    """f = |x - a|^2 / 2 against standard normal tokens: the mean is beta a / (1 + beta)."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    x, y = np.meshgrid(nodes, nodes)
    tokens = np.column_stack([x.ravel(), y.ravel()])
    weights = np.outer(weights, weights).ravel() / weights.sum() ** 2
    keep = weights > 1e-280
    a = np.array([0.4, -0.2])
    objective = np.sum((tokens[keep] - a) ** 2, axis=1) / 2
    for beta in (0.1, 1.0, 3.0):
        found = ac.consensus_point(tokens[keep], objective, beta, weights[keep] / weights[keep].sum())
        # 40 Gauss nodes integrate e^{-beta x^2 / 2} times a polynomial; error seen by halving
        # them is below 1e-8 at beta = 3.
        assert_allclose(found, beta * a / (1 + beta), rtol=0, atol=1e-7)


def test_consensus_point_is_attention_of_one_query():
    """With f(y) = -<Qx, Ky> the consensus point is X_beta at x for V = I."""
    rng = np.random.default_rng(13)
    tokens, B = measures.UniformLaw(3).sample(30, 14), rng.standard_normal((3, 3))
    weights = rng.uniform(1, 2, 30)
    weights /= weights.sum()
    x = tokens[:1]
    field = ac.attention_field(x, tokens, B, np.eye(3), 7.0, weights)
    found = ac.consensus_point(tokens, -(x @ B @ tokens.T)[0], 7.0, weights)
    assert_allclose(found, field[0], rtol=0, atol=1e-14)  # the same sum in another order


def test_consensus_point_tends_to_the_minimiser():
    rng = np.random.default_rng(15)
    tokens = rng.uniform(-1, 1, (50, 3))
    values = np.sum(tokens**2, axis=1)
    best = tokens[np.argmin(values)]
    gap = np.diff(np.sort(values)[:2])[0]
    found = ac.consensus_point(tokens, values, 40.0 / gap)
    assert_allclose(found, best, rtol=0, atol=50 * 2 * np.exp(-40))  # the others weigh e^-40 each
    assert np.abs(ac.consensus_point(tokens, values, 1e-3) - best).max() > 0.05


def test_consensus_flow_is_batched_and_contracts():
    rng = np.random.default_rng(16)
    tokens = rng.uniform(-1, 1, (2, 12, 3))
    flow = ac.ConsensusFlow(lambda x: np.sum(x**2, axis=-1), 5.0)
    velocity = flow(0.0, tokens)
    for run in range(2):
        assert_allclose(velocity[run], flow(0.0, tokens[run]), rtol=0, atol=1e-14)
    path = ac.simulate(flow, tokens[0], [0.0, 3.0]).tokens
    spread = [np.ptp(x, axis=0) for x in path]
    assert_allclose(spread[1], spread[0] * np.exp(-3.0), rtol=1e-7)  # differences decay like e^-t
    with pytest.raises(ValueError, match="^objective: "):
        ac.ConsensusFlow(lambda x: x, 1.0)(0.0, tokens[0])
    with pytest.raises(ValueError, match="^objective: "):
        ac.consensus_point(tokens[0], np.ones(3), 1.0)


def test_bessel_ratio_of_the_uniform_law():
    """X_beta of the uniform law on quadrature nodes, against I_{d/2}/I_{d/2-1} in d = 3."""
    tokens, weights = measures.UniformLaw(3).quadrature(5000)
    points = measures.UniformLaw(3).sample(5, 17)
    for beta in (0.5, 5.0, 20.0):
        found = ac.attention_field(points, tokens, np.eye(3), np.eye(3), beta, weights)
        exact = special.ive(1.5, beta) / special.ive(0.5, beta) * points
        assert_allclose(found, exact, rtol=0, atol=1e-12)  # the rule is spectral, at rounding here
