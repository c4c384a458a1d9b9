"""Statements of the first paper in which V has a leading eigenspace: points, planes, polytopes.

All of them look at the coordinates N z of the rescaled tokens, where N V = M N. They are taken as
e^{-tM} N x where the run holds the unrescaled tokens x: the detour by e^{-tV} x would amplify the
solver's error along eigenvalues with negative real part.
"""

import numpy as np
import scipy.linalg
from scipy.cluster.hierarchy import fcluster, linkage

from .. import spectrum
from ..attention import attention_matrix
from ..flows import TokenFlow
from ..geometry import Hull, distance_to_points, merge
from ..line import boolean_limit, settled_sides
from ..spectrum import resolution
from .clusters import hull_growth, positive_definite, rescaled_tokens, unrescaled_tokens
from .core import ROUNDING, Measurement, Statement, above, at_most

# At the default tolerances the solver's interpolation is off by up to 3e-7 of the tokens' size.
SOLVER = 1e-5
SOURCE = "Geshkovski, Letrouit, Polyanskiy, Rigollet 2023, "


def rescaled_coordinates(run, N, M):
    """N z at every time of a run, shape (T, n, k), for N V = M N."""
    if isinstance(run.flow, TokenFlow):
        return np.stack([x @ N.T @ scipy.linalg.expm(-t * M).T
                         for t, x in zip(run.times, run.tokens, strict=True)])
    return rescaled_tokens(run) @ N.T


# --- d = 1 -------------------------------------------------------------------------------------

def boolean_conditions(Q, K, V):
    """d = 1, V > 0 and QK > 0 (Theorem 2.1)."""
    dimension = at_most("d = 1: dimension", len(V), 1)
    if not dimension.holds:
        return (dimension,)
    return (dimension, above("V > 0", V[0, 0]),
            above("QK > 0", spectrum.score_matrix(Q, K)[0, 0]))


def measure_boolean(run, tolerance):
    """Largest deviation of each row of P(t) from its predicted limit.

    The prediction comes from the tokens at the last time, by `line.settled_sides`, a proof for each
    token that has left 0 far enough. One row may stay free; for any other that is undecided the
    nearer of the two possible limits counts.
    """
    z, x = rescaled_tokens(run), unrescaled_tokens(run)
    b = run.flow.B[0, 0]
    sides = settled_sides(x[-1], b) if run.flow.dimension == 1 and b > 0 else np.zeros(x.shape[1])
    up, down = (boolean_limit(x[-1, :, :1], np.full(len(sides), side)) for side in (1, -1))
    limit = np.where(sides[:, None] > 0, up, np.where(sides[:, None] < 0, down, 0.0))
    distances = np.empty(x.shape[:2])
    for step, tokens in enumerate(x):
        P = attention_matrix(tokens, run.flow.Q, run.flow.K)
        to_up, to_down = (np.abs(P - target).max(axis=1) for target in (up, down))
        distances[step] = np.where(sides > 0, to_up,
                                   np.where(sides < 0, to_down, np.minimum(to_up, to_down)))
    if (sides == 0).any():
        distances[:, np.argmax(np.where(sides == 0, distances[-1], -1.0))] = 0.0
    return Measurement(limit, distances, line_checks(z))


def line_checks(z):
    """Tokens start pairwise distinct, keep their order, and stay between the first ones."""
    ranked = z[:, np.argsort(z[0, :, 0]), 0]
    scale = np.abs(z[0]).max()
    gaps = np.diff(ranked, axis=1)
    smallest = gaps[0].min() if gaps.size else np.inf
    return (above("tokens pairwise distinct: smallest gap at the start", smallest),
            at_most("order kept: largest inversion", 0.0 - gaps.min(initial=0.0),
                    SOLVER * scale),
            *never_leave(z[..., 0], SOLVER * scale))


def never_leave(levels, slack):
    """max_i never grows and min_i never falls: largest step of either, shape of levels (T, n)."""
    grows = np.diff(levels.max(axis=1)).max(initial=0.0)
    falls = 0.0 - np.diff(levels.min(axis=1)).min(initial=0.0)
    return (at_most("the largest level never grows: largest step", grows, slack),
            at_most("the smallest level never falls: largest step", falls, slack))


# --- Hyperplanes and subspaces ----------------------------------------------------------------

