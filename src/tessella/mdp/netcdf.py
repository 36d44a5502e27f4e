"""A model as a NetCDF file, which can be read without this package.

attributes   format, version, name, axes, action_name, actions (JSON; those of several components
             as objects with a value for each) and parameters (JSON), discount,
             kind (of dynamics), fingerprint (of the model saved), table_fingerprint (of the
             tables in the file, where the model was not given as tables), row_error and
             reward_error (how far rows and rewards may be off, relative and absolute),
             observation_noise (JSON, when there is some), clock (JSON, rate and interest of a
             model made from rates), stated_in ("costs", where rewards are costs less a sign),
             downward_axis (the axis that pictures draw from the top down, when there is one),
             criterion (JSON, where it is no discount), period_row_error and period_reward_error
             (of a single period, when there is a horizon), content (hash of all else)
grid/<axis>  the values of each axis; state s has C-order position s in the grid. With the attribute
             states_listed = 1 only some combinations are states: the value of each state instead
indptr, indices, data    distinct rows of P in compressed sparse form, each row stored once
row_of, reward, feasible (state, action): row of P, expected reward, 1 where feasible
start        (state) probabilities of the first state, when the model has its own
outcomes/    start, state, probability, reward, ended: when rewards are by outcome or it can end;
             with a horizon, of a single period
end/         indptr, indices, data, row_of, reward of the last period and the value after it, final,
             when there is a horizon: at the last time, rows are empty and rewards include it
measures/    counts and measures, when there are some: see ``netcdf_tables``

``content`` is the SHA-256 of every other attribute and then every variable but those of
``measures/``, which has a hash of its own, each by name: a line
``name=text`` (numbers as float.hex), or a line ``path kind shape`` and the values as little-endian
64-bit numbers (kind i or f), or as JSON (kind U).

A model of stages is read back as tables with the fingerprint of the stages: the tables are those
of ``table_fingerprint``, and within ``row_error`` and ``reward_error`` of the stages. These hashes
show what has changed by mistake; they are no signatures.

Text is written as strings of any length, and booleans as bytes that xarray reads as such. netCDF4
alone is loaded for it, so a command that reads a saved solution answers at once.

A small file can declare large arrays: what was never written reads as zeros, compressed bytes hold
up to ``MAX_COMPRESSION_RATIO`` times their number, and many labels may point at one long text. What
is declared is compared with the size of the file before it is read.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
from numpy.typing import NDArray

from tessella.criteria import Discounted, read_criterion
from tessella.criteria.criterion import Criterion
from tessella.criteria.finite_horizon import FiniteHorizon
from tessella.errors import FileError, is_number
from tessella.files import (
    NETCDF_FILE,
    SIGNATURE_MAX_BYTES,
    atomic_write,
    require_kind,
    require_regular,
    wrap_read_errors,
)
from tessella.grid import StateGrid
from tessella.mdp import netcdf_tables
from tessella.mdp.actions import actions_from_json, actions_to_json
from tessella.mdp.dynamics import Dynamics, ModelParts, SourceModel
from tessella.mdp.finite_horizon import FiniteHorizonDynamics
from tessella.mdp.stages.events import Clock
from tessella.mdp.state_action_space import (
    StateActionSpace,
    drop_time_axis,
    make_state_action_space,
)
from tessella.mdp.tabular.pairs import Pairs, build_tabular, select_feasible_rows
from tessella.mdp.tabular.tabular import Outcomes, Tabular
from tessella.rounding import ModelRounding
from tessella.support.json_values import json_default
from tessella.support.sense import COSTS

if TYPE_CHECKING:
    from tessella.mdp.model import MDP

FORMAT = "tessella model"
FILE_VERSION = 3
FILE_SUBJECT = "a saved model"
MODEL_GROUP = "model"  # the group of a model in another file
SAVED_MAX_ENTRIES = 200_000_000  # entries of rows beyond which no model is written out
TEXT_ATTRIBUTES = ("name", "axes", "action_name", "actions", "parameters", "kind", "fingerprint")
GROUPS = ("grid", "outcomes", "end")
ROW_ERROR_LIMIT = 1e-3  # relative error from which on rows are no longer known
# Of the largest reward, or of 1 where stages cancel one another's rewards.
REWARD_ERROR_LIMIT = 1e-3
Variables = dict[str, tuple[NDArray, tuple[str, ...]]]  # path to values and names of dimensions
MAX_COMPRESSION_RATIO = 1032  # bytes of content for each byte of a compressed file
MODEL_MAX_BYTES = 4 << 30  # bytes of all arrays of a model file
LABEL_BYTES = 32  # bytes of a label in a file in addition to its text
# Bytes of labels for each byte of the file: all labels of an axis are as wide as the longest.
LABELS_MAX_EXPANSION = 32


@contextmanager
def open_dataset(path: str | Path, subject: str) -> Iterator[netCDF4.Dataset]:
    """The file at ``path``; messages call it ``subject``: "a saved model"."""
    with wrap_read_errors(path, subject):
        require_regular(os.stat(path), f"{path} cannot be read as {subject}")
        with open(path, "rb") as file:
            require_kind(file.read(SIGNATURE_MAX_BYTES), NETCDF_FILE)
        with netCDF4.Dataset(str(path), "r") as file:
            file.set_auto_maskandscale(False)
            yield file


@contextmanager
def create_dataset(path: str | Path) -> Iterator[netCDF4.Dataset]:
    """A new file, which takes the place of the one at ``path`` once all is written."""
    with atomic_write(path) as temporary:
        try:
            with netCDF4.Dataset(str(temporary), "w", format="NETCDF4") as file:
                yield file
        except (OSError, RuntimeError) as error:  # of a full disk, the library names other causes
            free = shutil.disk_usage(temporary.parent).free
            cause = getattr(error, "strerror", None) or error
            value = f"{cause}; {free:,} bytes are free on its disk"
            value = value if free else os.strerror(errno.ENOSPC)
            raise FileError(f"{path} cannot be written", value=value) from error


def write_variables(file: Any, attributes: dict[str, Any], variables: Variables) -> None:
    """Write attributes, their hash, and variables, those called ``group/name`` into groups."""
    file.setncatts(attributes | {"content": hash_content(attributes, variables)})
    for name, (values, dimensions) in variables.items():
        group_name, _, last = name.rpartition("/")
        group = file.createGroup(group_name) if group_name else file
        for dimension, length in zip(dimensions, values.shape, strict=True):
            if dimension not in group.dimensions:
                group.createDimension(dimension, length)
        kind = values.dtype.kind
        options = {} if kind == "U" else {"zlib": True, "complevel": 1, "shuffle": True}
        stored = {"U": str, "b": np.int8}.get(kind, values.dtype)
        variable = group.createVariable(last, stored, dimensions, **options)
        if kind == "b":
            variable.setncattr("dtype", "bool")  # as xarray marks it
        variable[:] = values.astype(object) if kind == "U" else values


def hash_content(attributes: dict[str, Any], variables: Mapping[str, tuple[NDArray, Any]]) -> str:
    """The hash of a file's content: see the docstring of this module."""
    hasher = hashlib.sha256()
    for name, value in sorted(attributes.items()):
        text = value if isinstance(value, str) else float(value).hex()
        hasher.update(f"{name}={text}\n".encode())
    for name, (values, _) in sorted(variables.items()):
        kind = {"b": "i"}.get(values.dtype.kind, values.dtype.kind)
        hasher.update(f"{name} {kind} {list(values.shape)}\n".encode())
        if kind == "U":
            hasher.update(json.dumps(values.tolist()).encode())
        else:
            hasher.update(np.ascontiguousarray(values, dtype=f"<{kind}8").data)
    return hasher.hexdigest()


