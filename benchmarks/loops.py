"""The baseline: equation A2 in nested Python loops, one token triple at a time.

The code released with the first paper works in this way: P_ij = 1 / sum_k exp<Q x_i, K (x_k - x_j)>
costs a few small products for each of the n^3 triples, and two matrix exponentials e^{tV} as well.
The second function here forms that exponential once.
"""

import numpy as np
from scipy.linalg import expm


def rescaled_change(t, z, Q, K, V):
    """dz_i/dt = sum_j P_ij V (z_j - z_i), with the exponentials formed anew for each triple."""
    return changes(z, V, lambda i, j, k: np.dot(Q @ (expm(t * V) @ z[i]),
                                                K @ (expm(t * V) @ (z[k] - z[j]))))


def rescaled_change_with_one_exponential(t, z, Q, K, V):
    """The same, with e^{tV} formed once."""
    growth = expm(t * V)
    x = [growth @ token for token in z]
    return changes(z, V, lambda i, j, k: np.dot(Q @ x[i], K @ (x[k] - x[j])))


def changes(z, V, score):
    change = np.zeros_like(z)
    for i in range(len(z)):
        for j in range(len(z)):
            total = 0.0
            for k in range(len(z)):
                total += np.exp(score(i, j, k))
            change[i] += V @ (z[j] - z[i]) / total
    return change
