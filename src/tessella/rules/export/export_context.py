"""What every export target shares: the rule in comparisons, the head of a file, safe names.

    Lookup  ->  splits along its axes, one after the other, with equal neighbours joined
    Split   ->  the same without the branches that no point between the axes' ends can take

The result consists of Leaf, Split, LabelSplit and Exceptions. A point off the grid was moved to
the ends of the axes before (or refused); a *place* of an axis is what is nearest to its value:
above the midpoint to the value below, up to and with the midpoint to the value above.

An axis or action may be called anything that its author liked: a keyword, a quote, a line break,
the end of a comment. Identifiers are mapped to safe ones, one to one; texts are escaped; what
stands in a comment is plain ASCII on one line.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from tessella.errors import FileError, counted, format_value
from tessella.grid import StateGrid
from tessella.mdp.actions import components, describe_action
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.rule_tree import (
    Exceptions,
    LabelSplit,
    Leaf,
    Lookup,
    Node,
    RuleTree,
    Split,
    children,
)
from tessella.rounding import round_up
from tessella.rules.loss_target import describe_loss_reference

Weights = tuple[tuple[str, float], ...]
OffGrid = Literal["clamp", "refuse"]
InputRows = Mapping[str, Sequence]  # axis name to (n,) values, as a user would give them
REFUSED_INDEX = -1  # the answer to input that is refused
UNKNOWN_ACTION_INDEX = -2  # an answer that is none of the actions
PLAIN_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class SumRange:
    """``low < sum of weight x coordinate <= high``; an end may be infinite."""

    weights: Weights
    low: float
    high: float


@dataclass(frozen=True)
class LabelSet:
    """A text axis has one of these labels."""

    axis: str
    labels: tuple[str, ...]


Condition = SumRange | LabelSet
Conditions = tuple[Condition, ...]


def to_rule_tree(policy: Policy) -> RuleTree:
    """The tree of a rule; of any other policy, its table as runs."""
    if isinstance(policy.rule, RuleTree):
        return policy.rule
    flat = policy.table.ravel()
    starts = np.concatenate([[0], np.flatnonzero(np.diff(flat)) + 1])
    runs = tuple(map(int, starts)), tuple(map(int, flat[starts]))
    return RuleTree(policy.grid, Lookup(policy.grid.axes, *runs), policy.size)


def to_comparisons(grid: StateGrid, node: Node) -> Node:
    """``node`` as Leaf, Split, LabelSplit and Exceptions."""
    if isinstance(node, Lookup):
        shape = [grid.shape[grid.axis(name)] for name in node.axes]
        lengths = np.diff([*node.starts, math.prod(shape)])
        return _split_table(grid, node.axes, np.repeat(node.actions, lengths), shape)
    if isinstance(node, Split):
        return _simplify_split(grid, node)
    if isinstance(node, LabelSplit):
        inside = to_comparisons(grid, node.inside)
        outside = to_comparisons(grid, node.outside)
        all_labels = set(map(str, grid.values[grid.axis(node.axis)]))
        if not node.labels:
            return outside
        if inside == outside or all_labels <= set(node.labels):
            return inside
        return LabelSplit(node.axis, node.labels, inside, outside)
    if isinstance(node, Exceptions):
        return Exceptions(node.places, node.actions, to_comparisons(grid, node.otherwise))
    return node


def _split_table(grid: StateGrid, axes: tuple[str, ...], table: NDArray, shape: list[int]) -> Node:
    """A table over ``axes`` as splits along the first of them, then the next."""
    if (table == table[0]).all():
        return Leaf(int(table[0]))
    rows = table.reshape(shape[0], -1)
    axis = grid.axis(axes[0])
    below = (axes[1:], shape[1:])
    if grid.values[axis].dtype.kind == "U":
        return _split_labels(grid, axes[0], rows, *below)
    numbers = grid.numbers[axis]
    order = np.argsort(numbers)
    rows = rows[order]
    numbers = numbers[order]
    changed = np.flatnonzero((rows[1:] != rows[:-1]).any(axis=1))
    branches = tuple(
        _split_table(grid, below[0], rows[first], below[1])
        for first in (0, *(changed + 1).tolist())
    )
    if not changed.size:
        return branches[0]
    cuts = tuple(midpoint(float(numbers[i]), float(numbers[i + 1])) for i in changed)
    return Split(((axes[0], 1.0),), cuts, branches)


def _split_labels(
    grid: StateGrid, name: str, rows: NDArray, axes: tuple[str, ...], shape: list[int]
) -> Node:
    """Labels with the same row together, one group after the other."""
    groups: dict[bytes, list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(row.tobytes(), []).append(i)
    *first, last = groups.values()
    node = _split_table(grid, axes, rows[last[0]], shape)
    for group in reversed(first):
        labels = tuple(str(grid.values[grid.axis(name)][i]) for i in group)
        node = LabelSplit(name, labels, _split_table(grid, axes, rows[group[0]], shape), node)
    return node


def _simplify_split(grid: StateGrid, node: Split) -> Node:
    """A split without branches that no point reaches, equal neighbours joined."""
    reachable = _list_reachable_branches(grid, node)
    branches = [to_comparisons(grid, node.branches[j]) for j in reachable]
    cuts = [node.cuts[j - 1] for j in reachable[1:]]
    distinct = [j for j in range(len(cuts)) if branches[j] != branches[j + 1]]
    if not distinct:
        return branches[-1]
    joined = tuple(branches[j] for j in (*distinct, -1))
    return Split(node.weights, tuple(cuts[j] for j in distinct), joined)


def _list_reachable_branches(grid: StateGrid, node: Split) -> list[int]:
    """Branches that some weighted sum between the ends of the axes leads to."""
    low = 0.0
    high = 0.0
    for name, weight in node.weights:
        ends = sorted(weight * x for x in axis_ends(grid, name))
        low += ends[0]
        high += ends[1]
    limits = pairwise([-math.inf, *node.cuts, math.inf])
    return [j for j, (a, b) in enumerate(limits) if a < b and a < high and b >= low]


def single_axis(weights: Weights) -> str | None:
    """The axis of a sum that is a coordinate and nothing else."""
    return weights[0][0] if len(weights) == 1 and weights[0][1] == 1.0 else None


def axis_ends(grid: StateGrid, name: str) -> tuple[float, float]:
    """The ends of an axis."""
    numbers = grid.numbers[grid.axis(name)]
    return float(numbers.min()), float(numbers.max())


def midpoint(low: float, high: float) -> float:
    """Halfway between two numbers, never as high as the higher."""
    middle = low / 2 + high / 2
    return middle if low <= middle < high else low


def is_text_axis(grid: StateGrid, name: str) -> bool:
    return grid.values[grid.axis(name)].dtype.kind == "U"


def list_finite_ends(condition: SumRange) -> list[tuple[str, float]]:
    """``(">", low)`` and ``("<=", high)``, without ends that are infinite."""
    ends = [(">", condition.low), ("<=", condition.high)]
    return [(test, end) for test, end in ends if math.isfinite(end)]


def nearest_cell(grid: StateGrid, index: tuple[Any, ...]) -> tuple[Condition, ...]:
    """What is nearest to one state of the grid."""
    return tuple(
        LabelSet(name, (str(value),))
        if is_text_axis(grid, name)
        else _nearest_range(grid, name, float(value))
        for name, value in zip(grid.axes, index, strict=True)
    )


def _nearest_range(grid: StateGrid, name: str, value: float) -> SumRange:
    numbers = np.sort(grid.numbers[grid.axis(name)]).tolist()
    index = int(np.argmin(np.abs(np.asarray(numbers) - value)))
    low = midpoint(numbers[index - 1], numbers[index]) if index else -math.inf
    high = midpoint(numbers[index], numbers[index + 1]) if index + 1 < len(numbers) else math.inf
    return SumRange(((name, 1.0),), low, high)


def iterate_branches(node: Split) -> Iterator[tuple[SumRange, Node]]:
    """The branches of a split, each with its condition."""
    ends = pairwise([-math.inf, *node.cuts, math.inf])
    for (low, high), branch in zip(ends, node.branches, strict=True):
        yield SumRange(node.weights, low, high), branch


@dataclass(frozen=True)
class BranchTest:
    """``if sum <test> cut``, do ``node`` and be done; without a test, do it in any case."""

    test: str  # "<=", ">" or ""
    cut: float
    node: Node


def list_branch_tests(node: Split) -> list[BranchTest]:
    """A split as steps one after the other: the largest branch last, so that nothing nests deeply.

    Nested within one another, only branches with at most half of the leaves go one level down.
    """
    sizes = [count_leaves(branch) for branch in node.branches]
    last = max(range(len(sizes)), key=lambda j: (sizes[j], j))
    below = [BranchTest("<=", node.cuts[j], node.branches[j]) for j in range(last)]
    above = [
        BranchTest(">", node.cuts[j - 1], node.branches[j]) for j in range(len(sizes) - 1, last, -1)
    ]
    return [*below, *above, BranchTest("", 0.0, node.branches[last])]


def count_leaves(node: Node) -> int:
    """How many times a tree of comparisons names an action."""
    if isinstance(node, Exceptions):
        return len(node.places) + count_leaves(node.otherwise)
    return sum(map(count_leaves, children(node))) or 1


@dataclass(frozen=True)
class Clause:
    """An action, and the conditions under which it is taken, if no clause before it applied."""

    conditions: tuple[Condition, ...]
    action: int


def iterate_clauses(
    grid: StateGrid, node: Node, stated: Conditions = (), implied: Conditions = ()
) -> Iterator[Clause]:
    """Every path through a tree of comparisons, in order: the first that applies holds.

    ``stated`` are the conditions so far that earlier paths do not imply, ``implied`` are all.
    """
    if not all(map(is_possible, implied)):
        return
    if isinstance(node, Leaf):
        yield Clause(stated, node.action)
    elif isinstance(node, Split):
        for condition, branch in iterate_branches(node):
            # Lower values took an earlier path.
            upper = SumRange(condition.weights, -math.inf, condition.high)
            yield from iterate_clauses(
                grid, branch, add_condition(stated, upper), add_condition(implied, condition)
            )
    elif isinstance(node, LabelSplit):
        inside = LabelSet(node.axis, node.labels)
        others = set(grid.values[grid.axis(node.axis)])
        outside = LabelSet(node.axis, tuple(sorted(map(str, others - set(node.labels)))))
        yield from iterate_clauses(
            grid, node.inside, add_condition(stated, inside), add_condition(implied, inside)
        )
        yield from iterate_clauses(grid, node.outside, stated, add_condition(implied, outside))
    elif isinstance(node, Exceptions):
        for state, action in zip(node.places, node.actions, strict=True):
            state_cell = nearest_cell(grid, state)
            yield from iterate_clauses(
                grid,
                Leaf(action),
                reduce(add_condition, state_cell, stated),
                reduce(add_condition, state_cell, implied),
            )
        yield from iterate_clauses(grid, node.otherwise, stated, implied)


def is_possible(condition: Condition) -> bool:
    """Whether a condition can hold, for some coordinates."""
    if isinstance(condition, LabelSet):
        return bool(condition.labels)
    return condition.low < condition.high


def add_condition(path: tuple, new: Condition) -> tuple:
    """``path`` with one more condition, joined with that on the same sum or axis."""
    if isinstance(new, SumRange) and not list_finite_ends(new):
        return path
    kept = []
    for old in path:
        joined = _intersect(old, new)
        if joined is None:
            kept.append(old)
        else:
            new = joined
    return (*kept, new)


def _intersect(old: object, new: Condition) -> Condition | None:
    """Both conditions as one; None if they are about different things."""
    if isinstance(old, SumRange) and isinstance(new, SumRange) and old.weights == new.weights:
        return SumRange(new.weights, max(old.low, new.low), min(old.high, new.high))
    if isinstance(old, LabelSet) and isinstance(new, LabelSet) and old.axis == new.axis:
        return LabelSet(new.axis, tuple(label for label in new.labels if label in old.labels))
    return None


def make_identifiers(
    names: Sequence[str], reserved: Iterable[str] = (), subject: str = "axis"
) -> dict[str, str]:
    """Each name to an ASCII identifier, all different, none ``reserved``, whatever the case."""
    used = {word.lower() for word in reserved}
    result = {}
    for position, name in enumerate(names, 1):
        safe = name if PLAIN_IDENTIFIER.fullmatch(name) else f"{subject}{position}"
        while safe.lower() in used:
            safe += "_"
        used.add(safe.lower())
        result[name] = safe
    return result


def derive_identifier(stem: str, reserved: Iterable[str] = ()) -> str:
    """An ASCII identifier for a file's stem, another one for another stem of the usual kind.

    ``rule-a`` becomes ``rule_a``, and what is neither letter, digit, nor one of "_-. " its code.
    """
    safe = "".join(c if c.isascii() and c.isalnum() else _spell_character(c) for c in stem)
    safe = safe if safe[:1].isalpha() else f"rule_{safe}".rstrip("_")
    used = {word.lower() for word in reserved}
    while safe.lower() in used:
        safe += "_"
    return safe


def _spell_character(character: str) -> str:
    return "_" if character in "_-. " else f"u{ord(character):x}"


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
    """``text`` as it is, refused where it holds a NUL, which ends a text in ``language``."""
    if "\0" in text:
        raise FileError(f"a text in {language} cannot hold a NUL", value=f"got {text!r}")
    return text


OFF_GRID_TEXTS = {
    "clamp": "a number beyond the ends of its axis counts as the end",
    "refuse": "a number that is not one of its axis' values is refused",
}
INVALID_INPUT_TEXT = "what is no number, NaN included, and an unknown label are refused"


@dataclass(frozen=True, eq=False)
class ExportContext:
    """A policy on its way into a file.

    Attributes:
        stem: the name of the file without its suffix: what a function in it is called.
        off_grid: what becomes of input off the grid.
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
        """What an action consists of: a name, and the value for each action index."""
        names = components(self.policy.actions)
        actions = self.policy.actions
        if not names:
            return {self.policy.action_name: tuple(actions)}
        return {name: tuple(action[name] for action in actions) for name in names}

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
        known = {key: i for i, key in enumerate(zip(*self.action_columns.values(), strict=True))}
        found = []
        for answer in answers:
            index = known.get(tuple(answer), UNKNOWN_ACTION_INDEX)
            found.append(REFUSED_INDEX if None in answer else index)
        return np.array(found, dtype=np.int64)

    @cached_property
    def header_lines(self) -> tuple[str, ...]:
        """What the head of a file says, line by line."""
        actions = [
            f"action {i}: {self.describe_action(i)}" for i in range(len(self.policy.actions))
        ]
        off_grid = f"off the grid: {OFF_GRID_TEXTS[self.off_grid]}; {INVALID_INPUT_TEXT}"
        return (*self._fact_lines(), *self._axis_lines(), *actions, off_grid)

    @property
    def facts(self) -> dict[str, Any]:
        """What is known of a rule; of another policy, its model at most."""
        known = getattr(self.policy, "facts", {})
        if known or self.model is None:
            return known
        return {"model": self.model.name, "fingerprint": self.model.fingerprint}

    def _fact_lines(self) -> list[str]:
        facts = self.facts
        policy = self.policy
        name = policy.name or "policy"
        lines = [f"{name}: {counted(policy.size, 'number')}, written by tessella"]
        if facts:
            lines += [f"model: {facts.get('model') or 'not named'}"]
            lines += [f"fingerprint: {facts.get('fingerprint')}"]
        if "mean_loss" in facts:
            in_costs = facts.get("stated_in") == "costs"
            share = facts.get("relative_loss")
            reference = describe_loss_reference(in_costs)
            relative = "" if share is None else f" ({round_up(share, 6)} of {reference})"
            lines += [f"promise: {getattr(policy, 'loss_target', '')}"]
            status = "certified" if facts.get("certified", True) else "proven"
            noun = "extra cost" if in_costs else "loss"
            lines += [f"{status} mean {noun}: at most {facts.get('mean_loss')!r}{relative}"]
            lines += [f"{status} {noun} from the worst state: at most {facts.get('worst_loss')!r}"]
        return lines

    def _axis_lines(self) -> list[str]:
        lines = []
        for name, values in zip(self.grid.axes, self.grid.values, strict=True):
            if is_text_axis(self.grid, name):
                lines.append(f"axis {name}: one of {', '.join(map(repr, map(str, values)))}")
            else:
                low, high = map(format_value, axis_ends(self.grid, name))
                lines.append(f"axis {name}: {len(values):,} values from {low} to {high}")
        return lines


class ToolMissing(RuntimeError):  # noqa: N818 (it says what is the matter)
    """What would run a file is not installed; the message says what."""


class ExportTarget(ABC):
    """A language or format, by the ending of its files."""

    name: ClassVar[str]
    suffix: ClassVar[str]
    is_data: ClassVar[bool] = False  # whether it leaves input off the grid to its readers

    def require_packages(self) -> None:  # noqa: B027 (most need nothing)
        """Refuse where a package that writes it is missing."""

    @abstractmethod
    def write(self, context: ExportContext) -> bytes:
        """The content of the file."""

    @abstractmethod
    def run(self, content: bytes, context: ExportContext, rows: InputRows) -> NDArray[np.int64]:
        """(n,) action indices that the file gives for rows, -1 where it refuses.

        Raises ``ToolMissing`` where what would run it is not installed.
        """

    def extra_files(self, context: ExportContext) -> dict[str, bytes]:
        """Other files that belong to it, by what follows its stem."""
        return {}
