"""Figures of the chapter on concentration (Theorem 1 of the second paper)."""

from functools import lru_cache

import numpy as np

from .. import plots_low_temperature as plots
from ..flows import SphereFlow
from ..measures import CosineLaw, principal_projection, wasserstein2
from ..phases import (
    concentration_bound,
    crossing_time,
    departed_share,
    distance_to_collapsed,
    least_constant,
    phases,
)
from ..simulate import simulate
from ..sweep import sweep
from .core import experiment
from .numbers import Measured, bounded

VALUE, SCORE = ((1.0, 0.0), (0.0, 2.0)), ((1.0, 0.0), (0.0, 0.15))
BETAS = (10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0)
FINAL, STEPS = 14.0, 140
# Nodes per sqrt(beta), so that the kernel's width beta^(-1/2) holds the same number at every beta.
DENSITY = 16
SOLVER = "solver tolerance 1e-7"
NODES = "halved nodes change it in the next digit"


def tilted(angle, amplitude=0.5, degree=1):
    """The law 1 + amplitude cos(degree (theta - angle)) on the circle."""
    return CosineLaw([np.cos(angle), np.sin(angle)], amplitude, degree)


def law_run(law, nodes, beta, times, B=SCORE, V=VALUE):
    """Run the mean-field limit of a law, carried by quadrature nodes."""
    tokens, weights = law.quadrature(nodes)
    return simulate(SphereFlow(B, V, beta, weights), tokens, times, rtol=1e-7, atol=1e-9)


def circle_nodes(beta, density=DENSITY):
    """Number of nodes on the circle: their spacing squared times beta is (2 pi / density)^2."""
    return int(np.ceil(density * np.sqrt(beta)))


def worked_distances(beta, amplitude, final, density):
    """W2(rho_t, Pi_# rho_0) of the worked instance at STEPS + 1 times up to `final`."""
    times = np.linspace(0.0, final, STEPS + 1)
    run = law_run(tilted(np.pi / 2, amplitude), circle_nodes(beta, density), beta, times)
    return distance_to_collapsed(run)


@lru_cache(maxsize=4)
def distance_grid(betas, amplitude, final, density):
    """Distances (beta, t) of the worked instance; kept, since several figures read them."""
    rows = sweep(worked_distances, {"beta": betas, "amplitude": [amplitude], "final": [final],
                                    "density": [density]}, progress=False)
    return np.linspace(0.0, final, STEPS + 1), np.array(rows)


