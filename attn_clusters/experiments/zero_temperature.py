"""Figures of the chapter on zero temperature (equation B2 of the second paper)."""

import numpy as np

from .. import plots_sphere as draw
from ..flows import ZeroTemperatureFlow
from ..measures import UniformLaw, VonMisesFisherLaw, coupling_bound, principal_projection
from ..simulate import simulate
from ..spectrum import collapse_rate
from ..statements import statements
from .core import experiment
from .numbers import Measured, bounded

EXACT = "closed form with clocks at 1e-11"


def graded_tokens(d, dim_E, across=16, exponent=0.0, decades=14, rng=0):
    """Quadrature nodes of the uniform law on S^{d-1}, graded towards the complement of E.

    E is spanned by the first dim_E axes. The nodes resolve every scale of |P_E x| down to
    10^-decades, where the tokens sit that are the last to arrive.

    Parameters
    ----------
    d, dim_E : int
    across : int
        Number of directions within E and its complement: alternating on a line, equispaced on a
        circle, random otherwise; each is used with every |P_E x|.
    exponent : float
        The density is |P_E x|^(-exponent) times that of the uniform law.
    decades : float
    rng : seed or Generator

    Returns
    -------
    tokens : array, shape (n, d)
    weights : array, shape (n,)
    """
    rng = np.random.default_rng(rng)
    nodes, masses = np.polynomial.legendre.leggauss(6)
    edges = 0.5 * np.pi * 4.0 ** -np.arange(np.ceil(decades / np.log10(4)) + 1)
    low, high = edges[1:, None], edges[:-1, None]
    elevation = (low + (high - low) * (nodes + 1) / 2).ravel()
    area = ((high - low) * masses).ravel()
    sine, cosine = np.sin(elevation), np.cos(elevation)
    area *= sine ** (dim_E - 1 - exponent) * cosine ** (d - dim_E - 1)
    inside, outside = directions(dim_E, across, rng), directions(d - dim_E, across, rng)
    if dim_E == 1:  # x and -x move alike
        inside = np.abs(inside)
    tokens = np.concatenate([sine[:, None, None] * inside, cosine[:, None, None] * outside], axis=2)
    weights = np.repeat(area, across)
    return tokens.reshape(-1, d), weights / weights.sum()


def directions(dimension, count, rng):
    """Unit vectors (count, dimension): alternating, equispaced on the circle, or random."""
    if dimension == 1:
        return (-1.0) ** np.arange(count)[:, None]
    if dimension == 2:
        angles = 2 * np.pi * (np.arange(count) + rng.random()) / count
        return np.column_stack([np.cos(angles), np.sin(angles)])
    vectors = rng.standard_normal((count, dimension))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def instance(B, values):
    """The flow with V B^T = diag(values): its eigenvectors are the axes, E the first of them."""
    return ZeroTemperatureFlow(B, np.diag(values) @ np.linalg.inv(B).T)


def distances(flow, tokens, weights, dim_E, times):
    """W2(rho_t, Pi_# rho_0), exactly: the natural coupling is optimal here.

    Pi is constant along the flow, and Pi(x) is the nearest point of the unit sphere of E to x, so
    that no coupling moves a token less.
    """
    limit = np.zeros_like(tokens)
    limit[:, :dim_E] = tokens[:, :dim_E] / np.linalg.norm(tokens[:, :dim_E], axis=1, keepdims=True)
    return np.array([coupling_bound(x, limit, weights) for x in flow.solution(tokens, times)])


def measured_rate(flow, dim_E, across=16, exponent=0.0, prefactor=0.0, window=(6, 12)):
    """Slope of -log W2 while the distance falls from e^-6 to e^-12 or so, nodes graded.

    `prefactor` p divides out a factor t^-p first.
    """
    rates = collapse_rate(flow.B, flow.V, dim_E - exponent)
    # e^-12 squared is the mass of the tokens that have not arrived, hence their |P_E x| to the power
    # dim_E - exponent.
    decades = max(14.0, 13.0 / (dim_E - exponent))
    tokens, weights = graded_tokens(flow.dimension, dim_E, across, exponent, decades)
    times = np.concatenate([[0.0], np.linspace(*window, 25) / rates.law])
    found = distances(flow, tokens, weights, dim_E, times)[1:]
    slope = np.polyfit(times[1:], np.log(found) + prefactor * np.log(times[1:]), 1)[0]
    return -float(slope), rates


