"""Value iteration in place, block by block: the optimum with its bound, out of one array."""

import numpy as np
import pytest

import tessella as ts
from tessella.mdp.stages import stage as rewards
from tessella.mdp.stages.stage import ExpectedReward
from tessella.mdp.stages.staged import Staged
from tessella.solvers.loop import Progress

SETTINGS = {"max_stock": 149, "max_regime": 8, "max_demand": 6, "orders": (0, 4)}


@pytest.fixture(scope="module")
def lean():
    """A model whose expected rewards are kept as factors, solved in blocks and as usual."""
    with rewards.factor_rewards_above(10):
        mdp = ts.inventory(**SETTINGS | {"max_regime": 59})
    dynamics = mdp.dynamics
    assert isinstance(dynamics, Staged)
    assert isinstance(dynamics.stages[1].reward, ExpectedReward)
    return ts.solve(mdp, ts.InPlace(1e-7, block_states=2000)), ts.solve(mdp, tol=1e-9)


def test_it_finds_the_optimum_within_its_bound(lean):
    found, sure = lean
    assert found.converged
    assert found.error_bound <= 1e-7
    apart = np.abs(found.value - sure.value).max()
    assert apart <= found.error_bound + sure.error_bound
    assert apart > 0, "it went another way"


def test_policy_and_margins_are_made_block_by_block_when_they_are_read(lean):
    found, sure = lean
    np.testing.assert_array_equal(found.part("margin", np.s_[70:75, 3]), found.margin[70:75, 3])
    np.testing.assert_allclose(found.margin, sure.margin, atol=4e-7)
    differs = found.policy.table != sure.policy.table
    assert not (differs & found.decided).any()
    np.testing.assert_array_equal(found.part("value", np.s_[-2:]), found.value[-2:])


def test_a_limit_is_told_and_what_it_does_not_serve_is_refused():
    mdp = ts.inventory(**SETTINGS)
    with pytest.raises(ts.NotConverged, match="the limit of 16 sweeps was reached"):
        ts.solve(mdp, ts.InPlace(1e-9, max_sweeps=16, block_states=500))
    with pytest.raises(ts.ArgumentError, match="discounted rewards"):
        ts.solve(mdp.with_criterion(ts.Average()), ts.InPlace(1e-6))
    with pytest.raises(ts.ArgumentError, match="needs a tolerance"):
        ts.InPlace()


def test_any_index_reads_what_the_whole_array_has(lean):
    found, _ = lean
    value = found.value
    for index in (np.s_[::-1], np.s_[140:20:-7], np.s_[..., 0], np.s_[5:5], np.s_[[3, 140], :2]):
        np.testing.assert_array_equal(found.part("value", index), value[index])


def test_a_tolerance_below_rounding_ends_with_the_bound_that_rounding_leaves():
    mdp = ts.inventory(**SETTINGS)
    with pytest.raises(ts.NotConverged, match="float64 cannot certify tol=1e-18"):
        ts.solve(mdp, ts.InPlace(1e-18, block_states=500))


def test_a_callback_hears_of_every_check_with_the_time_left_and_may_stop():
    seen: list[Progress] = []

    def stop_after_three(progress: Progress) -> bool:
        seen.append(progress)
        return len(seen) == 3

    mdp = ts.inventory(**SETTINGS)
    found = ts.solve(mdp, ts.InPlace(1e-9, block_states=500), callback=stop_after_three)
    assert [progress.sweep for progress in seen] == [16, 32, 48]
    assert seen[0].left is None, "one bound shows no pace"
    assert seen[2].left is not None
    assert seen[2].left > 0
    assert "stopped by the callback after 48 sweeps" in found.reason
    assert len(found.history) == 48
    assert (np.diff(found.history.seconds) >= 0).all()
