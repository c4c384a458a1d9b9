"""Figures of the chapter on metastability: times, what moves a cluster, many tokens against few."""

import numpy as np

from .. import plots_low_temperature as plots
from ..flows import SphereFlow, attention_field
from ..measures import UniformLaw
from ..phases import cluster_rates, crossing_time, departed_share, phases
from ..simulate import simulate
from ..sweep import sweep
from .concentration import (
    NODES,
    SCORE,
    SOLVER,
    VALUE,
    circle_nodes,
    distance_to_collapsed,
    law_run,
    tilted,
    vertex,
)
from .core import experiment
from .numbers import Measured, bounded

# Diagonals of V and B: the worked instance, a slow one, one whose clusters leave quickly.
INSTANCES = (((1.0, 2.0), (1.0, 0.15)), ((1.0, 1.5), (1.0, 0.4)), ((1.0, 3.0), (1.0, 0.1)))


def right_cluster(tokens, weights, members):
    """Mean and standard deviation of x_2 over the members, shapes (T,)."""
    mass = weights[members] / weights[members].sum()
    heights = tokens[:, members, 1]
    mean = heights @ mass
    return mean, np.sqrt(np.maximum((heights - mean[:, None]) ** 2 @ mass, 0.0))


@experiment(
    "metastability-cluster", statement="metastability", title="What a cluster does",
    caption="""Worked instance at β = {beta:g}: width s (standard deviation) and centre m of the
    cluster at e₁. While s is above β^(-1/2) both fall at the rate c = {c}; below, the width falls
    at the rate {contraction} of a cluster that attends to itself, and the centre grows at the
    rate r = {growth} of the Oja flow of V (measured {contraction_fit}, and {growth_fit} before the
    cluster has turned far). Grey: the two equations for a Gaussian cluster, started from the data
    at t = {start:g}.""",
    alt="""Two curves on a logarithmic axis. The width falls throughout, the centre falls until about
    t = 4 and then rises along a straight line to 1; grey curves of a reduced model lie close.""",
    draw=plots.scaled_curves, beta=400.0, amplitude=0.5, final=12.0, start=2.5)
def metastability_cluster(beta, amplitude, final, start):
    """Width and centre of one cluster, and the Gaussian model."""
    times = np.linspace(0.0, final, 241)
    run = law_run(tilted(np.pi / 2, amplitude), circle_nodes(beta), beta, times)
    centre, width = right_cluster(run.tokens, run.flow.weights, run.tokens[0, :, 0] > 0)
    predicted, first = phases(SCORE, VALUE), np.searchsorted(times, start)
    b, v = np.diag(SCORE), np.diag(VALUE)

    def model(t, logs):
        width = np.exp(logs[0, 0])
        return np.array([cluster_rates(width, beta, b[0], v[0], b[1], v[1])])

    begin = np.log([[width[first], centre[first]]])
    reduced = np.full((2, len(times)), np.nan)
    reduced[:, first:] = np.exp(simulate(model, begin, times[first:]).tokens[:, 0].T)
    late = (centre > 5 * width) & (centre < 0.2) & (times > 3)
    numbers = {
        "c": Measured(predicted.rates[0], "predicted rate of collapse c", 3),
        "contraction": Measured(predicted.contraction, "predicted rate of a narrow cluster's width",
                                3),
        "growth": Measured(predicted.rates[1], "predicted rate of growth of the centre r", 3),
        "growth_fit": Measured(np.polyfit(times[late], np.log(centre[late]), 1)[0],
                               "measured rate of growth of the centre", 2, "window of the fit"),
        "contraction_fit": Measured(-np.polyfit(times[late], np.log(width[late]), 1)[0],
                                    "measured rate of the width", 2, "window of the fit"),
        "turn": Measured(times[1:][np.argmin(centre[1:])], "time at which the centre is least", 2,
                         NODES),
    }
    return {"x": times, "values": np.array([width, centre]),
            "labels": np.array(["width s", "centre m"]), "xlabel": "time t",
            "ylabel": "height above e₁", "guides": reduced,
            "guide_labels": np.array(["width, Gaussian model", "centre, Gaussian model"]),
            "low": 1e-5}, numbers


