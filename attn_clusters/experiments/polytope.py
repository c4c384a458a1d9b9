"""Figures of the chapter on convex polytopes (Theorem 3.1 of the first paper)."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from .. import plots, plots_motion
from ..flows import RescaledFlow
from ..geometry import Hull, distance_to_points, limit_set
from ..simulate import Trajectory, simulate
from ..statements import statements
from .core import experiment
from .numbers import Measured, bounded

SHOWN = (0, 0.5, 1, 2, 5, 10)
SHOWN_3D = (0, 1, 2, 5)
FINAL = 20.0
PLANE = ((1.0, 0.0), (0.0, 1.0))
PLANE_METRIC = ((1.4, 0.5), (0.5, 0.8))
SPACE = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
SPACE_METRIC = ((2.0, 0.5, 0.0), (0.5, 1.0, -0.4), (0.0, -0.4, 0.6))
SOLVER = "error of the solver at relative tolerance 1e-9"


def uniform_tokens(n, d, seed, half=5.0):
    """n tokens uniform in [-half, half]^d, as in the paper's figures."""
    return np.random.default_rng(seed).uniform(-half, half, (n, d))


def polytope_run(tokens, B, times, **tolerances):
    """Run the rescaled tokens with V = I and Q^T K = B (as Q = I, K = B)."""
    identity = np.eye(tokens.shape[-1])
    return simulate(RescaledFlow(identity, B, identity), tokens, times, **tolerances)


def polytope_numbers(run):
    """Summary of a run: sizes of the hull, vertices, and the verdicts of both statements."""
    report, leaders = (statements[key].verify(run) for key in ("polytope", "leaders"))
    sizes = [Hull(z).volume for z in (run.tokens[0], run.tokens[-1])]
    word = {1: "length", 2: "area", 3: "volume"}[run.tokens.shape[2]]
    final = f"{run.times[-1]:g}"
    moving = f"tokens still move by about exp(-{final}) of their size"
    return {
        "size_start": Measured(sizes[0], f"{word} of the hull at t = 0", 6, "seeded tokens only"),
        "size_end": Measured(sizes[1], f"{word} of the hull at t = {final}", 5, moving),
        "vertices": Measured(len(limit_set(run.tokens[-1], run.flow.B, 0.02)[1]),
                             "vertices of K*"),
        "members": Measured(len(report.limit), "points of the limit set S"),
        "growth": bounded(report.checks[0].value, 1e-7,
                          "largest step of a token outside the earlier hull", SOLVER),
        "distance": bounded(report.distances.max(), 1e-6,
                            f"largest distance to S at t = {final}", moving),
        "rate": Measured(report.rate, "rate at which that distance falls", 2,
                         "fit over the second half of the run"),
        "polytope_holds": Measured(report.holds, "the polytope statement holds on this run"),
        "leaders_hold": Measured(leaders.holds, "every token ends at a vertex or at 0"),
    }


def snapshots(n, B, seed, shown, final):
    """Run to `final`; the snapshots, the limit set and the numbers."""
    times = np.union1d(np.linspace(0.0, final, 81), shown)
    run = polytope_run(uniform_tokens(n, len(B), seed), B, times)
    members, vertices = limit_set(run.tokens[-1], run.flow.B, 0.02)
    arrays = {"times": np.array(shown, float), "tokens": run.tokens[np.searchsorted(times, shown)],
              "vertices": vertices}
    if len(B) == 2:
        arrays["members"] = members
    return arrays, polytope_numbers(run)


PLANE_ALT = """Six square panels with the {n} tokens at six times. At t = 0 they fill a square; by
t = 5 all of them sit on the {vertices} corners of a convex polygon, to which their hull has
shrunk."""
SPACE_ALT = """Four views of a cube with the {n} tokens at four times and their hull as a translucent
surface. At t = 0 they fill the cube; by t = 5 all of them sit on the {vertices} vertices of a
convex polyhedron."""


@experiment(
    "polytope-2d", statement="polytope", title="Forty tokens in the plane",
    caption="""{n} tokens uniform in [-5, 5]², Q = K = V = I. The hull of the rescaled tokens (blue)
    shrinks inside the first one (grey) to a polygon with {vertices} vertices (squares); every
    token ends at one of them. Crosses: the other points of the limit set S, which no token of
    this run chooses.""",
    alt=PLANE_ALT, draw=plots.snapshots_2d, n=40, B=PLANE, seed=3, shown=SHOWN, final=FINAL)
def polytope_plane(n, B, seed, shown, final):
    """Snapshots in the plane with Q = K = I."""
    return snapshots(n, B, seed, shown, final)


