"""From a flow to a trajectory: scipy's adaptive solvers, or explicit Euler on request."""

from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from tqdm.auto import tqdm

from . import _checks
from ._arrays import foreign, in_numpy, namespace

LARGEST_GROUP, SCORES_OF_A_GROUP = 512, 2**15
METHODS = ("DOP853", "RK45", "RK23", "Radau", "BDF", "LSODA", "Euler")


@dataclass(frozen=True, eq=False)
class Trajectory:
    """What a run leaves.

    Attributes
    ----------
    flow : callable
        The flow that was run.
    times : array, shape (T,)
        The times asked for.
    tokens : array, shape (T, n, d) or (T, runs, n, d)
        The tokens at these times.
    method : str
        Name of the solver.
    evaluations : int
        How often the flow was evaluated; for a batch, the sum over the groups of runs that share
        the solver's steps.
    """

    flow: Any
    times: np.ndarray
    tokens: np.ndarray
    method: str
    evaluations: int

    def __repr__(self):
        return (f"Trajectory of {type(self.flow).__name__}: {len(self.times)} times in "
                f"[{self.times[0]:g}, {self.times[-1]:g}], tokens {self.tokens.shape[1:]}, "
                f"{self.method}, {self.evaluations} evaluations")


def simulate(flow, tokens, times, rtol=1e-9, atol=1e-12, method="DOP853", progress=False,
             step=None, share=None):
    """Run a flow from the given tokens and report it at the given times.

    Parameters
    ----------
    flow : callable
        ``flow(t, tokens) -> array`` of the same shape: one of this library's flows or your own.
    tokens : array, shape (n, d) or (runs, n, d)
        Tokens at ``times[0]``, of one run or of a batch of runs.
    times : array, shape (T,)
        Increasing times; the solver chooses its own steps between them and interpolates.
    rtol, atol : float
        Relative and absolute tolerance of one step.
    method : str
        A method of `scipy.integrate.solve_ivp`, or ``"Euler"``: explicit Euler, which for
        `TokenFlow` and `RescaledFlow` is the discrete-time transformer (one step, one layer).
    progress : bool
        Show a progress bar.
    step : float, optional
        Step of ``"Euler"``; each gap between times must be a whole number of steps. None means
        one step from each time to the next.
    share : int, optional
        How many runs of a batch share an adaptive solver's steps. More of them make an evaluation
        cheaper for each, but any of them can call for a short step, and the tolerance is that of
        their mean square. None means about as many as are fastest (20 runs of 40 tokens) for the
        flows of this library, and all for a callable of your own, which may count on all of them.

    Returns
    -------
    Trajectory

    Raises
    ------
    ValueError
        For bad arguments, if e^{tV} would overflow at the last time, or if the flow returns
        another shape or numbers that are not finite.
    RuntimeError
        If the solver gives up; the message is the solver's.
    """
    start = _checks.tokens(tokens)
    times = _increasing(times)
    _checks.choice("method", method, METHODS)
    if foreign(start) and method != "Euler":
        raise ValueError(f"tokens: method {method!r} works on numpy arrays alone; for arrays of "
                         f"type {type(start).__name__} use method 'Euler'")
    if step is not None and method != "Euler":
        raise ValueError(f"step: only method 'Euler' takes a step, got method {method!r}")
    if share is not None and method == "Euler":
        raise ValueError("share: runs share an adaptive solver's steps, got method 'Euler'")
    if hasattr(flow, "check_horizon"):
        flow.check_horizon(in_numpy(start), times[-1])
    with _progress(times, progress) as report:
        if method == "Euler":
            path, evaluations = _euler(flow, start, times, step, report)
        else:
            tolerances = dict(rtol=_checks.positive("rtol", rtol),
                              atol=_checks.positive("atol", atol))
            share = None if share is None else _checks.count("share", share)
            path, evaluations = _by_groups(flow, start, times, method, tolerances, report, share)
    if hasattr(flow, "retract"):
        path = flow.retract(path)
    return Trajectory(flow, times, path, method, evaluations)


