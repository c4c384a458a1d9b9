"""Checks of arguments: every public function refuses bad input by name, and casts nothing silently."""

import math

import numpy as np

from . import _arrays

_EXACT_IN_FLOAT64 = (np.float64, np.float32, np.float16, np.int64, np.int32, np.int16, np.int8,
                     np.uint64, np.uint32, np.uint16, np.uint8)


def array(name, value, ndim=None, finite=True, copy=True):
    """Return `value` as a float64 array, or raise a ValueError that names it.

    Integers and shorter floats become float64 without loss; complex, boolean, text, object and
    longer float arrays are refused. Float64 arrays of other libraries stay what they are (see
    `_arrays`). `ndim` is a number or a tuple of allowed numbers of axes. Without `copy` the result may
    be `value` itself.
    """
    allowed = (ndim,) if isinstance(ndim, int) else ndim
    if _arrays.foreign(value):
        return _arrays.checked(name, value, allowed, finite)
    given = np.asarray(value)
    if given.dtype.type not in _EXACT_IN_FLOAT64:
        raise ValueError(f"{name}: expected real numbers that fit float64, got dtype {given.dtype}")
    if allowed is not None and given.ndim not in allowed:
        wanted = " or ".join(str(number) for number in allowed)
        raise ValueError(f"{name}: expected {wanted} axes, got shape {given.shape}")
    result = given.astype(np.float64, copy=copy)
    if finite and not all_finite(result):
        raise ValueError(f"{name}: expected finite numbers, got "
                         f"{np.count_nonzero(~np.isfinite(result))} that are infinite or NaN")
    return result


def all_finite(array):
    """Whether a numpy array holds neither infinities nor NaN."""
    # A sum of squares takes a third of the time, and decides unless there are numbers above 1e154.
    return math.isfinite(np.vdot(array, array)) or bool(np.isfinite(array).all())


def tokens(value, name="tokens", dimension=None):
    """Tokens of shape (n, d), or a batch (runs, n, d), with n >= 1 and d >= 1."""
    result = array(name, value, ndim=(2, 3))
    if 0 in result.shape:
        raise ValueError(f"{name}: expected at least one token and one dimension, "
                         f"got shape {result.shape}")
    if dimension is not None and result.shape[-1] != dimension:
        raise ValueError(f"{name}: expected {dimension} coordinates per token, "
                         f"got shape {result.shape}")
    return result


def matrix(name, value, columns=None, square=False):
    """A matrix with an optional number of columns."""
    result = array(name, value, ndim=2)
    if 0 in result.shape:
        raise ValueError(f"{name}: expected a matrix with entries, got shape {result.shape}")
    if square and result.shape[0] != result.shape[1]:
        raise ValueError(f"{name}: expected a square matrix, got shape {result.shape}")
    if columns is not None and result.shape[1] != columns:
        raise ValueError(f"{name}: expected {columns} columns, got shape {result.shape}")
    return result


def weights(value, count, name="weights"):
    """Positive weights that sum to 1, shape (n,); None means equal weights and stays None."""
    if value is None:
        return None
    result = array(name, value, ndim=1)
    if result.shape != (count,):
        raise ValueError(f"{name}: expected shape ({count},), got {result.shape}")
    if (result <= 0).any():
        raise ValueError(f"{name}: expected positive numbers, got a smallest of {result.min():g}")
    if abs(result.sum() - 1) > 1e-9:
        raise ValueError(f"{name}: expected a sum of 1, got {result.sum():.12g}")
    return result


def positive(name, value):
    """A finite positive number."""
    result = float(array(name, value, ndim=0))
    if result <= 0:
        raise ValueError(f"{name}: expected a positive number, got {result:g}")
    return result


def count(name, value, least=1):
    """A whole number, at least `least`."""
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}: expected a whole number of at least {least}, got {value!r}")
    return int(value)


def choice(name, value, allowed):
    """One of the allowed values."""
    if value not in allowed:
        names = ", ".join(repr(option) for option in allowed)
        raise ValueError(f"{name}: expected one of {names}, got {value!r}")
    return value


def frozen(value):
    """A read-only copy, for the fields of frozen dataclasses."""
    result = np.array(value)
    result.setflags(write=False)
    return result
