"""Statements of the first paper without a growing V, and what it shows beyond its theorems."""

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.integrate import quad
from scipy.special import lambertw, logsumexp

from .. import spectrum
from ..attention import attention_matrix
from ..flows import FeedForwardFlow, MultiHeadFlow
from .clusters import rescaled_tokens, unrescaled_tokens
from .core import ROUNDING, Measurement, Statement, above, at_most

SOURCE = "Geshkovski, Letrouit, Polyanskiy, Rigollet 2023, "


def identity_query_key(Q, K):
    """The hypothesis Q^T K = I."""
    B = spectrum.score_matrix(Q, K)
    return at_most("Q^T K = I: |Q^T K - I|", np.linalg.norm(B - np.eye(len(B)), 2), ROUNDING)


def identity_value(V, sign=1):
    """The hypothesis V = I, or V = -I for the other sign."""
    name = "I" if sign > 0 else "-I"
    deviation = np.linalg.norm(V - sign * np.eye(len(V)), 2)
    return at_most(f"V = {name}: |V - ({name})|", deviation, ROUNDING)


# --- V = -I --------------------------------------------------------------------------------------

def collapse_conditions(Q, K, V):
    """V = -I and Q^T K = I."""
    return identity_value(V, -1), identity_query_key(Q, K)


def log_energy(tokens):
    """Logarithm of F = sum_ij exp<x_i, x_j>, for tokens (..., n, d).

    For V = -I and Q^T K = I it obeys dF/dt = -2 sum_i Z_i |dx_i/dt|^2 with Z_i = sum_j
    exp<x_i, x_j> >= 1, and F >= n^2: hence the integral of sum_i |dx_i/dt|^2 is finite.
    """
    scores = tokens @ tokens.swapaxes(-1, -2)
    return logsumexp(scores, axis=(-2, -1))


def outward_radius(n):
    """The largest |x_i| at which a token can still move outwards, for V = -I and Q^T K = I.

    d|x_i|^2/dt = -2 sum_j P_ij <x_i, x_j>, and sum_j s_j e^{s_j} >= r^2 e^{r^2} - (n - 1) / e for
    the scores s_j = <x_i, x_j> with s_i = r^2: negative once r^2 e^{r^2} > (n - 1) / e.
    """
    return float(np.sqrt(lambertw((n - 1) / np.e).real))


def measure_collapse(run, tolerance):
    """Distance of every token to 0; the radius, the energy F and the attention matrix as checks."""
    x = unrescaled_tokens(run)
    n, norms = x.shape[1], np.linalg.norm(x, axis=2)
    scale = norms[0].max()
    rises = np.diff(log_energy(x)).max(initial=0.0)
    P = attention_matrix(x[-1], run.flow.Q, run.flow.K)
    # The solver's error per step is below its tolerance; 1e-6 leaves room for its interpolation.
    checks = (at_most("radius: max |x_i| / max(|x_i(0)|, sqrt(2n))",
                      norms.max() / max(scale, np.sqrt(2 * n)), 1 + 1e-6),
              at_most("F = sum exp<x_i, x_j> never grows: largest rise of log F", rises, 1e-6),
              at_most("P -> 1/n: largest |n P_ij - 1| at the last time",
                      np.abs(n * P - 1).max(), tolerance))
    return Measurement(np.zeros((1, x.shape[2])), norms, checks, scale, algebraic=True)


# --- clusters without a theorem ------------------------------------------------------------------

def cluster_labels(points, distance):
    """Number of the cluster of each point: points chain together at gaps of at most `distance`."""
    if len(points) == 1:
        return np.zeros(1, int)
    return fcluster(linkage(points, "single"), distance, criterion="distance") - 1


