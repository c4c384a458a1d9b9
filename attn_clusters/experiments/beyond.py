"""Figures of the chapter beyond the theorems: what the first paper shows without a proof."""

from functools import partial

import numpy as np

from .. import plots, plots_beyond, spectrum
from ..flows import FeedForwardFlow, MultiHeadFlow, RescaledFlow
from ..simulate import simulate
from ..statements import statements
from ..statements.beyond import cluster_labels, feedforward_drive, log_split
from ..statements.clusters import hull_growth
from .core import experiment
from .numbers import Measured, bounded
from .polytope import uniform_tokens

IDENTITY = np.eye(2)
PUBLISHED = ((0.64709742, 0.81911926), (0.61210449, 0.63263484))
SOLVER = "errors of the solver, run at relative tolerance 1e-12"
LAYERS = "explicit layers; tokens that switch leaders amplify rounding"


def count_clusters(tokens, tolerance=0.02):
    """Number of groups of tokens with gaps above `tolerance` times the largest token."""
    return int(cluster_labels(tokens, tolerance * np.linalg.norm(tokens, axis=1).max()).max()) + 1


# --- two tokens ----------------------------------------------------------------------------------

def pair(e, middle=1.0):
    """The two tokens (1, e) and (1, -e), or (0, e) and (0, -e) for another middle.

    Both pairs have the same P, since their common part adds the same to all scores of a row; but
    it grows like e^{2t}, and in float64 swallows their difference.
    """
    return np.array([[middle, e], [middle, -e]])


def pair_limit(e, middle, rtol, atol):
    """Second coordinate of the first rescaled token when all is over."""
    flow = RescaledFlow(IDENTITY, IDENTITY, IDENTITY)
    times = [0.0, 2.5 + 1 / (2 * e**2)]
    run = simulate(flow, pair(e, middle), times, rtol=rtol, atol=atol)
    return abs(run.tokens[-1, 0, 1])


@experiment(
    "two_tokens-limit", statement="two_tokens", title="Two tokens end as two clusters",
    caption="""Q = K = V = I, tokens (1, e) and (1, -e). Left: the rescaled tokens end at (1, c) and
    (1, -c), with c(e) > 0 for every e, though tiny for small e: at e = {smallest}, c = {c_smallest}.
    Right: relative error of two simulations. With the tokens' common part left out, which P does not
    see, it is {error_apart} for e from {resolved} on. With scores as they stand, float64 loses the
    difference of two numbers of size exp(2t), and at e = {smallest} sees one cluster where there
    are two.""",
    alt="""Left: c against e on a logarithmic axis, from 1e-9 to 1, points on a curve. Right: errors;
    circles below the dotted line at 1e-10 except for the smallest e, squares that rise to 1 as e falls
    below 0.2.""",
    draw=plots_beyond.two_tokens, smallest=0.16, resolved=0.2, largest=1.2, points=20)
def two_tokens_limit(smallest, resolved, largest, points):
    """The closed form against the full flow, with and without the tokens' common part."""
    e = np.geomspace(smallest, largest, points)
    exact = np.exp([log_split(value) for value in e])
    leading = np.sqrt(np.pi) * np.exp(-np.euler_gamma / 2 - 1 / (2 * e**2))
    apart = np.array([pair_limit(value, 0.0, 1e-12, 1e-20) for value in e])
    # Noise in the scores brings a solver at 1e-12 to a halt; without it, it may run at that.
    plain = np.array([pair_limit(value, 1.0, *((1e-12, 1e-14) if value > 0.4 else (1e-9, 1e-12)))
                      for value in e])
    errors = [np.abs(found / exact - 1) for found in (plain, apart)]
    numbers = {
        "c_smallest": Measured(exact[0], f"c at e = {smallest:g}", 8, "closed form, by quadrature"),
        "c_half": Measured(np.exp(log_split(0.5)), "c at e = 0.5", 10, "closed form"),
        "error_apart": bounded(errors[1][e >= resolved].max(), 1e-10, "relative error, common "
                               f"part left out, e at least {resolved:g}", SOLVER),
        "error_wide": bounded(errors[0][e >= 0.4].max(), 1e-10, "relative error, scores as they "
                              "stand, e at least 0.4", SOLVER),
        "lost": Measured(bool(errors[0][0] > 0.5), "scores as they stand lose c at the smallest e"),
    }
    arrays = {"distances": e, "exact": exact, "leading": leading, "simulated": apart,
              "error_plain": errors[0], "error_apart": errors[1]}
    return arrays, numbers


