"""Verdicts that hold where the theorems say so, and that can say no."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracles import positive_definite

import attn_clusters as ac
from attn_clusters.experiments.polytope import mirror_order
from attn_clusters.geometry import Hull
from attn_clusters.statements.core import above, at_most, decay_rate


def run_of(B, seed=0, n=20, final=12.0, V=None, flow=ac.RescaledFlow, samples=13):
    B = np.array(B)
    tokens = np.random.default_rng(seed).uniform(-3, 3, (n, len(B)))
    V = np.eye(len(B)) if V is None else V
    return ac.simulate(flow(np.eye(len(B)), B, V), tokens, np.linspace(0, final, samples))


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_polytope_holds_on_random_runs(d, seed):
    report = ac.statements["polytope"].verify(run_of(positive_definite(d, seed), seed))
    assert report.holds and report.applies
    assert report.distances.shape == (20,)
    assert report.distances.max() < 20 * np.exp(-12.0)  # tokens still move like exp(-t)
    if report.rate is not None:  # on the line all may have arrived to the last bit
        assert 0.9 < report.rate < 2.5


@pytest.mark.parametrize("d", [2, 3])
def test_leaders_hold_on_random_runs(d):
    for seed in range(5):
        assert ac.statements["leaders"].verify(run_of(positive_definite(d, seed), seed)).holds


def test_polytope_can_say_no():
    """Too early; a run with tokens pushed elsewhere; a limit that is not S; other matrices."""
    polytope = ac.statements["polytope"]
    early = polytope.verify(run_of(np.eye(2), final=0.5))
    assert early.applies and not early.holds and early.distances.max() > early.tolerance
    good = run_of(np.eye(2))
    moved = good.tokens.copy()
    moved[-1, 0] = 0.5 * moved[-1, 0] + 0.1  # one token half way to 0
    tampered = ac.Trajectory(good.flow, good.times, moved, good.method, good.evaluations)
    assert polytope.verify(good).holds and not polytope.verify(tampered).holds
    grown = good.tokens * np.linspace(1.0, 1.1, len(good.times))[:, None, None]
    growing = polytope.verify(ac.Trajectory(good.flow, good.times, grown, "none", 0))
    assert not growing.holds and not growing.checks[0].holds
    assert not polytope.verify(run_of(np.diag([1.0, -0.5]), final=2.0)).applies
    assert not polytope.verify(run_of(np.eye(2), V=np.diag([1.0, 0.5]), final=2.0)).applies


def test_leaders_fail_on_symmetric_tokens():
    """A token at the middle of an edge belongs to S and is not a vertex."""
    square = np.array([[1.0, 1], [1, -1], [-1, -1], [-1, 1], [1, 0], [0, 0]])
    flow = ac.RescaledFlow(np.eye(2), np.eye(2), np.eye(2))
    still = ac.Trajectory(flow, np.array([0.0, 1.0]), np.stack([square, square]), "none", 0)
    assert ac.statements["polytope"].verify(still).holds
    report = ac.statements["leaders"].verify(still)
    assert report.applies and not report.holds
    assert_allclose(report.distances, [0, 0, 0, 0, 1, 0], atol=1e-12)


@settings(max_examples=15, deadline=None)
@given(n=st.integers(1, 12), d=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_hull_never_grows(n, d, seed):
    """Theorem 3.1 for any positive definite Q^T K and any tokens, with a solver at 1e-12."""
    tokens = np.random.default_rng(seed).uniform(-2, 2, (n, d))
    flow = ac.RescaledFlow(np.eye(d), positive_definite(d, seed), np.eye(d))
    run = ac.simulate(flow, tokens, np.linspace(0, 2, 9), rtol=1e-12, atol=1e-13)
    hulls = [Hull(z) for z in run.tokens]
    for before, after in zip(hulls[:-1], run.tokens[1:], strict=True):
        assert before.excess(after).max() < 1e-8  # interpolation of the solver at fast switches
    if n > d:
        assert (np.diff([hull.volume for hull in hulls]) < 1e-8).all()


def test_polytope_is_the_same_for_unrescaled_tokens():
    B = positive_definite(2, 3)
    times = np.linspace(0, 4, 9)
    tokens = np.random.default_rng(3).uniform(-1, 1, (10, 2))
    reports = [ac.statements["polytope"].verify(ac.simulate(flow(np.eye(2), B, np.eye(2)), tokens,
                                                            times, rtol=1e-11))
               for flow in (ac.TokenFlow, ac.RescaledFlow)]
    assert_allclose(reports[0].distances, reports[1].distances, atol=1e-6)


def test_symmetric_tokens_keep_their_mirror_images():
    tokens = np.array([[1.0, 2], [-1, 2], [3, 0], [-3, 0], [0, 0]])
    assert mirror_order(tokens, (-1.0, 1.0)).tolist() == [1, 0, 3, 2, 4]


def test_report_prints_every_number():
    report = ac.statements["polytope"].verify(run_of(np.eye(2)))
    for text in (repr(report), report._repr_html_()):
        for item in (*report.hypotheses, *report.checks):
            assert item.name.split(":")[0].split("|")[0] in text.replace("&#x27;", "'")
        assert "holds" in text and "exp(-" in text


def test_verify_refuses_what_it_is_not_about():
    polytope = ac.statements["polytope"]
    with pytest.raises(ValueError, match="^run: the flow has no matrices"):
        flow = ac.RescaledFlow(np.eye(2), np.eye(2), np.eye(2))
        stranger = ac.simulate(lambda t, z: flow(t, z), np.ones((2, 2)), [0, 1])
        polytope.verify(stranger)
    with pytest.raises(ValueError, match="^run: expected tokens of shape"):
        flow = ac.RescaledFlow(np.eye(2), np.eye(2), np.eye(2))
        polytope.verify(ac.simulate(flow, np.ones((2, 3, 2)), [0, 1]))
    with pytest.raises(ValueError, match="^tolerance"):
        polytope.verify(run_of(np.eye(2), final=1.0), tolerance=0.0)


def test_classify_names_the_numbers_behind_each_hypothesis():
    found = {key: (applies, hypotheses) for key, applies, hypotheses
             in ac.classify(np.eye(2), np.diag([2.0, 0.5]), np.eye(2))}
    applies, hypotheses = found["polytope"]
    assert applies and found["wellposed"][0]
    smallest = next(item for item in hypotheses if "positive definite" in item.name)
    assert smallest.value == pytest.approx(0.5) and smallest.margin == pytest.approx(0.5)


@pytest.mark.parametrize("Q, K, V, failing", [
    (np.eye(2), np.eye(2), np.diag([1.0, 1.0 + 1e-9]), "V = I"),
    (np.eye(2), np.diag([1.0, -1e-9]), np.eye(2), "positive definite"),
    (np.eye(2), np.array([[1.0, 1e-9], [0, 1]]), np.eye(2), "symmetric")])
def test_near_misses_are_misses_with_their_margin(Q, K, V, failing):
    classification = ac.classify(Q, K, V)
    assert "polytope" not in classification.applicable
    hypotheses = dict((key, items) for key, _, items in classification)["polytope"]
    missed = [item for item in hypotheses if not item.holds]
    assert len(missed) == 1 and failing in missed[0].name
    assert -2e-9 < missed[0].margin < -1e-10
    assert "does not apply" in repr(classification)


def test_margins():
    assert above("x", 3.0, 1.0).margin == 2.0 and not above("x", 1.0, 1.0).holds
    assert at_most("x", 1.0, 3.0).margin == 2.0 and at_most("x", 3.0, 3.0).holds


def test_decay_rate_of_an_exponential():
    times = np.linspace(0, 10, 21)
    assert decay_rate(times, np.exp(-0.7 * times), 0.0) == pytest.approx(0.7)
    assert decay_rate(times, np.full(21, 1e-14), 1e-12) is None


@pytest.mark.parametrize("changes, name", [(dict(V=np.ones((2, 3))), "V"),
                                           (dict(K=np.eye(3)), "K"), (dict(Q=[["a"]]), "Q")])
def test_classify_refuses_bad_matrices_by_name(changes, name):
    with pytest.raises(ValueError, match=f"^{name}"):
        ac.classify(**(dict(Q=np.eye(2), K=np.eye(2), V=np.eye(2)) | changes))
