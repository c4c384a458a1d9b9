"""The solver: second solvers, order of convergence, horizons, and what it refuses."""

from contextlib import contextmanager
from importlib import import_module

import numpy as np
import pytest
from numpy.testing import assert_allclose

import attn_clusters as ac

PLANE = np.eye(2)


def cloud(seed=0, n=12):
    return np.random.default_rng(seed).uniform(-3, 3, (n, 2))


def test_two_solvers_agree_to_1e_10():
    flow, times = ac.RescaledFlow(PLANE, PLANE, PLANE), np.linspace(0, 3, 7)
    explicit = ac.simulate(flow, cloud(), times, rtol=1e-13, atol=1e-14)
    multistep = ac.simulate(flow, cloud(), times, rtol=1e-13, atol=1e-14, method="LSODA")
    assert_allclose(explicit.tokens, multistep.tokens, atol=1e-10)


def test_euler_converges_with_order_one():
    flow, start = ac.TokenFlow(PLANE, PLANE, 0.3 * PLANE), 0.5 * cloud()
    exact = ac.simulate(flow, start, [0, 1], rtol=1e-12, atol=1e-13).tokens[-1]
    steps = 0.05 / 2.0 ** np.arange(5)
    errors = [np.abs(ac.simulate(flow, start, [0, 1], method="Euler", step=step).tokens[-1]
                     - exact).max() for step in steps]
    slope = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    assert slope == pytest.approx(1.0, abs=0.05)  # the next term is of relative size `step`


def test_discrete_rescaled_flow_converges_to_the_continuous_one():
    flow, start = ac.RescaledFlow(PLANE, PLANE, [[0.3, 0.2], [-0.1, 0.2]]), 0.5 * cloud()
    exact = ac.simulate(flow, start, [0, 1], rtol=1e-12, atol=1e-13).tokens[-1]
    coarse, fine = (np.abs(ac.simulate(flow, start, [0, 1], method="Euler", step=step).tokens[-1]
                           - exact).max() for step in (0.02, 0.01))
    assert coarse / fine == pytest.approx(2.0, rel=0.1)


def test_times_do_not_change_the_path():
    """Times are read off the solver's interpolation; asking for more does not change its steps."""
    flow = ac.RescaledFlow(PLANE, PLANE, PLANE)
    few = ac.simulate(flow, cloud(), [0, 2])
    many = ac.simulate(flow, cloud(), np.linspace(0, 2, 50))
    assert many.evaluations >= few.evaluations  # interpolation evaluates a little more
    assert_allclose(few.tokens[-1], many.tokens[-1], atol=1e-13)


def test_a_batch_runs_as_its_runs():
    flow, batch = ac.RescaledFlow(PLANE, PLANE, PLANE), np.stack([cloud(1), cloud(2)])
    together = ac.simulate(flow, batch, [0, 1, 2])
    assert together.tokens.shape == (3, 2, 12, 2)
    for index, start in enumerate(batch):
        alone = ac.simulate(flow, start, [0, 1, 2])
        assert_allclose(together.tokens[:, index], alone.tokens, atol=1e-6)  # rtol 1e-9 a step


def test_runs_with_steps_of_their_own_are_the_single_runs():
    flow, batch = ac.RescaledFlow(PLANE, PLANE, PLANE), np.stack([cloud(1), cloud(2), cloud(3)])
    apart = ac.simulate(flow, batch, [0, 1, 2], share=1)
    alone = [ac.simulate(flow, start, [0, 1, 2]) for start in batch]
    assert_allclose(apart.tokens, np.stack([run.tokens for run in alone], axis=1), atol=1e-12)
    assert apart.evaluations == sum(run.evaluations for run in alone)
    pairs = ac.simulate(flow, batch, [0, 1, 2], share=2)
    first = ac.simulate(flow, batch[:2], [0, 1, 2], share=2)
    assert np.array_equal(pairs.tokens[:, :2], first.tokens)


def test_batches_of_the_librarys_flows_are_cut_into_groups():
    """40 runs of 40 tokens: two groups of 20. A callable of one's own sees all runs at once."""
    flow = ac.RescaledFlow(PLANE, PLANE, PLANE)
    batch = np.stack([cloud(seed, 40) for seed in range(40)])
    run = ac.simulate(flow, batch, [0, 0.5])
    halves = [ac.simulate(flow, half, [0, 0.5]) for half in (batch[:20], batch[20:])]
    assert run.evaluations == sum(half.evaluations for half in halves)
    assert np.array_equal(run.tokens, np.concatenate([half.tokens for half in halves], axis=1))
    rates = np.arange(40.0)[:, None, None]
    own = ac.simulate(lambda t, x: -rates * x, batch, [0, 0.5])
    assert_allclose(own.tokens[-1], batch * np.exp(-rates / 2), atol=1e-7)


