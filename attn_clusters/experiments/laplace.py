"""Figures of the chapter on the Laplace principle (second paper): the field at low temperature.

On the circle the field of a law with a density is computed on quadrature nodes of its own for every
point and every beta: they are graded towards the maximiser of y -> <Qx, Ky> and towards the places
where the density is not smooth, so that every scale is resolved, however large beta is.
"""

from functools import lru_cache

import numpy as np
from scipy import optimize, special, stats

from .. import plots_sphere as draw
from ..flows import attention_field, zero_temperature_field
from ..measures import CapLaw, CosineLaw, EquatorLaw, KinkedLaw, VonMisesFisherLaw
from .core import experiment
from .numbers import Measured, bounded

B = ((1.2, 0.4), (-0.3, 0.7))
V = ((1.0, 0.5), (-0.8, 0.6))
BETAS = tuple(10.0 ** (k / 2) for k in range(11))
FITTED = 1e3
AXIS_ANGLE = 0.7
NAMES = ("smooth: von Mises-Fisher", "smooth: cosine", "kinked: 1 + 2|h|", "unbounded: |h|^(-1/2)",
         "cap, whole circle", "cap, inside")


def circle(angles):
    """Points (n, 2) at the given angles."""
    return np.column_stack([np.cos(angles), np.sin(angles)])


def laws(angle=AXIS_ANGLE):
    """The laws of this chapter by name, with the angles at which their densities are not smooth."""
    axis = circle([angle])[0]
    equator = np.array([angle - np.pi / 2, angle + np.pi / 2])
    edge = np.arccos(0.2)
    cap = (CapLaw(axis, 0.2), np.array([angle - edge, angle + edge]))
    return dict(zip(NAMES, [
        (VonMisesFisherLaw(axis, 2.0), np.array([])), (CosineLaw(axis, 0.6, 2), np.array([])),
        (KinkedLaw(axis, 2.0), equator), (EquatorLaw(axis, 0.5), equator), cap, cap], strict=True))


@lru_cache
def gauss(nodes):
    """Gauss-Legendre nodes and weights on [0, 1]."""
    u, mass = np.polynomial.legendre.leggauss(nodes)
    return (u + 1) / 2, mass / 2


def graded_circle(law, breaks, maximiser, nodes=16, levels=14):
    """Quadrature nodes and weights of a law on the circle, graded towards some angles.

    Gauss-Legendre on panels that halve towards the maximiser and towards the breaks. On the panels
    that touch one of these angles the offset from it is the square of the node's, which
    makes a density |offset|^(-1/2) smooth.
    """
    centres = np.unique(np.mod(np.append(breaks, maximiser), 2 * np.pi))
    middles = (centres + np.append(centres[1:], centres[0] + 2 * np.pi)) / 2
    length = np.concatenate([middles - centres,
                             centres - np.append(middles[-1] - 2 * np.pi, middles[:-1])])
    side = np.repeat([1.0, -1.0], len(centres))
    u, mass = gauss(nodes)
    edges = 2.0 ** -np.arange(levels)
    inner = edges[1:, None] + (edges[:-1] - edges[1:])[:, None] * u
    offset = np.append(inner.ravel(), edges[-1] * u**2)
    area = np.append(np.outer(edges[:-1] - edges[1:], mass).ravel(), edges[-1] * 2 * u * mass)
    angles = (np.tile(centres, 2)[:, None] + side[:, None] * length[:, None] * offset).ravel()
    tokens = circle(angles)
    weights = (length[:, None] * area).ravel() * law.density(tokens)
    kept = weights > 0
    return tokens[kept], weights[kept] / weights.sum()


def field_error(law, breaks, angle, beta, B, V, nodes=16):
    """|X_beta[rho](x) - V u| at the x for which u = B^T x / |B^T x| has the given angle."""
    u = circle([angle])
    x = u @ np.linalg.inv(B)
    x /= np.linalg.norm(x)
    tokens, weights = graded_circle(law, breaks, angle, nodes)
    field = attention_field(x, tokens, B, V, beta, weights)
    return float(np.linalg.norm(field - zero_temperature_field(x, B, V)))


def candidates(breaks):
    """Angles that contain the neighbourhood of every maximum: all round, and close to breaks."""
    offsets = np.append(-np.geomspace(1e-4, 0.5, 15), np.geomspace(1e-4, 0.5, 15))
    around = np.linspace(0, 2 * np.pi, 32, endpoint=False)
    return np.sort(np.mod(np.append(around, np.add.outer(breaks, offsets)), 2 * np.pi))