def instance_times(instance, beta, amplitude, density=10):
    """Times of the closest approach and of departure of a diagonal instance on the circle."""
    V, B = (np.diag(values) for values in instance)
    predicted = phases(B, V)
    final = predicted.departure_slope * np.log(beta) + 6
    times = np.linspace(0.0, final, 161)
    run = law_run(tilted(np.pi / 2, amplitude), circle_nodes(beta, density), beta, times, B, V)
    distances = distance_to_collapsed(run)
    return vertex(times, distances), crossing_time(times, distances, 1.0)


@experiment(
    "metastability-times", statement="metastability",
    title="Collapse and departure take log β, with slopes from two spectra",
    caption="""Times of closest approach (filled) and of departure (W2 distance 1) against inverse
    temperature for three instances, with lines of the predicted slopes 1/(2c) and 1/(2c) + 1/(2r)
    through the last point. Diagonals of V, B {instances[0]}: fitted {approach_0} and {departure_0},
    predicted {approach_0_theory} and {departure_0_theory}; {instances[1]}: {approach_1} and
    {departure_1}, predicted {approach_1_theory} and {departure_1_theory}; {instances[2]}:
    {approach_2} and {departure_2}, predicted {approach_2_theory} and {departure_2_theory}.""",
    alt="""Six families of markers against beta on a logarithmic axis, each along a straight line of
    its own slope.""",
    draw=plots.times_and_lines, betas=(50.0, 100.0, 200.0, 400.0, 800.0),
    amplitude=0.5, instances=INSTANCES)
def metastability_times(betas, amplitude, instances):
    """Times against log beta for three instances."""
    grid = {"instance": instances, "beta": betas, "amplitude": [amplitude]}
    found = np.array(sweep(instance_times, grid, progress=False)).reshape(-1, len(betas), 2)
    logs, numbers, groups, lines, labels = np.log(betas), {}, [], [], []
    for number, (instance, times) in enumerate(zip(instances, found, strict=True)):
        predicted = phases(*(np.diag(values) for values in instance[::-1]))
        for part, word in enumerate(("approach", "departure")):
            slope = (predicted.approach_slope, predicted.departure_slope)[part]
            fit = np.polyfit(logs, times[:, part], 1)[0]
            name = f"{word}_{number}"
            numbers[name] = Measured(fit, f"fitted slope of the {word}, instance {number + 1}", 2,
                                     NODES)
            numbers[name + "_theory"] = Measured(slope, "predicted", 3)
            groups.append(times[:, part])
            lines.append(times[-1, part] + slope * (logs - logs[-1]))
            labels.append(f"{word}, instance {number + 1}")
    groups = np.array(groups)
    return {"x": np.array(betas), "groups": groups, "spreads": np.zeros_like(groups),
            "lines": np.array(lines), "labels": np.array(labels),
            "xlabel": "inverse temperature β", "ylabel": "time"}, numbers


def random_start(n, seed, bins):
    """n uniform random tokens and their weights; with bins, rounded to that many equispaced angles.

    Binned tokens cost the same for every n. They lose the attention that a token of few pays to
    itself, which slows the collapse of small n.
    """
    if bins is None:
        return UniformLaw(2).sample(n, [seed, n]), np.full(n, 1 / n)
    nodes, weights = UniformLaw(2).quadrature(bins)
    counts = np.random.default_rng([seed, n]).multinomial(n, weights)
    return nodes[counts > 0], counts[counts > 0] / n


