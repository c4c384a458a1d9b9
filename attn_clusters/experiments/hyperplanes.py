"""Figures of the chapter on hyperplanes (Theorem 4.2 and the codimension conjecture)."""

from functools import partial

import numpy as np
from scipy.stats import binomtest

from .. import plots_planes
from ..attention import attention_matrix
from ..flows import RescaledFlow, TokenFlow
from ..simulate import Trajectory, simulate
from ..spectrum import leading_eigenpair, left_invariant, real_eigenbasis
from ..statements import statements
from ..statements.hyperplanes import (
    growing_coordinates,
    leading_levels,
    limit_levels,
    unrescaled_tokens,
)
from ..sweep import sweep
from .core import experiment
from .numbers import Measured, bounded
from .polytope import uniform_tokens

# The value matrices published with the paper's figures.
PLANE = ((0.64709742, 0.81911926), (0.61210449, 0.63263484))
NEGATIVE = ((0.2362413, 0.0599536, 0.40506019), (0.81321448, 0.49948705, 0.33754772),
            (0.2160645, 0.38505272, 0.14588075))
POSITIVE = ((0.18608476, 0.34391026, 0.13905949), (0.35244288, 0.6694859, 0.39992145),
            (0.46685606, 0.17094454, 0.42092308))
SYMMETRIC = ((0.92761287, 0.94333073, 0.3827744), (0.94333073, 0.59991396, 0.47825472),
             (0.3827744, 0.47825472, 0.46668605))
SWITCH = "solver tolerance 1e-9, magnified where a token changes leaders"


def run_with(V, tokens, times):
    """Run the rescaled tokens with value matrix V and Q = K = I."""
    V, identity = np.array(V, float), np.eye(len(V))
    return simulate(RescaledFlow(identity, identity, V), tokens, times)


def eigenbasis_run(V, tokens, times, **options):
    """The same run in the eigenbasis of V, unrescaled: each coordinate has a scale of its own.

    In the standard basis rounding of the fastest coordinate would drown the slower ones.
    """
    basis, blocks = real_eigenbasis(np.array(V, float))
    start = np.linalg.solve(basis, tokens.T).T
    return simulate(TokenFlow(basis, basis, blocks), start, times, **options)


def final_leaders(run, certain=1e-6):
    """The token that each token follows at the end of a run, shape (n,); None while undecided.

    If every row of P is within `certain` of a unit vector, dz_i/dt = V (z_j - z_i) for one j each.
    Following j from token to token must end at tokens that attend to themselves and stand still.
    """
    P = attention_matrix(unrescaled_tokens(run)[-1], run.flow.Q, run.flow.K)
    follows = P.argmax(axis=1)
    for _ in range(len(P)):
        follows = P.argmax(axis=1)[follows]
    settled = (P.argmax(axis=1)[follows] == follows).all()
    return follows if settled and P.max(axis=1).min() > 1 - certain else None


def continued(run, times):
    """Continue a run of `RescaledFlow` in which every token follows one leader, exactly.

    z_i - z_l obeys dy/dt = -V y as long as l is the leader. From lambda_1 t of about 20 on float64
    no longer tells which token leads, since the leading coordinates agree to all digits; the
    linear equation does not need to know.
    """
    follows, start = final_leaders(run), run.tokens[-1]
    if follows is None:
        raise ValueError(f"run: attention is still divided at t = {run.times[-1]:g}")
    later = [start[follows] + run.flow.propagate(run.times[-1] - t, start - start[follows])
             for t in times]
    return Trajectory(run.flow, np.append(run.times, times), np.concatenate([run.tokens, later]),
                      f"{run.method}, then linear", run.evaluations)


def run_and_continue(V, tokens, until, final, step=0.25):
    """Run the rescaled tokens up to `until`, then continue with fixed leaders up to `final`."""
    times = np.arange(0.0, final + step / 2, step)
    run = run_with(V, tokens, times[times <= until])
    return continued(run, times[times > until])