def require_unaltered(attributes: dict[str, Any], arrays: Mapping[str, NDArray]) -> None:
    """Raise an error for content that is not what the attribute ``content`` is the hash of."""
    stated = attributes.pop("content", None)
    if stated != hash_content(attributes, {name: (values, ()) for name, values in arrays.items()}):
        raise FileError("its arrays are not those that were saved")


def read_attributes(group: Any) -> dict[str, Any]:
    return {name: group.getncattr(name) for name in group.ncattrs()}


def read_variables(
    variables: Mapping[str, Any], file_bytes: int, max_bytes: float = math.inf
) -> dict[str, NDArray]:
    """The values of variables, of a file of ``file_bytes`` bytes that has all of them.

    ``max_bytes`` is the most bytes that may be read in all.
    """
    declared = 0
    for name, variable in variables.items():
        if not (variable.dtype is str or variable.dtype.kind in "if"):
            raise FileError(f"{name!r} must hold numbers or text", value=f"got {variable.dtype}")
        # Reading takes the whole, or one chunk_size where that is larger.
        chunks = variable.chunking()
        chunk_size = 1 if chunks == "contiguous" else math.prod(chunks)
        declared += 8 * max(math.prod(variable.shape), chunk_size)
    max_bytes = min(MAX_COMPRESSION_RATIO * file_bytes, max_bytes)
    if declared > max_bytes:
        requirement = f"a file of {file_bytes:,} bytes may declare arrays of {max_bytes:,} bytes"
        raise FileError(requirement, value=f"it declares {declared:,}")
    return {name: _read_values(name, variable, file_bytes) for name, variable in variables.items()}


