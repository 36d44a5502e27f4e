"""Python without imports.

decide(stock, season) -> 8                  or {"fast": 3, "slow": 5}
decide_index(stock, season) -> 2            its index in ACTIONS; ValueError for what is rejected
"""

from __future__ import annotations

import builtins
import json
import keyword
import subprocess
import sys
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import FileError
from tessella.mdp.actions import VectorAction, actions_to_json
from tessella.rules.export.code import MESSAGE_MAX_CHARACTERS, CodePrinter
from tessella.rules.export.export_context import (
    UNKNOWN_ACTION_INDEX,
    ExportContext,
    ExportFormat,
    InputRows,
)

OWN_NAMES = ("ACTIONS", "decide", "decide_index", "total")
RESERVED_NAMES = (*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *OWN_NAMES)
RAISE_STATEMENT = 'raise ValueError("%s cannot be %r" % ({axis}, {name}))'

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
def decide(row):
    try:
        return names["decide_index"](*row)
    except ValueError:
        return -1
print(json.dumps([names["ACTIONS"], [decide(row) for row in rows]]))
"""


class PythonPrinter(CodePrinter):
    """The text of one rule in Python."""

    comment = "# {}"
    label_guard = f"if not isinstance({{name}}, str) or not ({{test}}):\n    {RAISE_STATEMENT}"
    clamp_guard = "{name} = min(max(_number({axis}, {name}), {low}), {high})"
    grid_guard = f"if _number({{axis}}, {{name}}) not in ({{values}},):\n    {RAISE_STATEMENT}"
    return_index = "return {}  # {}"
    assign_total = "total = {}"
    if_block = "if {}:"
    block_end = ""
    conjunction = " and "
    true = "True"

    def __init__(self, context: ExportContext) -> None:
        super().__init__(context, RESERVED_NAMES)

    def render(self) -> str:
        arguments = ", ".join(self.axis_names.values())
        lines = [*self.comment_lines(), "", "ACTIONS = ("]
        for action in self.context.policy.actions:
            literal = action.record if isinstance(action, VectorAction) else action
            lines.append(f"    {literal!a},")
        lines += [")", "", "", f"def decide({arguments}):"]
        lines += [f"    return ACTIONS[decide_index({arguments})]", "", ""]
        lines += [*NUMBER_FUNCTION_LINES, "", ""]
        lines += [f"def decide_index({arguments}):", *self.body_lines()]
        return "\n".join(lines)

    def format_text(self, text: str) -> str:
        return ascii(text)

    def format_label_test(self, axis: str, labels: Sequence[str]) -> str:
        return f"{self.axis_names[axis]} in ({', '.join(map(ascii, labels))},)"


class BarePython(ExportFormat):
    """A Python function."""

    name: ClassVar[str] = "Python"
    suffix: ClassVar[str] = ".py"

    def write(self, context: ExportContext) -> bytes:
        return (PythonPrinter(context).render() + "\n").encode("ascii")

    def run(self, content: bytes, context: ExportContext, rows: InputRows) -> NDArray[np.int64]:
        """Run it in a new interpreter, without site packages or this package."""
        states = list(zip(*(rows[axis] for axis in context.grid.axes), strict=True))
        inputs = json.dumps([content.decode("ascii"), states])
        command = [sys.executable, "-I", "-S", "-c", RUNNER_SOURCE]
        process = subprocess.run(command, input=inputs, capture_output=True, text=True)
        if process.returncode:
            message = process.stderr[-MESSAGE_MAX_CHARACTERS:]
            raise FileError("the Python that was written must run", value=message)
        actions, answers = json.loads(process.stdout)
        expected = json.loads(json.dumps(actions_to_json(context.policy.actions)))
        indices = np.array(answers)
        return indices if actions == expected else np.full_like(indices, UNKNOWN_ACTION_INDEX)