def _fast_share(flow, start):
    """How many runs share steps: more for fewer tokens, whose evaluations cost mainly the call."""
    if not getattr(flow, "runs_are_independent", False):
        return len(start)
    return max(1, min(LARGEST_GROUP, SCORES_OF_A_GROUP // start.shape[1]**2))


def _by_groups(flow, start, times, method, tolerances, report, share):
    if start.ndim == 2:
        return _adaptive(flow, start, times, method, tolerances, report)
    share = min(share or _fast_share(flow, start), len(start))
    groups = range(0, len(start), share)

    def reported(group):
        return lambda t: report(times[0] + (group * (times[-1] - times[0]) + share * (t - times[0]))
                                / len(start))

    found = [_adaptive(flow, start[group:group + share], times, method, tolerances, reported(group))
             for group in groups]
    return np.concatenate([path for path, _ in found], axis=1), sum(count for _, count in found)


def _adaptive(flow, start, times, method, tolerances, report):
    def right_hand_side(t, y):
        report(t)
        return evaluate(flow, t, y.reshape(start.shape)).ravel()

    if len(times) == 1:
        return start[None], 0
    solution = solve_ivp(right_hand_side, (times[0], times[-1]), start.ravel(), method=method,
                         t_eval=times, **tolerances)
    if not solution.success:
        raise RuntimeError(f"{method} stopped at t = {solution.t[-1] if len(solution.t) else 0:g}: "
                           f"{solution.message}")
    return solution.y.T.reshape(len(times), *start.shape), solution.nfev


def _euler(flow, start, times, step, report):
    path, evaluations, current, xp = [start], 0, start, namespace(start)
    for before, after in zip(times[:-1], times[1:], strict=True):
        length, count = _whole_steps(before, after, step)
        first = round(before / length)
        layered = hasattr(flow, "layer") and abs(first * length - before) < 1e-9 * length
        layer = flow.layer(length) if layered else None
        for k in range(count):
            t = before + k * length
            report(t)
            current = (layer(first + k, current) if layered
                       else current + length * evaluate(flow, t, current))
            if not xp.all(xp.isfinite(current)):
                raise ValueError(f"flow: tokens left the range of float64 after t = {t:g}")
        path.append(current)
        evaluations += count
    return xp.stack(path), evaluations


def _whole_steps(before, after, step):
    if step is None:
        return after - before, 1
    count = round((after - before) / _checks.positive("step", step))
    if count < 1 or abs(count * step - (after - before)) > 1e-9 * step:
        raise ValueError(f"step: the gap from {before:g} to {after:g} is not a whole number of "
                         f"steps of {step:g}")
    return float(step), count


def evaluate(flow, t, tokens):
    """Call a flow and check what it returns."""
    change, xp = flow(t, tokens), namespace(tokens)
    change = np.asarray(change) if xp is np else change
    if change.shape != tokens.shape:
        raise ValueError(f"flow: expected an array of shape {tokens.shape}, got {change.shape}")
    if xp is np and change.dtype.kind not in "fiu":
        raise ValueError(f"flow: expected real numbers, got dtype {change.dtype}")
    if not (_checks.all_finite(change) if xp is np else xp.all(xp.isfinite(change))):
        raise ValueError(f"flow: returned numbers that are infinite or NaN at t = {t:g}")
    return change


def _increasing(times):
    times = _checks.array("times", times, ndim=1)
    if len(times) == 0 or (np.diff(times) <= 0).any():
        raise ValueError(f"times: expected increasing times, at least one, got {times}")
    return times


@contextmanager
def _progress(times, show):
    """A callback that moves a bar to time t, or does nothing."""
    if not show:
        yield lambda t: None
        return
    span = times[-1] - times[0]
    layout = "{l_bar}{bar}| t = {n:.2f}/{total:.2f} [{elapsed}]"
    with tqdm(total=span, bar_format=layout) as bar:
        yield lambda t: bar.update(max(0.0, min(t - times[0], span) - bar.n))
        bar.update(span - bar.n)
