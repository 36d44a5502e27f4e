"""Saved models keep their counts, and certificates do not depend on them."""

from __future__ import annotations

import json
from dataclasses import replace

import netCDF4
import numpy as np
import pytest
from support.hostile import Arrays

import tessella as ts
from tessella.checker import check
from tessella.errors import FileError
from tessella.mdp.netcdf import create_dataset, write_variables
from tessella.mdp.netcdf_tables import MEASURES_GROUP


def small_inventory(**settings) -> ts.MDP:
    return ts.inventory(max_stock=5, max_regime=2, orders=(0, 2), max_demand=4, **settings)


def from_arrays() -> ts.MDP:
    rng = np.random.default_rng(5)
    P = rng.dirichlet(np.ones(4), (3, 4))
    feasible = np.ones((4, 3), dtype=bool)
    feasible[1, 2] = False
    mdp = ts.MDP.from_arrays(P, rng.normal(size=(4, 3)), 0.9, feasible=feasible)
    waste = np.where(feasible, rng.random((4, 3)), np.nan)
    mdp = mdp.with_measures(waste=waste, days=np.ones(4))
    return mdp.with_measures(waste_per_day="waste / days")


def timed() -> ts.MDP:
    """Counts that differ by time, in periods that are the same otherwise."""
    sale = ts.Noise("sale", (0, 1), (0.4, 0.6))
    counts = {"late_sales": lambda sale, time: sale * (time > 1)}
    shift = ts.Shift("stock", sale, by=lambda sale: -sale, pays=lambda sale: sale, counts=counts)
    order = ts.Decide("stock", to=lambda stock, order: np.minimum(stock + order, 3))
    horizon = ts.FiniteHorizon(4, 0.9, final=lambda stock: 0.1 * stock)
    return ts.MDP.staged({"stock": range(4)}, (0, 1), horizon, [order, shift], action_name="order")


def by_step() -> ts.MDP:
    def step(stock, order, demand):
        held = np.minimum(stock + order, 3)
        left = np.maximum(held - demand, 0)
        return {"stock": left}, -order, {"sold": held - left}

    demand = ts.Noise("demand", (0, 1, 2), (0.2, 0.3, 0.5))
    return ts.MDP.from_step(step, {"stock": range(4)}, (0, 1), 0.9, demand, action_name="order")


