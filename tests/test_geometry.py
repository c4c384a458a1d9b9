"""Hulls and the limit set S: closed forms in every dimension, a brute-force search, definitions."""

from itertools import product
from math import comb, factorial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracles import positive_definite, rotation

from attn_clusters import geometry
from attn_clusters.geometry import Hull, limit_set


def cube(d):
    return np.array(list(product((-1.0, 1.0), repeat=d)))


def embed(points, d, seed, shift=0.0):
    """Points placed in a random affine subspace of R^d."""
    return points @ rotation(d, seed)[: points.shape[1]] + shift


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_cube(d):
    hull = Hull(np.concatenate([cube(d), np.zeros((1, d))]))
    assert hull.rank == d and len(hull.vertices) == 2**d and hull.volume == pytest.approx(2**d)
    assert hull.excess(np.full((1, d), 0.99))[0] == 0.0
    assert hull.excess(np.eye(d)[:1] * 3)[0] == pytest.approx(2.0)


@pytest.mark.parametrize("r, d", [(0, 1), (0, 3), (1, 1), (1, 2), (1, 5), (2, 3), (2, 6), (3, 4)])
def test_simplices_in_subspaces(r, d):
    """The standard simplex of rank r in R^d: volume sqrt(r + 1) / r!, all r + 1 corners extreme."""
    corners = np.eye(r + 1) if r + 1 <= d else np.arange(2.0)[:, None] * np.sqrt(2)
    points = embed(corners, d, seed=r + d, shift=1.0)
    hull = Hull(points)
    expected = np.sqrt(r + 1) / factorial(r) if r else 0.0
    assert hull.rank == r and len(hull.vertices) == r + 1
    assert hull.volume == pytest.approx(expected, rel=1e-12)
    assert_allclose(hull.excess(points), 0.0, atol=1e-13)


def test_excess_off_a_flat_hull_is_the_distance():
    hull = Hull(np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0]]))
    assert hull.excess([[0.2, 0.2, -0.7]])[0] == pytest.approx(0.7)


def test_the_limit_set_of_a_cube_has_one_point_a_face():
    """Every face of [-1, 1]^d has its centre nearest to 0: 3^d points, 0 included."""
    for d in (1, 2, 3, 4):
        members, vertices = limit_set(cube(d), np.eye(d))
        expected = np.array(list(product((-1, 0, 1), repeat=d)), float)
        assert len(members) == 3**d == sum(comb(d, k) * 2 ** (d - k) for k in range(d + 1))
        gaps = np.abs(members[:, None] - expected).max(axis=2)
        assert gaps.min(axis=0).max() < 1e-12
        assert len(vertices) == 2**d


@pytest.mark.parametrize("d", [3, 4])
def test_a_coplanar_cube_off_the_origin(d):
    """A cube one step above 0: its own faces, and its centre in place of 0."""
    points = np.concatenate([cube(d - 1), np.ones((2 ** (d - 1), 1))], axis=1)
    members, _ = limit_set(points, np.eye(d))
    assert len(members) == 3 ** (d - 1)
    assert_allclose(members[:, -1], 1.0, atol=1e-12)


def test_the_line():
    assert sorted(limit_set([[1.0], [3.0], [-2.0]], [[2.0]])[0].ravel()) == [-2.0, 0.0, 3.0]
    assert sorted(limit_set([[1.0], [3.0]], [[2.0]])[0].ravel()) == [3.0]


def test_one_point_and_zero():
    assert_allclose(limit_set([[1.0, 2.0], [1.0, 2.0]], np.eye(2))[0], [[1.0, 2.0]])
    assert_allclose(limit_set(np.zeros((3, 2)), np.eye(2))[0], [[0.0, 0.0]])


def test_a_vertex_may_fail_the_definition():
    """(2, 1) is a vertex of this square but <(2, 1), (4, 1)> = 9 exceeds |(2, 1)|^2 = 5."""
    members, vertices = limit_set(np.array([[4.0, 1], [4, -1], [2, -1], [2, 1]]), np.eye(2))
    assert len(vertices) == 4
    assert sorted(map(tuple, members.round(12).tolist())) == [(4.0, -1.0), (4.0, 0.0), (4.0, 1.0)]


