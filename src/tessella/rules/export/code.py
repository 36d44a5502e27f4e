"""Source code from a rule: one walk over the tree, with templates for each language.

``CodePrinter`` writes a function from the coordinates of a state to an action: comments, guards
against input that is rejected, and nested tests that end in returns. A language is a subclass with
its templates (see ``PythonPrinter``), and an ``ExportFormat`` that runs what it writes;
``CompiledFormat`` does that for languages with a compiler. docs/extending.md adds one step by step.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    label_guard: ClassVar[str]  # rejects unknown labels; also of ``test``
    clamp_guard: ClassVar[str]  # rejects NaN and moves to the ends; also of ``low`` and ``high``
    grid_guard: ClassVar[str]  # rejects other values; also of ``values`` and their ``count``
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
    """A language with a compiler: a rule, tables of its actions, a program that runs it on rows.

    A table holds one part of the actions, or the labels of an axis. Templates about it have the
    fields ``table`` (its name) and ``count``; its declaration also ``type`` and ``values``.
    """

    number_type: ClassVar[str]  # of an entry of a table
    text_type: ClassVar[str]
    table_declaration: ClassVar[str]
    table_entry: ClassVar[str] = "{table}[index]"  # as a user writes it
    print_numbers: ClassVar[str]  # prints a table, one value to a line
    print_texts: ClassVar[str]  # the same, each as LENGTH:TEXT
    row_number: ClassVar[str]  # the entry of a row at a ``position``
    row_label: ClassVar[str]  # the entry of ``table`` at that place
    reserved_words: ClassVar[frozenset[str]]  # that no argument can be called
    harness: ClassVar[str]  # a program with @labels@, @tables@, @width@ (of a row) and @call@

    def __init__(self, context: ExportContext) -> None:
        self.function_name = self.name_function(context.stem)
        parts = make_identifiers([*context.action_columns], subject="part")
        self.table_names = {name: self.name_table(part) for name, part in parts.items()}
        own_names = (self.function_name, "total", *self.table_names.values())
        super().__init__(context, (*self.reserved_words, *own_names))

    def name_function(self, stem: str) -> str:
        """The name of the function in a file called ``stem``."""
        return "decide"

    @abstractmethod
    def name_table(self, part: str) -> str:
        """The name of the table of one part of the actions."""

    def list_usage(self) -> list[str]:
        """How to use the function, and each table."""
        lines = [f"{self.function_name}(...) is the index of an action, or -1 for invalid input;"]
        for name, table in self.table_names.items():
            lines.append(f"{self.table_entry.format(table=table)} is what to do ({name})")
        return lines

    def declare_action_tables(self) -> list[str]:
        columns = self.context.action_columns
        return [self._declare_table(table, columns[n]) for n, table in self.table_names.items()]

    def _declare_table(self, table: str, values: Sequence) -> str:
        is_text = isinstance(values[0], str)
        literals = ", ".join(map(self.format_text if is_text else format_number, values))
        kind = self.text_type if is_text else self.number_type
        fields = {"table": table, "count": len(values), "values": literals, "type": kind}
        return self.table_declaration.format(**fields)

    def render_harness(self, labels: Mapping[str, Sequence[str]]) -> str:
        """A program that includes the rule, prints its tables, reads rows and prints their indices.

        A row is a line of numbers; a text axis has the place of its label among its ``labels``.
        """
        prints = []
        for name, table in self.table_names.items():
            values = self.context.action_columns[name]
            template = self.print_texts if isinstance(values[0], str) else self.print_numbers
            prints.append(template.format(table=table, count=len(values)))
        tables = {axis: f"TESSELLA_{self.grid.axis(axis)}" for axis in labels}
        arguments = []
        for position, axis in enumerate(self.grid.axes):
            template = self.row_label if axis in labels else self.row_number
            arguments.append(template.format(table=tables.get(axis), position=position))
        declarations = [self._declare_table(tables[axis], labels[axis]) for axis in labels]
        return (
            self.harness.replace("@width@", str(self.grid.ndim))
            .replace("@tables@", "\n".join(prints))
            .replace("@call@", f"{self.function_name}({', '.join(arguments)})")
            .replace("@labels@", "\n".join(declarations))
        )


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
        text_axes = [axis for axis in context.grid.axes if is_text_axis(context.grid, axis)]
        labels = {axis: [*dict.fromkeys(rows[axis])] for axis in text_axes}
        main = f"main{self.suffix}"
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, f"rule{self.suffix}").write_bytes(content)
            harness = self.printer(context).render_harness(labels)
            Path(folder, main).write_text(harness, encoding="ascii")
            options = self.flags if flags is None else flags
            self._call([compiler, *options, main, "-o", "main"], folder, b"", "compile")
            program = [str(Path(folder, "main"))]
            output = self._call(program, folder, encode_rows(context, rows, labels), "run")
        return decode_output(context, output)

    def _call(self, command: list[str], folder: str, inputs: bytes, verb: str) -> bytes:
        process = subprocess.run(command, cwd=folder, input=inputs, capture_output=True)
        if process.returncode:
            message = process.stderr.decode(errors="replace")[:MESSAGE_MAX_CHARACTERS]
            raise FileError(f"the {self.name} that was written must {verb}", value=message)
        return process.stdout


def encode_rows(
    context: ExportContext, rows: InputRows, labels: Mapping[str, Sequence[str]]
) -> bytes:
    """A line of numbers for each row; of a label, its place among the ``labels`` of its axis."""
    columns = dict(rows)
    for axis, texts in labels.items():
        places = {text: place for place, text in enumerate(texts)}
        columns[axis] = [places[text] for text in rows[axis]]
    numbers = zip(*(map(float, columns[axis]) for axis in context.grid.axes), strict=True)
    return "\n".join(" ".join(map(repr, row)) for row in numbers).encode()


def decode_output(context: ExportContext, output: bytes) -> NDArray[np.int64]:
    """What a harness printed: indices; all wrong if its table of actions is."""
    is_correct = True
    for values in context.action_columns.values():
        for value in values:
            if isinstance(value, str):
                size, _, output = output.partition(b":")
                printed = output[: int(size)].decode()
                output = output[int(size) + 1 :]
            else:
                line, _, output = output.partition(b"\n")
                printed = float(line)
            is_correct &= printed == value
    indices = np.array(output.split(), dtype=np.int64)
    return indices if is_correct else np.full_like(indices, UNKNOWN_ACTION_INDEX)
