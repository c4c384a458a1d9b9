"""Right-hand sides. A flow is called as ``flow(t, tokens)`` and returns the time derivative.

Each flow is a frozen dataclass that holds its matrices; tokens have shape (n, d), or (runs, n, d)
for a batch of independent runs. A flow may also offer

``layer(step)``
    the discrete-time transformer that belongs to it: a function (k, tokens) -> tokens,
``check_horizon(tokens, time)``
    a ValueError before the run if numbers would leave the range of float64,
``retract(tokens)``
    the way back to the set on which the tokens live, against rounding,
``runs_are_independent = True``
    the promise that some runs of a batch may be evaluated without the others.

`simulate` uses them where they exist; any other callable with the same signature is a flow too.

Tokens may be float64 arrays of torch or JAX (extra ``arrays``): the derivative is then computed by
that library, on its device, and is an array of the same kind. scipy's solvers work on numpy arrays
alone, so such tokens are stepped by `simulate` with ``method="Euler"`` or by your own integrator;
matrices stay numpy arrays.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

import numpy as np
from scipy.integrate import solve_ivp

from . import _checks
from ._arrays import foreign, namespace, times
from .attention import query_key, softmax_average
from .fast import circle_field, line_average
from .spectrum import asymmetry, propagator, resolution

LARGEST_SCORE = 1e300
ON_SPHERE = 1e-9


@dataclass(frozen=True, eq=False)
class _MatrixFlow:
    """Common part of the flows with one query, one key and one value matrix."""

    Q: np.ndarray
    K: np.ndarray
    V: np.ndarray
    fast: bool = field(default=False, kw_only=True)
    runs_are_independent = True

    def __post_init__(self):
        V = _checks.matrix("V", self.V, square=True)
        Q, K = query_key(self.Q, self.K, len(V))
        for name, value in (("Q", Q), ("K", K), ("V", V), ("B", Q.T @ K)):
            object.__setattr__(self, name, _checks.frozen(value))
        object.__setattr__(self, "_propagator", propagator(V))

    @property
    def dimension(self):
        """Dimension d of the tokens."""
        return len(self.V)

    def _average(self, query, key, value):
        on_line = self.fast and query.shape[1:] == (1,) and not foreign(query)
        return (line_average if on_line else softmax_average)(query, key, value)

    def propagate(self, t, tokens):
        """e^{tV} x for each token x: from rescaled to unrescaled tokens (t may be negative)."""
        return times(tokens, self._propagator(t).T)

    def check_horizon(self, tokens, time):
        """Refuse a final time at which e^{tV} x has scores outside float64.

        Raises
        ------
        ValueError
            With the latest time that passes for these tokens, to two digits.
        """
        if self._score_size(tokens, time) < LARGEST_SCORE:
            return
        passes, fails = 0.0, float(time)
        while fails - passes > 0.01 * fails:
            middle = (passes + fails) / 2
            good = self._score_size(tokens, middle) < LARGEST_SCORE
            passes, fails = (middle, fails) if good else (passes, middle)
        raise ValueError(f"times: e^(tV) would overflow float64 at t = {time:g}; for these tokens "
                         f"and matrices the latest time is about {passes:.2g}")

    def _score_size(self, tokens, time):
        with np.errstate(over="ignore", invalid="ignore"):
            radius = np.abs(self.propagate(time, tokens)).max()
            size = radius**2 * self.dimension * max(np.abs(self.B).max(), 1.0)
        return size if np.isfinite(size) else np.inf


class TokenFlow(_MatrixFlow):
    """Self-attention dynamics of the tokens x_i (equation A1).

    dx_i/dt = sum_j P_ij V x_j,  P_ij = softmax over j of <Q x_i, K x_j>.

    Parameters
    ----------
    Q, K : arrays, shape (k, d)
        Query and key matrices; only B = Q^T K enters.
    V : array, shape (d, d)
        Value matrix.
    fast : bool
        For d = 1 let many tokens go through `attn_clusters.fast.line_average`.

    Raises
    ------
    ValueError
        If shapes disagree or numbers are not finite.
    """

    def __call__(self, t, tokens):
        """Time derivative of the tokens, same shape. It does not depend on t."""
        tokens = _checks.tokens(tokens, dimension=self.dimension)
        return times(self._average(times(tokens, self.B), tokens, tokens), self.V.T)

    def rescale(self, t, tokens):
        """z_i = e^{-tV} x_i."""
        return self.propagate(-t, tokens)

    def layer(self, step):
        """x_i^{k+1} = x_i^k + step sum_j P_ij V x_j^k, as a function (k, tokens) -> tokens."""
        return lambda k, tokens: tokens + step * self(k * step, tokens)


class RescaledFlow(_MatrixFlow):
    """Dynamics of the rescaled tokens z_i = e^{-tV} x_i (equation A2).

    dz_i/dt = sum_j P_ij(t) V (z_j - z_i), with P evaluated at the unrescaled tokens e^{tV} z.

    Parameters
    ----------
    Q, K : arrays, shape (k, d)
        Query and key matrices; only B = Q^T K enters.
    V : array, shape (d, d)
        Value matrix.
    fast : bool
        For d = 1 let many tokens go through `attn_clusters.fast.line_average`.

    Raises
    ------
    ValueError
        If shapes disagree or numbers are not finite.
    """

    def __call__(self, t, tokens):
        """Time derivative of the rescaled tokens, same shape."""
        tokens = _checks.tokens(tokens, dimension=self.dimension)
        unscaled = self.propagate(t, tokens)
        average = self._average(times(unscaled, self.B), unscaled, tokens)
        return times(average - tokens, self.V.T)

    def rescale(self, t, tokens):
        """The tokens themselves, which are the z_i already."""
        return tokens

    def layer(self, step):
        """Discrete counterpart of A2, exactly equivalent to the layers of `TokenFlow`.

        With R = I + step V and z^k = R^{-k} x^k,
        z_i^{k+1} = z_i^k + step sum_j P_ij(R^k z^k) R^{-1} V (z_j^k - z_i^k).

        Raises
        ------
        ValueError
            If R is not invertible.
        """
        R = np.eye(self.dimension) + step * self.V
        if np.linalg.cond(R) > 1e12:
            raise ValueError(f"step: I + step V must be invertible, got condition number "
                             f"{np.linalg.cond(R):.2g} for step = {step:g}")
        move = step * np.linalg.solve(R, self.V)

        def advance(k, tokens):
            unscaled = times(tokens, np.linalg.matrix_power(R, k).T)
            average = self._average(times(unscaled, self.B), unscaled, tokens)
            return tokens + times(average - tokens, move.T)

        return advance


def attention_field(points, tokens, B, V, beta, weights=None):
    """The field X_beta[rho] of a weighted measure at any points (section 1 of the second paper).

    X_beta[rho](x) = sum_j w_j e^{beta x^T B y_j} V y_j / sum_j w_j e^{beta x^T B y_j}.

    Parameters
    ----------
    points : array, shape (m, d) or (runs, m, d)
        Where the field is taken; they need not be among the tokens.
    tokens : array, shape (n, d) or (runs, n, d)
        The y_j that carry rho.
    B, V : arrays, shape (d, d)
        B = Q^T K, and the value matrix.
    beta : float
        Inverse temperature, positive.
    weights : array, shape (n,), optional
        Positive, with sum 1; None means equal weights.

    Returns
    -------
    array, shape of `points`
        Not projected onto the tangent space of the sphere.

    Raises
    ------
    ValueError
        If shapes disagree, numbers are not finite or a score exceeds float64.
    """
    V = _checks.matrix("V", V, square=True)
    B = _checks.matrix("B", B, square=True, columns=len(V))
    points = _checks.tokens(points, "points", len(V))
    tokens = _checks.tokens(tokens, dimension=len(V))
    log_weights = _log_weights(_checks.weights(weights, tokens.shape[-2]))
    query = times(points, _checks.positive("beta", beta) * B)
    return times(softmax_average(query, tokens, tokens, log_weights), V.T)


def zero_temperature_field(points, B, V):
    """The limit V B^T x / |B^T x| of X_beta[rho](x) for beta to infinity, rho of full support.

    Parameters
    ----------
    points : array, shape (m, d) or (runs, m, d)
    B, V : arrays, shape (d, d)

    Returns
    -------
    array, shape of `points`

    Raises
    ------
    ValueError
        If B^T x = 0 up to rounding for a point: every y then maximises <Qx, Ky>.
    """
    V = _checks.matrix("V", V, square=True)
    B = _checks.matrix("B", B, square=True, columns=len(V))
    points = _checks.tokens(points, "points", len(V))
    images = points @ B
    lengths = np.linalg.norm(images, axis=-1, keepdims=True)
    rounding = resolution(B)
    lost = lengths <= rounding * np.linalg.norm(points, axis=-1, keepdims=True)
    if lost.any():
        raise ValueError(f"points: B^T x = 0 up to rounding for {np.count_nonzero(lost)} of "
                         f"{lost.size} points, where the zero-temperature field is undefined")
    return (images / lengths) @ V.T


def _log_weights(weights):
    return None if weights is None else np.log(weights)


@dataclass(frozen=True, eq=False)
class _SphereFlow:
    """Common part of the flows on S^{d-1}: matrices, tangent projection, way back to the sphere.

    A flow is evaluated at x / |x|: it is constant along rays, so that the norm of a token is
    conserved exactly in exact arithmetic and the solver's intermediate stages, which leave the
    sphere by their own error, do no harm.
    """

    B: np.ndarray
    V: np.ndarray
    runs_are_independent = True

    def __post_init__(self):
        V = _checks.matrix("V", self.V, square=True)
        B = _checks.matrix("B", self.B, square=True, columns=len(V))
        if len(V) < 2:
            raise ValueError("V: expected a matrix of at least 2 rows (for d = 1 the sphere is "
                             f"two points and no token moves), got shape {V.shape}")
        object.__setattr__(self, "B", _checks.frozen(B))
        object.__setattr__(self, "V", _checks.frozen(V))

    @property
    def dimension(self):
        """Dimension d of the space around the sphere S^{d-1}."""
        return len(self.V)

    def __call__(self, t, tokens):
        """Time derivative of the tokens, same shape and tangent to the sphere."""
        points = self.retract(_checks.tokens(tokens, dimension=self.dimension))
        field = self._field(points)
        radial = namespace(points).sum(field * points, axis=-1, keepdims=True)
        return field - radial * points

    def retract(self, tokens):
        """x / |x| for tokens of shape (..., d).

        Raises
        ------
        ValueError
            If a token is 0.
        """
        xp = namespace(tokens)
        lengths = xp.linalg.vector_norm(tokens, axis=-1, keepdims=True)
        zeros = int(xp.count_nonzero(lengths == 0))
        if zeros:
            raise ValueError(f"tokens: {zeros} of {prod(lengths.shape)} are 0, which has no "
                             "direction")
        return tokens / lengths

    def check_horizon(self, tokens, time):
        """Refuse tokens that do not start on the sphere, to 1e-9."""
        error = np.abs(np.linalg.norm(tokens, axis=-1) - 1.0).max()
        if error > ON_SPHERE:
            raise ValueError(f"tokens: expected norm 1 to {ON_SPHERE:g}, got norms off by up to "
                             f"{error:.2g}")

    def layer(self, step):
        """One layer with normalisation: the direction of x + step dx/dt, as a function (k, x)."""
        return lambda k, tokens: self.retract(tokens + step * self(k * step, tokens))


@dataclass(frozen=True, eq=False)
class SphereFlow(_SphereFlow):
    """Self-attention with weighted tokens on the sphere (equation B1).

    dx_i/dt = P_{x_i} sum_j w_j e^{beta x_i^T B x_j} V x_j / sum_j w_j e^{beta x_i^T B x_j},
    P_x = I - x x^T.

    Parameters
    ----------
    B : array, shape (d, d), d >= 2
        B = Q^T K.
    V : array, shape (d, d)
        Value matrix.
    beta : float
        Inverse temperature, positive.
    weights : array, shape (n,), optional
        Positive weights of the tokens with sum 1, the same in every run of a batch; None means
        equal weights.
    fast : bool
        For d = 2 let many tokens go through `attn_clusters.fast.circle_field`.

    Raises
    ------
    ValueError
        If shapes disagree, numbers are not finite, d = 1, or beta or weights are not positive.
    """

    beta: float
    weights: np.ndarray | None = None
    fast: bool = field(default=False, kw_only=True)

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "beta", _checks.positive("beta", self.beta))
        if self.weights is not None:
            given = _checks.weights(self.weights, np.size(self.weights))
            object.__setattr__(self, "weights", _checks.frozen(given))

    def _field(self, points):
        on_circle = self.fast and points.shape[1:] == (2,) and not foreign(points)
        average = circle_field if on_circle else attention_field
        return average(points, points, self.B, self.V, self.beta, self.weights)


@dataclass(frozen=True, eq=False)
class ZeroTemperatureFlow(_SphereFlow):
    """The limit of `SphereFlow` for beta to infinity while the law keeps full support (B2).

    dx/dt = P_x V B^T x / |B^T x|: each token for itself. It is the Oja flow dx/ds = P_x V B^T x,
    solved by x(s) = e^{s V B^T} x(0) / |.|, run on the clock dt = |B^T x(s)| ds.

    Parameters
    ----------
    B, V : arrays, shape (d, d), d >= 2

    Raises
    ------
    ValueError
        If shapes disagree, numbers are not finite or d = 1; when called, if B^T x = 0 for a token.
    """

    def _field(self, points):
        return zero_temperature_field(points, self.B, self.V)

    def solution(self, tokens, times):
        """The tokens at the given times by the closed form, for a symmetric V B^T.

        Only the clock s(t) of each token is integrated (tolerance 1e-11), so that components
        along the eigenvectors stay exact relative to their own size, however small they are.

        Parameters
        ----------
        tokens : array, shape (n, d)
            On the sphere, at ``times[0]``.
        times : array, shape (T,)
            Increasing, at least two.

        Returns
        -------
        array, shape (T, n, d)

        Raises
        ------
        ValueError
            If V B^T is not symmetric to 1e-9, or tokens do not lie on the sphere.
        RuntimeError
            If the solver gives up.
        """
        M = self.V @ self.B.T
        if asymmetry(M) > 1e-9:
            raise ValueError("V: expected V B^T symmetric, which the closed form asks for, got "
                             f"asymmetry {asymmetry(M):.2g}")
        tokens = _checks.tokens(_checks.array("tokens", tokens, ndim=2), dimension=self.dimension)
        self.check_horizon(tokens, 0.0)
        values, vectors = np.linalg.eigh((M + M.T) / 2)
        start = tokens @ vectors
        with np.errstate(divide="ignore"):
            logarithms = np.log(np.abs(start))

        def oja(s):
            exponents = logarithms + np.outer(s, values)
            exponents -= exponents.max(axis=1, keepdims=True)
            return self.retract(np.copysign(np.exp(exponents), start))

        def clock(t, s):
            return 1.0 / np.linalg.norm(oja(s) @ vectors.T @ self.B, axis=1)

        # The step is chosen by the worst token, not by their mean.
        size = np.sqrt(len(tokens))
        found = solve_ivp(clock, (times[0], times[-1]), np.zeros(len(tokens)), method="DOP853",
                          t_eval=times, rtol=1e-11 / size + 1e-13, atol=1e-11 / size)
        if not found.success:
            raise RuntimeError(f"DOP853 stopped: {found.message}")
        return np.stack([oja(s) @ vectors.T for s in found.y.T])


def consensus_point(tokens, objective, beta, weights=None):
    """The weighted mean of consensus-based optimisation: softmax weights with one objective.

    m = sum_j w_j e^{-beta f(x_j)} x_j / sum_j w_j e^{-beta f(x_j)}: X_beta with V = I and f in place
    of -<Qx, Ky>, hence the same for every token.

    Parameters
    ----------
    tokens : array, shape (n, d) or (runs, n, d)
    objective : array, shape (n,) or (runs, n)
        The values f(x_j).
    beta : float
        Inverse temperature, positive.
    weights : array, shape (n,), optional
        Positive, with sum 1; None means equal weights.

    Returns
    -------
    array, shape (d,) or (runs, d)
    """
    tokens = _checks.tokens(tokens)
    objective = _checks.array("objective", objective, ndim=tokens.ndim - 1)
    if objective.shape != tokens.shape[:-1]:
        raise ValueError(f"objective: expected shape {tokens.shape[:-1]}, one value for each "
                         f"token, got {objective.shape}")
    log_weights = _log_weights(_checks.weights(weights, tokens.shape[-2]))
    query = np.full((*tokens.shape[:-2], 1, 1), -_checks.positive("beta", beta))
    mean = softmax_average(query, objective[..., None], tokens, log_weights)
    return mean[..., 0, :]


@dataclass(frozen=True, eq=False)
class ConsensusFlow:
    """The drift of consensus-based optimisation, without its noise: dx_i/dt = m - x_i.

    Beside the rescaled tokens with V = I, dz_i/dt = sum_j P_ij z_j - z_i, it has one objective for
    all tokens where attention gives each token its own.

    Parameters
    ----------
    objective : callable
        f, from points (n, d) to values (n,).
    beta : float
        Inverse temperature, positive.
    weights : array, shape (n,), optional
        Positive, with sum 1; None means equal weights.
    """

    objective: Callable
    beta: float
    weights: np.ndarray | None = None
    runs_are_independent = True

    def __post_init__(self):
        object.__setattr__(self, "beta", _checks.positive("beta", self.beta))
        if self.weights is not None:
            given = _checks.weights(self.weights, np.size(self.weights))
            object.__setattr__(self, "weights", _checks.frozen(given))

    def __call__(self, t, tokens):
        """Time derivative of the tokens, same shape."""
        tokens = _checks.tokens(tokens)
        values = np.asarray(self.objective(tokens.reshape(-1, tokens.shape[-1])))
        if values.shape != (tokens[..., 0].size,):
            raise ValueError(f"objective: expected one value for each of {tokens[..., 0].size} "
                             f"points, got shape {values.shape}")
        mean = consensus_point(tokens, values.reshape(tokens.shape[:-1]), self.beta, self.weights)
        return mean[..., None, :] - tokens


ACTIVATIONS = {
    "identity": lambda u: u,
    "relu": lambda u: np.maximum(u, 0.0),
    "tanh": np.tanh,
}


@dataclass(frozen=True, eq=False)
class FeedForwardFlow(_MatrixFlow):
    """Rescaled tokens with a feed-forward layer after attention (section 12 of the first paper).

    dz_i/dt = W sigma(V sum_j P_ij(t) (z_j - z_i)), sigma componentwise, with P evaluated at the
    unrescaled tokens e^{tV} z. The identity for sigma and W = I give `RescaledFlow`.

    Parameters
    ----------
    Q, K : arrays, shape (k, d)
        Query and key matrices; only B = Q^T K enters.
    V, W : arrays, shape (d, d)
        Value matrix, and the weights behind the activation.
    activation : str or callable
        sigma: "relu", "tanh", "identity", or a function of arrays, taken componentwise.

    Raises
    ------
    ValueError
        If shapes disagree, numbers are not finite, or there is no such activation.
    """

    W: np.ndarray
    activation: str | Callable = "relu"

    def __post_init__(self):
        super().__post_init__()
        W = _checks.matrix("W", self.W, square=True, columns=self.dimension)
        object.__setattr__(self, "W", _checks.frozen(W))
        if not callable(self.activation):
            _checks.choice("activation", self.activation, tuple(ACTIVATIONS))

    def __call__(self, t, tokens):
        """Time derivative of the rescaled tokens, same shape."""
        tokens = _checks.tokens(tokens, dimension=self.dimension)
        unscaled = self.propagate(t, tokens)
        average = softmax_average(unscaled @ self.B, unscaled, tokens)
        return self.drive((average - tokens) @ self.V.T)

    def drive(self, u):
        """W sigma(u) for vectors u of shape (..., d)."""
        return ACTIVATIONS.get(self.activation, self.activation)(u) @ self.W.T


@dataclass(frozen=True, eq=False)
class MultiHeadFlow:
    """Self-attention with several heads (section 12 of the first paper).

    dx_i/dt = sum_h sum_j P^h_ij V_h x_j, with P^h the attention matrix of head h. Its layers are
    x_i^{k+1} = x_i^k + step sum_h sum_j P^h_ij V_h x_j^k; one head gives `TokenFlow`.

    Parameters
    ----------
    Qs, Ks : arrays, shape (heads, k, d)
        Query and key matrices; only B_h = Q_h^T K_h enters.
    Vs : array, shape (heads, d, d)
        Value matrices, with the projection behind each head multiplied in.

    Raises
    ------
    ValueError
        If shapes disagree or numbers are not finite.
    """

    Qs: np.ndarray
    Ks: np.ndarray
    Vs: np.ndarray
    runs_are_independent = True

    def __post_init__(self):
        Qs, Ks, Vs = (_checks.array(name, value, ndim=3) for name, value in
                      (("Qs", self.Qs), ("Ks", self.Ks), ("Vs", self.Vs)))
        heads, _, d = Qs.shape
        if 0 in Qs.shape or Ks.shape != Qs.shape:
            raise ValueError(f"Ks: expected the shape of Qs, (heads, k, d) with no 0 among them, "
                             f"got {Ks.shape} beside {Qs.shape}")
        if Vs.shape != (heads, d, d):
            raise ValueError(f"Vs: expected shape {(heads, d, d)}, got {Vs.shape}")
        for name, value in (("Qs", Qs), ("Ks", Ks), ("Vs", Vs), ("Bs", np.matmul(Qs.mT, Ks)),
                            ("total", Vs.sum(axis=0))):
            object.__setattr__(self, name, _checks.frozen(value))
        object.__setattr__(self, "_propagator", propagator(self.total))

    @property
    def dimension(self):
        """Dimension d of the tokens."""
        return self.Vs.shape[-1]

    def __call__(self, t, tokens):
        """Time derivative of the tokens, same shape. It does not depend on t."""
        tokens = _checks.tokens(tokens, dimension=self.dimension)
        return sum(softmax_average(tokens @ B, tokens, tokens) @ V.T
                   for B, V in zip(self.Bs, self.Vs, strict=True))

    def rescale(self, t, tokens):
        """z_i = e^{-t sum_h V_h} x_i."""
        return tokens @ self._propagator(-t).T

    def layer(self, step):
        """One layer of the discrete-time transformer, as a function (k, tokens) -> tokens."""
        return lambda k, tokens: tokens + step * self(k * step, tokens)
