"""Certificates in blocks: the figures of the full one, and no array as large as the grid."""

import json
import tracemalloc

import numpy as np
import pytest

import tessella as ts
from tessella.certificates.certify_values import certify_in_blocks, sum_blocks
from tessella.checker import check
from tessella.mdp.stages.partition import partition_by_size
from tessella.solvers.blocks import BlockComparison

FIGURES = (
    "mean_loss",
    "relative_loss",
    "worst_loss",
    "policy_error",
    "costly_error",
    "value_gap",
    "optimal_mean",
    "policy_mean",
)


@pytest.fixture(scope="module")
def shop():
    """An inventory with a long first axis, solved roughly."""
    mdp = ts.inventory(max_stock=299, max_regime=9, max_demand=9, orders=(0, 4))
    return ts.solve(mdp, tol=1e-7)


def rule(stock, regime):
    return np.where(stock <= 6 + regime % 3, 4, 0)


@pytest.fixture(scope="module")
def both(shop):
    start = {"regime": 3}
    policy = ts.as_policy(shop.mdp, rule)
    return ts.certify(shop, rule, start), certify_in_blocks(shop, policy, start, block_states=500)


def test_certify_goes_over_blocks_where_that_is_requested(shop):
    whole, blocks = (ts.certify(shop, rule, blocks=flag) for flag in (False, True))
    assert isinstance(blocks, ts.Certificate)
    assert float(blocks.mean_loss) == pytest.approx(float(whole.mean_loss), rel=1e-9)
    assert (blocks.values, blocks.bounds, blocks.decomposition) == (None, None, None)
    with pytest.raises(AttributeError, match="in blocks does not state 'losses'; it has no part"):
        _ = blocks.loss
    assert not hasattr(blocks, "occupancy")
    assert whole.blocks is None
    with pytest.raises(AttributeError, match="no attribute 'bound'"):
        _ = whole.bound
    with pytest.raises(ts.ArgumentError, match="a certificate in blocks has none"):
        ts.certify(shop, rule, eps=0.1, blocks=True)


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_that_of_the_full_certificate(both, name):
    full, blocks = (getattr(one, name) for one in both)
    assert blocks.lower <= full.upper
    assert full.lower <= blocks.upper
    assert blocks.width <= 1.5 * full.width + 1e-12 * abs(full)
    assert float(blocks) == pytest.approx(float(full), rel=1e-9, abs=1e-9)


def test_errors_worst_state_and_tolerance_are_those_of_the_full_certificate(both, shop):
    full, blocks = both
    rounding = ts.solve(shop.mdp).error_bound  # a table and its stages add up in another order
    assert blocks.blocks >= 6
    assert blocks.worst_state == full.worst_state
    for name in ("optimal_value_error", "policy_value_error", "tolerance"):
        assert getattr(blocks, name) == pytest.approx(getattr(full, name), rel=1e-9, abs=rounding)


def test_the_optimal_policy_surely_loses_nothing(shop):
    fine = ts.solve(shop.mdp)
    found = certify_in_blocks(fine, fine.policy, block_states=500)
    assert (found.worst_loss.upper, found.mean_loss.upper) == (0, 0)
    assert found.policy_error == 0


def test_beside_values_and_policy_nothing_is_larger_than_a_block(shop):
    worth = ts.evaluate(shop.mdp, rule)
    policy = ts.as_policy(shop.mdp, rule)
    tables = policy.table, shop.policy.table, shop.mdp.fingerprint  # made before it is watched
    assert tables[0].shape == shop.mdp.grid.shape
    peaks = []
    for states in (150, 3000):
        partition = partition_by_size(shop.mdp.dynamics, states)
        blocks = BlockComparison(shop, worth, policy, shop.policy_plan, partition)
        sum_blocks(blocks, shop, None, None)  # compiles
        tracemalloc.start()
        sum_blocks(blocks, shop, None, None)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[0] < peaks[1] / 2, "twenty blocks hold much less than one"


def test_what_it_says_and_what_it_saves(both, tmp_path):
    _, blocks = both
    text = " ".join(blocks.summary().split())
    assert "all rounding included" in text
    assert "Not stated: which single decisions are optimal" in text
    blocks.save(tmp_path / "blocks.json")
    told = json.loads((tmp_path / "blocks.json").read_text())
    assert told["mean_loss"][2] == blocks.mean_loss.upper
    assert "table" not in told["policy"]
    back = ts.Certificate.load(tmp_path / "blocks.json")
    assert back.summary() == blocks.summary()
    assert (back.grid.size, back.blocks) == (3000, blocks.blocks)
    with pytest.raises(ts.FileError, match="does not state the policy's actions"):
        _ = back.policy.table


def test_the_checker_says_that_it_cannot_check_a_certificate_in_blocks(
    both, shop, tmp_path, capsys
):
    both[1].save(tmp_path / "blocks.json")
    shop.mdp.save(tmp_path / "model.nc")
    assert check.main([str(tmp_path / "model.nc"), str(tmp_path / "blocks.json")]) == 2
    reason = "it was computed in blocks and states figures without what proves them"
    assert capsys.readouterr().out == f"NOT CHECKED: {reason}\n"


def test_a_model_that_reaches_everywhere_and_a_table_are_refused(shop):
    table = ts.MDP.from_arrays(np.eye(3)[None], np.zeros((3, 1)), 0.9)
    with pytest.raises(ts.ModelError, match="this is a table"):
        ts.certify(ts.solve(table), np.zeros(3, int), blocks=True)
    with pytest.raises(ts.ModelError, match="moves across most of it"):
        partition_by_size(ts.inventory(max_stock=20, max_regime=1).dynamics, 5)
