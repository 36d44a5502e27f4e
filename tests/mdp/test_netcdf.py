"""Saved models: read back by the package, and by a reader with NumPy and NetCDF only."""

from __future__ import annotations

import json

import netCDF4
import numpy as np
import pytest
import xarray as xr
from gymnasium.envs.toy_text import TaxiEnv
from support.hostile import Arrays

import tessella as ts
from tessella.checker import check
from tessella.errors import FileError
from tessella.mdp.model import MDP
from tessella.mdp.stages import Noise, Shift
from tessella.mdp.tabular.tabular import Tabular
from tessella.problems.registry import benchmark


def stand_alone(path):
    """P (A, S, S), r (S, A), feasible, discount: what a checker without this package reads."""
    with netCDF4.Dataset(path) as file:
        file.set_auto_mask(False)
        assert (file.format, int(file.version)) == ("tessella model", 3)
        indptr, indices, data = (file[name][:] for name in ("indptr", "indices", "data"))
        shape = [len(file["grid"][axis]) for axis in json.loads(file.axes)]
        n = int(np.prod(shape))
        rows = np.zeros((len(indptr) - 1, n))
        for i in range(len(rows)):
            span = slice(indptr[i], indptr[i + 1])
            rows[i, indices[span]] = data[span]
        P = rows[file["row_of"][:].T]
        return P, file["reward"][:], file["feasible"][:].astype(bool), float(file.discount)


def test_a_stand_alone_reader_finds_the_same_expectations(world, tmp_path):
    mdp = world.staged
    mdp.save(tmp_path / "model.nc")
    P, r, feasible, discount = stand_alone(tmp_path / "model.nc")
    dense = mdp.to_arrays()
    assert discount == mdp.discount
    np.testing.assert_array_equal(feasible, dense.feasible)
    np.testing.assert_array_equal(np.where(feasible.T[:, :, None], P, 0), dense.transition)
    np.testing.assert_array_equal(np.where(feasible, r, -np.inf), dense.reward)


def test_a_model_is_read_back_as_a_table_of_the_same_expectations(world, tmp_path):
    mdp = world.staged.with_start(0)
    mdp.save(tmp_path / "model.nc")
    back = MDP.load(tmp_path / "model.nc")
    assert isinstance(back.dynamics, Tabular)
    assert back.grid == mdp.grid
    assert [v.dtype for v in back.grid.values] == [v.dtype for v in mdp.grid.values]
    assert (back.actions, back.action_name, back.name) == (mdp.actions, mdp.action_name, mdp.name)
    np.testing.assert_array_equal(back.start, mdp.start)
    np.testing.assert_array_equal(back.to_arrays().transition, mdp.to_arrays().transition)
    np.testing.assert_array_equal(back.to_arrays().reward, mdp.to_arrays().reward)
    assert back.dynamics.row_of.dtype == np.int32


def test_a_table_keeps_its_fingerprint_and_its_outcomes(world, tmp_path):
    for name, mdp in (
        ("table", world.tabular),
        ("outcomes", world.by_outcome),
        ("taxi", MDP.from_gymnasium(TaxiEnv(), 0.99)),
    ):
        mdp.save(tmp_path / name)
        back = MDP.load(tmp_path / name)
        assert back.fingerprint == mdp.fingerprint
        back.save(tmp_path / "again")
        assert MDP.load(tmp_path / "again").fingerprint == mdp.fingerprint


def test_parameters_travel_with_the_model(tmp_path):
    mdp = benchmark("INV-Mix")
    mdp.save(tmp_path / "model.nc")
    assert MDP.load(tmp_path / "model.nc").parameters == mdp.parameters
    assert MDP.load(tmp_path / "model.nc").name == "INV-Mix"
    with netCDF4.Dataset(tmp_path / "model.nc") as file:
        assert file.fingerprint == mdp.fingerprint


def test_a_model_whose_stages_are_each_off_by_rounding_is_saved_as_it_is(tmp_path):
    """Each of three rows misses 1 by 9e-10, and their product by more than one row may."""
    off = 0.5 + 4.5e-10
    shift = Shift("x", Noise("w", [0, 1], [off, off]))
    mdp = MDP.staged({"x": range(3)}, (0,), 0.9, [shift] * 3).with_start([0.5, 0.5, 0.0])
    assert mdp.to_pairs().transition.sum(axis=1).max() > 1 + 2.6e-9
    mdp.save(tmp_path / "model.nc")
    back = MDP.load(tmp_path / "model.nc")
    np.testing.assert_array_equal(back.to_arrays().transition, mdp.to_arrays().transition)
    np.testing.assert_array_equal(back.start, mdp.start)


