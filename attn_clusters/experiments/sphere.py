"""Figures of the chapter on tokens on the sphere: initial laws, quadrature, sampling (equation B1)."""

import numpy as np
from scipy import special, stats

from .. import plots
from .. import plots_sphere as draw
from ..flows import SphereFlow, attention_field
from ..measures import CapLaw, CosineLaw, EquatorLaw, KinkedLaw, UniformLaw, VonMisesFisherLaw
from ..simulate import simulate
from .core import experiment
from .numbers import Measured, bounded

AXIS = (0.6, 0.8)
PLANE_B, PLANE_V = ((1.0, 0.3), (-0.2, 0.8)), ((1.0, 0.4), (0.1, 0.5))
NAMES = ("uniform", "von Mises-Fisher", "cosine", "kinked", "cap", "pole at the equator")


def laws(axis):
    """One law of each kind about an axis, in the order of `NAMES`."""
    return (UniformLaw(len(axis)), VonMisesFisherLaw(axis, 2.0), CosineLaw(axis, 0.7, 3),
            KinkedLaw(axis, 2.0), CapLaw(axis, 0.2), EquatorLaw(axis, 0.5))


@experiment(
    "wellposed-sphere-laws", statement="wellposed", title="Initial laws",
    caption="""Densities of the initial laws on the circle, relative to the uniform law, against the
    angle to their axis. The first four are positive and Lipschitz; the cap has a gap, the last a
    pole at the equator. Each comes as random tokens and as quadrature nodes; the mean height of {n}
    random tokens of each is off by at most {worst} standard errors.""",
    alt="""Six curves over the angle: a level line, a smooth hump, a wave with three crests, a curve
    with two kinks, a box, and a curve with two poles.""",
    draw=plots.curves, axis=AXIS, n=20000, seed=1)
def sphere_laws(axis, n, seed):
    """Densities on the circle; nodes and random tokens held against each other."""
    angles = np.linspace(-np.pi, np.pi, 720, endpoint=False) + np.pi / 720
    turn = np.array([[axis[0], -axis[1]], [axis[1], axis[0]]])
    points = np.column_stack([np.cos(angles), np.sin(angles)]) @ turn.T
    values, deviations, mass = [], [], 0.0
    for law in laws(np.array(axis)):
        nodes, weights = law.quadrature(2000)
        heights, sample = nodes @ law.axis, law.sample(n, seed) @ law.axis
        mean = weights @ heights
        deviation = np.sqrt(weights @ (heights - mean) ** 2 / n)
        deviations.append(abs(sample.mean() - mean) / deviation)
        values.append(law.density(points))
        mass = max(mass, abs(weights.sum() - 1))
    values = np.array(values)
    numbers = {"worst": Measured(max(deviations), "largest deviation of a sample mean, in standard "
                                 "errors", 2, "seeded draws"),
               "mass": bounded(mass, 1e-12, "total weight of the nodes, less 1", "rounding")}
    return {"x": angles, "values": np.where(values < 4, values, np.nan), "labels": np.array(NAMES),
            "xlabel": "angle to the axis", "ylabel": "density"}, numbers


def closed_field(points, law, B, V, beta):
    """X_beta of a von Mises-Fisher law: V A_d(|w|) w / |w| with w = beta B^T x + c a."""
    w = beta * points @ B + law.concentration * law.axis
    lengths = np.linalg.norm(w, axis=1, keepdims=True)
    half = law.d / 2
    return special.ive(half, lengths) / special.ive(half - 1, lengths) * w / lengths @ V.T


def field_errors(law, counts, beta, rng=None, draws=40):
    """Largest error of the field at 20 points against its closed form, for several numbers of tokens.

    Quadrature nodes if `rng` is None, else the root mean square over draws of random tokens.
    """
    d, errors = law.d, []
    B = np.diag(np.linspace(1.0, 0.5, d))
    points = UniformLaw(d).sample(20, 0)
    exact = closed_field(points, law, B, np.eye(d), beta)

    def error(tokens, weights=None):
        found = attention_field(points, tokens, B, np.eye(d), beta, weights)
        return np.linalg.norm(found - exact, axis=1).max()

    for n in counts:
        if rng is None:
            errors.append(error(*law.quadrature(n)))
        else:
            errors.append(np.sqrt(np.mean([error(law.sample(n, rng)) ** 2 for _ in range(draws)])))
    return np.array(errors)


