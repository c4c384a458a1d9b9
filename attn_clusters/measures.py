"""Measures on the sphere: initial laws, quadrature, projection, Wasserstein distances.

A measure is carried by weighted tokens: tokens of shape (n, d) and weights of shape (n,),
positive, with sum 1 to 1e-12 (None: equal weights). A push-forward by a map T moves the tokens
and keeps the weights, so it needs no function of its own: `T(tokens)` with `weights`.

An initial law gives such tokens in two ways: `sample`, with an error of order n^(-1/2), and
`quadrature`, which carries the mean-field limit itself to high order. Of the distances,
`wasserstein2` and `wasserstein2_two_atoms` are exact and `coupling_bound` is an upper bound.
Bad arguments raise a ValueError that names them.

>>> tokens, weights = VonMisesFisherLaw([1.0, 0.0], concentration=2.0).quadrature(64)
>>> collapsed = principal_projection(tokens, [[1.0], [0.0]])
>>> p = weights[collapsed[:, 0] > 0].sum()
>>> exact = wasserstein2_two_atoms(tokens, [1.0, 0.0], [-1.0, 0.0], p, weights)
>>> bool(exact <= coupling_bound(tokens, collapsed, weights))
True
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import optimize, sparse, special, stats
from scipy.spatial.distance import cdist

from . import _checks


@dataclass(frozen=True, eq=False)
class InitialLaw:
    """A law on S^{d-1} whose density depends on the height h = <x, axis> alone (base class).

    Attributes
    ----------
    axis : array, shape (d,)
        Unit vector (to 1e-9), d >= 2.
    full_support, lipschitz : bool
        Is the density bounded below by a positive number; is it Lipschitz? A3 asks for both.
    """

    axis: np.ndarray
    full_support: ClassVar[bool] = True
    lipschitz: ClassVar[bool] = True
    # The density is a reference density, whose heights are drawn by inversion, times a ratio
    # <= _bound. It is smooth on each of the caps (sign of the pole, height of the rim), up to a
    # factor (distance to the rim)^(-_singularity).
    _bound: ClassVar[float] = 1.0
    _caps: ClassVar[tuple] = ((1.0, -1.0),)
    _singularity: ClassVar[float] = 0.0

    def __post_init__(self):
        axis = _checks.array("axis", self.axis, ndim=1)
        if len(axis) < 2:
            raise ValueError(f"axis: expected at least 2 coordinates, got {len(axis)}")
        _check_on_sphere("axis", axis[None])
        object.__setattr__(self, "axis", _checks.frozen(axis / np.linalg.norm(axis)))

    @property
    def d(self):
        """Dimension of the space R^d around the sphere S^{d-1}."""
        return len(self.axis)

    def density(self, x):
        """Density at points x (n, d) of the sphere (to 1e-9), as an array (n,).

        It is taken with respect to the uniform probability measure: its mean is 1.
        """
        x = _checks.matrix("x", x, columns=self.d)
        _check_on_sphere("x", x)
        heights = np.clip(x @ self.axis, -1.0, 1.0)
        return self._reference(heights) * self._ratio(heights)

    def sample(self, n, rng=None):
        """Draw n independent tokens (n, d), exactly: by inversion and rejection."""
        n, rng = _checks.count("n", n), np.random.default_rng(rng)
        heights = np.empty(0)
        while len(heights) < n:
            proposed = self._height(rng.random(n))
            accepted = self._bound * rng.random(n) < self._ratio(proposed)
            heights = np.append(heights, proposed[accepted])
        return self._place(heights[:n], rng.standard_normal((n, self.d - 1)))

    def quadrature(self, n):
        """Deterministic tokens whose weights are density times area, scaled to sum 1.

        - d = 2: equispaced angles if the density is smooth on the circle, else Gauss-Jacobi
          angles on each arc where it is. Spectral (faster than any power of n) for smooth
          integrands, of order n^(-2) for kinked ones, n^(-1) for those that jump.
        - d = 3: Gauss-Jacobi heights on each cap where the density is smooth, times equispaced
          azimuths. Spectral for smooth integrands, of order n^(-1) or better for kinked ones.
        - d >= 4: scrambled Sobol points, always the same, mapped to the sphere by inverse
          distribution functions. Near n^(-1) for smooth integrands as measured, for d up to 10;
          nothing better than n^(-1/2) is guaranteed.

        For d = 2 and 3 the nodes are symmetric about each coordinate plane of an orthonormal
        frame that contains the axis (that of R^d if the axis is a member), up to the caps that
        carry no mass, and no node lies on such a plane, so Pi is defined on all of them.

        Parameters
        ----------
        n : int
            Least number of nodes: the rule has the fewest N >= n that its structure allows
            (d = 2: a multiple of 4; d = 3: a square times 8 or 32; d >= 4: a power of 2).

        Returns
        -------
        tokens : array, shape (N, d)
        weights : array, shape (N,)
        """
        rule = {2: self._circle_rule, 3: self._sphere_rule}.get(self.d, self._sobol_rule)
        heights, across, weights = rule(_checks.count("n", n))
        weights = weights * self._ratio(heights)
        return self._place(heights, across), weights / weights.sum()

    def _circle_rule(self, n):
        n, s, arcs, rim = 4 * -(-n // 4), self._singularity, len(self._caps), self._caps[0][1]
        if rim == -1.0:
            angles, area = 2.0 * np.pi * (np.arange(n) + 0.5) / n, np.ones(n)
        else:
            u, area = special.roots_jacobi(n // arcs, -s, -s)
            area = np.tile(area * (1.0 - u**2) ** s, arcs)
            centres = [0.0 if sign > 0 else np.pi for sign, _ in self._caps]
            angles = np.add.outer(centres, np.arccos(rim) * u).ravel()
        heights = np.cos(angles)
        return heights, np.sin(angles)[:, None], area * self._reference(heights)

    def _sphere_rule(self, n):
        caps = len(self._caps)
        m = 2 * int(np.ceil(np.sqrt(n / 8.0) / caps))  # even, with 2 (caps m)^2 >= n
        u, area = special.roots_jacobi(m, 0.0, -self._singularity)
        heights = np.ravel([sign * (1 + rim + (1 - rim) * u) / 2 for sign, rim in self._caps])
        area = np.tile(area * (1.0 + u) ** self._singularity, caps) * self._reference(heights)
        k = 2 * caps * m
        azimuths = 2.0 * np.pi * (np.arange(k) + 0.5) / k
        circle = np.column_stack([np.cos(azimuths), np.sin(azimuths)])
        return np.repeat(heights, k), np.tile(circle, (caps * m, 1)), np.repeat(area, k)

    def _sobol_rule(self, n):
        # Sobol points are multiples of 2^-30: half a step keeps them off 0 and 1.
        points = stats.qmc.Sobol(self.d, rng=0).random_base2((n - 1).bit_length()) + 2.0**-31
        return self._height(points[:, 0]), special.ndtri(points[:, 1:]), np.ones(len(points))

    def _place(self, heights, across):
        """Tokens at heights (n,), in the directions `across` (n, d-1) of any length."""
        across = across / np.linalg.norm(across, axis=1, keepdims=True)
        radius = np.sqrt((1.0 - heights) * (1.0 + heights))
        x = np.column_stack([heights, radius[:, None] * across])
        normal = np.eye(self.d)[0] - self.axis
        if normal @ normal > 1e-30:  # the Householder reflection that exchanges e_1 and the axis
            x -= np.outer(x @ normal, 2.0 * normal / (normal @ normal))
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    def _reference(self, heights):
        return np.ones_like(heights)

    def _ratio(self, heights):
        return np.ones_like(heights)

    def _height(self, u):
        half = (self.d - 1) / 2  # under the uniform law (1 - h) / 2 is Beta(half, half)
        return 1.0 - 2.0 * special.betaincinv(half, half, u)


class UniformLaw(InitialLaw):
    """The uniform law on S^{d-1}, for d >= 2. Satisfies A3.

    For E of dimension m < d the mean of |P_E x|^(-p) is finite exactly for p < m (A2); the same
    holds for every density between two positive numbers.
    """

    def __init__(self, d):
        super().__init__(np.eye(_checks.count("d", d, least=2))[0])

    def __repr__(self):
        return f"UniformLaw(d={self.d})"


@dataclass(frozen=True, eq=False)
class VonMisesFisherLaw(InitialLaw):
    """Density proportional to exp(concentration <x, axis>), 0 < concentration < 300.

    Smooth, satisfies A3; from 300 on the density on the far side comes too close to the
    smallest float64. Nodes must be spaced well below concentration^(-1/2).
    """

    concentration: float

    def __post_init__(self):
        super().__post_init__()
        _check_between("concentration", self.concentration, 0.0, 300.0)

    def _ratio(self, heights):
        mean = special.hyp0f1(self.d / 2, self.concentration**2 / 4)
        return np.exp(self.concentration * heights) / mean

    def sample(self, n, rng=None):
        """Draw n independent tokens (n, d), by scipy's exact sampler."""
        law = stats.vonmises_fisher(self.axis, self.concentration)
        return law.rvs(_checks.count("n", n), random_state=np.random.default_rng(rng))


