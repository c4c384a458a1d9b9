"""Statements on many dimensions: they hold on random runs, and can say no."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import attn_clusters as ac
from attn_clusters.experiments.highdim import (
    gram_matrix,
    highdim_run,
    leader_run,
    lowrank_run,
    sparse_symmetric,
)
from attn_clusters.statements.high_dimension import attention_along, limit_groups, numerical_rank

# --- lowrank ---------------------------------------------------------------------------------

@pytest.mark.parametrize("seed", range(3))
def test_rank_falls_on_random_runs(seed):
    run = lowrank_run(12, 20, 0.0, 2.0, seed, np.linspace(0, 16, 17))
    report = ac.statements["lowrank"].verify(run)
    assert report.applies and report.holds
    assert report.limit <= 3


def test_rank_can_say_no():
    # A gap of 1e-9 is not felt by t = 6: as for V = I most tokens go on attending to themselves.
    identity = np.eye(12)
    nearly = np.diag(1.0 - 1e-9 * np.arange(12))
    tokens = np.random.default_rng(0).normal(0, 2, (8, 12))
    verify = ac.statements["lowrank"].verify
    report = verify(ac.simulate(ac.RescaledFlow(identity, identity, nearly), tokens, [0, 2, 4, 6]))
    assert report.applies and not report.holds
    assert report.limit > 3
    for V in (identity, -nearly):
        assert not verify(ac.simulate(ac.RescaledFlow(identity, identity, V), tokens,
                                      [0, 0.5])).applies


def test_time_in_units_of_the_eigenvalue_and_eigenbasis_change_nothing():
    """The figure's run against A1 with M M^T itself."""
    rng = np.random.default_rng(4)
    V, largest = gram_matrix(6, -1.0, rng)
    tokens, times = rng.uniform(-1, 1, (5, 6)), np.linspace(0, 2, 5)
    direct = ac.simulate(ac.TokenFlow(np.eye(6), np.eye(6), V), tokens, times / largest)
    figure = lowrank_run(5, 6, -1.0, 1.0, 4, times, rtol=1e-9)
    # Solver errors 1e-9, amplified by scores of a few hundred.
    assert_allclose(attention_along(figure), attention_along(direct), atol=1e-5)


def test_numerical_rank_of_known_matrices():
    rng = np.random.default_rng(0)
    for rank in range(1, 6):
        product = rng.standard_normal((6, rank)) @ rng.standard_normal((rank, 6))
        assert numerical_rank(np.linalg.svd(product, compute_uv=False), 1e-10) == rank


# --- leader_graph ----------------------------------------------------------------------------

@pytest.mark.parametrize("seed", range(5))
def test_few_leaders_on_random_runs(seed):
    run = leader_run(20, seed, np.linspace(0, 12, 25))
    report = ac.statements["leader_graph"].verify(run)
    assert report.applies and report.holds, report
    # Where each token attends to one only, the attention matrix is a matrix of unit vectors.
    last = attention_along(run)[-1]
    assert_allclose(last, np.eye(20)[last.argmax(axis=1)], atol=0.02)


def test_leaders_can_be_many():
    corners = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    identity = np.eye(2)
    run = ac.simulate(ac.RescaledFlow(identity, identity, identity), corners, [0, 1, 2, 3])
    report = ac.statements["leader_graph"].verify(run)
    assert report.applies and not report.holds
    assert len(report.limit) == 4


# --- highdim ---------------------------------------------------------------------------------

def spectrum_with_gap(d, rng):
    values = rng.uniform(1.0, 1.4, d) * rng.choice([-1.0, 1.0], d)
    values[0] = 2.4
    return np.sort(values)


@pytest.mark.parametrize("seed", range(3))
def test_coordinates_cluster_and_diverge(seed):
    rng = np.random.default_rng(seed)
    values = spectrum_with_gap(16, rng)
    _, basis = sparse_symmetric(values, 0.3, rng)
    run = highdim_run(values, basis, rng.uniform(-5, 5, (24, 16)), np.linspace(0, 12, 13))
    report = ac.statements["highdim"].verify(run)
    assert report.applies and report.holds, report
    assert len(report.limit) <= 3


def test_highdim_can_say_no():
    rng = np.random.default_rng(0)
    values = spectrum_with_gap(8, rng)
    tokens = rng.uniform(-5, 5, (10, 8))
    verify = ac.statements["highdim"].verify
    short = highdim_run(values, np.eye(8), tokens, [0.0, 0.2])
    assert verify(short).applies and not verify(short).holds
    assert not verify(highdim_run(values / 2, np.eye(8), tokens, [0.0, 1.0])).applies
    assert not verify(highdim_run(-values, np.eye(8), tokens, [0.0, 0.2])).applies


def test_sparse_matrix_has_the_spectrum_asked_for():
    rng = np.random.default_rng(2)
    values = spectrum_with_gap(40, rng)
    V, basis = sparse_symmetric(values, 0.1, rng)
    assert 0.1 <= np.count_nonzero(V) / V.size < 0.2
    assert_allclose(np.linalg.eigvalsh(V), values, atol=1e-13)
    assert_allclose(V @ basis, basis * values, atol=1e-13)
    assert_allclose(basis.T @ basis, np.eye(40), atol=1e-13)


def test_eigen_coordinates_keep_what_the_given_basis_loses():
    """Against A1, which holds no diverging numbers; the same run of A2 in the basis of V fails."""
    rng = np.random.default_rng(1)
    values = np.array([-2.3, -1.5, 1.2, 2.4])
    V, basis = sparse_symmetric(values, 0.9, rng)
    tokens, times = rng.uniform(-5, 5, (8, 4)), np.array([0.0, 13.0])
    identity = np.eye(4)
    ours = highdim_run(values, basis, tokens, times, rtol=1e-10, method="DOP853").tokens[-1]
    direct = ac.simulate(ac.TokenFlow(identity, identity, np.diag(values)), tokens @ basis, times,
                         rtol=1e-12).tokens[-1] * np.exp(-13.0 * values)
    scale = np.abs(direct).max(axis=0)
    assert scale[0] > 1e10
    assert_allclose(ours / scale, direct / scale, atol=1e-6)
    # Explicit Euler, which takes the same steps in both bases: what differs is rounding.
    layers = dict(method="Euler", step=0.05)
    flow = ac.RescaledFlow(identity, identity, np.diag(values))
    eigen = ac.simulate(flow, tokens @ basis, times, **layers)
    given = ac.simulate(ac.RescaledFlow(identity, identity, V), tokens, times, **layers)
    lost = np.abs((given.tokens[-1] @ basis - eigen.tokens[-1])[:, values > 0]).max()
    assert lost > 1e-5


def test_groups_are_those_of_the_leading_coordinate():
    z = np.zeros((1, 5, 2))
    z[0, :, 1] = [3.0, 2.9, 0.1, -1.0, -0.9]
    assert limit_groups(z, np.array([-1.0, 2.0])).tolist() == [1, 1, 0, -1, -1]