def level_numbers(run):
    """Summary of a run with a good triple: levels, distances, monotone extremes, verdict."""
    report = statements["hyperplanes"].verify(run)
    values, size = leading_levels(run)
    limit = limit_levels(values[-1])
    nearest = np.abs(values[-1][:, None] - limit).argmin(axis=1)
    final = f"t = {run.times[-1]:g}"
    return {
        "lambda_1": Measured(leading_eigenpair(run.flow.V).value.real, "leading eigenvalue of V", 6,
                             "well-conditioned"),
        "lowest": Measured(values[-1].min(), "smallest level a", 5, SWITCH),
        "highest": Measured(values[-1].max(), "largest level b", 5, SWITCH),
        "occupied": Measured(len(set(nearest)), "levels of {a, 0, b} that tokens approach"),
        "at_zero": Measured(np.count_nonzero(limit[nearest] == 0), "tokens near the level 0"),
        "distance": Measured(report.distances.max(), f"largest distance to a hyperplane at {final}",
                             2, SWITCH),
        "rate": Measured(report.rate, "rate at which it falls", 3,
                         "fit over the second half of the run"),
        "extremes": bounded(max(check.value for check in report.checks), 1e-6 * size,
                            "largest step of max up or of min down", "interpolation of the solver"),
        "hyperplanes_holds": Measured(report.holds, "the statement holds on this run"),
    }


def across(normal, level, half):
    """The part of the line (in the plane) or plane (in space) <normal, z> = level near 0.

    Ends of a segment, shape (2, 2), or corners of a square, shape (4, 3).
    """
    normal = np.asarray(normal, float)
    centre = level * normal / (normal @ normal)
    along = np.linalg.svd(normal[None])[2][1:] * half
    signs = {1: [(-1,), (1,)], 2: [(-1, -1), (-1, 1), (1, 1), (1, -1)]}[len(along)]
    return np.array([centre + np.array(sign) @ along for sign in signs])


def with_hyperplanes(V, n, seed, shown, final):
    """A run, its tokens at the times shown, and the hyperplanes at its final levels."""
    times = np.union1d(np.linspace(0, final, round(10 * final) + 1), shown)
    run = run_with(V, uniform_tokens(n, len(V), seed), times)
    kept = run.tokens[np.searchsorted(times, shown)]
    normal = leading_eigenpair(run.flow.V).left
    walls = np.array([across(normal, level, 1.2 * plots_planes.box(kept))
                      for level in limit_levels(leading_levels(run)[0][-1])])
    return run, {"times": np.array(shown, float), "tokens": kept}, walls


@experiment(
    "hyperplanes-2d", statement="hyperplanes", title="Three parallel lines",
    caption="""{n} tokens in the plane, uniform in [-5, 5]², Q = K = I, V as published (eigenvalues
    {lambda_1} and a negative one). Dashed: the lines φ₁* = a, 0, b. By t = 5 every token is on one
    of the outer two.""",
    alt="""Four panels with three parallel dashed lines. At t = 0 {n} dots fill a square; they drift
    towards the outer two lines and lie on them at t = 5, spread along each.""",
    draw=plots_planes.tokens_and_lines, V=PLANE, n=40, seed=1, shown=(0, 1, 2, 5), final=10.0)
def hyperplanes_plane(V, n, seed, shown, final):
    """The published matrix in the plane."""
    run, arrays, walls = with_hyperplanes(V, n, seed, shown, final)
    return arrays | {"segments": walls}, level_numbers(run)


SPACE_CAPTION = """{n} tokens in space, uniform in [-5, 5]³, Q = K = I, V as published: leading eigenvalue
{lambda_1}, the other two a complex pair with %s real part. The planes φ₁* = a, 0, b; by t = 6
every token is near one of the outer two."""
SPACE_ALT = """Two panels with three parallel translucent planes. At t = 0 the dots fill a cube; at t = 6
they lie on the two outer planes."""


@experiment(
    "hyperplanes-3d-negative", statement="hyperplanes",
    title="Planes in space, the other eigenvalues with negative real part",
    caption=SPACE_CAPTION % "negative", alt=SPACE_ALT, draw=plots_planes.tokens_and_walls,
    V=NEGATIVE, n=40, seed=2, shown=(0, 6), final=12.0)