MODELS = {
    "stages": lambda: small_inventory(),
    "a horizon": lambda: small_inventory().with_criterion(ts.FiniteHorizon(3)),
    "counts by time": timed,
    "arrays": from_arrays,
    "arrays with a horizon": lambda: from_arrays().with_criterion(ts.FiniteHorizon(3, final=1.0)),
    "a step function": by_step,
    "the objective alone": lambda: uncounted(small_inventory()).with_measures(twice="2 * cost"),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_has_the_same_measures(name, tmp_path):
    mdp = MODELS[name]()
    mdp.save(tmp_path / "model.nc")
    back = ts.MDP.load(tmp_path / "model.nc")
    assert back.measures == mdp.measures
    assert back.fingerprint == mdp.fingerprint
    assert back.content == mdp.content
    rng = np.random.default_rng(1)
    policy = [rng.choice(np.flatnonzero(row)) for row in mdp.feasible_mask]
    measured, read = (ts.evaluate(one, policy).measures for one in (mdp, back))
    for measure, value in measured.items():
        other = read[measure]
        assert value is not None
        assert other is not None
        assert abs(value.value - other.value) <= value.error_bound + other.error_bound
        assert other.error_bound < 1e-9
    back.save(tmp_path / "again.nc")
    assert ts.MDP.load(tmp_path / "again.nc").measures == mdp.measures


def test_a_saved_solution_has_the_measures_of_its_model(tmp_path):
    solution = ts.solve(small_inventory())
    solution.save(tmp_path / "solution.nc", with_model=True)
    back = ts.Solution.load(tmp_path / "solution.nc").mdp
    assert back.measures == solution.mdp.measures
    asked = {"fill_rate": ts.AtLeast(0.8)}
    mine, theirs = (ts.solve(mdp, subject_to=asked) for mdp in (solution.mdp, back))
    assert mine.low == pytest.approx(theirs.low, abs=1e-9)


def test_an_unknown_measure_cannot_be_bounded():
    told = "the model's measures are demand, lost, fill_rate; got 'waste'"
    with pytest.raises(ts.ArgumentError) as error:
        replace(small_inventory(), constraints={"waste": ts.AtMost(1.0)})
    assert str(error.value) == told


def uncounted(mdp: ts.MDP) -> ts.MDP:
    stages = tuple(replace(stage, counts={}) for stage in mdp.dynamics.stages)  # type: ignore[attr-defined]
    return replace(mdp, dynamics=replace(mdp.dynamics, stages=stages), measures={})


def test_what_is_counted_changes_no_fingerprint_and_no_content(tmp_path):
    """A certificate names both: one from before a model counted anything still holds."""
    mdp = small_inventory()
    plain = uncounted(mdp)
    assert plain.measures == {}
    assert (mdp.fingerprint, mdp.content) == (plain.fingerprint, plain.content)
    ts.certify(ts.solve(plain), np.zeros(mdp.n_states, dtype=int)).save(tmp_path / "old.json")
    plain.save(tmp_path / "plain.nc")
    mdp.save(tmp_path / "model.nc")
    for file in ("plain.nc", "model.nc"):
        assert check.main([str(tmp_path / file), str(tmp_path / "old.json")]) == 0
    with netCDF4.Dataset(tmp_path / "plain.nc") as file:
        assert MEASURES_GROUP not in file.groups
    assert ts.MDP.load(tmp_path / "plain.nc").measures == {}


def altered_file(folder, change) -> str:
    """A saved model whose group of measures was changed, and hashed anew."""
    from_arrays().save(folder / "model.nc")
    root = Arrays.read(folder / "model.nc")
    root.arrays = {name: a for name, a in root.arrays.items() if not name.startswith("measures/")}
    held = Arrays.read(folder / "model.nc", MEASURES_GROUP)
    change(held)
    with create_dataset(folder / "altered.nc") as file:
        for group, part in ((file, root), (file.createGroup(MEASURES_GROUP), held)):
            variables = {
                name: (values, tuple(f"{name.replace('/', '_')}_{i}" for i in range(values.ndim)))
                for name, values in part.arrays.items()
            }
            write_variables(group, part.attributes, variables)
    return str(folder / "altered.nc")


def stating(name, content):
    return lambda held: held.attributes.update({name: json.dumps(content)})


def holding(name, place, value):
    def change(held: Arrays) -> None:
        held.arrays[name][place] = value

    return change


def cut(held: Arrays) -> None:
    held.arrays["amounts"] = held.arrays["amounts"][:1]


AMOUNTS = "counts must have finite amounts, 0 where infeasible, and errors from 0 on; "
FALSE = {
    "an amount that is not finite": (
        holding("amounts", (1, 0, 0), np.inf),
        f"{AMOUNTS}got 2 counts of shape (2, 4, 3)",
    ),
    "an amount of an infeasible action": (
        holding("amounts", (1, 1, 2), 1.0),
        f"{AMOUNTS}got 2 counts of shape (2, 4, 3)",
    ),
    "amounts of fewer counts": (cut, f"{AMOUNTS}got 2 counts of shape (1, 4, 3)"),
    "an error below 0": (
        holding("errors", 0, -1.0),
        f"{AMOUNTS}got 2 counts of shape (2, 4, 3)",
    ),
    "a count by the name of the objective": (
        stating("counts", ["days", "cost"]),
        "a measure needs a name like 'lost', other than 'reward' and 'cost'; got 'cost'",
    ),
    "a formula of an unknown count": (
        stating("formulas", {"share": "waste / weeks"}),
        "a measure is written with counts (days, waste), reward, cost, numbers, + - * / and "
        "brackets; waste / weeks got 'weeks'",
    ),
}


@pytest.mark.parametrize("name", FALSE)
def test_a_false_group_of_measures_is_refused(name, tmp_path):
    change, told = FALSE[name]
    path = altered_file(tmp_path, change)
    with pytest.raises(FileError) as error:
        ts.MDP.load(path)
    assert str(error.value) == f"{path} cannot be read as a saved model; {told}"


def test_amounts_that_were_altered_by_mistake_are_refused(tmp_path):
    from_arrays().save(tmp_path / "model.nc")
    with netCDF4.Dataset(tmp_path / "model.nc", "a") as file:
        file[MEASURES_GROUP]["amounts"][0, 0, 0] = 0.5
    with pytest.raises(FileError, match="its arrays are not those that were saved"):
        ts.MDP.load(tmp_path / "model.nc")


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_altered_is_an_error_or_a_model(seed, tmp_path):
    rng = np.random.default_rng(seed)
    try:
        path = altered_file(tmp_path, lambda held: held.altered(rng))
    except (TypeError, ValueError, AttributeError, OverflowError):
        return  # no file can hold it
    try:
        mdp = ts.MDP.load(path)
    except FileError:
        return
    for value in ts.evaluate(mdp, np.zeros(4, dtype=int)).measures.values():
        assert value is None or value.low <= value.value <= value.high
