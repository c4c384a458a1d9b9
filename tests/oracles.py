"""Slow and obvious versions of what the library computes, written one sum at a time."""

import math

import numpy as np


def softmax_average(query, key, value, log_weights=None):
    """softmax(q k^T + log_weights) v with exactly rounded sums (math.fsum)."""
    result = np.empty((len(query), value.shape[1]))
    for i, q in enumerate(query):
        scores = [math.fsum(a * b for a, b in zip(q, k, strict=True)) for k in key]
        if log_weights is not None:
            scores = [score + weight for score, weight in zip(scores, log_weights, strict=True)]
        masses = [math.exp(score - max(scores)) for score in scores]
        for c in range(value.shape[1]):
            result[i, c] = math.fsum(m * v for m, v in zip(masses, value[:, c], strict=True))
        result[i] /= math.fsum(masses)
    return result


def token_change(x, Q, K, V):
    """Equation A1."""
    change = np.zeros_like(x)
    for i in range(len(x)):
        masses = [math.exp(float((Q @ x[i]) @ (K @ x[j]))) for j in range(len(x))]
        for j in range(len(x)):
            change[i] += masses[j] / math.fsum(masses) * (V @ x[j])
    return change


def rescaled_change(z, x, Q, K, V):
    """Equation A2, with P evaluated at the unrescaled tokens x."""
    change = np.zeros_like(z)
    for i in range(len(z)):
        masses = [math.exp(float((Q @ x[i]) @ (K @ x[j]))) for j in range(len(z))]
        for j in range(len(z)):
            change[i] += masses[j] / math.fsum(masses) * (V @ (z[j] - z[i]))
    return change


def rotation(d, seed):
    """A random orthogonal matrix."""
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((d, d)))[0]


def positive_definite(d, seed):
    """A random symmetric positive definite matrix with eigenvalues between 0.5 and 2."""
    values = np.random.default_rng(seed + 1).uniform(0.5, 2.0, d)
    turn = rotation(d, seed)
    M = (turn * values) @ turn.T
    return (M + M.T) / 2