def hyperplanes_negative(V, n, seed, shown, final):
    """The published matrix in space whose other eigenvalues have negative real part."""
    run, arrays, walls = with_hyperplanes(V, n, seed, shown, final)
    halves = np.full(3, plots_planes.box(arrays["tokens"]))
    return arrays | {"walls": walls, "halves": halves}, level_numbers(run)


@experiment(
    "hyperplanes-3d-positive", statement="hyperplanes",
    title="Planes in space, the other eigenvalues with positive real part",
    caption=SPACE_CAPTION % "positive", alt=SPACE_ALT, draw=plots_planes.tokens_and_walls,
    V=POSITIVE, n=40, seed=3, shown=(0, 6), final=12.0)
def hyperplanes_positive(V, n, seed, shown, final):
    """The published matrix in space whose other eigenvalues have positive real part."""
    return hyperplanes_negative(V, n, seed, shown, final)


@experiment(
    "hyperplanes-levels", statement="hyperplanes", title="The levels settle",
    caption="""φ₁*(z) of each of {n} tokens against time for the three published matrices with a good triple.
    The largest never grows and the smallest never falls; all the others join one of them.""",
    alt="""Three panels of curves that start spread between about -6 and 6 and run together to two
    dashed levels, one above and one below a third dashed line at 0.""",
    draw=plots_planes.levels, n=40, seeds=(1, 2, 3), shown=5.0, final=10.0)
def hyperplanes_levels(n, seeds, shown, final):
    """phi_1*(z_i) against time for the published matrices."""
    times = np.linspace(0, final, round(20 * final) + 1)
    runs = [run_with(V, uniform_tokens(n, len(V), seed), times)
            for V, seed in zip((PLANE, NEGATIVE, POSITIVE), seeds, strict=True)]
    found = [leading_levels(run)[0] for run in runs]
    reports = [statements["hyperplanes"].verify(run) for run in runs]
    numbers = {
        "rate_over_lambda": Measured(
            min(report.rate / leading_eigenpair(run.flow.V).value.real
                for run, report in zip(runs, reports, strict=True)),
            "smallest rate of decay of the distances, over lambda_1", 2, "fit over half the run"),
        "extremes": bounded(max(check.value for report in reports for check in report.checks), 1e-6,
                            "largest step of max up or of min down", "interpolation of the solver"),
        "holding": Measured(sum(report.holds for report in reports),
                            "runs, of three, on which the statement holds"),
    }
    extremes = np.array([[values[-1].min(), 0.0, values[-1].max()] for values in found])
    titles = np.array(["plane", "space, Re λ₂ < 0", "space, Re λ₂ > 0"])
    kept = times <= shown
    return {"times": times[kept], "values": np.stack(found)[:, kept], "limits": extremes,
            "titles": titles}, numbers


def mirrored_tokens(pairs, seed, on_axis):
    """Random tokens, their mirror images in the second axis, and tokens on that axis."""
    half = np.random.default_rng(seed).uniform((-5.0, -3.0), (5.0, 3.0), (pairs, 2))
    return np.concatenate([half, half * (-1.0, 1.0), [(0.0, height) for height in on_axis]])


def middle_run(pairs, seed, on_axis, second, final):
    """V = diag(1, second) on tokens that are symmetric about the second axis."""
    times = np.linspace(0, final, round(10 * final) + 1)
    return run_with(np.diag((1.0, second)), mirrored_tokens(pairs, seed, on_axis), times)


@experiment(
    "hyperplanes-middle", statement="hyperplanes", title="Tokens on the middle line",
    caption="""{tokens} tokens symmetric about the second axis, V = diag(1, {second}), Q = K = I. The levels
    a, 0 and b are all taken: {at_zero} tokens end at the level 0, {attracted} of which did not start
    there.""",
    alt="""Curves of φ₁*(z) against time that settle on three levels, one positive, one negative of the
    same size, and 0.""",
    draw=plots_planes.levels, pairs=16, seed=6, on_axis=(5.0, -5.0, 2.0), second=0.8, final=12.0)
