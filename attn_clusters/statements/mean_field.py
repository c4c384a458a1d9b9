"""Statements of the second paper: mean-field transformers on the sphere at low temperature.

The assumptions come in two kinds. A1 is about the matrices alone, so `classify` can check it; A2
and A3 are about the initial law as well and take it as an argument.
"""

import numpy as np

from .. import _checks, spectrum
from .._tables import html_table, text_table
from ..flows import ZeroTemperatureFlow, attention_field, zero_temperature_field
from ..measures import principal_projection
from .core import HYPOTHESIS_HEADER, ROUNDING, Measurement, Statement, above, at_most

SOURCE = "Alcalde, Bungert, Riedl, Roith 2026"
FINE_MESH = 20000
SAMPLE = 2**18


def invertible(Q, K):
    """The hypothesis "B = Q^T K invertible"."""
    B = spectrum.score_matrix(Q, K)
    sizes = np.linalg.svd(B, compute_uv=False)
    share = sizes[-1] / sizes[0] if sizes[0] > 0 else 0.0
    # A singular value of a float64 matrix is known only to about d eps |B|.
    return above("A1: B invertible: smallest over largest singular value", share,
                 len(B) * np.finfo(float).eps)


def assumption_a1(Q, K, V):
    """A1: B = Q^T K invertible, V B^T symmetric, with a gap after its largest eigenvalue.

    Returns
    -------
    tuple of Hypothesis
        The gap of a V B^T that is not symmetric is that of its symmetric part; it is infinite if
        there is one eigenvalue only.
    """
    M = V @ spectrum.score_matrix(Q, K).T
    gap = spectrum.principal_eigenspace((M + M.T) / 2)[2]
    return (invertible(Q, K),
            at_most("A1: V B^T symmetric: |M - M^T| / |M|", spectrum.asymmetry(M), ROUNDING),
            above("A1: gap between the two largest eigenvalues of V B^T", gap))


def principal_basis(B, V):
    """Orthonormal basis (d, dim E) of the principal eigenspace E of V B^T, which is symmetric."""
    return spectrum.principal_eigenspace(V @ B.T)[1]


def moment_order(law, basis, n=SAMPLE, tail=0.01, rng=0):
    """The order p* below which the moments of |P_E x|^{-1} are finite, as measured on tokens.

    The mass of {|P_E x| <= r} falls like r^p*; p* is estimated from the share `tail` of n tokens
    with the smallest r (Hill's estimator, of relative standard error (n tail)^{-1/2}: 2 percent).
    A bounded density gives dim E; a law that keeps away from the complement of E gives a large
    number, which stands for infinity.
    """
    distances = np.sort(np.linalg.norm(law.sample(n, rng) @ basis, axis=1))
    nearest = distances[: int(tail * n) + 1]
    return float(1.0 / np.mean(np.log(nearest[-1] / nearest[:-1])))


def assumption_a2(B, V, law, order=0.0):
    """A2: rho_0 has finite moments of |P_E x|^{-1} of some order above `order`.

    Parameters
    ----------
    B, V : arrays, shape (d, d)
    law : InitialLaw
        On the same sphere.
    order : float
        0 asks for some moment, which is what convergence needs; the rate at which the law converges
        is that of a single token only if order 2 |B^T psi| / |B^T phi| is finite (`collapse_rate`).
    """
    basis = principal_basis(B, _same_sphere(B, V, law))
    return (above("A2: moments of 1/|P_E x| are finite below the order", moment_order(law, basis),
                  order),)


