"""What every export format shares: the policy, the head of a file, safe names and texts.

An axis or action may be called anything that its author liked: a keyword, a quote, a line break,
the end of a comment. Identifiers are mapped to safe ones, one to one; texts are escaped; a comment
is plain ASCII on one line.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tessella.errors import FileError, counted, format_value
from tessella.mdp.actions import component_names, describe_action
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.rule_tree import Node, is_text_axis
from tessella.rounding import round_up
from tessella.rules.comparisons import get_axis_ends, to_comparisons, to_rule_tree
from tessella.rules.loss_target import describe_loss_reference

OffGrid = Literal["clamp", "refuse"]
InputRows = Mapping[str, Sequence]  # axis name to (n,) values, as a user would give them
REFUSED_INDEX = -1  # the answer to input that is rejected
UNKNOWN_ACTION_INDEX = -2  # an answer that is none of the actions
PLAIN_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def make_identifiers(
    names: Sequence[str], reserved: Iterable[str] = (), subject: str = "axis"
) -> dict[str, str]:
    """Each name to an ASCII identifier, all different, none ``reserved``, whatever the case."""
    used = {word.casefold() for word in reserved}
    result = {}
    for position, name in enumerate(names, 1):
        safe = name if PLAIN_IDENTIFIER.fullmatch(name) else f"{subject}{position}"
        result[name] = make_unique(safe, used)
    return result


def make_unique(name: str, used: set[str]) -> str:
    """``name`` with "_" added until it differs from all ``used``, whatever the case."""
    while name.casefold() in used:
        name += "_"
    used.add(name.casefold())
    return name


def derive_identifier(stem: str, reserved: Iterable[str] = ()) -> str:
    """An ASCII identifier for a file's stem, another one for another stem of the usual kind.

    ``rule-a`` becomes ``rule_a``, and what is neither letter, digit, nor one of "_-. " its code.
    """
    words = re.sub(r"[_\-. ]", "_", stem)
    safe = re.sub(r"[^A-Za-z0-9_]", lambda found: f"u{ord(found.group()):x}", words)
    safe = safe if safe[:1].isalpha() else f"rule_{safe}".rstrip("_")
    return make_unique(safe, {word.casefold() for word in reserved})


def to_comment_text(text: object) -> str:
    """``text`` in printable ASCII on one line, with nothing that ends or begins a comment."""
    line = ascii(str(text))[1:-1]
    for mark in ("*/", "/*", "??", "--"):
        while mark in line:
            line = line.replace(mark, f"{mark[0]} {mark[1]}")
    return line


def format_number(value: float) -> str:
    """A number as C, Python and SQL read it."""
    if float(value) != value:
        raise FileError("a number must be exact as a double", value=f"got {value!r}")
    return repr(float(value))


def require_no_nul(text: str, language: str) -> str:
    """``text`` as it is, rejected where it holds a NUL, which ends a text in ``language``."""
    if "\0" in text:
        raise FileError(f"a text in {language} cannot hold a NUL", value=f"got {text!r}")
    return text


OFF_GRID_TEXTS = {
    "clamp": "a number beyond the ends of its axis counts as the end",
    "refuse": "a number that is not a value of its axis is rejected",
}
INVALID_INPUT_TEXT = "NaN, unknown labels and what is not a number are rejected"


def list_action_columns(actions: tuple, action_name: str) -> dict[str, tuple]:
    """What an action consists of: a name, and the value for each action index."""
    names = component_names(actions)
    if not names:
        return {action_name: tuple(actions)}
    return {name: tuple(action[name] for action in actions) for name in names}


@dataclass(frozen=True, eq=False)
class ExportContext:
    """A policy to be exported, and how.

    Attributes:
        stem: the name of the file without its suffix: what a function in it is called.
        off_grid: how input off the grid is treated.
        model: that it decides for, where it is known; a rule knows its own.
    """

    policy: Policy
    stem: str = "rule"
    off_grid: OffGrid = "clamp"
    model: MDP | None = None

    @property
    def grid(self):
        return self.policy.grid

    @cached_property
    def root(self) -> Node:
        """What to do, as Leaf, Split, LabelSplit and Exceptions."""
        return to_comparisons(self.grid, to_rule_tree(self.policy).root)

    @cached_property
    def action_columns(self) -> dict[str, tuple]:
        return list_action_columns(self.policy.actions, self.policy.action_name)

    def describe_action(self, action: int) -> str:
        """``order=8``."""
        return describe_action(self.policy.action_name, self.policy.actions[action])

    def axis_labels(self, axis: str) -> tuple[str, ...]:
        """The labels of a text axis."""
        return tuple(map(str, self.grid.values[self.grid.axis(axis)]))

    def axis_values(self, axis: str) -> list[float]:
        """The values of an axis of numbers, ascending."""
        return np.sort(self.grid.numbers[self.grid.axis(axis)]).tolist()

    def find_actions(self, answers: Sequence[Sequence]) -> NDArray[np.int64]:
        """(n,) action indices of answers that give the value of each column."""
        index_of = {key: i for i, key in enumerate(zip(*self.action_columns.values(), strict=True))}
        indices = []
        for answer in answers:
            index = index_of.get(tuple(answer), UNKNOWN_ACTION_INDEX)
            indices.append(REFUSED_INDEX if None in answer else index)
        return np.array(indices, dtype=np.int64)

    @cached_property
    def header_lines(self) -> tuple[str, ...]:
        """The head of a file, line by line."""
        lines = self._list_fact_lines()
        for name, values in zip(self.grid.axes, self.grid.values, strict=True):
            if is_text_axis(self.grid, name):
                lines.append(f"axis {name}: one of {', '.join(map(repr, map(str, values)))}")
            else:
                low, high = map(format_value, get_axis_ends(self.grid, name))
                lines.append(f"axis {name}: {len(values):,} values from {low} to {high}")
        for action in range(len(self.policy.actions)):
            lines.append(f"action {action}: {self.describe_action(action)}")
        off_grid = f"off the grid: {OFF_GRID_TEXTS[self.off_grid]}; {INVALID_INPUT_TEXT}"
        return (*lines, off_grid)

    @property
    def facts(self) -> dict[str, Any]:
        """What is known of a rule; of another policy, its model at most."""
        facts = getattr(self.policy, "facts", {})
        if facts or self.model is None:
            return facts
        return {"model": self.model.name, "fingerprint": self.model.fingerprint}

    def _list_fact_lines(self) -> list[str]:
        facts = self.facts
        policy = self.policy
        name = policy.name or "policy"
        lines = [f"{name}: {counted(policy.size, 'parameter')}, written by tessella"]
        if facts:
            lines += [f"model: {facts.get('model') or 'not named'}"]
            lines += [f"fingerprint: {facts.get('fingerprint')}"]
        if "mean_loss" in facts:
            in_costs = facts.get("stated_in") == "costs"
            share = facts.get("relative_loss")
            reference = describe_loss_reference(in_costs)
            if "constraints" in facts:
                reference = "the bound with these constraints"
            relative = "" if share is None else f" ({round_up(share, 6)} of {reference})"
            lines += [f"loss limit: {getattr(policy, 'loss_target', '')}"]
            status = "certified" if facts.get("certified", True) else "proven"
            noun = "extra cost" if in_costs else "loss"
            lines += [f"{status} mean {noun}: at most {facts.get('mean_loss')!r}{relative}"]
            if "constraints" in facts:
                return [*lines, f"{status}: {facts['constraints']}"]
            lines += [f"{status} {noun} from the worst state: at most {facts.get('worst_loss')!r}"]
        return lines


class ToolMissing(RuntimeError):  # noqa: N818 (its name states the reason)
    """What would run a file is not installed; the message says what."""


class ExportFormat(ABC):
    """A language or format, by the ending of its files."""

    name: ClassVar[str]
    suffix: ClassVar[str]
    is_data: ClassVar[bool] = False  # whether it leaves input off the grid to its readers

    def require_packages(self) -> None:  # noqa: B027 (most need nothing)
        """Reject where a package that writes it is missing."""

    @abstractmethod
    def write(self, context: ExportContext) -> bytes:
        """The content of the file."""

    @abstractmethod
    def run(self, content: bytes, context: ExportContext, rows: InputRows) -> NDArray[np.int64]:
        """(n,) action indices that the file gives for rows, -1 where it rejects a row.

        Raises ``ToolMissing`` where what would run it is not installed.
        """

    def extra_files(self, context: ExportContext) -> dict[str, bytes]:
        """Other files that belong to it, by what follows its stem."""
        return {}