def hyperplanes_middle(pairs, seed, on_axis, second, final):
    """A run in which tokens approach the middle level 0."""
    run = middle_run(pairs, seed, on_axis, second, final)
    values = leading_levels(run)[0]
    ending = np.abs(values[-1]) < 0.02
    numbers = level_numbers(run) | {
        "tokens": Measured(run.tokens.shape[1], "tokens"),
        "attracted": Measured(np.count_nonzero(ending & (values[0] != 0)),
                              "tokens that start off the level 0 and end near it")}
    return {"times": run.times, "values": values[None], "titles": np.array(["V = diag(1, 0.8)"]),
            "limits": np.array([[values[-1].min(), 0.0, values[-1].max()]])}, numbers


def codimension_numbers(run):
    """How well at most three affine subspaces fit the end of a run."""
    report = statements["codimension"].verify(run)
    final = f"t = {run.times[-1]:g}"
    return {
        "k": Measured(growing_coordinates(run).shape[-1],
                      "eigenvalues of V with positive real part, k"),
        "subspaces": Measured(len(report.limit), "affine subspaces used, at most three"),
        "distance": Measured(report.distances.max(),
                             f"largest distance of a token to the nearest of them at {final}", 2,
                             SWITCH),
        "codimension_holds": Measured(report.holds, "all tokens are near at most three of them"),
    }


@experiment(
    "codimension-3d", statement="codimension", title="Two lines in space",
    caption="""{n} tokens in space, Q = K = I, V symmetric as published, with {k} positive eigenvalues:
    subspaces of codimension {k} are lines. The tokens first come to two planes, as in a good triple,
    and within these, at the pace of the smaller positive eigenvalue {slow}, to one line each
    (red, through the squares).""",
    alt="""Four panels. At t = 0 dots fill a cube; they gather in two thin parallel
    sheets, which by t = 5 shrink towards the line drawn in each.""",
    draw=plots_planes.tokens_and_walls, V=SYMMETRIC, n=40, seed=5, shown=(0, 1, 3, 5),
    until=8.0, final=40.0)
def codimension_space(V, n, seed, shown, until, final):
    """The published symmetric matrix with two positive eigenvalues."""
    run = run_and_continue(V, uniform_tokens(n, 3, seed), until, final)
    kept = run.tokens[np.searchsorted(run.times, shown)]
    normals, _ = left_invariant(run.flow.V, lambda a, b: a > 0)
    leaders = run.tokens[-1][np.unique(final_leaders(run))]
    points = leaders @ normals.T @ normals
    along = np.linalg.svd(normals)[2][-1] * plots_planes.box(kept)
    numbers = codimension_numbers(run) | {
        "slow": Measured(np.linalg.eigvalsh(run.flow.V)[1], "smaller positive eigenvalue", 5,
                         "well-conditioned"),
        "rate": Measured(statements["codimension"].verify(run).rate,
                         "rate at which the distance falls", 3, "fit over half the run"),
        "leaders": Measured(len(leaders), "tokens that the others follow")}
    arrays = {"times": np.array(shown, float), "tokens": kept,
              "segments": np.stack([points - along, points + along], axis=1), "marks": points,
              "halves": np.full(3, plots_planes.box(kept))}
    return arrays, numbers


@experiment(
    "codimension-across", statement="codimension", title="The same tokens, seen along the lines",
    caption="""The {n} tokens of the previous figure in the two coordinates across the stable direction of
    V, in which lines of codimension 2 are points. They reach two of them (squares).""",
    alt="""Four panels. At t = 0 dots fill a region of the plane; at t = 4 they form two stripes, which
    shrink until at t = 20 all dots are at two points marked by squares.""",
    draw=plots_planes.tokens_and_lines, V=SYMMETRIC, n=40, seed=5, shown=(0, 4, 8, 20), until=8.0,
    final=40.0)
def codimension_across(V, n, seed, shown, until, final):
    """Coordinates of the tokens across the stable direction."""
    run = run_and_continue(V, uniform_tokens(n, 3, seed), until, final)
    y = growing_coordinates(run)
    arrays = {"times": np.array(shown, float), "tokens": y[np.searchsorted(run.times, shown)],
              "marks": y[-1][np.unique(final_leaders(run))]}
    return arrays, codimension_numbers(run)