@settings(max_examples=40, deadline=None)
@given(d=st.integers(2, 3), n=st.integers(3, 9), seed=st.integers(0, 10**6))
def test_members_satisfy_the_definition(d, n, seed):
    points = np.random.default_rng(seed).uniform(-1, 1, (n, d))
    B = positive_definite(d, seed)
    members, vertices = limit_set(points, B, tolerance=1e-9)
    if len(members):
        support = (members @ B @ vertices.T).max(axis=1)
        assert_allclose(support, np.einsum("ij,jk,ik->i", members, B, members), atol=1e-7)
        assert Hull(points).excess(members).max() < 1e-7
    # The farthest point in the norm |A.| always belongs to S, by Cauchy-Schwarz.
    sizes = np.einsum("ij,jk,ik->i", points, B, points)
    assert np.linalg.norm(members - points[sizes.argmax()], axis=1).min() < 1e-7


@pytest.mark.parametrize("seed", range(3))
def test_no_member_is_missed(seed):
    """A fine search of the boundary of a polygon finds the members and nothing else."""
    rng = np.random.default_rng(seed)
    angles = np.sort(rng.uniform(0, 2 * np.pi, 6))
    points = np.stack([np.cos(angles), np.sin(angles)], axis=1) * rng.uniform(1, 1.2, (6, 1))
    B = positive_definite(2, seed)
    members, vertices = limit_set(points, B, tolerance=1e-9)
    hull = Hull(points)
    corners = points[hull.vertices]
    s = np.linspace(0, 1, 20001)[:, None]
    edges = np.concatenate([a + s * (b - a) for a, b in zip(corners, np.roll(corners, -1, 0),
                                                           strict=True)])
    defect = (edges @ B @ vertices.T).max(axis=1) - np.einsum("ij,jk,ik->i", edges, B, edges)
    # Along an edge the defect grows linearly from a member, with a slope of about half the edge.
    near = edges[defect < 2e-4]
    boundary = members[np.linalg.norm(members, axis=1) > 1e-9]
    assert geometry.distance_to_points(near, boundary).max() < 0.01
    assert geometry.distance_to_points(boundary, near).max() < 1e-3


def test_the_limit_set_turns_with_the_tokens():
    points, U, B = np.random.default_rng(4).uniform(-1, 1, (12, 3)), rotation(3, 5), positive_definite(3, 6)
    plain, _ = limit_set(points, B)
    turned, _ = limit_set(points @ U.T, U @ B @ U.T)
    assert len(plain) == len(turned)
    assert geometry.distance_to_points(turned, plain @ U.T).max() < 1e-12


def test_merge_chains_and_keeps_order():
    points = np.array([[5.0, 0], [0, 0], [0, 0.1], [0, 0.2], [5, 0.05]])
    assert_allclose(geometry.merge(points, 0.11), [[5.0, 0.025], [0.0, 0.1]])


@pytest.mark.parametrize("call, name", [
    (lambda: limit_set(np.ones((3, 2)), np.diag([1.0, -1.0])), "B"),
    (lambda: limit_set(np.ones((3, 2)), np.eye(3)), "B"),
    (lambda: limit_set(np.ones((3, 2)), [[1.0, 0.3], [0.0, 1.0]]), "B"),
    (lambda: limit_set(np.ones((3, 2)), np.eye(2), tolerance=0.0), "tolerance"),
    (lambda: Hull(np.empty((0, 2))), "points"),
    (lambda: Hull([[np.nan, 0.0]]), "points"),
    (lambda: geometry.distance_to_points(np.ones((2, 2)), np.empty((0, 2))), "members")])
def test_bad_input_is_refused_by_name(call, name):
    with pytest.raises(ValueError, match=f"^{name}"):
        call()
