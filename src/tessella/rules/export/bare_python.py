"""Python without imports: one function from the coordinates of a state to what to do.

    decide(stock, season) -> 8                  or {"fast": 3, "slow": 5}
    decide_index(stock, season) -> 2            its index in ACTIONS

What is refused raises ValueError.
"""

from __future__ import annotations

import builtins
import json
import keyword
import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import FileError
from tessella.mdp.actions import Combination, actions_to_json
from tessella.mdp.rule_tree import Exceptions, LabelSplit, Leaf, Node, Split
from tessella.rules.export.c99 import format_number
from tessella.rules.export.comparisons import (
    Condition,
    SumRange,
    axis_ends,
    is_text_axis,
    list_branch_tests,
    nearest_cell,
    single_axis,
)
from tessella.rules.export.export_context import UNKNOWN_ACTION_INDEX, ExportContext, InputRows
from tessella.rules.export.names import make_identifiers, to_comment_text
from tessella.rules.export.target import ExportTarget

GENERATED_NAMES = ("ACTIONS", "decide", "decide_index", "total")
RESERVED_NAMES = (*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *GENERATED_NAMES)

NUMBER_FUNCTION_LINES = (
    "def _number(axis, value):",
    "    try:",
    "        known = bool(value >= 0 or value < 0)",
    "    except Exception:",
    "        known = False",
    "    if not known:",
    '        raise ValueError("%s cannot be %r" % (axis, value))',
    "    return value",
)

RUNNER_SOURCE = """
import json, sys
content, rows = json.loads(sys.stdin.read())
names = {"__name__": "rule"}
exec(compile(content, "rule.py", "exec"), names)
def asked(row):
    try:
        return names["decide_index"](*row)
    except ValueError:
        return -1
print(json.dumps([names["ACTIONS"], [asked(row) for row in rows]]))
"""


class BarePython(ExportTarget):
    """A Python function."""

    name: ClassVar[str] = "Python"
    suffix: ClassVar[str] = ".py"

    def write(self, context: ExportContext) -> bytes:
        return ("\n".join(PythonSource(context).render_lines()) + "\n").encode("ascii")

    def run(self, content: bytes, context: ExportContext, rows: InputRows) -> NDArray[np.int64]:
        """Ask an interpreter of its own, without site packages or this package."""
        states = list(zip(*(rows[axis] for axis in context.grid.axes), strict=True))
        inputs = json.dumps([content.decode("ascii"), states])
        command = [sys.executable, "-I", "-S", "-c", RUNNER_SOURCE]
        process = subprocess.run(command, input=inputs, capture_output=True, text=True)
        if process.returncode:
            raise FileError("the Python that was written must run", value=process.stderr[-500:])
        actions, answers = json.loads(process.stdout)
        has_same_actions = actions == json.loads(
            json.dumps(actions_to_json(context.policy.actions))
        )
        return (
            np.array(answers) if has_same_actions else np.full(len(answers), UNKNOWN_ACTION_INDEX)
        )


class PythonSource:
    """The text of one rule in Python."""

    def __init__(self, context: ExportContext) -> None:
        self.draft = context
        self.grid = context.grid
        self.axis_names = make_identifiers(self.grid.axes, RESERVED_NAMES)

    def render_lines(self) -> Iterator[str]:
        yield from (f"# {to_comment_text(line)}" for line in self.draft.header_lines)
        for name, safe in self.axis_names.items():
            if name != safe:
                yield f"# {safe} is the axis {to_comment_text(name)}"
        arguments = ", ".join(self.axis_names.values())
        yield from ("", "ACTIONS = (")
        for action in self.draft.policy.actions:
            literal = action.record if isinstance(action, Combination) else action
            yield f"    {literal!a},"
        yield from (")", "", "", f"def decide({arguments}):")
        yield f"    return ACTIONS[decide_index({arguments})]"
        yield from ("", "", *NUMBER_FUNCTION_LINES)
        yield from ("", "", f"def decide_index({arguments}):")
        yield from self._guard_lines()
        yield from self._node_lines(self.draft.root, 1)

    def _guard_lines(self) -> Iterator[str]:
        for axis in self.grid.axes:
            name = self.axis_names[axis]
            axis_literal = ascii(axis)
            raise_line = f'        raise ValueError("%s cannot be %r" % ({axis_literal}, {name}))'
            if is_text_axis(self.grid, axis):
                yield f"    if not isinstance({name}, str) or not ({self._label_test(axis)}):"
                yield raise_line
                continue
            if self.draft.off_grid == "clamp":
                low, high = map(format_number, axis_ends(self.grid, axis))
                yield f"    {name} = min(max(_number({axis_literal}, {name}), {low}), {high})"
            else:
                known = ", ".join(map(format_number, self.draft.axis_values(axis)))
                yield f"    if _number({axis_literal}, {name}) not in ({known},):"
                yield raise_line

    def _label_test(self, axis: str, labels: Sequence[str] | None = None) -> str:
        known = self.draft.axis_labels(axis) if labels is None else labels
        return f"{self.axis_names[axis]} in ({', '.join(map(ascii, known))},)"

    def _node_lines(self, node: Node, depth: int) -> Iterator[str]:
        """The lines of a node; every way through them ends in a return."""
        pad = "    " * depth
        if isinstance(node, Leaf):
            comment = to_comment_text(self.draft.describe_action(node.action))
            yield f"{pad}return {node.action}  # {comment}"
        elif isinstance(node, Split):
            yield from self._split_lines(node, depth)
        elif isinstance(node, LabelSplit):
            yield f"{pad}if {self._label_test(node.axis, node.labels)}:"
            yield from self._node_lines(node.inside, depth + 1)
            yield from self._node_lines(node.outside, depth)
        elif isinstance(node, Exceptions):
            for state, action in zip(node.places, node.actions, strict=True):
                cell = nearest_cell(self.grid, state)
                yield f"{pad}if {' and '.join(map(self._format_condition, cell))}:"
                yield from self._node_lines(Leaf(action), depth + 1)
            yield from self._node_lines(node.otherwise, depth)

    def _split_lines(self, node: Split, depth: int) -> Iterator[str]:
        pad = "    " * depth
        axis = single_axis(node.weights)
        operand = "total" if axis is None else self.axis_names[axis]
        if axis is None:
            parts = (
                f"{format_number(weight)} * {self.axis_names[name]}"
                for name, weight in node.weights
            )
            yield f"{pad}total = {' + '.join(parts)}"
        for step in list_branch_tests(node):
            if step.test:
                yield f"{pad}if {operand} {step.test} {format_number(step.cut)}:"
            yield from self._node_lines(step.node, depth + bool(step.test))

    def _format_condition(self, condition: Condition) -> str:
        if not isinstance(condition, SumRange):
            return self._label_test(condition.axis, condition.labels)
        name = self.axis_names[condition.weights[0][0]]
        ends = [] if math.isinf(condition.low) else [f"{name} > {format_number(condition.low)}"]
        ends += [] if math.isinf(condition.high) else [f"{name} <= {format_number(condition.high)}"]
        return " and ".join(ends) or "True"