@experiment(
    "two_tokens-time", statement="two_tokens", title="First together, then apart",
    caption="""The half distance of the two rescaled tokens falls like exp(-t) while they attend to both
    alike (right: P near 1/2), and comes to rest at c(e) (dotted) when P turns to the identity, at t of
    about 1/(2 e²). Before that the picture is one of a single cluster; afterwards there are two, and
    nothing moves any more.""",
    alt="""Left: {count} curves fall exponentially and level off at their own dotted line, later and lower
    for smaller e. Right: attention to oneself rises from near one half to 1, later for smaller e.""",
    draw=plots_beyond.splitting, starts=(1.0, 0.5, 0.3, 0.2), final=16.0)
def two_tokens_time(starts, final):
    """Half distance and attention against time."""
    times, reports = np.linspace(0, final, 321), []
    flow = RescaledFlow(IDENTITY, IDENTITY, IDENTITY)
    halves = np.empty((len(starts), len(times)))
    for number, e in enumerate(starts):
        run = simulate(flow, pair(e, 0.0), times, rtol=1e-12, atol=1e-20)
        halves[number] = np.abs(run.tokens[:, 0, 1])
    for e in starts[:2]:
        run = simulate(flow, pair(e), [0.0, 8.0], rtol=1e-12, atol=1e-14)
        reports.append(statements["two_tokens"].verify(run, tolerance=1e-10))
    limits = np.exp([log_split(e) for e in starts])
    attention = 1 / (1 + np.exp(-np.minimum(2 * (halves * np.exp(times)) ** 2, 700.0)))
    numbers = {
        "count": Measured(len(starts), "starts"),
        "gap": bounded(np.abs(halves[:, -1] / limits - 1).max(), 1e-10,
                       "largest relative distance to c(e) at the last time", SOLVER),
        "identity": bounded(1 - attention[:, -1].min(), 1e-12, "1 - P of a token to itself, at the "
                            "last time", "exp(-2 e(t)²), far below rounding"),
        "holds": Measured(all(report.holds for report in reports),
                          "the statement holds to 1e-10 for the first two"),
    }
    labels = np.array([f"e = {e:g}" for e in starts])
    return {"times": times, "halves": halves, "limits": limits, "attention": attention,
            "labels": labels}, numbers


# --- scores that are not positive definite -------------------------------------------------------

def cluster_run(B, V, tokens, times, **options):
    """Rescaled tokens with Q = I, K = B."""
    return simulate(RescaledFlow(IDENTITY, np.array(B), np.array(V)), tokens, times, **options)


INDEFINITE = (((1.0, 0.0), (0.0, 1.0)), ((1.0, 0.0), (0.0, -1.0)), ((-1.0, 0.0), (0.0, -1.0)),
              ((0.6, 1.5), (-0.3, -0.4)))


@experiment(
    "indefinite-plane", statement="indefinite", title="Clusters without positive definite scores",
    caption="""{n} tokens, V = I, four matrices Q^T K up to t = {final}. Top left the identity, for
    comparison ({clusters_0} clusters). With signs (1, -1) tokens that point along the negative direction
    attend to the other side and leave: {clusters_1} clusters remain; with -I all of them follow each other
    into {clusters_2}; an unsymmetric matrix, whose symmetric part has both signs, leaves
    {clusters_3}. The hull shrinks in all four, as for every attention matrix if V = I.""",
    alt="""Four panels of curves in the plane from scattered circles to a few squares: {clusters_0} at the
    corners of a polygon, {clusters_1} at the ends of a line, {clusters_2} near the centre, and
    {clusters_3}.""",
    draw=plots_beyond.paths, n=40, matrices=INDEFINITE, seed=41, final=15.0)
