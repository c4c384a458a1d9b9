"""Figures of the chapter on consensus-based optimisation: the weighted mean with one objective."""

import numpy as np
from scipy import stats

from .. import plots_sphere as draw
from ..flows import ConsensusFlow, RescaledFlow, consensus_point
from ..geometry import merge
from ..simulate import simulate
from .core import experiment
from .numbers import Measured, bounded

POWERS = (1, 2, 4)
MINIMISER = (0.3, -0.2)
DISTANCE = "distance to the minimiser"


def graded_line(low=-1.0, high=2.0, slope=0.4, nodes=16, levels=40):
    """Quadrature nodes (n, 1) of the density 1 + slope x on [low, high], graded towards 0."""
    u, mass = np.polynomial.legendre.leggauss(nodes)
    edges = 2.0 ** -np.arange(levels)
    lengths = edges[:-1] - edges[1:]
    offset = (edges[1:, None] + lengths[:, None] * (u + 1) / 2).ravel()
    area = np.outer(lengths, mass / 2).ravel()
    x = np.concatenate([high * offset, low * offset])
    weights = np.concatenate([high * area, -low * area]) * (1 + slope * x)
    return x[:, None], weights / weights.sum()


def consensus_errors(powers, betas, nodes=16):
    """Distance of the consensus point from 0 for f = |x|^k, an array (powers, betas)."""
    tokens, weights = graded_line(nodes=nodes)
    return np.array([[abs(consensus_point(tokens, np.abs(tokens[:, 0]) ** k, beta, weights)[0])
                      for beta in betas] for k in powers])


@experiment(
    "cbo-laplace", statement="cbo", title="The Laplace principle with one objective",
    caption="""Distance between the weighted mean and the minimiser 0 of f = |x|^k, for tokens on
    [-1, 2] whose density has a slope there. The flatter the minimum, the slower: fitted slopes
    {slope_1}, {slope_2} and {slope_4} for k = 1, 2 and 4 (beta from 1000 on), where expanding the
    density to first order gives -2/k.""",
    alt="""Three straight lines in a double logarithmic plot of distance against beta, with slopes
    -2, -1 and -1/2.""",
    draw=draw.orders, powers=POWERS, betas=tuple(10.0 ** (k / 2) for k in range(2, 13)))
def cbo_laplace(powers, betas):
    """Distance of the consensus point from the minimiser against beta."""
    betas = np.array(betas)
    errors = consensus_errors(powers, betas)
    late, numbers = betas >= 1e3, {}
    for k, values in zip(powers, errors, strict=True):
        fit = stats.linregress(np.log(betas[late]), np.log(values[late]))
        numbers[f"slope_{k}"] = Measured(fit.slope, f"slope for k = {k}", 4, "nodes exact to rounding")
        numbers[f"error_{k}"] = bounded(fit.stderr, 1e-6, f"its standard error for k = {k}",
                                        "the law is a power to rounding")
    refined = np.abs(consensus_errors(powers, betas, 24) / errors - 1).max()
    numbers["refinement"] = bounded(refined, 1e-6, "relative change with half as many nodes again",
                                    "rounding, beside distances down to 1e-12")
    arrays = {"betas": betas, "errors": errors, "guide": errors[1, 0] * betas[0] / betas,
              "labels": np.array([f"f = |x|^{k}" for k in powers]), "guide_label": "1 / beta",
              "ylabel": DISTANCE}
    return arrays, numbers


def rastrigin(x):
    """A quadratic with ripples: many local minima, the global one at `MINIMISER` with value 0."""
    shifted = np.asarray(x) - MINIMISER
    return np.sum(shifted**2 + 0.05 * (1 - np.cos(6 * np.pi * shifted)), axis=-1)


@experiment(
    "cbo-samples", statement="cbo", title="Finitely many tokens: the best one is all there is",
    caption="""Distance between the weighted mean of N random tokens, uniform in [-1, 1]², and the
    minimiser of a rippled objective (root mean square over {draws} draws). As beta grows the mean
    goes to the best token drawn, whose distance falls like N to the power {slope}, with standard
    error {error} (-1/2 in the plane, where a ball of radius r holds a share r² of the tokens).
    Grey: the uniform law itself, whose mean is exact up to exponentially small terms, since it has
    no slope at the minimiser.""",
    alt="""Four curves that fall with beta and then level off, lower for more tokens; the grey curve
    goes on falling.""",
    draw=draw.orders, counts=(1000, 4000, 16000, 64000),
    betas=tuple(10.0 ** (k / 2) for k in range(0, 12)), draws=60, seed=5)