def _read_values(name: str, variable: Any, file_bytes: int) -> NDArray:
    try:
        return _read_labels(name, variable, file_bytes) if variable.dtype is str else variable[...]
    except (OSError, RuntimeError) as error:  # what the library raises of damaged bytes
        raise FileError(f"{name!r} of a file cannot be read: {error}") from error


def _read_labels(name: str, variable: Any, file_bytes: int) -> NDArray:
    """Labels one by one, as long as a file of ``file_bytes`` bytes could hold them all."""
    if len(variable.shape) != 1:
        raise FileError(f"{name!r} must be a list of labels", value=f"has shape {variable.shape}")
    labels: list[str] = []
    bytes_left = file_bytes
    for i in range(variable.shape[0]):
        labels.append(variable[i])
        bytes_left -= LABEL_BYTES + len(labels[-1].encode("utf-8", "surrogatepass"))
        if bytes_left < 0:
            requirement = f"the labels of {name!r} must fit into the file's {file_bytes:,} bytes"
            raise FileError(requirement, location=f"label {i + 1}", value="is one too many")
    width = 4 * len(labels) * max(map(len, labels), default=0)
    if width > LABELS_MAX_EXPANSION * file_bytes:
        requirement = f"the labels of {name!r} must be of about one length"
        longest = max(map(len, labels))
        raise FileError(requirement, value=f"one of {len(labels):,} has {longest:,} characters")
    return np.asarray(labels, dtype=str)


def save(mdp: MDP, path: str | Path) -> None:
    """Write ``mdp`` to ``path``; staged dynamics are written out as rows."""
    contents = _build_contents(mdp)  # before a file is created
    with create_dataset(path) as file:
        _write_model(file, mdp, contents)


def write_model_group(mdp: MDP, file: Any) -> None:
    """Write ``mdp`` into an open file, as its group ``model``."""
    _write_model(file.createGroup(MODEL_GROUP), mdp, _build_contents(mdp))


def _write_model(file: Any, mdp: MDP, contents: tuple[dict[str, Any], Variables]) -> None:
    write_variables(file, *contents)
    if mdp.measures:
        group = file.createGroup(netcdf_tables.MEASURES_GROUP)
        write_variables(group, *netcdf_tables.measures_to_arrays(mdp))


def read_format(path: str | Path) -> str:
    """The attribute ``format`` of a file, which says what it holds."""
    with open_dataset(path, FILE_SUBJECT) as file:
        return str(getattr(file, "format", ""))


def read_group_fingerprint(path: str | Path) -> str | None:
    """The fingerprint of the model in the group of another file; None without one."""
    with open_dataset(path, FILE_SUBJECT) as file:
        group = file.groups.get(MODEL_GROUP)
        return None if group is None else str(getattr(group, "fingerprint", ""))


def content_hash(mdp: MDP) -> str | None:
    """The hash in a file of ``mdp``; None where the model is too large to be written."""
    if count_saved_probabilities(mdp) > SAVED_MAX_ENTRIES:
        return None
    return hash_content(*_build_contents(mdp))


def rebuild_from_contents(mdp: MDP) -> tuple[MDP, str]:
    """``mdp`` as it would be loaded from its file, and the hash of its measures there."""
    attributes, variables = _build_contents(mdp)
    arrays = {name: values for name, (values, _) in variables.items()}
    _, tables = _read_tables(attributes, arrays, mdp.dynamics.space, mdp.criterion)
    dynamics = netcdf_tables.add_counts(tables, netcdf_tables.tabulate_counts(mdp))
    content = hash_content(*netcdf_tables.measures_to_arrays(mdp))
    return replace(mdp, dynamics=dynamics, source=None), content


