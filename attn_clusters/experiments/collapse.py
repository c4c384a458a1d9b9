"""Figures of the chapter on collapse: V = -I and Q^T K = I."""

from functools import partial

import numpy as np
from scipy.integrate import simpson

from .. import plots_beyond
from ..attention import attention_matrix
from ..flows import TokenFlow
from ..simulate import simulate
from ..statements import statements
from ..statements.beyond import log_energy, outward_radius
from .core import experiment
from .numbers import Measured, bounded
from .polytope import uniform_tokens

SOLVER = "errors of the solver, run at relative tolerance 1e-10"
NEXT_ORDER = "the prediction is exact up to a relative error of order log(t)/t"


def collapse_flow(d):
    """Q = K = I and V = -I."""
    return TokenFlow(np.eye(d), np.eye(d), -np.eye(d))


def whitened(times, tokens):
    """u = sqrt(2t) (x - mean), and the eigenvalues of its covariance at each time."""
    u = np.sqrt(2 * times)[:, None, None] * (tokens - tokens.mean(axis=1, keepdims=True))
    return u, np.linalg.eigvalsh(u.swapaxes(1, 2) @ u / tokens.shape[1])


def slaved_mean(times, u):
    """The mean that third moments leave: -(1/2) (2t)^(-5/2) mean(u |u|^2)."""
    third = (u * np.sum(u**2, axis=2, keepdims=True)).mean(axis=1)
    return -0.5 * (2 * times[:, None]) ** -2.5 * third


def driven_mean(times, means, start):
    """exp(-t) / sqrt(2t), scaled to the mean at `start`: dm/dt = -(I + C) m with C near I/(2t)."""
    anchor, curve = np.searchsorted(times, start), np.exp(-times) / np.sqrt(2 * times)
    return curve * means[anchor] / curve[anchor]


def dissipation(flow, times, tokens):
    """sum_i |dx_i/dt|^2 at each time, and its integral (Simpson in log t)."""
    speed = np.array([np.sum(flow(t, x) ** 2) for t, x in zip(times, tokens, strict=True)])
    return speed, simpson(speed * times, x=np.log(times))


@experiment(
    "collapse-decay", statement="collapse", title="Everything goes to 0, most of it slowly",
    caption="""{n} tokens uniform in [-5, 5]² with Q = K = I and V = -I, up to t = {final}. The largest
    |x| falls like t to the power -{exponent}, not exponentially. Near 0 the mean m obeys
    dm/dt = -(I + C) m, with C the covariance of the tokens, and is soon gone; the rest obeys
    dy/dt = -C y, so that 2tC tends to the identity (last panel: {covariance} at the end). The mean
    is then driven by third moments and falls like t to the power {mean_exponent}; P approaches
    1/n like 1/t.""",
    alt="""Four panels on logarithmic time. Largest token falls along a straight line of slope -1/2.
    The mean falls exponentially to 1e-6 near t = 10 and then along a straight line. The attention
    matrix approaches 1/n along a line of slope -1. Two eigenvalues of the rescaled covariance
    approach 1.""",
    draw=plots_beyond.collapse, n=40, seed=11, final=1000.0)