@experiment(
    "codimension-identity", statement="codimension", title="Identity and rotation: more than three",
    caption="""Largest distance of a token to the nearest of at most three subspaces of codimension k = 2.
    With the published symmetric V it falls to 0. In the plane the subspaces are points, and {n}
    tokens come to {vertices} of them with V = I, and to {leaders} with V = I + J, J the rotation by a
    right angle, although its eigenvalues 1 ± i are distinct: the distances stay.""",
    alt="""Three curves on a logarithmic axis: one falls along a straight line, the other two level off
    near {identity_distance} and {rotation_distance}.""",
    draw=partial(plots_planes.decays, ylabel="distance to the nearest subspace"),
    n=40, seeds=(5, 3), until=8.0, final=30.0)
def codimension_identity(n, seeds, until, final):
    """Distances to the best three subspaces: a symmetric matrix, the identity, a rotation."""
    generic = run_and_continue(SYMMETRIC, uniform_tokens(n, 3, seeds[0]), until, final)
    times, tokens = generic.times, uniform_tokens(n, 2, seeds[1])
    identity, rotation = (run_with(V, tokens, times) for V in (np.eye(2), ((1, -1), (1, 1))))
    runs, codimension = (generic, identity, rotation), statements["codimension"]
    reports = [codimension.verify(run) for run in runs]
    histories = [codimension.measure(run, 0.02).distances.max(axis=1) for run in runs]
    fits = [bool(report.distances.max() <= report.tolerance) for report in reports]
    numbers = {
        "generic_fits": Measured(fits[0], "published V: at most three subspaces fit"),
        "identity_fits": Measured(fits[1], "V = I: at most three points fit"),
        "rotation_fits": Measured(fits[2], "V = I + J: at most three points fit"),
        "rotation_applies": Measured(reports[2].applies, "V = I + J: eigenvalues are distinct"),
        "identity_distance": Measured(histories[1][-1], "V = I: distance that remains", 3, SWITCH),
        "rotation_distance": Measured(histories[2][-1], "V = I + J: distance that remains", 3,
                                      SWITCH),
        "vertices": Measured(len(statements["leaders"].verify(identity).limit),
                             "V = I: vertices of K* (and 0, if a token is there)"),
        "leaders": Measured(len(np.unique(final_leaders(rotation))), "V = I + J: leaders"),
    }
    return {"times": times, "distances": np.stack(histories),
            "titles": np.array(["published symmetric V", "V = I", "V = I + J"])}, numbers


@experiment(
    "codimension-four", statement="codimension", title="Four points from symmetric tokens",
    caption="""The run with symmetric tokens again, V = diag(1, {second}): distinct eigenvalues, {k} of them
    positive, so that subspaces of codimension {k} are points. Two leaders lie on the second axis
    and two off it: {points} points, not three. A null set of initial data, then, must be excepted
    too.""",
    alt="""Two panels. At t = 0 dots symmetric about the vertical axis; at the end they sit at four
    points, a left and a right one and two on the axis, marked by squares.""",
    draw=plots_planes.tokens_and_lines, pairs=16, seed=6, on_axis=(5.0, -5.0, 2.0), second=0.8,
    final=12.0)
def codimension_four(pairs, seed, on_axis, second, final):
    """Distinct eigenvalues, and still four limit points."""
    run = middle_run(pairs, seed, on_axis, second, final)
    leaders = run.tokens[-1][np.unique(final_leaders(run))]
    gap = np.linalg.norm(run.tokens[-1][:, None] - leaders, axis=2).min(axis=1).max()
    numbers = codimension_numbers(run) | {
        "points": Measured(len(leaders), "points that tokens approach"),
        "gap": Measured(gap, f"largest distance of a token to one of them at t = {final:g}", 2,
                        SWITCH)}
    ends = (0, len(run.times) - 1)
    return {"times": run.times[list(ends)], "tokens": run.tokens[list(ends)], "marks": leaders}, numbers


OUTCOMES = ("within 0.02 of at most three", "slow, at most three leaders",
            "slow, leaders by majority", "none of these")