@dataclass(frozen=True, eq=False)
class CosineLaw(InitialLaw):
    """Density 1 + amplitude P(<x, axis>), P the zonal harmonic of a degree >= 1 with P(1) = 1.

    On the circle P is cos(degree * angle), on S^2 the Legendre polynomial; degree 1 is
    1 + amplitude <x, axis> in every dimension. Smooth; A3 holds since |amplitude| < 1. The law
    is symmetric under x -> -x if the degree is even.
    """

    amplitude: float
    degree: int = 1

    def __post_init__(self):
        super().__post_init__()
        _check_between("amplitude", self.amplitude, -1.0, 1.0)
        _checks.count("degree", self.degree)

    @property
    def _bound(self):
        return 1.0 + abs(self.amplitude)

    def _ratio(self, heights):
        a = (self.d - 3) / 2
        at_pole = special.eval_jacobi(self.degree, a, a, 1.0)
        return 1.0 + self.amplitude * special.eval_jacobi(self.degree, a, a, heights) / at_pole


@dataclass(frozen=True, eq=False)
class KinkedLaw(InitialLaw):
    """Density proportional to 1 + slope |<x, axis>|, slope > -1.

    Satisfies A3: positive and Lipschitz, but with a kink on the equator.
    """

    slope: float
    _caps: ClassVar[tuple] = ((1.0, 0.0), (-1.0, 0.0))

    def __post_init__(self):
        super().__post_init__()
        _check_between("slope", self.slope, -1.0, np.inf)

    @property
    def _mean(self):
        half = (self.d - 1) / 2
        return 1.0 + self.slope / (half * special.beta(half, 0.5))

    @property
    def _bound(self):
        return max(1.0, 1.0 + self.slope) / self._mean

    def _ratio(self, heights):
        return (1.0 + self.slope * np.abs(heights)) / self._mean


