"""Figures of the chapter on many dimensions."""

import numpy as np

from .. import plots_highdim
from ..flows import RescaledFlow
from ..simulate import simulate
from ..statements import statements
from ..statements.high_dimension import (
    attention_along,
    limit_groups,
    numerical_rank,
)
from .core import experiment
from .numbers import Measured, bounded
from .polytope import uniform_tokens

RANK_TIMES = tuple(np.arange(0, 16.01, 0.25))
RANK_SHOWN = (0, 2, 4, 8, 16)
SHARP = "attention switches sharply between tokens; another solver agrees to 2e-3"


def gram_matrix(d, low, rng):
    """V = M M^T for M uniform in [low, 1]^(d x d), and its largest eigenvalue."""
    M = np.random.default_rng(rng).uniform(low, 1.0, (d, d))
    V = M @ M.T
    return V, np.linalg.norm(V, 2)


def lowrank_run(n, d, low, half, seed, times, rtol=1e-7):
    """Q = K = I and V = M M^T, with time in units of 1 / lambda_1, in eigen-coordinates of V.

    V / lambda_1 is V with the clock slowed by lambda_1, and an orthogonal change of basis turns
    (I, I, V) into (I, I, diag): neither changes P.
    """
    rng = np.random.default_rng(seed)
    V, largest = gram_matrix(d, low, rng)
    values, vectors = np.linalg.eigh(V / largest)
    flow = RescaledFlow(np.eye(d), np.eye(d), np.diag(values))
    tokens = rng.uniform(-half, half, (n, d)) @ vectors
    return simulate(flow, tokens, times, rtol=rtol, method="RK45")


@experiment(
    "lowrank", statement="lowrank", title="The rank of P(t) falls",
    caption="""{n} tokens in dimension {d}, Q = K = I, V = M Mᵀ with M uniform in [-1, 1] or in
    [0, 1]. Left: the numerical rank of P(t) (singular values above {tolerance:g} of the largest)
    falls from {n} to {rank_centred} and to {rank_positive}. Right: its singular values at
    five times. M ≥ 0 has one dominant eigenvalue (λ₂/λ₁ = {ratio_positive}), so its rank falls
    sooner.""",
    alt="""Two panels. Left: two step lines that start at {n} and fall to {rank_centred} and
    {rank_positive}. Right: singular values, all {n} equal to one at the start; at the end only the
    first {rank_centred} are above rounding.""",
    draw=plots_highdim.rank_falls, n=40, d=80, half=5.0, seed=0, times=RANK_TIMES,
    shown=RANK_SHOWN, tolerance=1e-3)
def lowrank(n, d, half, seed, times, shown, tolerance):
    """Numerical rank along two runs, and singular values of the first."""
    runs = [lowrank_run(n, d, low, half, seed, times) for low in (-1.0, 0.0)]
    sizes = np.stack([np.linalg.svd(attention_along(run), compute_uv=False) for run in runs])
    ranks = numerical_rank(sizes, tolerance)
    values = [np.sort(np.diag(run.flow.V)) for run in runs]
    reports = [statements["lowrank"].verify(run) for run in runs]
    numbers = {"rank_centred": Measured(int(ranks[0, -1]), "rank at the end, M in [-1, 1]"),
               "rank_positive": Measured(int(ranks[1, -1]), "rank at the end, M in [0, 1]"),
               "rank_middle": Measured(int(ranks[0, times.index(4.0)]),
                                       "rank at t = 4, M in [-1, 1]"),
               "middle_positive": Measured(int(ranks[1, times.index(4.0)]),
                                           "rank at t = 4, M in [0, 1]"),
               "ratio_centred": Measured(values[0][-2], "λ₂/λ₁, M in [-1, 1]", 4, "rounding"),
               "ratio_positive": Measured(values[1][-2], "λ₂/λ₁, M in [0, 1]", 4, "rounding"),
               "beyond": bounded(max(report.distances.max() for report in reports), 1e-9,
                                 "fourth singular value at the end, relative", "rounding"),
               "holds": Measured(all(report.holds for report in reports),
                                 "the statement holds on both runs")}
    chosen = [times.index(t) for t in shown]
    first = sizes[0, chosen] / sizes[0, chosen, :1]
    return {"times": np.array(times), "ranks": ranks, "shown": np.array(shown, float),
            "singular_values": np.maximum(first, 1e-17),
            "labels": np.array(["M in [-1, 1]", "M in [0, 1]"])}, numbers


