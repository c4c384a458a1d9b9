"""The flows of the second paper on the sphere (equations B1 and B2), against independent oracles."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, linalg, special

import attn_clusters as ac

FLOWS = ("B1", "B2")


def random_tokens(n, d, seed):
    x = np.random.default_rng(seed).standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def random_matrices(d, seed):
    """B well away from the identity and from singular, V neither symmetric nor positive."""
    rng = np.random.default_rng(seed)
    return np.eye(d) + rng.uniform(-0.6, 0.6, (d, d)) / d, rng.standard_normal((d, d))


def random_weights(n, seed):
    weights = np.random.default_rng(seed).uniform(0.5, 1.5, n)
    return weights / weights.sum()


def make(which, B, V, beta=3.0, weights=None):
    return ac.SphereFlow(B, V, beta, weights) if which == "B1" else ac.ZeroTemperatureFlow(B, V)


def loop_sphere(x, B, V, beta, weights):
    """Equation B1 written out, one sum at a time."""
    n, d = x.shape
    change = np.zeros((n, d))
    for i in range(n):
        masses = [weights[j] * math.exp(beta * float(x[i] @ B @ x[j])) for j in range(n)]
        drift = sum(masses[j] * (V @ x[j]) for j in range(n)) / sum(masses)
        change[i] = drift - (x[i] @ drift) * x[i]
    return change


@pytest.mark.parametrize("d", [2, 3, 7])
@pytest.mark.parametrize("beta", [0.1, 1.0, 30.0])
def test_sphere_flow_agrees_with_the_naive_loop(d, beta):
    x, weights = random_tokens(9, d, 1), random_weights(9, 2)
    B, V = random_matrices(d, 3)
    found = ac.SphereFlow(B, V, beta, weights)(0.0, x)
    # A dozen sums of terms of order |V|; rounding of scores up to 30 |B| enters the exponents.
    assert_allclose(found, loop_sphere(x, B, V, beta, weights), rtol=0, atol=1e-12)


def test_one_token_follows_the_oja_flow_of_the_value_matrix():
    """n = 1: dx/dt = P_x V x whatever B and beta, so x(t) is the direction of e^{tV} x(0)."""
    B, V = random_matrices(4, 5)
    start = random_tokens(1, 4, 6)
    times = np.linspace(0.0, 3.0, 4)
    run = ac.simulate(ac.SphereFlow(B, V, 7.0), start, times, rtol=1e-12, atol=1e-13)
    exact = np.stack([start @ linalg.expm(t * V).T for t in times])
    exact /= np.linalg.norm(exact, axis=-1, keepdims=True)
    # Solver tolerance 1e-12 a step over about a hundred steps.
    assert_allclose(run.tokens, exact, rtol=0, atol=1e-10)


@pytest.mark.parametrize("which", FLOWS)
@pytest.mark.parametrize("d", [2, 3, 10])
def test_tokens_stay_on_the_sphere(which, d):
    B, V = random_matrices(d, 7)
    start = random_tokens(12, d, 8)
    # Even at a coarse tolerance: the way back divides by the norm, which leaves rounding alone.
    run = ac.simulate(make(which, B, V), start, np.linspace(0, 5, 6), rtol=1e-4, atol=1e-6)
    assert np.abs(np.linalg.norm(run.tokens, axis=-1) - 1.0).max() < 1e-12


@pytest.mark.parametrize("which", FLOWS)
def test_velocity_is_tangent_and_constant_along_rays(which):
    B, V = random_matrices(5, 9)
    x = random_tokens(8, 5, 10)
    flow = make(which, B, V)
    # Sums of five products of order one.
    assert np.abs(np.sum(flow(0.0, x) * x, axis=1)).max() < 1e-14
    assert_allclose(flow(0.0, 1.7 * x), flow(0.0, x), rtol=0, atol=1e-13)


@pytest.mark.parametrize("which", FLOWS)
def test_rotation_equivariance(which):
    """Rotating tokens, B and V by R rotates the velocity."""
    d = 4
    B, V = random_matrices(d, 11)
    R = np.linalg.qr(np.random.default_rng(12).standard_normal((d, d)))[0]
    x = random_tokens(10, d, 13)
    turned = make(which, R @ B @ R.T, R @ V @ R.T)(0.0, x @ R.T)
    # Rounding of products of matrices of norm about 3.
    assert_allclose(turned, make(which, B, V)(0.0, x) @ R.T, rtol=0, atol=1e-13)


@pytest.mark.parametrize("which", FLOWS)
def test_permutation_of_tokens_and_batches_of_runs(which):
    B, V = random_matrices(3, 14)
    x, weights = np.stack([random_tokens(7, 3, seed) for seed in (15, 16)]), random_weights(7, 17)
    order = np.random.default_rng(18).permutation(7)
    velocity = make(which, B, V, weights=weights)(0.0, x)
    permuted = make(which, B, V, weights=weights[order])(0.0, x[:, order])
    # Sums in another order.
    assert_allclose(permuted, velocity[:, order], rtol=0, atol=1e-14)
    for run in range(2):
        alone = make(which, B, V, weights=weights)(0.0, x[run])
        assert_allclose(velocity[run], alone, rtol=0, atol=1e-14)


def test_weights_are_multiplicities():
    """A token of weight 2/n is two tokens of weight 1/n, along a whole run."""
    B, V = random_matrices(3, 19)
    x = random_tokens(5, 3, 20)
    doubled = np.concatenate([x, x[:2]])
    weights = np.array([2, 2, 1, 1, 1]) / 7
    times = np.linspace(0, 4, 5)
    tight = dict(rtol=1e-11, atol=1e-13)
    merged = ac.simulate(ac.SphereFlow(B, V, 5.0, weights), x, times, **tight)
    apart = ac.simulate(ac.SphereFlow(B, V, 5.0), doubled, times, **tight)
    # Two runs whose solvers choose their own steps, at tolerance 1e-11.
    assert_allclose(apart.tokens[:, :5], merged.tokens, rtol=0, atol=1e-8)
    assert_allclose(apart.tokens[:, 5:], apart.tokens[:, :2], rtol=0, atol=1e-12)


def test_equal_weights_are_the_default():
    B, V = random_matrices(2, 21)
    x = random_tokens(6, 2, 22)
    given = ac.SphereFlow(B, V, 2.0, np.full(6, 1 / 6))(0.0, x)
    assert_allclose(ac.SphereFlow(B, V, 2.0)(0.0, x), given, rtol=0, atol=1e-14)


@pytest.mark.parametrize("d", [2, 3, 5])
def test_field_of_the_uniform_law_is_a_ratio_of_bessel_functions(d):
    """X_beta[uniform](x) = A_d(beta |B^T x|) V B^T x / |B^T x|, A_d = I_{d/2} / I_{d/2 - 1}."""
    B, V = random_matrices(d, 23)
    x = random_tokens(6, d, 24)
    kappa = 2.5 * np.linalg.norm(x @ B, axis=1)
    ratio = special.ive(d / 2, kappa) / special.ive(d / 2 - 1, kappa)
    exact = ratio[:, None] * ac.zero_temperature_field(x, B, V)
    found, error = uniform_field(x, B, V, 2.5)
    assert_allclose(found, exact, rtol=0, atol=error)


def uniform_field(points, B, V, beta):
    """The field from quadrature nodes of the uniform law, and the error to allow for it."""
    d = len(V)
    if d == 2:
        angles = 2 * np.pi * np.arange(64) / 64
        nodes = np.column_stack([np.cos(angles), np.sin(angles)])
        return ac.attention_field(points, nodes, B, V, beta), 1e-13  # 64 nodes resolve e^{3 cos}
    # A random orthonormal frame with both signs sums linear functions exactly; averaging over
    # many leaves a sampling error of order |V| beta / sqrt(number of nodes).
    rng = np.random.default_rng(25)
    frames = [np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(4000)]
    nodes = np.concatenate([sign * frame for frame in frames for sign in (1, -1)])
    size = np.linalg.norm(V, 2)
    return ac.attention_field(points, nodes, B, V, beta), 3 * size / np.sqrt(len(nodes))


def test_field_at_the_tokens_is_the_flow_before_projection():
    B, V = random_matrices(3, 26)
    x, weights = random_tokens(9, 3, 27), random_weights(9, 28)
    field = ac.attention_field(x, x, B, V, 4.0, weights)
    tangent = field - np.sum(field * x, axis=1, keepdims=True) * x
    assert_allclose(ac.SphereFlow(B, V, 4.0, weights)(0.0, x), tangent, rtol=0, atol=1e-14)


def test_low_temperature_tends_to_the_zero_temperature_field():
    """On the circle with 2^14 equispaced nodes, at beta where they still resolve e^{-beta x^2/2}."""
    B, V = random_matrices(2, 29)
    x = random_tokens(20, 2, 30)
    angles = 2 * np.pi * np.arange(2**14) / 2**14
    nodes = np.column_stack([np.cos(angles), np.sin(angles)])
    limit = ac.zero_temperature_field(x, B, V)
    errors = [np.abs(ac.attention_field(x, nodes, B, V, beta) - limit).max()
              for beta in (1e2, 1e3, 1e4)]
    # 1 - I_1/I_0 = 1/(2 kappa) + O(kappa^-2): each step of ten divides the error by ten, and the
    # next term changes that by less than 1/kappa, at most 2 percent here.
    assert_allclose([errors[0] / errors[1], errors[1] / errors[2]], 10, rtol=0.02)


@pytest.mark.parametrize("which", FLOWS)
def test_two_solvers_agree(which):
    B, V = random_matrices(3, 31)
    start, times = random_tokens(10, 3, 32), np.linspace(0, 2, 5)
    tight = dict(rtol=1e-12, atol=1e-14)
    runs = [ac.simulate(make(which, B, V), start, times, method=method, **tight).tokens
            for method in ("DOP853", "LSODA")]
    # Both at 1e-12 a step over some hundreds of steps, errors growing at most like e^{|V| t}.
    assert_allclose(runs[0], runs[1], rtol=0, atol=1e-10)


def exact_zero_temperature(x, M, B, t):
    """Direction of e^{sM} x at the s with integral over (0, s) of |B^T x(r)| dr = t."""
    def at(s):
        y = linalg.expm(s * M) @ x
        return y / np.linalg.norm(y)

    def speed(s, clock):
        return [1 / np.linalg.norm(B.T @ at(clock[0]))]

    # The clock alone is integrated, as a scalar equation; the path is a matrix exponential.
    clock = integrate.solve_ivp(speed, (0, t), [0.0], method="DOP853", rtol=1e-12, atol=1e-13)
    return at(clock.y[0, -1])


def test_zero_temperature_flow_is_the_time_changed_linear_flow():
    d = 4
    rng = np.random.default_rng(33)
    B, _ = random_matrices(d, 34)
    M = rng.standard_normal((d, d))
    V = (M + M.T) @ np.linalg.inv(B).T
    start = random_tokens(6, d, 35)
    run = ac.simulate(ac.ZeroTemperatureFlow(B, V), start, [0.0, 1.5], rtol=1e-12, atol=1e-14)
    exact = np.stack([exact_zero_temperature(x, M + M.T, B, 1.5) for x in start])
    assert_allclose(run.tokens[-1], exact, rtol=0, atol=1e-10)  # solver tolerance 1e-12 a step


def test_zero_temperature_flow_with_orthogonal_score_matrix_needs_no_clock():
    """|B^T x| = 1 for an orthogonal B, of determinant -1 here: x(t) = e^{tVB^T} x / |.|."""
    B = np.diag([1.0, 1.0, -1.0])
    V = random_matrices(3, 36)[1]
    start = random_tokens(5, 3, 37)
    run = ac.simulate(ac.ZeroTemperatureFlow(B, V), start, [0.0, 2.0], rtol=1e-12, atol=1e-14)
    exact = start @ linalg.expm(2.0 * V @ B.T).T
    exact /= np.linalg.norm(exact, axis=1, keepdims=True)
    assert_allclose(run.tokens[-1], exact, rtol=0, atol=1e-10)  # solver tolerance 1e-12 a step


def test_layers_tend_to_the_flow():
    """Normalised Euler layers have an error of first order in the step."""
    B, V = random_matrices(3, 38)
    start, flow = random_tokens(6, 3, 39), ac.SphereFlow(B, V, 3.0)
    exact = ac.simulate(flow, start, [0.0, 1.0]).tokens[-1]
    errors = []
    for step in (0.02, 0.01, 0.005):
        layers = ac.simulate(flow, start, [0.0, 1.0], method="Euler", step=step).tokens[-1]
        assert np.abs(np.linalg.norm(layers, axis=1) - 1).max() < 1e-12
        errors.append(np.abs(layers - exact).max())
    # Halving the step halves the error up to terms of relative order |V|^2 step.
    assert_allclose([errors[0] / errors[1], errors[1] / errors[2]], 2, rtol=0.1)


def test_bad_arguments_are_refused_by_name():
    eye = np.eye(2)
    for make_flow, name in [
            (lambda: ac.SphereFlow(np.eye(1), np.eye(1), 1.0), "V"),
            (lambda: ac.ZeroTemperatureFlow(np.eye(1), np.eye(1)), "V"),
            (lambda: ac.SphereFlow(np.eye(3), eye, 1.0), "B"),
            (lambda: ac.SphereFlow(eye, np.ones((2, 3)), 1.0), "V"),
            (lambda: ac.SphereFlow(eye * np.nan, eye, 1.0), "B"),
            (lambda: ac.SphereFlow(eye, eye, 0.0), "beta"),
            (lambda: ac.SphereFlow(eye, eye, 1.0, [0.5, 0.6]), "weights"),
            (lambda: ac.SphereFlow(eye, eye, 1.0, [0.0, 1.0]), "weights"),
            (lambda: ac.SphereFlow(eye, eye, 1.0, [0.5, 0.5])(0.0, random_tokens(3, 2, 0)),
             "weights"),
            (lambda: ac.SphereFlow(eye, eye, 1.0)(0.0, np.zeros((2, 2))), "tokens"),
            (lambda: ac.SphereFlow(eye, eye, 1.0)(0.0, np.ones((2, 3))), "tokens"),
            (lambda: ac.simulate(ac.SphereFlow(eye, eye, 1.0), [[1.0, 1e-3]], [0, 1]), "tokens"),
            (lambda: ac.ZeroTemperatureFlow(np.diag([1.0, 0.0]), eye)(0.0, [[0.0, 1.0]]), "points"),
            (lambda: ac.attention_field(np.ones((2, 3)), np.ones((2, 2)), eye, eye, 1.0), "points"),
    ]:
        with pytest.raises(ValueError, match=rf"^{name}: "):
            make_flow()