def count_saved_probabilities(mdp: MDP) -> int:
    """How many probabilities a file of ``mdp`` holds, at most."""
    if isinstance(mdp.dynamics, Tabular):
        return int(mdp.dynamics.rows.nnz)
    return mdp.n_states * mdp.n_actions * mdp.dynamics.longest_row


def _build_contents(mdp: MDP) -> tuple[dict[str, Any], Variables]:
    """Attributes and variables of a file."""
    space = mdp.dynamics.space
    table = as_tabular(space, mdp.dynamics, mdp.feasible_mask)
    attributes = _build_attributes(mdp)
    outcomes = table.outcomes
    variables: Variables = {
        f"grid/{name}": (values, ("state" if mdp.grid.is_listed else name,))
        for name, values in mdp.grid.columns.items()
    }
    variables |= netcdf_tables.table_to_arrays(table)
    variables["feasible"] = (mdp.feasible_mask.astype(np.int8), ("state", "action"))
    if mdp.start is not None:
        variables["start"] = (mdp.start, ("state",))
    loaded: Dynamics = table  # the dynamics that ``load`` reads
    if isinstance(mdp.dynamics, FiniteHorizonDynamics):
        outcomes = _add_last_period(mdp, mdp.dynamics, table, attributes, variables)
    if outcomes is not None:
        variables |= netcdf_tables.outcomes_to_arrays(outcomes)
    if not _is_table_kind(attributes["kind"]):
        if mdp.criterion.has_horizon:
            arrays = {name: values for name, (values, _) in variables.items()}
            _, loaded = _read_tables(attributes, arrays, space, mdp.criterion)
            if mdp.dynamics.counts:  # periods that count differently are different periods
                loaded = netcdf_tables.add_counts(loaded, netcdf_tables.tabulate_counts(mdp))
        attributes["table_fingerprint"] = replace(mdp, dynamics=loaded, source=None).fingerprint
    return attributes, variables


def _add_last_period(
    mdp: MDP,
    dynamics: FiniteHorizonDynamics,
    table: Tabular,
    attributes: dict[str, Any],
    variables: Variables,
) -> Outcomes | None:
    """Add the last period of a horizon, and final rewards; return the outcomes of the period."""
    mask = mdp.feasible_mask
    final = dynamics.final.ravel()
    last = as_tabular(drop_time_axis(table.space), dynamics.periods[-1], mask[-final.size :])
    worst = ModelRounding.worst_of([p.rounding.in_file for p in dynamics.distinct_periods])
    attributes |= {f"period_{name}": error for name, error in asdict(worst).items()}
    end = netcdf_tables.END_GROUP
    variables |= netcdf_tables.table_to_arrays(last, end)
    variables[f"{end}final"] = final, ("state",)
    reward = table.reward
    if final.any():
        reward = np.concatenate([reward[: -final.size], last.reward_with_final(final)])
    variables["reward"] = (np.where(mask, reward, 0.0), ("state", "action"))
    return last.outcomes


def _is_table_kind(kind: str) -> bool:
    """Whether dynamics of this kind are tables, which ``load`` restores: ``timed tabular``."""
    return kind.endswith("tabular")


def load(path: str | Path) -> tuple[dict[str, Any], str]:
    """The fields of the MDP of ``save`` or ``write_model_group``, and the fingerprint it must have.

    Tables are checked like arrays of a user.
    """
    with open_dataset(path, FILE_SUBJECT) as dataset:
        file = dataset.groups.get(MODEL_GROUP, dataset)
        attributes = read_attributes(file)
        if attributes.get("format") != FORMAT or attributes.get("version") != FILE_VERSION:
            kind = f"got {attributes.get('format')!r}, version {attributes.get('version')}"
            raise FileError(f"it must have format {FORMAT!r}, version {FILE_VERSION}", value=kind)
        size = os.path.getsize(path)
        variables = dict(file.variables)
        for group in [name for name in GROUPS if name in file.groups]:
            members = file.groups[group].variables
            variables |= {f"{group}/{name}": variable for name, variable in members.items()}
        arrays = read_variables(variables, size, MODEL_MAX_BYTES)
        require_unaltered(attributes, arrays)
        fields, fingerprint = _read_fields(attributes, arrays)
        if netcdf_tables.MEASURES_GROUP in file.groups:
            group = file.groups[netcdf_tables.MEASURES_GROUP]
            attributes = read_attributes(group)
            arrays = read_variables(group.variables, size, MODEL_MAX_BYTES)
            require_unaltered(attributes, arrays)
            fields |= netcdf_tables.read_measures(fields, attributes, arrays)
        return fields, fingerprint


