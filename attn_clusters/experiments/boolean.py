"""Figures of the chapter on the line (Theorem 2.1 of the first paper)."""

from functools import partial

import numpy as np
from scipy.stats import binomtest

from .. import plots_line
from ..attention import attention_matrix
from ..flows import RescaledFlow, TokenFlow
from ..line import boolean_limit, settled_sides
from ..simulate import simulate
from ..statements import statements
from ..sweep import sweep
from .core import experiment
from .numbers import Measured, bounded
from .polytope import SymmetricFlow, uniform_tokens

ONE = np.eye(1)
BOOLEAN = 1e-12
SATURATED = "all other tokens are attended to with weights below e^-100"


def line_run(tokens, times, flow=RescaledFlow, **options):
    """Run tokens on the line with Q = K = V = 1; also their unrescaled positions."""
    run = simulate(flow(ONE, ONE, ONE), np.sort(tokens, axis=-2), times, **options)
    return run, np.exp(run.times)[:, None, None] * run.tokens


def deviations(P):
    """Per row, how far its entries are from the nearer of 0 and 1."""
    return np.minimum(P, 1 - P).max(axis=-1)


def pictures(run, x, shown):
    """P at the times shown, then the limit predicted at the end, with titles."""
    at = np.searchsorted(run.times, shown)
    sides = settled_sides(x[-1], 1.0)
    panels = np.concatenate([attention_matrix(x[at], ONE, ONE),
                             boolean_limit(x[-1], sides)[None]])
    titles = np.array([*(f"t = {time:g}" for time in shown), "predicted limit"])
    return {"panels": panels, "titles": titles, "tokens": run.tokens[0, :, 0]}


def boolean_numbers(run, x):
    """Summary of a run on the line."""
    sides = np.array([settled_sides(tokens, 1.0) for tokens in x])
    report = statements["boolean"].verify(run, tolerance=BOOLEAN)
    P = attention_matrix(x[-1], ONE, ONE)
    decided = (sides != 0).all(axis=1)
    return {
        "known_at_start": Measured(np.count_nonzero(sides[0]),
                                   "tokens whose side is proved at t = 0"),
        "all_known_at": Measured(run.times[np.argmax(decided)],
                                 "all sides are proved, on the grid of times, at t =", 3,
                                 "the time lies on a grid of steps of 0.05"),
        "up": Measured(np.count_nonzero(sides[-1] > 0), "rows that end at the largest token"),
        "down": Measured(np.count_nonzero(sides[-1] < 0), "rows that end at the smallest token"),
        "rank": Measured(np.linalg.matrix_rank(P), f"numerical rank of P at t = {run.times[-1]:g}"),
        "other_rows": Measured(np.count_nonzero(deviations(P) > BOOLEAN),
                               "rows with an entry farther than 1e-12 from both 0 and 1"),
        "deviation": bounded(report.distances.max(), BOOLEAN,
                             f"largest deviation of P from the prediction at t = {run.times[-1]:g}",
                             SATURATED),
        "boolean_holds": Measured(report.holds, "the statement holds on this run"),
    }


@experiment(
    "boolean-matrices", statement="boolean", title="Attention becomes Boolean",
    caption="""The attention matrix of {n} tokens on the line, uniform in [-5, 5], Q = K = V = 1; rows and
    columns sorted by token, with some of the tokens' initial positions along the axes. In the
    limit {up} rows are e_b for the largest token and {down} are e_a for the smallest.""",
    alt="""Five pictures of a {n} by {n} matrix at growing times and the predicted limit. The first has
    broad dark areas in the upper left and lower right corner; they narrow until the first column
    is dark in the upper rows and the last column in the lower rows, all else being 0.""",
    draw=plots_line.matrices, n=40, seed=1, shown=(0.0, 0.5, 1.0, 2.0, 3.0), final=12.0)
def boolean_matrices(n, seed, shown, final):
    """P(t) at some times and its predicted limit."""
    run, x = line_run(uniform_tokens(n, 1, seed), np.linspace(0, final, round(20 * final) + 1))
    return pictures(run, x, shown), boolean_numbers(run, x)


