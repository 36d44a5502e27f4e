"""UMB, the binary format that model checkers exchange: an archive of arrays, and their index.

index.json                           counts, types, names of annotations and variables
state-to-choices, choice-to-branches where the choices or branches of each begin, as in CSR
branch-to-target, -probability       (B,) uint64, float64
actions/choices/                     (L,) uint32, and names as one text and where each begins
annotations/rewards/NAME/ENTITY      float64 of states, choices or branches
annotations/aps/NAME/states          bits, the first state lowest
valuations/states                    a record of bits for each state, the first variable lowest

A text file of probabilities has too many lines for large models; this one is read by NumPy. What
intervals, games, observations or continuous time need is not read.
"""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tessella.errors import ArgumentError, FileError, is_whole
from tessella.files import TEXT_MAX_BYTES, atomic_write, read_file_bytes, wrap_read_errors
from tessella.mdp.checks import ROW_SUM_TOLERANCE
from tessella.mdp.tabular.explicit import ExplicitModel

if TYPE_CHECKING:
    from tessella.mdp.model import MDP
    from tessella.mdp.tabular.pairs import PairModel

UMB_SUFFIX = ".umb"
UMB_SUBJECT = "a UMB model"
DOUBLE = {"type": "double", "size": 64}
INDEX = "index.json"
ENTRIES_MAX = TEXT_MAX_BYTES // 8  # states, choices or branches


def read_umb(path: str | Path) -> ExplicitModel:
    """The model in a UMB file."""
    with wrap_read_errors(path, UMB_SUBJECT):
        content = read_file_bytes(path, UMB_SUBJECT, TEXT_MAX_BYTES)
        files: dict[str, bytes] = {}
        n_bytes = 0
        try:
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                for member in archive:
                    n_bytes += member.size
                    if n_bytes > TEXT_MAX_BYTES:
                        raise FileError(f"its arrays have at most {TEXT_MAX_BYTES:,} bytes")
                    if member.isfile():
                        files[member.name] = archive.extractfile(member).read()  # type: ignore[union-attr]
        except tarfile.TarError as error:
            raise FileError("it must be an archive", value=str(error).splitlines()[0]) from error
        return _make_model(json.loads(files[INDEX]), files)


def _make_model(index: Mapping[str, Any], files: Mapping[str, bytes]) -> ExplicitModel:
    system = index["transition-system"]
    if system["time"] != "discrete" or system.get("#players", 0) > 1 or system.get("#observations"):
        raise FileError("it must be an MDP or a Markov chain in discrete time")
    n = system["#states"]
    if not is_whole(n, 1, ENTRIES_MAX):
        raise FileError(f"it must have 1..{ENTRIES_MAX:,} states", value=f"got {n!r:.40}")
    choice_starts = _read_starts(files, "state-to-choices", n)
    branch_starts = _read_starts(files, "choice-to-branches", int(choice_starts[-1]))
    states = np.repeat(np.arange(n), np.diff(choice_starts))
    owner = np.repeat(np.arange(len(states)), np.diff(branch_starts))
    target = _read_array(files, "branch-to-target", "<u8", len(owner)).astype(np.int64)
    chance = np.ones(len(owner))
    if "branch-to-probability.bin" in files:
        kind = system.get("branch-probability-type", DOUBLE)
        chance = _read_numbers(files, "branch-to-probability", kind, len(owner))
    rewards = {}
    annotations = index.get("annotations", {})
    for name, given in annotations.get("rewards", {}).items():
        sizes = {"states": n, "choices": len(states), "branches": len(owner)}
        paid = {entity: np.zeros(size) for entity, size in sizes.items()}
        for entity in given["applies-to"]:
            place = f"annotations/rewards/{name}/{entity}/values"
            paid[entity] = _read_numbers(files, place, given["type"], sizes[entity])
        of_branches = np.bincount(owner, chance * paid["branches"], len(states))
        rewards[given.get("alias", name)] = paid["states"][states] + paid["choices"] + of_branches
    return ExplicitModel(
        _read_variables(index.get("valuations", {}).get("states"), files, n),
        {
            given.get("alias", name): _read_bits(files, f"annotations/aps/{name}/states/values", n)
            for name, given in annotations.get("aps", {}).items()
        },
        _read_bits(files, "state-is-initial", n),
        states,
        _read_actions(files, states, choice_starts),
        sp.csr_array((chance, (owner, target)), shape=(len(states), n)),
        rewards,
    )