@dataclass(frozen=True, eq=False)
class CapLaw(InitialLaw):
    """The uniform law on the cap <x, axis> >= height, -1 < height < 1.

    Violates A3: the support is not the whole sphere, and the density jumps. If the axis lies in
    E and height > 0, then |P_E x| >= height and all moments in A2 are finite.
    """

    height: float
    full_support: ClassVar[bool] = False
    lipschitz: ClassVar[bool] = False

    def __post_init__(self):
        super().__post_init__()
        _check_between("height", self.height, -1.0, 1.0)

    @property
    def _caps(self):
        return ((1.0, float(self.height)),)

    @property
    def _mass(self):
        half = (self.d - 1) / 2
        return special.betainc(half, half, (1.0 - self.height) / 2)

    def _reference(self, heights):
        return (heights >= self.height) / self._mass

    def _height(self, u):
        return super()._height(u * self._mass)


@dataclass(frozen=True, eq=False)
class EquatorLaw(InitialLaw):
    """Density proportional to |<x, axis>|^(-exponent), 0 < exponent < 1.

    Violates A3: it blows up on the equator (where `density` is inf). As for A2, let E of
    dimension m < d contain the axis. The mean of |P_E x|^(-p) is finite exactly for
    p < m - exponent, so the moments m - exponent <= p < m are lost, which every bounded density
    has. About a share (1e-16)^(1 - exponent) of the law is closer to the equator than float64
    resolves: keep the exponent at or below 1/2 where it matters on which side a token is.
    """

    exponent: float
    lipschitz: ClassVar[bool] = False
    _caps: ClassVar[tuple] = ((1.0, 0.0), (-1.0, 0.0))

    def __post_init__(self):
        super().__post_init__()
        _check_between("exponent", self.exponent, 0.0, 1.0)

    @property
    def _singularity(self):
        return float(self.exponent)

    def _reference(self, heights):
        half, s = (self.d - 1) / 2, self._singularity
        mean = np.exp(special.betaln((1 - s) / 2, half) - special.betaln(0.5, half))
        with np.errstate(divide="ignore"):
            return np.abs(heights) ** -s / mean

    def _height(self, u):
        side, half = 2.0 * u - 1.0, (self.d - 1) / 2
        # h^2 is Beta((1 - exponent) / 2, half)
        square = special.betaincinv((1 - self._singularity) / 2, half, np.abs(side))
        return np.copysign(np.sqrt(square), side)


