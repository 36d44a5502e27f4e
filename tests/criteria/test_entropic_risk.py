"""The criterion of ``examples/entropic_risk.py``, against plain recursions."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from pathlib import Path

import numpy as np
import pytest

import tessella as ts

EXAMPLE = Path(__file__).parents[2] / "examples" / "entropic_risk.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("entropic_risk", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["entropic_risk"] = module  # where dataclasses look up their annotations
    spec.loader.exec_module(module)
    return module


def random_model(seed, feasible=None, **options):
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.ones(5), (3, 5))
    reward = rng.normal(size=(5, 3))
    return rows, reward, ts.MDP.from_arrays(rows, reward, 0.9, feasible=feasible, **options)


def back_up_certainty(rows, reward, theta, periods, final=0.0, feasible=None):
    """(periods, S) by the recursion of certainty equivalents, with nothing rescaled."""
    value = np.full(rows.shape[1], final)
    values = []
    for _ in range(periods):
        certain = -np.log(rows @ np.exp(-theta * value)) / theta  # (A, S)
        q = reward + certain.T
        value = np.where(True if feasible is None else feasible, q, -np.inf).max(axis=1)
        values.append(value)
    return np.array(values[::-1])


@pytest.mark.parametrize("theta", [0.01, 0.5, 3.0])
@pytest.mark.parametrize("final", [0.0, 1.5])
def test_certainty_equivalents_of_a_table(example, theta, final):
    feasible = np.random.default_rng(1).random((5, 3)) < 0.7
    feasible[:, 0] = True
    rows, reward, mdp = random_model(0, feasible)
    criterion = example.EntropicRisk(6, final=final, risk_aversion=theta)
    solution = ts.solve(mdp.with_criterion(criterion))
    found = solution.mdp.criterion.certainty_equivalent(solution.value)
    expected = back_up_certainty(rows, reward, theta, 6, final, feasible)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    utility = -np.exp(-theta * (expected - np.arange(6, 0, -1)[:, None] * reward[feasible].min()))
    assert np.abs(solution.value - utility).max() <= solution.error_bound
    assert solution.error_bound < 1e-12


def test_every_path_of_every_policy(example):
    """The best of all rules over two periods, by enumeration of their paths."""
    rng = np.random.default_rng(4)
    rows = rng.dirichlet(np.ones(2), (2, 2))
    reward = rng.normal(size=(2, 2))
    theta = 0.8
    best = -np.inf
    for rule in itertools.product(range(2), repeat=4):  # an action for each time and state
        utility = 0.0
        for path in itertools.product(range(2), repeat=2):
            first = rule[0]
            second = rule[2 + path[0]]
            probability = rows[first, 0, path[0]] * rows[second, path[0], path[1]]
            utility += probability * np.exp(-theta * (reward[0, first] + reward[path[0], second]))
        best = max(best, -np.log(utility) / theta)
    mdp = ts.MDP.from_arrays(rows, reward, example.EntropicRisk(2, risk_aversion=theta))
    solution = ts.solve(mdp)
    assert mdp.criterion.certainty_equivalent(solution.value)[0, 0] == pytest.approx(best, 1e-12)


def test_costs_are_minimised(example):
    rows, reward, _ = random_model(2)
    criterion = example.EntropicRisk(4, final=0.5, risk_aversion=0.7)
    mdp = ts.MDP.from_arrays(rows, -reward, criterion, minimise=True)
    found = mdp.criterion.certainty_equivalent(ts.solve(mdp).value)
    expected = back_up_certainty(rows, reward, 0.7, 4, -0.5)
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


def test_stages_certificates_and_rules(example):
    """Whatever serves a finite horizon serves it, on models of stages too."""
    small = ts.inventory(max_stock=6, max_regime=1, max_demand=4)
    mdp = small.with_criterion(example.EntropicRisk(5, risk_aversion=0.3))
    solution = ts.solve(mdp)
    arrays = small.to_arrays("ASS")
    expected = back_up_certainty(
        arrays.transition, arrays.reward, 0.3, 5, feasible=arrays.feasible
    ).reshape(solution.value.shape)
    found = mdp.criterion.certainty_equivalent(solution.value)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    idle = np.zeros(mdp.grid.shape, dtype=int)
    lost = solution.value - ts.evaluate(mdp, idle).value
    mean_loss = ts.certify(solution, idle).mean_loss
    assert mean_loss.lower <= lost[0].mean() <= mean_loss.upper
    assert lost[0].mean() > 0
    rule = ts.compress(solution, loss=0.01, time_limit=2.0)
    assert rule.certificate.relative_loss.upper <= 0.01
    assert str(mdp.criterion) == "entropic risk 0.3 over 5 periods"


def test_what_it_refuses(example):
    _, _, mdp = random_model(0)
    with pytest.raises(ts.ModelError, match="above 0 and no discount"):
        example.EntropicRisk(3, risk_aversion=0.0)
    with pytest.raises(ts.ModelError, match="final value in numbers"):
        mdp.with_criterion(example.EntropicRisk(3, final=lambda state: state, risk_aversion=1.0))
    whole = mdp.with_criterion(example.EntropicRisk(3, risk_aversion=1.0))
    with pytest.raises(ts.ModelError, match="built again"):
        whole.with_criterion(0.9)


def test_a_file_of_it_has_the_same_values(example, tmp_path):
    mdp = random_model(3)[2].with_criterion(example.EntropicRisk(4, risk_aversion=0.4))
    mdp.save(tmp_path / "model.nc")
    loaded = ts.MDP.load(tmp_path / "model.nc")
    assert loaded.fingerprint == mdp.fingerprint
    np.testing.assert_array_equal(ts.solve(loaded).value, ts.solve(mdp).value)


def test_the_example_runs(example, capsys):
    example.main()
    invested = [line[22:].strip() for line in capsys.readouterr().out.splitlines()[1:]]
    assert invested == ["0, 1, 2, 3, 4", "0, 1, 2, 3, 4", "0, 1, 2", "0, 1"]
