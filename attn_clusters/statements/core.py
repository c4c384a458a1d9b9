"""What a statement is: hypotheses on (Q, K, V), a predicted limit, a measured distance, a verdict."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import _checks
from .._tables import html_table, number, text_table

ROUNDING = 1e-12
# What is measured along a run and lies below this part of its threshold is error, and not printed.
SHOWN = 1e-3
STATUSES = ("proved", "observed", "open", "conjectured", "context")


@dataclass(frozen=True)
class Hypothesis:
    """One condition and the number behind it.

    Attributes
    ----------
    name : str
        What is required, in words or symbols.
    value : float
        The number found.
    threshold : float
        The number it is held against.
    margin : float
        How far the condition is from failing; negative by how far it fails.
    holds : bool
    """

    name: str
    value: float
    threshold: float
    margin: float
    holds: bool

    def row(self, shown=0.0):
        """Cells of a table: name, value, threshold, margin, verdict.

        A value that is less than `shown` times its threshold is printed as just that: its digits
        would be the solver's errors.
        """
        small = 0 < self.value < shown * self.threshold
        value = f"below {shown * self.threshold:.0e}" if small else number(self.value)
        return (self.name, value, number(self.threshold), number(self.margin),
                "holds" if self.holds else "fails")


HYPOTHESIS_HEADER = ("hypothesis", "value", "threshold", "margin", "verdict")


def above(name, value, threshold=0.0):
    """The hypothesis value > threshold."""
    value, threshold = float(value), float(threshold)
    return Hypothesis(name, value, threshold, value - threshold, value > threshold)


def at_most(name, value, threshold):
    """The hypothesis value <= threshold."""
    value, threshold = float(value), float(threshold)
    return Hypothesis(name, value, threshold, threshold - value, value <= threshold)


@dataclass(frozen=True)
class Measurement:
    """What a statement's `measure` returns for a run.

    Attributes
    ----------
    limit : Any
        The predicted limit: usually an array of points or levels.
    distances : array, shape (T, n)
        Distance of each token to it at each time of the run.
    checks : tuple of Hypothesis
        Invariants that the statement claims along the run.
    scale : float
        The size against which a relative tolerance is taken.
    algebraic : bool
        Whether distances are expected to fall like a power of t rather than exponentially.
    """

    limit: Any
    distances: np.ndarray
    checks: tuple[Hypothesis, ...] = ()
    scale: float = 1.0
    algebraic: bool = False


@dataclass(frozen=True)
class Report:
    """Verdict of a statement on a run.

    Attributes
    ----------
    statement : str
        The statement's key.
    limit : Any
        What was predicted.
    distances : array, shape (n,)
        Distance of each token to it at the last time; infinite where the hypotheses fail and
        nothing is predicted.
    tolerance : float
        The largest distance that counts as having arrived.
    rate : float or None
        Rate r of the fit exp(-r t), or t^(-r) if `algebraic`, to the largest distance over the
        second half of the run; None where too few times or only rounding is left. A distance above
        the tolerance with a positive rate speaks of a run that is too short rather than of a
        statement that fails.
    hypotheses, checks : tuple of Hypothesis
        Conditions on the matrices, and invariants measured along the run.
    algebraic : bool
        Which of the two laws `rate` belongs to.
    """

    statement: str
    limit: Any
    distances: np.ndarray
    tolerance: float
    rate: float | None
    hypotheses: tuple[Hypothesis, ...]
    checks: tuple[Hypothesis, ...]
    algebraic: bool = False

    @property
    def applies(self):
        """Whether the statement's hypotheses hold."""
        return all(hypothesis.holds for hypothesis in self.hypotheses)

    @property
    def holds(self):
        """Whether hypotheses and invariants hold and every token is within the tolerance."""
        arrived = bool(self.distances.max() <= self.tolerance)
        return self.applies and arrived and all(check.holds for check in self.checks)

    def _verdict(self):
        if not self.applies:
            return f"{self.statement}: does not apply to this run"
        return f"{self.statement}: {'holds' if self.holds else 'does not hold'} on this run"

    def _rows(self):
        largest = self.distances.max()
        law = "t^(-{:.2f})" if self.algebraic else "exp(-{:.2f} t)"
        if self.rate is None:
            rate = "no rate left to measure"
        elif self.rate < 0.005:
            rate = "does not fall any more"
        else:
            rate = "falls like " + law.format(self.rate)
        shown = (number(largest, 2) if largest > self.tolerance * SHOWN
                 else f"below {self.tolerance * SHOWN:.0e}")
        arrival = ("largest distance to the limit", shown, number(self.tolerance, 2), rate,
                   "holds" if largest <= self.tolerance else "fails")
        return ([item.row() for item in self.hypotheses]
                + [item.row(SHOWN) for item in self.checks] + [arrival])

    def __repr__(self):
        return self._verdict() + "\n" + text_table(HYPOTHESIS_HEADER, self._rows())

    def _repr_html_(self):
        table = html_table(HYPOTHESIS_HEADER, self._rows(), caption=self._verdict())
        return f'<div class="companion-report">{table}</div>'


def _no_conditions(Q, K, V):
    return ()


