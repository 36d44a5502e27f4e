"""Altered files whose hashes are valid again.

    find_faults(seed) -> faults after a change in every kind of file: neither our error nor sound

A file is read as attributes and arrays, or as JSON; one part of it is altered, and it is written
again so that only the alteration is wrong. What is loaded must be the file's own content, and the
model that comes of it must be sound.
"""

from __future__ import annotations

import atexit
import contextlib
import copy
import io
import json
import math
import resource
import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

import tessella as ts
from support.alterations import choose_leaf, find_owner, list_leaves
from tessella.checker import check
from tessella.errors import TessellaError
from tessella.mdp.netcdf import (
    create_dataset,
    open_dataset,
    read_attributes,
    read_variables,
    write_variables,
)

MEMORY_GROWTH_MAX_KIB = 256 << 10  # KiB that five small files may take
ODD_VALUES = (
    None,
    True,
    "text",
    "",
    "\x00",
    [],
    [1],
    {},
    {"a": 1},
    0,
    -1,
    0.5,
    7,
    2**40,
    2**70,
    10**400,
)
ODD_NUMBERS = (math.nan, math.inf, -math.inf, -1.0, 0.0, 0.5, 3.0, 1e300, -1e-9, 1e-320)
ODD_INTEGERS = (-1, 0, 1, 2, 7, 2**31, -(2**63), 2**63 - 1)