def assumption_a3(B, V, law):
    """A3: rho_0 has a strictly positive Lipschitz density.

    Both are measured on a great circle through the law's axis, on whose height alone the densities
    of this library depend: the smallest density, and by how much the steepest slope grows on a
    mesh ten times finer (1 for a Lipschitz density, 10 at a jump).
    """
    _same_sphere(B, V, law)
    across = np.eye(law.d)[np.argmin(np.abs(law.axis))]
    across = across - (across @ law.axis) * law.axis
    across /= np.linalg.norm(across)

    def profile(count):
        # Half a step aside, so that no node meets a kink, a jump or a pole of the density.
        angles = np.pi * (np.arange(count) + 0.5) / count
        circle = np.outer(np.cos(angles), law.axis) + np.outer(np.sin(angles), across)
        density = law.density(circle)
        return density, np.abs(np.diff(density)).max() * count / np.pi

    (density, fine), (_, coarse) = profile(FINE_MESH), profile(FINE_MESH // 10)
    growth = fine / coarse if coarse > 0 else 1.0
    return (above("A3: smallest density", density.min()),
            at_most("A3: growth of the steepest slope on a mesh ten times finer", growth, 2.0))


class Hypotheses(tuple):
    """A tuple of Hypothesis that prints as a table."""

    def _rows(self):
        return [item.row() for item in self]

    def __repr__(self):
        return text_table(HYPOTHESIS_HEADER, self._rows())

    def _repr_html_(self):
        return html_table(HYPOTHESIS_HEADER, self._rows())


def assumptions(B, V, law):
    """A1, A2 and A3 for given matrices and initial law.

    Parameters
    ----------
    B, V : arrays, shape (d, d)
    law : InitialLaw
        On S^{d-1}.

    Returns
    -------
    Hypotheses
        Without A2 if V B^T is not symmetric, since then there is no principal eigenspace.
    """
    V, B = _same_sphere(B, V, law), _checks.matrix("B", B, square=True)
    a1 = assumption_a1(np.eye(law.d), B, V)
    a2 = assumption_a2(B, V, law) if a1[1].holds else ()
    return Hypotheses((*a1, *a2, *assumption_a3(B, V, law)))


def _same_sphere(B, V, law):
    V = _checks.matrix("V", V, square=True, columns=law.d)
    _checks.matrix("B", B, square=True, columns=law.d)
    return V


def _sphere_run(run, kind=None):
    wanted = "ZeroTemperatureFlow" if kind else "SphereFlow or ZeroTemperatureFlow"
    if not isinstance(run.flow, kind) if kind else not hasattr(run.flow, "retract"):
        raise ValueError(f"run: expected a run of {wanted}, got {type(run.flow).__name__}")
    return run.flow.B, run.flow.V


def measure_zero_temperature(run, tolerance):
    """Distance of every token to Pi(x_0) = P_E x_0 / |P_E x_0|, and what decays along the way.

    Checks: the Rayleigh quotient <x, V B^T x> never falls (the Lyapunov function is its distance
    to mu_1), and the tangent of the angle to E stays below its start times e^{-gamma t / |B|}.
    """
    B, V = _sphere_run(run, ZeroTemperatureFlow)
    M = V @ B.T
    _, basis, gap = spectrum.principal_eigenspace((M + M.T) / 2)
    limit = principal_projection(run.tokens[0], basis)
    rayleigh = np.sum(run.tokens @ M * run.tokens, axis=-1)
    fall = max(0.0, -np.diff(rayleigh, axis=0).min(initial=0.0))
    inside = np.linalg.norm(run.tokens @ basis, axis=-1)
    tangent = np.linalg.norm(run.tokens - run.tokens @ basis @ basis.T, axis=-1) / inside
    bound = tangent[0] * decay_of_tangent(run.times - run.times[0], B, gap)[:, None]
    # At its default tolerance of 1e-9 the solver moves tokens by up to 2e-7, mostly where it
    # interpolates between long steps near the end, and a tangent by 1 + tan^2 times that.
    excess = ((tangent - bound) / (1 + tangent[0] ** 2)).max()
    return Measurement(
        limit, np.linalg.norm(run.tokens - limit, axis=-1),
        (at_most("Lyapunov function never grows: largest rise", fall,
                 1e-7 * np.linalg.norm(M, 2)),
         at_most("tangent of the angle to E beyond its bound", excess, 1e-6)))


def decay_of_tangent(times, B, gap):
    """The factor e^{-gamma t / |B|} that bounds the tangent of the angle between token and E.

    In the clock of the Oja flow the tangent falls at least like e^{-gamma s}, and
    dt = |B^T x| ds <= |B| ds. With an infinite gap (E is the whole space) nothing moves.
    """
    return np.exp(-gap * times / np.linalg.norm(B, 2)) if np.isfinite(gap) else np.ones_like(times)


def laplace_conditions(Q, K, V):
    """B invertible; V may be any matrix."""
    return (invertible(Q, K),)


def measure_laplace(run, tolerance):
    """Distance between X_beta[rho_t] and the zero-temperature field, at every token."""
    B, V = _sphere_run(run)
    if not hasattr(run.flow, "beta"):
        raise ValueError("run: expected a run of SphereFlow, got one at zero temperature")
    limit = np.stack([zero_temperature_field(x, B, V) for x in run.tokens])
    field = np.stack([attention_field(x, x, B, V, run.flow.beta, run.flow.weights)
                      for x in run.tokens])
    return Measurement(limit[-1], np.linalg.norm(field - limit, axis=-1),
                       scale=np.linalg.norm(V, 2))


LAPLACE = Statement(
    key="laplace",
    title="Quantitative Laplace principle",
    source=SOURCE,
    status="proved",
    assumes="B invertible (A1); rho has a strictly positive Lipschitz density (A3)",
    concludes="the field X_beta[rho] is within O(sqrt(log(beta + 1) / beta)) of its "
              "zero-temperature limit V B^T x / |B^T x|, uniformly on the sphere",
    conditions=laplace_conditions,
    measure=measure_laplace,
    functions=("attn_clusters.flows.attention_field",
               "attn_clusters.flows.zero_temperature_field"),
    tests=("tests/test_mean_field.py::test_laplace_holds_for_a_positive_density",
           "tests/test_mean_field.py::test_laplace_can_say_no"),
)

ZERO_TEMPERATURE = Statement(
    key="zero_temperature",
    title="The flow at zero temperature",
    source=SOURCE,
    status="proved",
    assumes="B invertible, V B^T symmetric with a gap after its largest eigenvalue (A1); rho_0 has a "
            "finite moment of |P_E x|^(-1), E the principal eigenspace (A2)",
    concludes="solutions converge exponentially in W2 to the push-forward of rho_0 by "
              "Pi(x) = P_E x / |P_E x|, and a Lyapunov function decays along the way",
    conditions=assumption_a1,
    measure=measure_zero_temperature,
    functions=("attn_clusters.flows.ZeroTemperatureFlow",
               "attn_clusters.measures.principal_projection",
               "attn_clusters.spectrum.collapse_rate"),
    tests=("tests/test_mean_field.py::test_zero_temperature_holds_on_random_runs",
           "tests/test_mean_field.py::test_zero_temperature_can_say_no"),
)

CBO = Statement(
    key="cbo",
    title="One objective: consensus-based optimisation",
    source=SOURCE,
    status="context",
    assumes="a continuous objective f with a unique minimiser in the support of rho",
    concludes="with f in place of -<Qx, Ky> the weighted mean, the same for every token, tends to "
              "the minimiser of f as beta grows",
    functions=("attn_clusters.flows.consensus_point", "attn_clusters.flows.ConsensusFlow"),
    tests=("tests/test_mean_field.py::test_consensus_point_agrees_with_a_gaussian",
           "tests/test_mean_field.py::test_consensus_point_tends_to_the_minimiser"),
)

STATEMENTS = (LAPLACE, ZERO_TEMPERATURE, CBO)
