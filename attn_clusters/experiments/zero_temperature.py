"""Figures of the chapter on zero temperature (equation B2 of the second paper)."""

import numpy as np


def graded_tokens(d, dim_E, across=16, exponent=0.0, decades=14, rng=0):
    """Quadrature nodes of the uniform law on S^{d-1}, graded towards the complement of E.

    E is spanned by the first dim_E axes. The nodes resolve every scale of |P_E x| down to
    10^-decades, where the tokens sit that are the last to arrive.

    Parameters
    ----------
    d, dim_E : int
    across : int
        Number of directions within E and its complement: equispaced if they are on a circle, random
        otherwise; each is used with every |P_E x|.
    exponent : float
        The density is |P_E x|^(-exponent) times that of the uniform law.
    decades : int
    rng : seed or Generator

    Returns
    -------
    tokens : array, shape (n, d)
    weights : array, shape (n,)
    """
    rng = np.random.default_rng(rng)
    nodes, masses = np.polynomial.legendre.leggauss(6)
    edges = 0.5 * np.pi * 4.0 ** -np.arange(np.ceil(decades / np.log10(4)) + 1)
    low, high = edges[1:, None], edges[:-1, None]
    elevation = (low + (high - low) * (nodes + 1) / 2).ravel()
    area = ((high - low) * masses).ravel()
    sine, cosine = np.sin(elevation), np.cos(elevation)
    area *= sine ** (dim_E - 1 - exponent) * cosine ** (d - dim_E - 1)
    inside, outside = directions(dim_E, across, rng), directions(d - dim_E, across, rng)
    tokens = np.concatenate([sine[:, None, None] * inside, cosine[:, None, None] * outside], axis=2)
    weights = np.repeat(area, across)
    return tokens.reshape(-1, d), weights / weights.sum()


def directions(dimension, count, rng):
    """Unit vectors (count, dimension): equispaced on the circle, random otherwise."""
    if dimension == 2:
        angles = 2 * np.pi * (np.arange(count) + rng.random()) / count
        return np.column_stack([np.cos(angles), np.sin(angles)])
    vectors = rng.standard_normal((count, dimension))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