def positive_matrix(d, rng):
    """M M^T for M uniform in [-1, 1]^(d x d)."""
    return gram_matrix(d, -1.0, rng)[0]


def leader_run(n, seed, times):
    """Tokens in the plane with random symmetric positive definite V and Q^T K."""
    rng = np.random.default_rng(seed)
    V, B = positive_matrix(2, rng), positive_matrix(2, rng)
    return simulate(RescaledFlow(np.eye(2), B, V), uniform_tokens(n, 2, rng), times)


@experiment(
    "leader_graph", statement="leader_graph", title="Who attends to whom",
    caption="""{n} rescaled tokens in the plane, random symmetric positive definite V and QᵀK. A
    line joins token i to token j, as thick as P_ij; a token is as large as the attention it
    receives (orange-red: more than one and a half tokens' worth). At t = 0 one token's strongest link is as
    weak as {weakest_start}; from t = {settled} on each of them has more than {settle:g} of the token's
    attention, and all of them lead to {leaders} tokens.""",
    alt="""Six panels. At t = 0 lines run from each token to several others; at the end every token
    is joined to one of {leaders} large ones, and the tokens lie on two parallel lines.""",
    draw=plots_highdim.leader_graphs, n=20, seed=3, shown=(0, 0.5, 1, 2, 4, 8), settle=0.99)
def leader_graph(n, seed, shown, settle):
    """Attention at six times of a run in the plane."""
    times = np.union1d(np.linspace(0, shown[-1], 81), shown)
    run = leader_run(n, seed, times)
    report = statements["leader_graph"].verify(run)
    kept = np.searchsorted(times, shown)
    along = attention_along(run)
    attention = along[kept]
    numbers = {
        "leaders": Measured(len(report.limit), "leaders"),
        "weakest_start": Measured(attention[0].max(axis=1).min(), "weakest strongest link, t = 0",
                                  4, "rounding"),
        "settled": Measured(times[(along.max(axis=2).min(axis=1) <= settle).sum()],
                            f"every strongest link above {settle:g} from t =", 2,
                            "read off at times 0.1 apart"),
        "rest": bounded(report.distances.max(), 1e-9,
                        f"attention not going to the leader, t = {shown[-1]:g}",
                        "falls faster than any exponential"),
        "holds": Measured(report.holds, "the statement holds on this run"),
    }
    return {"times": np.array(shown, float), "tokens": run.tokens[kept],
            "attention": attention}, numbers


def sparse_symmetric(values, density, rng):
    """Symmetric matrix with given eigenvalues and at least this share of non-zero entries.

    Starts from the diagonal matrix and rotates random pairs of coordinates until it is full enough.

    Returns
    -------
    matrix : array, shape (d, d)
    basis : array, shape (d, d)
        Orthogonal; column k is the eigenvector of ``values[k]``.
    """
    V, basis = np.diag(values).astype(float), np.eye(len(values))
    while np.count_nonzero(V) < density * V.size:
        pair = rng.choice(len(V), 2, replace=False)
        angle = rng.uniform(0.0, 2 * np.pi)
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        V[pair] = turn @ V[pair]
        V[:, pair] = V[:, pair] @ turn.T
        basis[pair] = turn @ basis[pair]
    return (V + V.T) / 2, basis


