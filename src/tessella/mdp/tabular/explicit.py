"""Models that other tools list state by state, and Storm's text format for them, DRN.

Variables become axes, and only the states that occur exist; without variables the axis is the
index of a state. States that initial ones do not lead to are left out. A state's reward is added
to that of each of its choices. Labels and further rewards become counts, which measures read.
"""

from __future__ import annotations

import gzip
import io
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tessella.errors import ArgumentError, FileError, raise_for_first
from tessella.files import TEXT_MAX_BYTES, read_file_bytes, wrap_read_errors
from tessella.grid import RESERVED_NAMES, StateGrid
from tessella.mdp.checks import ROW_SUM_TOLERANCE
from tessella.mdp.dynamics import ModelParts
from tessella.mdp.measures import OBJECTIVES
from tessella.mdp.tabular.arrays import from_pairs
from tessella.support.sense import sense_of

PRINTED_SUM_TOLERANCE = 1e-6  # rows of printed probabilities within this of 1 are scaled to it
GZIP_SIGNATURE = b"\x1f\x8b"
NO_LABELS = ("", "__NOLABEL__")  # the names in files of actions without a name
INITIAL_LABEL = "init"
DRN_SUBJECT = "a DRN model"
STATE_LINE = re.compile(r"state (\d+)(?: \[([^]]*)\])?((?: [^\s\[{!]\S*)*)")
ACTION_LINE = re.compile(r"action (.+?)(?: \[([^]]*)\])?")
SIZE_NOUNS = {"@nr_states": "states", "@nr_choices": "choices"}  # headers of numbers
Amounts = Mapping[str, NDArray[np.float64]]  # what is counted, by name


@dataclass(frozen=True, eq=False)
class ExplicitModel:
    """A model of n states and L choices (actions in a state), as a file lists them."""

    variables: dict[str, NDArray]  # (n,) values by name; nan where a state has none
    labels: dict[str, NDArray[np.bool_]]  # (n,) by name
    initial: NDArray[np.bool_]  # (n,)
    states: NDArray[np.int64]  # (L,) the state of each choice
    actions: NDArray[np.str_]  # (L,) names
    rows: sp.csr_array  # (L, n) probabilities
    rewards: dict[str, NDArray[np.float64]]  # (L,) expected rewards by name

    def select_choices(self, kept: NDArray) -> ExplicitModel:
        rewards = {name: paid[kept] for name, paid in self.rewards.items()}
        parts = {"states": self.states[kept], "actions": self.actions[kept]}
        return replace(self, rows=self.rows[kept], rewards=rewards, **parts)

    def drop_actions(self, names: Collection[str]) -> ExplicitModel:
        unknown = {*names} - {*self.actions.tolist()}
        if unknown:
            requirement = "actions that are left out must occur"
            raise ArgumentError(requirement, value=f"{min(unknown)!r} does not")
        return self.select_choices(~np.isin(self.actions, [*names]))

    @property
    def available_labels(self) -> str:
        return f"the labels are {', '.join(self.labels) or 'none'}"

    def end_in(self, label: str) -> ExplicitModel:
        """The model in which states with this label are absorbing; nothing is paid or counted."""
        if label not in self.labels:
            is_reward = label in self.rewards
            hint = "; a reward is called so, as which to_umb writes labels" if is_reward else ""
            raise ArgumentError(f"no label is called {label!r}", value=self.available_labels + hint)
        is_end = self.labels[label][self.states]
        rows = sp.lil_array(self.rows)
        rows[is_end] = 0.0
        rows[is_end, self.states[is_end]] = 1.0
        rewards = {name: np.where(is_end, 0.0, paid) for name, paid in self.rewards.items()}
        labels = {name: mask & ~self.labels[label] for name, mask in self.labels.items()}
        return replace(self, rows=sp.csr_array(rows), rewards=rewards, labels=labels)

    def find_reachable(self) -> NDArray[np.int64]:
        """The states that the initial ones lead to; all, where none is initial."""
        choice, target = self.rows.nonzero()
        reached = self.initial | (not self.initial.any())
        n_reached = 0
        while n_reached < reached.sum():
            n_reached = reached.sum()
            reached[target[reached[self.states[choice]]]] = True
        return np.flatnonzero(reached)

    def build(self, reward: str | None, minimise: bool) -> tuple[ModelParts, Amounts]:
        """The parts of a model that pays ``reward``, and its counts (S, A)."""
        grid, kept = self._build_grid()
        new_index = np.full(len(self.initial), -1)
        new_index[kept] = np.arange(len(kept))
        model = self.select_choices(new_index[self.states] >= 0)
        states = new_index[model.states]
        names, choices = _name_actions(states, model.actions)
        action_name = "choice" if "action" in grid.axes else "action"
        rows = _scale_rows(sp.csr_array(model.rows[:, kept]))
        paid = model.find_reward(reward)
        sense = sense_of(minimise)
        parts = from_pairs(states, choices, rows, paid, grid, names, action_name, sense)
        counts = {}
        for name, amount in model.list_amounts().items():
            counts[name] = np.zeros((grid.size, len(names)))
            counts[name][states, choices] = amount
        initial = self.initial[kept].astype(float)
        return replace(parts, start=initial / initial.sum() if initial.any() else None), counts

    def _build_grid(self) -> tuple[StateGrid, NDArray[np.int64]]:
        """The grid of the reachable states, and their indices in the order of the grid."""
        kept = self.find_reachable()
        hint = "with goal=LABEL (--set goal=LABEL) a process ends before it"
        for name, values in self.variables.items():
            raise_for_first(
                f"every state that is reached needs a value of {name}",
                np.isnan(values[kept]),
                lambda i: f"state {kept[i]}",
                lambda _: f"has none; {hint}; {self.available_labels}",
                "states",
                error=FileError,
            )
        columns = _name_axes({name: values[kept] for name, values in self.variables.items()})
        columns = columns or {"state": kept}
        order = np.lexsort([*columns.values()][::-1])
        grid = StateGrid.from_states({name: values[order] for name, values in columns.items()})
        is_product = grid.size == math.prod(grid.lengths)
        return grid.product if is_product else grid, kept[order]

    def list_amounts(self) -> Amounts:
        """(L,) amounts that can be counted, by name: labels and rewards."""
        labels = {name: mask[self.states].astype(float) for name, mask in self.labels.items()}
        amounts = {**labels, **self.rewards}
        return {n: a for n, a in amounts.items() if n.isidentifier() and n not in OBJECTIVES}

    def find_reward(self, name: str | None) -> NDArray[np.float64]:
        """(L,) the reward of this name; without one, that called reward or cost, or the first."""
        if not self.rewards:
            raise ArgumentError("the file needs rewards", value="it has none")
        if name is not None and name not in self.rewards:
            available = f"its rewards are {', '.join(self.rewards)}"
            raise ArgumentError(f"no reward is called {name!r}", value=available)
        preferred = [n for n in (*OBJECTIVES, *self.rewards) if n in self.rewards]
        return self.rewards[name or preferred[0]]


