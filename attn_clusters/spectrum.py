"""Spectra of the matrices Q, K, V: the numbers on which the statements' hypotheses rest."""

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from . import _checks


def score_matrix(Q, K):
    """B = Q^T K, the only way in which Q and K enter: <Qx, Ky> = x^T B y. Shape (d, d)."""
    Q = _checks.matrix("Q", Q)
    K = _checks.matrix("K", K)
    if Q.shape != K.shape:
        raise ValueError(f"K: expected the shape {Q.shape} of Q, got {K.shape}")
    return Q.T @ K


def asymmetry(M):
    """|M - M^T| / |M| in the spectral norm; 0 for the zero matrix."""
    M = _checks.matrix("M", M, square=True)
    size = np.linalg.norm(M, 2)
    return float(np.linalg.norm(M - M.T, 2) / size) if size > 0 else 0.0


def smallest_eigenvalue(M):
    """Smallest eigenvalue of the symmetric part of M."""
    M = _checks.matrix("M", M, square=True)
    return float(np.linalg.eigvalsh((M + M.T) / 2)[0])


def resolution(M):
    """How far apart eigenvalues of a float64 matrix must be to be told apart: d eps |M|."""
    return len(M) * np.finfo(float).eps * np.linalg.norm(M, 2)


def square_root(M):
    """Symmetric positive square root A of a symmetric positive definite M: A^2 = M."""
    M = _checks.matrix("M", M, square=True)
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    if asymmetry(M) > 1e-9 or values[0] <= 0:
        raise ValueError("M: expected a symmetric positive definite matrix, got asymmetry "
                         f"{asymmetry(M):.3g} and smallest eigenvalue {values[0]:.3g}")
    return (vectors * np.sqrt(values)) @ vectors.T


def propagator(V):
    """Return the function t -> e^{tV}.

    V is diagonalised once if it is symmetric, or if the condition number of its eigenvectors is
    below 100, so that no more than two digits are lost; otherwise each call goes through
    `scipy.linalg.expm`, which is many times slower for small matrices.
    """
    V = _checks.matrix("V", V, square=True)
    identity = np.eye(len(V))
    if np.array_equal(V, V[0, 0] * identity):
        return lambda t: np.exp(t * V[0, 0]) * identity
    if np.array_equal(V, V.T):
        values, vectors = np.linalg.eigh(V)
        return lambda t: (vectors * np.exp(t * values)) @ vectors.T
    values, vectors = np.linalg.eig(V)
    if np.linalg.cond(vectors) < 100:
        inverse = np.linalg.inv(vectors)
        return lambda t: ((vectors * np.exp(t * values)) @ inverse).real
    return lambda t: scipy.linalg.expm(t * V)


@dataclass(frozen=True)
class LeadingEigenpair:
    """The eigenvalue of largest modulus and its right and left eigenvectors.

    Attributes
    ----------
    value : complex
        lambda_1. A member of a complex pair has the positive imaginary part.
    gap : float
        |lambda_1| - |lambda_2|, counted with multiplicity; 0 for a complex pair. For d = 1 it is
        |lambda_1|.
    right : array, shape (d,)
        phi_1 with |phi_1| = 1, real if the eigenvalue is simple and real.
    left : array, shape (d,)
        phi_1*, scaled so that <phi_1*, phi_1> = 1.
    """

    value: complex
    gap: float
    right: np.ndarray
    left: np.ndarray


def leading_eigenpair(V):
    """Leading eigenpair of V (section 4 of the first paper).

    Raises
    ------
    ValueError
        If V is not a square real matrix.

    Notes
    -----
    For a defective leading eigenvalue <phi_1*, phi_1> vanishes; `left` is then left unscaled.
    """
    V = _checks.matrix("V", V, square=True)
    values, left, right = scipy.linalg.eig(V, left=True, right=True)
    order = np.lexsort((-values.imag, -values.real, -np.abs(values)))
    first, moduli = order[0], np.abs(values[order])
    phi, dual = _real_if_possible(right[:, first]), _real_if_possible(left[:, first].conj())
    product = dual @ phi
    if abs(product) > 1e-12:
        dual = dual / product
    gap = moduli[0] - moduli[1] if len(moduli) > 1 else moduli[0]
    return LeadingEigenpair(complex(values[first]), float(gap), phi, dual)


