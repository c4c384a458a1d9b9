"""Statements of the first paper for many dimensions: what its figures show, observed here again."""

import numpy as np

from .. import spectrum
from ..attention import attention_matrix
from ..flows import TokenFlow
from .clusters import positive_definite, rescaled_tokens
from .core import ROUNDING, Measurement, Statement, above, at_most

SOURCE = "Geshkovski, Letrouit, Polyanskiy, Rigollet 2023, "
RANK = 3


def attention_along(run):
    """Attention matrix P(t) at every time of a run of `TokenFlow` or `RescaledFlow`, (T, n, n)."""
    z, flow = rescaled_tokens(run), run.flow
    x = (run.tokens if isinstance(flow, TokenFlow) else
         np.stack([flow.propagate(t, points) for t, points in zip(run.times, z, strict=True)]))
    return attention_matrix(x, flow.Q, flow.K)


def numerical_rank(singular_values, tolerance):
    """How many singular values exceed `tolerance` times the largest, along the last axis."""
    return np.count_nonzero(singular_values > tolerance * singular_values[..., :1], axis=-1)


def symmetric_positive(V):
    """The hypotheses "V symmetric" and "V positive definite"."""
    resolution = len(V) * np.finfo(float).eps * np.linalg.norm(V, 2)
    return (at_most("V symmetric: |V - V^T| / |V|", spectrum.asymmetry(V), ROUNDING),
            above("V positive definite: smallest eigenvalue",
                  spectrum.smallest_eigenvalue(V), resolution))


def positive_conditions(Q, K, V):
    """V and Q^T K symmetric positive definite."""
    return (*symmetric_positive(V), *positive_definite(Q, K))


def lowrank_conditions(Q, K, V):
    """V and Q^T K symmetric positive definite, the leading eigenvalue of V simple."""
    gap = above("leading eigenvalue simple: |lambda_1| - |lambda_2|",
                spectrum.leading_eigenpair(V).gap,
                len(V) * np.finfo(float).eps * np.linalg.norm(V, 2))
    return (*positive_conditions(Q, K, V), gap)


def measure_lowrank(run, tolerance):
    """Singular values of P(t) beyond the third, relative to the largest: 0 for rank 3."""
    sizes = np.linalg.svd(attention_along(run), compute_uv=False)
    distances = sizes / sizes[:, :1]
    distances[:, :RANK] = 0.0
    rank = numerical_rank(sizes, tolerance)
    falls = at_most("numerical rank never rises: largest step up",
                    np.diff(rank).max(initial=0), 0)
    return Measurement(int(rank[-1]), distances, (falls,))


def measure_leader_graph(run, tolerance):
    """Attention of each token that does not go to the one it attends to most."""
    attention = attention_along(run)
    chosen = attention[-1].argmax(axis=1)
    leaders = np.unique(chosen)
    few = at_most("few leaders: their number per token", len(leaders) / len(chosen), 0.25)
    return Measurement(leaders, 1.0 - attention.max(axis=2), (few,))


def highdim_conditions(Q, K, V):
    """V symmetric, no eigenvalue in (-1, 1), and a good triple."""
    leading = spectrum.leading_eigenpair(V)
    size = np.linalg.norm(V, 2)
    score = (leading.right.conj() @ spectrum.score_matrix(Q, K) @ leading.right).real
    return (at_most("V symmetric: |V - V^T| / |V|", spectrum.asymmetry(V), ROUNDING),
            at_most("no eigenvalue in (-1, 1): 1 / smallest modulus",
                    1 / max(np.abs(np.linalg.eigvals(V)).min(), 1e-300), 1 + ROUNDING * size),
            above("leading eigenvalue positive: real part", leading.value.real),
            above("leading eigenvalue simple: |lambda_1| - |lambda_2|", leading.gap,
                  len(V) * np.finfo(float).eps * size),
            above("<Q phi_1, K phi_1> > 0", score))


def eigen_coordinates(run):
    """The z_i in an orthonormal eigenbasis of the symmetric V, and the eigenvalues, ascending."""
    values, vectors = np.linalg.eigh((run.flow.V + run.flow.V.T) / 2)
    return rescaled_tokens(run) @ vectors, values


