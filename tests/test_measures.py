"""Laws against closed-form moments, quadrature against its order, W2 against other solvers."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

from attn_clusters import measures
from attn_clusters.measures import (
    CapLaw,
    CosineLaw,
    EquatorLaw,
    KinkedLaw,
    UniformLaw,
    VonMisesFisherLaw,
    coupling_bound,
    principal_projection,
    wasserstein2,
    wasserstein2_two_atoms,
)

DIMENSIONS = (2, 3, 5)


def generic_axis(d):
    axis = np.arange(1.0, d + 1.0) * (-1.0) ** np.arange(d)
    return axis / np.linalg.norm(axis)


def laws(d):
    axis = generic_axis(d)
    return {
        "uniform": UniformLaw(d),
        "von Mises-Fisher": VonMisesFisherLaw(axis, 3.0),
        "cosine 1": CosineLaw(axis, -0.7),
        "cosine 3": CosineLaw(axis, 0.6, degree=3),
        "kinked": KinkedLaw(axis, 4.0),
        "dented": KinkedLaw(axis, -0.8),
        "cap": CapLaw(axis, 0.3),
        "wide cap": CapLaw(axis, -0.6),
        "equator": EquatorLaw(axis, 0.5),
    }


ALL_LAWS = [pytest.param(law, id=f"{name}, d={d}")
            for d in DIMENSIONS for name, law in laws(d).items()]
RULED_LAWS = [pytest.param(law, id=f"{name}, d={d}")
              for d in (2, 3) for name, law in laws(d).items()]


def mean_abs_power(p, d):
    """Mean of |h|^p under the uniform law on S^{d-1}: a ratio of Beta functions."""
    return np.exp(special.betaln((1 + p) / 2, (d - 1) / 2) - special.betaln(0.5, (d - 1) / 2))


def height_moments(law):
    """Closed forms of the means of h and h^2, h = <x, axis>."""
    d = law.d
    if isinstance(law, UniformLaw):
        return 0.0, 1 / d
    if isinstance(law, VonMisesFisherLaw):
        kappa = law.concentration
        first = special.ive(d / 2, kappa) / special.ive(d / 2 - 1, kappa)
        return first, 1 - (d - 1) * first / kappa
    if isinstance(law, CosineLaw):  # harmonics of other degrees are orthogonal
        return (law.amplitude / d if law.degree == 1 else 0.0), 1 / d
    if isinstance(law, KinkedLaw):
        a = law.slope
        return 0.0, (1 / d + a * mean_abs_power(3, d)) / (1 + a * mean_abs_power(1, d))
    if isinstance(law, CapLaw):
        # With w = (1 - h^2)^{(d-3)/2}: h w and d/dh [h (1 - h^2) w] = (1 - d h^2) w integrate
        # in closed form from the rim c to 1; the mass of w is an incomplete Beta function.
        c, half = law.height, (d - 1) / 2
        mass = special.betainc(half, half, (1 - c) / 2) * special.beta(0.5, half)
        return ((1 - c**2) ** half / (d - 1) / mass, (1 + c * (1 - c**2) ** half / mass) / d)
    s = law.exponent
    return 0.0, (1 - s) / (d - s)


def integral(law, function, low=-1.0, high=1.0):
    """Mean of function(h) times density, over low < h < high, by adaptive quadrature in the
    polar angle: an oracle that knows the density only through its public method."""
    across = np.linalg.svd(law.axis[None])[2][-1]

    def integrand(angle):
        x = np.cos(angle) * law.axis + np.sin(angle) * across
        return function(np.cos(angle)) * law.density(x[None])[0] * np.sin(angle) ** (law.d - 2)

    cuts = {np.arccos(high), np.arccos(low)}
    inner = [np.pi / 2] + ([np.arccos(law.height)] if isinstance(law, CapLaw) else [])
    cuts |= {angle for angle in inner if np.arccos(high) < angle < np.arccos(low)}
    cuts = sorted(cuts)
    # Integrable singularities sit at the cuts only, where quad never evaluates.
    parts = [integrate.quad(integrand, left, right, epsabs=1e-11, epsrel=1e-11, limit=200)[0]
             for left, right in itertools.pairwise(cuts)]
    return sum(parts) / special.beta(0.5, (law.d - 1) / 2)


# -------------------------------------------------------------------------------- densities


@pytest.mark.parametrize("law", ALL_LAWS)
def test_density_has_mean_one_and_the_closed_form_moments(law):
    # 1e-8: quad asks for 1e-11, and loses some to the square root singularity of the equator law
    assert integral(law, lambda h: 1.0) == pytest.approx(1.0, abs=1e-8)
    first, second = height_moments(law)
    assert integral(law, lambda h: h) == pytest.approx(first, abs=1e-8)
    assert integral(law, lambda h: h * h) == pytest.approx(second, abs=1e-8)


@pytest.mark.parametrize("d", (2, 3, 10))
@pytest.mark.parametrize("concentration", (1e-3, 1.0, 50.0, 299.0))
def test_von_mises_fisher_normalisation_at_extremes(d, concentration):
    law = VonMisesFisherLaw(generic_axis(d), concentration)
    log_mean = (special.gammaln(d / 2) + (d / 2 - 1) * np.log(2 / concentration)
                + np.log(special.ive(d / 2 - 1, concentration)))
    # ive and hyp0f1 are independent; exp loses concentration * 1e-16 in the exponent
    assert law.density(law.axis[None])[0] == pytest.approx(np.exp(-log_mean), rel=1e-11)
    assert law.density(-law.axis[None])[0] > 0


def test_cosine_law_on_the_circle_and_on_the_sphere():
    angles = np.linspace(0, 2 * np.pi, 50)
    circle = np.column_stack([np.cos(angles), np.sin(angles)])
    axis = np.array([np.cos(0.4), np.sin(0.4)])
    density = CosineLaw(axis, 0.5, degree=4).density(circle)
    np.testing.assert_allclose(density, 1 + 0.5 * np.cos(4 * (angles - 0.4)), atol=1e-13)
    law = CosineLaw([0.0, 0.0, 1.0], 0.5, degree=2)
    x = UniformLaw(3).sample(50, 0)
    np.testing.assert_allclose(law.density(x), 1 + 0.25 * (3 * x[:, 2] ** 2 - 1), atol=1e-13)


def test_support_and_equator():
    cap = CapLaw([0.0, 1.0], 0.5)
    assert cap.density([[0.0, -1.0]])[0] == 0.0 and not cap.full_support
    assert (cap.sample(1000, 0)[:, 1] >= 0.5 - 1e-15).all()  # one rounding of the token
    assert np.isinf(EquatorLaw([0.0, 1.0], 0.5).density([[1.0, 0.0]])[0])
    assert [law.full_support and law.lipschitz for law in laws(3).values()] == [
        True, True, True, True, True, True, False, False, False]


# ---------------------------------------------------------------------------------- samples


@pytest.mark.parametrize("law", ALL_LAWS)
def test_samples_follow_the_density(law):
    n, bins = 20_000, 12
    x = law.sample(n, np.random.default_rng(7))
    assert x.shape == (n, law.d)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1.0, atol=1e-15)
    h = x @ law.axis
    first, second = height_moments(law)
    for values, mean in ((h, first), (h * h, second)):
        # fixed seed; 5 standard errors are exceeded with probability 6e-7
        assert abs(values.mean() - mean) < 5 * values.std() / np.sqrt(n)
    edges = np.linspace(-1, 1, bins + 1)
    shares = np.array([integral(law, lambda h: 1.0, *pair) for pair in itertools.pairwise(edges)])
    counts = np.histogram(h, edges)[0]
    assert counts[shares == 0].sum() == 0
    seen = shares > 0
    # 2e-5 for 27 cases: a right sampler fails with probability below 1e-3, once and for all
    p_value = stats.chisquare(counts[seen], n * shares[seen] / shares[seen].sum()).pvalue
    assert p_value > 2e-5


@pytest.mark.parametrize("law", ALL_LAWS)
def test_samples_are_uniform_around_the_axis(law):
    n = 20_000
    x = law.sample(n, 3)
    h = x @ law.axis
    across = x - np.outer(h, law.axis)
    frame = np.linalg.svd(law.axis[None])[2][1:]
    coordinates = across @ frame.T
    assert (abs(coordinates.mean(0)) < 5 * coordinates.std(0) / np.sqrt(n)).all()
    squares = coordinates**2
    expected = (1 - height_moments(law)[1]) / (law.d - 1)
    assert (abs(squares.mean(0) - expected) < 5 * squares.std(0) / np.sqrt(n)).all()
    product = coordinates[:, 0] * h
    assert abs(product.mean()) < 5 * product.std() / np.sqrt(n)


@pytest.mark.parametrize("law", ALL_LAWS)
def test_samples_are_reproducible_and_of_any_size(law):
    np.testing.assert_array_equal(law.sample(17, 5), law.sample(17, np.random.default_rng(5)))
    assert not np.array_equal(law.sample(17, 5), law.sample(17, 6))
    assert law.sample(1, 0).shape == (1, law.d)


# ------------------------------------------------------------------------------- quadrature


@pytest.mark.parametrize("law", ALL_LAWS)
@pytest.mark.parametrize("n", (1, 30, 257))
def test_quadrature_returns_valid_weighted_tokens(law, n):
    x, w = law.quadrature(n)
    assert x.shape == (len(w), law.d) and len(w) >= n
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1.0, atol=1e-15)
    assert (w > 0).all() and abs(w.sum() - 1) < 1e-14
    if law.d == 2:
        assert len(w) % 4 == 0 and len(w) - n < 4
    elif law.d > 3:
        assert len(w) & (len(w) - 1) == 0 and len(w) < 2 * n


@pytest.mark.parametrize("d", (2, 3))
@pytest.mark.parametrize("name", ("uniform", "kinked", "equator", "cap"))
@pytest.mark.parametrize("n", (10, 50, 128))
def test_quadrature_nodes_avoid_the_coordinate_planes_and_are_symmetric(d, name, n):
    axis = np.eye(d)[-1]
    law = {"uniform": UniformLaw(d), "kinked": KinkedLaw(axis, 1.0),
           "equator": EquatorLaw(axis, 0.5), "cap": CapLaw(axis, 0.2)}[name]
    x, w = law.quadrature(n)
    # the gap is of the order of the spacing, at the ends of Gauss rules of its square
    assert abs(x).min() > 0.1 / len(w) ** (4 / d)
    for k in range(d - 1 if name == "cap" else d):
        mirrored = x * np.where(np.arange(d) == k, -1.0, 1.0)
        distances = np.linalg.norm(x[:, None] - mirrored, axis=2)
        assert distances.min(axis=0).max() < 1e-14  # rounding of cosines
        np.testing.assert_allclose(w[distances.argmin(axis=0)], w, rtol=1e-10)


@pytest.mark.parametrize("law", RULED_LAWS)
def test_quadrature_is_exact_for_low_moments(law):
    """Polynomials times densities of every kind, kinks and singularities included."""
    x, w = law.quadrature(1000)
    h = x @ law.axis
    first, second = height_moments(law)
    # rounding of up to 1152 nodes and of Gauss nodes near the rim
    assert w @ h == pytest.approx(first, abs=1e-12)
    assert w @ h**2 == pytest.approx(second, abs=1e-12)
    covariance = (x * w[:, None]).T @ x
    across = (1 - second) / (law.d - 1)
    expected = across * np.eye(law.d) + (second - across) * np.outer(law.axis, law.axis)
    np.testing.assert_allclose(covariance, expected, atol=1e-12)


def errors(law, function, exact, sizes):
    rules = [law.quadrature(n) for n in sizes]
    return (np.array([len(w) for _, w in rules]),
            np.array([abs(w @ function(x) - exact) for x, w in rules]))


def slope(sizes, values):
    return np.polyfit(np.log(sizes), np.log(values), 1)[0]


@pytest.mark.parametrize("law, sizes", [
    pytest.param(law, {2: (4, 16, 32, 64), 3: (32, 128, 512, 1152)}[d], id=f"{name}, d={d}")
    for d in (2, 3) for name, law in laws(d).items()
])
def test_rules_are_spectral_for_smooth_integrands(law, sizes):
    """E exp(5 <x, f>): a visible error falls to rounding with an order that grows on the way."""
    f = UniformLaw(law.d).sample(1, 1)[0]
    x, w = law.quadrature(5000)
    exact = w @ np.exp(5 * x @ f)
    sizes, error = errors(law, lambda x: np.exp(5 * x @ f), exact, sizes)
    rounding = 1e-12 * exact  # a thousand nodes at 1e-15, and Gauss nodes near the rim
    assert error[0] > 1e-6 * exact and error[-1] < rounding
    orders = -np.diff(np.log(np.maximum(error, 1e-300))) / np.diff(np.log(sizes))
    assert error[2] < rounding or orders[1] > orders[0]


def test_circle_rule_reproduces_the_aliasing_error_of_equispaced_angles():
    """E h under von Mises: n half-shifted equispaced nodes see every n-th Fourier coefficient."""
    kappa = 10.0
    law = VonMisesFisherLaw([1.0, 0.0], kappa)
    for n in (8, 12, 16, 20):
        k = np.arange(-20, 21)
        sign = (-1.0) ** k  # the shift by half a step
        value = (sign @ special.iv(abs(k * n - 1), kappa)) / (sign @ special.iv(abs(k * n), kappa))
        x, w = law.quadrature(n)
        assert w @ x[:, 0] == pytest.approx(value, abs=1e-14)
    exact = height_moments(law)[0]
    assert abs(value - exact) > 1e-7  # the formula does describe an error, not the limit


@pytest.mark.parametrize("law, order", [
    pytest.param(UniformLaw(2), 2, id="uniform, d=2"),
    pytest.param(UniformLaw(3), 1, id="uniform, d=3"),
])
def test_order_for_a_kinked_integrand(law, order):
    """|<x, f>| has its kink where the rule does not know of it. Single errors oscillate with the
    place of the kink among the nodes: the root mean square over many f shows the order."""
    exact = mean_abs_power(1, law.d)
    directions = law.sample(100, 0)
    sizes = [32, 128, 512, 2048]
    sizes, error = errors(law, lambda x: abs(x @ directions.T), exact, sizes)
    rms = np.sqrt((error**2).mean(axis=1))
    # at least the order claimed (0.15: scatter of a fit over four points)
    assert slope(sizes, rms) < -order + 0.15
    if law.d == 2:
        assert slope(sizes, rms) > -order - 0.15


def test_order_for_an_integrand_that_jumps_on_the_circle():
    law = UniformLaw(2)
    directions = law.sample(100, 0)
    sizes, error = errors(law, lambda x: (x @ directions.T > 0.5).astype(float), 1 / 3,
                          [32, 128, 512, 2048])
    assert slope(sizes, np.sqrt((error**2).mean(axis=1))) == pytest.approx(-1, abs=0.15)


def test_kinks_in_the_density_do_not_spoil_the_rule():
    """Equispaced nodes would see the kink of the density and be of order 2 only."""
    law = KinkedLaw([1.0, 0.0], 4.0)
    exact = height_moments(law)[1]
    sizes = np.array([16, 32, 64, 128])
    naive = []
    for n in sizes:
        x, _ = UniformLaw(2).quadrature(int(n))
        w = law.density(x) / law.density(x).sum()
        naive.append(abs(w @ x[:, 0] ** 2 - exact))
    assert slope(sizes, naive) == pytest.approx(-2, abs=0.1)
    x, w = law.quadrature(32)
    assert abs(w @ x[:, 0] ** 2 - exact) < 1e-13 < 1e-6 < naive[1]


@pytest.mark.parametrize("d", (5, 10))
@pytest.mark.parametrize("name", laws(5))
def test_sobol_rule_beats_random_tokens(name, d):
    """Fitted order over n = 2^6 ... 2^14 of the root mean square error of several moments."""
    law = laws(d)[name]
    first, second = height_moments(law)
    across = (1 - second) / (d - 1)
    mean = first * law.axis
    covariance = across * np.eye(d) + (second - across) * np.outer(law.axis, law.axis)
    sizes = 2 ** np.arange(6, 15)
    rms = []
    for n in sizes:
        x, w = law.quadrature(int(n))
        gaps = np.append(w @ x - mean, ((x * w[:, None]).T @ x - covariance).ravel())
        rms.append(np.sqrt((gaps**2).mean()))
    # random tokens have order 1/2; "near 1" in the docstring
    assert slope(sizes, rms) < -0.8
    assert rms[-1] < 0.05 / np.sqrt(sizes[-1])  # theirs is about 0.3 / sqrt(n)


@pytest.mark.parametrize("d", (2, 3))
def test_moments_of_the_inverse_projection(d):
    """A2: under the equator law E |h|^(-p) is finite for p < 1 - s only. The Gauss node nearest
    the equator is at a distance of order k^(-2), k = n^(1/(d-1)) nodes in height, and what lies
    nearer counts distance^(1 - s - p): the error if p < 1 - s, else the growth of the sums."""
    s, sizes = 0.5, 2 ** np.array([9, 11, 13, 15])
    rules = [EquatorLaw(np.eye(d)[0], s).quadrature(int(n)) for n in sizes]
    for p in (0.25, 0.75):
        sums = np.array([w @ abs(x[:, 0]) ** -p for x, w in rules])
        rate = -2 * (1 - s - p) / (d - 1)
        # 0.03: next order in 1/k, largest on S^2 where k is only 24 to 128
        assert slope(sizes[1:], abs(np.diff(sums))) == pytest.approx(rate, abs=0.03)
        if p < 1 - s:
            exact = mean_abs_power(-p - s, d) / mean_abs_power(-s, d)
            assert slope(sizes, abs(sums - exact)) == pytest.approx(rate, abs=0.03)


# ------------------------------------------------------------------------------- projection


def test_projection_onto_a_line_is_a_sign():
    x, _ = UniformLaw(3).quadrature(50)
    phi = generic_axis(3)
    np.testing.assert_allclose(principal_projection(x, phi[:, None]),
                               np.outer(np.sign(x @ phi), phi), atol=1e-15)


@pytest.mark.parametrize("m", (1, 2, 3))
def test_projection_is_idempotent_and_nearest(m):
    rng = np.random.default_rng(m)
    basis = np.linalg.qr(rng.standard_normal((4, m)))[0]
    x = UniformLaw(4).sample(30, rng)
    image = principal_projection(x, basis)
    np.testing.assert_allclose(np.linalg.norm(image, axis=1), 1, atol=1e-14)
    np.testing.assert_allclose(image @ basis @ basis.T, image, atol=1e-14)
    np.testing.assert_allclose(principal_projection(image, basis), image, atol=1e-14)
    others = UniformLaw(m).sample(200, rng) @ basis.T if m > 1 else np.vstack([basis.T, -basis.T])
    to_others = np.linalg.norm(x[:, None] - others, axis=2).min(axis=1)
    assert (np.linalg.norm(x - image, axis=1) <= to_others + 1e-14).all()
    rotation = np.linalg.qr(rng.standard_normal((m, m)))[0]
    np.testing.assert_allclose(principal_projection(x, basis @ rotation), image, atol=1e-13)


@pytest.mark.parametrize("token", ([0.0, 1.0], [np.cos(np.pi / 2), 1.0], [0.0, 0.0]))
def test_projection_refuses_tokens_orthogonal_to_the_eigenspace(token):
    with pytest.raises(ValueError, match=r"1 of 2 \(first: index 1\) are orthogonal"):
        principal_projection([[1.0, 0.0], token], [[1.0], [0.0]])


# ------------------------------------------------------------------------------ Wasserstein


def random_measure(rng, n, d, weighted):
    w = rng.random(n) + 0.05
    return rng.standard_normal((n, d)), (w / w.sum() if weighted else None)


@st.composite
def measure_sets(draw, count, same_size=False):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d = draw(st.integers(1, 3))
    sizes = [draw(st.integers(1, 7)) for _ in range(count)]
    weighted = draw(st.booleans())
    if same_size:
        sizes = sizes[:1] * count
    return rng, [random_measure(rng, n, d, weighted) for n in sizes]


def w2(first, second):
    return wasserstein2(first[0], second[0], first[1], second[1])


# Below, 1e-8: squares of distances are exact to 1e-10 (linear program, certified) or better of
# the largest cost; with distances of order 0.1 and more the measured error is about 1e-15.
LOOSE = 1e-8


@settings(max_examples=60, deadline=None)
@given(measure_sets(3))
def test_wasserstein_is_a_metric(case):
    _, (one, two, three) = case
    assert w2(one, two) == pytest.approx(w2(two, one), abs=LOOSE)
    assert w2(one, three) <= w2(one, two) + w2(two, three) + LOOSE
    assert w2(one, two) > 0


@settings(max_examples=60, deadline=None)
@given(measure_sets(1))
def test_wasserstein_of_a_measure_with_itself_vanishes(case):
    rng, [(x, w)] = case
    order = rng.permutation(len(x))
    # the square root of rounding: sqrt(n * 1e-16) times a diameter of up to 8
    assert wasserstein2(x, x[order], w, None if w is None else w[order]) < 1e-6


@settings(max_examples=60, deadline=None)
@given(measure_sets(2))
def test_rotation_and_translation(case):
    rng, [(x, a), (y, b)] = case
    d = x.shape[1]
    rotation, shift = np.linalg.qr(rng.standard_normal((d, d)))[0], rng.standard_normal(d)
    distance = wasserstein2(x, y, a, b)
    assert wasserstein2(x @ rotation, y @ rotation, a, b) == pytest.approx(distance, abs=LOOSE)
    # W2^2(x + c, y) = W2^2(x, y) + 2 <c, mean x - mean y> + |c|^2
    gap = np.average(x, axis=0, weights=a) - np.average(y, axis=0, weights=b)
    moved = distance**2 + 2 * shift @ gap + shift @ shift
    assert wasserstein2(x + shift, y, a, b) ** 2 == pytest.approx(moved, abs=LOOSE)


@settings(max_examples=60, deadline=None)
@given(measure_sets(2, same_size=True))
def test_coupling_bound_is_a_bound_and_sharp_for_translations(case):
    rng, [(x, w), (y, _)] = case
    assert wasserstein2(x, y, w, w) <= coupling_bound(x, y, w) + LOOSE
    shift = rng.standard_normal(x.shape[1])
    length = np.linalg.norm(shift)
    assert coupling_bound(x, x + shift, w) == pytest.approx(length, rel=1e-13)
    assert wasserstein2(x, x + shift, w, w) == pytest.approx(length, rel=LOOSE)


@pytest.mark.parametrize("n", range(1, 7))
def test_assignment_against_all_permutations(n):
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal((2, n, 2))
    best = min(np.mean(np.sum((x - y[list(order)]) ** 2, axis=1))
               for order in itertools.permutations(range(n)))
    assert wasserstein2(x, y) == pytest.approx(np.sqrt(best), rel=1e-14)


@pytest.mark.parametrize("seed", range(5))
def test_assignment_against_linear_program(seed):
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((2, 15, 3))
    cost = ((x[:, None] - y) ** 2).sum(-1)
    equal = np.full(15, 1 / 15)
    # 1e-12: both stop at an optimal vertex, the difference is rounding
    assert measures._transport_cost(cost, equal, equal) == pytest.approx(
        wasserstein2(x, y) ** 2, rel=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_linear_program_against_assignment_of_repeated_tokens(seed):
    """Weights k / 24 are k tokens of equal weight: another solver for the same measures."""
    rng = np.random.default_rng(seed)
    x, y = rng.standard_normal((6, 2)), rng.standard_normal((5, 2))
    k = 1 + rng.multinomial(18, np.full(6, 1 / 6))
    m = 1 + rng.multinomial(19, np.full(5, 1 / 5))
    repeated = wasserstein2(np.repeat(x, k, axis=0), np.repeat(y, m, axis=0))
    assert wasserstein2(x, y, k / 24, m / 24) == pytest.approx(repeated, rel=1e-12)


def test_equal_weights_on_one_side_only():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 4, 2))
    k = np.array([1, 2, 3, 6])
    repeated = wasserstein2(np.repeat(x, k, axis=0), np.repeat(y, 3, axis=0))
    assert wasserstein2(x, y, k / 12) == pytest.approx(repeated, rel=1e-12)
    assert wasserstein2(y, x, None, k / 12) == pytest.approx(repeated, rel=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_quantiles_against_linear_program(seed):
    rng = np.random.default_rng(seed)
    x, a = random_measure(rng, 9, 1, weighted=True)
    y, b = random_measure(rng, 7, 1, weighted=True)
    x[1], y[2] = x[0], x[3]  # ties within and between the measures
    # zeros in a second coordinate send the same problem to the other solver
    plane = wasserstein2(np.hstack([x, 0 * x]), np.hstack([y, 0 * y]), a, b)
    assert wasserstein2(x, y, a, b) == pytest.approx(plane, rel=1e-12)


def test_quantiles_against_closed_form_and_sorting():
    # p delta_0 + (1-p) delta_1 against q delta_0 + (1-q) delta_1 moves |p - q| by 1
    atoms = [[0.0], [1.0]]
    assert wasserstein2(atoms, atoms, [0.25, 0.75], [0.75, 0.25]) == np.sqrt(0.5)
    x, y = np.random.default_rng(0).standard_normal((2, 1000, 1))
    sort = np.sqrt(np.mean((np.sort(x[:, 0]) - np.sort(y[:, 0])) ** 2))
    assert wasserstein2(x, y) == pytest.approx(sort, rel=1e-12)


def test_small_weights_are_transported_as_exactly_as_large_ones():
    """Quadrature weights span many decades; against two atoms the answer is known."""
    x, w = VonMisesFisherLaw([1.0, 0.0], 15.0).quadrature(60)
    assert w.min() < 1e-13
    closed = wasserstein2_two_atoms(x, [1.0, 0.0], [-1.0, 0.0], 0.7, w)
    solved = wasserstein2(x, [[1.0, 0.0], [-1.0, 0.0]], w, [0.7, 0.3])
    assert solved**2 == pytest.approx(closed**2, abs=4e-10)  # the accuracy stated


@pytest.mark.parametrize("concentration", (15.0, 100.0))
def test_weights_of_many_decades_meet_the_certificate(concentration):
    """With the solver's own tolerances and masses unscaled, duality refuses these."""
    x, a = VonMisesFisherLaw([1.0, 0.0], concentration).quadrature(60)
    y, b = VonMisesFisherLaw([0.6, 0.8], concentration / 2).quadrature(32)
    square = wasserstein2(x, y, a, b) ** 2
    assert wasserstein2(y, x, b, a) ** 2 == pytest.approx(square, abs=8e-10)  # twice 1e-10 * 4


