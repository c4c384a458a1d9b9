"""The table that holds predictions against a run."""

import numpy as np
import pytest

import attn_clusters as ac
from attn_clusters.experiments.your_weights import check_predictions, examples, weights_run


def verdicts(name, **options):
    """Statement -> (weakest hypothesis, margin, conclusion) for one of the examples."""
    table = check_predictions(weights_run(*examples()[name], **options))
    return {key: (weakest, margin, conclusion)
            for key, _, weakest, margin, conclusion in table.rows}


@pytest.mark.parametrize("name, key", [("identity", "polytope"), ("identity", "leaders"),
                                       ("leading direction", "hyperplanes"),
                                       ("two eigenvalues and a rest", "mixed"),
                                       ("rotation", "random_v")])
def test_the_statement_meant_applies_and_comes_out(name, key):
    Q, K, V = examples()[name]
    assert key in ac.classify(Q, K, V).applicable
    _, margin, conclusion = verdicts(name, rtol=1e-6)[key]
    assert margin.startswith("holds by") and conclusion == "came out"


def test_a_prediction_that_is_on_its_way_is_told_from_one_that_is_not():
    assert verdicts("minus identity")["collapse"][2] == "not yet: distance falls"
    assert verdicts("identity")["hyperplanes"][2] == "did not come out"


def test_a_gap_of_a_billionth_is_named_with_its_margin():
    found = verdicts("gap 1e-9")
    weakest, margin, conclusion = found["hyperplanes"]
    assert "simple" in weakest and margin == "holds by 1e-09"
    assert conclusion == "did not come out"
    assert found["polytope"] == ("V = I: |V - I|", "fails by 1e-09", "came out")


def test_a_dent_of_a_billionth_is_named_with_its_margin():
    weakest, margin, _ = verdicts("dent 1e-9")["polytope"]
    assert "positive definite" in weakest and margin == "fails by 1e-09"


def test_margins_measure_the_perturbation():
    """The margin that classify reports is the size of what was done to the matrices."""
    for size in (1e-3, 1e-6, 1e-9):
        _, _, conditions = next(found for found in ac.classify(
            np.eye(2), np.eye(2), np.diag([1.0, 1.0 - size])) if found[0] == "hyperplanes")
        gap = next(item for item in conditions if "simple" in item.name)
        assert gap.holds and gap.margin == pytest.approx(size, rel=1e-5)
