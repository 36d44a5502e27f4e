"""Source code from a rule: one walk over the tree, with templates for each language.

``CodePrinter`` writes a function from the coordinates of a state to an action: comments, guards
against input that is refused, and nested tests that end in returns. A language is a subclass with
its templates (see ``PythonPrinter``), and an ``ExportFormat`` that runs what it writes;
``CompiledFormat`` does that for languages with a compiler. docs/extending.md adds one step by step.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from textwrap import indent
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import FileError
from tessella.mdp.rule_tree import Exceptions, LabelSplit, Leaf, Node, RuleTree, Split, is_text_axis
from tessella.rules.comparisons import (
    Condition,
    SumRange,
    get_axis_ends,
    get_single_axis,
    list_branch_tests,
    list_finite_ends,
    list_nearest_conditions,
)
from tessella.rules.export.export_context import (
    UNKNOWN_ACTION_INDEX,
    ExportContext,
    ExportFormat,
    InputRows,
    ToolMissing,
    format_number,
    make_identifiers,
    to_comment_text,
)

MESSAGE_MAX_CHARACTERS = 500  # characters of the output of a compiler or a program in a message


class CodePrinter(ABC):
    """The text of one rule in a language of statements.

    The walk over the tree is the same for all languages; the templates are what they differ in.
    Guards have the fields ``name`` (of the argument) and ``axis`` (its name as a literal).
    """

    comment: ClassVar[str]  # a line of the head, of its text
    label_guard: ClassVar[str]  # refuses unknown labels; also of ``test``
    clamp_guard: ClassVar[str]  # refuses NaN and moves to the ends; also of ``low`` and ``high``
    grid_guard: ClassVar[str]  # refuses other values; also of ``values`` and their ``count``
    return_index: ClassVar[str]  # of an action index and a comment
    assign_total: ClassVar[str]  # assigns a weighted sum to ``total``
    if_block: ClassVar[str]  # begins a block
    block_end: ClassVar[str]  # or empty
    if_return: ClassVar[str] = ""  # before a single return without a block; or empty
    label_condition: ClassVar[str] = "{}"  # a test of labels among others
    conjunction: ClassVar[str] = " && "
    true: ClassVar[str] = "true"

    def __init__(self, context: ExportContext, reserved: Iterable[str] = ()) -> None:
        self.context = context
        self.grid = context.grid
        self.axis_names = make_identifiers(self.grid.axes, reserved)

    @abstractmethod
    def render(self) -> str:
        """The content of the file."""

    @abstractmethod
    def format_label_test(self, axis: str, labels: Sequence[str]) -> str:
        """Whether a text axis has one of some labels."""

    @abstractmethod
    def format_text(self, text: str) -> str:
        """A text as a literal."""

    @property
    def uses_total(self) -> bool:
        """Whether some split compares a sum that is more than a coordinate."""
        nodes = RuleTree(self.grid, self.context.root, 1).iterate_nodes()
        return any(isinstance(n, Split) and get_single_axis(n.weights) is None for n in nodes)

    def comment_lines(self, *usage: str) -> Iterator[str]:
        """The head of the file: facts, axes under other names, and how to use it."""
        renamed = (
            f"{safe} is the axis {to_comment_text(name)}"
            for name, safe in self.axis_names.items()
            if name != safe
        )
        facts = map(to_comment_text, self.context.header_lines)
        for line in (*facts, *renamed, *map(to_comment_text, usage)):
            yield self.comment.format(line)

    def body_lines(self) -> Iterator[str]:
        """The statements of the function: guards for all axes, then the decision."""
        for axis in self.grid.axes:
            yield from indent(self._format_guard(axis), "    ").split("\n")
        yield from self._node_lines(self.context.root, 1)

    def _format_guard(self, axis: str) -> str:
        fields: dict[str, object] = {"name": self.axis_names[axis]}
        if is_text_axis(self.grid, axis):
            template = self.label_guard
            fields["test"] = self.format_label_test(axis, self.context.axis_labels(axis))
        elif self.context.off_grid == "clamp":
            template = self.clamp_guard
            fields["low"], fields["high"] = map(format_number, get_axis_ends(self.grid, axis))
        else:
            template = self.grid_guard
            values = [format_number(value) for value in self.context.axis_values(axis)]
            fields |= {"values": ", ".join(values), "count": len(values)}
        if "{axis}" in template:  # not every text has a literal in every language
            fields["axis"] = self.format_text(axis)
        return template.format(**fields)

    def _node_lines(self, node: Node, depth: int) -> Iterator[str]:
        """The lines of a node; every path through them ends in a return."""
        pad = "    " * depth
        if isinstance(node, Leaf):
            comment = to_comment_text(self.context.describe_action(node.action))
            yield pad + self.return_index.format(node.action, comment)
            return
        if isinstance(node, Split) and get_single_axis(node.weights) is None:
            terms = (f"{format_number(w)} * {self.axis_names[name]}" for name, w in node.weights)
            yield pad + self.assign_total.format(" + ".join(terms))
        *steps, (_, last) = self._list_steps(node)
        has_block = not (isinstance(node, Exceptions) and self.if_return)
        for test, child in steps:
            yield pad + (self.if_block if has_block else self.if_return).format(test)
            yield from self._node_lines(child, depth + 1)
            if has_block and self.block_end:
                yield pad + self.block_end
        yield from self._node_lines(last, depth)

    def _list_steps(self, node: Node) -> list[tuple[str, Node]]:
        """Tests and the nodes that apply where they hold, in order; the last has no test."""
        if isinstance(node, LabelSplit):
            inside = self.format_label_test(node.axis, node.labels)
            return [(inside, node.inside), ("", node.outside)]
        if isinstance(node, Exceptions):
            nearest = (list_nearest_conditions(self.grid, state) for state in node.places)
            tests = (self.conjunction.join(map(self._format_condition, each)) for each in nearest)
            return [*zip(tests, map(Leaf, node.actions), strict=True), ("", node.otherwise)]
        assert isinstance(node, Split)
        axis = get_single_axis(node.weights)
        operand = "total" if axis is None else self.axis_names[axis]
        *steps, last = list_branch_tests(node)
        tests = (f"{operand} {step.comparison} {format_number(step.cut)}" for step in steps)
        return [*zip(tests, (step.node for step in steps), strict=True), ("", last.node)]

    def _format_condition(self, condition: Condition) -> str:
        if not isinstance(condition, SumRange):
            test = self.format_label_test(condition.axis, condition.labels)
            return self.label_condition.format(test)
        name = self.axis_names[condition.weights[0][0]]
        ends = list_finite_ends(condition)
        tests = (f"{name} {comparison} {format_number(end)}" for comparison, end in ends)
        return self.conjunction.join(tests) or self.true


class CompiledPrinter(CodePrinter):
    """A language with a compiler: a rule, and a program that runs it on rows."""

    @abstractmethod
    def render_harness(self) -> str:
        """A program that includes the rule, reads rows (``encode_rows``) and prints the results.

        It prints every value of the table of actions on a line, column by column, texts as
        ``LENGTH:TEXT``; then the index for each row on a line.
        """


class CompiledFormat(ExportFormat):
    """A language whose files are compiled with a harness, and then run."""

    printer: ClassVar[type[CompiledPrinter]]
    compilers: ClassVar[tuple[str, ...]]  # programs, of which the first that is found is used
    flags: ClassVar[tuple[str, ...]] = ()

    def write(self, context: ExportContext) -> bytes:
        return (self.printer(context).render() + "\n").encode("ascii")

    def run(
        self,
        content: bytes,
        context: ExportContext,
        rows: InputRows,
        flags: Sequence[str] | None = None,
    ) -> NDArray[np.int64]:
        compiler = next(filter(None, map(shutil.which, self.compilers)), None)
        if compiler is None:
            raise ToolMissing(f"no {self.name} compiler was found")
        main = f"main{self.suffix}"
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, f"rule{self.suffix}").write_bytes(content)
            Path(folder, main).write_text(self.printer(context).render_harness(), encoding="ascii")
            options = self.flags if flags is None else flags
            self._call([compiler, *options, main, "-o", "main"], folder, b"", "compile")
            program = [str(Path(folder, "main"))]
            output = self._call(program, folder, encode_rows(context, rows), "run")
        return decode_output(context, output)

    def _call(self, command: list[str], folder: str, inputs: bytes, verb: str) -> bytes:
        process = subprocess.run(command, cwd=folder, input=inputs, capture_output=True)
        if process.returncode:
            message = process.stderr.decode(errors="replace")[:MESSAGE_MAX_CHARACTERS]
            raise FileError(f"the {self.name} that was written must {verb}", value=message)
        return process.stdout


def encode_rows(context: ExportContext, rows: InputRows) -> bytes:
    """The number of rows on a line, then a row to a line: numbers, and texts as LENGTH:TEXT."""
    columns = []
    for axis in context.grid.axes:
        if is_text_axis(context.grid, axis):
            words = [str(value).encode() for value in rows[axis]]
            columns.append([b"%d:" % len(word) + word for word in words])
        else:
            columns.append([repr(float(value)).encode() for value in rows[axis]])
    lines = [b" ".join(row) for row in zip(*columns, strict=True)]
    return b"\n".join([b"%d" % len(lines), *lines, b""])


def decode_output(context: ExportContext, output: bytes) -> NDArray[np.int64]:
    """What a harness printed: indices; all wrong if its table of actions is."""
    is_correct = True
    for values in context.action_columns.values():
        for value in values:
            decoded, output = _read_value(output, isinstance(value, str))
            is_correct &= decoded == value
    indices = np.array(output.split(), dtype=np.int64)
    return indices if is_correct else np.full_like(indices, UNKNOWN_ACTION_INDEX)


def _read_value(output: bytes, is_text: bool) -> tuple[float | str, bytes]:
    """The first value that a harness printed, and what follows it."""
    if not is_text:
        line, _, rest = output.partition(b"\n")
        return float(line), rest
    size, _, rest = output.partition(b":")
    return rest[: int(size)].decode(), rest[int(size) + 1 :]
