"""The method of ``examples/gauss_seidel.py``, against the package's own methods."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

import tessella as ts
from tessella.conformance import check_method

EXAMPLE = Path(__file__).parents[2] / "examples" / "gauss_seidel.py"
GaussSeidel = runpy.run_path(str(EXAMPLE))["GaussSeidel"]


def random_table():
    rng = np.random.default_rng(5)
    return ts.MDP.from_arrays(rng.dirichlet(np.ones(7), (3, 7)), rng.normal(size=(7, 3)), 0.9)


def corridor():
    """Ten states, each of which leads to itself or the next; the last is the end."""
    stay = np.diag(np.full(10, 0.3))
    stay[-1, -1] = 1.0
    reward = np.full((10, 1), -1.0)
    reward[-1] = 0.0
    return ts.MDP.from_arrays([stay + np.diag(np.full(9, 0.7), 1)], reward, ts.Total())


def staged():
    return ts.inventory(max_stock=11, max_regime=4)


MODELS = {
    "table": random_table,
    "staged": staged,
    "horizon": lambda: staged().with_criterion(ts.FiniteHorizon(6)),
    "total": corridor,
}


def test_conforms():
    check_method(GaussSeidel(blocks=5, reverse=True))


@pytest.mark.parametrize(("blocks", "reverse"), [(3, False), (1000, True)])  # more than states
@pytest.mark.parametrize("model", MODELS)
def test_agrees_with_solve(model, blocks, reverse):
    mdp = MODELS[model]()
    method = GaussSeidel(tol=1e-8, blocks=blocks, reverse=reverse)
    assert method.supports(mdp)
    found = ts.solve(mdp, method)
    reference = ts.solve(mdp)
    assert found.method == "GaussSeidel"
    assert found.error_bound <= 1e-8
    assert np.abs(found.value - reference.value).max() <= found.error_bound + reference.error_bound


def rounds(mdp, method):
    return len(ts.solve(mdp, method).history)


def test_one_block_is_value_iteration():
    mdp = random_table()
    assert rounds(mdp, GaussSeidel(tol=1e-8, blocks=1)) == rounds(mdp, ts.ValueIteration(1e-8))


def test_blocks_use_the_new_values_of_earlier_blocks():
    """From the last period to the first, a round finds all values once the start is backed up."""
    horizon = MODELS["horizon"]()
    assert rounds(horizon, GaussSeidel(tol=1e-8, blocks=6, reverse=True)) == 2
    assert rounds(horizon, GaussSeidel(tol=1e-8, blocks=1)) == 7


def test_more_blocks_take_fewer_rounds_where_mixing_is_slow():
    mdp = ts.benchmark("INV-Mix")
    assert rounds(mdp, GaussSeidel(tol=1e-8, blocks=33)) < 250
    assert rounds(mdp, GaussSeidel(tol=1e-8, blocks=1)) > 380


def test_averages_are_refused():
    average = staged().with_criterion(ts.Average())
    assert not GaussSeidel().supports(average)
    with pytest.raises(ts.ArgumentError, match="need a discount or an end; got average reward"):
        ts.solve(average, GaussSeidel())


@pytest.mark.parametrize("blocks", [0, 2.5])
def test_number_of_blocks_is_checked(blocks):
    with pytest.raises(ts.ArgumentError, match="whole number of at least 1"):
        GaussSeidel(blocks=blocks)
