"""Files that somebody has altered, with every hash in them made anew.

    faults(seed) -> what is neither an error of ours nor sound, after a change in every kind of file

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
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np

import tessella as ts
from support.alterations import leaves
from tessella.checker import check
from tessella.errors import TessellaError
from tessella.mdp.netcdf import (
    create_dataset,
    open_dataset,
    read_attributes,
    read_variables,
    write_variables,
)

MOST_MEMORY = 256 << 10  # KiB that five small files may take
ODD = (None, True, "text", "", "\x00", [], [1], {}, {"a": 1}, 0, -1, 0.5, 7, 2**40, 2**70, 10**400)
NUMBERS = (math.nan, math.inf, -math.inf, -1.0, 0.0, 0.5, 3.0, 1e300, -1e-9, 1e-320)
WHOLE = (-1, 0, 1, 2, 7, 2**31, -(2**63), 2**63 - 1)


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

    def altered(self, rng: np.random.Generator) -> str:
        """Change one part, and say which."""
        if rng.random() < 0.35:
            return self._altered_attribute(rng)
        name = str(rng.choice(sorted(self.arrays)))
        array = self.arrays[name]
        how = int(rng.integers(8))
        if how == 0:
            del self.arrays[name]
        elif how == 1:
            numbers = (
                np.arange(array.size).reshape(array.shape) if array.dtype.kind == "U" else array
            )
            with np.errstate(all="ignore"):
                self.arrays[name] = numbers.astype(rng.choice(["float64", "int64", "int8", "str"]))
        elif how == 2:
            self.arrays[name] = array.reshape(-1)[:-1] if rng.random() < 0.5 else array[None]
        elif how == 3:
            self.arrays[name] = np.concatenate([array, array])
        elif how == 4 and array.size > 1:
            self.arrays[name] = rng.permutation(array.ravel()).reshape(array.shape)
        elif how == 5:
            other = str(rng.choice(sorted(self.arrays)))
            self.arrays[name] = self.arrays[other]
            return f"{name} became {other}"
        elif array.size:
            array = self.arrays[name] = array.copy()
            where = tuple(rng.integers(n) for n in array.shape)
            pool = {"f": NUMBERS, "i": WHOLE}.get(array.dtype.kind, ("", "x", " high"))
            value = pool[rng.integers(len(pool))]
            if array.dtype.kind == "i":
                info = np.iinfo(array.dtype)
                value = min(max(value, info.min), info.max)
            array[where] = value
            return f"{name}{[*map(int, where)]} = {value!r}"
        return f"{name}, way {how}"

    def _altered_attribute(self, rng: np.random.Generator) -> str:
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
            new: Any = json.dumps(altered_json(content, rng)[0])
        else:
            pool = ("", "text", "null", "[]", "{}", 0, -1, 7, 0.5, 2**40, *NUMBERS, np.arange(3))
            new = pool[rng.integers(len(pool))]
        self.attributes[name] = new
        return f"{name} = {new!r}"


def altered_json(content: Any, rng: np.random.Generator) -> tuple[Any, str]:
    """The content with one part changed, of the whole or of a leaf, and which."""
    content = copy.deepcopy(content)
    paths = list(leaves(content))
    if not paths or not isinstance(content, dict | list):
        return ODD[rng.integers(len(ODD))], "all of it"
    # Each field as often as any other, however many numbers it holds.
    by_field: dict[tuple, list[tuple]] = {}
    for path in paths:
        by_field.setdefault(tuple(n for n in path if isinstance(n, str)), []).append(path)
    field = list(by_field)[rng.integers(len(by_field))]
    path = by_field[field][rng.integers(len(by_field[field]))]
    path = path[: int(rng.integers(1, len(path) + 1))]
    owner: Any = content
    for name in path[:-1]:
        owner = owner[name]
    how = int(rng.integers(6))
    if how == 0:
        del owner[path[-1]]
        return content, f"{path} is gone"
    if how == 1 and isinstance(owner, list):
        owner.insert(int(path[-1]), copy.deepcopy(owner[path[-1]]))
        return content, f"{path} stands twice"
    if how == 2 and isinstance(owner, dict):
        owner["self"] = owner.pop(path[-1])
        return content, f"{path} is called self"
    owner[path[-1]] = ODD[rng.integers(len(ODD))] if how < 5 else NUMBERS[rng.integers(10)]
    return content, f"{path} = {owner[path[-1]]!r:.40}"


def model(number: int) -> ts.MDP:
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


MODELS = 6
KINDS = ("model", "solution", "rule", "policy", "certificate")


@dataclass(frozen=True, eq=False)
class Honest:
    """Files of one model, as they were saved in ``folder``."""

    folder: Path
    solution: ts.Solution

    @staticmethod
    def saved(folder: Path, mdp: ts.MDP) -> Honest:
        honest = Honest(folder, ts.solve(mdp))
        some = ts.compress(honest.solution, 0.1, worst=True, relative=False)
        mdp.save(honest.path("model"))
        honest.solution.save(honest.path("solution"))
        some.save(honest.path("rule"))
        honest.solution.policy.save(honest.path("policy"))
        ts.certify(honest.solution, some).save(honest.path("certificate"))
        return honest

    def path(self, kind: str) -> Path:
        return self.folder / f"{kind}.{'nc' if kind in ('model', 'solution') else 'json'}"

    def damaged(self, kind: str, rng: np.random.Generator) -> tuple[str, str]:
        """What was changed in a file of this kind, and ``error``, ``loaded`` or a fault."""
        path = self.folder / f"altered{self.path(kind).suffix}"
        if path.suffix == ".nc":
            arrays = Arrays.read(self.path(kind))
            what = arrays.altered(rng)
            try:
                arrays.write(path)
            except (TypeError, ValueError, AttributeError, OverflowError):
                return what, "no file"  # can hold it
        else:
            content, what = altered_json(json.loads(self.path(kind).read_text()), rng)
            path.write_text(json.dumps(content))
        try:
            return what, getattr(self, f"_use_{kind}")(path)
        except TessellaError:
            return what, "error"
        except Exception as fault:
            return what, f"{type(fault).__name__}: {fault}"

    def _use_model(self, path: Path) -> str:
        status = self._checked(self.path("certificate"), path)
        mdp = ts.MDP.load(path)
        rows = mdp.to_pairs().transition
        sums = rows.sum(axis=1)
        fine = np.isfinite(mdp.reward).all() and (rows.data >= 0).all() and (sums < 1 + 1e-6).all()
        if not fine or (status == 0 and mdp.content != self.solution.mdp.content):
            return "an unsound model"
        try:
            found = ts.solve(mdp)
        except (TessellaError, ts.NotConverged):
            return "loaded"
        return "loaded" if np.isfinite(found.value).all() else "values that are not finite"

    def _use_solution(self, path: Path) -> str:
        found = ts.Solution.load(path, self.solution.mdp)
        fine = np.isfinite(found.value).all() and found.error_bound >= 0 and bool(str(found))
        fine = fine and found.decided.shape == found.policy.table.shape == found.value.shape
        return "loaded" if fine else "an unsound solution"

    def _use_rule(self, path: Path) -> str:
        rule = ts.Rule.load(path)
        rule.explain()
        rule.export(self.folder / "altered.py")
        return self._faithful(path, rule)

    def _use_policy(self, path: Path) -> str:
        return self._faithful(path, ts.Policy.load(path))

    def _faithful(self, path: Path, policy: ts.Policy) -> str:
        """Whether a policy says what its file says, when it is saved again."""
        again = self.folder / "again.json"
        policy.save(again)
        same = np.array_equal(type(policy).load(again).table, policy.table)
        before, after = (json.loads(file.read_text()) for file in (path, again))
        known = {name: value for name, value in before.items() if name in after}
        return "loaded" if same and after == known else "another policy than the file's"

    def _use_certificate(self, path: Path) -> str:
        self._checked(path, self.path("model"))
        found = ts.Certificate.load(path)
        found.summary()
        found.save(self.folder / "again.json")
        return "loaded"

    def _checked(self, certificate: Path, model: Path) -> int:
        with contextlib.redirect_stdout(io.StringIO()):
            return check.main([str(model), str(certificate)])


@cache
def honest(number: int) -> Honest:
    """The files of one of the small models, in a folder that goes with the process."""
    folder = tempfile.TemporaryDirectory(prefix="hostile-")
    atexit.register(folder.cleanup)
    return Honest.saved(Path(folder.name), model(number))


def faults(seed: int, counts: dict[str, int] | None = None) -> list[str]:
    """One change in a file of every kind: what is neither an error of ours nor sound."""
    rng, files = np.random.default_rng(seed), honest(seed % MODELS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = []
    for kind in KINDS:
        what, became = files.damaged(kind, rng)
        if counts is not None:
            counts[f"{kind} {became}"] = counts.get(f"{kind} {became}", 0) + 1
        if became not in ("error", "loaded", "no file"):
            found.append(f"{kind} of model {seed % MODELS}, {what}: {became}")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return found + ([f"memory grew by {grown:,} KiB"] if grown > MOST_MEMORY else [])


def one_text_for_all(path: Path, axis: str, labels: int, length: int) -> None:
    """Rewrite a model file so that all labels of an axis point at one text of this length."""
    held = Arrays.read(path)
    held.arrays[f"grid/{axis}"] = np.array(["short"] * labels)
    held.write(path)
    with netCDF4.Dataset(path, "a") as file:
        file["grid"][axis][0] = "@" * length
    raw = bytearray(path.read_bytes())
    # References of 16 bytes that begin with a length: one to the long text, then to short ones.
    lengths = [struct.pack("<I", n) for n in (length, *[len("short")] * (labels - 1))]
    at = raw.find(lengths[0])
    while any(raw[at + 16 * i : at + 16 * i + 4] != n for i, n in enumerate(lengths)):
        at = raw.find(lengths[0], at + 1)
    raw[at : at + 16 * labels] = raw[at : at + 16] * labels
    path.write_bytes(raw)