def token_departures(n, seeds, beta, bins):
    """Departures of both clusters of n uniform random tokens, one row for each seed.

    A cluster has left when the mean of its tokens is 45 degrees away from +-e_1. The last column
    is the time at which half of all the tokens have left.
    """
    times, rows = np.arange(0.0, 13 + 0.5 * np.log(n), 0.1), []
    late = times > 2  # before that, half of the mass is still on its way in
    for seed in range(seeds):
        tokens, weights = random_start(n, seed, bins)
        # The scatter over seeds is 1, far above the error at these tolerances.
        run = simulate(SphereFlow(SCORE, VALUE, beta, weights), tokens, times, rtol=1e-5, atol=1e-8)
        right = tokens[:, 0] > 0
        turns = [_turn(run.tokens[:, side], weights[side]) for side in (right, ~right)]
        share = departed_share(run.tokens, np.array([1.0, 0.0]), weights)
        rows.append([*(crossing_time(times[late], turn[late], np.pi / 4) for turn in turns),
                     crossing_time(times[late], share[late], 0.5)])
    return np.array(rows)


def _turn(tokens, weights):
    """Angle between the weighted mean of tokens (T, n, 2) and the line of e_1."""
    mean = np.abs(np.einsum("tnd,n->td", tokens, weights))
    return np.arctan2(mean[:, 1], mean[:, 0])


@experiment(
    "metastability-tokens", statement="metastability",
    title="Random tokens leave after a time of order log n",
    caption="""Departure times of the clusters of n uniform random tokens at β = {beta:g}, mean and
    standard error over seeds: n tokens (circles), and n tokens rounded to {bins} angles (squares),
    which cost the same for every n. The law itself is symmetric and stays for ever; the sampling
    error, of order n^(-1/2), is what grows. Slope of the rounded ones against log n: {slope} ±
    {error}; predicted 1/(2r) = {slope_theory} (lines). Half of all tokens have left at t = {half_100}
    (n = 100) and {half_400} (n = 400), in the median.""",
    alt="""Markers with error bars rising with n, from 100 to 1e12 on a logarithmic axis, along a straight
    line of the predicted slope; the three of few tokens rise less.""",
    draw=plots.random_departures, beta=100.0, few=(100, 200, 400), few_seeds=(24, 16, 8),
    many=(10**3, 10**6, 10**9, 10**12), seeds=20, bins=160)
def metastability_tokens(beta, few, few_seeds, many, seeds, bins):
    """Departure against the number of random tokens, as they are and rounded to bins."""
    grid = [{"n": n, "seeds": count, "beta": beta, "bins": None}
            for n, count in zip(few, few_seeds, strict=True)]
    grid += [{"n": n, "seeds": seeds, "beta": beta, "bins": bins} for n in many]
    found = sweep(token_departures, grid, progress=False)
    clusters = [rows[:, :2].ravel() for rows in found]
    means = np.array([times.mean() for times in clusters])
    errors = np.array([times.std(ddof=1) / np.sqrt(len(times)) for times in clusters])
    start, logs = len(few), np.log(many)
    (slope, _), spread = np.polyfit(logs, means[start:], 1, w=1 / errors[start:], cov="unscaled")
    theory = 0.5 / phases(SCORE, VALUE).rates[1]
    numbers = {
        "slope": Measured(slope, "slope of departure against log n, rounded tokens", 2,
                          "seeded tokens"),
        "error": Measured(np.sqrt(spread[0, 0]), "its standard error", 1, "seeded tokens"),
        "slope_theory": Measured(theory, "predicted 1/(2r)", 2),
    }
    for n, rows in zip(few, found, strict=False):
        numbers[f"half_{n}"] = Measured(np.median(rows[:, 2]), f"half of the tokens gone, n = {n}, "
                                        "median over seeds", 2, "seeded tokens")
    line = means[start:].mean() + theory * (logs - logs.mean())
    return {"few": np.array(few), "few_means": means[:start], "few_errors": errors[:start],
            "many": np.array(many), "many_means": means[start:], "many_errors": errors[start:],
            "line": line}, numbers