def cbo_samples(counts, betas, draws, seed):
    """Error of the consensus point of random tokens against beta, for several N."""
    rng, betas, errors = np.random.default_rng(seed), np.array(betas), []
    for n in counts:
        squares = np.empty((draws, len(betas)))
        for row in squares:
            tokens = rng.uniform(-1, 1, (n, 2))
            values = rastrigin(tokens)
            row[:] = [np.sum((consensus_point(tokens, values, beta) - MINIMISER) ** 2)
                      for beta in betas]
        errors.append(np.sqrt(squares.mean(axis=0)))
    errors = np.array(errors)
    fit = stats.linregress(np.log(counts), np.log(errors[:, -1]))
    numbers = {"slope": Measured(fit.slope, "slope of the last distance against N", 3),
               "error": Measured(fit.stderr, "its standard error", 2)}
    numbers |= {f"last_{n}": Measured(values[-1], f"distance at the largest beta, N = {n}", 3)
                for n, values in zip(counts, errors, strict=True)}
    why = "seeded draws, no solver"
    numbers = {key: Measured(item.value, item.meaning, item.digits, why)
               for key, item in numbers.items()}
    arrays = {"betas": betas, "errors": errors, "guide": mean_field_error(betas),
              "labels": np.array([f"N = {n}" for n in counts]), "guide_label": "N infinite",
              "ylabel": DISTANCE}
    return arrays, numbers


def mean_field_error(betas):
    """The same for the uniform law itself; NaN where only rounding is left.

    Law and objective are sums over coordinates, so the mean is taken coordinate by coordinate.
    """
    errors = np.zeros(len(betas))
    for centre in MINIMISER:
        tokens, weights = graded_line(-1 - centre, 1 - centre, slope=0.0)
        values = rastrigin(np.column_stack([tokens + MINIMISER[0], 0 * tokens + MINIMISER[1]]))
        errors += [consensus_point(tokens, values, beta, weights)[0] ** 2 for beta in betas]
    return np.where(errors > 1e-24, np.sqrt(errors), np.nan)


@experiment(
    "cbo-paths", statement="cbo", title="One objective, or one for each token",
    caption="""Left: the drift of consensus-based optimisation, dx/dt = m - x, with the rippled
    objective (grey: its levels) at beta = {beta:g}. All {n} tokens come to one point, {distance}
    from the minimiser (cross). Right: the same tokens under attention, dz/dt = (mean of its own) -
    z, V = I: every token has an objective of its own, and {leaders} points are left.""",
    alt="""Left: paths of tokens from all over a square to one point next to a cross. Right: the
    same tokens move to several corners of a polygon.""",
    draw=draw.consensus, n=60, beta=30.0, final=12.0, scale=4.0, seed=6)
def cbo_paths(n, beta, final, scale, seed):
    """Paths under the consensus drift and under attention from the same start."""
    start = np.random.default_rng(seed).uniform(-1, 1, (n, 2))
    times = np.linspace(0, final, 61)
    consensus = simulate(ConsensusFlow(rastrigin, beta), start, times)
    attention = simulate(RescaledFlow(np.eye(2), scale**2 * np.eye(2), np.eye(2)), start, times)
    end = consensus.tokens[-1]
    leaders = len(merge(attention.tokens[-1], 0.1))
    grid = np.linspace(-1, 1, 101)
    levels = rastrigin(np.stack(np.meshgrid(grid, grid), axis=-1))
    numbers = {
        "distance": Measured(np.linalg.norm(end.mean(axis=0) - MINIMISER),
                             "distance of the consensus from the minimiser", 3),
        "start": Measured(np.linalg.norm(consensus_point(start, rastrigin(start), beta)
                                         - MINIMISER), "distance of the first weighted mean", 3),
        "spread": bounded(np.ptp(end, axis=0).max(), 2e-5, "spread of the tokens at the end",
                          "differences of tokens fall like exp(-t)"),
        "leaders": Measured(leaders, "points that are left under attention"),
    }
    arrays = {"grid": grid, "levels": levels, "minimiser": np.array(MINIMISER),
              "consensus": consensus.tokens, "attention": attention.tokens}
    return arrays, numbers
