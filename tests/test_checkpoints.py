"""Checkpoints: files written here, with weights that are known, come back head by head."""

import json
import struct

import numpy as np
import pytest
from numpy.testing import assert_allclose
from safetensors import numpy as safetensors

import attn_clusters as ac
from attn_clusters.checkpoints import Head, load_heads
from attn_clusters.experiments.trained import head_kinds, stored_spectra
from attn_clusters.spectrum import leading_eigenpair, score_matrix

BERT = "encoder.layer.{layer}.attention.{part}.weight"
ALBERT = "albert.encoder.albert_layer_groups.{layer}.albert_layers.0.attention.{part}.weight"
BERT_PARTS = ("self.query", "self.key", "self.value", "output.dense")
ALBERT_PARTS = ("query", "key", "value", "dense")


def write(path, pattern, parts, layers, d, rng=0, heads=None, **extra):
    """A synthetic checkpoint; returns its arrays by name."""
    rng = np.random.default_rng(rng)
    arrays = {pattern.format(layer=layer, part=part):
              rng.standard_normal((d, d)).astype(np.float32) / np.float32(np.sqrt(d))
              for layer in range(layers) for part in parts}
    arrays["embeddings.word_embeddings.weight"] = np.zeros((5, d), np.float32)
    safetensors.save_file(arrays | extra, path)
    if heads:
        (path.parent / "config.json").write_text(json.dumps({"num_attention_heads": heads}))
    return arrays


def attention_of_all_heads(arrays, pattern, parts, layer, heads, x):
    """The layer as the model computes it, in a plain loop: the oracle."""
    query, key, value, output = (arrays[pattern.format(layer=layer, part=part)].astype(float)
                                 for part in parts)
    size = len(query) // heads
    mixed = np.zeros_like(x)
    for h in range(heads):
        rows = slice(h * size, (h + 1) * size)
        q, k, v = x @ query[rows].T, x @ key[rows].T, x @ value[rows].T
        scores = np.exp(q @ k.T / np.sqrt(size))
        mixed[:, rows] = scores / scores.sum(axis=1, keepdims=True) @ v
    return mixed @ output.T


@pytest.mark.parametrize("prefix", ["", "bert."])
def test_bert_heads_come_back(tmp_path, prefix):
    path = tmp_path / "model.safetensors"
    arrays = write(path, prefix + BERT, BERT_PARTS, layers=3, d=12, heads=4)
    heads = load_heads(path)
    assert [(head.layer, head.number) for head in heads] == [(layer, h) for layer in range(3)
                                                             for h in range(4)]
    x = np.random.default_rng(1).standard_normal((6, 12))
    for layer in range(3):
        ours = sum(ac.attention_matrix(x, head.Q, head.K) @ x @ head.V.T
                   for head in heads if head.layer == layer)
        oracle = attention_of_all_heads(arrays, prefix + BERT, BERT_PARTS, layer, 4, x)
        assert_allclose(ours, oracle, atol=1e-13)  # rounding of sums of 12 terms of order 1


def test_albert_heads_come_back(tmp_path):
    """ALBERT's names and proportions: 16 heads, one shared layer, here 32 instead of 2048."""
    path = tmp_path / "model.safetensors"
    arrays = write(path, ALBERT, ALBERT_PARTS, layers=1, d=32, heads=16)
    heads = load_heads(path)
    assert len(heads) == 16
    assert all(head.query.shape == head.value.shape == (2, 32) for head in heads)
    assert all(head.output.shape == (32, 2) and head.V.shape == (32, 32) for head in heads)
    assert all(np.linalg.matrix_rank(head.V) == 2 for head in heads)
    x = np.random.default_rng(1).standard_normal((5, 32))
    ours = sum(ac.attention_matrix(x, head.Q, head.K) @ x @ head.V.T for head in heads)
    oracle = attention_of_all_heads(arrays, ALBERT, ALBERT_PARTS, 0, 16, x)
    assert_allclose(ours, oracle, atol=1e-13)


def test_one_head_of_the_size_of_albert_xlarge():
    """128 eigenvalues of a 2048-dimensional head, without ever solving for 2048."""
    rng = np.random.default_rng(0)
    head = Head(0, 0, *rng.standard_normal((3, 128, 2048)), rng.standard_normal((2048, 128)))
    found, pair = head.eigenvalues(), head.leading()
    assert found.shape == (128,)
    assert (np.diff(np.abs(found)) <= 1e-9).all()
    applied = head.output @ (head.value @ pair.right)  # V phi_1, in two thin products
    assert_allclose(applied, pair.value * pair.right, atol=1e-9 * abs(pair.value))


@pytest.mark.parametrize("seed", range(6))
def test_small_eigenproblem_is_the_large_one(tmp_path, seed):
    path = tmp_path / "model.safetensors"
    write(path, BERT, BERT_PARTS, layers=1, d=12, rng=seed)
    for head in load_heads(path, heads=3):
        full = np.linalg.eigvals(head.V)
        full = full[np.argsort(-np.abs(full))]
        # The other 8 eigenvalues vanish, and eigenvalues of a defective zero are off by eps^(1/2).
        assert np.abs(full[4:]).max() < 1e-6
        assert_allclose(np.sort_complex(full[:4]), np.sort_complex(head.eigenvalues()), atol=1e-10)
        ours, direct = head.leading(), leading_eigenpair(head.V)
        assert_allclose([ours.value, ours.gap], [direct.value, direct.gap], atol=1e-10)
        assert_allclose(abs(np.vdot(ours.right, direct.right)), 1.0, atol=1e-10)
        assert_allclose(ours.left @ ours.right, 1.0, atol=1e-10)
        assert_allclose(head.V.T @ ours.left, ours.value * ours.left, atol=1e-10)