def measure_clusters(positions, tolerance):
    """Distance of every token to the centre of its cluster; clusters are those of the last time.

    Centres move with their clusters, so that a cloud that turns as a whole may still cluster.
    """
    scale = np.linalg.norm(positions[-1], axis=1).max()
    labels = cluster_labels(positions[-1], tolerance * scale)
    member = (labels == np.arange(labels.max() + 1)[:, None]).astype(float)
    centres = member / member.sum(axis=1, keepdims=True) @ positions
    distances = np.linalg.norm(positions - centres[:, labels], axis=2)
    fewer = at_most("clusters: their number, at most half the number of tokens",
                    len(member), positions.shape[1] // 2)
    return Measurement(centres[-1], distances, (fewer,), scale)


def indefinite_conditions(Q, K, V):
    """V = I, and Q^T K has a symmetric part with a negative eigenvalue."""
    B = spectrum.score_matrix(Q, K)
    return (identity_value(V),
            above("Q^T K not positive semidefinite: minus its smallest eigenvalue",
                  -spectrum.smallest_eigenvalue(B), spectrum.resolution(B)))


def measure_indefinite(run, tolerance):
    """Distance of every rescaled token to the centre of its cluster."""
    return measure_clusters(rescaled_tokens(run), tolerance)


def random_v_conditions(Q, K, V):
    """The leading eigenvalues of V are a complex pair with positive real part."""
    value = spectrum.leading_eigenpair(V).value
    resolution = spectrum.resolution(V)
    return (above("leading eigenvalues a complex pair: |imaginary part|", abs(value.imag),
                  resolution),
            above("their real part positive", value.real, resolution))


def measure_random_v(run, tolerance):
    """Distance of every rescaled token to its cluster, seen in the plane of the leading pair."""
    left = spectrum.leading_eigenpair(run.flow.V).left
    plane = np.stack([np.real(left), np.imag(left)])
    return measure_clusters(rescaled_tokens(run) @ plane.T, tolerance)


def multihead_conditions(Q, K, V):
    """More than one head."""
    return (above("several heads: their number", len(V) if np.ndim(V) == 3 else 1, 1),)


def measure_multihead(run, tolerance):
    """Distance of every token to the centre of its cluster, relative to the largest token."""
    if not isinstance(run.flow, MultiHeadFlow):
        raise ValueError(f"run: expected a run of MultiHeadFlow, got {type(run.flow).__name__}")
    largest = np.linalg.norm(run.tokens, axis=2).max(axis=1)
    return measure_clusters(run.tokens / largest[:, None, None], tolerance)


# --- feed-forward --------------------------------------------------------------------------------

def feedforward_conditions(Q, K, V):
    """(Q, K, V) is a good triple, as for the hyperplanes."""
    leading = spectrum.leading_eigenpair(V)
    B = spectrum.score_matrix(Q, K)
    eps = len(V) * np.finfo(float).eps
    score = (leading.right.conj() @ B @ leading.right).real
    return (at_most("leading eigenvalue real: |imaginary part|", abs(leading.value.imag),
                    eps * np.linalg.norm(V, 2)),
            above("leading eigenvalue positive: real part", leading.value.real),
            above("leading eigenvalue simple: |lambda_1| - |lambda_2|", leading.gap,
                  eps * np.linalg.norm(V, 2)),
            above("<Q phi_1, K phi_1> > 0", score, eps * np.linalg.norm(B, 2)))


def feedforward_drive(flow, size=1.0):
    """How a late token on either side of phi_1* = 0 is driven, for a good triple.

    Late attention picks the token farthest out on one's own side, so that the activation sees about
    s lambda_1 phi_1, where s is the gap to it in phi_1*.

    Parameters
    ----------
    flow : FeedForwardFlow
    size : float
        |s|.

    Returns
    -------
    above, below : float
        phi_1*(W sigma(s lambda_1 phi_1)) / s for s = size and s = -size. Positive: tokens on that
        side catch up with the farthest; zero: they stand still; negative: they go back towards
        the plane phi_1* = 0.
    """
    leading = spectrum.leading_eigenpair(flow.V)
    gaps = np.array([size, -size])
    seen = gaps[:, None] * (leading.value.real * np.real(leading.right))
    rise = flow.drive(seen) @ np.real(leading.left) / gaps
    return float(rise[0]), float(rise[1])


def measure_feedforward(run, tolerance):
    """Distance of every token to the nearest of the hyperplanes phi_1* = min, 0 and max."""
    if not isinstance(run.flow, FeedForwardFlow):
        raise ValueError(f"run: expected a run of FeedForwardFlow, got {type(run.flow).__name__}")
    left = np.real(spectrum.leading_eigenpair(run.flow.V).left)
    levels = run.tokens @ (left / np.linalg.norm(left))
    limit = np.array([min(levels[-1].min(), 0.0), 0.0, max(levels[-1].max(), 0.0)])
    distances = np.abs(levels[..., None] - limit).min(axis=-1)
    return Measurement(limit, distances, (), np.linalg.norm(run.tokens[0], axis=1).max())


# --- two tokens ----------------------------------------------------------------------------------

def log_split(e):
    """log c for the limits m + (c/e) y and m - (c/e) y of two rescaled tokens m + y and m - y.

    For Q = K = V = I, <m, y> = 0 and |y| = e the half distance of the unrescaled tokens obeys
    de/dt = tanh(e^2) e, so that c = lim e^{-t} e(t) satisfies

    log c = (log pi - gamma) / 2 - 1 / (2 e^2) + (1/2) int_0^{e^2} (coth u - 1/u) / u du

    with Euler's constant gamma. For small e, c = sqrt(pi) e^{-gamma/2} e^{-1/(2 e^2)}
    up to a factor 1 + O(e^2).

    Parameters
    ----------
    e : float
        Half the distance of the tokens at t = 0, positive.

    Returns
    -------
    float
        Accurate to about 1e-13 of its size; c itself leaves float64 below e = 0.026.
    """
    def integrand(u):
        if u < 1e-3:  # (coth u - 1/u) / u by its series, where the difference would cancel
            return 1 / 3 - u**2 / 45 + 2 * u**4 / 945
        return (1 / np.tanh(u) - 1 / u) / u

    # Beyond u = 20, coth u is 1 to the last bit and the integral is elementary.
    upper = min(e**2, 20.0)
    integral = quad(integrand, 0.0, upper, epsabs=1e-13, epsrel=1e-13, limit=200)[0]
    if e**2 > upper:
        integral += np.log(e**2 / upper) + 1 / e**2 - 1 / upper
    return float((np.log(np.pi) - np.euler_gamma) / 2 - 1 / (2 * e**2) + integral / 2)


def two_tokens_conditions(Q, K, V):
    """V = I and Q^T K = I."""
    return identity_value(V), identity_query_key(Q, K)


def measure_two_tokens(run, tolerance):
    """Distance of both rescaled tokens to their limits, and of P to the identity matrix."""
    z = rescaled_tokens(run)
    middle, half = z[0].mean(axis=0), (z[0, 0] - z[0, -1]) / 2
    scale, e = np.linalg.norm(z[0], axis=1).max(), np.linalg.norm(half)
    if z.shape[1] != 2 or e == 0 or abs(middle @ half) > 1e-12 * scale**2:
        raise ValueError("run: expected two distinct tokens of equal norm at t = 0, got "
                         f"{z.shape[1]} with norms {np.linalg.norm(z[0], axis=1)}")
    shift = np.exp(log_split(e)) / e * half
    limit = np.stack([middle + shift, middle - shift])
    # P_11 = P_22 = 1 / (1 + exp(-2 e(t)^2)), from the distance of the tokens: scores would cancel.
    exponent = np.exp(run.times[-1]) ** 2 * np.sum((z[-1, 0] - z[-1, 1]) ** 2) / 2
    outside = 1 / (1 + np.exp(min(exponent, 700.0)))
    checks = (at_most("P -> identity: P_12 at the last time", outside, tolerance),)
    return Measurement(limit, np.linalg.norm(z - limit, axis=2), checks, scale)


TESTS = "tests/test_beyond.py::"

COLLAPSE = Statement(
    key="collapse",
    title="Collapse for V = -I",
    source=SOURCE + "the case V = -I",
    status="proved",
    assumes="V = -I and Q^T K = I",
    concludes="every token converges to 0 and P(t) to the matrix with all entries 1/n; no token "
              "leaves the ball of radius max(|x_i(0)|, sqrt(2n)), the integral of |dx_i/dt|^2 "
              "is finite, and 0 is the only stationary state",
    conditions=collapse_conditions,
    measure=measure_collapse,
    functions=("attn_clusters.flows.TokenFlow", "attn_clusters.statements.beyond.log_energy",
               "attn_clusters.statements.beyond.outward_radius"),
    tests=("tests/test_collapse.py::test_collapse_holds_on_random_runs",
           "tests/test_collapse.py::test_collapse_can_say_no",
           "tests/test_collapse.py::test_radius_bounds",
           "tests/test_collapse.py::test_energy_identity",
           "tests/test_collapse.py::test_rates_near_zero"),
)

INDEFINITE = Statement(
    key="indefinite",
    title="Scores that are not positive definite",
    source=SOURCE + "figures and section 12",
    status="observed",
    assumes="V = I, and Q^T K not positive semidefinite",
    concludes="rescaled tokens still gather in a few clusters",
    conditions=indefinite_conditions,
    measure=measure_indefinite,
    functions=("attn_clusters.flows.RescaledFlow",
               "attn_clusters.statements.beyond.measure_clusters"),
    tests=(TESTS + "test_indefinite_scores_cluster", TESTS + "test_clusters_can_say_no"),
)

RANDOM_V = Statement(
    key="random_v",
    title="Values with a complex leading pair",
    source=SOURCE + "figures and section 12",
    status="open",
    assumes="the leading eigenvalues of V are a complex pair, with positive real part",
    concludes="the paper expects no clustering for complex pairs; in the runs here rescaled tokens "
              "do cluster in the plane of the pair if its real part is positive, late, "
              "and do not if it is negative. The verdict is about clusters that form",
    conditions=random_v_conditions,
    measure=measure_random_v,
    functions=("attn_clusters.flows.RescaledFlow", "attn_clusters.spectrum.leading_eigenpair",
               "attn_clusters.statements.beyond.measure_clusters"),
    tests=(TESTS + "test_complex_pair_with_positive_real_part_clusters",
           TESTS + "test_clusters_can_say_no"),
)

FEEDFORWARD = Statement(
    key="feedforward",
    title="Feed-forward layers",
    source=SOURCE + "figures and section 12",
    status="open",
    assumes="(Q, K, V) is a good triple, as for the hyperplanes",
    concludes="the tokens approach at most three parallel hyperplanes phi_1* = a, 0, b; "
              "false for ReLU whenever phi_1 has only positive entries: one side then stands still",
    conditions=feedforward_conditions,
    measure=measure_feedforward,
    functions=("attn_clusters.flows.FeedForwardFlow",
               "attn_clusters.statements.beyond.feedforward_drive"),
    tests=(TESTS + "test_feedforward_agrees_with_the_naive_loop",
           TESTS + "test_identity_activation_is_the_rescaled_flow",
           TESTS + "test_feedforward_verdict_says_yes_and_no",
           TESTS + "test_drive_predicts_what_tokens_do"),
)

MULTIHEAD = Statement(
    key="multihead",
    title="Several heads",
    source=SOURCE + "figures and section 12",
    status="open",
    assumes="more than one head",
    concludes="tokens, seen relative to the largest of them, gather in a few clusters",
    conditions=multihead_conditions,
    measure=measure_multihead,
    functions=("attn_clusters.flows.MultiHeadFlow",
               "attn_clusters.statements.beyond.measure_clusters"),
    tests=(TESTS + "test_multihead_agrees_with_the_naive_loop",
           TESTS + "test_one_head_is_the_token_flow",
           TESTS + "test_multihead_verdict_says_yes_and_no"),
)

TWO_TOKENS = Statement(
    key="two_tokens",
    title="Two tokens, worked out",
    source=SOURCE + "remark at the end of section 7",
    status="proved",
    assumes="Q^T K = V = I, and two tokens of equal norm at half distance e > 0",
    concludes="the rescaled tokens converge to two points at half distance c(e) > 0, of order "
              "exp(-1/(2 e^2)), and P to the identity; the remark in the paper says one cluster",
    conditions=two_tokens_conditions,
    measure=measure_two_tokens,
    functions=("attn_clusters.statements.beyond.log_split",),
    tests=(TESTS + "test_two_tokens_end_where_the_closed_form_says",
           TESTS + "test_two_tokens_can_say_no",
           TESTS + "test_log_split_agrees_with_the_scalar_equation",
           TESTS + "test_log_split_for_small_and_large_distances"),
)

STATEMENTS = (COLLAPSE, INDEFINITE, RANDOM_V, FEEDFORWARD, MULTIHEAD, TWO_TOKENS)