def hyperplanes_conditions(Q, K, V):
    """(Q, K, V) is a good triple (Theorem 4.2)."""
    leading = spectrum.leading_eigenpair(V)
    score = (leading.right.conj() @ spectrum.score_matrix(Q, K) @ leading.right).real
    return (at_most("leading eigenvalue real: |imaginary part|", abs(leading.value.imag),
                    resolution(V)),
            above("leading eigenvalue positive: real part", leading.value.real),
            above("leading eigenvalue simple: |lambda_1| - |lambda_2|", leading.gap, resolution(V)),
            above("<Q phi_1, K phi_1> > 0", score, resolution(spectrum.score_matrix(Q, K))))


def leading_levels(run):
    """phi_1*(z_i) at every time, shape (T, n), and |phi_1*|; <phi_1*, phi_1> = 1, |phi_1| = 1.

    For a complex leading pair, which is no good triple, the real part of phi_1* stands in.
    """
    leading = spectrum.leading_eigenpair(run.flow.V)
    N, M = np.real(leading.left)[None], np.array([[leading.value.real]])
    if leading.value.imag:
        return rescaled_tokens(run) @ N[0], float(np.linalg.norm(N))
    return rescaled_coordinates(run, N, M)[..., 0], float(np.linalg.norm(N))


def limit_levels(levels):
    """The set {a, 0, b} for given final levels: a = min if negative, b = max if positive.

    A token whose level tends to a positive number attends to the largest level in the end, one with
    a negative limit to the smallest. Hence the smallest level is a limit only if negative.
    """
    lowest, highest = float(np.min(levels)), float(np.max(levels))
    return np.array(([lowest] if lowest < 0 else []) + [0.0] + ([highest] if highest > 0 else []))


def measure_hyperplanes(run, tolerance):
    """Distance of each token to the hyperplanes phi_1* = 0, a, b; a, b the extremes at the end."""
    levels, size = leading_levels(run)
    limit = limit_levels(levels[-1])
    distances = np.abs(levels[..., None] - limit).min(axis=-1) / size
    scale = np.linalg.norm(rescaled_tokens(run)[0], axis=1).max()
    return Measurement(limit, distances, never_leave(levels, SOLVER * scale * size), scale)


def codimension_conditions(Q, K, V):
    """V has k >= 1 eigenvalues with positive real part, and these are distinct."""
    values = np.linalg.eigvals(V)
    growing = values[values.real > 0]
    found = above("k >= 1: largest real part", values.real.max(), resolution(V))
    if len(growing) < 2:
        return (found,)
    apart = np.abs(growing[:, None] - growing)[np.triu_indices(len(growing), 1)].min()
    return (found, above("the k eigenvalues are distinct: smallest gap", apart, resolution(V)))


def growing_coordinates(run):
    """Coordinates of the z_i across the invariant subspace of all other eigenvalues, (T, n, k).

    Euclidean distances between them are distances between affine subspaces of codimension k.
    """
    return rescaled_coordinates(run, *spectrum.left_invariant(run.flow.V, lambda a, b: a > 0))


def at_most_three(points, diameter):
    """Means of the groups into which points fall: of at most this diameter, or else three groups."""
    if len(points) == 1:
        return points.copy()
    tree = linkage(points, "complete")
    labels = fcluster(tree, diameter, criterion="distance")
    if labels.max() > 3:
        labels = fcluster(tree, 3, criterion="maxclust")
    return np.stack([points[labels == label].mean(axis=0) for label in np.unique(labels)])


def measure_codimension(run, tolerance):
    """Distance of each token to the three affine subspaces that fit the last time best."""
    y = growing_coordinates(run)
    scale = np.linalg.norm(rescaled_tokens(run)[0], axis=1).max()
    if y.shape[-1] == 0:
        return Measurement(np.empty((0, 0)), np.zeros(y.shape[:2]), (), scale)
    limit = at_most_three(y[-1], tolerance * scale)
    return Measurement(limit, distance_to_points(y, limit), (), scale)


# --- Polytope times subspace ------------------------------------------------------------------

def mixed_conditions(Q, K, V):
    """Q^T K symmetric positive definite and (V, F, G) paranormal (section 5)."""
    splitting = spectrum.paranormal_splitting(V)
    return (*positive_definite(Q, K),
            above("lambda > 0: largest real part", splitting.value),
            at_most("V = lambda Id on F: |V - lambda Id| / |V| there", splitting.defect, ROUNDING),
            above("spectral radius on G below lambda: difference",
                  splitting.value - splitting.radius_G, resolution(V)))


def coordinates_in_F(run):
    """Coordinates in F of the z_i projected along G, shape (T, n, dim F), and the basis of F."""
    splitting = spectrum.paranormal_splitting(run.flow.V)
    N = splitting.basis_F.T @ splitting.projection
    return (rescaled_coordinates(run, N, splitting.value * np.eye(len(N))), splitting.basis_F)