def _name_axes(variables: dict[str, NDArray]) -> dict[str, NDArray]:
    """The variables with several values, as integers where possible, under valid axis names."""
    columns = {}
    for name, values in variables.items():
        axis = re.sub(r"\W", "_", name)
        axis = axis if axis.isidentifier() else f"_{axis}"
        axis += "_" * (axis in (*RESERVED_NAMES, *columns))
        is_whole = values.dtype.kind == "f" and (values == np.rint(values)).all()
        if (values != values[0]).any():
            columns[axis] = values.astype(np.int64) if is_whole else values
    return columns


def _name_actions(states: NDArray, labels: NDArray) -> tuple[list, NDArray[np.int64]]:
    """The actions, as numbers if all their names are numbers, and the action of each choice.

    Choices of one state with the same name are numbered.
    """
    labels = np.where(np.isin(labels, NO_LABELS), "unlabelled", labels)
    count_of: Counter = Counter()
    names = []
    for pair in zip(states.tolist(), labels.tolist(), strict=True):
        count_of[pair] += 1
        names.append(pair[1] if count_of[pair] == 1 else f"{pair[1]} ({count_of[pair]})")
    if all(re.fullmatch(r"-?\d{1,18}", name) for name in names):
        numbers, choices = np.unique(np.array(names, dtype=np.int64), return_inverse=True)
        return numbers.tolist(), choices
    index = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return [*index], np.array([index[name] for name in names])


def _scale_rows(rows: sp.csr_array) -> sp.csr_array:
    """Rows scaled to sum to 1, if they miss it by no more than the rounding of printed numbers."""
    sums = rows.sum(axis=1)
    error = np.abs(sums - 1)
    is_printed = (error > ROW_SUM_TOLERANCE / 1000) & (error < PRINTED_SUM_TOLERANCE)
    return sp.csr_array(sp.diags_array(np.where(is_printed, 1 / np.where(sums, sums, 1), 1)) @ rows)


def read_drn(path: str | Path) -> ExplicitModel:
    """The model in a file of Storm's explicit format, plain or compressed by gzip."""
    with wrap_read_errors(path, DRN_SUBJECT):
        content = read_file_bytes(path, DRN_SUBJECT, TEXT_MAX_BYTES)
        if content.startswith(GZIP_SIGNATURE):
            with gzip.open(io.BytesIO(content)) as unpacked:
                content = unpacked.read(TEXT_MAX_BYTES + 1)
            if len(content) > TEXT_MAX_BYTES:
                raise FileError(f"it must have at most {TEXT_MAX_BYTES:,} bytes of text")
        reader = DrnReader()
        for number, line in enumerate(content.decode("utf-8").splitlines(), 1):
            try:
                reader.read_line(line.strip(), number)
            except ValueError as error:
                raise FileError(str(error), location=f"line {number}", value=line[:60]) from error
        return reader.finish()


