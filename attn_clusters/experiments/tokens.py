"""Figures of the chapter on tokens as particles: the two flows, discrete time, accuracy."""

from functools import partial

import numpy as np

from .. import plots
from ..attention import attention_matrix
from ..flows import RescaledFlow, TokenFlow
from ..simulate import simulate
from .core import experiment
from .numbers import Measured, bounded
from .polytope import uniform_tokens

EQUIVALENCE = (1e-4, 1e-7, 1e-10)
VALUE = ((0.9, 0.4), (-0.2, 0.6))


@experiment(
    "wellposed-rescaling", statement="wellposed", title="Tokens run away, rescaled tokens settle",
    caption="""{n} tokens in the plane with Q = K = V = I. Left: the tokens x grow like exp(t). Right:
    the rescaled tokens z = exp(-t) x of the same run, which settle at a few points.""",
    alt="""Left: sizes of tokens on a logarithmic axis, straight lines rising from about 5 to about
    1e5 at t = {final}. Right: curves in the plane from {n} scattered circles to a few squares.""",
    draw=plots.rescaling, n=24, seed=4, final=10.0)
def wellposed_rescaling(n, seed, final):
    """Growth of x against the settling of z."""
    identity, times = np.eye(2), final * np.linspace(0, 1, 201) ** 2
    run = simulate(RescaledFlow(identity, identity, identity), uniform_tokens(n, 2, seed), times)
    tokens = np.stack([run.flow.propagate(t, z) for t, z in zip(times, run.tokens, strict=True)])
    norms = np.linalg.norm(tokens, axis=2)
    late = times >= final / 2
    growth = np.polyfit(times[late], np.log(norms[late].max(axis=1)), 1)[0]
    numbers = {"growth": Measured(growth, "fitted rate of growth of the largest |x|", 3,
                                  "fit over the second half of the run"),
               "largest": Measured(norms[-1].max(), f"largest |x| at t = {final:g}", 4)}
    return {"times": times, "norms": norms, "tokens": run.tokens}, numbers


def _gap(token_run, rescaled_run, back):
    """Largest relative distance of x and the unrescaled z, at each time."""
    unscaled = np.stack([back(k, z) for k, z in enumerate(rescaled_run.tokens)])
    sizes = np.abs(token_run.tokens).max(axis=(1, 2))
    return np.abs(unscaled - token_run.tokens).max(axis=(1, 2)) / sizes


@experiment(
    "wellposed-equivalence", statement="wellposed", title="Two flows, one dynamics",
    caption="""Largest relative distance of x(t) and exp(tV) z(t), computed from A1 and from A2 with
    {n} tokens and a value matrix V that is not symmetric, at three solver tolerances, and the same
    for the layers of the discrete-time transformer (step {step}). The change of variables is
    exact: what is left is the error of the solver, and rounding for the layers.""",
    alt="""Four curves on a logarithmic axis against time: the relative distance falls with the
    solver's tolerance, by three decades each time, and lies near rounding for discrete layers.""",
    draw=partial(plots.curves, xlabel="time t", ylabel="relative distance", scale="log"),
    n=40, V=VALUE, seed=6, final=2.0, step=0.05)
def wellposed_equivalence(n, V, seed, final, step):
    """A1 against A2, continuous and discrete."""
    identity, tokens, times = np.eye(2), uniform_tokens(n, 2, seed), np.arange(0, final, step)
    flows = TokenFlow(identity, identity, V), RescaledFlow(identity, identity, V)
    gaps = []
    for rtol in EQUIVALENCE:
        runs = [simulate(flow, tokens, times, rtol=rtol, atol=rtol) for flow in flows]
        gaps.append(_gap(*runs, lambda k, z: flows[1].propagate(times[k], z)))
    layers = [simulate(flow, tokens, times, method="Euler") for flow in flows]
    R = np.eye(2) + step * np.array(V)
    gaps.append(_gap(*layers, lambda k, z: z @ np.linalg.matrix_power(R, k).T))
    gaps = np.maximum(gaps, np.finfo(float).eps / 4)
    labels = [f"solver tolerance {rtol:.0e}" for rtol in EQUIVALENCE] + ["discrete layers"]
    # A tolerance is per step; along the path errors add up and are stretched by the flow.
    limits = [*(100 * rtol for rtol in EQUIVALENCE), 1e-13]
    whys = ["errors per step add up along the path"] * len(EQUIVALENCE) + ["rounding"]
    numbers = {f"gap_{index}": bounded(gaps[index].max(), limits[index],
                                       f"largest relative distance, {label}", whys[index])
               for index, label in enumerate(labels)}
    return {"x": times, "values": gaps, "labels": np.array(labels)}, numbers