def indefinite_plane(n, matrices, seed, final):
    """Paths for four score matrices."""
    times, tokens = np.linspace(0, final, 151), uniform_tokens(n, 2, seed)
    runs = [cluster_run(B, IDENTITY, tokens, times) for B in matrices]
    reports = [statements["indefinite"].verify(run) for run in runs]
    numbers = {f"clusters_{k}": Measured(len(report.limit), f"clusters, matrix {k}")
               for k, report in enumerate(reports)}
    numbers |= {f"holds_{k}": Measured(report.holds, f"the statement holds, matrix {k}")
                for k, report in enumerate(reports) if k}
    growth = max(hull_growth(run.tokens[::10]) for run in runs)
    numbers["growth"] = bounded(growth, 1e-4, "largest step outside the earlier hull",
                                "interpolation of the solver at fast switches")
    paths = np.array([run.tokens for run in runs])
    titles = np.array(["Q^T K = I", "signs (1, -1)", "Q^T K = -I", "not symmetric"])
    return {"tokens": paths, "ends": paths[:, -1], "titles": titles}, numbers


def random_scores(rng, definite):
    """A random score matrix: G with normal entries, or G^T G."""
    G = rng.standard_normal((2, 2))
    return G.T @ G if definite else G


@experiment(
    "indefinite-count", statement="indefinite", title="How many clusters random scores leave",
    caption="""Number of clusters of {n} tokens at t = {final} for {draws} random positive definite score
    matrices G^T G and for the {indefinite} of {draws} random matrices G (normal entries) that are not
    positive semidefinite. Mean {mean_definite} and {mean_indefinite}: without positive
    definiteness tokens still gather, at fewer places.""",
    alt="""Bars of two colours over the number of clusters. Indefinite scores: mostly one to three; positive
    definite ones: mostly two to five.""",
    draw=partial(plots.counts, labels=["positive definite", "not semidefinite"],
                 xlabel="clusters", ylabel="matrices"),
    n=20, draws=60, seed=43, final=15.0)
def indefinite_count(n, draws, seed, final):
    """Clusters over many random score matrices."""
    rng, found = np.random.default_rng(seed), {True: [], False: []}
    for _ in range(draws):
        tokens = rng.uniform(-5, 5, (n, 2))
        for definite, numbers in found.items():
            B = random_scores(rng, definite)
            if definite or spectrum.smallest_eigenvalue(B) < 0:
                run = cluster_run(B, IDENTITY, tokens, [0.0, final], rtol=1e-6, atol=1e-8)
                numbers.append(count_clusters(run.tokens[-1]))
    values = np.arange(1, max(max(row) for row in found.values()) + 1)
    frequencies = np.array([[row.count(k) for k in values] for row in found.values()])
    numbers = {
        "indefinite": Measured(len(found[False]), "matrices that are not positive semidefinite"),
        "mean_definite": Measured(np.mean(found[True]), "mean number of clusters, definite", 3,
                                  "a token at a divide may choose either side"),
        "mean_indefinite": Measured(np.mean(found[False]), "mean number of clusters, indefinite", 3,
                                    "a token at a divide may choose either side"),
        "most": Measured(int(values[-1]), "most clusters"),
    }
    return {"values": values, "frequencies": frequencies}, numbers


# --- complex leading pair ------------------------------------------------------------------------

PAIRS = (((1.0, -0.5), (0.5, 1.0)), ((1.0, -2.0), (0.5, 1.0)), ((0.0, -1.0), (1.0, 0.0)),
         ((-0.5, -0.5), (0.5, -0.5)))


@experiment(
    "random_v-plane", statement="random_v", title="Complex pairs: the real part decides",
    caption="""{n} rescaled tokens under four V with a complex pair of eigenvalues, Q = K = I, layers of
    step {step} up to t = {final}. Real part 1, V normal: {clusters_0} clusters; real part 1, V
    not normal: {clusters_1}; real part 0: {clusters_2} groups, still on their way; real part -1/2:
    {clusters_3}, no clustering. Each panel has its own scale.""",
    alt="""Four panels of curves in the plane. In the upper two scattered circles end at {clusters_0} and
    at {clusters_1} squares; in the lower two the squares stay spread out.""",
    draw=plots_beyond.paths, n=30, matrices=PAIRS, seed=47, final=12.0, step=0.02)
