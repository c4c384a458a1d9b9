"""Figures of the chapter on polytopes times subspaces (section 5 of the first paper)."""

from functools import partial

import numpy as np

from .. import plots_planes
from ..geometry import Hull, distance_to_points, limit_set, merge
from ..statements import statements
from ..statements.hyperplanes import coordinates_in_F
from .core import experiment
from .hyperplanes import SWITCH, run_with
from .numbers import Measured, bounded
from .polytope import uniform_tokens


def mixed_numbers(run):
    """Summary of a run: polytope in F, distances to its walls, verdict."""
    report = statements["mixed"].verify(run)
    inside, _ = coordinates_in_F(run)
    corners = limit_set(inside[-1], np.eye(inside.shape[2]), 0.02)[1]
    edges = distance_to_points(inside[-1], np.vstack([corners, np.zeros(inside.shape[2])]))
    final = f"t = {run.times[-1]:g}"
    return {
        "corners": Measured(len(corners), "vertices of K*"),
        "distance": bounded(report.distances.max(), 1e-3,
                            f"largest distance to (boundary of K* or 0) x G at {final}",
                            f"tokens still move by about exp(-{run.times[-1]:g}) of their size"),
        "to_corners": bounded(edges.max(), 1e-3, f"largest distance to (vertices or 0) x G at {final}",
                              f"tokens still move by about exp(-{run.times[-1]:g}) of their size"),
        "rate": Measured(report.rate, "rate at which it falls", 2, "fit over half the run"),
        "growth": bounded(report.checks[0].value, 1e-5,
                          "largest step of a token outside the earlier hull in F",
                          "interpolation of the solver where a token changes leaders"),
        "spread_start": Measured(np.ptp(run.tokens[0, :, -1]), "extent along G at t = 0", 5,
                                 "seeded tokens only"),
        "spread_end": Measured(np.ptp(run.tokens[-1, :, -1]), f"extent along G at {final}", 3,
                               SWITCH),
        "mixed_holds": Measured(report.holds, "the statement holds on this run"),
    }


def mixed_run(n, seed, last, final):
    """V = I with last diagonal entry `last`, Q = K = I, tokens uniform in [-5, 5]^3."""
    times = np.linspace(0, final, round(5 * final) + 1)
    return run_with(np.diag((1.0, 1.0, last)), uniform_tokens(n, 3, seed), times)


def walls(run, half):
    """The walls (edges of K*) x G, shape (m, 4, 3), and their corners, the lines (m, 2, 3)."""
    inside, basis = coordinates_in_F(run)
    corners = merge(inside[-1][Hull(inside[-1], flat=0.02).vertices], 0.1)
    ring = corners[Hull(corners).vertices] @ basis.T
    up = np.array([0.0, 0.0, half])
    lines = np.stack([ring - up, ring + up], axis=1)
    following = np.roll(lines, -1, axis=0)
    return np.concatenate([lines, following[:, ::-1]], axis=1), lines


@experiment(
    "mixed-3d", statement="mixed", title="A polygon times a line",
    caption="""{n} tokens in space, uniform in [-5, 5]³, Q = K = I, V = diag(1, 1, {last}). In the first two
    coordinates, F, the tokens come to the {corners} vertices of a polygon K*; along the third, G,
    they stay spread out. Blue: the walls (edges of K*) × G. Red: (vertices of K*) × G.""",
    alt="""Four panels in space with a translucent prism of {corners} vertical walls. At t = 0 dots fill a
    cube; they move to the prism's walls and, by t = 5, to its vertical edges, along which they
    are spread.""",
    draw=plots_planes.tokens_and_walls, n=40, seed=1, last=-0.5, shown=(0, 1, 2, 5), final=10.0)
def mixed_space(n, seed, last, shown, final):
    """The published example: tokens, walls and edges."""
    run = mixed_run(n, seed, last, final)
    kept = run.tokens[np.searchsorted(run.times, shown)]
    panels, lines = walls(run, plots_planes.box(kept))
    arrays = {"times": np.array(shown, float), "tokens": kept, "walls": panels, "segments": lines,
              "halves": np.ceil(np.abs(kept).max(axis=(0, 1)) + [1, 1, 0])}
    return arrays, mixed_numbers(run)


@experiment(
    "mixed-distances", statement="mixed", title="Distances to the walls",
    caption="""Largest distance of a token to (boundary of K* or 0) × G against time, for V =
    diag(1, 1, λ) with three values of λ; K* is the hull in F at t = {final}. All fall like exp(-t) in
    the end. For λ = {values[2]} one token stands still outside K* until t = {leaves_at}: its third
    coordinate, growing nearly as fast as the others, makes it its own leader for so long.""",
    alt="""Three curves on a logarithmic axis. Two fall along straight lines from t = 1 on; the third
    stays level at about 0.8 until t = {leaves_at} and then falls as steeply.""",
    draw=partial(plots_planes.decays, ylabel="distance to the walls"),
    n=40, seed=1, values=(-0.5, 0.2, 0.8), shown=16.0, final=20.0)
def mixed_distances(n, seed, values, shown, final):
    """Largest distance against time for several spectra on G."""
    runs = [mixed_run(n, seed, last, final) for last in values]
    times = runs[0].times
    histories = [statements["mixed"].measure(run, 0.02).distances.max(axis=1) for run in runs]
    late = (times >= 10) & (times <= shown)
    rates = [-np.polyfit(times[late], np.log(history[late]), 1)[0] for history in histories]
    waits = histories[-1] >= 0.9 * histories[-1][np.searchsorted(times, 5.0)]
    numbers = {
        "slowest": Measured(min(rates), "smallest of the rates fitted from t = 10 on", 2,
                            "one run has left its waiting place just before"),
        "fastest": Measured(max(rates), "largest of these rates", 2, "solver tolerance 1e-9"),
        "leaves_at": Measured(times[waits].max(), "λ = 0.8: a token stands still outside K* until t =", 2,
                              "the time lies on a grid of steps of 0.2"),
        "holding": Measured(sum(statements["mixed"].verify(run).holds for run in runs),
                            "runs, of three, on which the statement holds")}
    kept = times <= shown
    return {"times": times[kept], "distances": np.stack(histories)[:, kept],
            "titles": np.array([f"λ = {last:g}" for last in values])}, numbers