@experiment(
    "wellposed-sphere-quadrature", statement="wellposed",
    title="Quadrature nodes carry the law to high order",
    caption="""Error of the field X_beta of a von Mises-Fisher law at beta = {beta:g}, against its
    closed form, for n tokens. Nodes on the circle and on the sphere of R³ reach rounding; in
    dimension 6 quasi-random nodes fall like n to the power {slope_sobol}, random tokens like n to
    the power {slope_random}.""",
    alt="""Four curves in a double logarithmic plot. Circle and sphere drop to the level of rounding
    within few nodes; quasi-random nodes fall with slope about -1, random tokens with slope
    -1/2.""",
    draw=draw.orders, beta=5.0, counts=tuple(2**k for k in range(3, 16)), concentration=2.0, seed=2)
def sphere_quadrature(beta, counts, concentration, seed):
    """Error of the field against the number of nodes, in dimensions 2, 3 and 6."""
    rng, counts = np.random.default_rng(seed), np.array(counts)
    cases = [VonMisesFisherLaw(np.eye(d)[0], concentration) for d in (2, 3, 6)]
    errors = [field_errors(law, counts, beta) for law in cases]
    errors.append(field_errors(cases[0], counts, beta, rng))
    errors = np.maximum(errors, 1e-16)  # an error of exactly 0 has no place on the axis
    late = counts >= 2**9
    slopes = [stats.linregress(np.log(counts[late]), np.log(errors[row][late])) for row in (2, 3)]
    why = "seeded draws"
    numbers = {
        "slope_sobol": Measured(slopes[0].slope, "slope, quasi-random nodes, d = 6", 2, why),
        "slope_random": Measured(slopes[1].slope, "slope, random tokens", 2, why),
        "error_random": Measured(slopes[1].stderr, "its standard error", 1, why),
        "circle": bounded(errors[0][counts >= 64].max(), 1e-13, "error on the circle, 64 nodes or more",
                          "rounding"),
        "sphere": bounded(errors[1][counts >= 2048].max(), 1e-13,
                          "error on the sphere, 2048 nodes or more", "rounding"),
    }
    arrays = {"betas": counts, "errors": errors, "guide": errors[3][0] * np.sqrt(counts[0] / counts),
              "labels": np.array(["nodes, d = 2", "nodes, d = 3", "quasi-random nodes, d = 6",
                                  "random tokens, d = 2"]),
              "guide_label": "n to the power -1/2", "xlabel": "number of tokens n",
              "ylabel": "largest error of the field"}
    return arrays, numbers


def moments(tokens, weights):
    """First and second moments of weighted tokens (..., n, 2): an array (..., 5)."""
    x, y = tokens[..., 0], tokens[..., 1]
    return np.stack([item @ weights for item in (x, y, x * x, x * y, y * y)], axis=-1)


def node_moments(law, n, time, B, V, beta):
    """Moments of rho_t carried by n quadrature nodes, an array (5,)."""
    tokens, weights = law.quadrature(n)
    run = simulate(SphereFlow(B, V, beta, weights), tokens, [0.0, time], rtol=1e-10)
    return moments(run.tokens[-1], weights)


def sampled_moments(law, n, draws, time, B, V, beta, rng):
    """The same for several draws of n random tokens, run as one batch: an array (draws, 5)."""
    tokens = law.sample(n * draws, rng).reshape(draws, n, law.d)
    run = simulate(SphereFlow(B, V, beta), tokens, [0.0, time], rtol=1e-6)
    return moments(run.tokens[-1], np.full(n, 1 / n))


@experiment(
    "wellposed-sphere-sampling", statement="wellposed",
    title="The mean-field limit, and random tokens",
    caption="""Error of the first and second moments of rho_t at t = {time:g}, beta = {beta:g}, for
    n tokens. Quadrature nodes of a smooth and of a kinked law converge faster than any power;
    random tokens (root mean square over {draws} draws) are off by n to the power {slope} ± {error}.
    With {compared} tokens the error of random ones is {ratio} times that of nodes.""",
    alt="""Two curves that plunge towards the solver's tolerance, and one line of slope -1/2 high
    above.""",
    draw=draw.orders, time=1.0, beta=4.0, draws=32, compared=96,
    counts=(16, 24, 32, 48, 64, 96, 128, 192, 256, 384), seed=3)