def random_v_plane(n, matrices, seed, final, step):
    """Paths for four value matrices with complex eigenvalues."""
    times, tokens = np.linspace(0, final, 121), uniform_tokens(n, 2, seed)
    runs = [cluster_run(IDENTITY, V, tokens, times, method="Euler", step=step) for V in matrices]
    reports = [statements["random_v"].verify(run) for run in runs]
    fine = [cluster_run(IDENTITY, V, tokens, times, method="Euler", step=step / 2)
            for V in matrices[:2]]
    numbers = {f"clusters_{k}": Measured(len(report.limit), f"clusters, matrix {k}")
               for k, report in enumerate(reports)}
    numbers |= {f"holds_{k}": Measured(report.holds, f"tokens cluster, matrix {k}")
                for k, report in enumerate(reports)}
    numbers |= {f"fine_{k}": Measured(count_clusters(run.tokens[-1]),
                                      f"clusters at half the step, matrix {k}")
                for k, run in enumerate(fine)}
    paths = np.array([run.tokens for run in runs])
    titles = np.array(["1 + i/2, normal", "1 + i, not normal", "i, normal", "(-1 + i)/2, normal"])
    return {"tokens": paths, "ends": paths[:, -1], "titles": titles}, numbers


def complex_values(rng):
    """A random 2 x 2 matrix (normal entries) with a complex pair, scaled to modulus 1."""
    while True:
        V = rng.standard_normal((2, 2))
        value = spectrum.leading_eigenpair(V).value
        if abs(value.imag) > 1e-3 * abs(value):
            return V / abs(value), value.real / abs(value)


@experiment(
    "random_v-count", statement="random_v", title="Clusters against the real part of the pair",
    caption="""Groups among {n} rescaled tokens for {draws} random 2 x 2 matrices V whose eigenvalues are
    a complex pair of modulus 1, Q = K = I, against their real part: at t = {early}, a time
    at which the paper's figures stop, and at t = {late}. With real part above 1/2 the mean falls
    from {mean_early} to {mean_late}, in {share} of {positive} draws to at most n/2; below -1/2 it
    stays at {mean_negative} of {n}.""",
    alt="""Number of groups against the real part from -1 to 1. Left of 0 all lie near {n} at both times.
    Right of 0 the late points are far lower than the early ones, many at two to five.""",
    draw=partial(plots_beyond.scatter, xlabel="real part of the pair", ylabel="groups of tokens"),
    n=20, draws=80, seed=53, early=5.0, late=20.0, step=0.1)
def random_v_count(n, draws, seed, early, late, step):
    """Clusters over many random V with a complex pair."""
    rng, real, groups = np.random.default_rng(seed), np.empty(draws), np.empty((2, draws))
    for draw in range(draws):
        V, real[draw] = complex_values(rng)
        run = cluster_run(IDENTITY, V, rng.uniform(-5, 5, (n, 2)), [0.0, early, late],
                          method="Euler", step=step)
        groups[:, draw] = [count_clusters(tokens) for tokens in run.tokens[1:]]
    up, down = real > 0.5, real < -0.5
    numbers = {
        "positive": Measured(int(up.sum()), "draws with real part above 1/2"),
        "mean_early": Measured(groups[0, up].mean(), f"their mean number of groups at t = {early:g}",
                               2, LAYERS),
        "mean_late": Measured(groups[1, up].mean(), f"the same at t = {late:g}", 2, LAYERS),
        "share": Measured(int((groups[1, up] <= n / 2).sum()), "of them with at most n/2 groups"),
        "mean_negative": Measured(groups[1, down].mean(), "mean number of groups for real part "
                                  f"below -1/2, t = {late:g}", 2, LAYERS),
    }
    labels = np.array([f"t = {early:g}", f"t = {late:g}"])
    return {"x": real, "values": groups, "labels": labels}, numbers


# --- feed-forward --------------------------------------------------------------------------------

FOUR = (("relu", False), ("tanh", False), ("relu", True), ("tanh", True))


def feedforward_runs(n, V, W, seed, times, step):
    """The paper's four: ReLU and tanh, W = I and the given W."""
    tokens = uniform_tokens(n, 2, seed)
    flows = [FeedForwardFlow(IDENTITY, IDENTITY, V, W if random else IDENTITY, activation)
             for activation, random in FOUR]
    return [simulate(flow, tokens, times, method="Euler", step=step) for flow in flows]


