"""A model as a NetCDF file that needs no package of ours to be read.

attributes   format, version, name, axes, action_name, actions and parameters (JSON), discount,
             fingerprint (of the model saved), content (of the arrays in the file)
grid/<axis>  the values of each axis; state s has C-order position s in the grid
indptr, indices, data    distinct rows of P in compressed sparse form, each row stored once
row_of, reward, feasible (state, action): row of P, expected reward, 1 where feasible
start        (state) probabilities of the first state, when the model has its own
outcomes/    start, state, probability, reward, ended: when rewards are by outcome or it can end
"""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tessella.errors import ModelError
from tessella.grid import StateGrid
from tessella.mdp.model import MDP
from tessella.mdp.pairs import Pairs, tabular_model
from tessella.mdp.scope import make_scope
from tessella.mdp.tabular import Outcomes, Tabular

FORMAT, VERSION = "tessella model", 1


def save(mdp: MDP, path: str | Path) -> None:
    """Write ``mdp`` to ``path``; staged dynamics are written out as rows."""
    table = tabular(mdp)
    dynamics = table.dynamics
    assert isinstance(dynamics, Tabular)
    with netCDF4.Dataset(str(path), "w", format="NETCDF4") as file:
        file.setncatts(_attributes(mdp, table))
        axes = file.createGroup("grid")
        for name, values in zip(mdp.grid.axes, mdp.grid.values, strict=True):
            _write(axes, name, values, (name,))
        shape = ("state", "action")
        _write(file, "indptr", dynamics.rows.indptr.astype(np.int64), ("row_end",))
        _write(file, "indices", dynamics.rows.indices.astype(np.int64), ("entry",))
        _write(file, "data", dynamics.rows.data, ("entry",))
        _write(file, "row_of", dynamics.row_of, shape)
        _write(file, "reward", dynamics.reward, shape)
        _write(file, "feasible", mdp.feasible_mask.astype(np.int8), shape)
        if mdp.start is not None:
            _write(file, "start", mdp.start, ("state",))
        if dynamics.outcomes is not None:
            _write_outcomes(file.createGroup("outcomes"), dynamics.outcomes)


def load(path: str | Path) -> MDP:
    """A model that ``save`` wrote, checked like any other."""
    with _opened(path) as file:
        file.set_auto_mask(False)
        about = {key: file.getncattr(key) for key in file.ncattrs()}
        if about.get("format") != FORMAT or about.get("version") != VERSION:
            kind = f"{about.get('format')!r}, version {about.get('version')}"
            raise ModelError(
                f"a model file has format {FORMAT!r}, version {VERSION}", "", f"got {kind}"
            )
        axes = json.loads(about["axes"])
        grid = StateGrid({name: _read(file["grid"], name) for name in axes})
        scope = make_scope(grid, json.loads(about["actions"]), about["action_name"])
        arrays = {name: _read(file, name) for name in file.variables}
        outcomes = _read_outcomes(file["outcomes"]) if "outcomes" in file.groups else None
    rows = sp.csr_array(
        (arrays["data"], arrays["indices"], arrays["indptr"]),
        shape=(len(arrays["indptr"]) - 1, grid.size),
    )
    dynamics = Tabular(scope, rows, arrays["row_of"], arrays["reward"], outcomes)
    mdp = MDP(
        grid,
        scope.actions,
        about["discount"],
        dynamics,
        arrays["feasible"].astype(bool),
        scope.action_name,
        about["name"],
        json.loads(about["parameters"]),
        arrays.get("start"),
    )
    if mdp.fingerprint != about["content"]:
        raise ModelError(f"the arrays of {Path(path).name} are not those that were saved")
    return mdp


def _opened(path: str | Path) -> netCDF4.Dataset:
    try:
        return netCDF4.Dataset(str(path), "r")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ModelError(f"{path} cannot be read as a saved model: {error}") from error


def tabular(mdp: MDP) -> MDP:
    """The same model with tabular dynamics."""
    if isinstance(mdp.dynamics, Tabular):
        return mdp
    listed = mdp.to_pairs()
    scope = make_scope(mdp.grid, mdp.actions, mdp.action_name)
    # Each stage was checked when it was built. Their product may miss 1 by more than one stage may.
    pairs = Pairs(scope, listed.states, listed.choices, listed.transition)
    pairs.rows.eliminate_zeros()
    table = tabular_model(pairs, listed.reward, None, mdp.discount, mdp.name, mdp.parameters)
    return replace(table, start=mdp.start)


def _attributes(mdp: MDP, table: MDP) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "name": mdp.name,
        "axes": json.dumps(mdp.grid.axes),
        "action_name": mdp.action_name,
        "actions": json.dumps(mdp.actions),
        "parameters": json.dumps(dict(mdp.parameters), default=_plain),
        "discount": mdp.discount,
        "fingerprint": mdp.fingerprint,
        "content": table.fingerprint,
    }


def _plain(value: Any) -> Any:
    """NumPy numbers and arrays, and ranges, as JSON can hold them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, range | set) else str(value)


def _write(group: Any, name: str, values: NDArray, dimensions: tuple[str, ...]) -> None:
    for dimension, length in zip(dimensions, values.shape, strict=True):
        if dimension not in group.dimensions:
            group.createDimension(dimension, length)
    text = values.dtype.kind == "U"
    options = {} if text else {"zlib": True, "complevel": 1, "shuffle": True}
    variable = group.createVariable(name, str if text else values.dtype, dimensions, **options)
    variable[:] = values.astype(object) if text else values


def _read(group: Any, name: str) -> NDArray:
    values = group[name][:]
    return np.asarray(values, dtype=str) if values.dtype == object else np.asarray(values)


def _write_outcomes(group: Any, outcomes: Outcomes) -> None:
    for field in fields(outcomes):
        values = getattr(outcomes, field.name)
        values = values.astype(np.int8) if values.dtype == bool else values
        _write(group, field.name, values, ("pair_end" if field.name == "start" else "outcome",))


def _read_outcomes(group: Any) -> Outcomes:
    arrays = {field.name: _read(group, field.name) for field in fields(Outcomes)}
    return Outcomes(**arrays | {"ended": arrays["ended"].astype(bool)})
