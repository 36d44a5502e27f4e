"""Saving and loading a solution."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import xarray as xr

import tessella as ts


@pytest.fixture(scope="module")
def solution():
    return ts.solve(ts.benchmark("INV-Mix"))


def test_a_round_trip_keeps_every_number(solution, tmp_path):
    solution.save(tmp_path / "s.nc")
    loaded = ts.Solution.load(tmp_path / "s.nc", ts.benchmark("INV-Mix"))
    for name in ("value", "q", "margin", "decided"):
        assert np.array_equal(getattr(loaded, name), getattr(solution, name)), name
    assert np.array_equal(loaded.policy.table, solution.policy.table)
    for name in ("error_bound", "tie_tolerance", "converged", "reason", "method"):
        assert getattr(loaded, name) == getattr(solution, name)
    for name in ("bound", "changed", "seconds"):
        assert np.array_equal(getattr(loaded.history, name), getattr(solution.history, name))


def test_the_dataset_speaks_in_named_coordinates(solution):
    data = solution.dataset
    assert data["q"].dims == ("stock", "regime", "order")
    assert data["value"].sel(stock=3, regime=7).item() == solution.value[3, 7]
    assert data["q"].sel(stock=3, regime=7, order=12).item() == solution.q[3, 7, 3]


def test_xarray_opens_the_file_as_the_dataset_and_is_not_needed_for_it(
    solution, tmp_path, monkeypatch
):
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "xarray", None)  # importing it would fail
        solution.save(tmp_path / "s.nc")
        ts.Solution.load(tmp_path / "s.nc", solution.mdp)
    with xr.open_dataset(tmp_path / "s.nc") as file:
        assert file["decided"].dtype == bool
        for name, held in solution.dataset.variables.items():
            assert file[name].dims == held.dims
            assert np.array_equal(file[name].values, held.values), name


def test_a_file_of_another_model_is_refused(solution, tmp_path):
    solution.save(tmp_path / "s.nc")
    with pytest.raises(ts.FileError, match="another model; its model is 'INV-Mix'"):
        ts.Solution.load(tmp_path / "s.nc", ts.inventory(unit_cost=0.26))


def test_a_file_of_another_version_is_refused(solution, tmp_path):
    import netCDF4

    solution.save(tmp_path / "s.nc")
    with netCDF4.Dataset(tmp_path / "s.nc", "a") as file:
        file.format = "tessella-solution-99"
    with pytest.raises(ts.FileError, match=r"s\.nc cannot be read as .*got 'tessella-solution-99'"):
        ts.Solution.load(tmp_path / "s.nc", solution.mdp)


def test_a_file_that_is_no_solution_is_refused(solution, tmp_path):
    (tmp_path / "s.nc").write_bytes(b"not a netcdf file")
    with pytest.raises(ts.FileError, match="cannot be read as a saved solution"):
        ts.Solution.load(tmp_path / "s.nc", solution.mdp)


def test_a_damaged_file_is_refused_in_a_sentence(solution, tmp_path):
    solution.save(tmp_path / "s.nc")
    held = (tmp_path / "s.nc").read_bytes()
    begun = held.index(b"\x78\x01")  # of a compressed array
    (tmp_path / "s.nc").write_bytes(held[: begun + 2] + bytes(30) + held[begun + 32 :])
    with pytest.raises(ts.FileError, match="of a file cannot be read"):
        ts.Solution.load(tmp_path / "s.nc", solution.mdp)


def test_the_verb_wins_over_the_folder_of_its_name():
    import tessella.solvers.iteration  # noqa: F401

    assert callable(ts.solve)