def _read_fields(
    attributes: dict[str, Any], arrays: dict[str, NDArray]
) -> tuple[dict[str, Any], str]:
    for name in TEXT_ATTRIBUTES:
        _read_text(attributes, name)
    if "criterion" in attributes:
        criterion = read_criterion(json.loads(attributes["criterion"]))
    else:
        criterion = Discounted(attributes["discount"])
    if float(attributes["discount"]) != criterion.discount:
        requirement = f"the discount of {criterion} is {criterion.discount:g}"
        raise FileError(requirement, value=f"got {attributes['discount']}")
    parameters = json.loads(attributes["parameters"])
    if not isinstance(parameters, dict):
        raise FileError("the attribute 'parameters' must be an object", value=f"got {parameters}")
    parts = _read_parts(attributes, arrays, criterion)
    kind = attributes["kind"]
    fingerprint = attributes["fingerprint"]
    source = None
    if not _is_table_kind(kind):
        source = SourceModel(kind, fingerprint, _read_text(attributes, "table_fingerprint"))
    fields = {
        "grid": parts.space.grid,
        "actions": parts.space.actions,
        "criterion": criterion,
        "dynamics": parts.dynamics,
        "feasible": parts.feasible,
        "action_name": parts.space.action_name,
        "name": attributes["name"],
        "parameters": parameters,
        "start": parts.start,
        "observation_noise": json.loads(attributes.get("observation_noise", "0.0")),
        "minimise": attributes.get("stated_in") == COSTS.rewards,
        "source": source,
    }
    if "clock" in attributes:
        fields["clock"] = _read_clock(json.loads(attributes["clock"]), criterion)
    return fields, fingerprint


def _read_text(attributes: dict[str, Any], name: str) -> str:
    text = attributes.get(name)
    if not isinstance(text, str):
        raise FileError(f"the attribute {name!r} must be text", value=f"got {text}")
    return text


def _read_clock(given: Any, criterion: Criterion) -> Clock:
    """The clock of a model with this criterion: an interest rate is the same as a discount."""
    clock = Clock(**given)
    is_rate = is_number(clock.rate) and is_number(clock.interest) and clock.rate > 0
    if criterion.is_discounted:
        fits = is_rate and clock.rate / (clock.rate + clock.interest) == criterion.discount
    else:
        fits = is_rate and clock.interest == 0
    if not fits:
        requirement = f"a clock must have a rate above 0 and the interest rate of {criterion}"
        raise FileError(requirement, value=f"got {given}")
    return clock


def _read_parts(
    attributes: dict[str, Any], arrays: dict[str, NDArray], criterion: Criterion
) -> ModelParts:
    axes = json.loads(attributes["axes"])
    if not isinstance(axes, list) or len(set(axes)) < len(axes):
        raise FileError("the axes of a file must be a list of names", value=f"got {axes!r:.60}")
    columns = {name: arrays[f"grid/{name}"] for name in axes}
    is_listed = attributes.get("states_listed") == 1
    grid = StateGrid.from_states(columns) if is_listed else StateGrid(columns)
    grid = grid.with_downward_axis(attributes.get("downward_axis", ""))
    space = make_state_action_space(
        grid, actions_from_json(json.loads(attributes["actions"])), attributes["action_name"]
    )
    mask, dynamics = _read_tables(attributes, arrays, space, criterion)
    max_error = REWARD_ERROR_LIMIT * max(1.0, float(np.abs(arrays["reward"]).max()))
    for prefix in _rounding_prefixes(criterion):
        if _read_rounding(attributes, prefix).reward_error > max_error:
            requirement = f"{prefix}reward_error must be at most {max_error:g}, by the rewards"
            raise FileError(requirement, value=f"got {attributes[f'{prefix}reward_error']:g}")
    in_memory = dynamics.rounding.in_memory
    in_file = dynamics.rounding.in_file
    if in_file.row_error < in_memory.row_error or in_file.reward_error < in_memory.reward_error:
        requirement = "row_error and reward_error must be no less than those of a period give"
        value = f"got {in_file.row_error:g} and {in_file.reward_error:g}"
        raise FileError(requirement, value=value)
    return ModelParts(space, dynamics, mask, arrays.get("start"))


