"""Certificates of models with a horizon: exact figures inside, and a checker that is not fooled."""

from __future__ import annotations

import json
from fractions import Fraction

import netCDF4
import numpy as np
import pytest
from support import criteria

import tessella as ts
from tessella.checker import check


def some_policy(mdp: ts.MDP, seed: int) -> np.ndarray:
    draws = np.random.default_rng(seed).random((mdp.n_states, mdp.n_actions))
    return np.where(mdp.feasible_mask, draws, -1).argmax(axis=1).reshape(mdp.grid.shape)


def verdict(folder) -> int:
    return check.main([str(folder / "model.nc"), str(folder / "certificate.json")])


@pytest.fixture
def certified(tmp_path):
    solution = ts.solve(criteria.build_time_dependent(3))
    solution.mdp.save(tmp_path / "model.nc")
    made = ts.certify(solution, some_policy(solution.mdp, 3))
    made.save(tmp_path / "certificate.json")
    return tmp_path, made


@pytest.mark.parametrize("seed", range(6))
def test_exact_losses_lie_inside_their_enclosures(seed):
    mdp = criteria.build_time_dependent(seed)
    solution, policy = ts.solve(mdp), some_policy(mdp, seed)
    c = ts.certify(solution, policy)
    best = criteria.compute_optimum(mdp, solution.policy.table)
    worth = criteria.compute_policy_value(mdp, policy)
    lost = [x - y for x, y in zip(best, worth, strict=True)]
    for s, exact in enumerate(lost):
        assert Fraction(c.losses.lower.flat[s]) <= exact <= Fraction(c.losses.upper.flat[s])
    mean = sum(Fraction(p) * x for p, x in zip(c.start.ravel(), lost, strict=True))
    assert Fraction(c.mean_loss.lower) <= mean <= Fraction(c.mean_loss.upper)
    assert c.mean_loss.width <= 1e-9
    # Where the loss comes from, added up, is the loss.
    assert c.decomposition.state.value.sum() == pytest.approx(float(mean), abs=1e-9)
    assert float(mean) <= c.bounds.policy_error.upper


def test_a_certificate_holds_and_says_how_many_periods_it_is_about(certified, capsys):
    folder, made = certified
    assert verdict(folder) == 0
    assert "HOLDS" in capsys.readouterr().out
    assert made.criterion.periods == 4
    again = ts.Certificate.load(folder / "certificate.json")
    assert again.criterion == made.mdp.criterion
    assert "every period" in again.summary()


@pytest.mark.parametrize("value", ["optimal_value", "policy_value"])
def test_an_error_below_what_is_proven_is_rejected(certified, value):
    """A value that is off at the first time, with an error that is not as large as that."""
    folder, _ = certified
    content = json.loads((folder / "certificate.json").read_text())
    content["values"][value][0] = [x + 0.01 for x in content["values"][value][0]]
    content["figures"][f"{value}_error"] = 0.009
    (folder / "certificate.json").write_text(json.dumps(content))
    assert verdict(folder) == 1


def test_visits_that_are_off_by_more_than_their_error_are_rejected(certified):
    folder, _ = certified
    content = json.loads((folder / "certificate.json").read_text())
    content["decomposition"]["occupancy_error"] *= 0.25
    (folder / "certificate.json").write_text(json.dumps(content))
    assert verdict(folder) == 1


@pytest.mark.parametrize("criterion", [["horizon", 3, 0.5], 0.5, ["horizon", 4, 0.25]])
def test_another_horizon_is_rejected(certified, criterion, capsys):
    folder, _ = certified
    content = json.loads((folder / "certificate.json").read_text())
    assert content["criterion"] != criterion
    (folder / "certificate.json").write_text(json.dumps(content | {"criterion": criterion}))
    assert verdict(folder) == 1
    assert "of another model: criterion is" in capsys.readouterr().out


def test_a_model_that_stays_in_a_period_is_rejected(certified, capsys):
    """Without time that moves on, the sum over periods would bound nothing."""
    folder, _ = certified
    with netCDF4.Dataset(str(folder / "model.nc"), "a") as file:
        reached = file["indices"][:]
        file["indices"][:] = np.where(reached >= 6, reached - 6, reached)
    assert verdict(folder) == 1
    assert "does not move time on by one" in capsys.readouterr().out


def test_what_was_simulated_agrees_with_what_is_certified():
    mdp = criteria.build_time_dependent(5)
    solution, policy = ts.solve(mdp), some_policy(mdp, 5)
    found = ts.estimate(mdp, policy, other=solution, rng=1, paths=4000, confidence=0.9999)
    assert found.lower <= ts.loss(solution, policy).mean <= found.upper
    assert found.periods == 4