@dataclass
class DrnReader:
    """The content of the lines that have been read."""

    header: str = ""  # the part that the next line belongs to, ``@model`` at the end
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)  # by header, and their lines
    rewards: list[str] = field(default_factory=list)
    values: list[dict[str, float]] = field(default_factory=list)  # of each state
    labels: list[list[str]] = field(default_factory=list)  # of each state
    state_rewards: list[list[float]] = field(default_factory=list)  # of each state
    states: list[int] = field(default_factory=list)  # of each choice
    actions: list[str] = field(default_factory=list)  # of each choice
    choice_rewards: list[list[float]] = field(default_factory=list)  # of each choice
    entries: list[tuple[int, int, float]] = field(default_factory=list)  # choice, target, chance

    def read_line(self, line: str, number: int) -> None:
        """Read one line; a ``ValueError`` says which rule it breaks."""
        if not line:
            return
        if line.startswith("@"):
            self.header, _, kind = line.partition(":")
            if self.header == "@type" and kind.strip() not in ("MDP", "DTMC"):
                raise ValueError("the type must be MDP or DTMC")
        elif self.header == "@model":
            self._read_model_line(line)
        elif self.header == "@reward_models":
            self.rewards += line.split()
        elif self.header in SIZE_NOUNS:
            if not line.isdecimal():
                raise ValueError(f"{self.header} must be a whole number")
            self.sizes[self.header] = int(line), number
        elif self.header == "@parameters":
            raise ValueError("a model with parameters has no numbers")

    def _read_model_line(self, line: str) -> None:
        target, _, chance = line.partition(" : ")
        if line.startswith("//"):
            self._read_values(line)
        elif target.isdecimal() and self.states[-1:] == [len(self.labels) - 1]:
            self.entries.append((len(self.states) - 1, int(target), _read_number(chance)))
        elif state := STATE_LINE.fullmatch(line):
            if int(state[1]) != len(self.labels):
                raise ValueError(f"state {len(self.labels)} comes next")
            self.state_rewards.append(self._read_rewards(state[2]))
            self.labels.append(state[3].split())
            self.values.append({})
        elif self.labels and (action := ACTION_LINE.fullmatch(line)):
            self.states.append(len(self.labels) - 1)
            self.actions.append(action[1])
            self.choice_rewards.append(self._read_rewards(action[2]))
        else:
            raise ValueError("a line must be a state, an action of it, or 'target : probability'")

    def _read_rewards(self, text: str | None) -> list[float]:
        numbers = [_read_number(part) for part in (text or "").split(",") if part.strip()]
        if not self.labels and not self.rewards and len(numbers) == 1:
            self.rewards = [""]  # a reward may have no name
        if len(numbers) not in (0, len(self.rewards)):
            raise ValueError(f"a line must have {len(self.rewards)} rewards, as @reward_models")
        return numbers or [0.0] * len(self.rewards)

    def _read_values(self, line: str) -> None:
        """The values of a state's variables, ``//[x=3 & !done]``; other comments are ignored."""
        if not (self.values and line.startswith("//[") and line.endswith("]")):
            return
        for part in map(str.strip, line[3:-1].split("&")):
            name, equals, value = part.partition("=")
            number = _read_number(value) if equals else float(not part.startswith("!"))
            self.values[-1][name.strip().lstrip("!")] = number

    def finish(self) -> ExplicitModel:
        n = len(self.labels)
        n_listed = {"@nr_states": n, "@nr_choices": len(self.states)}
        for header, (declared, line) in self.sizes.items():
            if declared != n_listed[header]:
                requirement = f"{header} must be the number of {SIZE_NOUNS[header]} that are listed"
                value = f"declares {declared:,}, but the file lists {n_listed[header]:,}"
                raise FileError(requirement, location=f"line {line}", value=value)
        columns = [np.array(column) for column in zip(*self.entries, strict=True)]
        if not columns or columns[1].max() >= n:
            raise FileError("it must list states, and transitions to them")
        choice, target, chance = columns
        states = np.array(self.states)
        rewards = np.array(self.choice_rewards) + np.array(self.state_rewards)[states]
        names = dict.fromkeys(chain.from_iterable(self.labels))
        labels = {name: np.array([name in given for given in self.labels]) for name in names}
        variables = dict.fromkeys(chain.from_iterable(self.values))
        return ExplicitModel(
            {name: np.array([v.get(name, np.nan) for v in self.values]) for name in variables},
            labels,
            labels.pop(INITIAL_LABEL, np.zeros(n, dtype=bool)),
            states,
            np.array(self.actions),
            sp.csr_array((chance, (choice, target)), shape=(len(states), n)),
            {name: rewards[:, i] for i, name in enumerate(self.rewards)},
        )


def _read_number(text: str) -> float:
    """A decimal number or a fraction."""
    try:
        numerator, _, denominator = text.partition("/")
        return float(numerator) / float(denominator or 1)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{text.strip()!r:.40} is not a number") from None