@experiment(
    "polytope-2d-metric", statement="polytope", title="The same tokens, another QᵀK",
    caption="""The tokens of the figure before, with QᵀK = {B}. Another scalar product makes other
    tokens into leaders: now the polygon has {vertices} vertices.""",
    alt=PLANE_ALT, draw=plots.snapshots_2d, n=40, B=PLANE_METRIC, seed=3, shown=SHOWN, final=FINAL)
def polytope_plane_metric(n, B, seed, shown, final):
    """Snapshots in the plane with a positive definite Q^T K that is not the identity."""
    return snapshots(n, B, seed, shown, final)


@experiment(
    "polytope-3d", statement="polytope", title="Forty tokens in space",
    caption="""{n} tokens uniform in [-5, 5]³, Q = K = V = I: a polyhedron with {vertices} vertices
    (squares). Its limit set S has {members} points; every token ends at a vertex.""",
    alt=SPACE_ALT, draw=plots.snapshots_3d, n=40, B=SPACE, seed=5, shown=SHOWN_3D, final=FINAL)
def polytope_space(n, B, seed, shown, final):
    """Snapshots in space with Q = K = I."""
    return snapshots(n, B, seed, shown, final)


@experiment(
    "polytope-3d-metric", statement="polytope", title="Space, another QᵀK",
    caption="""The tokens of the figure before, with QᵀK = {B}: now {vertices} vertices.""",
    alt=SPACE_ALT, draw=plots.snapshots_3d,
    n=40, B=SPACE_METRIC, seed=5, shown=SHOWN_3D, final=FINAL)
def polytope_space_metric(n, B, seed, shown, final):
    """Snapshots in space with a positive definite Q^T K that is not the identity."""
    return snapshots(n, B, seed, shown, final)


CASES = (("plane, QᵀK = I", PLANE, 3), ("plane, other QᵀK", PLANE_METRIC, 3),
         ("space, QᵀK = I", SPACE, 5), ("space, other QᵀK", SPACE_METRIC, 5))


def _runs(n, final, samples):
    times = np.linspace(0.0, final, samples)
    return times, [polytope_run(uniform_tokens(n, len(B), seed), B, times)
                   for _, B, seed in CASES]


@experiment(
    "polytope-hull", statement="polytope", title="The hull only shrinks",
    caption="""Area or volume of the hull of the rescaled tokens, relative to its first value, in the
    four runs above. It never grows: {samples} times each were compared with the time before.""",
    alt="""Four falling curves of relative hull size against time from 0 to {final}. Each drops within
    the first two units of time and is flat afterwards, between {smallest} and {largest}.""",
    draw=partial(plots.curves, xlabel="time t", ylabel="area or volume, relative"),
    n=40, final=6.0, samples=121)
def polytope_hull(n, final, samples):
    """Size of the hull against time."""
    times, runs = _runs(n, final, samples)
    sizes = np.array([[Hull(z).volume for z in run.tokens] for run in runs])
    relative = sizes / sizes[:, :1]
    moving = f"tokens still move by about exp(-{final:g}) of their size"
    numbers = {
        "smallest": Measured(relative[:, -1].min(), "smallest relative size at the end", 3, moving),
        "largest": Measured(relative[:, -1].max(), "largest relative size at the end", 3, moving),
        "growth": bounded(np.diff(relative, axis=1).max(), 1e-9,
                          "largest relative growth from one time to the next", SOLVER),
    }
    return {"x": times, "values": relative, "labels": np.array([case[0] for case in CASES])}, numbers


@experiment(
    "polytope-distances", statement="polytope", title="Every token reaches S",
    caption="""Distance of each rescaled token to the limit set S of its run, where K* is taken as the
    hull at t = {final}. The largest distance falls like exp(-t): tokens that follow the same
    leader are held together by it at a distance of order 1 in x, which is exp(-t) in z. The tokens on the
    floor are the leaders; the floor itself is K*, known only to about exp(-{final}).""",
    alt="""Four panels with one thin line per token on a logarithmic axis: distances to S from about 1
    at t = 0 fall along straight lines, parallel to exp(-t), to about 1e-8 at t = {shown}.""",
    draw=partial(plots.decay, guide=1.0, ylabel="distance to S"),
    n=40, final=26.0, shown=18.0, samples=105)
def polytope_distances(n, final, shown, samples):
    """Distance of each token to S against time."""
    times, runs = _runs(n, final, samples)
    kept = times <= shown
    histories = np.stack([distance_to_points(run.tokens[kept],
                                             limit_set(run.tokens[-1], run.flow.B, 0.02)[0])
                          for run in runs])
    late = times[kept] >= shown / 2
    rates = [-np.polyfit(times[kept][late], np.log(history.max(axis=1)[late]), 1)[0]
             for history in histories]
    numbers = {
        "slowest": Measured(min(rates), "smallest of the four fitted rates", 3,
                            f"fit over t from {shown / 2:g} to {shown:g}"),
        "fastest": Measured(max(rates), "largest of the four fitted rates", 3,
                            f"fit over t from {shown / 2:g} to {shown:g}"),
        "last": bounded(histories[:, -1].max(), 1e-6, f"largest distance to S at t = {shown:g}",
                        "the rate above, from distances of order 1"),
    }
    titles = np.array([case[0] for case in CASES])
    return {"times": times[kept], "distances": histories, "titles": titles}, numbers


