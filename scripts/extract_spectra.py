"""Extract the spectra of a model's attention heads into a small data file of the library.

    python scripts/extract_spectra.py MODEL.safetensors OUT.npz

Needs the extra `weights`. The stored file `attn_clusters/data/minilm_spectra.npz` was made by this
script; `minilm_spectra.json` beside it says from what.
"""

import argparse

import numpy as np

from attn_clusters.checkpoints import load_heads
from attn_clusters.spectrum import asymmetry, score_matrix, smallest_eigenvalue


def summary(head):
    """The numbers of one head on which the statements' hypotheses rest."""
    pair, B = head.leading(), score_matrix(head.Q, head.K)
    real = pair.value.imag == 0 and np.isrealobj(pair.right)
    return {
        "eigenvalues": head.eigenvalues(),
        "gap": pair.gap,
        # <Q phi, K phi> for the unit leading eigenvector; 0 stands for "not real".
        "leading_score": pair.right @ B @ pair.right if real else 0.0,
        "score_norm": np.linalg.norm(B, 2),
        "score_asymmetry": asymmetry(B),
        "score_smallest": smallest_eigenvalue(B),
    }


def main():
    parser = argparse.ArgumentParser(description="Spectra of a model's attention heads.")
    parser.add_argument("model")
    parser.add_argument("out")
    options = parser.parse_args()
    heads = load_heads(options.model)
    layers = 1 + max(head.layer for head in heads)
    found = [summary(head) for head in heads]
    arrays = {name: np.array([item[name] for item in found]) for name in found[0]}
    arrays = {name: value.reshape(layers, -1, *value.shape[1:]) for name, value in arrays.items()}
    np.savez_compressed(options.out, **arrays)
    for name, value in arrays.items():
        print(name, value.shape, value.dtype)


if __name__ == "__main__":
    main()
