"""The three phases at low temperature: collapse, waiting, departure; predicted and measured.

Prediction. Let phi span the principal eigenspace of V B^T and be an eigenvector of V, with
eigenvalue v, and let e_j be another common eigenvector of V and B, with eigenvalues v_j and b_j;
b is that of phi. After the collapse the tokens near phi have a mean m and a standard deviation s
along e_j. A token at u attends to them under a Gaussian kernel of precision beta b, so that with
y = beta b s^2 (Gaussian tokens, small u) the average token it sees is (y (b_j / b) u + m) / (1 + y),

    du/dt = v_j (y (b_j / b) u + m) / (1 + y) - v u.                                    (cluster)

While y is large, mean and deviations fall at the rate c = v - v_j b_j / b of the zero-temperature
flow. Once s is below (beta b)^(-1/2), at t about log(beta) / (2 c), the deviations fall at the
rate v, but the mean follows the Oja flow of V itself and grows at the rate r = v_j - v if that is
positive. Both are of size beta^(-1/2) then: hence the closest approach, and the time of departure
log(beta) (1 / (2 c) + 1 / (2 r)).
"""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from . import _checks
from .measures import coupling_bound, principal_projection, wasserstein2_two_atoms
from .spectrum import principal_eigenspace, resolution

HALF_TURN = np.sqrt(0.5)


@dataclass(frozen=True, eq=False)
class Phases:
    """Rates and slopes predicted by linearisation at the two clusters +-phi.

    Attributes
    ----------
    direction : array, shape (d,)
        phi, the unit eigenvector of V B^T for its largest eigenvalue.
    collapse : array, shape (d - 1,)
        Rates (mu_1 - mu_j) / |B^T phi| at which the zero-temperature flow reaches phi, one for each
        other eigenvector e_j of V B^T.
    contraction : float
        Rate at which a cluster narrower than beta^(-1/2) shrinks: phi^T V phi, with the opposite
        sign if phi^T B phi < 0, for then each cluster attends to the other one. A negative
        number means that no narrow cluster exists.
    growth : array, shape (d - 1,)
        Rates at which the centre of such a cluster moves along e_j: v_j - v if it attends to
        itself, |v_j| - |v| if it attends to the other.
    misalignment : float
        How far phi is from being an eigenvector of V, as the sine of the angle of phi and V phi.
    coupling : float
        |B V - V B| / (|B| |V|): the slopes below are exact if it vanishes (and V is symmetric).
    """

    direction: np.ndarray
    collapse: np.ndarray
    contraction: float
    growth: np.ndarray
    misalignment: float
    coupling: float

    @property
    def leaves(self):
        """Whether some direction is unstable, so that the clusters leave."""
        return bool(self.growth.max() > 0)

    @property
    def _first(self):
        if not self.leaves:
            raise ValueError("V: the clusters +-phi are stable, so that there is no departure; "
                             f"the largest rate of growth is {self.growth.max():.3g}")
        slopes = np.full(len(self.growth), np.inf)
        unstable = self.growth > 0
        slopes[unstable] = 0.5 / self.collapse[unstable] + 0.5 / self.growth[unstable]
        return int(np.argmin(slopes))

    @property
    def rates(self):
        """(c, r) of the direction in which the clusters leave first."""
        return float(self.collapse[self._first]), float(self.growth[self._first])

    @property
    def approach_slope(self):
        """Time of the closest approach per log(beta): 1 / (2 c)."""
        return 0.5 / self.rates[0]

    @property
    def departure_slope(self):
        """Time of departure per log(beta): 1 / (2 c) + 1 / (2 r)."""
        return 0.5 / self.rates[0] + 0.5 / self.rates[1]

    @property
    def error_power(self):
        """Power of beta in the finite-temperature term beta^power e^{r t}: -(1 + r / c) / 2."""
        collapse, growth = self.rates
        return -0.5 * (1 + growth / collapse)

    @property
    def least_exponent(self):
        """The least C_1 for which the theorem's bound holds for every beta: r c / (r + c)."""
        collapse, growth = self.rates
        return growth * collapse / (growth + collapse)


def phases(B, V):
    """Predict the phases of a flow from its matrices.

    Parameters
    ----------
    B, V : arrays, shape (d, d)
        V B^T symmetric, with a simple largest eigenvalue.

    Returns
    -------
    Phases

    Raises
    ------
    ValueError
        If V B^T is not symmetric, its largest eigenvalue is multiple, or B^T phi = 0.
    """
    B = _checks.matrix("B", B, square=True)
    V = _checks.matrix("V", V, square=True, columns=len(B))
    _, basis, _ = principal_eigenspace(V @ B.T)
    if basis.shape[1] > 1:
        raise ValueError("V: expected a simple largest eigenvalue of V B^T, got one of "
                         f"multiplicity {basis.shape[1]}")
    values, vectors = np.linalg.eigh((V @ B.T + B @ V.T) / 2)
    values, phi, others = values[::-1], vectors[:, -1], vectors[:, -2::-1]
    clock = np.linalg.norm(B.T @ phi)
    if clock <= resolution(B):
        raise ValueError("B: B^T phi = 0, so that a token at phi attends to all tokens alike")
    own, across = phi @ V @ phi, np.sum(others * (V @ others), axis=0)
    attends_itself = phi @ B @ phi > 0
    growth = across - own if attends_itself else np.abs(across) + own
    image = V @ phi
    size = max(np.linalg.norm(B, 2) * np.linalg.norm(V, 2), np.finfo(float).tiny)
    return Phases(
        direction=_checks.frozen(phi), collapse=_checks.frozen((values[0] - values[1:]) / clock),
        contraction=float(own if attends_itself else -own), growth=_checks.frozen(growth),
        misalignment=float(np.linalg.norm(image - own * phi)
                           / max(np.linalg.norm(image), np.finfo(float).tiny)),
        coupling=float(np.linalg.norm(B @ V - V @ B, 2) / size))