def largest_error(law, breaks, beta, B, V, inside=None):
    """Sup over the circle of `field_error`: the best candidate, then refined; and its angle.

    `inside` restricts u to angles within that distance of the law's axis.
    """
    angles = candidates(breaks)
    axis = np.arctan2(law.axis[1], law.axis[0])
    if inside is not None:
        angles = axis + np.linspace(-inside, inside, 40)
    errors = np.array([field_error(law, breaks, angle, beta, B, V) for angle in angles])
    best = int(errors.argmax())
    low, high = angles[max(best - 1, 0)], angles[min(best + 1, len(angles) - 1)]
    found = optimize.minimize_scalar(
        lambda angle: -field_error(law, breaks, angle, beta, B, V),
        bounds=(low, high), method="bounded", options={"xatol": 1e-7})
    return max((-found.fun, found.x), (errors[best], angles[best]))


def slope(betas, errors, least=FITTED):
    """Slope of log(error) against log(beta) for beta >= least, and its standard error."""
    late = np.asarray(betas) >= least
    fit = stats.linregress(np.log(np.asarray(betas)[late]), np.log(np.asarray(errors)[late]))
    return float(fit.slope), float(fit.stderr)


def slope_numbers(key, name, betas, errors):
    """The fitted slope and its standard error as numbers of a figure."""
    fitted, error = slope(betas, errors)
    why = "field and maximum are exact to 1e-10 or better"
    return {f"slope_{key}": Measured(fitted, f"slope, {name}", 5, why),
            f"error_{key}": Measured(error, f"standard error of the slope, {name}", 2, why)}


@experiment(
    "laplace-orders", statement="laplace", title="The order of the Laplace principle",
    caption="""Largest distance over the circle between the field and its limit against beta, for
    six cases. Grey: the proved order sqrt(log(beta + 1) / beta), through the first point. Fitted
    slopes for beta from {fitted} on: {slope_fisher} and {slope_cosine} for the smooth densities,
    {slope_kink} for the kinked one, {slope_equator} for the one that is positive but unbounded, and
    {slope_cap} on the cap: where the density vanishes the field does not go to this limit at all.
    Inside the cap, {margin} radians from its edge, the slope is {slope_inside}.""",
    alt="""Six falling curves in a double logarithmic plot. Smooth and kinked densities and the
    inside of the cap fall with slope -1, the unbounded density with slope -1/2, and the cap on the
    whole circle stays level.""",
    draw=draw.orders, B=B, V=V, betas=BETAS, fitted=1000, margin=0.25, edge=0.2)
def laplace_orders(B, V, betas, fitted, margin, edge):
    """Sup-distance against beta for six laws on the circle, with fitted slopes."""
    B, V, betas = np.array(B), np.array(V), np.array(betas)
    errors, places = np.empty((2, len(NAMES), len(betas)))
    for row, (name, (law, breaks)) in enumerate(laws().items()):
        inside = np.arccos(edge) - margin if name.endswith("inside") else None
        for column, beta in enumerate(betas):
            errors[row, column], places[row, column] = largest_error(law, breaks, beta, B, V, inside)
    numbers = {}
    for key, name, values in zip(("fisher", "cosine", "kink", "equator", "cap", "inside"), NAMES,
                                 errors, strict=True):
        numbers |= slope_numbers(key, name, betas, values)
    numbers["level"] = Measured(errors[4, -1], "distance that is left on the cap", 4)
    refined = [max(abs(field_error(law, breaks, angle, beta, B, V, 24) - error)
                   for beta, error, angle in zip(betas, *case, strict=True))
               for (law, breaks), *case in zip(laws().values(), errors, places, strict=True)]
    numbers["refinement_unbounded"] = bounded(
        refined.pop(3), 1e-10, "change with half as many nodes again, unbounded density",
        "rounding of nodes next to its pole")
    numbers["refinement"] = bounded(max(refined), 1e-12, "the same, other laws", "rounding")
    guide = np.sqrt(np.log(betas + 1) / betas)
    arrays = {"betas": betas, "errors": errors, "labels": np.array(NAMES),
              "guide": guide * errors[0, 0] / guide[0], "guide_label": "proved order"}
    return arrays, numbers


@experiment(
    "laplace-profile", statement="laplace", title="Where on the circle the distance is largest",
    caption="""beta times the distance between field and limit, against the angle between the
    maximiser u and the axis of the law, for three temperatures. Left, kinked density: the curves
    settle, so the distance is of order 1/beta everywhere, kink included, with a jump of the limit
    curve at the kink. Right, cap: beyond the edge (grey) the distance does not fall at all, at beta
    = {last} it is up to {outside}, and the edge is felt at a distance of order beta to the power
    -1/2.""",
    alt="""Two panels over the angle. Left: three curves that coincide but near two kinks. Right:
    they coincide inside the cap and separate by powers of ten beyond its edge.""",
    draw=draw.profiles, B=B, V=V, betas=(1e2, 1e3, 1e4), last=10000)