def score_with_clocks(clocks, dim_E, seed):
    """B such that |B^T u| = clocks[k] at the k-th axis, and the same on all of E; det B < 0.

    B^T = R T with R orthogonal and T upper triangular, diagonal in its first dim_E columns.
    """
    rng, d = np.random.default_rng(seed), len(clocks)
    T = np.eye(d) + 0.5 * np.triu(rng.uniform(-1, 1, (d, d)), 1)
    T[:, :dim_E] = np.eye(d)[:, :dim_E]
    T *= np.asarray(clocks) / np.linalg.norm(T, axis=0)
    R = np.linalg.qr(rng.standard_normal((d, d)))[0]
    R[0] *= -np.sign(np.linalg.det(R) * np.linalg.det(T))
    return (R @ T).T


def instance_with_multiplicity(d, dim_E, seed, ratio=2.2):
    """V B^T = diag(1, ..., 1, 0.5, ..., -1); the clock of E_2 runs `ratio` times that of E."""
    others = np.linspace(0.5, -1.0, d - dim_E) if d - dim_E > 1 else [0.5]
    values = np.concatenate([np.ones(dim_E), others])
    clocks = np.where(np.arange(d) == dim_E, 0.8 * ratio, 0.8)
    return instance(score_with_clocks(clocks, dim_E, seed), values)


@experiment(
    "zero_temperature-rates", statement="zero_temperature", title="Measured rates and the spectrum",
    caption="""Rate at which W2 falls, measured (dots) and from the spectrum of V B^T (line): the
    smaller of the rate of a token near E (dashed) and that of the tokens still to come (dotted).
    Left and middle: every dim E in dimensions 3 and 10, det B negative. Right: the circle, with a
    density |h| to the power -s at the equator. Largest relative deviation {deviation} over {cases}
    cases.""",
    alt="""Three panels in which dots lie on a line that first rises and then stays level: against
    the dimension of E for d = 3 and d = 10, and against the exponent of the density on the
    circle.""",
    draw=draw.rates, dimensions=(3, 10), exponents=(0.0, 0.2, 0.4, 0.6, 0.8), across=8, seed=7)
def zero_temperature_rates(dimensions, exponents, across, seed):
    """Measured and predicted rates for every dim E, and for densities with a pole."""
    panels = []
    for d in dimensions:
        panels.append([(m, *measured_rate(instance_with_multiplicity(d, m, seed), m, across))
                       for m in range(1, d)])
    circle = instance(np.diag([0.8, -0.3]), (1.0, 0.3))
    panels.append([(s, *measured_rate(circle, 1, 2, s)) for s in exponents])
    table = np.array([(panel, x, rate, rates.law, rates.token, rates.escape)
                      for panel, rows in enumerate(panels) for x, rate, rates in rows])
    deviations = np.abs(table[:, 2] / table[:, 3] - 1)
    refined = measured_rate(instance_with_multiplicity(3, 1, seed), 1, 2 * across)[0]
    numbers = {
        "deviation": Measured(deviations.max(), "largest relative deviation", 2, EXACT),
        "cases": Measured(len(table), "cases"),
        "typical": Measured(np.median(deviations), "median relative deviation", 2, EXACT),
        "d10_first": Measured(table[dimensions[0] - 1, 2], "measured rate, d = 10, dim E = 1", 4, EXACT),
        "d10_last": Measured(table[len(table) - len(exponents) - 1, 2],
                             "measured rate, d = 10, dim E = 9", 4, EXACT),
        "refined": bounded(abs(refined / table[0, 2] - 1), 1e-4,
                           "relative change for d = 3, dim E = 1 with twice the directions",
                           "directions within the complement"),
    }
    titles = [f"d = {d}" for d in dimensions] + ["d = 2, density with a pole"]
    labels = ["dim E"] * len(dimensions) + ["exponent s"]
    return {"table": table, "titles": np.array(titles), "labels": np.array(labels)}, numbers


CASES = (
    ("d = 2, B = diag(1, 0.15)", ((1.0, 0.0), (0.0, 0.15)), (1.0, 0.3), 1, 0.0),
    ("d = 2, B = diag(0.15, 1)", ((0.15, 0.0), (0.0, 1.0)), (1.0, 0.3), 1, 0.0),
    ("d = 2, det B < 0", ((0.5, 1.0), (1.5, -1.0)), (1.0, -0.3), 1, 0.0),
    ("d = 3, dim E = 2, det B < 0", ((1.5, 0.5, -0.3), (0.2, -1.0, 0.4), (0.6, 0.1, 0.8)),
     (1.0, 1.0, 0.0), 2, 0.25),
)