def limit_groups(z, values):
    """Which level each token approaches in the leading coordinate: -1, 0 or 1, shape (n,).

    With a and b the extreme levels at the end, nearer to a, to 0 or to b.
    """
    levels = z[-1, :, np.argmax(values)]
    candidates = np.array([min(levels.min(), 0.0), 0.0, max(levels.max(), 0.0)])
    return np.abs(levels[:, None] - candidates).argmin(axis=1) - 1


def measure_highdim(run, tolerance):
    """Distance of each token to its group's mean, in the coordinates of positive eigenvalues."""
    z, values = eigen_coordinates(run)
    growing, groups = z[..., values > 0], limit_groups(z, values)
    means = {group: growing[-1, groups == group].mean(axis=0) for group in np.unique(groups)}
    distances = np.linalg.norm(growing - np.stack([means[group] for group in groups]), axis=2)
    spread = z[..., values < 0].std(axis=1)
    factor = (spread[-1] / np.maximum(spread[0], 1e-300)).min(initial=np.inf)
    diverges = above("coordinates of negative eigenvalues spread: smallest factor", factor, 1.0)
    scale = np.linalg.norm(growing[0], axis=1).max()
    return Measurement(np.stack(list(means.values())), distances, (diverges,), scale)


def head_conditions(Q, K, V):
    """(Q, K, V) is a good triple, asked of the matrices of a trained head."""
    leading = spectrum.leading_eigenpair(V)
    return (at_most("leading eigenvalue real: |imaginary part|", abs(leading.value.imag), 0.0),
            *highdim_conditions(Q, K, V)[2:])


LOWRANK = Statement(
    key="lowrank",
    title="The rank of the attention matrix falls",
    source=SOURCE + "figures in many dimensions",
    status="observed",
    assumes="V and Q^T K symmetric positive definite, the leading eigenvalue of V simple",
    concludes="the numerical rank of P(t) falls, to at most 3 in the runs shown",
    conditions=lowrank_conditions,
    measure=measure_lowrank,
    functions=("attn_clusters.statements.high_dimension.attention_along",
               "attn_clusters.statements.high_dimension.numerical_rank"),
    tests=("tests/test_high_dimension.py::test_rank_falls_on_random_runs",
           "tests/test_high_dimension.py::test_rank_can_say_no"),
)

LEADER_GRAPH = Statement(
    key="leader_graph",
    title="Few tokens receive all attention",
    source=SOURCE + "figures on leaders",
    status="observed",
    assumes="V and Q^T K symmetric positive definite",
    concludes="in the end each token attends to a single one, and those are few: the leaders",
    conditions=positive_conditions,
    measure=measure_leader_graph,
    functions=("attn_clusters.statements.high_dimension.attention_along",),
    tests=("tests/test_high_dimension.py::test_few_leaders_on_random_runs",
           "tests/test_high_dimension.py::test_leaders_can_be_many"),
)

HIGHDIM = Statement(
    key="highdim",
    title="Coordinates that cluster and coordinates that diverge",
    source=SOURCE + "figures in many dimensions",
    status="observed",
    assumes="V symmetric without eigenvalues in (-1, 1), its leading one positive and simple, "
            "<Q phi_1, K phi_1> > 0",
    concludes="in the eigen-coordinates of positive eigenvalues the rescaled tokens fall into at "
              "most three groups, in those of negative eigenvalues they diverge",
    conditions=highdim_conditions,
    measure=measure_highdim,
    functions=("attn_clusters.statements.high_dimension.eigen_coordinates",
               "attn_clusters.statements.high_dimension.limit_groups"),
    tests=("tests/test_high_dimension.py::test_coordinates_cluster_and_diverge",
           "tests/test_high_dimension.py::test_highdim_can_say_no"),
)

TRAINED = Statement(
    key="trained_spectra",
    title="Heads of trained models",
    source=SOURCE + "section 4 and the figure on ALBERT",
    status="observed",
    assumes="Q, K, V of a trained head that form a good triple",
    concludes="alone and repeated, this head would send its tokens to at most three hyperplanes; "
              "in the model examined some heads are of this kind and most are not",
    conditions=head_conditions,
    functions=("attn_clusters.checkpoints.load_heads", "attn_clusters.checkpoints.Head"),
    tests=("tests/test_checkpoints.py::test_bert_heads_come_back",
           "tests/test_checkpoints.py::test_albert_heads_come_back",
           "tests/test_checkpoints.py::test_head_conditions_can_say_no"),
)

STATEMENTS = (LOWRANK, LEADER_GRAPH, HIGHDIM, TRAINED)