def highdim_problem(n, d, density, half, seed):
    """Eigenvalues, V, its eigenbasis and the first tokens."""
    rng = np.random.default_rng(seed)
    values = np.sort((1 + rng.exponential(0.25, d)) * rng.choice([-1.0, 1.0], d))
    V, basis = sparse_symmetric(values, density, rng)
    return values, V, basis, rng.uniform(-half, half, (n, d))


def highdim_run(values, basis, tokens, times, rtol=1e-5, method="RK23"):
    """The rescaled tokens in eigen-coordinates of V, where e^{tV} mixes nothing large and small."""
    identity = np.eye(len(values))
    return simulate(RescaledFlow(identity, identity, np.diag(values)), tokens @ basis, times,
                    rtol=rtol, method=method)


@experiment(
    "highdim", statement="highdim", title="128 tokens in dimension 128",
    caption="""n = {n}, d = {d}, Q = K = I, V sparse (density {filled}) and symmetric with
    eigenvalues of modulus at least 1, up to t = {final:g}. Above: eigen-coordinates of the
    {positive} positive eigenvalues. In each of them the {group_plus} tokens of one group and the
    {group_minus} of the other approach two different limits (left: group means, the leading
    coordinate with its standard deviation as a band, and every twelfth of the others), while the
    standard deviation within a group falls (right). Below: eigen-coordinates of the {negative}
    negative eigenvalues diverge, up to a standard deviation of {largest}.""",
    alt="""Four panels. Above: means of two groups settle on separate constants, and standard
    deviations within groups fall by many decades after t = 5. Below: means and standard
    deviations of the other coordinates rise along straight lines on a logarithmic axis, to
    {largest}.""",
    draw=plots_highdim.coordinates_high, n=128, d=128, density=0.1, half=5.0, seed=0, final=15.0)
def highdim(n, d, density, half, seed, final):
    """Means and standard deviations of the eigen-coordinates along a run."""
    values, V, basis, tokens = highdim_problem(n, d, density, half, seed)
    run = highdim_run(values, basis, tokens, np.linspace(0.0, final, 61))
    z, groups = run.tokens, limit_groups(run.tokens, values)
    report = statements["highdim"].verify(run)
    growing, falling = z[..., values > 0], z[..., values < 0]
    parts = [growing[:, groups == sign] for sign in (1, -1)]
    spread = falling.std(axis=1)
    numbers = {
        "filled": Measured(np.count_nonzero(V) / V.size, "share of non-zero entries of V", 4,
                           "counted"),
        "smallest": Measured(np.abs(values).min(), "smallest modulus of an eigenvalue", 6, "exact"),
        "first": Measured(values[-1], "λ₁", 6, "exact"),
        "second": Measured(values[-2], "λ₂", 6, "exact"),
        "lowest": Measured(values[0], "most negative eigenvalue", 6, "exact"),
        "positive": Measured(int((values > 0).sum()), "positive eigenvalues"),
        "negative": Measured(int((values < 0).sum()), "negative eigenvalues"),
        "group_plus": Measured(int((groups == 1).sum()), "tokens of the group +"),
        "group_minus": Measured(int((groups == -1).sum()), "tokens of the group −"),
        "group_zero": Measured(int((groups == 0).sum()), "tokens near the level 0"),
        "largest": Measured(spread[-1].max(), f"largest standard deviation, t = {final:g}", 2,
                            SHARP),
        "rate": Measured(report.rate, "rate at which the largest distance to a group falls", 2,
                         SHARP),
        "distance": Measured(report.distances.max() / report.tolerance, "largest distance to a "
                             "group over the tolerance", 2, SHARP),
        "holds": Measured(report.holds, "the statement holds on this run"),
    }
    return {"times": run.times, "means": np.stack([part.mean(axis=1) for part in parts]),
            "deviations": np.stack([part.std(axis=1) for part in parts]), "spread": spread,
            "centres": np.abs(falling.mean(axis=1)),
            "values": np.array([values[0], values[values < 0][-1]])}, numbers