def plain_euler(flow, tokens, times, step):
    """Explicit Euler on A2 as it stands, not in the discrete form that `RescaledFlow` offers."""
    return simulate(lambda t, z: flow(t, z), tokens, times, method="Euler", step=step)


def four_stages(flow, tokens, step):
    """One step from t = 0 in the released code's four stages, written from its description.

    The attention matrix is computed once, and for each token every stage adds one and the same
    vector to all tokens.
    """
    P, moved = attention_matrix(tokens, flow.Q, flow.K), np.empty_like(tokens)
    for i in range(len(tokens)):
        def slope(shift, i=i):
            shifted = tokens + shift
            return step * P[i] @ (shifted - shifted[i]) @ flow.V.T

        first = slope(0.0)
        second = slope(first / 2)
        third = slope(second / 2)
        moved[i] = tokens[i] + (first + 2 * second + 2 * third + slope(third)) / 6
    return moved


def released_error(flow, tokens, times):
    """Path error of Euler with step 0.1."""
    reference = simulate(flow, tokens, times)
    return path_error(plain_euler(flow, tokens, times, 0.1), reference)


def path_error(run, reference):
    """Largest distance of a token from where the reference has it, over all times."""
    return np.linalg.norm(run.tokens - reference.tokens, axis=2).max()


@experiment(
    "wellposed-work-precision", statement="wellposed", title="What accuracy costs",
    caption="""Largest error along the path of {n} rescaled tokens (plane, Q = K = V = I, t up to
    {final}) against evaluations of the flow, for tolerances from 1e-3 to 1e-11 and for explicit
    Euler. The circle is Euler with step 0.1, to which the released code of the first paper
    amounts: its error here is {released}; over {runs} random starts its median is {median}, and in
    {astray} of them a token ends at another vertex. The reference ran at 1e-13 and agrees with a second
    solver to {reference_gap}.""",
    alt="""Errors against evaluations on logarithmic axes. Euler's error falls like one over the number
    of evaluations, from about 1 to about 1e-3; DOP853, RK45 and LSODA fall steeply, to 1e-9 with
    a few hundred to a few thousand evaluations.""",
    draw=plots.work_precision, n=40, seed=0, final=10.0, runs=40)
def wellposed_work_precision(n, seed, final, runs):
    """Path error against work for several solvers."""
    identity, tokens, times = np.eye(2), uniform_tokens(n, 2, seed), np.linspace(0, final, 101)
    flow = RescaledFlow(identity, identity, identity)
    reference = simulate(flow, tokens, times, rtol=1e-13, atol=1e-14)
    second = simulate(flow, tokens, times, rtol=1e-12, atol=1e-13, method="LSODA")
    tolerances, methods = 10.0 ** -np.arange(3, 12), ("DOP853", "RK45", "LSODA")
    rows = [[simulate(flow, tokens, times, rtol=rtol, atol=rtol * 1e-3, method=method)
             for rtol in tolerances] for method in methods]
    steps = 0.1 / 2.0 ** np.arange(len(tolerances))
    rows.append([plain_euler(flow, tokens, times, step) for step in steps])
    errors = np.array([[path_error(run, reference) for run in row] for row in rows])
    evaluations = np.array([[run.evaluations for run in row] for row in rows], float)
    coarse = np.array([released_error(flow, uniform_tokens(n, 2, seed + index), times)
                       for index in range(runs)])
    order = -np.polyfit(np.log(evaluations[3, 4:]), np.log(errors[3, 4:]), 1)[0]
    numbers = {
        "released": Measured(errors[3, 0], "error of Euler with step 0.1", 2, "solver error 1e-9"),
        "runs": Measured(runs, "random starts"),
        "median": Measured(np.median(coarse), "median of that error over the random starts", 2,
                           "solver error 1e-9"),
        "astray": Measured(int((coarse > 2).sum()),
                           "starts for which the error exceeds 2, another vertex being reached"),
        "stages": bounded(np.abs(four_stages(flow, tokens, 0.1) - tokens
                                 - 0.1 * flow(0.0, tokens)).max(), 1e-14,
                          "distance of one four-stage step of the released code from Euler's",
                          "rounding"),
        "order": Measured(order, "measured order of Euler at small steps", 2, "five step sizes"),
        "default": bounded(errors[0, 6], 1e-6, "error of DOP853 at the default tolerance 1e-9",
                           "the solver's error accumulates along the path"),
        "work": Measured(int(evaluations[0, 6]) // 100 * 100,
                         "its evaluations, rounded down to hundreds"),
        "reference_gap": bounded(path_error(second, reference), 1e-9,
                                 "distance of the reference from LSODA at 1e-12",
                                 "tolerance 1e-12 times the length of the path"),
    }
    return {"evaluations": evaluations, "errors": errors, "labels": np.array([*methods, "Euler"]),
            "marked": np.array([evaluations[3, 0], errors[3, 0]])}, numbers