def cluster_rates(width, beta, b, v, b_j, v_j):
    """Rates of growth of the width and of the centre of a cluster: equation (cluster).

    Parameters
    ----------
    width : float or array
        Standard deviation s of the tokens of the cluster along e_j.
    beta : float
        Inverse temperature.
    b, v, b_j, v_j : float
        Eigenvalues of B and V for phi and for e_j, b > 0.

    Returns
    -------
    of_width, of_centre : float or array
        d(log s)/dt and d(log m)/dt.
    """
    y = _checks.positive("beta", beta) * _checks.positive("b", b) * np.asarray(width, float) ** 2
    seen = v_j * (b_j / b) * y / (1 + y)
    return seen - v, seen + v_j / (1 + y) - v


def principal_space(V, by="real part", tolerance=1e-9):
    """Orthonormal basis of the invariant subspace of V for its leading eigenvalues.

    Parameters
    ----------
    V : array, shape (d, d)
    by : {"real part", "magnitude"}
        Whether the eigenvalues with the largest real part or those with the largest magnitude lead;
        several are taken together if they tie, as the members of a complex pair do.
    tolerance : float
        Eigenvalues that differ by less, relative to |V|, tie.

    Returns
    -------
    array, shape (d, k)
    """
    V = _checks.matrix("V", V, square=True)
    _checks.choice("by", by, ("real part", "magnitude"))
    values = np.linalg.eigvals(V)
    top = (values.real if by == "real part" else np.abs(values)).max()
    least = top - tolerance * max(np.linalg.norm(V, 2), np.finfo(float).tiny)

    def leads(real, imaginary=0.0):
        return (real if by == "real part" else np.hypot(real, imaginary)) >= least

    _, vectors, dimension = scipy.linalg.schur(V, output="real", sort=leads)
    return vectors[:, :dimension]


def distance_to_space(tokens, basis):
    """|x - P x| for tokens (..., n, d) and the orthogonal projection P onto a subspace (d, k)."""
    return np.linalg.norm(tokens - tokens @ basis @ basis.T, axis=-1)


def distance_to_collapsed(run):
    """W2(rho_t, Pi_# rho_0) at every time of a run, shape (T,).

    Exact if E has dimension 1, where Pi_# rho_0 has two atoms; else the upper bound of the coupling
    that moves each token to its own Pi(x(0)).

    Raises
    ------
    ValueError
        If V B^T is not symmetric, or a token starts orthogonal to E.
    """
    _, basis, _ = principal_eigenspace(run.flow.V @ run.flow.B.T)
    weights = getattr(run.flow, "weights", None)
    limit = principal_projection(run.tokens[0], basis)
    if basis.shape[1] > 1:
        return np.array([coupling_bound(x, limit, weights) for x in run.tokens])
    phi = basis[:, 0]
    mass = np.full(len(limit), 1 / len(limit)) if weights is None else weights
    p = min(1.0, float(mass[limit @ phi > 0].sum()))
    return np.array([wasserstein2_two_atoms(x, phi, -phi, p, weights) for x in run.tokens])


def departed_share(tokens, direction, weights=None):
    """Mass of the tokens more than 45 degrees away from both +-direction.

    Parameters
    ----------
    tokens : array, shape (..., n, d)
    direction : array, shape (d,)
    weights : array, shape (n,), optional

    Returns
    -------
    float or array, shape (...)
    """
    away = np.abs(tokens @ direction) < HALF_TURN
    return away.mean(axis=-1) if weights is None else away @ weights


def crossing_time(times, values, level):
    """First time at which a curve rises through a level, by linear interpolation; inf if never.

    A curve that starts above the level must first fall below it.
    """
    times, values = _checks.array("times", times, ndim=1), _checks.array("values", values, ndim=1)
    rises = np.flatnonzero((values[:-1] < level) & (values[1:] >= level))
    if len(rises) == 0:
        return np.inf
    k = rises[0]
    part = (level - values[k]) / (values[k + 1] - values[k])
    return float(times[k] + part * (times[k + 1] - times[k]))


def laplace_rate(beta):
    """sqrt(log(beta + 1) / beta), the order of the finite-temperature error in the theorem."""
    beta = np.asarray(beta, float)
    return np.sqrt(np.log(beta + 1) / beta)


def concentration_bound(beta, times, collapse, growth):
    """laplace_rate(beta) e^{growth t} + e^{-collapse t}, the theorem's bound without its C.

    Shape (beta, times) for arrays beta and times.
    """
    error = np.multiply.outer(laplace_rate(beta), np.exp(growth * np.asarray(times)))
    return error + np.exp(-collapse * np.asarray(times))


def least_constant(distances, beta, times, collapse, growth):
    """The least C for which C times the bound is above every distance of a grid (beta, times)."""
    return float((distances / concentration_bound(beta, times, collapse, growth)).max())