def feedforward_titles():
    """Titles of the four panels."""
    return np.array([f"{'ReLU' if name == 'relu' else name}, {'another W' if random else 'W = I'}"
                     for name, random in FOUR])


def leading_left(V):
    """phi_1* of a V with a real leading eigenvalue."""
    return np.real(spectrum.leading_eigenpair(np.array(V)).left)


@experiment(
    "feedforward-plane", statement="feedforward", title="Four feed-forward layers",
    caption="""{n} rescaled tokens in the plane, Q = K = I and the published V, with a feed-forward layer
    behind attention, up to t = {final} (layers of step {step}). Dashed: the lines phi_1* = min, 0, max.
    tanh with W = I ends on two of them. ReLU with W = I: one side moves to the farthest line, the
    other stands still. Random W: see below for what decides.""",
    alt="""Four panels in the plane with three parallel dashed lines each. tanh and W = I: all squares on
    the outer two lines. ReLU and W = I: half of the squares on one line, half where they began. Random
    W: squares near the middle line or where they began.""",
    draw=plots_beyond.paths, n=30, V=PUBLISHED, W=((-0.6, 0.4), (0.3, -0.9)), seed=59, final=10.0,
    step=0.02)
def feedforward_plane(n, V, W, seed, final, step):
    """The four activations in the plane."""
    times = np.linspace(0, final, 101)
    runs = feedforward_runs(n, np.array(V), np.array(W), seed, times, step)
    coarse = feedforward_runs(n, np.array(V), np.array(W), seed, times[[0, -1]], 0.1)
    paths, left = np.array([run.tokens for run in runs]), leading_left(V)
    reports = [statements["feedforward"].verify(run) for run in runs]
    names = ("relu_I", "tanh_I", "relu_W", "tanh_W")
    numbers = {f"holds_{name}": Measured(report.holds, f"at most three lines: {title}")
               for name, report, title in zip(names, reports, feedforward_titles(), strict=True)}
    sizes = np.linalg.norm(paths, axis=-1).mean(axis=-1)
    numbers |= {f"size_{name}": Measured(size[-1] / size[0], f"mean |z| at the end over that at "
                                         f"t = 0: {title}", 2, LAYERS)
                for name, size, title in zip(names, sizes, feedforward_titles(), strict=True)}
    gap = max(np.median(np.linalg.norm(a.tokens[-1] - b.tokens[-1], axis=1))
              for a, b in zip(runs, coarse, strict=True))
    numbers["step_error"] = Measured(gap, "median change of a token between this step and the "
                                     "paper's 0.1, largest of four", 2, LAYERS)
    return {"tokens": paths, "ends": paths[:, -1], "titles": feedforward_titles(),
            "normals": np.tile(left, (4, 1))}, numbers


@experiment(
    "feedforward-levels", statement="feedforward", title="Which side moves, and where to",
    caption="""phi_1* of the same tokens against time; solid: those that start above 0. A late token
    on the upper side is driven by phi_1*(W sigma(lambda_1 s phi_1)) with s > 0 its gap to the
    farthest one, below by the same with s < 0. With W = I that is {relu_I_up} above and {relu_I_down}
    below for ReLU, {tanh_I_up} and {tanh_I_down} for tanh (at |s| = 1); with this W it is
    {relu_W_up}, {relu_W_down} and {tanh_W_up}, {tanh_W_down}. Positive: they catch up. Zero: they
    stand still. Negative: they go back to phi_1* = 0.""",
    alt="""Four panels of levels against time. W = I: solid lines join at the top; dashed lines join at the
    bottom for tanh and stay level for ReLU. Random W: solid lines fall towards 0; dashed lines rise
    towards 0 for tanh and stay level for ReLU.""",
    draw=partial(plots_beyond.levels, ylabel="phi_1*(z)"), n=30, V=PUBLISHED,
    W=((-0.6, 0.4), (0.3, -0.9)), seed=59, final=10.0, step=0.02)
