"""Statements of the second paper on the three phases: concentration, metastability, terminal law.

The theorem's bound C (sqrt(log(beta + 1) / beta) e^{C_1 t} + e^{-ct}) leaves C open. The verdicts on
`concentration` and `metastability` therefore measure distances in units of
sqrt(log(beta + 1) / beta): the tolerance given to `verify` is the constant C, and 1 is a fair choice.
"""

import numpy as np

from .. import phases as phase
from .core import ROUNDING, Measurement, Statement, above, at_most
from .mean_field import SOURCE, assumption_a1, principal_basis


def _check_run(run):
    if not all(hasattr(run.flow, name) for name in ("B", "V", "beta")):
        raise ValueError(f"run: expected a run of SphereFlow, got {type(run.flow).__name__}")


def measure_concentration(run, tolerance):
    """W2(rho_t, Pi_# rho_0) at every time, in units of sqrt(log(beta + 1) / beta)."""
    _check_run(run)
    return Measurement(principal_basis(run.flow.B, run.flow.V),
                       phase.distance_to_collapsed(run)[:, None],
                       scale=float(phase.laplace_rate(run.flow.beta)))


def metastability_conditions(Q, K, V):
    """A1, a simple mu_1 whose eigenvector phi is one of V too, and a growing centre.

    The last two are what the prediction of the departure needs; the theorem needs A1 alone.
    """
    found = assumption_a1(Q, K, V)
    if not all(item.holds for item in found):
        return found
    B = Q.T @ K
    dimension = principal_basis(B, V).shape[1]
    simple = at_most("mu_1 simple: dim E", dimension, 1)
    if dimension > 1:
        return (*found, simple)
    predicted = phase.phases(B, V)
    return (*found, simple,
            at_most("phi eigenvector of V: sine of the angle of phi and V phi",
                    predicted.misalignment, ROUNDING),
            above("clusters narrow: rate of contraction", predicted.contraction),
            above("clusters leave: rate r of their centres", predicted.growth.max()))


def measure_metastability(run, tolerance):
    """Closest approach to Pi_# rho_0 so far, and the share of the mass that has left at the end."""
    _check_run(run)
    distances = phase.distance_to_collapsed(run)
    basis = principal_basis(run.flow.B, run.flow.V)
    angle = np.linalg.norm(run.tokens[-1] @ basis, axis=1) < phase.HALF_TURN
    weights = run.flow.weights
    left = angle.mean() if weights is None else angle @ weights
    return Measurement(basis, np.minimum.accumulate(distances)[:, None],
                       (above("share of the mass that is more than 45 degrees from E at the last "
                              "time", left, 0.5),),
                       scale=float(phase.laplace_rate(run.flow.beta)))


def measure_terminal(run, tolerance):
    """Distance of every token to the principal eigenspace of V, in the better of its two readings.

    The readings: eigenvalues of largest real part, or of largest magnitude. A complex pair gives
    its invariant plane, on which the law may turn for ever: hence the check that it is at rest.
    """
    _check_run(run)
    spaces = [phase.principal_space(run.flow.V, by) for by in ("real part", "magnitude")]
    distances = [phase.distance_to_space(run.tokens, basis) for basis in spaces]
    best = int(np.argmin([distance[-1].max() for distance in distances]))
    speed = np.linalg.norm(run.flow(run.times[-1], run.tokens[-1]), axis=1).max()
    size = np.linalg.norm(run.flow.V, 2)
    return Measurement(spaces[best], distances[best],
                       (at_most("at rest: largest speed of a token over |V|", speed / size,
                                tolerance),))


TESTS = "tests/test_low_temperature.py::"

CONCENTRATION = Statement(
    key="concentration",
    title="Concentration at low temperature",
    source=f"{SOURCE}, Theorem 1",
    status="proved",
    assumes="B invertible, V B^T symmetric with a gap after its largest eigenvalue (A1); rho_0 has "
            "finite moments of |P_E x|^(-1) (A2) and a strictly positive Lipschitz density (A3)",
    concludes="W2(rho_t, Pi_# rho_0) <= C (sqrt(log(beta + 1) / beta) exp(C_1 t) + exp(-c t))",
    conditions=assumption_a1,
    measure=measure_concentration,
    functions=("attn_clusters.phases.distance_to_collapsed",
               "attn_clusters.phases.concentration_bound",
               "attn_clusters.phases.least_constant"),
    tests=(TESTS + "test_concentration_holds_in_the_waiting_phase",
           TESTS + "test_concentration_can_say_no",
           TESTS + "test_least_constant_bounds_the_grid_and_touches_it"),
)

METASTABILITY = Statement(
    key="metastability",
    title="Metastability",
    source=SOURCE,
    status="proved",
    assumes="as for concentration; for the time of departure also: mu_1 simple, its eigenvector phi "
            "one of V, and an eigenvalue of V beyond that of phi",
    concludes="up to times of order log(beta) the law collapses onto Pi_# rho_0 and stays near it "
              "(proved); after that the finite-temperature error takes over, and the clusters leave "
              "(observed)",
    conditions=metastability_conditions,
    measure=measure_metastability,
    functions=("attn_clusters.phases.phases", "attn_clusters.phases.cluster_rates",
               "attn_clusters.phases.crossing_time", "attn_clusters.phases.departed_share"),
    tests=(TESTS + "test_metastability_holds_on_the_worked_instance",
           TESTS + "test_metastability_can_say_no",
           TESTS + "test_two_atoms_follow_the_oja_flow_of_v",
           TESTS + "test_a_gaussian_cluster_moves_at_the_predicted_rates"),
)

TERMINAL = Statement(
    key="terminal",
    title="The terminal phase",
    source=f"{SOURCE}, Conjecture 1",
    status="conjectured",
    assumes="A1, finite beta, large t",
    concludes="the law leaves Pi_# rho_0 and converges to a stationary law on the principal "
              "eigenspace of V, or of its eigenvalue of largest magnitude",
    conditions=assumption_a1,
    measure=measure_terminal,
    functions=("attn_clusters.phases.principal_space", "attn_clusters.phases.distance_to_space"),
    tests=(TESTS + "test_terminal_holds_on_the_worked_instance",
           TESTS + "test_terminal_can_say_no_to_a_balanced_pair",
           TESTS + "test_terminal_can_say_no_to_a_turning_law"),
)

STATEMENTS = (CONCENTRATION, METASTABILITY, TERMINAL)
