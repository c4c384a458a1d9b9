"""Figures of the chapter on the terminal phase (Conjecture 1 of the second paper)."""

from functools import lru_cache

import numpy as np
from scipy.stats import binomtest

from .. import plots_low_temperature as plots
from ..flows import SphereFlow
from ..measures import UniformLaw
from ..phases import distance_to_space, principal_space
from ..simulate import simulate
from ..spectrum import smallest_eigenvalue
from ..statements import statements
from ..sweep import sweep
from .concentration import SOLVER, law_run, tilted
from .core import experiment
from .numbers import Measured, bounded

# Name, V, B, angle and degree of the initial law.
CASES = (
    ("V = diag(1, 2)", ((1, 0), (0, 2)), ((1, 0), (0, 0.15)), 1.0, 1),
    ("V = diag(-1, -2), B = diag(-1, -0.15)", ((-1, 0), (0, -2)), ((-1, 0), (0, -0.15)), 1.0, 1),
    ("V not symmetric", ((1, 0.6), (0, 2)), ((1, 0), (-0.09, 0.15)), 1.0, 1),
    ("V with a complex pair", ((1, -1.5), (1.5, 1)), None, 1.0, 1),
    ("B = diag(1, -0.15), opposite clusters", ((1, 0), (0, 2)), ((1, 0), (0, -0.15)), 0.8, 2),
    ("V = diag(-1, -2), B = diag(1, 0.15)", ((-1, 0), (0, -2)), ((1, 0), (0, 0.15)), 1.0, 1),
)
TOLERANCE = 0.02


def score_for(V, M):
    """The B for which V B^T is the symmetric matrix M."""
    return np.linalg.solve(np.asarray(V, float), np.asarray(M, float)).T


def case_matrices(case):
    """V and B of one of the CASES; without a B, V B^T = diag(1, 0.3)."""
    _, V, B, _, _ = case
    V = np.array(V, float)
    return V, score_for(V, np.diag([1.0, 0.3])) if B is None else np.array(B, float)


@experiment(
    "terminal-plane", statement="terminal", title="Where the law ends: six cases in the plane",
    caption="""Angles of {nodes} tokens at β = {beta:g}; marks at the right: the principal eigenspace
    of V (eigenvalue of largest magnitude). The worked instance, a negative leading eigenvalue and a
    V that is not symmetric end there. With a complex pair the law turns for ever. The last two
    satisfy A1 too and come to rest elsewhere: two opposite clusters that balance at
    {balance}° (predicted {balance_theory}°), and a repelling V that no narrow cluster survives. The
    conjecture holds in {holding} of the six.""",
    alt="""Six panels of angles against time. Three end on marked angles; one goes round and round; one
    ends on two opposite angles off the marks; one stays spread out.""",
    draw=plots.path_panels, beta=50.0, nodes=64, final=60.0)