def _read_array(files: Mapping[str, bytes], name: str, kind: str, size: int) -> NDArray:
    array = np.frombuffer(files[f"{name}.bin"], dtype=kind)
    if len(array) != size:
        raise FileError(f"{name} must have {size:,} entries", value=f"has {len(array):,}")
    return array


def _read_starts(files: Mapping[str, bytes], name: str, size: int) -> NDArray[np.int64]:
    """(size + 1,) where the parts of each entry begin; without a file, each has one."""
    if f"{name}.bin" not in files:
        return np.arange(size + 1)
    starts = _read_array(files, name, "<u8", size + 1).astype(np.int64)
    if starts[0] or (starts[1:] < starts[:-1]).any() or starts[-1] > ENTRIES_MAX:
        raise FileError(f"{name} must ascend from 0, to {ENTRIES_MAX:,} at most")
    return starts


def _read_numbers(
    files: Mapping[str, bytes], name: str, kind: Mapping[str, Any], size: int
) -> NDArray[np.float64]:
    if kind == DOUBLE:
        return _read_array(files, name, "<f8", size)
    if kind != {"type": "rational", "size": 128}:
        raise FileError(f"{name} must hold doubles, or rationals of 128 bits", value=f"got {kind}")
    numerator, denominator = _read_array(files, name, "<i8", 2 * size).reshape(size, 2).T
    if (denominator == 0).any():
        raise FileError(f"{name} must hold fractions of a number other than 0")
    return numerator / denominator