@experiment(
    "boolean-rank-one", statement="boolean", title="Tokens of one sign",
    caption="""{n} tokens uniform in [0, 5]: all are positive, so the side of each is known at t = 0, every
    row tends to e_b, and the limit has rank {rank}.""",
    alt="""Five pictures of a {n} by {n} matrix and the predicted limit: weight moves to the right in
    every row until only the last column is dark.""",
    draw=plots_line.matrices, n=40, seed=2, shown=(0.0, 1.0, 2.0, 3.0, 5.0), final=15.0)
def boolean_rank_one(n, seed, shown, final):
    """P(t) for positive tokens: its limit has rank 1."""
    tokens = np.random.default_rng(seed).uniform(0, 5, (n, 1))
    run, x = line_run(tokens, np.linspace(0, final, round(20 * final) + 1))
    return pictures(run, x, shown), boolean_numbers(run, x)


@experiment(
    "boolean-tokens", statement="boolean", title="Which way each token goes",
    caption="""Left: the same {n} rescaled tokens against time. For {known_at_start} of them the
    side is proved from the tokens at t = 0 alone; the others, near 0, are settled by t = {all_known_at}.
    Right: deviation of each row of P(t) from its limit, which falls faster than any exponential.""",
    alt="""Left: curves that start between -5 and 5 and run together to two levels, one positive and one
    negative. Right: on a logarithmic axis the rows' deviations from their limits bend downwards
    ever more steeply and pass 1e-12 near t = 4.""",
    draw=plots_line.line_tokens, n=40, seed=1, final=12.0, shown=5.0)
def boolean_tokens(n, seed, final, shown):
    """z_i(t), the sides known at the start, and the deviation of every row from its limit."""
    run, x = line_run(uniform_tokens(n, 1, seed), np.linspace(0, final, round(20 * final) + 1))
    kept = run.times <= shown
    limit = boolean_limit(x[-1], settled_sides(x[-1], 1.0))
    distances = np.abs(attention_matrix(x[kept], ONE, ONE) - limit).max(axis=2)
    arrays = {"times": run.times[kept], "tokens": run.tokens[kept, :, 0],
              "sides": settled_sides(x[0], 1.0), "distances": distances}
    return arrays, boolean_numbers(run, x)


@experiment(
    "boolean-exceptional", statement="boolean", title="The one row that is not Boolean",
    caption="""{n} tokens symmetric about 0, one of them at 0. With the symmetry kept exactly (left) its row
    stays at 1/n while every other becomes Boolean: the limit has rank {rank}. In plain float64
    (middle) rounding moves the token off 0, and before t = {left_at} its row has become Boolean too.
    Right: how fast it leaves.""",
    alt="""Left: a matrix whose upper rows are dark in the first column, whose lower rows are dark in the
    last, and whose middle row is evenly pale. Middle: the same without the pale row. Right: on a
    logarithmic axis the middle token grows from about 1e-16 to the size of its neighbour, ever
    more steeply.""",
    draw=plots_line.exceptional_row, pairs=10, seed=4, final=8.0)
def boolean_exceptional(pairs, seed, final):
    """A symmetric initial datum, for which the exceptional row appears."""
    half = np.random.default_rng(seed).uniform(0.2, 5.0, (pairs, 1))
    tokens = np.sort(np.concatenate([half, -half, [[0.0]]]), axis=0)
    times, n = np.linspace(0, final, round(100 * final) + 1), len(tokens)
    mirrors = ((np.arange(n)[::-1], np.array([-1.0])),)
    _, kept = line_run(tokens, times, partial(SymmetricFlow, mirrors=mirrors))
    _, free = line_run(tokens, times)
    P, loose = (attention_matrix(x[-1], ONE, ONE) for x in (kept, free))
    rows = attention_matrix(free, ONE, ONE)[:, pairs]
    numbers = {
        "n": Measured(n, "tokens"),
        "rank": Measured(np.linalg.matrix_rank(P), "numerical rank of P, symmetry kept"),
        "other_rows": Measured(np.count_nonzero(deviations(P) > BOOLEAN),
                               "rows that are not Boolean, symmetry kept"),
        "uniform": bounded(np.abs(P[pairs] - 1 / n).max(), 1e-12,
                           "largest deviation of the middle row from 1/n, symmetry kept",
                           "the token is at 0 to the last bit"),
        "other_rows_free": Measured(np.count_nonzero(deviations(loose) > BOOLEAN),
                                    "rows that are not Boolean, plain float64"),
        "rank_free": Measured(np.linalg.matrix_rank(loose), "numerical rank of P, plain float64"),
        "left_at": Measured(int(np.ceil(times[np.argmax(deviations(rows) < 0.01)])),
                            "in plain float64 the middle row is Boolean to 0.01 before t ="),
    }
    return {"tokens": tokens[:, 0], "kept": P, "free": loose, "times": times[times <= 2],
            "paths": np.abs(free[times <= 2, pairs:pairs + 2, 0]).T}, numbers