def test_head_conditions_can_say_no():
    def head(first, sign):
        e = np.eye(4)
        return Head(0, 0, e[:2], sign * e[:2], e[:2], np.diag([first, 1.0, 0, 0])[:, :2])

    def verdict(found):
        conditions = ac.statements["trained_spectra"].conditions(found.Q, found.K, found.V)
        return [item.holds for item in conditions]

    assert verdict(head(2.0, 1.0)) == [True] * 4
    assert verdict(head(-2.0, 1.0)) == [True, False, True, True]
    assert verdict(head(1.0, 1.0))[2] is False        # double
    assert verdict(head(2.0, -1.0)) == [True, True, True, False]
    turning = Head(0, 0, np.eye(2), np.eye(2), np.eye(2), np.array([[1.0, -1.0], [1.0, 1.0]]))
    assert verdict(turning)[0] is False


BAD = {
    "no attention layers": lambda path: safetensors.save_file({"x": np.zeros((2, 2))}, path),
    "not a readable safetensors file": lambda path: path.write_bytes(b"not a checkpoint"),
    "key matrix has shape": lambda path: write(
        path, BERT, BERT_PARTS, 1, 4,
        **{BERT.format(layer=0, part="self.key"): np.zeros((4, 3), np.float32)}),
    "output matrix has shape": lambda path: write(
        path, BERT, BERT_PARTS, 1, 4,
        **{BERT.format(layer=0, part="output.dense"): np.zeros((3, 4), np.float32)}),
    "is missing": lambda path: write(path, BERT, BERT_PARTS[:-1], 1, 4),
    "has type I64": lambda path: write(
        path, BERT, BERT_PARTS, 1, 4,
        **{BERT.format(layer=0, part="self.value"): np.zeros((4, 4), np.int64)}),
    "finite numbers": lambda path: write(
        path, BERT, BERT_PARTS, 1, 4,
        **{BERT.format(layer=0, part="self.value"): np.full((4, 4), np.nan, np.float32)}),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_files_are_refused(tmp_path, message):
    path = tmp_path / "model.safetensors"
    BAD[message](path)
    with pytest.raises(ValueError, match=message):
        load_heads(path, heads=2)


def test_bfloat16_is_refused_by_name(tmp_path):
    """NumPy has no such type: a file of it is written by hand, header first."""
    path = tmp_path / "model.safetensors"
    names = [BERT.format(layer=0, part=part) for part in BERT_PARTS]
    header = json.dumps({name: {"dtype": "BF16", "shape": [2, 2],
                                "data_offsets": [8 * i, 8 * i + 8]}
                         for i, name in enumerate(names)}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(32))
    with pytest.raises(ValueError, match="type BF16"):
        load_heads(path, heads=1)


def test_number_of_heads_must_be_known_and_fit(tmp_path):
    path = tmp_path / "model.safetensors"
    write(path, BERT, BERT_PARTS, 1, 6)
    with pytest.raises(ValueError, match=r"^heads: not given, and no config\.json"):
        load_heads(path)
    with pytest.raises(ValueError, match=r"^heads: 6 rows of layer 0 do not divide"):
        load_heads(path, heads=4)
    with pytest.raises(ValueError, match=r"^heads: "):
        load_heads(path, heads=0)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(ValueError, match=r"^heads: not given"):
        load_heads(path)


def test_stored_spectra_are_whole_and_sourced():
    arrays, origin = stored_spectra("minilm_spectra")
    assert arrays["eigenvalues"].shape == (6, 12, 32)
    assert all(np.isfinite(value).all() for value in arrays.values())
    moduli = np.abs(arrays["eigenvalues"])
    assert (np.diff(moduli) <= 1e-12).all()
    # Real matrices: eigenvalues come in conjugate pairs, so their sums are real.
    assert_allclose(arrays["eigenvalues"].sum(axis=-1).imag, 0, atol=1e-12)
    assert_allclose(arrays["gap"], moduli[..., 0] - moduli[..., 1], atol=1e-12)
    assert {"model", "package", "version", "model_licence", "sha256"} <= set(origin)
    assert set(head_kinds(arrays).ravel()) == {0, 1, 2, 3}


def test_script_extracts_what_the_book_stores(tmp_path, monkeypatch, capsys):
    """The script, run on a synthetic checkpoint, against full eigenproblems."""
    import runpy
    from pathlib import Path

    path, out = tmp_path / "model.safetensors", tmp_path / "out.npz"
    write(path, BERT, BERT_PARTS, layers=2, d=8, heads=2)
    script = Path(__file__).parents[1] / "scripts" / "extract_spectra.py"
    monkeypatch.setattr("sys.argv", [str(script), str(path), str(out)])
    runpy.run_path(str(script), run_name="__main__")
    assert "eigenvalues (2, 2, 4) complex128" in capsys.readouterr().out
    with np.load(out) as stored:
        for head in load_heads(path):
            here, pair = (head.layer, head.number), leading_eigenpair(head.V)
            assert_allclose(stored["eigenvalues"][here][0], pair.value, atol=1e-12)
            if pair.value.imag == 0:
                score = pair.right @ score_matrix(head.Q, head.K) @ pair.right
                assert_allclose(stored["leading_score"][here], score, atol=1e-12)
            else:
                assert stored["leading_score"][here] == 0