def collapse_decay(n, seed, final):
    """Rates of decay against what linearisation gives."""
    flow, tokens = collapse_flow(2), uniform_tokens(n, 2, seed)
    times = np.concatenate([[0.0], np.geomspace(1e-5, final, 601)])
    run = simulate(flow, tokens, times, rtol=1e-10, atol=1e-15)
    report = statements["collapse"].verify(run)
    times, x = times[1:], run.tokens[1:]
    u, eigenvalues = whitened(times, x)
    norms, means = np.linalg.norm(x, axis=2), np.linalg.norm(x.mean(axis=1), axis=1)
    late = np.linalg.norm(slaved_mean(times, u), axis=1)
    early = driven_mean(times, means, 3.0)
    attention = np.array([np.abs(n * attention_matrix(y, flow.Q, flow.K) - 1).max() for y in x])
    limit = np.abs(u[-1] @ u[-1].T).max()
    speed, integral = dissipation(flow, times, x)
    shown = times > 1e-2
    arrays = {"times": times[shown], "norms": norms[shown],
              "radius": np.linalg.norm(u[-1], axis=1).max() / np.sqrt(2 * times[shown]),
              "means": means[shown], "means_predicted": np.where(times > 3, late, np.nan)[shown],
              "means_early": np.where((times > 0.5) & (times < 12), early, np.nan)[shown],
              "attention": attention[shown], "attention_predicted": limit / (2 * times[shown]),
              "covariances": eigenvalues[shown]}
    last = times > final / 10
    mean_exponent = np.polyfit(np.log(times[last]), np.log(means[last]), 1)[0]
    end = f"at t = {final:g}"
    numbers = {
        "exponent": Measured(report.rate, "largest |x| falls like t^-r: r (theory 1/2)", 3, SOLVER),
        "covariance": Measured(eigenvalues[-1].max(), f"largest eigenvalue of 2t cov(x) {end} "
                               "(theory 1)", 4, SOLVER),
        "mean_exponent": Measured(mean_exponent, "exponent of |mean| over the last decade "
                                  "(theory -5/2)", 3, SOLVER),
        "mean_ratio": Measured(means[-1] / late[-1], f"|mean| over its prediction {end}", 3,
                               "atol 1e-15 against a mean of about 1e-9"),
        "speed_ratio": Measured(speed[-1] * (2 * times[-1]) ** 3 / (2 * n),
                                f"sum |dx/dt|² (2t)³ / (n d) {end} (theory 1)", 3, NEXT_ORDER),
        "integral": Measured(integral, "integral of sum |dx/dt|² over the run", 4,
                             "Simpson's rule on 600 intervals"),
        "log_bound": Measured((log_energy(tokens) - np.log(2)) / np.log(10),
                              "log10 of its bound F(0)/2", 4, "seeded tokens only"),
        "attention": Measured(attention[-1], f"largest |n P - 1| {end}", 3, SOLVER),
        "radius": bounded(report.checks[0].value, 1.0,
                          "largest |x| over the paper's bound max(|x(0)|, sqrt(2n))", "proved"),
        "energy": bounded(max(report.checks[1].value, 0.0), 1e-8,
                          "largest rise of log F between two times", SOLVER),
        "holds": Measured(report.holds, "the statement holds on this run, to 2 percent of the "
                          "largest |x(0)|"),
    }
    return arrays, numbers


def highest(n, offsets, final):
    """Largest |x_1(t)| from x_1(0) = 0 with the other tokens on the line at -a, over all a."""
    tokens = np.zeros((len(offsets), n, 1))
    tokens[:, 1:, 0] = -offsets[:, None]
    run = simulate(collapse_flow(1), tokens, np.linspace(0.0, final, 101))
    return np.abs(run.tokens[:, :, 0]).max()


@experiment(
    "collapse-radius", statement="collapse", title="How far out a token can be pushed",
    caption="""A token that starts at 0 is pushed outwards by n - 1 tokens on its other side. Circles:
    the largest distance it reaches, over {offsets} positions of the others. Dashed: the radius
    r(n) with r² exp(r²) = (n - 1)/e, beyond which no token moves outwards: the same for every
    token and every start. Dotted: the paper's sqrt(2n), which is safe and {slack} times as large
    at n = {largest}.""",
    alt="""Radii against the number of tokens on logarithmic axes. Circles stay below a dashed
    curve that rises slowly from 0.5 to 1.5; a dotted line rises from 2 to {paper}.""",
    draw=partial(plots_beyond.scaling, labels=["reached from 0"],
                 guide_labels=["r(n)", "sqrt(2n)"], xlabel="number n of tokens", ylabel="radius"),
    counts=(2, 4, 8, 16, 32, 64), offsets=40, final=4.0)
def collapse_radius(counts, offsets, final):
    """Bounds on the radius against the worst start of a family."""
    x = np.array(counts, float)
    reached = np.array([highest(n, np.geomspace(0.05, 5.0, offsets), final) for n in counts])
    sharp, paper = np.array([outward_radius(n) for n in counts]), np.sqrt(2 * x)
    numbers = {
        "largest": Measured(int(counts[-1]), "largest number of tokens"),
        "reached": Measured(reached[-1], "radius reached with that many", 4),
        "sharp": Measured(sharp[-1], "radius r(n) beyond which no token moves outwards", 6,
                          "solution of a scalar equation"),
        "paper": Measured(paper[-1], "the paper's radius sqrt(2n)", 3, "arithmetic"),
        "slack": Measured(paper[-1] / sharp[-1], "their ratio", 3, "arithmetic"),
        "share": bounded((reached / sharp).max(), 1.0, "reached over r(n), largest", "proved"),
    }
    return {"x": x, "measured": reached[None], "guides": np.stack([sharp, paper])}, numbers
