"""Spectral quantities against closed forms and defining equations."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from oracles import positive_definite, rotation
from scipy.linalg import expm

from attn_clusters import spectrum


@pytest.mark.parametrize("V", [
    0.7 * np.eye(3), positive_definite(4, 1), np.random.default_rng(2).standard_normal((3, 3)),
    [[1.0, 1.0], [0.0, 1.0]], [[0.0, -2.0], [2.0, 0.0]]],
    ids=["scalar", "symmetric", "general", "defective", "rotation"])
def test_propagator_is_the_matrix_exponential(V):
    exponential = spectrum.propagator(V)
    for t in (-1.0, 0.0, 0.5, 3.0):
        expected = expm(t * np.array(V))
        assert_allclose(exponential(t), expected, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("seed", range(5))
def test_leading_pair_solves_both_eigenvalue_equations(seed):
    V = np.random.default_rng(seed).uniform(0.1, 1.0, (4, 4))  # positive: Perron's theorem
    pair = spectrum.leading_eigenpair(V)
    assert pair.value.imag == 0 and pair.gap > 0
    assert_allclose(V @ pair.right, pair.value.real * pair.right, atol=1e-13)
    assert_allclose(pair.left @ V, pair.value.real * pair.left, atol=1e-13)
    assert pair.left @ pair.right == pytest.approx(1.0, abs=1e-13)
    assert (pair.right > 0).all() and (pair.left > 0).all()


def test_leading_pair_is_the_largest_in_modulus():
    pair = spectrum.leading_eigenpair(np.diag([1.0, -3.0, 2.0]))
    assert pair.value == -3.0 and pair.gap == pytest.approx(1.0)


def test_a_complex_leading_pair_has_no_gap():
    pair = spectrum.leading_eigenpair([[0.0, -2.0], [2.0, 0.0]])
    assert pair.value == pytest.approx(2j) and pair.gap == pytest.approx(0.0, abs=1e-15)


def test_splitting_of_the_papers_matrix():
    split = spectrum.paranormal_splitting(np.diag([1.0, 1.0, -0.5]))
    assert (split.value, split.radius_G, split.defect) == (1.0, 0.5, 0.0)
    assert_allclose(split.projection, np.diag([1.0, 1.0, 0.0]), atol=1e-15)


@pytest.mark.parametrize("seed", range(4))
def test_splitting_of_a_skewed_matrix(seed):
    """F and G not orthogonal: the projection commutes with V, is idempotent, and V = lambda on F."""
    S = np.random.default_rng(seed).standard_normal((4, 4))
    V = S @ np.diag([2.0, 2.0, 0.5, -1.0]) @ np.linalg.inv(S)
    split = spectrum.paranormal_splitting(V)
    size = np.linalg.norm(V, 2) * np.linalg.cond(S)
    assert split.basis_F.shape == (4, 2) and split.radius_G == pytest.approx(1.0, abs=1e-9)
    assert_allclose(split.projection @ split.projection, split.projection, atol=1e-11 * size)
    assert_allclose(split.projection @ V, V @ split.projection, atol=1e-11 * size)
    assert_allclose(split.projection @ split.basis_G, 0.0, atol=1e-11 * size)
    assert_allclose(V @ split.basis_F, 2.0 * split.basis_F, atol=1e-11 * size)


def test_splitting_sees_a_defective_eigenvalue():
    V = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, -0.5]])
    assert spectrum.paranormal_splitting(V).defect > 0.5


@pytest.mark.parametrize("d, multiplicity", [(2, 1), (3, 2), (5, 3)])
def test_principal_eigenspace_with_multiplicity(d, multiplicity):
    turn = rotation(d, d)
    values = np.array([3.0] * multiplicity + [1.0 / (1 + k) for k in range(d - multiplicity)])
    M = (turn * values) @ turn.T
    value, basis, gap = spectrum.principal_eigenspace((M + M.T) / 2)
    assert value == pytest.approx(3.0) and gap == pytest.approx(2.0)
    projection = turn[:, :multiplicity] @ turn[:, :multiplicity].T
    assert_allclose(basis @ basis.T, projection, atol=1e-13)


def test_a_multiple_of_the_identity_has_infinite_gap():
    value, basis, gap = spectrum.principal_eigenspace(2 * np.eye(3))
    assert (value, gap) == (2.0, np.inf) and basis.shape == (3, 3)


@pytest.mark.parametrize("seed", range(3))
def test_square_root(seed):
    M = positive_definite(4, seed)
    A = spectrum.square_root(M)
    assert_allclose(A @ A, M, atol=1e-14 * 10)
    assert_allclose(A, A.T, atol=1e-15)


@pytest.mark.parametrize("call, name", [
    (lambda: spectrum.square_root(np.diag([1.0, -1.0])), "M"),
    (lambda: spectrum.square_root([[1.0, 0.5], [0.0, 1.0]]), "M"),
    (lambda: spectrum.principal_eigenspace([[1.0, 0.5], [0.0, 1.0]]), "M"),
    (lambda: spectrum.leading_eigenpair(np.ones((2, 3))), "V"),
    (lambda: spectrum.propagator([[np.nan]]), "V"),
    (lambda: spectrum.score_matrix(np.ones((2, 3)), np.ones((1, 3))), "K")])
def test_bad_matrices_are_refused_by_name(call, name):
    with pytest.raises(ValueError, match=f"^{name}"):
        call()
