"""Arrays of other libraries (torch, JAX) through the array API standard.

Numpy arrays, lists and numbers never get here. For anything else the package array-api-compat
(extra ``arrays``) gives one set of functions, so that a flow or an average of tensors on a GPU is
computed there and comes back as the same kind.
"""

import numpy as np


def foreign(value):
    """Whether `value` is an array of another library, told by the protocol or by its name."""
    if isinstance(value, (np.ndarray, np.generic, list, tuple, float, int)):
        return False
    return hasattr(value, "__array_namespace__") or type(value).__module__.startswith("torch")


def namespace(value):
    """The functions that belong to an array: numpy's, or array-api-compat's for its library.

    Raises
    ------
    ValueError
        If another library's array is given and array-api-compat is not installed.
    """
    if not foreign(value):
        return np
    try:
        from array_api_compat import array_namespace
    except ImportError as error:
        raise ValueError(f"arrays of type {type(value).__module__}.{type(value).__name__} need the "
                         "package array-api-compat: install attn-clusters[arrays]") from error
    return array_namespace(value)


def like(matrix, value):
    """A numpy array as an array of the same library, and on the same device, as `value`."""
    if not foreign(value) or matrix is None or foreign(matrix):
        return matrix
    from array_api_compat import device

    # A copy: the flows' own matrices are read-only, which torch does not know.
    return namespace(value).asarray(np.array(matrix), device=device(value))


def times(tokens, matrix):
    """tokens @ matrix for a numpy matrix and tokens of any library."""
    if type(tokens) is not np.ndarray:
        return tokens @ like(matrix, tokens)
    if tokens.ndim == 2:
        return tokens @ matrix
    # One product of all runs' tokens is several times cheaper than one for each run.
    return (tokens.reshape(-1, tokens.shape[-1]) @ matrix).reshape(*tokens.shape[:-1], -1)


def in_numpy(value):
    """The array in numpy, from whatever device."""
    if hasattr(value, "detach"):  # torch: off the tape of gradients, off the GPU
        value = value.detach().cpu()
    return np.asarray(value)


def checked(name, value, ndim, finite):
    """The checks of `_checks.array` for an array of another library, which is returned as it is."""
    xp = namespace(value)
    if value.dtype != xp.float64:
        raise ValueError(f"{name}: expected dtype float64, got {value.dtype}")
    if ndim is not None and value.ndim not in ndim:
        wanted = " or ".join(str(number) for number in ndim)
        raise ValueError(f"{name}: expected {wanted} axes, got shape {tuple(value.shape)}")
    if finite and not bool(xp.all(xp.isfinite(value))):
        raise ValueError(f"{name}: expected finite numbers, got some that are infinite or NaN")
    return value