def _real_if_possible(vector):
    """Turn a complex multiple of a real vector into that vector, largest entry positive."""
    largest = vector[np.argmax(np.abs(vector))]
    turned = vector * (largest.conjugate() / abs(largest))
    return turned.real if np.abs(turned.imag).max() < 1e-12 else turned


@dataclass(frozen=True)
class Splitting:
    """R^d = F + G, with V = lambda Id on F and spectral radius below lambda on G.

    Attributes
    ----------
    value : float
        lambda, the largest real eigenvalue.
    basis_F, basis_G : arrays, shapes (d, f) and (d, g)
        Orthonormal bases of F and G (columns); F and G need not be orthogonal to each other.
    projection : array, shape (d, d)
        The projection onto F along G.
    radius_G : float
        Spectral radius of V on G; 0 if G = {0}.
    defect : float
        |V - lambda Id| on F relative to |V|: 0 when lambda has a full set of eigenvectors.
    """

    value: float
    basis_F: np.ndarray
    basis_G: np.ndarray
    projection: np.ndarray
    radius_G: float
    defect: float


def paranormal_splitting(V, tolerance=1e-8):
    """Split R^d into the eigenspace F of the leading real eigenvalue of V and the rest G.

    Eigenvalues within `tolerance` (relative to |V|) of the largest real part count as equal to it.

    Raises
    ------
    ValueError
        If V is not a square real matrix.
    """
    V = _checks.matrix("V", V, square=True)
    size = max(np.linalg.norm(V, 2), np.finfo(float).tiny)
    value = float(np.linalg.eigvals(V).real.max())

    def near(real, imaginary=0.0):
        return np.hypot(real - value, imaginary) <= tolerance * size

    # Ordered Schur forms of V and V^T give orthonormal bases of F and of the annihilator of G.
    triangle, vectors, dim_F = scipy.linalg.schur(V, output="real", sort=near)
    _, dual, _ = scipy.linalg.schur(V.T, output="real", sort=near)
    basis_F, dual_F, basis_G = vectors[:, :dim_F], dual[:, :dim_F], dual[:, dim_F:]
    projection = basis_F @ np.linalg.solve(dual_F.T @ basis_F, dual_F.T)
    rest = np.abs(np.linalg.eigvals(triangle[dim_F:, dim_F:])) if dim_F < len(V) else [0.0]
    defect = np.linalg.norm(triangle[:dim_F, :dim_F] - value * np.eye(dim_F), 2) / size
    return Splitting(value, basis_F, basis_G, projection, float(max(rest)), float(defect))


def principal_eigenspace(M, tolerance=1e-9):
    """Largest eigenvalue of a symmetric M, orthonormal basis of its eigenspace, and the gap.

    Returns
    -------
    value : float
        mu_1.
    basis : array, shape (d, dim E)
        Orthonormal columns.
    gap : float
        mu_1 - mu_2, to the next *distinct* eigenvalue (apart by more than `tolerance` |M|);
        infinity if M is a multiple of the identity.

    Raises
    ------
    ValueError
        If M is not square or not symmetric to 1e-9 of its size.
    """
    M = _checks.matrix("M", M, square=True)
    if asymmetry(M) > 1e-9:
        raise ValueError(f"M: expected a symmetric matrix, got asymmetry {asymmetry(M):.3g}")
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    top = values >= values[-1] - tolerance * max(np.abs(values).max(), np.finfo(float).tiny)
    gap = np.inf if top.all() else float(values[-1] - values[~top][-1])
    return float(values[-1]), vectors[:, top], gap


@dataclass(frozen=True)
class CollapseRates:
    """Exponential rates of the zero-temperature flow (B2).

    Attributes
    ----------
    gap : float
        gamma = mu_1 - mu_2 of V B^T.
    proved : float
        gamma / |B|: the tangent of the angle between a token and E falls at least this fast.
    token : float
        gamma / b_1: the rate at which the slowest token that has come near E goes on.
    escape : float
        Half the rate at which the mass of the tokens that have not yet left the other eigenspaces
        falls.
    law : float
        min(token, escape): the rate of W2(rho_t, Pi_# rho_0).
    """

    gap: float
    proved: float
    token: float
    escape: float

    @property
    def law(self):
        """Rate of the W2 distance."""
        return min(self.token, self.escape)


