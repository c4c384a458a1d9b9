"""Figures and tables of the chapter on one's own matrices: classify, predict, check."""

import numpy as np

from .. import plots_highdim
from .._tables import number
from ..flows import RescaledFlow
from ..geometry import limit_set, merge
from ..index import Index
from ..simulate import simulate
from ..statements import classify, statements
from .core import experiment
from .numbers import Measured
from .polytope import uniform_tokens

GAPS = (0.8, 0.6, 0.4, 0.2, 0.1, 0.05, 0.02, 0.01, 1e-3, 1e-6, 1e-9)
DENTS = (1e-3, 1e-6, 1e-9)
OTHER_FLOWS = ("feedforward", "multihead", "trained_spectra")
SOLVER = "solver tolerance 1e-7"
HEADER = ("statement", "status", "weakest hypothesis", "margin", "conclusion on this run")


def examples():
    """Name -> (Q, K, V): matrices for which different statements apply, and near misses."""
    I2, I3 = np.eye(2), np.eye(3)
    plane = np.array([[0.64709742, 0.81911926], [0.61210449, 0.63263484]])
    return {
        "identity": (I2, I2, I2),
        "leading direction": (I2, I2, plane),
        "two eigenvalues and a rest": (I3, I3, np.diag([1.0, 1.0, -0.5])),
        "minus identity": (I2, I2, -I2),
        "rotation": (I2, I2, np.array([[1.0, -1.0], [1.0, 1.0]])),
        "gap 1e-9": (I2, I2, np.diag([1.0, 1.0 - 1e-9])),
        "dent 1e-9": (I2, np.diag([1.0, -1e-9]), I2),
    }


def weights_run(Q, K, V, n=30, seed=0, final=10.0, rtol=1e-7):
    """A run of the rescaled tokens from n tokens uniform in [-5, 5]^d, at 41 times."""
    return simulate(RescaledFlow(Q, K, V), uniform_tokens(n, len(V), seed),
                    np.linspace(0.0, final, 41), rtol=rtol)


def check_predictions(run, near=1e-3):
    """What `classify` says of a run's matrices, and whether each conclusion came out on the run.

    Parameters
    ----------
    run : Trajectory
        Of `TokenFlow` or `RescaledFlow`.
    near : float
        Statements whose hypotheses fail by at most this much are listed, too: a conclusion may
        hold where a hypothesis fails.

    Returns
    -------
    Index
        A table with one row for each statement about runs of this kind; `rows` holds its cells.
    """
    flow, rows = run.flow, []
    for key, _, hypotheses in classify(flow.Q, flow.K, flow.V):
        if key in OTHER_FLOWS:
            continue
        weakest = min(hypotheses, key=_strength, default=None)
        if weakest is not None and weakest.margin >= -near and (report := _report(key, run)):
            rows.append(_row(report, statements[key].status, weakest))
    return Index(HEADER, rows, rows)


def _strength(hypothesis):
    """Order of hypotheses: failing ones, then inequalities by margin, then exact equalities."""
    exact = hypothesis.value <= hypothesis.threshold <= 1e-9
    return hypothesis.holds, hypothesis.holds and exact, hypothesis.margin


def _report(key, run):
    try:
        return statements[key].verify(run)
    except ValueError:  # the statement is about another kind of run: on the sphere, several heads
        return None


def _row(report, status, weakest):
    arrived = (report.distances.max() <= report.tolerance
               and all(check.holds for check in report.checks))
    falling = report.rate is not None and report.rate > 0.05
    verdict = "came out" if arrived else "not yet: distance falls" if falling else "did not come out"
    size = number(abs(weakest.margin), 2)
    return (report.statement, status, weakest.name,
            f"holds by {size}" if weakest.holds else f"fails by {size}", verdict)


@experiment(
    "hyperplanes-near-miss", statement="hyperplanes", title="A gap that closes",
    caption="""V = diag(1, 1 - g), Q = K = I, {n} tokens at t = {final:g}. For every g > 0 the
    matrices are a good triple, and the theorem predicts at most three levels of the first
    coordinate. Left: the largest distance to them is below the tolerance (dotted) for g of at least
    {settled} only. Right: the tokens are at {clusters_large} places for the largest g and at
    {clusters_small} for the smallest, which are the {vertices} vertices of V = I.""",
    alt="""Two panels over the gap g, from 0.8 down to 1e-9. Left: the distance to hyperplanes rises
    from rounding to a fifth of the tokens' size. Right: the number of places rises from
    {clusters_large} to {clusters_small}.""",
    draw=plots_highdim.near_miss, n=30, seed=0, final=20.0, gaps=GAPS, tolerance=0.02)
def gap_closes(n, seed, final, gaps, tolerance):
    """Distance to the prediction and number of clusters at one time, for gaps from 0.8 to 1e-9."""
    identity, distances, clusters = np.eye(2), [], []
    for gap in gaps:
        run = weights_run(identity, identity, np.diag([1.0, 1.0 - gap]), n, seed, final)
        report = statements["hyperplanes"].verify(run, tolerance)
        distances.append(report.distances.max() / report.tolerance * tolerance)
        clusters.append(len(merge(run.tokens[-1], report.tolerance)))
    last = weights_run(identity, identity, identity, n, seed, final).tokens[-1]
    distances, gaps = np.array(distances), np.array(gaps)
    numbers = {
        "settled": Measured(gaps[distances <= tolerance].min(),
                            "smallest gap with distance below the tolerance", 1, "on this grid"),
        "far": Measured(distances[-1], "distance at the smallest gap, relative", 3, SOLVER),
        "clusters_large": Measured(clusters[0], "places at the largest gap"),
        "clusters_small": Measured(clusters[-1], "places at the smallest gap"),
        "vertices": Measured(len(limit_set(last, identity, tolerance)[1]), "vertices for V = I"),
    }
    return {"gaps": gaps, "distances": np.maximum(distances, 1e-12),
            "clusters": np.array(clusters), "tolerance": np.array(tolerance)}, numbers


@experiment(
    "polytope-near-miss", statement="polytope", title="A slightly indefinite QᵀK",
    caption="""V = I, QᵀK = diag(1, s) with s = ε or s = -ε: the theorem on polytopes applies to the
    first and fails for the second by ε. Largest distance over {n} tokens between the two runs
    from the same start, against time, for three ε: it never exceeds {ratio_0} ε, {ratio_1} ε and
    {ratio_2} ε.""",
    alt="""Three curves of the same shape on a logarithmic axis, one for each ε: they rise at once,
    fall a little and stay constant, in proportion to ε.""",
    draw=plots_highdim.dents, n=30, seed=0, final=12.0, dents=DENTS)
def dents(n, seed, final, dents):
    """Distance between runs with smallest eigenvalue +eps and -eps."""
    identity, apart = np.eye(2), []
    for dent in dents:
        plus, minus = (weights_run(identity, np.diag([1.0, sign * dent]), identity, n, seed, final,
                                   rtol=1e-10) for sign in (1, -1))
        apart.append(np.linalg.norm(plus.tokens - minus.tokens, axis=2).max(axis=1))
    apart = np.array(apart)
    numbers = {f"ratio_{k}": Measured(curve.max() / dent, f"largest distance / ε, ε = {dent:g}", 2,
                                      "solver tolerance 1e-10")
               for k, (dent, curve) in enumerate(zip(dents, apart, strict=True))}
    return {"times": np.linspace(0.0, final, 41), "apart": np.maximum(apart, 1e-12),
            "dents": np.array(dents)}, numbers
