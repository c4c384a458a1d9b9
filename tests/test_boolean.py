"""Tokens on the line: certificates against long runs, the exceptional row, verdicts that say no."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attn_clusters as ac
from attn_clusters.experiments.boolean import ONE, line_run, open_rows
from attn_clusters.line import boolean_limit, settled_sides
from attn_clusters.simulate import Trajectory

BOOLEAN = ac.statements["boolean"]
TIMES = np.linspace(0, 12, 49)


def tokens(seed, n=12, half=5.0):
    return np.random.default_rng(seed).uniform(-half, half, (n, 1))


def end_signs(x, b, V=1.0, final=12.0):
    """Signs of the tokens after a long run: a brute-force oracle for the certificate."""
    run = ac.simulate(ac.TokenFlow(ONE, b * ONE, V * ONE), x, (0.0, final))
    return np.sign(run.tokens[-1, :, 0])


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 12), st.floats(0.2, 3.0))
def test_settled_sides_are_never_wrong(seed, n, b):
    x = tokens(seed, n, half=2.0)
    sides = settled_sides(x, b)
    signs = end_signs(x, b)
    assert (sides[sides != 0] == signs[sides != 0]).all()


def test_settled_sides_decide_most_tokens_of_a_wide_cloud():
    known = np.mean([np.count_nonzero(settled_sides(tokens(seed, 40), 1.0)) for seed in range(20)])
    assert 25 < known < 40  # a test that decided nothing, or everything, would be no certificate


def test_settled_sides_are_sharp_for_two_tokens():
    # Two tokens 1 and -u: b = 1, k = 1, n - k = 1; the token 1 is certain as 1 > W(1/e) = 0.278.
    assert settled_sides(np.array([[1.0], [-3.0]]), 1.0).tolist() == [1, -1]
    assert settled_sides(np.array([[0.5], [-3.0]]), 1.0).tolist() == [0, -1]
    assert settled_sides(np.array([[0.6], [-3.0]]), 1.0).tolist() == [1, -1]


def test_settled_sides_scale_and_turn():
    x = tokens(3)
    assert (settled_sides(x, 2.0) == settled_sides(np.sqrt(2.0) * x, 1.0)).all()
    assert (settled_sides(-x, 1.0) == -settled_sides(x, 1.0)).all()
    batch = np.stack([tokens(seed) for seed in range(5)])
    assert (settled_sides(batch, 1.0) == [settled_sides(each, 1.0) for each in batch]).all()


def test_tokens_of_one_sign_are_settled_at_once():
    assert (settled_sides(np.abs(tokens(1)), 1.0) == 1).all()
    assert (settled_sides(-np.abs(tokens(1)), 0.1) == -1).all()


@pytest.mark.parametrize("seed", range(5))
def test_boolean_holds_on_random_runs(seed):
    run, _ = line_run(tokens(seed, 20), TIMES)
    report = BOOLEAN.verify(run, tolerance=1e-12)
    assert report.holds
    rows = report.limit
    assert set(np.unique(rows)) <= {0.0, 1.0} and np.linalg.matrix_rank(rows) in (1, 2)


def test_both_flows_give_the_same_verdict():
    x = tokens(7)
    reports = [BOOLEAN.verify(ac.simulate(flow(ONE, ONE, ONE), x, TIMES), 1e-12)
               for flow in (ac.TokenFlow, ac.RescaledFlow)]
    assert all(report.holds for report in reports)
    assert (reports[0].limit == reports[1].limit).all()


def test_boolean_can_say_no():
    x = tokens(2)
    short, _ = line_run(x, np.linspace(0, 0.5, 5))
    assert not BOOLEAN.verify(short).holds  # P is still far from its limit
    repelling = ac.simulate(ac.RescaledFlow(ONE, -ONE, ONE), x, TIMES[:20])
    assert not BOOLEAN.verify(repelling).applies and not BOOLEAN.verify(repelling).holds
    twins, _ = line_run(np.concatenate([x, x[:1]]), TIMES)
    assert not BOOLEAN.verify(twins).holds  # not pairwise distinct


def test_boolean_notices_a_false_trajectory():
    run, _ = line_run(tokens(4), TIMES)
    swapped = run.tokens.copy()
    swapped[20:, [0, 1]] = swapped[20:, [1, 0]] + [[[3.0], [3.0]]]
    assert not BOOLEAN.verify(Trajectory(run.flow, run.times, swapped, run.method, 0)).holds


def test_gaps_never_shrink():
    run = ac.simulate(ac.TokenFlow(ONE, ONE, ONE), np.sort(tokens(5), axis=0), TIMES[:17])
    gaps = np.diff(run.tokens[..., 0], axis=1)
    # Tokens grow to 5 e^4 = 300 with relative errors near 1e-9.
    assert (np.diff(gaps, axis=0) > -1e-5).all()


def test_exceptional_row_appears_and_rounding_removes_it():
    numbers = ac.figure("boolean-exceptional").numbers
    assert numbers["other_rows"].value == 1 and numbers["rank"].value == 3
    assert numbers["other_rows_free"].value == 0 and numbers["rank_free"].value == 2


def test_open_rows_agree_with_a_plain_run():
    times = np.array([0.0, 0.5, 1.0])
    counts, sides = open_rows(11, 30, 6, times)
    x = np.random.default_rng(11).uniform(-5, 5, (30, 6, 1))
    run = ac.simulate(ac.TokenFlow(ONE, ONE, ONE), x, times)
    expected = [np.count_nonzero(settled_sides(each, 1.0) == 0, axis=1) for each in run.tokens]
    assert (counts == expected).all()
    assert (sides == settled_sides(run.tokens[-1], 1.0)).all()


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="tokens: expected 1 coordinates"):
        settled_sides(np.zeros((3, 2)), 1.0)
    with pytest.raises(ValueError, match="b: expected a positive number"):
        settled_sides(np.zeros((3, 1)), -1.0)
    with pytest.raises(ValueError, match="sides: expected 3 numbers among"):
        boolean_limit(np.zeros((3, 1)), np.array([1, 2, 0]))