def test_unsolved_transport_is_an_error(monkeypatch):
    real = measures.optimize.linprog

    def off_by_a_little(*arguments, **options):
        result = real(*arguments, **options)
        result.fun *= 1 + 1e-6
        return result

    monkeypatch.setattr(measures.optimize, "linprog", off_by_a_little)
    with pytest.raises(RuntimeError, match="duality gap"):
        wasserstein2([[0.0, 0.0], [1.0, 0.0]], [[2.0, 0.0]])


# -------------------------------------------------------------------------------- two atoms


@settings(max_examples=80, deadline=None)
@given(measure_sets(1), st.floats(0.01, 0.99))
def test_two_atoms_against_linear_program(case, p):
    rng, [(x, w)] = case
    a, b = rng.standard_normal((2, x.shape[1]))
    general = wasserstein2(x, [a, b], w, [p, 1 - p])
    assert wasserstein2_two_atoms(x, a, b, p, w) == pytest.approx(general, abs=LOOSE)
    assert wasserstein2_two_atoms(x, b, a, 1 - p, w) == pytest.approx(general, abs=LOOSE)


def test_two_atoms_with_ties_and_extreme_masses():
    x = np.zeros((4, 2))  # every token has the same preference: only the split matters
    a, b = [1.0, 0.0], [0.0, 2.0]
    for p in (0.0, 0.1, 0.5, 1.0):
        exact = np.sqrt(p + 4 * (1 - p))
        assert wasserstein2_two_atoms(x, a, b, p) == pytest.approx(exact, rel=1e-15)
    y = np.random.default_rng(0).standard_normal((50, 2))
    for p, atom in ((1.0, a), (0.0, b)):
        exact = np.sqrt(np.mean(np.sum((y - atom) ** 2, axis=1)))
        assert wasserstein2_two_atoms(y, a, b, p) == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize("law", [laws(3)["kinked"], laws(2)["von Mises-Fisher"]])
