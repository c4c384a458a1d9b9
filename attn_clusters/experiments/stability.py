"""Figures of the chapter on stability: the flow as a map of measures."""

from functools import partial

import numpy as np
from scipy.integrate import cumulative_trapezoid

from .. import plots_beyond
from ..flows import RescaledFlow, TokenFlow
from ..measures import wasserstein2
from ..simulate import simulate
from .core import experiment
from .numbers import Measured, bounded
from .polytope import uniform_tokens

SWITCHES = "tokens that switch leaders amplify errors of the solver"
IDENTITY = np.eye(2)


def lipschitz_constant(radius, value, score):
    """A constant L with dD/dt <= L D for two solutions of A1 within a ball.

    D is the L2 distance of two clouds under any coupling. With |V| = value, |B| = score and R the
    radius, the field moves by at most |V| |B| R^2 |x - y| between two places (a covariance) and
    by |V| (1 + 2 |B| R^2) e^{|B| R^2} D between two measures (softmax weights are at most
    e^{2 |B| R^2} times equal ones); L is the sum.
    """
    heat = score * np.asarray(radius) ** 2
    return value * (heat + (1 + 2 * heat) * np.exp(heat))


def stability_bound(times, radii, value=1.0, score=1.0):
    """exp of the integral of `lipschitz_constant`: W2(t) / W2(0) stays below it."""
    constants = lipschitz_constant(radii, value, score)
    return np.exp(cumulative_trapezoid(constants, times, initial=0.0))


def perturbations(tokens, size, rng):
    """Three neighbours of a cloud, at W2 of about `size`: all tokens move, together, or only one."""
    together, alone = np.array([size, 0.0]), np.zeros_like(tokens)
    alone[0, 0] = size * np.sqrt(len(tokens))
    noise = rng.standard_normal(tokens.shape)
    noise *= size / np.sqrt(np.mean(np.sum(noise**2, axis=1)))
    return tokens + noise, tokens + together, tokens + alone


def distances(flow, tokens, others, times, **options):
    """W2 between the run from `tokens` and each of the others, and the radius of all of them.

    Returns arrays of shapes (len(others), T) and (T,).
    """
    path, *runs = (simulate(flow, x, times, **options).tokens for x in (tokens, *others))
    found = [[wasserstein2(x, y) for x, y in zip(path, run, strict=True)] for run in runs]
    return np.array(found), np.linalg.norm([path, *runs], axis=3).max(axis=(0, 2))


@experiment(
    "wellposed-stability", statement="wellposed", title="Neighbouring measures stay neighbours",
    caption="""W2 between two empirical measures of {n} tokens, relative to its value at t = 0, for
    three perturbations of size {size} of tokens uniform in [-{half}, {half}]² (Q = K = I). Left V = I,
    right V = -I. Black: a bound with explicit constants in the manner of Dobrushin, for
    the radius of these runs; it is worse than exponential for V = I, where tokens run away. It holds
    and is far from what happens: {growth} against {bound} at t = {final} on the left, {fall} against
    {bound_fall} on the right.""",
    alt="""Two panels on a logarithmic axis. Left: three curves rise about like exp(t), a thick black
    bound leaves the panel at once. Right: the curves fall slowly below 1 while the bound rises.""",
    draw=partial(plots_beyond.amplification, titles=["V = I", "V = -I"],
                 labels=["every token moves", "all move together", "one token moves"]),
    n=150, half=0.5, size=0.01, seed=21, final=1.0)
def wellposed_stability(n, half, size, seed, final):
    """Amplification of small distances, beside the bound."""
    times, tokens = np.linspace(0, final, 41), uniform_tokens(n, 2, seed, half)
    others = perturbations(tokens, size, np.random.default_rng(seed + 1))
    runs = [distances(TokenFlow(IDENTITY, IDENTITY, sign * IDENTITY), tokens, others, times)
            for sign in (1, -1)]
    ratios = np.array([found / found[:, :1] for found, _ in runs])
    bounds = np.array([stability_bound(times, radii) for _, radii in runs])
    numbers = {
        "growth": Measured(ratios[0, :, -1].max(), f"largest W2 ratio for V = I at t = {final:g}",
                           3, SWITCHES),
        "fall": Measured(ratios[1, :, -1].max(), f"largest W2 ratio for V = -I at t = {final:g}",
                         3, SWITCHES),
        "bound": Measured(bounds[0, -1], "bound for V = I", 3, "quadrature on 40 intervals"),
        "bound_fall": Measured(bounds[1, -1], "bound for V = -I", 3, "quadrature"),
        "below": bounded((ratios / bounds[:, None]).max(), 1.0 + 1e-9,
                         "largest ratio over its bound, all times", "proved; equal at t = 0"),
    }
    return {"times": times, "ratios": ratios, "bounds": bounds}, numbers