def quadrature_error(betas, amplitude, final, density):
    """Largest relative change of the grid when the nodes are halved."""
    fine = distance_grid(betas, amplitude, final, density)[1]
    coarse = distance_grid(betas, amplitude, final, density // 2)[1]
    return np.abs(coarse / fine - 1).max()


@experiment(
    "concentration-phases", statement="concentration", title="Three phases in one picture",
    caption="""The worked instance V = diag{V}, B = diag{B} at inverse temperature {beta:g},
    started from the density 1 + {amplitude} sin(angle), carried by {nodes} quadrature nodes.
    Above: angles of every fourth one. Collapse onto ±e₁, the top eigenvector of VBᵀ; waiting;
    departure to e₂, the top eigenvector of V. Below: W2 distance to the collapsed law Π#ρ₀,
    closest at t = {approach} with {closest}, and to the law that has all its mass at e₂. Half
    of the mass has left at t = {departure}. Vertical lines bound the time in which the distance
    is below twice its least value.""",
    alt="""Above, token angles against time: spread over the circle at t = 0, they gather at 0 and 180
    degrees by t = 3, stay until t = 5, and turn to 90 degrees by t = 9. Below, a curve that falls
    from about 1 to {closest}, and rises to 1.4; a second that falls late.""",
    draw=plots.three_phases, V=(1.0, 2.0), B=(1.0, 0.15), beta=100.0, amplitude=0.5, nodes=160,
    final=12.0)
def concentration_phases(V, B, beta, amplitude, nodes, final):
    """Angles of the tokens and distances to both limits."""
    times = np.linspace(0.0, final, 241)
    V, B = np.diag(V), np.diag(B)
    run = law_run(tilted(np.pi / 2, amplitude), nodes, beta, times, B, V)
    distance, predicted = distance_to_collapsed(run), phases(B, V)
    weights = run.flow.weights
    end = np.sqrt(np.sum((run.tokens - np.array([0.0, 1.0])) ** 2, axis=2) @ weights)
    near = times[distance <= 2 * distance.min()]
    share = departed_share(run.tokens, predicted.direction, weights)
    late = times > 2.0  # at t = 0 half of the mass is still on its way in
    numbers = {
        "closest": Measured(distance.min(), "least W2 distance to the collapsed law", 2, NODES),
        "approach": Measured(times[distance.argmin()], "time of closest approach", 2,
                             "grid of times 0.05"),
        "start": Measured(near[0], "start of the waiting phase", 2, "grid of times 0.05"),
        "stop": Measured(near[-1], "end of the waiting phase", 2, "grid of times 0.05"),
        "departure": Measured(crossing_time(times[late], share[late], 0.5),
                              "time at which half of the mass has left", 3, SOLVER),
        "off_sphere": bounded(np.abs(np.linalg.norm(run.tokens, axis=2) - 1).max(), 1e-12,
                              "largest distance of a token from the sphere", "rounding"),
    }
    angles = np.degrees(np.arctan2(run.tokens[..., 1], run.tokens[..., 0]))[:, ::4]
    return {"times": times, "angles": angles, "collapsed": distance, "terminal": end,
            "waiting": near[[0, -1]]}, numbers


def finite_temperature_part(times, distances):
    """Indices (beta, t) after the closest approach: from four times the least value up to 0.3."""
    least, place = distances.min(axis=1), distances.argmin(axis=1)
    after = np.arange(len(times)) > place[:, None]
    return np.nonzero(after & (distances > 4 * least[:, None]) & (distances < 0.3))


def fit_terms(betas, times, distances):
    """Least-squares fits of both terms: c; and C_1, power of beta of the other. With the grid.

    The first is read at the largest beta while the distance is above 10 times its least value, from
    t = 2 on; the second where `finite_temperature_part` says, for beta of at least 100.
    """
    last = distances[-1]
    early = (times >= 2) & (np.arange(len(times)) < last.argmin()) & (last > 5 * last.min())
    collapse = -np.polyfit(times[early], np.log(last[early]), 1)[0]
    cold = np.asarray(betas) >= 100
    row, column = finite_temperature_part(times, distances[cold])
    design = np.column_stack([np.ones(len(row)), np.log(np.asarray(betas)[cold][row]),
                              times[column]])
    values = np.log(distances[cold][row, column])
    _, power, growth = np.linalg.lstsq(design, values, rcond=None)[0]
    return collapse, growth, power


@experiment(
    "concentration-curves", statement="concentration",
    title="Both terms of the bound, and the bound itself",
    caption="""W2 distance to the collapsed law against time, one curve for each inverse temperature
    of the worked instance. Left: the first term falls like exp(-{c} t) (fitted; the spectrum
    predicts {c_predicted}), the second rises like β^{power} exp({growth} t) (predicted: power
    {power_predicted}, rate {growth_predicted}; dashed). Right: the theorem's bound (dotted) for
    three of them with c = {c_predicted}, C₁ = {growth_predicted} and the least C for which it
    holds on the whole grid, C = {constant}.""",
    alt="""Left: curves on a logarithmic axis that fall along one straight line, turn at distances
    from 0.4 down to 0.03 the later the colder, and rise along parallel lines to 1.4. Right: three
    of them below three dotted V-shaped bounds, which touch them only at the start.""",
    draw=plots.distance_curves, betas=BETAS, amplitude=0.5, final=FINAL, density=DENSITY)
def concentration_curves(betas, amplitude, final, density):
    """Distances on the grid, fits of both terms, and the bound that holds."""
    times, distances = distance_grid(betas, amplitude, final, density)
    predicted = phases(SCORE, VALUE)
    (c, r), betas = predicted.rates, np.array(betas)
    collapse, growth, power = fit_terms(betas, times, distances)
    constant = least_constant(distances, betas, times, c, r)
    smallest = least_constant(distances, betas, times, c, predicted.least_exponent)
    # The height of the second term is read off at the largest beta; at the others it is predicted.
    _, column = finite_temperature_part(times, distances[-1:])
    height = np.exp(np.mean(np.log(distances[-1, column]) - r * times[column]))
    numbers = {
        "c": Measured(collapse, "fitted rate c of the first term", 2, "window of the fit"),
        "c_predicted": Measured(c, "rate c from the spectrum of VBᵀ", 3),
        "growth": Measured(growth, "fitted rate C₁ of the second term", 2, "window of the fit"),
        "growth_predicted": Measured(r, "rate C₁ from the spectrum of V", 3),
        "power": Measured(power, "fitted power of β in the second term", 3, NODES),
        "power_predicted": Measured(predicted.error_power, "predicted power of β", 4),
        "constant": Measured(constant, "least C on the grid, C₁ = r", 3, NODES),
        "exponent": Measured(predicted.least_exponent, "least C₁ that can hold for every β", 3),
        "smallest": Measured(smallest, "least C on the grid with that C₁", 3, NODES),
        "nodes": bounded(quadrature_error(tuple(betas.tolist()), amplitude, final, density), 0.015,
                         "largest relative change of the grid when the nodes are halved",
                         "error of the quadrature, of first order in the spacing"),
    }
    bound = constant * concentration_bound(betas, times, c, r)
    guides = height * np.multiply.outer((betas / betas[-1]) ** predicted.error_power,
                                        np.exp(r * times))
    return {"betas": betas, "times": times, "distances": distances, "bound": bound,
            "guides": guides}, numbers


@experiment(
    "concentration-map", statement="concentration", title="Distance over temperature and time",
    caption="""W2 distance to the collapsed law over time and inverse temperature, worked instance.
    White: the ridge t*(β) of closest approach, which moves by {ridge} per unit of log β (dashed:
    predicted slope 1/(2c) = {ridge_predicted}). Black: where the distance passes 1 on the way out,
    slope {departure} (predicted 1/(2c) + 1/(2r) = {departure_predicted}).""",
    alt="""A map that is dark along a ridge rising with log beta, and light before and after it; the
    ridge and the departure are straight lines beside their dashed predictions.""",
    draw=plots.distance_map, betas=BETAS, amplitude=0.5, final=FINAL, density=DENSITY)
def concentration_map(betas, amplitude, final, density):
    """The grid as a map, with the ridge and the departure."""
    times, distances = distance_grid(betas, amplitude, final, density)
    predicted, logs = phases(SCORE, VALUE), np.log(betas)
    ridge = np.array([vertex(times, row) for row in distances])
    departure = np.array([crossing_time(times, row, 1.0) for row in distances])
    cold = np.asarray(betas) >= 100
    numbers = {
        "ridge": Measured(np.polyfit(logs[cold], ridge[cold], 1)[0],
                          "slope of the ridge t*(β), β ≥ 100", 2, NODES),
        "ridge_predicted": Measured(predicted.approach_slope, "predicted slope", 3),
        "departure": Measured(np.polyfit(logs[cold], departure[cold], 1)[0],
                              "slope of the departure, β ≥ 100", 3, NODES),
        "departure_predicted": Measured(predicted.departure_slope, "predicted slope", 4),
    }
    return {"betas": np.array(betas), "times": times, "distances": distances, "ridge": ridge,
            "departure": departure, "slopes": np.array([predicted.approach_slope,
                                                        predicted.departure_slope])}, numbers


def vertex(times, values):
    """Time of the least value, by the parabola through it and its neighbours."""
    k = int(np.clip(np.argmin(values), 1, len(values) - 2))
    curve = np.polyfit(times[k - 1:k + 2] - times[k], values[k - 1:k + 2], 2)
    return times[k] - curve[1] / (2 * curve[0])


@experiment(
    "concentration-minimum", statement="concentration", title="The closest approach",
    caption="""Least W2 distance over time against inverse temperature. Circles: the worked instance;
    fitted power {power} (β ≥ 100), predicted -1/2. Dashed: the least value of the theorem's bound,
    with its constants from the grid; its power, about {bound_power} here, tends to
    -c/(2(c + C₁)) = {bound_limit}. Squares: for a law that is not symmetric about e₂, a mass of
    {crossed_at} (at β = 100) crosses to the other cluster, which alone contributes 2 sqrt(mass),
    drawn here, to the distance: power {crossed_power} (β ≥ 100); dotted: its prediction, of order
    β^(-1/2), which has no fitted constant.""",
    alt="""Three falling lines on logarithmic axes: circles with slope one half; a dashed one far
    above, less steep; squares below the circles and parallel to them, on a dotted line.""",
    draw=plots.closest_approach, betas=BETAS, amplitude=0.5, final=FINAL, density=DENSITY,
    angle=1.0)
def concentration_minimum(betas, amplitude, final, density, angle):
    """Least distance over time, of the law and of the bound, and the mass that crosses over."""
    times, distances = distance_grid(betas, amplitude, final, density)
    predicted, betas = phases(SCORE, VALUE), np.array(betas)
    c, r = predicted.rates
    least, cold = distances.min(axis=1), betas >= 100
    bound = least_constant(distances, betas, times, c, r) * concentration_bound(
        betas, times, c, r).min(axis=1)
    crossed = np.array(sweep(crossed_mass, {"beta": betas.tolist(), "angle": [angle],
                                            "amplitude": [amplitude]}, progress=False))
    theory = predicted_crossing(angle, amplitude) / betas

    def power(values):
        return np.polyfit(np.log(betas[cold]), np.log(values[cold]), 1)[0]

    numbers = {
        "power": Measured(power(least), "power of β of the least distance, β ≥ 100", 2, NODES),
        "bound_power": Measured(power(bound), "power of β of the least bound, β ≥ 100", 2, NODES),
        "bound_limit": Measured(-c / (2 * (c + r)), "its limit, up to the logarithm", 3),
        "crossed_at": Measured(crossed[betas == 100][0], "mass that crosses at β = 100", 2, NODES),
        "crossed_power": Measured(power(2 * np.sqrt(crossed)), "power of β of 2 sqrt(mass)", 2,
                                  NODES),
        "crossed_ratio": Measured((crossed / theory)[-1], "mass over its prediction at the "
                                  "largest β", 2, NODES),
    }
    return {"betas": betas, "least": least, "bound": bound, "crossed": 2 * np.sqrt(crossed),
            "theory": 2 * np.sqrt(theory)}, numbers


def saddle_nodes(law, count, sharpness=6.0):
    """Midpoint rule on the circle, nodes graded towards +-e_2, whose neighbourhoods the flow thins.

    Offsets from +-e_2 are (pi / 2) sinh(sharpness s) / sinh(sharpness) for equispaced s.
    """
    s = (np.arange(count // 2) + 0.5) / (count // 2) * 2 - 1
    offsets = np.pi / 2 * np.sinh(sharpness * s) / np.sinh(sharpness)
    tokens = np.concatenate([np.column_stack([np.sin(offsets), sign * np.cos(offsets)])
                             for sign in (1, -1)])
    weights = law.density(tokens) * np.tile(np.cosh(sharpness * s), 2)
    return tokens, weights / weights.sum()


def crossed_mass(beta, angle, amplitude, density=DENSITY // 2, final=1.0, probes=81):
    """Mass of a tilted law that a finite temperature carries to the other cluster.

    Probes of mass 1e-15 around the two saddles +-e_2 find the angle that ends on neither side: the
    place where x_1 vanishes at t = 1, when offsets have grown a hundred times and the field that
    the thinning law exerts near the saddle has decayed as much.
    """
    law = tilted(angle, amplitude)
    tokens, weights = saddle_nodes(law, 2 * circle_nodes(beta, density))
    offsets = np.linspace(-1.0, 1.0, probes) / beta
    saddles = [np.column_stack([np.sin(offsets), sign * np.cos(offsets)]) for sign in (1, -1)]
    mass = np.concatenate([weights, np.full(2 * probes, 1e-15)])
    run = simulate(SphereFlow(SCORE, VALUE, beta, mass / mass.sum()),
                   np.concatenate([tokens, *saddles]), [0.0, final], rtol=1e-7, atol=1e-9)
    gained = 0.0
    for number, start in enumerate(saddles):
        first = len(tokens) + number * probes
        ends = run.tokens[-1, first:first + probes, 0]
        border = np.interp(0.0, ends, offsets)
        gained -= border * law.density(start[[probes // 2]])[0] / (2 * np.pi)
    return abs(gained)


def predicted_crossing(angle, amplitude):
    """beta times the mass that crosses, to leading order.

    Near e_2 the average token is off by g / (beta b_2), g the slope of log density there, which
    pushes tokens at the speed v_1 g / (beta b_2). The offset grows and g falls at the saddle's rate
    k = v_1 b_1 / b_2 - v_2, so that the border moves by v_1 g / (2 k beta b_2); times the density.
    """
    v, b = np.diag(VALUE), np.diag(SCORE)
    k = v[0] * b[0] / b[1] - v[1]
    slope = sum(amplitude * np.sin(np.pi / 2 * sign - angle) * sign for sign in (1, -1))
    return abs(v[0] * slope / (2 * k * b[1]) / (2 * np.pi))


@experiment(
    "concentration-sphere", statement="concentration", title="The same on the sphere in space",
    caption="""Tokens on S² with density 1 + {amplitude} <x, e₂>, {density} quadrature nodes or more for each
    unit of β. Left: V = diag{line[0]}, B = diag{line[1]}, so that the collapsed law has two
    atoms ±e₁; exact distance, least values {least_first} and {least_last} at the first and the last
    β: power {power}. Right: V = diag{plane[0]}, B = diag{plane[1]}: E is the plane of e₁ and e₂,
    the collapsed law lives on a circle, and the curve is the upper bound of the natural coupling,
    whose excess over the exact distance, checked at t = 3 and β = {check:g}, is {excess} of it.""",
    alt="""Two panels of curves on a logarithmic axis that fall together and turn upwards, the later and
    the lower the larger beta.""",
    draw=plots.sphere_distances, betas=(8.0, 16.0, 32.0), amplitude=0.5, density=20, final=7.0,
    check=5.0, line=((1.0, 2.0, 0.5), (1.0, 0.15, 0.3)),
    plane=((1.0, 1.0, 2.0), (1.0, 1.0, 0.15)))
def concentration_sphere(betas, amplitude, density, final, check, line, plane):
    """Distances on S^2 for a line and for a plane E."""
    line, plane = ([np.diag(values) for values in pair[::-1]] for pair in (line, plane))
    times = np.linspace(0.0, final, 57)
    law = CosineLaw([0.0, 1.0, 0.0], amplitude)
    # Where E is the plane the clusters leave along e_3, so the law has to be tilted that way.
    across = CosineLaw([0.0, 0.0, 1.0], amplitude)

    def distances(B, V, law, density):
        return np.array([distance_to_collapsed(law_run(law, int(density * beta), beta, times, B, V))
                         for beta in betas])

    first, second = distances(*line, law, density), distances(*plane, across, density)
    coarse = distances(*line, law, density // 2)
    run = law_run(across, int(density * check), check, [0.0, 3.0], *plane)
    limit = principal_projection(run.tokens[0], np.eye(3)[:, :2])
    exact = wasserstein2(run.tokens[-1], limit, run.flow.weights, run.flow.weights)
    excess = distance_to_collapsed(run)[-1] / exact - 1
    least = first.min(axis=1)
    numbers = {
        "least_first": Measured(least[0], "least distance, E a line, first β", 2, NODES),
        "least_last": Measured(least[-1], "least distance, E a line, last β", 2, NODES),
        "power": Measured(np.polyfit(np.log(betas), np.log(least), 1)[0], "power of β", 2, NODES),
        "circle_last": Measured(second[-1].min(), "least bound, E a plane, last β", 2, NODES),
        "excess": bounded(abs(excess), 1e-8, "natural coupling over exact distance, minus 1",
                          "rounding: the coupling is optimal there"),
        "nodes": bounded(np.abs(coarse / first - 1).max(), 0.03,
                         "largest relative change when the nodes are halved",
                         "error of the quadrature"),
    }
    labels = np.array([f"β = {beta:g}" for beta in betas])
    return {"times": times, "distances": first, "labels": labels, "second": second,
            "second_labels": labels}, numbers