def collapse_rate(B, V, order=None):
    r"""Rates that the spectrum of V B^T gives to the zero-temperature flow.

    The flow is the Oja flow of V B^T on the clock dt = |B^T x| ds. Near the unit sphere of E_k, the
    eigenspace of mu_k, the clock runs at most b_k = max |B^T u| over that sphere, so that there a
    component along E_j, j < k, grows like e^{(mu_j - mu_k) t / b_k} and, near E, the distance to E
    falls like e^{-gamma t / b_1}. Tokens whose components along all E_j, j < k, are smaller than
    the inverse of that growth are still near E_k at time t. Their mass falls like
    exp(-t sum_{j<k} m_j (mu_j - mu_k) / b_k), m_j = dim E_j, and each adds a constant to W2^2.

    Parameters
    ----------
    B, V : arrays, shape (d, d)
        With V B^T symmetric.
    order : float, optional
        The number m_1 such that the mass of {|P_E x| <= r} falls like r^{m_1}; None means dim E,
        as for every bounded density.

    Returns
    -------
    CollapseRates

    Raises
    ------
    ValueError
        If V B^T is not symmetric, or a multiple of the identity, for which nothing moves.
    """
    B = _checks.matrix("B", B, square=True)
    M = _checks.matrix("V", V, square=True, columns=len(B)) @ B.T
    gap = principal_eigenspace(M)[2]
    if not np.isfinite(gap):
        raise ValueError("V: expected V B^T with two distinct eigenvalues, got a multiple of the "
                         "identity, for which no token moves")
    values, sizes, clocks = _eigenspaces(M, B)
    sizes[0] = sizes[0] if order is None else _checks.positive("order", order)
    escapes = [sizes[:k] @ (values[:k] - values[k]) / clocks[k] for k in range(1, len(values))]
    return CollapseRates(gap, gap / np.linalg.norm(B, 2), float(gap / clocks[0]),
                         float(min(escapes) / 2))


def _eigenspaces(M, B, tolerance=1e-9):
    """Distinct eigenvalues of a symmetric M, falling; dimensions; largest |B^T u| on each."""
    values, vectors = np.linalg.eigh((M + M.T) / 2)
    values, vectors = values[::-1], vectors[:, ::-1]
    first = np.append(True, -np.diff(values) > tolerance * np.abs(values).max())
    groups = np.split(np.arange(len(values)), np.flatnonzero(first)[1:])
    clocks = [np.linalg.norm(B.T @ vectors[:, group], 2) for group in groups]
    return values[first], np.array([float(len(group)) for group in groups]), np.array(clocks)


def left_invariant(V, chosen):
    """Functionals that V maps among themselves: rows N and a matrix M with N V = M N.

    Then N e^{-tV} x = e^{-tM} N x: these coordinates of the rescaled tokens do not feel the
    eigenvalues that were not chosen, however fast e^{-tV} grows along those.

    Parameters
    ----------
    V : array, shape (d, d)
    chosen : callable (real part, imaginary part) -> bool
        Which eigenvalues to take; conjugate ones together.

    Returns
    -------
    N : array, shape (k, d)
        Orthonormal rows; they span the left eigenvectors of the k chosen eigenvalues and are normal
        to the invariant subspace of the others.
    M : array, shape (k, k)
        V seen in these coordinates.

    Raises
    ------
    ValueError
        If V is not a square real matrix.
    """
    V = _checks.matrix("V", V, square=True)
    triangle, vectors, count = scipy.linalg.schur(V.T, output="real", sort=chosen)
    return vectors[:, :count].T, triangle[:count, :count].T


def real_eigenbasis(V):
    """Real basis in which V falls into blocks, one for each real eigenvalue or complex pair.

    Returns
    -------
    basis : array, shape (d, d)
        Columns: eigenvectors, or real and imaginary part for a pair; largest real part first.
    blocks : array, shape (d, d)
        basis^-1 V basis: real eigenvalues on the diagonal, [[a, b], [-b, a]] for a pair a + ib.

    Raises
    ------
    ValueError
        If V is not a square real matrix, or so close to a defective one (condition number of the
        eigenvectors above 1e12) that it has no eigenbasis.
    """
    V = _checks.matrix("V", V, square=True)
    values, vectors = np.linalg.eig(V)
    order = np.lexsort((-values.imag, np.abs(values.imag), -values.real))
    if np.linalg.cond(vectors) > 1e12:
        raise ValueError("V: expected a matrix with an eigenbasis, got eigenvectors of condition "
                         f"number {np.linalg.cond(vectors):.2g}")
    blocks, basis = scipy.linalg.cdf2rdf(values[order], vectors[:, order])
    return basis, blocks