@experiment(
    "wellposed-stability-size", statement="wellposed",
    title="Linear in small perturbations, not in larger ones",
    caption="""W2 between the rescaled tokens of two runs against W2 at t = 0, for {n} tokens uniform in
    [-{half}, {half}]² with Q = K = V = I and perturbations of all tokens. At each fixed time small
    distances change by a factor, as the theory says (slope {slope} at t = {middle}; the factor is
    {factor} at the last time). The largest ones grow {factor_large} times: a token between two
    leaders then chooses another one. That it can do so for ever smaller perturbations if it starts
    near enough to the divide is why no such factor serves all tokens and all times.""",
    alt="""Points on logarithmic axes for four times. Below 0.001 they lie close above a dashed line of
    slope 1 and in parallel to it, at 0.01 and 0.1 up to ten times higher.""",
    draw=partial(plots_beyond.scaling, guide_labels=["W2 unchanged"], xlabel="W2 at t = 0",
                 ylabel="W2 at time t"),
    n=100, half=5.0, seed=23, shown=(0.5, 1.0, 2.0, 4.0), sizes=(1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1))
def wellposed_stability_size(n, half, seed, shown, sizes):
    """Distance at time t as a function of the distance at time 0."""
    times, tokens = np.array([0.0, *shown]), uniform_tokens(n, 2, seed, half)
    others = [perturbations(tokens, size, np.random.default_rng(seed + 1))[0] for size in sizes]
    found, _ = distances(RescaledFlow(IDENTITY, IDENTITY, IDENTITY), tokens, others, times,
                         rtol=1e-11, atol=1e-13)
    slope = np.polyfit(np.log(found[:3, 0]), np.log(found[:3, 2]), 1)[0]
    arrays = {"x": found[:, 0], "measured": found[:, 1:].T, "guides": found[:, :1].T,
              "labels": np.array([f"t = {t:g}" for t in shown])}
    numbers = {
        "middle": Measured(float(shown[1]), "time of the fit", 2, "given"),
        "slope": Measured(slope, "slope over the three smallest perturbations", 3, SWITCHES),
        "factor": Measured(found[0, -1] / found[0, 0], "growth of the smallest perturbation up to "
                           f"t = {shown[-1]:g}", 2, SWITCHES),
        "factor_large": Measured(found[-1, -1] / found[-1, 0], "growth of the largest perturbation "
                                 f"up to t = {shown[-1]:g}", 2, SWITCHES),
    }
    return arrays, numbers


def grid_tokens(m, half):
    """Midpoints of m x m equal squares: the uniform law, to first order of the spacing."""
    ticks = half * ((np.arange(m) + 0.5) * 2 / m - 1)
    return np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)


def sampled_distances(counts, reference, half, times, draws, seed):
    """Mean W2 of n random tokens to the reference run, shape (len(times), len(counts))."""
    flow, mean = TokenFlow(IDENTITY, IDENTITY, IDENTITY), []
    path = simulate(flow, reference, times).tokens
    for n in counts:
        clouds = [uniform_tokens(n, 2, seed + draw, half) for draw in range(draws)]
        runs = [simulate(flow, cloud, times).tokens for cloud in clouds]
        # Each token repeated: the same measure, as many tokens as the reference, so that W2 is an
        # assignment.
        copies = len(reference) // n
        mean.append(np.mean([[wasserstein2(np.repeat(x, copies, axis=0), y)
                              for x, y in zip(run, path, strict=True)] for run in runs], axis=0))
    return np.array(mean).T


@experiment(
    "wellposed-empirical", statement="wellposed", title="Many tokens carry the measure",
    caption="""W2 between the empirical measure of n random tokens, uniform in [-{half}, {half}]², and a
    grid of {reference} tokens that stands for the uniform law, mean of {draws} draws, Q = K = V = I.
    At t = 0 the distance falls like n to the power -{slope_0}, near the -1/2 (up to a
    logarithm) known for samples in the plane; the flow carries this rate along (-{slope_1} at
    t = {last}), as stability says it must, with a factor that grows with t.""",
    alt="""Three falling rows of points on logarithmic axes, parallel to a dashed line of slope -1/2;
    later times lie higher.""",
    draw=partial(plots_beyond.scaling, guide_labels=["slope -1/2"], xlabel="number n of tokens",
                 ylabel="W2 to the limit measure"),
    counts=(4, 16, 64, 256), side=16, half=1.0, draws=8, seed=31, shown=(0.0, 0.75, 1.5))
def wellposed_empirical(counts, side, half, draws, seed, shown):
    """Empirical measures of more and more tokens along the flow."""
    x, reference = np.array(counts, float), grid_tokens(side, half)
    found = sampled_distances(counts, reference, half, np.array(shown), draws, seed)
    slopes = [-np.polyfit(np.log(x), np.log(row), 1)[0] for row in found]
    arrays = {"x": x, "measured": found, "guides": found[0, 0] * np.sqrt(x[0] / x)[None],
              "labels": np.array([f"t = {t:g}" for t in shown])}
    numbers = {
        "reference": Measured(len(reference), "tokens of the grid"),
        "last": Measured(float(shown[-1]), "last time", 2, "given"),
        "slope_0": Measured(slopes[0], "exponent at t = 0", 3, "seeded tokens only"),
        "slope_1": Measured(slopes[-1], f"exponent at t = {shown[-1]:g}", 2, SWITCHES),
        "factor": Measured(found[-1, -1] / found[0, -1], f"growth of W2 up to t = {shown[-1]:g}, "
                           "most tokens", 2, SWITCHES),
    }
    return arrays, numbers
