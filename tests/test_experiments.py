"""Every figure: its numbers against the references, its files, its words; and the registry itself."""

import json
import shutil
import string

import numpy as np
import pytest
from matplotlib.figure import Figure

import attn_clusters as ac
from attn_clusters import experiments
from attn_clusters.experiments import core
from attn_clusters.experiments.numbers import Measured, bounded

NAMES = ac.figures()


@pytest.fixture(scope="module")
def results():
    """Figures computed once in this file, on demand."""
    computed = {}

    def get(name):
        if name not in computed:
            computed[name] = ac.figure(name)
        return computed[name]

    return get


@pytest.mark.parametrize("name", NAMES)
def test_figure_agrees_with_its_reference_numbers(name, results):
    assert results(name).differences() == []


@pytest.mark.parametrize("name", NAMES)
def test_figure_has_finite_data_and_a_drawing(name, results):
    result = results(name)
    assert isinstance(result.figure, Figure) and result.numbers
    for key, value in result.arrays.items():
        array = np.asarray(value)
        if array.dtype.kind == "f":
            assert np.isfinite(array).any() and not np.isinf(array).any(), key


@pytest.mark.parametrize("name", NAMES)
def test_figure_is_described(name, results):
    """Caption and alt text fill in, say something, and end as sentences do."""
    result = results(name)
    for text in (result.caption, result.alt):
        assert len(text) > 40 and text.rstrip().endswith(".") and "{" not in text
    assert result.alt != result.caption


@pytest.mark.parametrize("name", NAMES)
def test_references_cover_exactly_the_numbers(name, results):
    assert set(core.find(name).references()) == set(results(name).numbers)


def test_no_reference_file_is_left_over():
    stored = {path.stem for path in core.REFERENCE.glob("*.json")}
    assert stored == set(NAMES)


def test_captions_hold_no_typed_numbers_with_decimals():
    """Measured values are computed where they are said: captions take them by name."""
    for name, item in experiments.experiments().items():
        fields = [field for _, field, _, _ in string.Formatter().parse(item.caption) if field]
        literal = "".join(text for text, *_ in string.Formatter().parse(item.caption))
        decimals = [word for word in literal.replace(",", " ").split()
                    if any(a.isdigit() and b == "." and c.isdigit()
                           for a, b, c in zip(word, word[1:], word[2:], strict=False))]
        assert not [word for word in decimals if word not in ("0.1:", "0.1")], (name, decimals, fields)


def test_save_leaves_image_data_and_provenance(tmp_path, results):
    result = results("polytope-2d")
    paths = result.save(tmp_path)
    assert {"polytope-2d.png", "polytope-2d.svg", "polytope-2d.npz", "polytope-2d.json"} <= {
        path.name for path in paths}
    assert (tmp_path / "polytope-2d.png").read_bytes().startswith(b"\x89PNG")
    with np.load(tmp_path / "polytope-2d.npz") as stored:
        assert set(stored.files) == set(result.arrays)
        assert np.array_equal(stored["tokens"], result.arrays["tokens"])
        digest = core.data_hash({key: stored[key] for key in stored.files})
    told = json.loads((tmp_path / "polytope-2d.json").read_text())
    for key in ("parameters", "seed", "versions", "commit", "seconds", "peak_memory_megabytes",
                "numbers", "references", "differences", "source"):
        assert key in told
    assert told["data_sha256"] == digest and told["seed"] == 3 and told["differences"] == []
    assert told["versions"]["numpy"] == np.__version__


def test_hash_sees_one_changed_bit():
    data = {"a": np.arange(3.0), "b": np.ones(2)}
    changed = {"a": np.array([0.0, 1.0, np.nextafter(2.0, 3.0)]), "b": np.ones(2)}
    assert core.data_hash(data) == core.data_hash({"b": data["b"], "a": data["a"].copy()})
    assert core.data_hash(data) != core.data_hash(changed)


def test_two_runs_give_the_same_data():
    runs = [ac.figure("polytope-2d") for _ in range(2)]
    assert core.data_hash(runs[0].arrays) == core.data_hash(runs[1].arrays)


@pytest.fixture
def references(tmp_path, monkeypatch):
    """A copy of the reference files that a test may damage."""
    copy = tmp_path / "reference"
    shutil.copytree(core.REFERENCE, copy)
    monkeypatch.setattr(core, "REFERENCE", copy)
    return copy