def open_rows(seed, runs, n, times):
    """Draw `runs` sets of n tokens in [-5, 5]; count the rows still open at each time, (T, runs).

    Runs with no open row are settled for ever and not followed any longer. Also returns the sides.
    """
    x = np.random.default_rng(seed).uniform(-5, 5, (runs, n, 1))
    sides, flow = settled_sides(x, 1.0), TokenFlow(ONE, ONE, ONE)
    counts = [np.count_nonzero(sides == 0, axis=1)]
    for before, after in zip(times[:-1], times[1:], strict=True):
        waiting = np.flatnonzero(counts[-1])
        if len(waiting):
            x[waiting] = simulate(flow, x[waiting], (before, after), rtol=1e-6,
                                  atol=1e-9).tokens[-1]
            sides[waiting] = settled_sides(x[waiting], 1.0)
        counts.append(np.count_nonzero(sides == 0, axis=1))
    return np.array(counts), sides


@experiment(
    "boolean-draws", statement="boolean", title="Ten thousand draws",
    caption="""{draws} sets of {n} tokens uniform in [-5, 5]: the share of sets in which the side of
    some token is still unproved at time t. From t = {final} on no row is open in any set, so the true
    share of exceptional ones is at most {at_most} (95 % interval).""",
    alt="""On a logarithmic axis the share of draws with an open row falls along a nearly straight line
    from two thirds at t = 0 to two in ten thousand at t = {last_open_at}; a narrow band around it widens as
    the counts get small.""",
    draw=plots_line.undecided_share, chunks=10, runs=1000, n=10, step=0.1, final=2.0, seed=5)
def boolean_draws(chunks, runs, n, step, final, seed):
    """How many random initial data still have an open row at time t; ranks of the limits."""
    times = np.arange(0.0, final + step / 2, step)
    found = sweep(open_rows, [{"seed": (seed, chunk), "runs": runs, "n": n, "times": times}
                              for chunk in range(chunks)], progress=False)
    counts = np.concatenate([each[0] for each in found], axis=1)
    sides = np.concatenate([each[1] for each in found])
    draws = counts.shape[1]
    waiting = np.count_nonzero(counts, axis=1)
    intervals = [binomtest(int(count), draws).proportion_ci(0.95, "exact") for count in waiting]
    rank_one = np.abs(sides.sum(axis=1)) == n
    why = "a draw within the solver's tolerance of the threshold could count either way"
    numbers = {
        "draws": Measured(draws, "draws"),
        "open_at_start": Measured(waiting[0], "draws with an open row at t = 0"),
        "open_at_half": Measured(waiting[np.abs(times - 0.5).argmin()] / draws,
                                 "share of draws with an open row at t = 0.5", 2, why),
        "last_open_at": Measured(times[np.flatnonzero(waiting).max()],
                                 "last time on the grid with an open row in some draw", 3, why),
        "open_at_end": Measured(waiting[-1], f"draws with an open row at t = {final:g}"),
        "at_most": Measured(intervals[-1].high,
                            "upper end of the 95 % interval for their share", 2, "exact"),
        "rank_one": Measured(np.count_nonzero(rank_one), "draws whose limit has rank 1"),
        "rank_two": Measured(np.count_nonzero(~rank_one & (counts[-1] == 0)),
                             "draws whose limit has rank 2"),
    }
    return {"times": times, "share": waiting / draws,
            "low": np.array([each.low for each in intervals]),
            "high": np.array([each.high for each in intervals])}, numbers
