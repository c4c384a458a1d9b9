"""Statements of the first paper: tokens in R^d."""

import numpy as np

from .. import spectrum
from ..flows import TokenFlow
from ..geometry import Hull, distance_to_points, limit_set
from .core import ROUNDING, Measurement, Statement, above, at_most


def rescaled_tokens(run):
    """The z_i of a run of `TokenFlow` or `RescaledFlow`, shape (T, n, d)."""
    if not hasattr(run.flow, "rescale"):
        raise ValueError("run: expected a run of TokenFlow or RescaledFlow, got "
                         f"{type(run.flow).__name__}")
    return np.stack([run.flow.rescale(t, x) for t, x in zip(run.times, run.tokens, strict=True)])


def unrescaled_tokens(run):
    """The x_i of a run of `TokenFlow` or `RescaledFlow`, shape (T, n, d)."""
    if isinstance(run.flow, TokenFlow):
        return run.tokens
    return np.stack([run.flow.propagate(t, z)
                     for t, z in zip(run.times, rescaled_tokens(run), strict=True)])


def positive_definite(Q, K):
    """The hypotheses "Q^T K symmetric" and "Q^T K positive definite"."""
    B = spectrum.score_matrix(Q, K)
    return (at_most("Q^T K symmetric: |B - B^T| / |B|", spectrum.asymmetry(B), ROUNDING),
            above("Q^T K positive definite: smallest eigenvalue",
                  spectrum.smallest_eigenvalue(B), spectrum.resolution(B)))


def polytope_conditions(Q, K, V):
    """V = I and Q^T K symmetric positive definite (Theorem 3.1)."""
    deviation = np.linalg.norm(V - np.eye(len(V)), 2)
    return (at_most("V = I: |V - I|", deviation, ROUNDING), *positive_definite(Q, K))


def hull_growth(z):
    """Largest distance by which a later hull leaves an earlier one, over consecutive times."""
    return max((Hull(before).excess(after).max() for before, after in zip(z[:-1], z[1:], strict=True)),
               default=0.0)


def _rescaled_runs_and_limit(run, tolerance):
    z = rescaled_tokens(run)
    scale = np.linalg.norm(z[0], axis=1).max()
    members, vertices = limit_set(z[-1], run.flow.B, tolerance)
    # At the default tolerances the solver's interpolation is off by up to 3e-7 of the tokens' size
    # where a token switches leaders fast; a real growth of the hull would be of the order of 1.
    never_grows = at_most("hull never grows: largest step outside the earlier hull",
                          hull_growth(z), 1e-5 * scale)
    return z, members, vertices, (never_grows,), scale


def measure_polytope(run, tolerance):
    """Distance of every z_i to the limit set S of the hull at the last time."""
    z, members, _, checks, scale = _rescaled_runs_and_limit(run, tolerance)
    return Measurement(members, distance_to_points(z, members), checks, scale)


def measure_leaders(run, tolerance):
    """Distance of every z_i to the vertices of the hull at the last time, or to 0."""
    z, members, vertices, checks, scale = _rescaled_runs_and_limit(run, tolerance)
    zero = members[np.linalg.norm(members, axis=1) <= tolerance * scale]
    limit = np.concatenate([vertices, zero])
    return Measurement(limit, distance_to_points(z, limit), checks, scale)


POLYTOPE = Statement(
    key="polytope",
    title="Convex polytopes",
    source="Geshkovski, Letrouit, Polyanskiy, Rigollet 2023, Theorem 3.1",
    status="proved",
    assumes="V = I and Q^T K symmetric positive definite, A = (Q^T K)^(1/2)",
    concludes="the hull of the rescaled tokens shrinks to a convex polytope K*, and every rescaled "
              "token converges to a point of S = {x in K*: |Ax|^2 = max_j <Ax, A v_j>}: "
              "to 0 or to the boundary of K*",
    conditions=polytope_conditions,
    measure=measure_polytope,
    functions=("attn_clusters.geometry.limit_set", "attn_clusters.geometry.Hull"),
    tests=("tests/test_statements.py::test_polytope_holds_on_random_runs",
           "tests/test_statements.py::test_polytope_can_say_no",
           "tests/test_statements.py::test_hull_never_grows"),
)

LEADERS = Statement(
    key="leaders",
    title="Leaders",
    source="Geshkovski, Letrouit, Polyanskiy, Rigollet 2023, section 3",
    status="observed",
    assumes="as for the polytope statement",
    concludes="in the runs shown every rescaled token ends at a vertex of K* or at 0",
    conditions=polytope_conditions,
    measure=measure_leaders,
    functions=("attn_clusters.geometry.limit_set",),
    tests=("tests/test_statements.py::test_leaders_hold_on_random_runs",
           "tests/test_statements.py::test_leaders_fail_on_symmetric_tokens"),
)

WELLPOSED = Statement(
    key="wellposed",
    title="Well-posedness and rescaling",
    source="Geshkovski, Letrouit, Polyanskiy, Rigollet 2023, section 6",
    status="proved",
    assumes="nothing",
    concludes="the dynamics of the tokens and of the rescaled tokens have unique global solutions, "
              "which the change of variables z = e^(-tV) x carries into each other",
    functions=("attn_clusters.flows.TokenFlow", "attn_clusters.flows.RescaledFlow",
               "attn_clusters.simulate.simulate"),
    tests=("tests/test_flows.py::test_the_two_flows_are_one",
           "tests/test_flows.py::test_discrete_layers_are_one"),
)

STATEMENTS = (WELLPOSED, POLYTOPE, LEADERS)
