"""Convex hulls of tokens in any dimension, the limit set of the polytope theorem, distances."""

from functools import cached_property
from itertools import combinations

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial import ConvexHull, cKDTree

from . import _checks

FLAT = 1e-10


class Hull:
    """Convex hull of points, degenerate ones included (coplanar, collinear, one point).

    Parameters
    ----------
    points : array, shape (n, d)
        Points; the hull is taken within the affine subspace that they span, whose dimension is
        the number of singular values above `flat` times the largest coordinate.
    flat : float
        Relative thickness below which a direction counts as absent.

    Attributes
    ----------
    points : array, shape (n, d)
    rank : int
        Dimension of the hull, 0 for a single point.
    vertices : array of int
        Indices of the extreme points; counterclockwise for rank 2.
    volume : float
        The `rank`-dimensional volume (length, area, ...); 0 for a single point.
    simplices : array of int, shape (f, rank)
        The boundary, cut into simplices, as indices of points.
    """

    def __init__(self, points, flat=FLAT):
        self.points = _checks.tokens(_checks.array("points", points, ndim=2), "points")
        self.centre = self.points.mean(axis=0)
        shifted = self.points - self.centre
        _, sizes, axes = np.linalg.svd(shifted, full_matrices=False)
        scale = max(np.abs(self.points).max(), np.finfo(float).tiny)
        self.rank = int(np.count_nonzero(sizes > flat * scale))
        full = self.rank == self.points.shape[1]
        self.axes = np.eye(self.rank) if full else axes[: self.rank]
        self._build(shifted @ self.axes.T)

    def _build(self, inner):
        if self.rank >= 2:
            hull = ConvexHull(inner)
            self.vertices, self.simplices = hull.vertices, hull.simplices
            self.volume, self._facets = float(hull.volume), hull.equations
        elif self.rank == 1:
            low, high = int(inner[:, 0].argmin()), int(inner[:, 0].argmax())
            self.vertices, self.simplices = np.array([low, high]), np.array([[low], [high]])
            self.volume = float(inner[high, 0] - inner[low, 0])
            self._facets = np.array([[-1.0, inner[low, 0]], [1.0, -inner[high, 0]]])
        else:
            self.vertices, self.simplices = np.array([0]), np.empty((0, 0), int)
            self.volume, self._facets = 0.0, np.empty((0, 1))

    def excess(self, points):
        """How far points lie outside: 0 inside, else a lower bound of the distance, shape (m,).

        The bound is the largest distance beyond the plane of a facet, and exact off the subspace
        spanned by the hull.
        """
        points = _checks.tokens(_checks.array("points", points, ndim=2), "points",
                                self.points.shape[1])
        shifted = points - self.centre
        off = np.linalg.norm(shifted - shifted @ self.axes.T @ self.axes, axis=1)
        return np.hypot(np.maximum(self._beyond(points), 0.0), off)

    def _beyond(self, points):
        """Signed distance beyond the nearest facet's plane, within the hull's subspace."""
        if self.rank == 0:
            return np.zeros(len(points))
        inner = (points - self.centre) @ self.axes.T
        return (inner @ self._facets[:, :-1].T + self._facets[:, -1]).max(axis=1)

    def boundary_distance(self, points):
        """Euclidean distance of points, inside or outside, to the hull's boundary, shape (m,).

        The boundary is that of a subset of R^d: a flat hull (rank below d) is its own boundary. The
        nearest point is the foot of a perpendicular within some face, so that all faces are tried.
        """
        points = _checks.tokens(_checks.array("points", points, ndim=2), "points",
                                self.points.shape[1])
        nearest = np.full(len(points), np.inf)
        for face in self.faces:
            np.minimum(nearest, _distance_if_within(points, self.points[list(face)]), out=nearest)
        if self.rank == self.points.shape[1]:
            return nearest
        return np.minimum(nearest, np.where(self._beyond(points) <= 0, self.excess(points), np.inf))

    @cached_property
    def faces(self):
        """Index tuples of the simplicial faces of the boundary, vertices first."""
        found = {part for simplex in self.simplices.tolist()
                 for size in range(1, self.rank + 1)
                 for part in combinations(sorted(simplex), size)}
        return sorted(found or {(int(self.vertices[0]),)}, key=lambda part: (len(part), part))


