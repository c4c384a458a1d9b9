"""Levels, hyperplanes, subspaces of codimension k: invariants, oracles, verdicts that say no."""

import numpy as np
import pytest
import scipy.linalg

import attn_clusters as ac
from attn_clusters.experiments.hyperplanes import (
    NEGATIVE,
    PLANE,
    POSITIVE,
    SYMMETRIC,
    across,
    continued,
    eigenbasis_run,
    final_leaders,
    middle_run,
    random_value_matrix,
    run_and_continue,
    run_with,
)
from attn_clusters.spectrum import leading_eigenpair, left_invariant, real_eigenbasis
from attn_clusters.statements.hyperplanes import (
    at_most_three,
    growing_coordinates,
    leading_levels,
    limit_levels,
)

HYPERPLANES, CODIMENSION = ac.statements["hyperplanes"], ac.statements["codimension"]
TIMES = np.linspace(0, 10, 41)


def tokens(seed, n=20, d=3):
    return np.random.default_rng(seed).uniform(-5, 5, (n, d))


def hypotheses(Q, K, V, key):
    return {name: found for name, _, found in ac.classify(Q, K, V)}[key]


@pytest.mark.parametrize("V", [PLANE, NEGATIVE, POSITIVE, SYMMETRIC])
def test_hyperplanes_hold_for_the_published_matrices(V):
    report = HYPERPLANES.verify(run_with(V, tokens(1, d=len(V)), TIMES))
    assert report.holds
    # Levels settle like exp(-lambda_1 t); the fit over the second half is good to some per cent.
    assert report.rate == pytest.approx(leading_eigenpair(np.array(V)).value.real, rel=0.05)


@pytest.mark.parametrize("seed", range(4))
def test_hyperplanes_hold_on_random_good_triples(seed):
    rng = np.random.default_rng(seed)
    d = 2 + seed % 3
    V = rng.uniform(size=(d, d))  # Perron-Frobenius: a good triple with Q = K = I
    V = V / leading_eigenpair(V).value.real
    Q = np.eye(d) + 0.2 * rng.normal(size=(d, d))
    run = ac.simulate(ac.RescaledFlow(Q, Q, V), tokens(seed, d=d), TIMES)
    assert HYPERPLANES.verify(run).holds


def test_hyperplanes_can_say_no():
    short = run_with(PLANE, tokens(2, d=2), np.linspace(0, 0.5, 5))
    assert HYPERPLANES.verify(short).applies and not HYPERPLANES.verify(short).holds
    for V in (np.eye(2), [[1.0, -2.0], [2.0, 1.0]], -np.array(PLANE)):
        report = HYPERPLANES.verify(run_with(V, tokens(2, d=2), TIMES[:20]))
        assert not report.applies and not report.holds
    wrong_sign = ac.simulate(ac.RescaledFlow(np.eye(2), -np.eye(2), PLANE), tokens(2, d=2),
                             TIMES[:9])
    assert not HYPERPLANES.verify(wrong_sign).applies


def test_near_miss_applies_but_does_not_arrive():
    V = np.diag((1.0, 1.0 - 1e-9))
    found = hypotheses(np.eye(2), np.eye(2), V, "hyperplanes")
    gap = next(item for item in found if "simple" in item.name)
    assert gap.holds and gap.margin == pytest.approx(1e-9, rel=1e-6)  # 1 - 1e-9 rounds to eps
    # Until t of about 1e9 nothing tells this V from the identity: a polytope, not three lines.
    assert not HYPERPLANES.verify(run_with(V, tokens(3, 40, 2), TIMES)).holds


def test_levels_agree_with_the_other_flow():
    x, V = tokens(4), np.array(NEGATIVE)
    rescaled = run_with(V, x, TIMES[:21])
    plain = ac.simulate(ac.TokenFlow(np.eye(3), np.eye(3), V), x, TIMES[:21])
    # Both runs keep a relative tolerance of 1e-9; leader changes amplify it.
    assert np.abs(leading_levels(rescaled)[0] - leading_levels(plain)[0]).max() < 1e-5


def test_limit_levels_leave_out_what_cannot_attract():
    assert limit_levels(np.array([-1.0, 0.1, 2.0])).tolist() == [-1.0, 0.0, 2.0]
    assert limit_levels(np.array([0.5, 2.0])).tolist() == [0.0, 2.0]  # 0.5 is on its way to 2


def test_middle_level_is_used():
    run = middle_run(16, 6, (5.0, -5.0, 2.0), 0.8, 12.0)
    assert HYPERPLANES.verify(run).holds
    values = leading_levels(run)[0]
    middle = np.abs(values[-1]) < 0.02
    assert np.count_nonzero(middle) > 3 and (np.abs(values[0][middle]) > 0.1).any()


def test_left_invariant_functionals():
    V = np.random.default_rng(5).normal(size=(5, 5))
    N, M = left_invariant(V, lambda a, b: a > 0)
    assert np.allclose(N @ V, M @ N, atol=1e-12) and np.allclose(N @ N.T, np.eye(len(N)))
    assert (np.linalg.eigvals(M).real > 0).all()
    assert len(N) == np.count_nonzero(np.linalg.eigvals(V).real > 0)