@experiment(
    "zero_temperature-collapse", statement="zero_temperature", title="Exponential convergence",
    caption="""W2(rho_t, Pi_# rho_0) for the uniform law and four pairs (B, V). Dashed: the rate
    from the spectrum, {predicted_1}, {predicted_2}, {predicted_3} and {predicted_4}, drawn through
    the last point; measured {measured_1}, {measured_2}, {measured_3} and {measured_4}. Grey: a
    proved bound with its constants, whose rate uses |B| alone.""",
    alt="""Four panels: a falling straight line in a logarithmic plot of the distance against time,
    parallel to a dashed line, below a grey line.""",
    draw=draw.collapse, cases=CASES)
def zero_temperature_collapse(cases):
    """W2 against time, predicted slopes and a proved bound, for four pairs (B, V)."""
    times, found, bounds, laws, numbers = [], [], [], [], {}
    for number, (_, B, values, dim_E, prefactor) in enumerate(cases, 1):
        flow, across = instance(np.array(B), values), 2 if len(values) == 2 else 48
        rate, rates = measured_rate(flow, dim_E, across, prefactor=prefactor)
        tokens, weights = graded_tokens(flow.dimension, dim_E, across)
        times.append(np.linspace(0, 12 / rates.law, 61))
        found.append(distances(flow, tokens, weights, dim_E, times[-1]))
        bounds.append([proved_bound(tokens, weights, dim_E, rates.proved * t) for t in times[-1]])
        laws.append(rates.law)
        numbers[f"predicted_{number}"] = Measured(rates.law, f"rate from the spectrum, case {number}",
                                                  4, "rounding")
        numbers[f"measured_{number}"] = Measured(rate, f"measured rate, case {number}", 4, EXACT)
    later = measured_rate(flow, dim_E, across, prefactor=prefactor, window=(12, 20))[0]
    numbers["later_4"] = Measured(later, "measured rate, last case, from e^-12 to e^-20", 4, EXACT)
    excess = max((np.array(f) / b).max() for f, b in zip(found, bounds, strict=True))
    numbers["below"] = Measured(bool(excess <= 1), "the proved bound holds at every time shown")
    return {"times": np.array(times), "distances": np.array(found), "bounds": np.array(bounds),
            "rates": np.array(laws), "titles": np.array([case[0] for case in cases])}, numbers


def proved_bound(tokens, weights, dim_E, exponent):
    """sqrt of the mean of min(2, tan^2 e^{-2 exponent}), tan the tangent of the angle to E at t = 0.

    |x - Pi(x)| is at most the tangent and at most sqrt(2), and the tangent falls like
    e^{-gamma t / |B|} at least.
    """
    inside = np.sum(tokens[:, :dim_E] ** 2, axis=1)
    outside = np.sum(tokens[:, dim_E:] ** 2, axis=1)
    return np.sqrt(weights @ np.minimum(2.0, np.exp(-2 * exponent) * outside / inside))


@experiment(
    "zero_temperature-lyapunov", statement="zero_temperature", title="What falls along the way",
    caption="""{n} random tokens in space, B far from the identity. Left: mu_1 - <x, V B^T x> for
    each token (thin) and on average (thick): a Lyapunov function. Right: the tangent of the angle
    to E relative to its start, for each token, under the proved bound (dashed). The tokens' clocks
    differ: the slowest falls at {slow}, the fastest at {fast} per unit of time.""",
    alt="""Two panels of thin falling curves. Left they start between 0 and 2 and end at 0; right
    they are nearly straight lines in a logarithmic plot, all below a dashed line.""",
    draw=draw.lyapunov, B=CASES[3][1], values=(1.0, 0.2, -0.8), n=60, final=30.0, seed=8)
