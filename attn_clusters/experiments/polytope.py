"""Figures of the chapter on convex polytopes (Theorem 3.1 of the first paper)."""

import numpy as np

from .. import plots
from ..flows import RescaledFlow
from ..geometry import Hull, distance_to_points, limit_set
from ..simulate import simulate
from ..statements import statements
from .core import Measured, bounded, experiment

SHOWN = (0, 1, 2, 5, 10)
FINAL = 20.0
METRIC_2D = ((2.0, 0.8), (0.8, 0.6))
METRIC_3D = ((2.0, 0.5, 0.0), (0.5, 1.0, -0.4), (0.0, -0.4, 0.6))


def uniform_tokens(n, d, seed, half=5.0):
    """n tokens uniform in [-half, half]^d, as in the paper's figures."""
    return np.random.default_rng(seed).uniform(-half, half, (n, d))


def polytope_run(tokens, B, times):
    """Run the rescaled tokens with V = I and Q^T K = B (as Q = I, K = B)."""
    identity = np.eye(tokens.shape[-1])
    return simulate(RescaledFlow(identity, B, identity), tokens, times)


def polytope_numbers(run, shown):
    """Summary of a polytope run: sizes of the hull, vertices, and the statement's verdict."""
    report = statements["polytope"].verify(run)
    leaders = statements["leaders"].verify(run)
    sizes = [Hull(z).volume for z in (run.tokens[0], run.tokens[-1])]
    word = {1: "length", 2: "area", 3: "volume"}[run.tokens.shape[2]]
    solver = "errors of the solver, run at relative tolerance 1e-9"
    merged = f"tokens still move by about exp(-{run.times[-1]:g}) of their size"
    return {
        "size_start": Measured(sizes[0], f"{word} of the hull at t = 0", 6, "seeded tokens only"),
        "size_end": Measured(sizes[1], f"{word} of the hull at t = {run.times[-1]:g}", 5, merged),
        "vertices": Measured(len(limit_set(run.tokens[-1], run.flow.B, 0.02)[1]),
                             "vertices of K*"),
        "members": Measured(len(report.limit), "points of the limit set S"),
        "growth": bounded(report.checks[0].value, 1e-8,
                          "largest step of a token outside the earlier hull", solver),
        "distance": bounded(report.distances.max(), 1e-6,
                            f"largest distance to S at t = {run.times[-1]:g}", merged),
        "rate": Measured(report.rate, "rate at which that distance falls", 2,
                         "fit over the second half of the run"),
        "polytope_holds": Measured(report.holds, "the polytope statement holds on this run"),
        "leaders_hold": Measured(leaders.holds, "every token ends at a vertex or at 0"),
    }


def snapshots(n, d, B, seed, shown, final):
    """Run to `final`; keep the snapshots, the limit set and the numbers."""
    times = np.union1d(np.linspace(0.0, final, 81), shown)
    run = polytope_run(uniform_tokens(n, d, seed), np.array(B), times)
    members, vertices = limit_set(run.tokens[-1], run.flow.B, 0.02)
    kept = run.tokens[np.searchsorted(times, shown)]
    arrays = {"times": np.array(shown, float), "tokens": kept,
              "members": members, "vertices": vertices}
    return arrays, polytope_numbers(run, shown)


PLANE_ALT = """{n} tokens in the plane at five times. At t = 0 they fill a square; by t = 10 they sit on
the {vertices} corners of a convex polygon, which the shrinking hull has become."""


@experiment(
    "polytope-2d", statement="polytope", title="Forty tokens in the plane",
    caption="""{n} tokens uniform in [-5, 5]², Q = K = V = I. The hull of the rescaled tokens (blue)
    shrinks inside the first one (grey) to a polygon with {vertices} vertices (squares); every
    token ends at one of them. Crosses: the other points of the limit set S, which no token of
    this run chooses.""",
    alt=PLANE_ALT, draw=plots.snapshots_2d,
    n=40, d=2, B=((1.0, 0.0), (0.0, 1.0)), seed=3, shown=SHOWN, final=FINAL)
def polytope_plane(n, d, B, seed, shown, final):
    """Snapshots in the plane with Q = K = I."""
    return snapshots(n, d, B, seed, shown, final)