def terminal_plane(beta, nodes, final):
    """Six cases under the terminal statement's verdict."""
    times, runs, marks, held = np.linspace(0.0, final, 601), [], [], []
    for case in CASES:
        V, B = case_matrices(case)
        law = tilted(case[3], 0.5, case[4])
        run = law_run(law, nodes, beta, times, B, V)
        runs.append(run)
        held.append(statements["terminal"].verify(run, TOLERANCE).holds)
        basis = principal_space(V, "magnitude")
        angle = np.degrees(np.arctan2(basis[1, 0], basis[0, 0])) if basis.shape[1] == 1 else np.nan
        marks.append([angle, (angle + 360) % 360 - 180])
    last = runs[4].tokens[-1]
    balance = np.degrees(np.arctan2(np.abs(last[:, 1]), np.abs(last[:, 0])))
    numbers = {
        "holding": Measured(int(sum(held)), "cases in which the conjecture holds"),
        "balance": Measured(balance.mean(), "angle of the balanced pair in degrees", 3, SOLVER),
        "balance_theory": Measured(np.degrees(np.arctan(np.sqrt(1 / 0.15))),
                                   "where <x, Bx> = 0, in degrees", 3),
    }
    shown = [times <= 20] * 3 + [times >= final - 20] + [times <= 40, times <= 20]
    angles = [np.degrees(np.arctan2(run.tokens[..., 1], run.tokens[..., 0])) for run in runs]
    # Every panel has 201 times: shorter windows would need ragged arrays.
    place = [np.flatnonzero(mask)[:: max(1, mask.sum() // 201)][:201] for mask in shown]
    return {"times": np.array([times[k] - times[k[0]] for k in place]),
            "angles": np.array([a[k] for a, k in zip(angles, place, strict=True)]),
            "titles": np.array([case[0] for case in CASES]), "marks": np.array(marks)}, numbers


SPACES = (
    ("simple", np.diag([1.0, 2.0, 0.5]), np.diag([1.0, 0.15, 0.3])),
    ("double", np.diag([1.5, 2.0, 2.0]), np.diag([1.0, 0.15, 0.1])),
    ("negative", np.diag([-1.0, -2.5, 0.5]), np.diag([-1.0, -0.15, 0.3])),
    ("not symmetric", np.array([[1.0, 0.6, 0.2], [0.0, 2.2, 0.3], [0.0, 0.0, 0.5]]), None),
)


@experiment(
    "terminal-spaces", statement="terminal", title="Arrival at the principal eigenspace on S²",
    caption="""Largest distance of {n} random tokens on S² from the principal eigenspace of V at
    β = {beta:g}: a simple eigenvalue, a double one, a negative one of largest magnitude, and a V
    that is not symmetric. The distances fall exponentially, with rates {rate_0}, {rate_1}, {rate_2}
    and {rate_3}; Oja's flow of V predicts the gap of its spectrum, {gap_0}, {gap_1}, {gap_2}
    and {gap_3} (grey for the first three).""",
    alt="""Four curves on a logarithmic axis that stay near 1 for some time and then fall along
    straight lines.""",
    draw=plots.scaled_curves, n=100, beta=50.0, seed=2, final=45.0)
def terminal_spaces(n, beta, seed, final):
    """Distances to the principal eigenspace for four kinds of spectrum."""
    times, curves, guides, numbers = np.linspace(0.0, final, 301), [], [], {}
    tokens = UniformLaw(3).sample(n, seed)
    for k, (name, V, B) in enumerate(SPACES):
        B = score_for(V, np.diag([1.0, 0.3, 0.15])) if B is None else B
        run = simulate(SphereFlow(B, V, beta), tokens, times, rtol=1e-8, atol=1e-13)
        distance = distance_to_space(run.tokens, principal_space(V, "magnitude")).max(axis=1)
        late = (distance < 1e-2) & (distance > 1e-6)
        sizes = np.sort(np.abs(np.linalg.eigvals(V)))[::-1]
        gap = sizes[0] - sizes[sizes < sizes[0] - 1e-9][0]
        curves.append(distance)
        guides.append(distance[late][0] * np.exp(-gap * (times - times[late][0])))
        numbers[f"rate_{k}"] = Measured(-np.polyfit(times[late], np.log(distance[late]), 1)[0],
                                        f"rate of arrival, {name}", 2, "window of the fit")
        numbers[f"gap_{k}"] = Measured(gap, f"gap of the spectrum of V, {name}", 2)
        numbers[f"end_{k}"] = bounded(distance[-1], 1e-6, f"last distance, {name}", "finite time")
    return {"x": times, "values": np.array(curves),
            "labels": np.array([name for name, _, _ in SPACES]), "xlabel": "time t",
            "ylabel": "largest distance to the eigenspace", "guides": np.array(guides[:3]),
            "guide_labels": np.array([f"gap, {name}" for name, _, _ in SPACES[:3]]),
            "low": 1e-7}, numbers


KINDS = ("V and B commute", "B and VBᵀ positive definite", "any V")
GROUPS = ("V, B commute, positive definite", "leading value > 0, B + Bᵀ positive definite",
          "leading value > 0, B + Bᵀ indefinite", "leading value < 0", "leading complex pair")
WORDS = ("commute", "definite", "indefinite", "repels", "complex")
LONGER = 4


def random_instance(kind, d, seed):
    """Random V and B with V B^T symmetric: A1 holds with probability 1.

    Positive definite matrices are G G^T / d + I / 10 for a Gaussian G; the commuting ones share
    random eigenvectors and have eigenvalues uniform in [0.1, 1]; other V are Gaussian, with the
    symmetric part of a Gaussian matrix for V B^T. V and B are scaled to norm 1, which only changes
    the units of time and of beta.
    """
    rng = np.random.default_rng([seed, d, KINDS.index(kind)])
    first, second = rng.standard_normal((2, d, d))
    if kind == KINDS[0]:
        frame = np.linalg.qr(first)[0]
        V, B = ((frame * rng.uniform(0.1, 1.0, d)) @ frame.T for _ in range(2))
    elif kind == KINDS[1]:
        B = first @ first.T / d + 0.1 * np.eye(d)
        V = np.linalg.solve(B, second @ second.T / d + 0.1 * np.eye(d)).T
    else:
        V, B = first, score_for(first, second + second.T)
    return V / np.linalg.norm(V, 2), B / np.linalg.norm(B, 2), rng


def group_of(kind, V, B):
    """Index among GROUPS: by the eigenvalue of V of largest real part and by B."""
    basis = principal_space(V)
    if kind == KINDS[0]:
        return 0
    if basis.shape[1] > 1:
        return 4
    if basis[:, 0] @ V @ basis[:, 0] < 0:
        return 3
    return 1 if smallest_eigenvalue(B) > 0 else 2


def terminal_outcome(kind, d, seed, n, beta, final):
    """Run one random instance; if the conjecture fails at the end, run LONGER times as long.

    Returns
    -------
    tuple (group, outcome, last tokens)
        Index among GROUPS; 0 holds, 1 holds later, 2 rests elsewhere, 3 keeps moving.
    """
    V, B, rng = random_instance(kind, d, seed)
    flow, tokens, start = SphereFlow(B, V, beta), UniformLaw(d).sample(n, rng), 0.0
    for outcome, stop in enumerate((final, LONGER * final)):
        run = simulate(flow, tokens, [start, stop], rtol=1e-6, atol=1e-9)
        report = statements["terminal"].verify(run, TOLERANCE)
        if report.holds:
            return group_of(kind, V, B), outcome, run.tokens[-1]
        tokens, start = run.tokens[-1], stop
    at_rest = report.checks[0].value < 1e-4
    return group_of(kind, V, B), 2 if at_rest else 3, tokens


@lru_cache(maxsize=2)
def outcomes(samples, n, beta, final):
    """The sweep over random instances: a list of (kind, d, seed, group, outcome, last tokens)."""
    grid = [{"kind": kind, "d": d, "seed": seed, "n": n, "beta": beta, "final": final}
            for kind in KINDS for d in (2, 3) for seed in range(samples)]
    found = sweep(terminal_outcome, grid, progress=False)
    return [(point["kind"], point["d"], point["seed"], *result)
            for point, result in zip(grid, found, strict=True)]


@experiment(
    "terminal-sweep", statement="terminal", title="How often the conjecture holds",
    caption="""{total} random instances that satisfy A1, {samples} for each of three kinds and d = 2, 3;
    {n} random tokens, β = {beta:g}, run to t = {final:g} and, where the conjecture fails there, four
    times as long. Bars: share on which all tokens end on the principal eigenspace of V, in either
    reading, and rest; with 95% confidence intervals (Clopper and Pearson). V and B positive
    definite with common eigenvectors: {held_0} of {count_0}, a share of at least {low_0} with that
    confidence. Of the {exceptions} exceptions {rests} rest elsewhere and {moves} still move;
    {later} instances were only slow.""",
    alt="""Five bars of shares with intervals: the full length where V and B commute, nine tenths for
    positive definite B, less in the three other groups.""",
    draw=plots.shares, samples=25, n=32, beta=30.0, final=100.0)
def terminal_sweep(samples, n, beta, final):
    """Counts by group, with confidence intervals."""
    found = outcomes(samples, n, beta, final)
    groups, ends = np.array([[item[3], item[4]] for item in found]).T
    counts = np.bincount(groups, minlength=len(GROUPS))
    held = np.bincount(groups[ends < 2], minlength=len(GROUPS))
    intervals = [binomtest(int(k), int(m)).proportion_ci(0.95, "exact") for k, m in
                 zip(held, counts, strict=True)]
    numbers = {"total": Measured(len(found), "instances"),
               "exceptions": Measured(int((ends >= 2).sum()), "exceptions"),
               "later": Measured(int((ends == 1).sum()), "instances that needed longer"),
               "rests": Measured(int((ends == 2).sum()), "exceptions at rest elsewhere"),
               "moves": Measured(int((ends == 3).sum()), "exceptions that keep moving")}
    for k, name in enumerate(GROUPS):
        numbers[f"held_{k}"] = Measured(int(held[k]), f"conjecture holds: {name}")
        numbers[f"count_{k}"] = Measured(int(counts[k]), f"instances: {name}")
        numbers[f"low_{k}"] = Measured(intervals[k].low, "lower end of the 95% interval", 2)
        numbers[f"high_{k}"] = Measured(intervals[k].high, "upper end of the 95% interval", 2)
    return {"labels": np.array(GROUPS), "held": held, "counts": counts,
            "low": np.array([i.low for i in intervals]),
            "high": np.array([i.high for i in intervals])}, numbers


@experiment(
    "terminal-exceptions", statement="terminal", title="Every exception of the sweep",
    caption="""Last tokens of the {count} exceptions of the sweep, seen along the first two coordinates
    (d = 2: the circle itself), with the leading eigenvector w of V dashed where it is real. Above
    each: its group and d ("definite" and "indefinite" B, a negative leading value that "repels", a
    "complex" pair), and what it is. {balanced}: balanced, all scores between clusters are below
    {near:g}. {stragglers}: stragglers, more than half of the tokens are at ±w, others rest
    elsewhere or still move. {turns}: turns on the plane of the complex pair, or moves otherwise.
    {other}: another stationary law of several clusters.""",
    alt="""Small circles with tokens on them: opposite pairs off the dashed line, pairs on it with a few
    tokens elsewhere, some single clusters without a line.""",
    draw=plots.exceptions, samples=25, n=32, beta=30.0, final=100.0, near=0.05)
def terminal_exceptions(samples, n, beta, final, near):
    """All exceptions, one small picture each."""
    items = [item for item in outcomes(samples, n, beta, final) if item[4] >= 2]
    tokens, spaces, titles, found = [], [], [], []
    for kind, d, seed, group, outcome, last in items:
        V, B, _ = random_instance(kind, d, seed)
        basis = principal_space(V)
        tokens.append(last[:, :2])
        spaces.append(basis[:2, 0] if basis.shape[1] == 1 else [np.nan, np.nan])
        found.append(mechanism(last, B, basis, outcome, near))
        titles.append(f"{WORDS[group]}, d = {d}\n{found[-1]}")
    numbers = {"count": Measured(len(items), "exceptions")}
    for word, meaning in (("balanced", "balanced clusters"), ("stragglers", "stragglers beside ±w"),
                          ("turns", "turning or moving otherwise"), ("other", "other laws at rest")):
        numbers[word] = Measured(found.count(word), meaning)
    for group, word in enumerate(WORDS):
        numbers[f"group_{word}"] = Measured(sum(item[3] == group for item in items), GROUPS[group])
    return {"tokens": np.array(tokens), "spaces": np.array(spaces),
            "titles": np.array(titles)}, numbers


def mechanism(tokens, B, basis, outcome, near):
    """Why an instance is an exception: a word for the last tokens of its run."""
    at_space = distance_to_space(tokens, basis) < near
    if basis.shape[1] == 1 and at_space.mean() > 0.5:
        return "stragglers"
    if np.abs(tokens @ B @ tokens.T).max() < near:
        return "balanced"
    return "turns" if outcome == 3 else "other"