def random_value_matrix(rng, ensemble, d):
    """A random V of the ensemble, scaled so that its largest real part is 1.

    Leading eigenvalues below a fifth of the largest modulus are drawn again: their growth is too
    slow to follow.
    """
    while True:
        V = rng.uniform(size=(d, d)) if ensemble == "symmetric" else rng.normal(size=(d, d))
        V = (V + V.T) / 2 if ensemble == "symmetric" else V
        values = np.linalg.eigvals(V)
        leading = values[values.real.argmax()]
        wanted = (leading.imag != 0) == (ensemble == "complex")
        if wanted and leading.real > 0.2 * np.abs(values).max():
            return V / leading.real


def codimension_draw(seed, ensemble, d, n, longest, rtol):
    """Outcome of one random V, as an index into OUTCOMES; tokens uniform in [-5, 5]^d."""
    rng = np.random.default_rng(seed)
    V, tokens = random_value_matrix(rng, ensemble, d), rng.uniform(-5, 5, (n, d))
    growth = np.linalg.eigvals(V).real
    final = min(8 / growth[growth > 0].min(), longest)
    run = eigenbasis_run(V, tokens, np.linspace(0, final, 5), rtol=rtol, atol=rtol / 1e3)
    if statements["codimension"].verify(run).distances.max() <= 0.02 * np.abs(tokens).max():
        return 0
    for outcome, certain in ((1, 1e-6), (2, 0.5)):
        leaders = final_leaders(run, certain)
        if leaders is not None and len(np.unique(leaders)) <= 3:
            return outcome
    return 3


@experiment(
    "codimension-draws", statement="codimension", title="Random value matrices",
    caption="""Outcome of {total} runs, each with another random V ({d} by {d}, distinct eigenvalues,
    Q = K = I) and {n} random tokens, followed up to Re λ₁ t = {longest}. By then tokens have come
    near at most three subspaces in {near} draws; in {slow} more each follows one of at most three
    leaders, but slowly. In the remaining {exceptions} two candidates for leader still share the
    attention. Not more than three are needed in {sufficient} draws, a share of at least {at_least}
    (95 % interval).""",
    alt="""Horizontal bars of counts for four outcomes and three kinds of matrices: nearly all draws
    are near at most three subspaces, or slow on the way to two leaders.""",
    draw=plots_planes.fates, d=3, n=12, draws=(140, 60, 3), longest=10.0, seed=9)
def codimension_draws(d, n, draws, longest, seed):
    """How often at most three subspaces of codimension k suffice for random V."""
    ensembles = ("symmetric", "gaussian", "complex")
    grid = [[dict(seed=(seed, kind, number), ensemble=name, d=d, n=n, longest=longest,
                  # A rotating leading pair changes leaders for ever, at many solver steps each time.
                  rtol=1e-4 if name == "complex" else 1e-6) for number in range(count)]
            for kind, (name, count) in enumerate(zip(ensembles, draws, strict=True))]
    found = [sweep(codimension_draw, points, progress=False) for points in grid]
    table = np.array([[outcomes.count(index) for index in range(len(OUTCOMES))]
                      for outcomes in found])
    total, counts = int(table.sum()), [int(count) for count in table.sum(axis=0)]
    sufficient = counts[0] + counts[1]
    interval = binomtest(sufficient, total).proportion_ci(0.95, "exact")
    numbers = {"total": Measured(total, "draws"),
               "near": Measured(counts[0], "draws near at most three subspaces at the end"),
               "slow": Measured(counts[1], "draws still on the way to at most three leaders"),
               "sufficient": Measured(sufficient, "draws in which at most three suffice"),
               "at_least": Measured(interval.low, "lower end of the 95 % interval for their share",
                                    2, "exact"),
               "exceptions": Measured(counts[2], "draws in which two leaders nearly tie at the end"),
               "more": Measured(counts[3], "draws that need more than three"),
               "complex": Measured(int(table[2].sum()), "draws with a complex leading pair")}
    return {"values": np.array(OUTCOMES), "frequencies": table,
            "labels": np.array(["symmetric, entries in [0, 1]", "Gaussian, leading eigenvalue real",
                                "Gaussian, leading pair complex"])}, numbers