@pytest.mark.parametrize("options", [dict(share=0), dict(share=1.5), dict(share=2, method="Euler")])
def test_bad_shares_are_refused_by_name(options):
    batch = np.stack([cloud(1), cloud(2)])
    with pytest.raises(ValueError, match="^share"):
        ac.simulate(ac.TokenFlow(PLANE, PLANE, PLANE), batch, [0, 1], **options)


def test_progress_of_a_batch_rises_to_the_end(monkeypatch):
    seen = []

    @contextmanager
    def recorded(times, show):
        yield seen.append

    monkeypatch.setattr(import_module("attn_clusters.simulate"), "_progress", recorded)
    ac.simulate(ac.RescaledFlow(PLANE, PLANE, PLANE), np.stack([cloud(1), cloud(2)]), [1, 3], share=1)
    assert min(seen) == 1.0 and 2.9 < max(seen) <= 3.0
    middle = [t for t in seen if t > 2.0]
    assert len(middle) > 10 and min(middle) < 2.1


def test_any_callable_is_a_flow():
    run = ac.simulate(lambda t, x: -x, np.ones((3, 2)), [0, 1])
    assert_allclose(run.tokens[-1], np.exp(-1), rtol=1e-8)


def test_a_flow_of_complex_numbers_is_refused_by_name():
    with pytest.raises(ValueError, match="^flow: expected real numbers, got dtype complex128"):
        ac.simulate(lambda t, x: 1j * x, np.ones((3, 2)), [0, 1])


def test_start_at_another_time():
    run = ac.simulate(lambda t, x: np.full_like(x, 2 * t), np.zeros((1, 1)), [1.0, 3.0])
    assert_allclose(run.tokens[-1], 8.0, rtol=1e-9)


def test_one_time_returns_the_start():
    run = ac.simulate(ac.TokenFlow(PLANE, PLANE, PLANE), cloud(), [0.0])
    assert np.array_equal(run.tokens, cloud()[None])


def test_overflow_of_the_exponential_is_refused_with_the_latest_time():
    flow = ac.RescaledFlow(PLANE, PLANE, PLANE)
    with pytest.raises(ValueError, match=r"^times: e\^\(tV\) would overflow") as error:
        ac.simulate(flow, cloud(), [0, 1000])
    latest = float(str(error.value).rsplit(" ", 1)[-1])
    ac.simulate(flow, cloud(), [0, 0.98 * latest])  # two digits are printed
    assert np.isfinite(np.exp(2 * latest))


def test_late_times_stay_finite():
    """e^{2t} of scores passes 1e60; the rescaled tokens have long settled inside the first hull."""
    run = ac.simulate(ac.RescaledFlow(PLANE, PLANE, PLANE), cloud(), [0, 60])
    assert np.isfinite(run.tokens).all()
    assert np.abs(run.tokens[-1]).max() <= 3.0


def test_progress_bar_reaches_the_end(capsys):
    ac.simulate(lambda t, x: -x, np.ones((1, 1)), [0, 2], progress=True)
    assert "t = 2.00/2.00" in capsys.readouterr().err


def test_no_progress_bar_by_default(capsys):
    ac.simulate(lambda t, x: -x, np.ones((1, 1)), [0, 2])
    assert capsys.readouterr().err == ""


GOOD = dict(flow=lambda t, x: -x, tokens=np.ones((2, 2)), times=[0.0, 1.0])


@pytest.mark.parametrize("changes, name", [
    (dict(tokens=np.ones(3)), "tokens"), (dict(tokens=np.empty((0, 2))), "tokens"),
    (dict(times=[]), "times"), (dict(times=[0, 0]), "times"), (dict(times=[1, 0]), "times"),
    (dict(times=[0, np.nan]), "times"), (dict(method="RK4"), "method"), (dict(rtol=0.0), "rtol"),
    (dict(atol=-1.0), "atol"), (dict(step=0.1), "step"),
    (dict(method="Euler", step=0.3), "step"), (dict(method="Euler", step=-1.0), "step"),
    (dict(flow=lambda t, x: x[0]), "flow"), (dict(flow=lambda t, x: x * np.nan), "flow")])
def test_bad_arguments_are_refused_by_name(changes, name):
    with pytest.raises(ValueError, match=f"^{name}"):
        ac.simulate(**(GOOD | changes))


def test_a_solver_that_gives_up_says_so():
    with np.errstate(over="ignore"), pytest.raises((RuntimeError, ValueError)):
        ac.simulate(lambda t, x: x**2, np.ones((1, 1)), [0, 2])  # explodes at t = 1


def test_trajectory_prints_what_it_is():
    text = repr(ac.simulate(ac.TokenFlow(PLANE, PLANE, PLANE), cloud(), [0, 1]))
    assert "TokenFlow" in text and "2 times" in text and "(12, 2)" in text
