"""The attention average and matrix, against exactly rounded sums and the properties of a softmax."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from oracles import softmax_average

import attn_clusters as ac
from attn_clusters._tiles import TILE


def triple(m, n, k, p, seed, size=1.0):
    rng = np.random.default_rng(seed)
    return (size * rng.standard_normal((m, k)), size * rng.standard_normal((n, k)),
            rng.standard_normal((n, p)))


@pytest.mark.parametrize("size", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("m, n, k, p", [(1, 1, 1, 1), (7, 5, 2, 3), (40, 40, 3, 2), (3, 300, 8, 1)])
def test_average_agrees_with_exactly_rounded_sums(m, n, k, p, size):
    q, key, v = triple(m, n, k, p, seed=m + n, size=size)
    # Scores of up to about 100 carry a relative rounding error of k eps into the exponent.
    assert_allclose(ac.attention_average(q, key, v), softmax_average(q, key, v), atol=2e-13)


def test_log_weights_agree_with_exactly_rounded_sums():
    q, key, v = triple(6, 9, 2, 2, seed=1)
    log_weights = np.random.default_rng(2).uniform(-3, 3, 9)
    assert_allclose(ac.attention_average(q, key, v, log_weights),
                    softmax_average(q, key, v, log_weights), atol=1e-14)


@pytest.mark.parametrize("n", [TILE - 1, TILE, TILE + 1, 3 * TILE + 5])
def test_tiles_are_invisible(n):
    """Cutting scores into tiles changes nothing but the order of additions."""
    q, key, v = triple(n, n, 2, 3, seed=n)
    scores = q @ key.T
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = weights @ v / weights.sum(axis=1, keepdims=True)
    assert_allclose(ac.attention_average(q, key, v), expected, atol=1e-13)


def test_a_batch_is_its_runs():
    rng = np.random.default_rng(3)
    q, key, v = rng.standard_normal((3, 4, 6, 2))
    batch = ac.attention_average(q, key, v)
    single = np.stack([ac.attention_average(*parts) for parts in zip(q, key, v, strict=True)])
    assert_allclose(batch, single, atol=1e-15)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(1, 12), d=st.integers(1, 4), seed=st.integers(0, 10**6),
       exponent=st.floats(-3, 8.5))
def test_matrix_rows_are_probabilities_at_every_scale(n, d, seed, exponent):
    """Scores up to 1e17 and beyond: no overflow, no NaN, rows sum to 1."""
    x = 10.0**exponent * np.random.default_rng(seed).standard_normal((n, d))
    P = ac.attention_matrix(x, np.eye(d), np.eye(d))
    assert P.shape == (n, n) and (P >= 0).all()
    assert_allclose(P.sum(axis=1), 1.0, atol=1e-14)


def test_average_is_the_matrix_times_the_values():
    rng = np.random.default_rng(4)
    x, Q, K = rng.standard_normal((9, 3)), *rng.standard_normal((2, 2, 3))
    P = ac.attention_matrix(x, Q, K, beta=2.5)
    assert_allclose(P @ x, ac.attention_average(2.5 * x @ Q.T, x @ K.T, x), atol=1e-14)


def test_weights_act_as_repeated_tokens():
    """A token of weight 2/3 beside one of weight 1/3 attracts like two equal tokens beside one."""
    x = np.array([[1.0, 0.2], [-0.5, 0.7]])
    twice = np.concatenate([x[:1], x])
    weighted = ac.attention_matrix(x, np.eye(2), np.eye(2), weights=[2 / 3, 1 / 3])
    repeated = ac.attention_matrix(twice, np.eye(2), np.eye(2))
    assert_allclose(weighted[1], [repeated[2, :2].sum(), repeated[2, 2]], atol=1e-15)


def test_equal_tokens_attend_equally():
    P = ac.attention_matrix(np.ones((5, 2)), np.eye(2), np.eye(2))
    assert_allclose(P, 0.2, atol=1e-16)


def test_two_tokens_on_the_line():
    """Closed form: P_12 = 1 / (1 + exp(x_1 (x_1 - x_2)))."""
    x = np.array([[0.3], [1.1]])
    P = ac.attention_matrix(x, np.eye(1), np.eye(1))
    assert_allclose(P[0, 1], 1 / (1 + np.exp(0.3 * (0.3 - 1.1))), rtol=1e-15)


def test_large_scores_give_the_hardmax():
    q, key, v = triple(20, 30, 2, 2, seed=5)
    # At 1e9 the second largest score is below the largest by far more than 700 for every query here.
    assert_allclose(ac.attention_average(1e9 * q, key, v), ac.hardmax_average(q, key, v), atol=0)


def test_hardmax_averages_ties():
    q, key, v = np.array([[1.0, 0.0]]), np.array([[1.0, 0], [1, 5], [0, 9]]), np.array([[0.0], [4], [7]])
    assert_allclose(ac.hardmax_average(q, key, v), [[2.0]])


def test_hardmax_tie_width():
    q, key, v = np.array([[1.0]]), np.array([[1.0], [0.9]]), np.array([[0.0], [1.0]])
    assert_allclose(ac.hardmax_average(q, key, v, tie=0.2), [[0.5]])


def test_translation_of_all_keys_changes_nothing():
    q, key, v = triple(8, 9, 2, 2, seed=6)
    assert_allclose(ac.attention_average(q, key + [3.0, -2.0], v), ac.attention_average(q, key, v),
                    atol=1e-13)


BAD = [
    (dict(query=np.ones((2, 2)), key=np.ones((2, 3)), value=np.ones((2, 1))), "key"),
    (dict(query=np.ones((2, 2)), key=np.ones((3, 2)), value=np.ones((2, 1))), "value"),
    (dict(query=np.ones(2), key=np.ones((3, 2)), value=np.ones((3, 1))), "query"),
    (dict(query=np.full((2, 2), np.nan), key=np.ones((3, 2)), value=np.ones((3, 1))), "query"),
    (dict(query=np.ones((2, 2)), key=np.ones((3, 2)) * 1j, value=np.ones((3, 1))), "key"),
    (dict(query=np.ones((2, 2)), key=np.ones((3, 2)), value=np.ones((3, 1)),
          log_weights=np.ones(2)), "log_weights"),
    (dict(query=np.full((2, 2), 1e200), key=np.full((3, 2), 1e200), value=np.ones((3, 1))), "query"),
    (dict(query=np.ones((2, 2), bool), key=np.ones((3, 2)), value=np.ones((3, 1))), "query"),
]


@pytest.mark.parametrize("arguments, name", BAD)
def test_bad_input_is_refused_by_name(arguments, name):
    with pytest.raises(ValueError, match=f"^{name}"):
        ac.attention_average(**arguments)


@pytest.mark.parametrize("changes, name", [
    (dict(x=np.ones(3)), "x"), (dict(Q=np.ones((2, 3))), "Q"), (dict(K=np.ones((3, 2))), "K"),
    (dict(beta=0.0), "beta"), (dict(beta=np.inf), "beta"), (dict(weights=[0.5, 0.6]), "weights"),
    (dict(weights=[1.5, -0.5]), "weights"), (dict(weights=[1.0]), "weights")])
def test_bad_matrices_are_refused_by_name(changes, name):
    good = dict(x=np.ones((2, 2)), Q=np.eye(2), K=np.eye(2))
    with pytest.raises(ValueError, match=f"^{name}"):
        ac.attention_matrix(**(good | changes))


def test_arguments_are_left_alone():
    q, key, v = triple(4, 4, 2, 2, seed=7)
    copies = [part.copy() for part in (q, key, v)]
    ac.attention_average(q, key, v)
    for part, copy in zip((q, key, v), copies, strict=True):
        assert np.array_equal(part, copy)
