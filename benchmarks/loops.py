"""The baseline: equation A2 in nested Python loops, one token triple at a time.

It follows the code released with the first paper in kind: P_ij = 1 / sum_k exp<Q x_i, K (x_k - x_j)>
costs one small product for each of the n^3 triples. It is kinder than that code in one respect: the
matrix exponential e^{tV} is formed once per evaluation, not twice for each triple.
"""

import numpy as np
from scipy.linalg import expm


def rescaled_change(t, z, Q, K, V):
    """dz_i/dt = sum_j P_ij V (z_j - z_i)."""
    growth = expm(t * V)
    x = [growth @ token for token in z]
    change = np.zeros_like(z)
    for i in range(len(z)):
        for j in range(len(z)):
            total = 0.0
            for k in range(len(z)):
                total += np.exp(np.dot(Q @ x[i], K @ (x[k] - x[j])))
            change[i] += V @ (z[j] - z[i]) / total
    return change