def mirrored(flow, half):
    """A flow of half the tokens that puts their mirror images about e_1 back at every step.

    The whole law is then symmetric bit for bit, whatever rounding does.
    """
    def run(t, tokens):
        points = flow.retract(tokens)
        both = np.concatenate([points, points * [1.0, -1.0]])
        field = attention_field(points, both, flow.B, flow.V, flow.beta)
        return field - np.sum(field * points, axis=-1, keepdims=True) * points

    return run, half


@experiment(
    "metastability-symmetric", statement="metastability",
    title="A symmetric law stays, its float64 copy does not",
    caption="""Height |m| of the right cluster's centre above e₁ at β = {beta:g}, {nodes} tokens of
    equal weight. Exactly symmetric dynamics: m = 0 at all times, not shown; its width goes on
    shrinking at the rate 1 (dotted). Plain float64: rounding leaves m of order 1e-17, which
    grows at the rate {rounding_rate} and leaves near t = 40. Random tokens start from the
    sampling error, and a tilt of {tilt:g} from that, and both grow at the same rate.""",
    alt="""Rising parallel lines on a logarithmic axis: random tokens reach 1 at about t = 7, the small
    tilt near 20, rounding near 40; a dotted line falls.""",
    draw=plots.scaled_curves, beta=100.0, nodes=160, tilt=1e-6, seed=1, final=60.0)
def metastability_symmetric(beta, nodes, tilt, seed, final):
    """The centre of a cluster, born from rounding, from a small tilt, and from sampling."""
    times, law = np.linspace(0.0, final, 301), UniformLaw(2)
    symmetric, flow = law.quadrature(nodes)[0], SphereFlow(SCORE, VALUE, beta)
    turn = np.array([[1.0, -tilt], [tilt, 1.0]]) / np.hypot(1.0, tilt)
    starts = {"rounding": symmetric, "tilt": symmetric @ turn.T, "random": law.sample(nodes, seed)}
    centres = {}
    for name, tokens in starts.items():
        run = simulate(flow, tokens, times, rtol=1e-7, atol=1e-18)
        centres[name] = np.abs(run.tokens[:, tokens[:, 0] > 0, 1].mean(axis=1))
    exact, half = mirrored(flow, symmetric[symmetric[:, 1] > 0])
    upper = flow.retract(simulate(exact, half, times, rtol=1e-7, atol=1e-18).tokens)
    right = half[:, 0] > 0
    width = np.sqrt((upper[:, right, 1] ** 2).mean(axis=1))
    grown = (centres["rounding"] > 1e-13) & (centres["rounding"] < 1e-2)
    numbers = {
        "rounding_rate": Measured(np.polyfit(times[grown], np.log(centres["rounding"][grown]), 1)[0],
                                  "rate at which the centre born from rounding grows", 2,
                                  "window of the fit"),
        "rounding_leaves": Measured(bool(30 < crossing_time(times, centres["rounding"], 0.5) < 50),
                                    "rounding breaks the symmetry between t = 30 and 50"),
        "exact_stays": Measured(bool(np.abs(upper[-1, :, 1]).max() < 1e-12),
                                "exactly symmetric dynamics end at ±e₁"),
        "tilt_leaves": Measured(crossing_time(times, centres["tilt"], 0.5),
                                "departure of the tilted law", 2, SOLVER),
        "random_leaves": Measured(crossing_time(times, centres["random"], 0.5),
                                  "departure of the right cluster of random tokens", 2,
                                  "seeded tokens"),
        "early": bounded(centres["rounding"][times <= 10].max(), 1e-10,
                         "centre of the symmetric law up to t = 10", "rounding"),
    }
    return {"x": times, "values": np.array(list(centres.values())),
            "labels": np.array(["symmetric, float64", f"tilted by {tilt:g}", "random tokens"]),
            "xlabel": "time t", "ylabel": "height of the cluster's centre",
            "guides": width[None], "guide_labels": np.array(["width, exactly symmetric"]),
            "low": 1e-18}, numbers
