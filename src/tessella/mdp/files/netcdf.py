"""A model as a NetCDF file that needs no package of ours to be read.

attributes   format, version, name, axes, action_name, actions (JSON; those of several components
             as objects with a value for each) and parameters (JSON), discount,
             kind (of dynamics), fingerprint (of the model saved), row_error and reward_error (how
             far rows and rewards may be off, relative and absolute), observation_noise (JSON, when
             there is some), clock (JSON, rate and interest of a model made from rates), told ("in
             costs", where rewards are costs less a sign), criterion (JSON, where it is no
             discount), content (hash of all else)
grid/<axis>  the values of each axis; state s has C-order position s in the grid
indptr, indices, data    distinct rows of P in compressed sparse form, each row stored once
row_of, reward, feasible (state, action): row of P, expected reward, 1 where feasible
start        (state) probabilities of the first state, when the model has its own
outcomes/    start, state, probability, reward, ended: when rewards are by outcome or it can end

``content`` is the SHA-256 of every other attribute and then every variable, each by name: a line
``name=text`` (numbers as float.hex), or a line ``path kind shape`` and the values as little-endian
64-bit numbers (kind i or f), or as JSON (kind U).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tessella.criteria.as_criterion import criterion_named
from tessella.criteria.criterion import Criterion
from tessella.criteria.discounted import Discounted
from tessella.criteria.finite_horizon import FiniteHorizon
from tessella.errors import FileError, writing
from tessella.grid import StateGrid
from tessella.mdp.actions import as_json
from tessella.mdp.dynamics import Parts
from tessella.mdp.files.variables import Variables, opened, put, take
from tessella.mdp.scope import TIME, make_scope
from tessella.mdp.stages.events import Clock
from tessella.mdp.tabular.pairs import Pairs, tabular_parts
from tessella.mdp.tabular.tabular import Outcomes, Tabular
from tessella.rounding import Built

if TYPE_CHECKING:
    from tessella.mdp.model import MDP

FORMAT, VERSION = "tessella model", 2
KIND = "a saved model"
BESIDE = "model"  # the group of a model in another file
LARGEST = 200_000_000  # entries of rows beyond which no model is written out


@dataclass(frozen=True, eq=False)
class Saved:
    """What a file holds: the parts of a model, and what it is called."""

    path: Path
    parts: Parts
    criterion: Criterion
    name: str
    parameters: dict[str, Any]
    fingerprint: str | None  # of the rows in the file; None where it speaks of stages
    observation_noise: float | list[float] = 0.0
    clock: Clock | None = None
    minimise: bool = False

    def check(self, fingerprint: str) -> None:
        """Refuse a file whose fingerprint is not that of the model that was made of it."""
        if self.fingerprint not in (None, fingerprint):
            raise FileError(f"{self.path.name} has the fingerprint of another model")


def save(mdp: MDP, path: str | Path) -> None:
    """Write ``mdp`` to ``path``; staged dynamics are written out as rows."""
    contents = _contents(mdp)
    with writing(path), netCDF4.Dataset(str(path), "w", format="NETCDF4") as file:
        _put_model(file, *contents)


def save_beside(mdp: MDP, path: str | Path) -> None:
    """Write ``mdp`` into a file that is there, as its group ``model``."""
    contents = _contents(mdp)
    with writing(path), netCDF4.Dataset(str(path), "a") as file:
        _put_model(file.createGroup(BESIDE), *contents)


def _put_model(file: Any, attributes: dict[str, Any], variables: Variables) -> None:
    file.setncatts(attributes | {"content": digest(attributes, variables)})
    put(file, variables)


def kind_of(path: str | Path) -> str:
    """What kind of file it says it is: a model's, or another."""
    with opened(path, KIND) as file:
        return str(getattr(file, "format", ""))


def group_fingerprint(path: str | Path) -> str | None:
    """The fingerprint of the model that was put beside something else; None without one."""
    with opened(path, KIND) as file:
        group = file.groups.get(BESIDE)
        return None if group is None else str(getattr(group, "fingerprint", ""))