def zero_temperature_lyapunov(B, values, n, final, seed):
    """Rayleigh quotients and tangents of tokens along the flow."""
    flow, times = instance(np.array(B), values), np.linspace(0, final, 151)
    run = simulate(flow, UniformLaw(3).sample(n, seed), times)
    report = statements["zero_temperature"].verify(run)
    gaps = values[0] - np.sum(run.tokens @ np.diag(values) * run.tokens, axis=2)
    tangents = np.linalg.norm(run.tokens[:, :, 1:], axis=2) / np.abs(run.tokens[:, :, 0])
    rates = collapse_rate(flow.B, flow.V)
    early = times <= 4
    slopes = -np.polyfit(times[early], np.log(tangents[early]), 1)[0]
    solver = "errors of the solver, run at relative tolerance 1e-9"
    numbers = {
        "holds": Measured(report.holds, "the statement holds on this run"),
        "rise": bounded(report.checks[0].value, 1e-9, "largest rise of a token's Lyapunov function",
                        solver),
        "excess": bounded(report.checks[1].value, 1e-6, "tangent above its bound, relative to the "
                          "solver's grip on it", solver),
        "bound": Measured(rates.proved, "rate of the bound, gamma / |B|", 4, "rounding"),
        "slow": Measured(slopes.min(), "slowest mean rate of a tangent up to t = 4", 3),
        "fast": Measured(slopes.max(), "fastest", 3),
    }
    return {"times": times, "gaps": gaps, "tangents": tangents / tangents[0],
            "bound": np.exp(-rates.proved * times)}, numbers


@experiment(
    "zero_temperature-limit", statement="zero_temperature", title="The limit law",
    caption="""{n} tokens of a von Mises-Fisher law on the sphere (dots) and where they end
    (squares). Left, dim E = 1: two points, the mass {p} of the law at +phi and the rest at -phi
    ({sample} of these tokens). Right, dim E = 2: a circle. Below: the density on that circle, of
    the law itself (line) and of {many} tokens (bars).""",
    alt="""Two spheres with dots, most of them near one side, and lines to two poles on the first
    and to an equator on the second. A histogram over the angle on the equator follows a smooth
    curve with one hump.""",
    draw=draw.limit, B=CASES[3][1], n=80, many=20000, concentration=1.5, seed=9)
def zero_temperature_limit(B, n, many, concentration, seed):
    """Paths to the limit law for dim E = 1 and 2, and its density on the circle."""
    law = VonMisesFisherLaw(np.array([0.6, 0.48, 0.64]), concentration)
    start, times = law.sample(n, seed), np.linspace(0, 40, 81)
    paths = [instance(np.array(B), values).solution(start, times)
             for values in ((1.0, 0.2, -0.8), (1.0, 1.0, -0.5))]
    tokens, weights = law.quadrature(20000)
    mass = weights[tokens[:, 0] > 0].sum()
    sample = principal_projection(law.sample(many, seed + 1), np.eye(3)[:, :2])
    edges = np.linspace(-np.pi, np.pi, 25)
    bars, _ = np.histogram(np.arctan2(sample[:, 1], sample[:, 0]), edges, density=True)
    angles = np.linspace(-np.pi, np.pi, 97)
    line = equator_density(law, angles)
    means = [line[4 * k:4 * k + 5] @ [7, 32, 12, 32, 7] / 90 for k in range(24)]
    error = np.abs(bars - means) / np.sqrt(np.array(means) * 24 / (2 * np.pi) / many)
    solved = "rounding: quadrature is spectral"
    numbers = {
        "p": Measured(mass, "mass of the law that goes to +phi", 5, solved),
        "sample": Measured(np.mean(start[:, 0] > 0), "share of the tokens shown", 4, "seeded draws"),
        "arrived": bounded(np.abs(np.abs(paths[0][-1][:, 0]) - 1).max(), 1e-9,
                           "largest distance left, dim E = 1", "finite time"),
        "area": bounded(abs(np.sum(line[:-1]) * 2 * np.pi / 96 - 1), 1e-12,
                        "total mass on the circle, less 1", "quadrature"),
        "worst": Measured(error.max(), "largest deviation of a bar, in standard errors", 2,
                          "seeded draws"),
    }
    return {"paths": np.array(paths), "angles": angles, "density": line, "edges": edges,
            "bars": bars}, numbers


def equator_density(law, angles, nodes=60):
    """Density at angles of Pi_# rho on the unit circle of E = span(e_1, e_2), for a law on S^2.

    Pi collects half a meridian: the integral of the density over the latitude, which has area
    cos(latitude) d latitude d angle / (4 pi).
    """
    u, mass = np.polynomial.legendre.leggauss(nodes)  # u = sine of the latitude
    points = np.stack([np.outer(np.cos(angles), np.sqrt(1 - u**2)),
                       np.outer(np.sin(angles), np.sqrt(1 - u**2)),
                       np.tile(u, (len(angles), 1))], axis=-1)
    return law.density(points.reshape(-1, 3)).reshape(len(angles), nodes) @ mass / (4 * np.pi)