def _keys(name):
    return list(core.find(name).references())


@pytest.mark.parametrize("key", _keys("polytope-2d"))
def test_any_stored_number_changed_by_hand_is_found(references, results, key):
    path = references / "polytope-2d.json"
    stored = json.loads(path.read_text())
    value = stored[key]
    if isinstance(value, bool):
        changed = [not value, int(value)]
    elif isinstance(value, int):
        changed = [value + 1, value - 1]
    elif isinstance(value, dict):
        changed = [{"at most": 10 * value["at most"]}, {"at most": value["at most"] / 10}, 0.0]
    else:  # one unit in the last stored digit, up and down
        digits = results("polytope-2d").numbers[key].digits
        unit = 10.0 ** (np.floor(np.log10(abs(value))) - digits + 1)
        changed = [value + unit, value - unit, -value, 0.0]
    for wrong in changed:
        path.write_text(json.dumps(stored | {key: wrong}))
        found = results("polytope-2d").differences()
        assert len(found) == 1 and key in found[0]


def test_missing_and_superfluous_references_are_found(references, results):
    path = references / "polytope-2d.json"
    stored = json.loads(path.read_text())
    path.write_text(json.dumps({key: stored[key] for key in stored if key != "vertices"}))
    assert "vertices" in results("polytope-2d").differences()[0]
    path.write_text(json.dumps(stored | {"extra": 1.0}))
    assert "extra" in results("polytope-2d").differences()[0]


def test_store_references_round_trips(references, results):
    path = references / "polytope-2d.json"
    before = path.read_text()
    path.unlink()
    results("polytope-2d").store_references()
    assert path.read_text() == before


@pytest.mark.parametrize("value, digits, stored, good, bad", [
    (3.14159, 3, 3.14, [3.14, 3.1449], [3.13, 3.15, -3.14]),
    (1234.5, 2, 1200.0, [1200.0], [1100.0, 1300.0]),
    (7, 4, 7, [7], [8, 7.0]), (True, 4, True, [True], [False, 1]), (0.0, 4, 0.0, [0.0], [1e-9])])
def test_measured_numbers_compare_digit_by_digit(value, digits, stored, good, bad):
    number = Measured(value, "a number", digits)
    assert number.stored == stored
    assert all(number.agrees(item) for item in good[:1])
    assert not any(number.agrees(item) for item in bad)


def test_bounds_compare_the_bound_and_the_number():
    number = bounded(1e-9, 1e-8, "an error", "rounding")
    assert number.agrees({"at most": 1e-8}) and not number.agrees({"at most": 1e-7})
    assert not bounded(1e-7, 1e-8, "an error", "rounding").agrees({"at most": 1e-8})
    assert number.text == "at most 1e-08"


def test_numbers_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="^value"):
        Measured(np.nan, "nothing")


def test_other_parameters_have_no_references():
    result = ac.figure("polytope-2d", n=12, seed=1)
    assert not result.comparable and result.provenance()["references"] is None
    assert "none stored" in repr(result)


def test_sentences_take_numbers_by_name(results):
    sentence = results("polytope-2d").say("A polygon with {vertices} corners, {n} tokens.")
    assert repr(sentence) == sentence == sentence._repr_markdown_()
    corners = results("polytope-2d").numbers["vertices"].value
    assert sentence == f"A polygon with {corners} corners, 40 tokens."


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(ValueError, match="polytope-2d"):
        ac.figure("politope-2d")
    with pytest.raises(ValueError, match="^sede: figure 'polytope-2d' has the parameters n, B, seed"):
        ac.figure("polytope-2d", sede=1)


def test_a_figure_needs_a_statement():
    with pytest.raises(ValueError, match="^name"):
        core.experiment("other-figure", statement="polytope", title="", caption="", alt="", draw=None)
    with pytest.raises(ValueError, match="^name"):
        core.experiment("nothing", statement="nothing", title="", caption="", alt="", draw=None)


def test_notebook_display_has_alt_text_and_numbers(results):
    html = results("polytope-2d").html()
    assert 'id="polytope-2d"' in html and "_modules/attn_clusters/experiments/polytope.html" in html
    assert "reference" in html and results("polytope-2d").numbers["size_start"].text in html