@experiment(
    "polytope-paths", statement="polytope", title="Where two hundred tokens go",
    caption="""Paths of {n} rescaled tokens, Q = K = V = I, from t = 0 (dots) to t = {final}, coloured by
    the vertex at which they end. The grey line is the hull at t = 0.""",
    alt="""{n} dots scattered over a square, each joined by a thin curve to one of the {vertices}
    corners of a convex polygon; dots with the same destination share a colour and form sectors.""",
    draw=plots.paths_2d, n=200, seed=11, final=12.0, samples=200)
def polytope_paths(n, seed, final, samples):
    """Paths in the plane, labelled by destination: the picture of the landing page."""
    # Times are denser early, when tokens move.
    times = final * np.linspace(0.0, 1.0, samples) ** 3
    run = polytope_run(uniform_tokens(n, 2, seed), np.eye(2), times)
    _, vertices = limit_set(run.tokens[-1], run.flow.B, 0.02)
    gaps = np.linalg.norm(run.tokens[-1][:, None] - vertices, axis=2)
    numbers = {"vertices": Measured(len(vertices), "vertices of K*"),
               "farthest": bounded(gaps.min(axis=1).max(), 1e-3,
                                   f"largest distance to a vertex at t = {final:g}",
                                   f"tokens still move by about exp(-{final:g}) of their size")}
    return {"tokens": run.tokens, "labels": gaps.argmin(axis=1), "vertices": vertices,
            "outline": run.tokens[0]}, numbers


@experiment(
    "leaders-count", statement="leaders", title="How many leaders",
    caption="""Number of vertices of K* in {runs} runs of {n} random tokens each, in the plane and in
    space (Q = K = V = I, t = {final}). In {followed} of {total} runs every token had come to a
    vertex or to 0.""",
    alt="""Bar chart of the number of vertices. In the plane the counts centre on 5, in space on
    about 12, and they spread over a few values on each side.""",
    draw=partial(plots.counts, xlabel="vertices of K*", ylabel="runs"),
    n=40, runs=100, seed=7, final=10.0)
def leaders_count(n, runs, seed, final):
    """Number of vertices, and whether all tokens end at vertices, over many random runs."""
    found, followed = [], 0
    for d in (2, 3):
        tokens = np.random.default_rng(seed + d).uniform(-5, 5, (runs, n, d))
        batch = polytope_run(tokens, np.eye(d), (0.0, final / 2, final), rtol=1e-6, atol=1e-9)
        single = [Trajectory(batch.flow, batch.times, batch.tokens[:, index], batch.method,
                             batch.evaluations) for index in range(runs)]
        followed += sum(statements["leaders"].verify(run).holds for run in single)
        found.append([len(limit_set(run.tokens[-1], np.eye(d), 0.02)[1]) for run in single])
    values = np.arange(np.min(found), np.max(found) + 1)
    frequencies = np.array([[row.count(value) for value in values] for row in found])
    numbers = {
        "total": Measured(2 * runs, "runs in all"),
        "followed": Measured(int(followed), "runs in which every token is at a vertex or at 0"),
        "mean_plane": Measured(np.mean(found[0]), "mean number of vertices in the plane", 3,
                               "counts; exact unless a run is near a tie"),
        "mean_space": Measured(np.mean(found[1]), "mean number of vertices in space", 3,
                               "counts; exact unless a run is near a tie"),
    }
    return {"values": values, "frequencies": frequencies,
            "labels": np.array(["plane", "space"])}, numbers


@dataclass(frozen=True, eq=False)
class SymmetricFlow(RescaledFlow):
    """A2 for tokens that come in mirror images, with the symmetry kept exactly.

    The exact flow preserves the symmetry; rounding does not. Averaging the derivative with its
    mirror image restores it to the last bit, since the same additions are made on both sides.
    The tokens are four blocks: a quadrant, then its images under both reflections and their
    product, then tokens on the axes arranged likewise by `mirror`.
    """

    mirrors: tuple = ()

    def __call__(self, t, tokens):
        change = super().__call__(t, tokens)
        for order, signs in self.mirrors:
            change = (change + change[order] * signs) / 2
        return change


def symmetric_tokens(n, seed, half=5.0):
    """n random tokens in a quadrant, their mirror images, two on each axis, and 0."""
    rng = np.random.default_rng(seed)
    quadrant = rng.uniform(0.2, half, (n, 2))
    on_axes = np.array([[half / 3, 0], [-half / 3, 0], [0, half / 4], [0, -half / 4], [0, 0]])
    images = [quadrant * signs for signs in ((1, 1), (-1, 1), (1, -1), (-1, -1))]
    return np.concatenate([*images, on_axes])


