"""Tokens of other array libraries: same numbers, same kind.

array-api-strict, which offers the standard and nothing else, is always tried; torch and JAX where
they are installed.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import attn_clusters as ac

RNG = np.random.default_rng(0)
MATRICES = RNG.standard_normal((3, 3, 3)) / 2
WEIGHTS = RNG.uniform(0.5, 1.5, 12)
WEIGHTS /= WEIGHTS.sum()
FLOWS = {
    "tokens": ac.TokenFlow(*MATRICES),
    "rescaled": ac.RescaledFlow(*MATRICES),
    "sphere": ac.SphereFlow(MATRICES[0], MATRICES[1], 3.0, WEIGHTS),
}


@pytest.fixture(params=["array_api_strict", "torch", "jax"])
def kind(request):
    """From numpy to the library, and its type of array."""
    pytest.importorskip("array_api_compat", reason="the extra arrays is not installed")
    library = pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    if request.param == "array_api_strict":
        return library.asarray, type(library.asarray(1.0))
    if request.param == "torch":
        return library.from_numpy, library.Tensor
    library.config.update("jax_enable_x64", True)
    return library.numpy.asarray, library.Array


@pytest.mark.parametrize("shape", [(12, 3), (4, 12, 3)])
@pytest.mark.parametrize("name", FLOWS)
def test_flows_give_back_the_same_kind_and_numbers(name, shape, kind):
    make, expected = kind
    tokens = RNG.standard_normal(shape)
    change = FLOWS[name](0.3, make(tokens))
    assert isinstance(change, expected)
    # Two libraries add in different orders; a dozen numbers of order 1.
    assert_allclose(np.asarray(change), FLOWS[name](0.3, tokens), atol=1e-14)


@pytest.mark.parametrize("beta", [1.0, 1e5])
def test_average_of_many_tokens_with_weights(beta, kind):
    make, expected = kind
    x, log_weights = RNG.uniform(-1, 1, (3000, 2)), RNG.standard_normal(3000)
    found = ac.attention_average(make(beta * x), make(x), make(x), log_weights)
    assert isinstance(found, expected)
    assert_allclose(np.asarray(found), ac.attention_average(beta * x, x, x, log_weights),
                    atol=max(1e-14, 4e-16 * beta))


@pytest.mark.parametrize("name", FLOWS)
def test_euler_steps_any_kind(name, kind):
    make, expected = kind
    tokens = RNG.standard_normal((12, 3))
    if name == "sphere":
        tokens /= np.linalg.norm(tokens, axis=1, keepdims=True)
    run = ac.simulate(FLOWS[name], make(tokens), [0.0, 0.2, 0.4], method="Euler", step=0.1)
    same = ac.simulate(FLOWS[name], tokens, [0.0, 0.2, 0.4], method="Euler", step=0.1)
    assert isinstance(run.tokens, expected)
    assert_allclose(np.asarray(run.tokens), same.tokens, atol=1e-13)
    with pytest.raises(ValueError, match=r"^tokens: method 'DOP853' works on numpy arrays alone"):
        ac.simulate(FLOWS[name], make(tokens), [0.0, 1.0])


def test_bad_input_is_refused_by_name(kind):
    make, _ = kind
    x = RNG.standard_normal((5, 2))
    with pytest.raises(ValueError, match=r"^query: expected dtype float64, got .*float32"):
        ac.attention_average(make(x.astype(np.float32)), make(x), make(x))
    with pytest.raises(ValueError, match=r"^key: expected finite numbers"):
        ac.attention_average(make(x), make(x * np.inf), make(x))
    with pytest.raises(ValueError, match=r"^query: a score"):
        ac.attention_average(make(1e200 * x), make(1e200 * x), make(x))
    with pytest.raises(ValueError, match=r"^value: expected query, key and value of one array"):
        ac.attention_average(make(x), make(x), x)
    with pytest.raises(ValueError, match=r"^tokens: expected 3 coordinates"):
        FLOWS["tokens"](0.0, make(x))


def test_without_the_package_the_message_says_what_to_install(monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    monkeypatch.setitem(__import__("sys").modules, "array_api_compat", None)
    with pytest.raises(ValueError, match=r"install attn-clusters\[arrays\]"):
        FLOWS["tokens"](0.0, torch.ones((4, 3), dtype=torch.float64))


def test_gradients_flow_through_torch():
    """A by-product of computing in the library itself: d/dx of a flow, against differences."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("array_api_compat", reason="the extra arrays is not installed")
    tokens = torch.tensor(RNG.standard_normal((6, 3)), requires_grad=True)
    FLOWS["tokens"](0.0, tokens).sum().backward()
    moved, step = RNG.standard_normal((6, 3)), 1e-6
    ends = [FLOWS["tokens"](0.0, tokens.detach().numpy() + s * step * moved).sum() for s in (1, -1)]
    # Central differences: error step^2 + eps / step, about 1e-9.
    assert_allclose((tokens.grad.numpy() * moved).sum(), (ends[0] - ends[1]) / (2 * step), atol=1e-7)