@dataclass(frozen=True)
class Statement:
    """A statement of one of the papers.

    Attributes
    ----------
    key : str
        The project's key, used in names of figures and tests.
    title, source, status : str
        `status` is one of proved, observed, open, conjectured, context.
    assumes, concludes : str
        The statement in the project's words.
    conditions : callable (Q, K, V) -> tuple of Hypothesis
    measure : callable (run, tolerance) -> Measurement
    functions : tuple of str
        Dotted names of the library functions that carry it.
    tests : tuple of str
        Node ids of the tests that hold it to account.
    """

    key: str
    title: str
    source: str
    status: str
    assumes: str
    concludes: str
    conditions: Callable = _no_conditions
    measure: Callable | None = None
    functions: tuple[str, ...] = ()
    tests: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self):
        _checks.choice("status", self.status, STATUSES)

    def verify(self, run, tolerance=0.02):
        """Hold the statement against a run.

        Parameters
        ----------
        run : Trajectory
            Of a flow of this library, one run (not a batch).
        tolerance : float
            Largest distance that counts as arrived, relative to the size of the initial tokens.

        Returns
        -------
        Report

        Raises
        ------
        ValueError
            If the run is a batch, its flow has no matrices, or the statement is not about runs.
        """
        tolerance = _checks.positive("tolerance", tolerance)
        if self.measure is None:
            raise ValueError(f"run: the statement {self.key!r} is not about a single run")
        if run.tokens.ndim != 3:
            raise ValueError(f"run: expected tokens of shape (T, n, d), got {run.tokens.shape}")
        hypotheses = tuple(self.conditions(*matrices(run.flow)))
        measured = self._measured(run, tolerance, all(item.holds for item in hypotheses))
        rate = decay_rate(run.times, measured.distances.max(axis=1), 1e-12 * measured.scale,
                          measured.algebraic)
        return Report(self.key, measured.limit, measured.distances[-1],
                      tolerance * measured.scale, rate, hypotheses, tuple(measured.checks),
                      measured.algebraic)

    def _measured(self, run, tolerance, applies):
        try:
            return self.measure(run, tolerance)
        except ValueError:
            if applies:
                raise
            # Outside the hypotheses the limit may not even be defined.
            return Measurement(None, np.full(run.tokens.shape[:2], np.inf))

    def __repr__(self):
        return (f"{self.title} [{self.status}]\n  source: {self.source}\n"
                f"  assumes: {self.assumes}\n  concludes: {self.concludes}")


def matrices(flow):
    """Q, K, V of a flow, stacked if it has several heads; a sphere flow gives Q = I and K = B."""
    if hasattr(flow, "Vs"):
        return flow.Qs, flow.Ks, flow.Vs
    if not hasattr(flow, "V") or not (hasattr(flow, "B") or hasattr(flow, "Q")):
        raise ValueError("run: the flow has no matrices Q, K, V, which the hypotheses are about")
    if hasattr(flow, "Q"):
        return flow.Q, flow.K, flow.V
    return np.eye(len(flow.V)), flow.B, flow.V


def decay_rate(times, distances, floor, algebraic=False):
    """Rate r of the least-squares fit of exp(-r t) over the second half of the times.

    With `algebraic` the fit is t^(-r). None if fewer than three distances there lie above `floor`.
    """
    late = (times >= (times[0] + times[-1]) / 2) & (distances > floor) & np.isfinite(distances)
    if np.count_nonzero(late) < 3:
        return None
    clock = np.log(times[late]) if algebraic else times[late]
    return float(-np.polyfit(clock, np.log(distances[late]), 1)[0])


class Classification:
    """Which statements apply to given matrices; iterates over (key, applies, hypotheses)."""

    def __init__(self, statements: Mapping[str, Statement], Q, K, V):
        self._statements = statements
        self._found = {key: tuple(statement.conditions(Q, K, V))
                       for key, statement in statements.items()}

    def __iter__(self):
        for key, hypotheses in self._found.items():
            yield key, all(hypothesis.holds for hypothesis in hypotheses), hypotheses

    def __len__(self):
        return len(self._found)

    @property
    def applicable(self):
        """Keys of the statements whose hypotheses all hold."""
        return [key for key, applies, _ in self if applies]

    def _rows(self):
        rows = []
        for key, applies, hypotheses in self:
            verdict = "applies" if applies else "does not apply"
            cells = [item.row() for item in hypotheses] or [("none required", "", "", "", "holds")]
            rows += [(key if first == 0 else "", verdict if first == 0 else "", *cell)
                     for first, cell in enumerate(cells)]
        return rows

    def __repr__(self):
        header = ("statement", "verdict", *HYPOTHESIS_HEADER[:-1], "")
        predictions = [f"{key} [{self._statements[key].status}] predicts: "
                       f"{self._statements[key].concludes}" for key in self.applicable]
        return "\n".join([text_table(header, self._rows()), "", *predictions])

    def _repr_html_(self):
        header = ("statement", "verdict", *HYPOTHESIS_HEADER[:-1], "")
        predictions = [(key, self._statements[key].status, self._statements[key].concludes)
                       for key in self.applicable]
        return (html_table(header, self._rows())
                + html_table(("statement", "status", "predicts"), predictions))
