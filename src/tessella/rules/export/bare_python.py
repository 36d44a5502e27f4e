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
from tessella.mdp.actions import Combination, as_json
from tessella.mdp.program import Among, Choose, Except, Node, Split
from tessella.rules.export.c99 import number
from tessella.rules.export.draft import OTHER, Draft, Rows
from tessella.rules.export.lowered import Condition, Range, alone, cell, is_text, span, steps
from tessella.rules.export.names import identifiers, plain
from tessella.rules.export.target import Target

OWN = ("ACTIONS", "decide", "decide_index", "total")
TAKEN = (*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *OWN)

NUMBER = (
    "def _number(axis, value):",
    "    try:",
    "        known = bool(value >= 0 or value < 0)",
    "    except Exception:",
    "        known = False",
    "    if not known:",
    '        raise ValueError("%s cannot be %r" % (axis, value))',
    "    return value",
)

ASK = """
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


class BarePython(Target):
    """A Python function."""

    name: ClassVar[str] = "Python"
    suffix: ClassVar[str] = ".py"

    def write(self, draft: Draft) -> bytes:
        return ("\n".join(Source(draft).lines()) + "\n").encode("ascii")

    def run(self, content: bytes, draft: Draft, rows: Rows) -> NDArray[np.int64]:
        """Ask an interpreter of its own, without site packages or this package."""
        listed = list(zip(*(rows[axis] for axis in draft.grid.axes), strict=True))
        given = json.dumps([content.decode("ascii"), listed])
        command = [sys.executable, "-I", "-S", "-c", ASK]
        ran = subprocess.run(command, input=given, capture_output=True, text=True)
        if ran.returncode:
            raise FileError("the Python that was written must run", value=ran.stderr[-500:])
        actions, said = json.loads(ran.stdout)
        same = actions == json.loads(json.dumps(as_json(draft.policy.actions)))
        return np.array(said) if same else np.full(len(said), OTHER)


class Source:
    """The text of one rule in Python."""

    def __init__(self, draft: Draft) -> None:
        self.draft, self.grid = draft, draft.grid
        self.names = identifiers(self.grid.axes, TAKEN)

    def lines(self) -> Iterator[str]:
        yield from (f"# {plain(line)}" for line in self.draft.about)
        for name, safe in self.names.items():
            if name != safe:
                yield f"# {safe} is the axis {plain(name)}"
        arguments = ", ".join(self.names.values())
        yield from ("", "ACTIONS = (")
        for action in self.draft.policy.actions:
            shown = action.record if isinstance(action, Combination) else action
            yield f"    {shown!a},"
        yield from (")", "", "", f"def decide({arguments}):")
        yield f"    return ACTIONS[decide_index({arguments})]"
        yield from ("", "", *NUMBER)
        yield from ("", "", f"def decide_index({arguments}):")
        yield from self._guards()
        yield from self._said(self.draft.root, 1)

    def _guards(self) -> Iterator[str]:
        for axis in self.grid.axes:
            name, called = self.names[axis], ascii(axis)
            refusal = f'        raise ValueError("%s cannot be %r" % ({called}, {name}))'
            if is_text(self.grid, axis):
                yield f"    if not isinstance({name}, str) or not ({self._is(axis)}):"
                yield refusal
                continue
            if self.draft.off_grid == "clamp":
                low, high = map(number, span(self.grid, axis))
                yield f"    {name} = min(max(_number({called}, {name}), {low}), {high})"
            else:
                known = ", ".join(map(number, self.draft.values(axis)))
                yield f"    if _number({called}, {name}) not in ({known},):"
                yield refusal

    def _is(self, axis: str, labels: Sequence[str] | None = None) -> str:
        known = self.draft.labels(axis) if labels is None else labels
        return f"{self.names[axis]} in ({', '.join(map(ascii, known))},)"

    def _said(self, node: Node, depth: int) -> Iterator[str]:
        """The lines of a node; every way through them ends in a return."""
        pad = "    " * depth
        if isinstance(node, Choose):
            yield f"{pad}return {node.action}  # {plain(self.draft.described(node.action))}"
        elif isinstance(node, Split):
            yield from self._split(node, depth)
        elif isinstance(node, Among):
            yield f"{pad}if {self._is(node.axis, node.labels)}:"
            yield from self._said(node.inside, depth + 1)
            yield from self._said(node.outside, depth)
        elif isinstance(node, Except):
            for place, action in zip(node.places, node.actions, strict=True):
                yield f"{pad}if {' and '.join(map(self._condition, cell(self.grid, place)))}:"
                yield from self._said(Choose(action), depth + 1)
            yield from self._said(node.otherwise, depth)

    def _split(self, node: Split, depth: int) -> Iterator[str]:
        pad, axis = "    " * depth, alone(node.weights)
        of = "total" if axis is None else self.names[axis]
        if axis is None:
            parts = (f"{number(weight)} * {self.names[name]}" for name, weight in node.weights)
            yield f"{pad}total = {' + '.join(parts)}"
        for step in steps(node):
            if step.test:
                yield f"{pad}if {of} {step.test} {number(step.cut)}:"
            yield from self._said(step.node, depth + bool(step.test))

    def _condition(self, condition: Condition) -> str:
        if not isinstance(condition, Range):
            return self._is(condition.axis, condition.labels)
        name = self.names[condition.weights[0][0]]
        ends = [] if math.isinf(condition.low) else [f"{name} > {number(condition.low)}"]
        ends += [] if math.isinf(condition.high) else [f"{name} <= {number(condition.high)}"]
        return " and ".join(ends) or "True"