def mirror_order(tokens, signs):
    """The index of each token's mirror image."""
    gaps = np.abs(tokens[:, None] * signs - tokens[None]).max(axis=2)
    return gaps.argmin(axis=1)


@experiment(
    "polytope-symmetric", statement="polytope", title="Symmetric tokens",
    caption="""{total} tokens, symmetric under both reflections, five of them on the axes (left). With
    the symmetry kept exactly, tokens on an axis end at the middle of an edge and the one at 0
    stays (middle): points of S (crosses) that are not vertices. In plain float64 (right) rounding
    breaks the symmetry before t = {broken_at} and they leave for vertices.""",
    alt="""Three panels. Left: a cloud symmetric about both axes. Middle: all tokens at the corners of
    a symmetric polygon, but four at the middles of edges and one at the centre. Right: the
    tokens from the edges have gone to corners.""",
    draw=plots.symmetric_2d, n=8, seed=8, final=16.0)
def polytope_symmetric(n, seed, final):
    """Tokens that end at points of S other than vertices, and what rounding makes of them."""
    tokens, identity, times = symmetric_tokens(n, seed), np.eye(2), np.linspace(0, final, 161)
    mirrors = tuple((mirror_order(tokens, signs), np.array(signs))
                    for signs in ((-1.0, 1.0), (1.0, -1.0)))
    kept = simulate(SymmetricFlow(identity, identity, identity, mirrors), tokens, times)
    free = simulate(RescaledFlow(identity, identity, identity), tokens, times)
    members, vertices = limit_set(kept.tokens[-1], identity, 0.02)
    apart = np.abs(free.tokens - kept.tokens).max(axis=(1, 2))
    elsewhere = distance_to_points(kept.tokens[-1], vertices) > 0.1
    numbers = {
        "total": Measured(len(tokens), "tokens"),
        "middle": Measured(int(elsewhere.sum()), "tokens that end away from the vertices"),
        "vertices": Measured(len(vertices), "vertices of K*"),
        "members": Measured(len(members), "points of S"),
        "polytope_holds": Measured(statements["polytope"].verify(kept).holds,
                                   "the polytope statement holds, symmetry kept"),
        "leaders_hold": Measured(statements["leaders"].verify(kept).holds,
                                 "every token ends at a vertex or at 0, symmetry kept"),
        "broken_at": Measured(int(np.ceil(times[np.argmax(apart > 1e-3)])),
                              "rounding has moved a token by 1e-3 before t ="),
    }
    return {"tokens": tokens, "ends": kept.tokens[-1], "broken": free.tokens[-1],
            "members": members, "vertices": vertices}, numbers


@experiment(
    "polytope-animation", statement="polytope", title="Tokens that cluster",
    caption="""{n} tokens in the plane under V = I from t = 0 to t = {final:g}; the hull of the
    rescaled tokens (blue) shrinks inside the first one (grey outline) to a polygon with {vertices}
    vertices (squares), and each token follows its grey path to one of them. Half of the tokens are
    within 1 per cent of their end at t = {half_arrived}, all of them at t = {all_arrived}.""",
    alt="""{n} tokens in the plane. From a filled square each runs along a bent path to one of the
    {vertices} corners of the polygon inside; half have arrived at t = {half_arrived}, all at
    t = {all_arrived}.""",
    draw=plots_motion.clustering_still, animate=plots_motion.clustering_frames,
    n=40, B=PLANE, seed=3, final=6.0, frames=61)
def polytope_animation(n, B, seed, final, frames):
    """A run in the plane at many times, and when its tokens have arrived."""
    times = np.linspace(0.0, final, frames)
    tokens = uniform_tokens(n, 2, seed)
    fine = np.union1d(np.linspace(0.0, 2.5 * final, 1001), times)
    run = polytope_run(tokens, B, fine)
    vertices = limit_set(run.tokens[-1], run.flow.B, 0.02)[1]
    away = np.linalg.norm(run.tokens - run.tokens[-1], axis=2) > 0.01 * np.abs(tokens).max()
    arrived = np.sort(fine[(away * np.arange(1, len(fine) + 1)[:, None]).max(axis=0)])
    grid = f"read off at times {final / 400:.3g} apart"
    numbers = {
        "vertices": Measured(len(vertices), "vertices of K*"),
        "half_arrived": Measured(arrived[n // 2 - 1], "time at which half have arrived", 2, grid),
        "all_arrived": Measured(arrived[-1], "time at which the last token has arrived", 2, grid),
    }
    kept = run.tokens[np.searchsorted(fine, times)]
    return {"times": times, "tokens": kept, "vertices": vertices}, numbers