def feedforward_levels(n, V, W, seed, final, step):
    """Levels of phi_1* against time, and the drive that predicts them."""
    times = np.linspace(0, final, 101)
    runs = feedforward_runs(n, np.array(V), np.array(W), seed, times, step)
    values, numbers = np.array([run.tokens @ leading_left(V) for run in runs]), {}
    names = ("relu_I", "tanh_I", "relu_W", "tanh_W")
    for name, run, title in zip(names, runs, feedforward_titles(), strict=True):
        for side, drive in zip(("up", "down"), feedforward_drive(run.flow), strict=True):
            numbers[f"{name}_{side}"] = Measured(
                drive, f"drive of the {'upper' if side == 'up' else 'lower'} side: {title}", 3,
                "an eigenvector") if abs(drive) > 1e-12 else Measured(
                0, f"drive of the {'upper' if side == 'up' else 'lower'} side: {title}")
    fine = simulate(runs[0].flow, runs[0].tokens[0], [0.0, final], method="Euler", step=step / 2)
    tops = values[0, 0].max(), values[0, -1].max(), (fine.tokens[-1] @ leading_left(V)).max()
    numbers["climb"] = Measured(tops[1] / tops[0], "largest level, end over start: ReLU, W = I", 2,
                                LAYERS)
    numbers["climb_fine"] = Measured(tops[2] / tops[0], "the same at half the step", 2, LAYERS)
    return {"times": times, "values": values, "titles": feedforward_titles()}, numbers


def upper_outcome(flow, tokens, times, step):
    """Median level of the tokens that start on the upper side, relative to the largest level."""
    left = leading_left(flow.V)
    run = simulate(flow, tokens, times, method="Euler", step=step)
    upper = tokens @ left > 0
    levels = run.tokens[-1] @ left
    return np.median(levels[upper]) / levels.max()


@experiment(
    "feedforward-count", statement="feedforward", title="The sign of one number decides",
    caption="""For {draws} random W (normal entries) and both activations: the drive of the upper side
    (as ReLU sees it) against the median level of the tokens that start there, relative to the largest level,
    at t = {final}. Where the drive is negative the median is {median_negative} (back towards phi_1* = 0: the
    collapse of the paper's draws), where it is positive {median_positive} (one line). The sign
    predicts on which side of 1/2 the level lies in {agreement} of {cases} cases.""",
    alt="""Points on a plane: for negative drive they lie near 0, for positive drive near 1, with a steep
    rise at drive 0.""",
    draw=partial(plots_beyond.scatter, xlabel="drive of the upper side",
                 ylabel="median level / largest level", labels=["ReLU", "tanh"]),
    n=20, draws=60, V=PUBLISHED, seed=61, final=8.0, step=0.05)
def feedforward_count(n, draws, V, seed, final, step):
    """Predicted and observed fate of the upper side over many W."""
    rng, x, values = np.random.default_rng(seed), np.empty(draws), np.empty((2, draws))
    for draw in range(draws):
        W, tokens = rng.standard_normal((2, 2)), rng.uniform(-5, 5, (n, 2))
        flows = [FeedForwardFlow(IDENTITY, IDENTITY, V, W, name) for name in ("relu", "tanh")]
        x[draw] = feedforward_drive(flows[0])[0]
        values[:, draw] = [upper_outcome(flow, tokens, [0.0, final], step) for flow in flows]
    right = (values > 0.5) == (x > 0)
    numbers = {
        "cases": Measured(int(values.size), "cases"),
        "agreement": Measured(int(right.sum()), "cases in which the sign predicts the side"),
        "median_negative": bounded(abs(np.median(values[:, x < 0])), 0.02, "median relative level "
                                   "for negative drive, absolute value", LAYERS),
        "median_positive": Measured(np.median(values[:, x > 0]), "median relative level for "
                                    "positive drive", 2, LAYERS),
    }
    return {"x": x, "values": values}, numbers


# --- several heads -------------------------------------------------------------------------------

def random_heads(rng, heads):
    """Q_h, K_h with normal entries, V_h with normal entries over sqrt(heads)."""
    Qs, Ks, Vs = rng.standard_normal((3, heads, 2, 2))
    return MultiHeadFlow(Qs, Ks, Vs / np.sqrt(heads))


def relative(tokens):
    """Tokens over the largest of them, at each time."""
    return tokens / np.linalg.norm(tokens, axis=-1).max(axis=-1)[..., None, None]