def test_xarray_opens_the_file(tmp_path):
    benchmark("QUE-Mix").save(tmp_path / "model.nc")
    with xr.open_dataset(tmp_path / "model.nc", group="grid") as grid:
        assert dict(grid.sizes) == {"queue": 31, "regime": 21}
    with xr.open_dataset(tmp_path / "model.nc") as model:
        assert model["reward"].shape == (651, 2)


def test_odd_parameters_are_kept_as_far_as_json_goes(tmp_path):
    odd = {"table": np.arange(3), "span": range(2), "scale": np.float64(0.5), "rule": MDP}
    mdp = MDP.from_arrays([[[1.0]]], [[0.0]], 0.5, parameters=odd)
    mdp.save(tmp_path / "model.nc")
    kept = MDP.load(tmp_path / "model.nc").parameters
    assert (kept["table"], kept["span"], kept["scale"]) == ([0, 1, 2], [0, 1], 0.5)


def test_a_changed_file_is_refused(tmp_path):
    path = tmp_path / "model.nc"
    benchmark("QUE-Mix").save(path)
    with netCDF4.Dataset(path, "a") as file:
        file["reward"][3, 1] += 1e-9
    with pytest.raises(FileError, match=r"model\.nc .*; its arrays are not those that were saved"):
        MDP.load(path)


def test_a_file_of_another_format_or_version_is_refused(tmp_path):
    path = tmp_path / "model.nc"
    benchmark("QUE-Mix").save(path)
    with netCDF4.Dataset(path, "a") as file:
        file.version = 4
    with pytest.raises(FileError) as caught:
        MDP.load(path)
    assert str(caught.value).endswith(
        "model.nc cannot be read as a saved model; "
        "it must have format 'tessella model', version 3; got 'tessella model', version 4"
    )
    with netCDF4.Dataset(tmp_path / "other.nc", "w"):
        pass
    with pytest.raises(FileError, match="got None, version None"):
        MDP.load(tmp_path / "other.nc")


def test_a_file_that_is_no_model_is_refused_and_so_is_one_that_is_missing(tmp_path):
    junk = tmp_path / "junk.nc"
    junk.write_bytes(b"not a model at all")
    with pytest.raises(FileError, match=r"junk\.nc cannot be read as a saved model"):
        MDP.load(junk)
    with pytest.raises(FileError, match=r"nowhere\.nc cannot be read .*; it is missing"):
        MDP.load(tmp_path / "nowhere.nc")


def by_rates(criterion):
    """Arrivals that are admitted or not, and departures, in continuous time."""
    arrival = ts.Event(
        "arrival", 1.0, lambda n, a: {"n": np.minimum(n + a, 4)}, pays=lambda n, a: 2.0 * a
    )
    departure = ts.Event("departure", 1.5, lambda n: {"n": np.maximum(n - 1, 0)})
    return MDP.from_rates(
        {"n": range(5)},
        [0, 1],
        [arrival, departure],
        criterion,
        costs_rate=lambda n: 1.0 * n,
        action_name="a",
    )


def every_form():
    """Models of stages, of rates and of tables, with every criterion."""
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(4), (2, 4))
    r = rng.normal(size=(4, 2))
    ending = P.copy()
    ending[:, 0] = [1.0, 0.0, 0.0, 0.0]
    paid = np.where(np.arange(4)[:, None] == 0, 0.0, -1.0 - r**2)
    drift = Noise("w", [-1, 0, 1], [0.3, 0.3, 0.4])

    def staged(criterion, **options):
        pay = ts.Decide(
            "x", lambda x, a: np.maximum(x - a, 0), pays=lambda x, a: np.sin(x) - 0.3 * a
        )
        stages = [pay, Shift("x", drift, edge="clip")]
        return MDP.staged({"x": range(6)}, [0, 1], criterion, stages, action_name="a", **options)

    timed = ts.Pay(lambda x, time: 0.1 * x * time)
    walk = [
        ts.Decide("x", lambda x, a: np.maximum(x - 1 - a, 0), costs=lambda x, a: (x > 0) * (1 + a))
    ]
    yield "stages", staged(0.95)
    yield "stages, average", staged(ts.Average())
    yield "stages, horizon", staged(ts.FiniteHorizon(4, 0.9, final=lambda x: 0.1 * x))
    yield "stages, start", staged(0.95).with_start(2)
    yield "stages, mask", staged(0.9, feasible=lambda x, a: (x > 0) | (a == 0))
    yield (
        "stages by time",
        MDP.staged(
            {"x": range(6)}, [0], ts.FiniteHorizon(3), [timed, Shift("x", drift, edge="clip")]
        ),
    )
    yield (
        "stages, total",
        MDP.staged({"x": range(6)}, [0, 1], ts.Total(), walk, action_name="a"),
    )
    yield "rates", by_rates(0.1)
    yield "rates, average", by_rates(ts.Average())
    yield "table", MDP.from_arrays(P, r, 0.9)
    yield "table, average", MDP.from_arrays(P, r, ts.Average())
    yield "table, horizon", MDP.from_arrays(P, r, ts.FiniteHorizon(3, final=np.arange(4.0)))
    yield "table, total", MDP.from_arrays(ending, paid, ts.Total())