def principal_projection(tokens, basis):
    """Pi(x) = P_E x / |P_E x|, the limit of the zero-temperature flow (B2).

    Parameters
    ----------
    tokens : array, shape (n, d)
    basis : array, shape (d, m)
        Orthonormal columns (to 1e-9) that span the principal eigenspace E of V B^T.

    Returns
    -------
    array, shape (n, d)
        Tokens on the unit sphere of E; with the weights of `tokens` they are Pi_# rho.

    Raises
    ------
    ValueError
        If |P_E x| <= 1e-15 |x| for a token: orthogonal to E up to rounding, Pi is undefined.
    """
    basis = _checks.matrix("basis", basis)
    tokens = _checks.matrix("tokens", tokens, columns=len(basis))
    if not np.allclose(basis.T @ basis, np.eye(basis.shape[1]), rtol=0.0, atol=1e-9):
        raise ValueError("basis: expected orthonormal columns, to 1e-9")
    coordinates = tokens @ basis
    lengths = np.linalg.norm(coordinates, axis=1)
    lost = np.flatnonzero(lengths <= 1e-15 * np.linalg.norm(tokens, axis=1))
    if len(lost):
        raise ValueError(f"tokens: {len(lost)} of {len(tokens)} (first: index {lost[0]}) are "
                         "orthogonal to E, where P_E x / |P_E x| is undefined")
    return (coordinates / lengths[:, None]) @ basis.T


def wasserstein2(x, y, x_weights=None, y_weights=None):
    """Exact 2-Wasserstein distance of weighted tokens x (n, d) and y (m, d).

    The cost is |x - y|^2 in R^d, also for tokens on the sphere, as in the paper: chords,
    not arcs. Solved by quantiles if d = 1, in O(n log n); by assignment if n = m and all weights
    are equal, in O(n^3); else by a linear program in n m unknowns (HiGHS), good for
    about 500 by 500 tokens. The square of the distance is exact to about 1e-15 (quantiles,
    assignment) or 1e-10 (linear program, certified by duality in each call) of the largest
    |x - y|^2, so a distance of 0 may come out as the square root of that.

    Raises
    ------
    RuntimeError
        If the linear program is not solved to the accuracy stated.
    """
    x = _checks.matrix("x", x)
    y = _checks.matrix("y", y, columns=x.shape[1])
    a, b = _weights("x_weights", x_weights, len(x)), _weights("y_weights", y_weights, len(y))
    if x.shape[1] == 1:
        return float(np.sqrt(_quantile_cost(x[:, 0], y[:, 0], a, b)))
    cost = cdist(x, y, "sqeuclidean")
    if len(x) == len(y) and np.all(a == a[0]) and np.all(b == b[0]):
        return float(np.sqrt(cost[optimize.linear_sum_assignment(cost)].mean()))
    return float(np.sqrt(_transport_cost(cost, a, b)))


def _quantile_cost(x, y, a, b):
    """Integral over (0, 1) of the squared difference of the two quantile functions."""
    i, j = np.argsort(x), np.argsort(y)
    x_levels, y_levels = np.minimum(np.cumsum(a[i]), 1.0), np.minimum(np.cumsum(b[j]), 1.0)
    x_levels[-1] = y_levels[-1] = 1.0
    levels = np.union1d(x_levels, y_levels)
    x_quantiles = x[i][np.searchsorted(x_levels, levels)]
    y_quantiles = y[j][np.searchsorted(y_levels, levels)]
    return np.diff(levels, prepend=0.0) @ (x_quantiles - y_quantiles) ** 2