def test_two_atoms_is_the_natural_coupling_with_the_projection(law):
    """At Pi_# rho_0 each token goes to the nearer atom, which is Pi: bound and distance agree."""
    x, w = law.quadrature(400)
    phi = generic_axis(law.d)[:, None]
    image = principal_projection(x, phi)
    p = w[(x @ phi)[:, 0] > 0].sum()
    distance = wasserstein2_two_atoms(x, phi[:, 0], -phi[:, 0], p, w)
    assert distance == pytest.approx(coupling_bound(x, image, w), rel=1e-13)
    # collapsed tokens: zero, up to the square root of the rounding of p
    assert wasserstein2_two_atoms(image, phi[:, 0], -phi[:, 0], p, w) < 1e-7


# ------------------------------------------------------------------------------- bad input


PAIR = np.array([[1.0, 0.0], [0.0, 1.0]])


@pytest.mark.parametrize("name, call", [
    ("axis", lambda: VonMisesFisherLaw([2.0, 0.0], 1.0)),
    ("axis", lambda: VonMisesFisherLaw([1.0], 1.0)),
    ("axis", lambda: VonMisesFisherLaw([np.nan, 1.0], 1.0)),
    ("d", lambda: UniformLaw(1)),
    ("d", lambda: UniformLaw(2.0)),
    ("concentration", lambda: VonMisesFisherLaw([1.0, 0.0], 0.0)),
    ("concentration", lambda: VonMisesFisherLaw([1.0, 0.0], 300.0)),
    ("amplitude", lambda: CosineLaw([1.0, 0.0], 1.0)),
    ("degree", lambda: CosineLaw([1.0, 0.0], 0.5, 0)),
    ("degree", lambda: CosineLaw([1.0, 0.0], 0.5, 1.5)),
    ("slope", lambda: KinkedLaw([1.0, 0.0], -1.0)),
    ("slope", lambda: KinkedLaw([1.0, 0.0], np.inf)),
    ("height", lambda: CapLaw([1.0, 0.0], 1.0)),
    ("exponent", lambda: EquatorLaw([1.0, 0.0], 1.0)),
    ("exponent", lambda: EquatorLaw([1.0, 0.0], np.nan)),
    ("n", lambda: UniformLaw(2).sample(0)),
    ("n", lambda: VonMisesFisherLaw([1.0, 0.0], 1.0).sample(2.5)),
    ("n", lambda: UniformLaw(2).quadrature(-3)),
    ("x", lambda: UniformLaw(2).density([[1.0, 1e-4]])),
    ("x", lambda: UniformLaw(2).density([[1.0, 0.0, 0.0]])),
    ("basis", lambda: principal_projection(PAIR, [[1.0], [1.0]])),
    ("basis", lambda: principal_projection(PAIR, [1.0, 0.0])),
    ("tokens", lambda: principal_projection(PAIR, [[1.0], [0.0], [0.0]])),
    ("x", lambda: wasserstein2([1.0, 2.0], PAIR)),
    ("x", lambda: wasserstein2(PAIR + np.inf, PAIR)),
    ("x", lambda: wasserstein2(PAIR * 1j, PAIR)),
    ("y", lambda: wasserstein2(PAIR, [[1.0]])),
    ("y", lambda: wasserstein2(PAIR, np.empty((0, 2)))),
    ("x_weights", lambda: wasserstein2(PAIR, PAIR, [0.5, 0.6])),
    ("x_weights", lambda: wasserstein2(PAIR, PAIR, [0.5, 0.5 + 1e-11])),
    ("x_weights", lambda: wasserstein2(PAIR, PAIR, [1.0])),
    ("y_weights", lambda: wasserstein2(PAIR, PAIR, None, [1.0, 0.0])),
    ("y_weights", lambda: wasserstein2(PAIR, PAIR, None, [np.nan, 1.0])),
    ("atom_a", lambda: wasserstein2_two_atoms(PAIR, [1.0], [0.0, 1.0], 0.5)),
    ("atom_b", lambda: wasserstein2_two_atoms(PAIR, [0.0, 1.0], [1.0], 0.5)),
    ("p", lambda: wasserstein2_two_atoms(PAIR, [0.0, 1.0], [1.0, 0.0], 1.1)),
    ("p", lambda: wasserstein2_two_atoms(PAIR, [0.0, 1.0], [1.0, 0.0], np.nan)),
    ("weights", lambda: wasserstein2_two_atoms(PAIR, [0.0, 1.0], [1.0, 0.0], 0.5, [0.5, 0.4])),
    ("y", lambda: coupling_bound(PAIR, PAIR[:1])),
    ("weights", lambda: coupling_bound(PAIR, PAIR, [2.0, -1.0])),
])
def test_bad_input_names_the_argument(name, call):
    with pytest.raises(ValueError, match=f"^{name}: "):
        call()


def test_a_law_cannot_be_changed():
    axis = np.array([1.0, 0.0])
    law = CapLaw(axis, 0.2)
    axis[0] = 7.0
    assert law.axis[0] == 1.0
    with pytest.raises(ValueError):
        law.axis[0] = 2.0
    with pytest.raises(AttributeError):
        law.height = 0.5