def laplace_profile(B, V, betas, last):
    """beta times the distance as a function of the angle, kinked density and cap."""
    B, V = np.array(B), np.array(V)
    angles = np.unique(np.append(np.linspace(-np.pi, np.pi, 181), np.outer(
        [1, -1], np.pi / 2 + np.outer([1, -1], np.geomspace(1e-3, 0.2, 12)).ravel())))
    chosen = [laws()[NAMES[2]], laws()[NAMES[4]]]
    values = np.array([[[beta * field_error(law, breaks, AXIS_ANGLE + angle, beta, B, V)
                         for angle in angles] for beta in betas] for law, breaks in chosen])
    edge = np.arccos(0.2)
    inside = np.abs(angles) < np.pi / 4
    settled = np.abs(values[:, 1:, inside] / values[:, :-1, inside] - 1).max()
    numbers = {
        "settled": Measured(settled, "largest relative change with ten times beta, at most pi/4 "
                            "from the axis", 2, "field exact to 1e-12"),
        "kink": Measured(values[0, -1].max(), f"largest beta times distance at beta = {last}, "
                         "kinked", 4, "field exact to 1e-12"),
        "outside": Measured(values[1, -1].max() / betas[-1],
                            f"largest distance at beta = {last}, cap", 4, "field exact to 1e-12"),
    }
    return {"angles": angles, "values": values, "betas": np.array(betas), "edge": edge}, numbers


def fisher_error(u, axis, concentration, beta, B, V):
    """Distance of field and limit at directions u (m, d) for a von Mises-Fisher law, exactly.

    The law times e^{beta <Qx, Ky>} is again of that family, so with w = beta B^T x + c a the weighted
    mean is A_d(|w|) w / |w|, A_d = I_{d/2} / I_{d/2-1}.
    """
    u = u / np.linalg.norm(u, axis=1, keepdims=True)
    images = u / np.linalg.norm(u @ np.linalg.inv(B), axis=1, keepdims=True)
    w = beta * images + concentration * axis
    lengths = np.linalg.norm(w, axis=1, keepdims=True)
    half = u.shape[1] / 2
    mean = special.ive(half, lengths) / special.ive(half - 1, lengths) * w / lengths
    return np.linalg.norm((mean - u) @ V.T, axis=1)


def largest_fisher_error(axis, concentration, beta, B, V, starts):
    """Sup over the sphere: the best of many directions, refined from the two best."""
    def negative(u):
        return -fisher_error(u[None], axis, concentration, beta, B, V)[0] * beta

    best = np.argsort(-fisher_error(starts, axis, concentration, beta, B, V))[:5]
    found = [optimize.minimize(negative, starts[index], method="BFGS").fun for index in best]
    return -min(found) / beta


@experiment(
    "laplace-dimensions", statement="laplace", title="The same in dimensions 2, 3 and 10",
    caption="""Largest distance over the sphere between the field of a von Mises-Fisher law and its
    limit, from the closed form, for d = 2, 3 and 10 with random B and V. Slopes for beta from 1000
    on: {slope_2}, {slope_3} and {slope_10}. The kernel on quadrature nodes of the circle agrees
    with the closed form to {kernel}.""",
    alt="""Three parallel lines of slope -1 in a double logarithmic plot, highest for d = 10, below
    the grey curve of the proved order.""",
    draw=draw.orders, betas=BETAS, dimensions=(2, 3, 10), concentration=2.0, seed=4)
def laplace_dimensions(betas, dimensions, concentration, seed):
    """Sup-distance against beta for a von Mises-Fisher law in several dimensions."""
    rng, betas = np.random.default_rng(seed), np.array(betas)
    errors, numbers = [], {}
    for d in dimensions:
        left, right = (np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(2))
        score = left * np.linspace(0.5, 1.5, d) @ right
        value, axis = rng.standard_normal((d, d)) / np.sqrt(d), np.eye(d)[0]
        starts = rng.standard_normal((1000, d))
        errors.append([largest_fisher_error(axis, concentration, beta, score, value, starts)
                       for beta in betas])
        numbers |= slope_numbers(d, f"d = {d}", betas, errors[-1])
    law, breaks = laws()[NAMES[0]]
    angles = np.linspace(0, 6, 7)
    kernel = [field_error(law, breaks, angle, beta, np.array(B), np.array(V))
              for beta in (1.0, 1e2, 1e5) for angle in angles]
    exact = np.concatenate([fisher_error(circle(angles), law.axis, 2.0, beta, np.array(B),
                                         np.array(V)) for beta in (1.0, 1e2, 1e5)])
    numbers["kernel"] = bounded(np.abs(np.array(kernel) - exact).max(), 1e-13,
                                "kernel on graded nodes against the closed form", "rounding")
    guide = np.sqrt(np.log(betas + 1) / betas)
    errors = np.array(errors)
    arrays = {"betas": betas, "errors": errors, "guide": guide * errors[-1, 0] / guide[0],
              "labels": np.array([f"d = {d}" for d in dimensions]), "guide_label": "proved order"}
    return arrays, numbers