EVERY_FORM = dict(every_form())


@pytest.mark.parametrize("name", EVERY_FORM)
def test_a_saved_model_keeps_its_fingerprint_solutions_and_certificates(name, tmp_path):
    mdp = EVERY_FORM[name]
    mdp.save(tmp_path / "model.nc")
    back = MDP.load(tmp_path / "model.nc")
    assert back.fingerprint == mdp.fingerprint
    assert back.content_hash == mdp.content_hash
    back.save(tmp_path / "again.nc")
    assert MDP.load(tmp_path / "again.nc").fingerprint == mdp.fingerprint
    solution, again = ts.solve(mdp), ts.solve(back)
    apart = np.abs(solution.value - again.value).max()
    if solution.gain is None:
        assert apart <= solution.error_bound + again.error_bound
    for one, other in ((solution, back), (again, mdp)):
        one.save(tmp_path / "solution.nc")
        loaded = ts.Solution.load(tmp_path / "solution.nc", other)
        policy = np.zeros(mdp.grid.shape, dtype=int)
        ts.certify(loaded, policy).save(tmp_path / "certificate.json")
        files = [str(tmp_path / "model.nc"), str(tmp_path / "certificate.json")]
        assert check.main(files) == 0
    assert solution.method == again.method or not mdp.criterion.has_horizon


@pytest.mark.parametrize("name", EVERY_FORM)
def test_an_altered_row_is_rejected_under_a_new_hash_too(name, tmp_path):
    EVERY_FORM[name].save(tmp_path / "model.nc")
    held = Arrays.read(tmp_path / "model.nc")
    reward = held.arrays["reward"]
    reward[0, 0] = np.nextafter(reward[0, 0], 9)
    held.write(tmp_path / "model.nc")
    with pytest.raises(FileError, match=r"fingerprint of another model|at the last time"):
        MDP.load(tmp_path / "model.nc")
    with netCDF4.Dataset(tmp_path / "model.nc", "a") as file:
        file.content = "0" * 64
    with pytest.raises(FileError, match="its arrays are not those that were saved"):
        MDP.load(tmp_path / "model.nc")


def test_another_discount_under_the_fingerprint_of_stages_is_rejected(tmp_path):
    EVERY_FORM["stages"].save(tmp_path / "model.nc")
    held = Arrays.read(tmp_path / "model.nc")
    held.attributes["discount"] = 0.9
    held.write(tmp_path / "model.nc")
    with pytest.raises(FileError, match="fingerprint of another model"):
        MDP.load(tmp_path / "model.nc")


def test_a_loaded_model_that_is_changed_has_a_fingerprint_of_its_own(tmp_path):
    mdp = EVERY_FORM["stages"]
    mdp.save(tmp_path / "model.nc")
    back = MDP.load(tmp_path / "model.nc")
    changed = back.with_start(3)
    assert changed.fingerprint not in (mdp.fingerprint, mdp.with_start(3).fingerprint)
    changed.save(tmp_path / "changed.nc")
    again = MDP.load(tmp_path / "changed.nc")
    assert again.fingerprint == changed.fingerprint
    assert again.source is None
    assert changed.with_start(None).fingerprint == mdp.fingerprint


def test_a_plan_for_stages_does_not_serve_their_tables(tmp_path):
    mdp = EVERY_FORM["stages"]
    mdp.save(tmp_path / "model.nc")
    back = MDP.load(tmp_path / "model.nc")
    with pytest.raises(ts.ArgumentError, match="a plan serves the model that it was made for"):
        ts.solve(back, plan=ts.plan(mdp))


def test_errors_of_a_period_bound_those_of_the_whole_from_below(tmp_path):
    EVERY_FORM["stages, horizon"].save(tmp_path / "model.nc")
    held = Arrays.read(tmp_path / "model.nc")
    held.attributes["reward_error"] = 0.0
    held.write(tmp_path / "model.nc")
    with pytest.raises(FileError, match="no less than those of a period give"):
        MDP.load(tmp_path / "model.nc")