def _distance_if_within(points, corners):
    """Distance to a simplex where the perpendicular's foot lies within it, else infinity."""
    base, edges = corners[0], corners[1:] - corners[0]
    shifted = points - base
    inner = shifted @ np.linalg.pinv(edges) if len(edges) else np.zeros((len(points), 0))
    # Feet on an edge of the simplex may round to either side of it; faces overlap by this much.
    within = (inner >= -1e-12).all(axis=1) & (inner.sum(axis=1) <= 1 + 1e-12)
    return np.where(within, np.linalg.norm(shifted - inner @ edges, axis=1), np.inf)


def merge(points, distance):
    """Replace points that chain together at gaps of at most `distance` by their mean.

    Returns
    -------
    array, shape (m, d)
        One point per group (single linkage), in the order of each group's first member.
    """
    points = _checks.array("points", points, ndim=2)
    if len(points) == 1:
        return points.copy()
    labels = fcluster(linkage(points, "single"), distance, criterion="distance")
    _, first = np.unique(labels, return_index=True)
    return np.stack([points[labels == labels[index]].mean(axis=0) for index in np.sort(first)])


def limit_set(points, B, tolerance=1e-6):
    r"""The set S of the polytope theorem, for the polytope K spanned by the given points.

    S = {x in K : |Ax|^2 = max_j <Ax, A v_j>},  A = B^{1/2},  v_j the vertices of K.

    A point of S maximises <Bx, .> over K, so Bx is normal to a face on which x lies: x is the point
    of that face's affine hull nearest to 0 in the norm |A.|. Each face (cut into simplices)
    gives one candidate, which is then held against the definition; 0 belongs to S if it lies in K.

    Parameters
    ----------
    points : array, shape (n, d)
        Points that span K.
    B : array, shape (d, d)
        Symmetric positive definite matrix Q^T K.
    tolerance : float
        Relative to the size of the points: nearer points are merged; relative to the
        square of the size and to |B|: slack in the definition.

    Returns
    -------
    members : array, shape (m, d)
        The points of S.
    vertices : array, shape (v, d)
        The vertices v_j of K, merged.

    Raises
    ------
    ValueError
        If shapes disagree or B is not symmetric positive definite.
    """
    points = _checks.tokens(_checks.array("points", points, ndim=2), "points")
    B = _checks.matrix("B", B, square=True)
    if B.shape[0] != points.shape[1]:
        raise ValueError(f"B: expected shape {(points.shape[1],) * 2}, got {B.shape}")
    if np.linalg.eigvalsh((B + B.T) / 2)[0] <= 0 or np.abs(B - B.T).max() > 1e-9 * np.abs(B).max():
        raise ValueError("B: expected a symmetric positive definite matrix")
    tolerance = _checks.positive("tolerance", tolerance)
    scale = max(np.linalg.norm(points, axis=1).max(), np.finfo(float).tiny)
    corners = merge(points[Hull(points, flat=tolerance).vertices], tolerance * scale)
    hull = Hull(corners, flat=tolerance)
    vertices = corners[hull.vertices]
    candidates = np.stack([_nearest_to_zero(corners[list(face)], B) for face in hull.faces]
                          + [_nearest_to_zero(corners, B)])
    inside = hull.excess(candidates) <= tolerance * scale
    support = (candidates @ B @ vertices.T).max(axis=1)
    defect = support - np.einsum("ij,jk,ik->i", candidates, B, candidates)
    members = candidates[inside & (defect <= tolerance * scale**2 * np.linalg.norm(B, 2))]
    return _distinct(members, tolerance * scale), vertices


def _nearest_to_zero(corners, B):
    """The point of the corners' affine hull that minimises x^T B x."""
    base, edges = corners[0], corners[1:] - corners[0]
    if len(edges) == 0:
        return base
    shift = np.linalg.lstsq(edges @ B @ edges.T, -edges @ B @ base, rcond=1e-12)[0]
    return base + shift @ edges


def _distinct(points, distance):
    """Keep the first of any points closer than `distance`."""
    kept = []
    for point in points:
        if all(np.linalg.norm(point - other) > distance for other in kept):
            kept.append(point)
    return np.array(kept).reshape(-1, points.shape[1])


def distance_to_points(tokens, members):
    """Euclidean distance of each token (..., d) to the nearest of the members (m, d)."""
    tokens = _checks.array("tokens", tokens)
    members = _checks.array("members", members, ndim=2)
    if len(members) == 0 or tokens.shape[-1] != members.shape[1]:
        raise ValueError(f"members: expected at least one point with {tokens.shape[-1]} "
                         f"coordinates, got shape {members.shape}")
    return cKDTree(members).query(tokens)[0]