def _read_bits(files: Mapping[str, bytes], name: str, size: int) -> NDArray[np.bool_]:
    words = _read_array(files, name, "u1", 8 * -(-size // 64))
    return np.unpackbits(words, bitorder="little")[:size].astype(bool)


def _read_actions(files: Mapping[str, bytes], states: NDArray, starts: NDArray) -> NDArray[np.str_]:
    """(L,) names; without them, the place of a choice among those of its state."""
    place = "actions/choices"
    if f"{place}/values.bin" not in files:
        return (np.arange(len(states)) - starts[states]).astype(str)
    values = _read_array(files, f"{place}/values", "<u4", len(states))
    if f"{place}/strings.bin" not in files:
        return values.astype(str)
    text = files[f"{place}/strings.bin"]
    ends = np.frombuffer(files[f"{place}/string-mapping.bin"], dtype="<u8").tolist()
    return np.array([text[low:high].decode("utf-8") for low, high in pairwise(ends)])[values]


def _read_variables(description: Any, files: Mapping[str, bytes], n: int) -> dict[str, NDArray]:
    """(n,) values by name, out of a record of bits for each state."""
    if description is None:
        return {}
    if len(description["classes"]) != 1:
        raise FileError("all states must have the same variables")
    fields = description["classes"][0]["variables"]
    widths = [
        variable["padding"] if "padding" in variable else variable["type"]["size"]
        for variable in fields
    ]
    records = _read_array(files, "valuations/states/valuations", "u1", n * sum(widths) // 8)
    bits = np.unpackbits(records.reshape(n, -1), axis=1, bitorder="little")
    ends = np.cumsum(widths)
    return {
        variable["name"]: _read_bit_column(variable, bits[:, end - width : end])
        for variable, width, end in zip(fields, widths, ends.tolist(), strict=True)
        if "padding" not in variable
    }


def _read_bit_column(variable: Mapping[str, Any], bits: NDArray) -> NDArray[np.float64]:
    """(n,) values of a variable from its bits in each record, the lowest first."""
    kind = variable["type"]["type"]
    width = bits.shape[1]
    is_known = kind in ("bool", "int", "uint", "double") and width <= 64
    if not is_known or variable.get("is-optional"):
        location = variable["name"]
        raise FileError("a variable must be a number", location=location, value=f"is {kind}")
    sign = bits[:, -1:] if kind == "int" else np.zeros_like(bits[:, :1])
    extended = np.concatenate([bits, np.repeat(sign, 64 - width, axis=1)], axis=1)
    word_type = "<f8" if kind == "double" else "<i8"
    words = np.packbits(extended, axis=1, bitorder="little").view(word_type)
    return words[:, 0].astype(float) + variable.get("offset", 0)


def write_umb(mdp: MDP, path: str | Path) -> None:
    """See ``MDP.to_umb``."""
    pairs = mdp.to_pairs()
    is_initial = np.ones(mdp.n_states, dtype=bool) if mdp.start is None else mdp.start > 0
    _require_writable(mdp, pairs, is_initial)
    rewards = {mdp.sense.reward: mdp.sense.sign * pairs.reward}
    for name in sorted(mdp.dynamics.counts):
        rewards[name] = mdp.with_objective({name: 1.0}).reward[pairs.states, pairs.choices]
    arrays = _collect_arrays(mdp, pairs, is_initial, rewards)
    index = _build_index(mdp, pairs, int(is_initial.sum()), rewards)
    files = {INDEX: json.dumps(index).encode()}
    files |= {
        f"{name}.bin": np.ascontiguousarray(array).tobytes() for name, array in arrays.items()
    }
    with atomic_write(path) as temporary, tarfile.open(temporary, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def _collect_arrays(
    mdp: MDP, pairs: PairModel, is_initial: NDArray[np.bool_], rewards: Mapping[str, NDArray]
) -> dict[str, NDArray]:
    """The arrays of a file by name."""
    names = [str(action).encode() for action in mdp.actions]
    columns = mdp.grid.coordinates(np.arange(mdp.n_states))
    padded = np.zeros(-(-mdp.n_states // 64) * 64, dtype=bool)
    padded[: mdp.n_states] = is_initial
    rows = pairs.transition
    return {
        "state-is-initial": np.packbits(padded, bitorder="little"),
        "state-to-choices": np.searchsorted(pairs.states, np.arange(mdp.n_states + 1)),
        "choice-to-branches": rows.indptr.astype("<i8"),
        "branch-to-target": rows.indices.astype("<i8"),
        "branch-to-probability": np.minimum(rows.data, 1.0),
        "actions/choices/values": pairs.choices.astype("<u4"),
        "actions/choices/strings": np.frombuffer(b"".join(names), dtype="u1"),
        "actions/choices/string-mapping": np.cumsum([0, *map(len, names)]),
        "valuations/states/valuations": np.stack([v.view("<i8") for v in columns.values()], axis=1),
        **{f"annotations/rewards/{name}/choices/values": paid for name, paid in rewards.items()},
    }


def _build_index(
    mdp: MDP, pairs: PairModel, n_initial: int, rewards: Iterable[str]
) -> dict[str, Any]:
    """The content of ``index.json``."""
    values = dict(zip(mdp.grid.axes, mdp.grid.values, strict=True))
    kinds = {name: "double" if v.dtype.kind == "f" else "int" for name, v in values.items()}
    variables = [{"name": n, "type": {"type": kind, "size": 64}} for n, kind in kinds.items()]
    return {
        "format-version": 1,
        "format-revision": 0,
        "file-data": {"tool": "tessella"},
        "model-data": {"name": mdp.name},
        "transition-system": {
            "time": "discrete",
            "#players": 1,
            "#states": mdp.n_states,
            "#initial-states": n_initial,
            "#choices": len(pairs.states),
            "#choice-actions": mdp.n_actions,
            "#branches": pairs.transition.nnz,
            "#branch-actions": 0,
            "#observations": 0,
            "branch-probability-type": DOUBLE,
        },
        "annotations": {
            "rewards": {name: {"applies-to": ["choices"], "type": DOUBLE} for name in rewards}
        },
        "valuations": {"states": {"unique": True, "classes": [{"variables": variables}]}},
    }


def _require_writable(mdp: MDP, pairs: PairModel, is_initial: NDArray[np.bool_]) -> None:
    """Raise an ArgumentError for what UMB cannot hold."""
    if mdp.start is not None and np.ptp(mdp.start[is_initial]) > 0:
        requirement = "UMB has initial states, all as likely; choose them by with_start"
        raise ArgumentError(requirement, value="some are more likely than others")
    if (pairs.transition.sum(axis=1) < 1 - ROW_SUM_TOLERANCE).any():
        raise ArgumentError("UMB has no process that ends", value="this one can end")
    if any(values.dtype.kind == "U" for values in mdp.grid.values):
        raise ArgumentError("the values of axes must be numbers in UMB", value="some are text")
