"""Attention heads of trained models: the matrices Q, K, V that a checkpoint of weights contains.

A layer with H heads maps tokens x (as columns) to the sum over h of W_O^h W_V^h x_j, weighted by
the softmax over j of <W_Q^h x_i, W_K^h x_j> / sqrt(k), where k = d / H is the dimension of a head.
So head h is the self-attention of equation A1 with

    V = W_O^h W_V^h, of rank at most k,   and   Q^T K = (W_Q^h)^T W_K^h / sqrt(k).

Biases and layer normalisation, which the equation does not have, are left out.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from . import _checks
from .spectrum import LeadingEigenpair, leading_eigenpair

BERT = (r"(?:bert\.)?encoder\.layer\.(\d+)\.attention\.", "self.query", "self.key",
        "self.value", "output.dense")
ALBERT = (r"(?:albert\.)?encoder\.albert_layer_groups\.(\d+)\.albert_layers\.0\.attention\.",
          "query", "key", "value", "dense")
READABLE = ("F64", "F32", "F16")


@dataclass(frozen=True, eq=False)
class Head:
    """One attention head.

    Attributes
    ----------
    layer, number : int
        Which head it is, both counted from 0.
    query, key, value : arrays, shape (k, d)
        W_Q, W_K, W_V.
    output : array, shape (d, k)
        W_O.
    """

    layer: int
    number: int
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    output: np.ndarray

    @property
    def Q(self):
        """Query matrix, shape (k, d), scaled so that Q^T K = W_Q^T W_K / sqrt(k)."""
        return self.query / len(self.query) ** 0.25

    @property
    def K(self):
        """Key matrix, shape (k, d), scaled likewise."""
        return self.key / len(self.key) ** 0.25

    @property
    def V(self):
        """Value map W_O W_V, shape (d, d)."""
        return self.output @ self.value

    def eigenvalues(self):
        """The k eigenvalues of V that need not vanish, largest modulus first, complex.

        W_O W_V and the small matrix W_V W_O have the same non-zero eigenvalues.
        """
        found = np.linalg.eigvals(self.value @ self.output).astype(complex)
        return found[np.lexsort((-found.imag, -found.real, -np.abs(found)))]

    def leading(self):
        """Leading eigenpair of V, by way of the small matrix: W_O u is an eigenvector if u is."""
        small = leading_eigenpair(self.value @ self.output)
        right, left = self.output @ small.right, self.value.T @ small.left
        right = right / np.linalg.norm(right)
        return LeadingEigenpair(small.value, small.gap, right, left / (left @ right))


def load_heads(path, heads=None):
    """Every attention head of a BERT-type or ALBERT-type checkpoint.

    ALBERT's layers share their weights, so that its checkpoint holds the heads of one layer (of one
    for each group, if there are several). Needs the package `safetensors`, which the extra
    `weights` installs.

    Parameters
    ----------
    path : path
        A `.safetensors` file.
    heads : int, optional
        Number of heads of a layer, which the file itself does not tell; None means to read
        `num_attention_heads` from the `config.json` beside it.

    Returns
    -------
    list of Head
        Layer by layer; float64.

    Raises
    ------
    ValueError
        If the file cannot be read, holds no attention layers, or shapes do not fit each other.
    """
    path = Path(path)
    heads = _checks.count("heads", _configured_heads(path) if heads is None else heads)
    return [head for layer, weights in sorted(_attention_weights(path).items())
            for head in _split(layer, heads, *weights)]


def _configured_heads(path):
    try:
        return json.loads((path.parent / "config.json").read_text())["num_attention_heads"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"heads: not given, and no config.json beside {path.name} tells "
                         f"num_attention_heads ({type(error).__name__})") from error


def _attention_weights(path):
    """Layer -> its query, key, value and output matrices, all heads together."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            names = list(file.keys())
            for prefix, *parts in (BERT, ALBERT):
                layers = {int(match[1]): match[0] for name in names
                          if (match := re.match(prefix, name))}
                if layers:
                    return {layer: [_weight(file, names, f"{start}{part}.weight")
                                    for part in parts] for layer, start in layers.items()}
    except (OSError, SafetensorError) as error:
        raise ValueError(f"path: {path} is not a readable safetensors file ({error})") from error
    raise ValueError(f"path: {path} has no attention layers with the names of BERT or ALBERT; "
                     f"its first arrays are {', '.join(sorted(names)[:3]) or 'none'}")


def _weight(file, names, name):
    if name not in names:
        raise ValueError(f"path: the array {name} is missing")
    kind = file.get_slice(name).get_dtype()
    if kind not in READABLE:
        raise ValueError(f"path: {name} has type {kind}, expected one of {', '.join(READABLE)}")
    return _checks.matrix(name, file.get_tensor(name))


def _split(layer, heads, query, key, value, output):
    """Cut the rows of query, key and value, and the columns of output, into heads."""
    width, dimension = query.shape
    for name, matrix, shape in (("key", key, query.shape), ("value", value, query.shape),
                                ("output", output, (dimension, width))):
        if matrix.shape != shape:
            raise ValueError(f"path: in layer {layer} the {name} matrix has shape {matrix.shape}, "
                             f"expected {shape} to match the query matrix")
    if width % heads:
        raise ValueError(f"heads: {width} rows of layer {layer} do not divide into {heads} heads")
    size = width // heads
    for number in range(heads):
        rows = slice(number * size, (number + 1) * size)
        yield Head(layer, number, query[rows], key[rows], value[rows], output[:, rows])