def measure_mixed(run, tolerance):
    """Distance to (boundary of K* or 0) x G: within F, after projecting along G."""
    inside, basis = coordinates_in_F(run)
    scale = np.linalg.norm(inside[0], axis=1).max()
    corners = inside[-1][Hull(inside[-1], flat=tolerance).vertices]
    hull = Hull(merge(corners, tolerance * scale), flat=tolerance)
    distances = np.minimum(np.stack([hull.boundary_distance(points) for points in inside]),
                           np.linalg.norm(inside, axis=2))
    checks = (at_most("the hull in F never grows: largest step outside the earlier hull",
                      hull_growth(inside), SOLVER * scale),)
    return Measurement(hull.points[hull.vertices] @ basis.T, distances, checks, scale)


BOOLEAN = Statement(
    key="boolean",
    title="Boolean attention",
    source=SOURCE + "Theorem 2.1",
    status="proved",
    assumes="d = 1, V > 0, QK > 0, tokens pairwise distinct",
    concludes="P(t) converges to a matrix all of whose rows but at most one are e_a or e_b, a and b "
              "the smallest and the largest token; the remaining row is a probability vector. For "
              "almost every initial datum the limit has rank 1 or 2 and entries in {0, 1}",
    conditions=boolean_conditions,
    measure=measure_boolean,
    functions=("attn_clusters.line.settled_sides", "attn_clusters.line.boolean_limit"),
    tests=("tests/test_boolean.py::test_boolean_holds_on_random_runs",
           "tests/test_boolean.py::test_settled_sides_are_never_wrong",
           "tests/test_boolean.py::test_boolean_can_say_no"),
)

HYPERPLANES = Statement(
    key="hyperplanes",
    title="Hyperplanes",
    source=SOURCE + "Theorem 4.2",
    status="proved",
    assumes="(Q, K, V) is a good triple: the eigenvalue of V of largest modulus is real, positive "
            "and simple, and <Q phi_1, K phi_1> > 0 for its eigenvector phi_1",
    concludes="phi_1*(z_i) converges for every token to a member of a set {0, a, b} of at most three "
              "numbers: the tokens approach at most three parallel hyperplanes",
    conditions=hyperplanes_conditions,
    measure=measure_hyperplanes,
    functions=("attn_clusters.spectrum.leading_eigenpair",),
    tests=("tests/test_hyperplanes.py::test_hyperplanes_hold_on_random_good_triples",
           "tests/test_hyperplanes.py::test_hyperplanes_can_say_no",
           "tests/test_hyperplanes.py::test_levels_agree_with_the_other_flow"),
)

CODIMENSION = Statement(
    key="codimension",
    title="Codimension conjecture",
    source=SOURCE + "section 4",
    status="open",
    assumes="V has k >= 1 eigenvalues with positive real part; generic form: these are distinct",
    concludes="the tokens approach at most three parallel affine subspaces of codimension k",
    conditions=codimension_conditions,
    measure=measure_codimension,
    functions=("attn_clusters.spectrum.left_invariant", "attn_clusters.spectrum.real_eigenbasis"),
    tests=("tests/test_hyperplanes.py::test_codimension_on_the_published_matrix",
           "tests/test_hyperplanes.py::test_codimension_fails_for_the_identity",
           "tests/test_hyperplanes.py::test_codimension_fails_for_a_rotation_with_distinct_eigenvalues",
           "tests/test_hyperplanes.py::test_four_points_for_symmetric_tokens"),
)

MIXED = Statement(
    key="mixed",
    title="Polytope times subspace",
    source=SOURCE + "section 5",
    status="proved",
    assumes="Q^T K symmetric positive definite; R^d = F + G, both invariant under V, V = lambda Id "
            "on F with lambda > 0, spectral radius of V on G below lambda",
    concludes="there is a bounded polytope K* in F such that every rescaled token approaches "
              "(boundary of K* united with {0}) x G",
    conditions=mixed_conditions,
    measure=measure_mixed,
    functions=("attn_clusters.spectrum.paranormal_splitting",
               "attn_clusters.geometry.Hull.boundary_distance"),
    tests=("tests/test_mixed.py::test_mixed_holds_on_random_runs",
           "tests/test_mixed.py::test_mixed_can_say_no",
           "tests/test_mixed.py::test_boundary_distance_against_a_solver"),
)

STATEMENTS = (BOOLEAN, HYPERPLANES, CODIMENSION, MIXED)