def _transport_cost(cost, a, b):
    """Least total cost of moving masses a (n,) to masses b (m,), for a cost (n, m)."""
    (n, m), scale = cost.shape, cost.max()
    if scale == 0.0:
        return 0.0
    rows = sparse.kron(sparse.eye_array(n), np.ones((1, m)))
    columns = sparse.kron(np.ones((1, n)), sparse.eye_array(m)).tocsr()[:-1]  # the last follows
    unit = max(n, m)  # masses of order 1, beside which the solver's tolerances are small
    result = optimize.linprog(
        cost.ravel() / scale,
        A_eq=sparse.vstack([rows, columns], format="csc"),
        b_eq=unit * np.concatenate([a, b[:-1]]),
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if result.status != 0:
        raise RuntimeError(f"the transport problem was not solved: {result.message}")
    # Any u is feasible for the dual with v_j = min_i (cost_ij - u_i): a rigorous lower bound.
    value, u = result.fun / unit, result.eqlin.marginals[:n]
    gap = value - a @ u - b @ (cost / scale - u[:, None]).min(axis=0)
    if abs(gap) > 1e-10:
        raise RuntimeError(f"the transport problem was solved up to a duality gap of {gap:.1e}")
    return scale * max(value, 0.0)


def wasserstein2_two_atoms(x, atom_a, atom_b, p, weights=None):
    """Exact 2-Wasserstein distance of tokens x (n, d) to p delta_a + (1 - p) delta_b.

    The mass p that goes to a is that of the tokens with the least |x - a|^2 - |x - b|^2, the last
    of them split: O(n log n). The square is exact to about 1e-15 |a - b|^2, so that a distance
    of 0 may come out as 1e-8 |a - b|.
    """
    x = _checks.matrix("x", x)
    atoms = [_checks.array("atom_a", atom_a, ndim=1), _checks.array("atom_b", atom_b, ndim=1)]
    for name, atom in zip(("atom_a", "atom_b"), atoms, strict=True):
        if len(atom) != x.shape[1]:
            raise ValueError(f"{name}: expected {x.shape[1]} coordinates, got {len(atom)}")
    if not 0.0 <= _checks.array("p", p, ndim=0) <= 1.0:
        raise ValueError(f"p: expected a number from 0 to 1, got {p}")
    to_a, to_b = (np.sum((x - atom) ** 2, axis=1) for atom in atoms)
    order = np.argsort(to_a - to_b)
    mass = _weights("weights", weights, len(x))[order]
    share_a = np.clip(p - (np.cumsum(mass) - mass), 0.0, mass)
    return float(np.sqrt(share_a @ to_a[order] + (mass - share_a) @ to_b[order]))


def coupling_bound(x, y, weights=None):
    """Upper bound sqrt(sum_i w_i |x_i - y_i|^2) on the 2-Wasserstein distance, in O(n).

    It moves each x_i to y_i, both (n, d) and with the same weights: not the distance itself, but
    at hand for as many tokens as one likes.
    """
    x = _checks.matrix("x", x)
    y = _checks.matrix("y", y, columns=x.shape[1])
    if len(x) != len(y):
        raise ValueError(f"y: expected {len(x)} tokens, one for each of x, got {len(y)}")
    return float(np.sqrt(_weights("weights", weights, len(x)) @ np.sum((x - y) ** 2, axis=1)))


def _weights(name, value, n):
    weights = _checks.weights(value, n, name)
    if weights is None:
        return np.full(n, 1.0 / n)
    if abs(weights.sum() - 1.0) > 1e-12:
        raise ValueError(f"{name}: expected a sum of 1 to 1e-12, got {weights.sum():.15g}")
    return weights / weights.sum()


def _check_on_sphere(name, x):
    error = np.abs(np.linalg.norm(x, axis=1) - 1.0).max()
    if error > 1e-9:
        raise ValueError(f"{name}: expected norm 1 to 1e-9, got norms off by up to {error:.2g}")


def _check_between(name, value, low, high):
    if not low < _checks.array(name, value, ndim=0) < high:
        raise ValueError(f"{name}: expected a number between {low} and {high}, got {value}")