def content(mdp: MDP) -> str | None:
    """The hash in a file of ``mdp``; None where the model is too large to be written."""
    if entries(mdp) > LARGEST:
        return None
    return digest(*_contents(mdp))


def entries(mdp: MDP) -> int:
    """How many entries the rows of a file may have."""
    if isinstance(mdp.dynamics, Tabular):
        return int(mdp.dynamics.rows.nnz)
    return mdp.n_states * mdp.n_actions * mdp.dynamics.longest_row


def _contents(mdp: MDP) -> tuple[dict[str, Any], Variables]:
    """Attributes and variables of a file."""
    dynamics = tabular(mdp)
    shape, rows = ("state", "action"), dynamics.rows
    variables: Variables = {
        f"grid/{name}": (values, (name,))
        for name, values in zip(mdp.grid.axes, mdp.grid.values, strict=True)
    }
    variables |= {
        "indptr": (rows.indptr.astype(np.int64), ("row_end",)),
        "indices": (rows.indices.astype(np.int64), ("entry",)),
        "data": (rows.data, ("entry",)),
        "row_of": (dynamics.row_of, shape),
        "reward": (dynamics.reward, shape),
        "feasible": (mdp.feasible_mask.astype(np.int8), shape),
    }
    if mdp.start is not None:
        variables["start"] = (mdp.start, ("state",))
    if dynamics.outcomes is not None:
        for field in fields(dynamics.outcomes):
            values = getattr(dynamics.outcomes, field.name)
            values = values.astype(np.int8) if values.dtype == bool else values
            along = "pair_end" if field.name == "start" else "outcome"
            variables[f"outcomes/{field.name}"] = (values, (along,))
    return _attributes(mdp), variables


def digest(attributes: dict[str, Any], variables: Mapping[str, tuple[NDArray, Any]]) -> str:
    """The hash of a file's content, as described above."""
    found = hashlib.sha256()
    for name, value in sorted(attributes.items()):
        text = value if isinstance(value, str) else float(value).hex()
        found.update(f"{name}={text}\n".encode())
    for name, (values, _) in sorted(variables.items()):
        kind = {"i": "<i8", "f": "<f8"}.get(values.dtype.kind)
        found.update(f"{name} {values.dtype.kind} {list(values.shape)}\n".encode())
        text = json.dumps(values.tolist()).encode() if kind is None else b""
        found.update(text if kind is None else values.astype(kind).tobytes())
    return found.hexdigest()


def load(path: str | Path) -> Saved:
    """What ``save`` wrote, or ``save_beside``; the arrays must be those that were hashed then."""
    with opened(path, KIND) as whole:
        whole.set_auto_mask(False)
        file = whole.groups.get(BESIDE, whole)
        about = {key: file.getncattr(key) for key in file.ncattrs()}
        if about.get("format") != FORMAT or about.get("version") != VERSION:
            kind = f"{about.get('format')!r}, version {about.get('version')}"
            raise FileError(
                f"a model file has format {FORMAT!r}, version {VERSION}", value=f"got {kind}"
            )
        arrays = {name: take(file, name) for name in file.variables}
        for group in file.groups.values():
            arrays |= {f"{group.name}/{name}": take(group, name) for name in group.variables}
    said = about.pop("content", None)
    if said != digest(about, {name: (values, ()) for name, values in arrays.items()}):
        raise FileError(f"the arrays of {Path(path).name} are not those that were saved")
    parts = _parts(about, arrays)
    criterion = criterion_named(about.get("criterion"), about["discount"])
    if isinstance(criterion, FiniteHorizon):
        _refuse_other_times(parts, criterion, Path(path))
    return Saved(
        Path(path),
        parts,
        criterion,
        about["name"],
        json.loads(about["parameters"]),
        about["fingerprint"] if about["kind"] == "tabular" else None,
        json.loads(about.get("observation_noise", "0.0")),
        Clock(**json.loads(about["clock"])) if "clock" in about else None,
        "told" in about,
    )