def convert_array(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The array in another type; texts become positions first."""
    numbers = np.arange(array.size).reshape(array.shape) if array.dtype.kind == "U" else array
    with np.errstate(all="ignore"):
        return numbers.astype(rng.choice(["float64", "int64", "int8", "str"]))


ARRAY_CHANGES: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "convert": convert_array,
    "reshape": lambda array, rng: array.reshape(-1)[:-1] if rng.random() < 0.5 else array[None],
    "repeat": lambda array, rng: np.concatenate([array, array]),
    "permute": lambda array, rng: rng.permutation(array.ravel()).reshape(array.shape),
}


@dataclass(eq=False)
class Arrays:
    """The content of a NetCDF file without groups inside groups."""

    attributes: dict[str, Any]
    arrays: dict[str, np.ndarray]

    @staticmethod
    def read(path: Path, group: str = "") -> Arrays:
        with open_dataset(path, "a file of a test") as file:
            root = file[group] if group else file
            variables = dict(root.variables)
            for inner in root.groups.values():
                variables |= {f"{inner.name}/{name}": v for name, v in inner.variables.items()}
            arrays = read_variables(variables, 1 << 30)
            attributes = read_attributes(root)
        del attributes["content"]
        return Arrays(attributes, arrays)

    def write(self, path: Path) -> None:
        """With the hash of what it holds now."""
        named = {
            name: (values, tuple(f"{name.replace('/', '_')}_{i}" for i in range(values.ndim)))
            for name, values in self.arrays.items()
        }
        with create_dataset(path) as file:
            write_variables(file, self.attributes, named)

    def alter(self, rng: np.random.Generator) -> str:
        """Change one part, and describe the change."""
        if rng.random() < 0.35:
            return self._alter_attribute(rng)
        name = str(rng.choice(sorted(self.arrays)))
        change = str(rng.choice([*ARRAY_CHANGES, "delete", "exchange", "entry", "entry"]))
        if change == "entry":
            return self._alter_entry(name, rng)
        if change == "exchange":
            other = str(rng.choice(sorted(self.arrays)))
            self.arrays[name] = self.arrays[other]
            return f"{name} became {other}"
        if change == "delete":
            del self.arrays[name]
        else:
            self.arrays[name] = ARRAY_CHANGES[change](self.arrays[name], rng)
        return f"{name}: {change}"

    def _alter_entry(self, name: str, rng: np.random.Generator) -> str:
        array = self.arrays[name] = self.arrays[name].copy()
        if not array.size:
            return f"{name} is empty"
        where = tuple(rng.integers(n) for n in array.shape)
        pool = {"f": ODD_NUMBERS, "i": ODD_INTEGERS}.get(array.dtype.kind, ("", "x", " high"))
        value = pool[rng.integers(len(pool))]
        if array.dtype.kind == "i":
            info = np.iinfo(array.dtype)
            value = min(max(value, info.min), info.max)
        array[where] = value
        return f"{name}{[*map(int, where)]} = {value!r}"

    def _alter_attribute(self, rng: np.random.Generator) -> str:
        name = str(rng.choice(sorted(self.attributes)))
        value = self.attributes[name]
        if rng.random() < 0.1:
            del self.attributes[name]
            return f"{name} is gone"
        if isinstance(value, str) and rng.random() < 0.6:
            try:
                content = json.loads(value)
            except ValueError:
                content = value
            new: Any = json.dumps(alter_json(content, rng)[0])
        else:
            pool = (
                "",
                "text",
                "null",
                "[]",
                "{}",
                0,
                -1,
                7,
                0.5,
                2**40,
                *ODD_NUMBERS,
                np.arange(3),
            )
            new = pool[rng.integers(len(pool))]
        self.attributes[name] = new
        return f"{name} = {new!r}"


def alter_json(content: Any, rng: np.random.Generator) -> tuple[Any, str]:
    """The content with one change, of the whole or of one part, and a description of it."""
    content = copy.deepcopy(content)
    paths = list(list_leaves(content))
    if not paths or not isinstance(content, dict | list):
        return ODD_VALUES[rng.integers(len(ODD_VALUES))], "all of it"
    path = choose_leaf(paths, rng)
    path = path[: int(rng.integers(1, len(path) + 1))]
    owner = find_owner(content, path)
    change = int(rng.integers(6))
    if change == 0:
        del owner[path[-1]]
        return content, f"{path} is deleted"
    if change == 1 and isinstance(owner, list):
        owner.insert(int(path[-1]), copy.deepcopy(owner[path[-1]]))
        return content, f"{path} is repeated"
    if change == 2 and isinstance(owner, dict):
        owner["self"] = owner.pop(path[-1])
        return content, f"{path} is renamed to self"
    pool = ODD_VALUES if change < 5 else ODD_NUMBERS
    owner[path[-1]] = pool[rng.integers(len(pool))]
    return content, f"{path} = {owner[path[-1]]!r:.40}"


def build_model(number: int) -> ts.MDP:
    """A small model: with text and infeasible actions, with a horizon, with outcomes, ..."""
    rng, shape = np.random.default_rng(number), {"size": ["low", "mid", "high"], "x": range(2)}
    n, n_actions = 6, 3
    P = rng.dirichlet(np.ones(n), (n_actions, n))
    r = rng.normal(size=(n, n_actions))
    feasible = np.ones((n, n_actions), dtype=bool)
    feasible[1:4, 2] = False
    about: dict[str, Any] = {"grid": shape, "action_name": "order", "name": "small"}
    if number == 1:
        criterion: Any = ts.FiniteHorizon(3, 0.9, final=2.0)
        return ts.MDP.from_arrays(P, r, criterion, feasible=feasible, minimise=True, **about)
    if number == 2:
        return ts.MDP.from_arrays(P, rng.normal(size=(n_actions, n, n)), 0.9, **about)
    if number == 3:
        return ts.MDP.from_arrays(P, r, ts.Average(), feasible=feasible, **about)
    if number == 4:
        made = ts.MDP.from_arrays(P, r, 0.5, actions={"a": [1], "b": ["u", "v", "w"]}, **about)
        return made.with_start({"size": "low"}).with_observation_noise([0.5, 0.0])
    if number == 5:  # every action may end, in the last state
        P = 0.75 * P + 0.25 * np.eye(n)[-1]
        P[:, -1], r[-1] = np.eye(n)[-1], 0.0
        return ts.MDP.from_arrays(P, r, ts.Total(), feasible=feasible, minimise=True, **about)
    return ts.MDP.from_arrays(P, r, 0.9, feasible=feasible, **about)


N_MODELS = 6
KINDS = ("model", "solution", "rule", "policy", "certificate")


@dataclass(frozen=True, eq=False)
class SavedFiles:
    """Files of one model, as they were saved in ``folder``."""

    folder: Path
    solution: ts.Solution

    @staticmethod
    def save(folder: Path, mdp: ts.MDP) -> SavedFiles:
        files = SavedFiles(folder, ts.solve(mdp))
        rule = ts.compress(files.solution, 0.1, worst=True, relative=False)
        mdp.save(files.path("model"))
        files.solution.save(files.path("solution"))
        rule.save(files.path("rule"))
        files.solution.policy.save(files.path("policy"))
        ts.certify(files.solution, rule).save(files.path("certificate"))
        return files

    def path(self, kind: str) -> Path:
        return self.folder / f"{kind}.{'nc' if kind in ('model', 'solution') else 'json'}"

    def alter_and_load(self, kind: str, rng: np.random.Generator) -> tuple[str, str]:
        """What was changed in a file of this kind, and ``error``, ``loaded`` or a fault."""
        path = self.folder / f"altered{self.path(kind).suffix}"
        if path.suffix == ".nc":
            arrays = Arrays.read(self.path(kind))
            change = arrays.alter(rng)
            try:
                arrays.write(path)
            except (TypeError, ValueError, AttributeError, OverflowError):
                return change, "no file"  # can hold it
        else:
            content, change = alter_json(json.loads(self.path(kind).read_text()), rng)
            path.write_text(json.dumps(content))
        try:
            return change, getattr(self, f"_use_{kind}")(path)
        except TessellaError:
            return change, "error"
        except Exception as fault:
            return change, f"{type(fault).__name__}: {fault}"

    def _use_model(self, path: Path) -> str:
        status = self._run_checker(self.path("certificate"), path)
        mdp = ts.MDP.load(path)
        rows = mdp.to_pairs().transition
        sums = rows.sum(axis=1)
        is_sound = (
            np.isfinite(mdp.reward).all() and (rows.data >= 0).all() and (sums < 1 + 1e-6).all()
        )
        if not is_sound or (status == 0 and mdp.content_hash != self.solution.mdp.content_hash):
            return "an unsound model"
        try:
            solution = ts.solve(mdp)
        except (TessellaError, ts.NotConverged):
            return "loaded"
        return "loaded" if np.isfinite(solution.value).all() else "values that are not finite"

    def _use_solution(self, path: Path) -> str:
        solution = ts.Solution.load(path, self.solution.mdp)
        is_sound = (
            np.isfinite(solution.value).all() and solution.error_bound >= 0 and bool(str(solution))
        )
        is_sound = (
            is_sound
            and solution.decided.shape == solution.policy.table.shape == solution.value.shape
        )
        return "loaded" if is_sound else "an unsound solution"

    def _use_rule(self, path: Path) -> str:
        rule = ts.Rule.load(path)
        rule.explain()
        rule.export(self.folder / "altered.py")
        return self._compare_with_file(path, rule)

    def _use_policy(self, path: Path) -> str:
        return self._compare_with_file(path, ts.Policy.load(path))

    def _compare_with_file(self, path: Path, policy: ts.Policy) -> str:
        """Whether a policy says what its file says, when it is saved again."""
        copy = self.folder / "again.json"
        policy.save(copy)
        same_table = np.array_equal(type(policy).load(copy).table, policy.table)
        before, after = (json.loads(file.read_text()) for file in (path, copy))
        kept = {name: value for name, value in before.items() if name in after}
        return "loaded" if same_table and after == kept else "another policy than the file's"

    def _use_certificate(self, path: Path) -> str:
        self._run_checker(path, self.path("model"))
        certificate = ts.Certificate.load(path)
        certificate.summary()
        certificate.save(self.folder / "again.json")
        return "loaded"

    def _run_checker(self, certificate: Path, model: Path) -> int:
        with contextlib.redirect_stdout(io.StringIO()):
            return check.main([str(model), str(certificate)])


@cache
def save_honest_files(number: int) -> SavedFiles:
    """The files of one of the small models, in a folder that goes with the process."""
    folder = tempfile.TemporaryDirectory(prefix="hostile-")
    atexit.register(folder.cleanup)
    return SavedFiles.save(Path(folder.name), build_model(number))


def find_faults(seed: int, counts: dict[str, int] | None = None) -> list[str]:
    """One change in a file of every kind: what is neither an error of ours nor sound."""
    rng, files = np.random.default_rng(seed), save_honest_files(seed % N_MODELS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    messages = []
    for kind in KINDS:
        change, outcome = files.alter_and_load(kind, rng)
        if counts is not None:
            counts[f"{kind} {outcome}"] = counts.get(f"{kind} {outcome}", 0) + 1
        if outcome not in ("error", "loaded", "no file"):
            messages.append(f"{kind} of model {seed % N_MODELS}, {change}: {outcome}")
    growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return messages + ([f"memory grew by {growth:,} KiB"] if growth > MEMORY_GROWTH_MAX_KIB else [])


def share_one_text(path: Path, axis: str, labels: int, length: int) -> None:
    """Rewrite a model file so that all labels of an axis point at one text of this length."""
    arrays = Arrays.read(path)
    arrays.arrays[f"grid/{axis}"] = np.array(["short"] * labels)
    arrays.write(path)
    with netCDF4.Dataset(path, "a") as file:
        file["grid"][axis][0] = "@" * length
    content = bytearray(path.read_bytes())
    # References of 16 bytes that begin with a length: one to the long text, then to short ones.
    lengths = [struct.pack("<I", n) for n in (length, *[len("short")] * (labels - 1))]
    position = content.find(lengths[0])
    while any(
        content[position + 16 * i : position + 16 * i + 4] != n for i, n in enumerate(lengths)
    ):
        position = content.find(lengths[0], position + 1)
    content[position : position + 16 * labels] = content[position : position + 16] * labels
    path.write_bytes(content)