def test_real_eigenbasis_and_its_refusal():
    V = np.array(POSITIVE)
    basis, blocks = real_eigenbasis(V)
    assert np.allclose(basis @ blocks, V @ basis, atol=1e-12)
    assert blocks[0, 0] == pytest.approx(np.linalg.eigvals(V).real.max())
    with pytest.raises(ValueError, match="V: expected a matrix with an eigenbasis"):
        real_eigenbasis(np.array([[1.0, 1.0], [0.0, 1.0]]))


def test_eigenbasis_run_is_the_same_run():
    x, V = tokens(6), np.array(SYMMETRIC)
    basis = real_eigenbasis(V)[0]
    plain = ac.simulate(ac.TokenFlow(np.eye(3), np.eye(3), V), x, (0.0, 2.0))
    other = eigenbasis_run(V, x, (0.0, 2.0)).tokens[-1] @ basis.T
    # Relative tolerance 1e-9 of tokens of size 5 e^{2 lambda_1} = 250, amplified by leader changes.
    assert np.abs(other - plain.tokens[-1]).max() < 1e-4


def test_continuation_agrees_with_the_solver():
    x = tokens(7)
    whole = run_with(SYMMETRIC, x, np.array([0.0, 6.0, 8.0]))
    part = continued(run_with(SYMMETRIC, x, np.array([0.0, 6.0])), np.array([8.0]))
    assert np.abs(whole.tokens[-1] - part.tokens[-1]).max() < 1e-6
    with pytest.raises(ValueError, match="run: attention is still divided"):
        continued(run_with(SYMMETRIC, x, np.array([0.0, 0.1])), np.array([8.0]))


def test_codimension_on_the_published_matrix():
    run = run_and_continue(SYMMETRIC, tokens(5, 40), 8.0, 40.0)
    report = CODIMENSION.verify(run)
    assert report.holds and len(report.limit) <= 3
    # The slower of the two positive eigenvalues sets the pace.
    assert report.rate == pytest.approx(np.linalg.eigvalsh(np.array(SYMMETRIC))[1], rel=0.05)


def test_codimension_fails_for_the_identity():
    report = CODIMENSION.verify(run_with(np.eye(2), tokens(3, 40, 2), np.linspace(0, 15, 31)))
    assert not report.applies  # generic form: eigenvalues distinct
    assert report.distances.max() > 10 * report.tolerance  # the conjecture as written


def test_codimension_fails_for_a_rotation_with_distinct_eigenvalues():
    run = run_with([[1.0, -1.0], [1.0, 1.0]], tokens(3, 40, 2), np.linspace(0, 10, 21))
    report = CODIMENSION.verify(run)
    assert report.applies and not report.holds
    leaders = np.unique(final_leaders(run))
    assert len(leaders) > 3
    gaps = np.linalg.norm(run.tokens[-1][:, None] - run.tokens[-1][leaders], axis=2).min(axis=1)
    assert gaps.max() < 0.02  # exp(-10) of tokens of size 7, and leader changes on the way


def test_four_points_for_symmetric_tokens():
    run = middle_run(16, 6, (5.0, -5.0, 2.0), 0.8, 12.0)
    report = CODIMENSION.verify(run)
    assert report.applies and not report.holds
    assert len(np.unique(final_leaders(run))) == 4


def test_at_most_three_points():
    corners = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 3.0]])
    cloud = np.repeat(corners, 4, axis=0) + 1e-3 * tokens(8, 12, 2)
    assert len(at_most_three(cloud, 0.1)) == 3 and len(at_most_three(cloud[:4], 0.1)) == 1
    assert len(at_most_three(tokens(9, 30, 2), 0.1)) == 3


def test_growing_coordinates_see_only_growing_eigenvalues():
    x, V = tokens(10), np.array(SYMMETRIC)
    run = ac.simulate(ac.TokenFlow(np.eye(3), np.eye(3), V), x, (0.0, 2.0))
    N = left_invariant(V, lambda a, b: a > 0)[0]
    direct = run.tokens[-1] @ scipy.linalg.expm(-2.0 * V).T @ N.T
    assert np.abs(growing_coordinates(run)[-1] - direct).max() < 1e-10


def test_random_matrices_are_of_their_kind():
    for ensemble, complex_leading in (("symmetric", False), ("gaussian", False), ("complex", True)):
        values = np.linalg.eigvals(random_value_matrix(np.random.default_rng(1), ensemble, 3))
        leading = values[values.real.argmax()]
        assert leading.real == pytest.approx(1.0) and (leading.imag != 0) == complex_leading


@pytest.mark.parametrize("d", [2, 3])
def test_drawn_planes_lie_in_the_hyperplane(d):
    normal = np.arange(1.0, d + 1)
    corners = across(normal, 2.5, 4.0)
    assert corners.shape == (2 ** (d - 1), d) and np.allclose(corners @ normal, 2.5)
