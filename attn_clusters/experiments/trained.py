"""Figures of the chapter on trained models: spectra that scripts/extract_spectra.py extracted."""

import json
from pathlib import Path

import numpy as np

from .. import plots_highdim
from .core import experiment
from .numbers import Measured

DATA = Path(__file__).parents[1] / "data"
STORED = "read from a stored file"


def stored_spectra(name):
    """Arrays of a model's spectra, and where they come from.

    Returns
    -------
    arrays : dict
        ``eigenvalues`` (layers, heads, k), largest modulus first; ``gap``, ``leading_score``,
        ``score_norm``, ``score_asymmetry``, ``score_smallest``, each (layers, heads).
    origin : dict
        Model, package, version, licence, checksum, command.
    """
    with np.load(DATA / f"{name}.npz") as stored:
        arrays = dict(stored)
    return arrays, json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))


def head_kinds(arrays):
    """0 good triple; 1 real and positive, but <Q phi_1, K phi_1> <= 0; 2 real, negative; 3 pair."""
    leading = arrays["eigenvalues"][..., 0]
    real, positive = leading.imag == 0, leading.real > 0
    return np.select([real & positive & (arrays["leading_score"] > 0), real & positive, real],
                     [0, 1, 2], 3)


def random_spectra(count, k, d, rng):
    """Eigenvalues of `count` heads with normal entries, largest modulus first, shape (count, k).

    W_V W_O is then a product of two independent normal matrices, (k x d) times (d x k). The sign
    of <Q phi_1, K phi_1> is independent of it and even.
    """
    rng = np.random.default_rng(rng)
    found = np.array([np.linalg.eigvals(rng.standard_normal((k, d)) @ rng.standard_normal((d, k)))
                      for _ in range(count)], complex)
    return np.take_along_axis(found, np.argsort(-np.abs(found), axis=1), axis=1)


def one_sided(eigenvalues, share=0.85):
    """Whether at least this share of the eigenvalues lies on one side of 0, along the last axis."""
    right = (eigenvalues.real > 0).mean(axis=-1)
    return np.maximum(right, 1 - right) >= share


@experiment(
    "trained_spectra-heads", statement="trained_spectra", title="Every head of a small model",
    caption="""The {total} heads of {model} (6 layers of 12). Filled diamonds: the {good} good
    triples, to which the theorem on hyperplanes applies. Open squares: leading eigenvalue real and
    positive, but ⟨Qφ₁, Kφ₁⟩ ≤ 0; triangles: real and negative; circles: a complex pair. Larger
    marks: larger modulus.""",
    alt="""A grid of 6 layers by 12 heads with one mark each: {good} filled diamonds, all in layers
    {first_layer} to {last_layer}, {unscored} squares, {negative} triangles and {pairs} circles.""",
    draw=plots_highdim.head_kinds, data="minilm_spectra", model="all-MiniLM-L6-v2",
    draws=2000, seed=0)
def trained_heads(data, model, draws, seed):
    """Count the kinds of heads, beside heads with random weights."""
    arrays, _ = stored_spectra(data)
    kinds, leading = head_kinds(arrays), arrays["eigenvalues"][..., 0]
    spectra = random_spectra(draws, arrays["eigenvalues"].shape[-1], 384, seed)
    real = np.mean((spectra[:, 0].imag == 0) & (spectra[:, 0].real > 0))
    expected = kinds.size * real / 2
    counts = np.bincount(kinds.ravel(), minlength=4)
    simple = arrays["gap"][kinds == 0] / np.abs(leading[kinds == 0])
    score = arrays["leading_score"] / arrays["score_norm"]
    numbers = {
        "total": Measured(int(kinds.size), "heads"),
        "good": Measured(int(counts[0]), "good triples"),
        "unscored": Measured(int(counts[1]), "real and positive, but ⟨Qφ₁, Kφ₁⟩ ≤ 0"),
        "negative": Measured(int(counts[2]), "leading eigenvalue real and negative"),
        "pairs": Measured(int(counts[3]), "leading complex pairs"),
        "first_layer": Measured(int(np.nonzero(kinds == 0)[0].min()), "first layer with one"),
        "last_layer": Measured(int(np.nonzero(kinds == 0)[0].max()), "last layer with one"),
        "smallest_gap": Measured(simple.min(), "smallest |λ₁| − |λ₂| among good triples, "
                                 "relative", 3, STORED),
        "smallest_score": Measured(score[kinds == 0].min(), "smallest ⟨Qφ₁, Kφ₁⟩ among them, "
                                   "relative to |QᵀK|", 3, STORED),
        "random_real": Measured(real, f"share of real positive λ₁, {draws} random heads", 2,
                                "seeded draws"),
        "random_good": Measured(expected, "good triples expected among as many random heads", 2,
                                "seeded draws"),
        "random_spread": Measured(np.sqrt(expected * (1 - real / 2)), "standard deviation of "
                                  "that count", 2, "seeded draws"),
        "one_sided": Measured(int(one_sided(arrays["eigenvalues"]).sum()),
                              "heads with 85 per cent of the eigenvalues on one side of 0"),
        "random_one_sided": Measured(int(one_sided(spectra).sum()),
                                     f"the same among the {draws} random heads"),
        "symmetric": Measured(int((arrays["score_asymmetry"] < 1e-6).sum()),
                              "heads with symmetric QᵀK"),
    }
    return {"leading": leading, "kinds": kinds}, numbers


@experiment(
    "trained_spectra-layer", statement="trained_spectra", title="Spectra of one layer",
    caption="""Layer {layer} of all-MiniLM-L6-v2: the 32 eigenvalues of W_O W_V that need not vanish,
    for each of its 12 heads. Ringed: the one of largest modulus; an orange-red diamond where the
    head is a good triple ({good} of 12).""",
    alt="""Twelve panels of the complex plane with 32 points each. Some heads have nearly all
    eigenvalues at the right of 0, others at the left. The titles name the {good} good triples.""",
    draw=plots_highdim.head_spectra, data="minilm_spectra", layer=3)
def trained_layer(data, layer):
    """The eigenvalues of each head of a layer."""
    arrays, _ = stored_spectra(data)
    eigenvalues, good = arrays["eigenvalues"][layer], head_kinds(arrays)[layer] == 0
    numbers = {
        "good": Measured(int(good.sum()), "good triples"),
        "one_sided": Measured(int(one_sided(eigenvalues).sum()),
                              "heads with 85 per cent of the eigenvalues on one side of 0"),
        "modulus": Measured(np.abs(eigenvalues).max(), "largest modulus", 4, STORED),
    }
    return {"eigenvalues": eigenvalues, "good": good, "layer": np.array(layer)}, numbers