def _read_tables(
    attributes: dict[str, Any],
    arrays: Mapping[str, NDArray],
    space: StateActionSpace,
    criterion: Criterion,
) -> tuple[NDArray[np.bool_], Dynamics]:
    """The mask of feasible pairs and the dynamics that a file holds."""
    prefixes = _rounding_prefixes(criterion)
    reader = netcdf_tables.TableReader(space, arrays, _read_rounding(attributes, prefixes[-1]))
    mask = reader.read_mask()
    if not isinstance(criterion, FiniteHorizon):
        return mask, reader.read_table(mask)
    dynamics = reader.read_periods(mask, criterion)
    return mask, replace(dynamics, file_rounding=_read_rounding(attributes, prefixes[0]))


def _rounding_prefixes(criterion: Criterion) -> list[str]:
    """Prefixes of the attributes of error bounds: of the model and, with a horizon, of a period."""
    return ["", "period_"] if criterion.has_horizon else [""]


def _read_rounding(attributes: dict[str, Any], prefix: str) -> ModelRounding:
    """Error bounds of the rows and rewards of a file."""
    rounding = ModelRounding(
        float(attributes[f"{prefix}row_error"]), float(attributes[f"{prefix}reward_error"])
    )
    if not (0 <= rounding.row_error < ROW_ERROR_LIMIT and 0 <= rounding.reward_error < np.inf):
        limit = f"{prefix}row_error must lie in [0, {ROW_ERROR_LIMIT:g})"
        value = f"got {rounding.row_error:g} and {rounding.reward_error:g}"
        raise FileError(f"{limit}, {prefix}reward_error be finite", value=value)
    return rounding


def as_tabular(space: StateActionSpace, dynamics: Dynamics, mask: NDArray[np.bool_]) -> Tabular:
    """``dynamics`` as rows of the pairs that ``mask`` (S, A) calls feasible."""
    if isinstance(dynamics, Tabular):
        return dynamics
    # Each stage was checked when it was built. Their product may miss 1 by more than one stage may.
    pairs = Pairs(space, *select_feasible_rows(dynamics.to_sparse(), mask))
    pairs.rows.eliminate_zeros()
    reward = dynamics.expected_reward()[mask]
    table = build_tabular(pairs, reward, None, dynamics.rounding.in_file).dynamics
    assert isinstance(table, Tabular)
    return table


def _build_attributes(mdp: MDP) -> dict[str, Any]:
    source = mdp.source
    if source is not None and source.fingerprint != mdp.fingerprint:
        source = None  # these are no longer its tables
    noise = np.asarray(mdp.observation_noise, dtype=float)
    is_discounted = mdp.criterion.is_discounted
    attributes = {
        "format": FORMAT,
        "version": FILE_VERSION,
        "name": mdp.name,
        "axes": json.dumps(mdp.grid.axes),
        "action_name": mdp.action_name,
        "actions": json.dumps(actions_to_json(mdp.actions)),
        "parameters": json.dumps(dict(mdp.parameters), default=json_default),
        "discount": mdp.discount,
        "kind": _describe_kind(mdp.dynamics) if source is None else source.kind,
        "fingerprint": mdp.fingerprint,
        **asdict(mdp.dynamics.rounding.in_file),
        "observation_noise": json.dumps(noise.tolist()) if noise.any() else None,
        "criterion": None if is_discounted else json.dumps(mdp.criterion.fingerprint_key()),
        "clock": None if mdp.clock is None else json.dumps(asdict(mdp.clock)),
        "stated_in": mdp.sense.rewards if mdp.minimise else None,
        "states_listed": 1 if mdp.grid.is_listed else None,
        "downward_axis": mdp.grid.downward_axis or None,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def _describe_kind(dynamics: Dynamics) -> str:
    """``staged``, ``timed tabular``: one that ends in ``tabular`` is read back as it was."""
    if isinstance(dynamics, FiniteHorizonDynamics):
        return f"{dynamics.kind} {_describe_kind(dynamics.periods[0])}"
    return dynamics.kind