def sphere_sampling(time, beta, draws, compared, counts, seed):
    """Error at time t against the number of tokens: nodes of two laws, and random tokens."""
    rng, setting = np.random.default_rng(seed), (time, np.array(PLANE_B), np.array(PLANE_V), beta)
    smooth, kinked = VonMisesFisherLaw(np.array(AXIS), 2.0), KinkedLaw(np.array(AXIS), 2.0)
    exact = {law: node_moments(law, 512, *setting) for law in (smooth, kinked)}
    errors = [[np.linalg.norm(node_moments(law, n, *setting) - exact[law]) for n in counts]
              for law in (smooth, kinked)]
    sampled = [sampled_moments(smooth, n, draws, *setting, rng) - exact[smooth] for n in counts]
    errors.append([np.sqrt(np.mean(np.sum(found**2, axis=1))) for found in sampled])
    refined = max(np.linalg.norm(node_moments(law, 1024, *setting) - exact[law]) for law in exact)
    counts, errors = np.array(counts), np.maximum(errors, 1e-12)
    fit = stats.linregress(np.log(counts), np.log(errors[2]))
    place = np.flatnonzero(counts == compared)[0]
    numbers = {
        "slope": Measured(fit.slope, "slope, random tokens", 2, "seeded draws"),
        "error": Measured(fit.stderr, "its standard error", 1, "seeded draws"),
        "ratio": Measured(errors[2, place] / errors[0, place],
                          f"error of {compared} random tokens over that of as many nodes", 2,
                          "solver tolerance 1e-10 beside errors of 1e-8"),
        "refined": bounded(refined, 1e-11, "change from 512 to 1024 nodes, both laws",
                           "solver tolerance 1e-10"),
    }
    arrays = {"betas": counts, "errors": errors, "guide": errors[2][0] * np.sqrt(counts[0] / counts),
              "labels": np.array(["nodes, smooth", "nodes, kinked", "random tokens, smooth"]),
              "guide_label": "n to the power -1/2", "xlabel": "number of tokens n",
              "ylabel": "error of the moments"}
    return arrays, numbers


@experiment(
    "wellposed-sphere-flow", statement="wellposed", title="Weighted tokens on the sphere",
    caption="""{count} quadrature nodes of a von Mises-Fisher law under equation B1, d = 3, beta =
    {beta:g}; the area of a dot is its weight. The tokens stay on the sphere to rounding; at t =
    {last} half of the mass is within {radius} of one point.""",
    alt="""Three spheres with dots: a grid of dots, heavier on one side; the same drawn together
    towards two spots; two small clusters.""",
    draw=draw.snapshots_sphere, n=400, beta=10.0, shown=(0.0, 2.0, 5.0), last=5)
def sphere_flow(n, beta, shown, last):
    """Snapshots of weighted nodes in space."""
    tokens, weights = VonMisesFisherLaw(np.array([0.6, 0.0, 0.8]), 1.0).quadrature(n)
    B, V = np.diag([1.0, 0.8, 0.6]), np.diag([1.0, 0.5, 0.2])
    run = simulate(SphereFlow(B, V, beta, weights), tokens, shown)
    end = run.tokens[-1]
    distances = np.linalg.norm(end - np.array([1.0, 0, 0]), axis=1)
    order = np.argsort(distances)
    half = distances[order][np.searchsorted(np.cumsum(weights[order]), 0.5)]
    numbers = {
        "count": Measured(len(tokens), "nodes"),
        "norm": bounded(np.abs(np.linalg.norm(run.tokens, axis=2) - 1).max(), 1e-12,
                        "largest distance from the sphere", "rounding"),
        "radius": Measured(half, f"half of the mass is within this distance of e_1 at t = {last}", 3),
    }
    return {"times": np.array(shown), "tokens": run.tokens, "weights": weights}, numbers