def _parts(about: dict[str, Any], arrays: dict[str, NDArray]) -> Parts:
    grid = StateGrid({name: arrays[f"grid/{name}"] for name in json.loads(about["axes"])})
    scope = make_scope(grid, json.loads(about["actions"]), about["action_name"])
    rows = sp.csr_array(
        (arrays["data"], arrays["indices"], arrays["indptr"]),
        shape=(len(arrays["indptr"]) - 1, grid.size),
    )
    outcomes = None
    if "outcomes/state" in arrays:
        parts = {field.name: arrays[f"outcomes/{field.name}"] for field in fields(Outcomes)}
        outcomes = Outcomes(**parts | {"ended": parts["ended"].astype(bool)})
    built = Built(float(about["row_error"]), float(about["reward_error"]))
    dynamics = Tabular(scope, rows, arrays["row_of"], arrays["reward"], outcomes, built)
    return Parts(scope, dynamics, arrays["feasible"].astype(bool), arrays.get("start"))


def _refuse_other_times(parts: Parts, horizon: FiniteHorizon, path: Path) -> None:
    """Refuse rows that do not move time, the first axis, on by one: bounds rest on it."""
    dynamics, grid = parts.dynamics, parts.scope.grid
    assert isinstance(dynamics, Tabular)
    rule = f"in {path.name}, a model with a horizon, every period must move time on by one"
    if grid.axes[0] != TIME or grid.shape[0] != horizon.periods:
        raise FileError(rule, value=f"its first axis is {grid.axes[0]!r}")
    slab = grid.size // horizon.periods
    rows, now = dynamics.rows, np.arange(grid.size)[:, None] // slab
    lengths, reached = np.diff(rows.indptr), rows.indices // slab
    owner = np.repeat(np.arange(len(lengths)), lengths)
    low, high = np.full(len(lengths), grid.size), np.full(len(lengths), -1)
    np.minimum.at(low, owner, reached)
    np.maximum.at(high, owner, reached)
    low, high = low[dynamics.row_of], high[dynamics.row_of]
    ends = high < 0
    wrong = ~ends & ((low != now + 1) | (high != now + 1))  # it may end sooner
    bad = np.flatnonzero((wrong & (parts.feasible if parts.feasible is not None else True)).any(1))
    if bad.size:
        place = grid.describe(int(bad[0]))
        raise FileError(rule, place=place, value="does not", count=bad.size, total=grid.size)


def tabular(mdp: MDP) -> Tabular:
    """The model's dynamics as rows."""
    if isinstance(mdp.dynamics, Tabular):
        return mdp.dynamics
    listed = mdp.to_pairs()
    scope = make_scope(mdp.grid, mdp.actions, mdp.action_name)
    # Each stage was checked when it was built. Their product may miss 1 by more than one stage may.
    pairs = Pairs(scope, listed.states, listed.choices, listed.transition)
    pairs.rows.eliminate_zeros()
    dynamics = tabular_parts(pairs, listed.reward, None, mdp.dynamics.written).dynamics
    assert isinstance(dynamics, Tabular)
    return dynamics


def _attributes(mdp: MDP) -> dict[str, Any]:
    noise = np.asarray(mdp.observation_noise, dtype=float)
    seen = {"observation_noise": json.dumps(noise.tolist())} if noise.any() else {}
    if not isinstance(mdp.criterion, Discounted):
        seen["criterion"] = json.dumps(mdp.criterion.identity())
    if mdp.clock is not None:
        seen["clock"] = json.dumps(asdict(mdp.clock))
    if mdp.minimise:
        seen["told"] = "in costs"
    return seen | {
        "format": FORMAT,
        "version": VERSION,
        "name": mdp.name,
        "axes": json.dumps(mdp.grid.axes),
        "action_name": mdp.action_name,
        "actions": json.dumps(as_json(mdp.actions)),
        "parameters": json.dumps(dict(mdp.parameters), default=_to_json),
        "discount": mdp.discount,
        "kind": type(mdp.dynamics).__name__.lower(),
        "fingerprint": mdp.fingerprint,
        "row_error": mdp.dynamics.written.rows,
        "reward_error": mdp.dynamics.written.reward,
    }


def _to_json(value: Any) -> Any:
    """NumPy numbers and arrays, and ranges, as JSON can hold them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, range | set) else str(value)