@experiment(
    "multihead-plane", statement="multihead", title="Two heads, discrete and continuous",
    caption="""{n} tokens with two random heads (K_h = Q_h), relative to the largest token, from t = 0 to
    {final}. Left: layers of step {step}, as in the paper; right: the continuous limit. Both end in
    {clusters_layers} and {clusters_flow} clusters. Their places differ by {gap} of the largest token,
    the discretisation error of the step. For the summed values V_1 + V_2 the levels phi_1* of
    the clusters, relative to the largest, are 1, {middle} and {lowest}: the middle one is not 0, as
    it would be for a single head. Its tokens follow one leader with one head and the other
    leader with the other head.""",
    alt="""Two panels of curves from scattered circles to {clusters_layers} and {clusters_flow}
    squares, nearly at the same places.""",
    draw=plots_beyond.paths, n=40, seed=1, final=8.0, step=0.1)
def multihead_plane(n, seed, final, step):
    """Discrete and continuous multi-head attention."""
    rng = np.random.default_rng(seed)
    tokens, Qs, Vs = rng.uniform(-5, 5, (n, 2)), *rng.standard_normal((2, 2, 2, 2))
    flow = MultiHeadFlow(Qs, Qs, Vs / np.sqrt(2))
    leading = spectrum.leading_eigenpair(flow.total)
    times = np.linspace(0, final, 81)
    runs = [simulate(flow, tokens, times, method="Euler", step=step),
            simulate(flow, tokens, times, method="LSODA", rtol=1e-8, atol=1e-8)]
    reports = [statements["multihead"].verify(run) for run in runs]
    paths = np.array([relative(run.tokens) for run in runs])
    levels = reports[1].limit @ np.real(leading.left)
    levels = levels / levels[np.argmax(np.abs(levels))]
    numbers = {
        "clusters_layers": Measured(len(reports[0].limit), "clusters, layers"),
        "clusters_flow": Measured(len(reports[1].limit), "clusters, continuous"),
        "holds_layers": Measured(reports[0].holds, "the statement holds, layers"),
        "holds_flow": Measured(reports[1].holds, "the statement holds, continuous"),
        "rate": Measured(reports[1].rate, "rate at which tokens approach the centre of their "
                         "cluster, continuous", 2, "fit over the second half of the run"),
        "middle": Measured(np.median(levels), "middle level of phi_1*, continuous", 3, SOLVER),
        "lowest": Measured(levels.min(), "lowest level of phi_1*, continuous", 3, SOLVER),
        "gap": Measured(np.median(np.linalg.norm(paths[0, -1] - paths[1, -1], axis=1)),
                        "median distance of a token between the two, at the end", 2, LAYERS),
    }
    titles = np.array([f"layers of step {step:g}", "continuous"])
    return {"tokens": paths, "ends": paths[:, -1], "titles": titles}, numbers


@experiment(
    "multihead-count", statement="multihead", title="Clusters against the number of heads",
    caption="""Number of clusters of {n} tokens, relative to the largest, for {draws} random draws with 1, 2
    and 4 heads in the plane: layers of step {step} up to t = {final}. Medians {median_1}, {median_2} and
    {median_4}. Draws in which the summed values have no eigenvalue with positive real part need not
    gather.""",
    alt="""Bars of three colours over the number of clusters, from 1 to {n}; the tallest for few clusters
    with each number of heads.""",
    draw=partial(plots.counts, labels=["1 head", "2 heads", "4 heads"], xlabel="clusters",
                 ylabel="draws"),
    n=20, draws=40, seed=71, final=12.0, step=0.1)
def multihead_count(n, draws, seed, final, step):
    """Clusters over random heads."""
    rng, found = np.random.default_rng(seed), []
    for heads in (1, 2, 4):
        row = []
        for _ in range(draws):
            flow, tokens = random_heads(rng, heads), rng.uniform(-5, 5, (n, 2))
            run = simulate(flow, tokens, [0.0, final], method="Euler", step=step)
            row.append(count_clusters(run.tokens[-1]))
        found.append(row)
    values = np.arange(1, n + 1)
    frequencies = np.array([[row.count(k) for k in values] for row in found])
    numbers = {f"median_{heads}": Measured(float(np.median(row)), "median number of clusters, "
                                           f"{heads} head{'s' * (heads > 1)}", 2, LAYERS)
               for heads, row in zip((1, 2, 4), found, strict=True)}
    return {"values": values, "frequencies": frequencies}, numbers
