"""C99 and Python: one function from the coordinates of a state to an action.

    int reorder(double stock, const char *season);     the index, or -1 for what is refused
    const double reorder_order[5];                      what the indices stand for

    decide(stock, season) -> 8                  or {"fast": 3, "slow": 5}
    decide_index(stock, season) -> 2            its index in ACTIONS; ValueError for what is refused

The C needs ``strcmp`` for text axes, and nothing else; the Python imports nothing.
"""

from __future__ import annotations

import builtins
import json
import keyword
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import FileError
from tessella.mdp.actions import Combination, actions_to_json
from tessella.mdp.rule_tree import Exceptions, LabelSplit, Leaf, Node, Split
from tessella.rules.export.export_context import (
    UNKNOWN_ACTION_INDEX,
    Condition,
    ExportContext,
    ExportTarget,
    InputRows,
    SumRange,
    ToolMissing,
    axis_ends,
    derive_identifier,
    format_number,
    is_text_axis,
    list_branch_tests,
    list_finite_ends,
    make_identifiers,
    nearest_cell,
    require_no_nul,
    single_axis,
    to_comment_text,
)

# Of C and C++, and what headers and compilers define besides.
C_WORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl
const const_cast constexpr continue decltype default delete do double dynamic_cast else enum
explicit export extern false far float for friend goto huge if inline int interface linux
long mutable namespace near new noexcept not not_eq nullptr operator or or_eq pascal private
protected public register reinterpret_cast restrict return short signed sizeof small static
static_assert static_cast struct switch template this thread_local throw true try typedef
typeid typename typeof union unix unsigned using virtual void volatile wchar_t while xor
xor_eq assert errno eof i index isnan main max min null offsetof signal stderr stdin stdout
strcmp
"""
C_MATH_FUNCTIONS = """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh drem erf erfc exp exp10 exp2
expm1 fabs fdim floor fma fmax fmin fmod frexp gamma hypot ilogb j0 j1 jn ldexp lgamma llrint
llround log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter nexttoward pow pow10
remainder remquo rint round scalb scalbln scalbn significand sin sincos sinh sqrt tan tanh tgamma
trunc y0 y1 yn cabs carg cexp cimag clog conj cpow cproj creal csin ccos ctan csqrt
"""
# Of the C library and of systems: a function of such a name would take the place of theirs.
C_LIBRARY_FUNCTIONS = """
abort abs access alarm alloca asctime atexit atof atoi atol atoll bcmp bcopy bind brk bsearch bzero
calloc chdir chmod chown clearerr clock close closedir connect ctime daemon difftime div dup dup2
environ err exit fclose fcntl feof ferror fflush ffs fgetc fgetpos fgets fileno fopen fork fprintf
fputc fputs fread free freopen fscanf fseek fsetpos fstat fsync ftell fwrite getc getchar getcwd
getenv getline getopt getpid gets getuid gmtime ioctl isalnum isalpha isascii isatty isblank iscntrl
isdigit isfinite isgraph isinf islower isnormal isprint ispunct isspace isupper isxdigit kill labs
ldiv link listen llabs lldiv localtime longjmp lseek malloc mblen memccpy memchr memcmp memcpy
memmove mempcpy memset mkdir mktime mmap mount nice open opendir optarg optind pause perror pipe
poll popen printf putc putchar putenv puts qsort raise rand random read readdir readlink realloc
recv remove rename rewind rindex rmdir sbrk scanf select send setbuf setenv setjmp setlocale
setvbuf signbit sleep snprintf socket sprintf srand srandom sscanf stat stpcpy strcasecmp strcat
strchr strcoll strcpy strcspn strdup strerror strftime strlen strncat strncmp strncpy strndup
strpbrk strrchr strsep strspn strstr strtod strtof strtok strtol strtold strtoll strtoul strtoull
strxfrm swab sync syscall system tempnam time times tmpfile tmpnam toascii tolower toupper truncate
uname ungetc unlink usleep va_arg va_copy va_end va_start vfprintf vfscanf vprintf vscanf vsnprintf
vsprintf vsscanf wait waitpid warn write
"""
C_RESERVED_WORDS = frozenset(C_WORDS.split())
C_LIBRARY_NAMES = frozenset(C_LIBRARY_FUNCTIONS.split()) | {
    f"{name}{kind}" for name in C_MATH_FUNCTIONS.split() for kind in ("", "f", "l")
}
C_LOCAL_NAMES = ("total", "i", "known")
C_COMPILER_FLAGS = ("-std=c99",)
HARNESS_PREFIX = "tessella_harness_"  # of names in the program that runs a function in C
PYTHON_OWN_NAMES = ("ACTIONS", "decide", "decide_index", "total")
PYTHON_RESERVED_NAMES = (*keyword.kwlist, *keyword.softkwlist, *dir(builtins), *PYTHON_OWN_NAMES)

HARNESS_SOURCE = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "rule.c"
static double tessella_harness_number(void)
{
    char word[64];
    if (scanf("%63s", word) != 1) exit(2);
    return strtod(word, NULL);
}
static char *tessella_harness_text(void)
{
    unsigned long size;
    char *read;
    if (scanf("%lu:", &size) != 1 || !(read = malloc(size + 1))) exit(2);
    if (fread(read, 1, size, stdin) != size) exit(2);
    read[size] = 0;
    return read;
}
static void tessella_harness_values(void)
{
    int i;
@values@
}
int main(void)
{
    long tessella_harness_rows = (long)tessella_harness_number();
    (void)tessella_harness_text;
    tessella_harness_values();
    while (tessella_harness_rows-- > 0) {
@read@
        printf("%d\\n", @call@);
@free@
    }
    return 0;
}
"""

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


class CodePrinter(ABC):
    """The text of one rule in a language of statements.

    The walk over the tree is the same for all languages. The templates are what they differ in.
    """

    return_template: ClassVar[str]  # of an action index and a comment
    total_template: ClassVar[str]  # assigns a weighted sum to ``total``
    if_template: ClassVar[str]  # begins a block
    block_end: ClassVar[str]
    if_return_template: ClassVar[str]  # before a single return
    label_condition_template: ClassVar[str]  # a test of labels among others
    conjunction: ClassVar[str]
    true: ClassVar[str]

    def __init__(self, context: ExportContext, reserved: Iterable[str]) -> None:
        self.context = context
        self.grid = context.grid
        self.axis_names = make_identifiers(self.grid.axes, reserved)

    @abstractmethod
    def format_label_test(self, axis: str, labels: Sequence[str]) -> str:
        """Whether a text axis has one of some labels."""

    def renamed_axis_lines(self) -> Iterator[str]:
        for name, safe in self.axis_names.items():
            if name != safe:
                yield f"{safe} is the axis {to_comment_text(name)}"

    def node_lines(self, node: Node, depth: int) -> Iterator[str]:
        """The lines of a node; every path through them ends in a return."""
        pad = "    " * depth
        if isinstance(node, Leaf):
            comment = to_comment_text(self.context.describe_action(node.action))
            yield pad + self.return_template.format(node.action, comment)
            return
        if isinstance(node, Split) and single_axis(node.weights) is None:
            yield pad + self.total_template.format(self._format_sum(node))
        if_template = self.if_return_template if isinstance(node, Exceptions) else self.if_template
        block_end = "" if isinstance(node, Exceptions) else self.block_end
        for test, child in self._list_steps(node):
            if test:
                yield pad + if_template.format(test)
            yield from self.node_lines(child, depth + bool(test))
            if test and block_end:
                yield pad + block_end

    def _list_steps(self, node: Node) -> list[tuple[str, Node]]:
        """Tests and the nodes that apply where they hold, in order; the last has no test."""
        if isinstance(node, LabelSplit):
            inside = self.format_label_test(node.axis, node.labels)
            return [(inside, node.inside), ("", node.outside)]
        if isinstance(node, Exceptions):
            cells = (nearest_cell(self.grid, state) for state in node.places)
            tests = (self.conjunction.join(map(self._format_condition, cell)) for cell in cells)
            return [*zip(tests, map(Leaf, node.actions), strict=True), ("", node.otherwise)]
        assert isinstance(node, Split)
        axis = single_axis(node.weights)
        operand = "total" if axis is None else self.axis_names[axis]
        *steps, last = list_branch_tests(node)
        tests = (f"{operand} {step.test} {format_number(step.cut)}" for step in steps)
        return [*zip(tests, (step.node for step in steps), strict=True), ("", last.node)]

    def _format_sum(self, node: Split) -> str:
        return " + ".join(
            f"{format_number(w)} * {self.axis_names[name]}" for name, w in node.weights
        )

    def _format_condition(self, condition: Condition) -> str:
        if not isinstance(condition, SumRange):
            test = self.format_label_test(condition.axis, condition.labels)
            return self.label_condition_template.format(test)
        name = self.axis_names[condition.weights[0][0]]
        ends = list_finite_ends(condition)
        tests = (f"{name} {test} {format_number(end)}" for test, end in ends)
        return self.conjunction.join(tests) or self.true


class C99(ExportTarget):
    """A C function."""

    name: ClassVar[str] = "C99"
    suffix: ClassVar[str] = ".c"

    def write(self, context: ExportContext) -> bytes:
        return (CPrinter(context).render() + "\n").encode("ascii")

    def run(
        self,
        content: bytes,
        context: ExportContext,
        rows: InputRows,
        flags: Sequence[str] = C_COMPILER_FLAGS,
    ) -> NDArray[np.int64]:
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            raise ToolMissing("no C compiler was found")
        printer = CPrinter(context)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "rule.c").write_bytes(content)
            Path(folder, "main.c").write_text(printer.render_harness(), encoding="ascii")
            command = [compiler, *flags, "main.c", "-o", "main"]
            compilation = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if compilation.returncode:
                raise FileError(
                    "the C that was written must compile", value=compilation.stderr[:500]
                )
            inputs = printer.encode_rows(rows)
            process = subprocess.run([str(Path(folder, "main"))], input=inputs, capture_output=True)
            if process.returncode:
                raise FileError("the C that was written must run", value=str(process.stderr[:500]))
        return printer.decode_output(process.stdout)


class CPrinter(CodePrinter):
    """The text of one rule in C, and a program that runs it on rows."""

    return_template = "return {}; /* {} */"
    total_template = "total = {};"
    if_template = "if ({}) {{"
    block_end = "}"
    if_return_template = "if ({})"
    label_condition_template = "({})"
    conjunction = " && "
    true = "1"

    def __init__(self, context: ExportContext) -> None:
        self.function_name = derive_identifier(context.stem, C_RESERVED_WORDS | C_LIBRARY_NAMES)
        parts = make_identifiers([*context.action_columns], subject="part")
        self.table_names = {name: f"{self.function_name}_{part}" for name, part in parts.items()}
        own_names = (self.function_name, *self.table_names.values())
        super().__init__(context, (*C_RESERVED_WORDS, *C_LOCAL_NAMES, *own_names))

    def render(self) -> str:
        lines = ["/*", *(f" * {to_comment_text(line)}" for line in self.context.header_lines)]
        lines += [f" * {line}" for line in self.renamed_axis_lines()]
        lines += [f" * {to_comment_text(line)}" for line in self._usage_lines()]
        lines += [" */"]
        if any(is_text_axis(self.grid, axis) for axis in self.grid.axes):
            lines += ["#include <string.h>"]
        lines += ["", f"{self.signature};"]
        lines += [self._declare_table(name) for name in self.context.action_columns]
        body = [*self.node_lines(self.context.root, 1)]
        uses_total = any(line.lstrip().startswith("total = ") for line in body)
        declarations = ["    double total;"] if uses_total else []
        lines += ["", self.signature, "{", *declarations, *self._guard_lines(), *body, "}"]
        return "\n".join(lines)

    def _usage_lines(self) -> Iterator[str]:
        yield f"{self.function_name}(...) is the index of an action, or -1 for what is refused;"
        for name, table in self.table_names.items():
            yield f"{table}[index] is what to do ({name})"

    @property
    def signature(self) -> str:
        kinds = ((name, is_text_axis(self.grid, name)) for name in self.grid.axes)
        parts = (
            f"{'const char *' if text else 'double '}{self.axis_names[n]}" for n, text in kinds
        )
        return f"int {self.function_name}({', '.join(parts)})"

    def _declare_table(self, name: str) -> str:
        values = self.context.action_columns[name]
        if isinstance(values[0], str):
            kind = "char *const "
            literals = [format_c_string(v) for v in values]
        else:
            kind = "double "
            literals = [format_number(v) for v in values]
        table = f"{self.table_names[name]}[{len(values)}]"
        return f"extern const {kind}{table};\nconst {kind}{table} = {{{', '.join(literals)}}};"

    def _guard_lines(self) -> Iterator[str]:
        for axis in self.grid.axes:
            name = self.axis_names[axis]
            if is_text_axis(self.grid, axis):
                is_known = self.format_label_test(axis, self.context.axis_labels(axis))
                yield f"    if (!{name} || !({is_known})) return -1;"
            elif self.context.off_grid == "clamp":
                low, high = map(format_number, axis_ends(self.grid, axis))
                yield f"    if (!({name} == {name})) return -1;"
                yield f"    if ({name} < {low}) {name} = {low};"
                yield f"    if ({name} > {high}) {name} = {high};"
            else:
                yield from self._grid_check_lines(axis)

    def _grid_check_lines(self, axis: str) -> Iterator[str]:
        name = self.axis_names[axis]
        values = self.context.axis_values(axis)
        yield "    {"
        yield f"        static const double known[] = {{{', '.join(map(format_number, values))}}};"
        yield "        int i = 0;"
        yield f"        while (i < {len(values)} && known[i] != {name}) i++;"
        yield f"        if (i == {len(values)}) return -1;"
        yield "    }"

    def format_label_test(self, axis: str, labels: Sequence[str]) -> str:
        name = self.axis_names[axis]
        return " || ".join(f"strcmp({name}, {format_c_string(label)}) == 0" for label in labels)

    def render_harness(self) -> str:
        """A program that reads rows and prints the results of the function."""
        arguments = [f"{HARNESS_PREFIX}x{i}" for i in range(self.grid.ndim)]
        read = []
        free = []
        for axis, argument in zip(self.grid.axes, arguments, strict=True):
            if is_text_axis(self.grid, axis):
                read.append(f"        char *{argument} = {HARNESS_PREFIX}text();")
                free.append(f"        free({argument});")
            else:
                read.append(f"        double {argument} = {HARNESS_PREFIX}number();")
        call = [f"{self.function_name}({', '.join(arguments)})"]
        parts = {"values": self._print_lines(), "read": read, "free": free, "call": call}
        text = HARNESS_SOURCE
        for part, lines in parts.items():
            text = text.replace(f"@{part}@", "\n".join(lines))
        return text

    def _print_lines(self) -> list[str]:
        """Lines that print the table of actions, each value with its length before it."""
        lines = []
        for name, values in self.context.action_columns.items():
            entry = f"{self.table_names[name]}[i]"
            statement = f'printf("%lu:%s\\n", (unsigned long)strlen({entry}), {entry})'
            if not isinstance(values[0], str):
                statement = f'printf("%.17g\\n", {entry})'
            lines += [f"    for (i = 0; i < {len(values)}; i++) {statement};"]
        return lines

    def encode_rows(self, rows: InputRows) -> bytes:
        """Rows as the program reads them."""
        columns = []
        for axis in self.grid.axes:
            if is_text_axis(self.grid, axis):
                words = [str(value).encode() for value in rows[axis]]
                columns.append([b"%d:" % len(word) + word for word in words])
            else:
                columns.append([repr(float(value)).encode() for value in rows[axis]])
        lines = [b" ".join(row) for row in zip(*columns, strict=True)]
        return b"\n".join([b"%d" % len(lines), *lines, b""])

    def decode_output(self, output: bytes) -> NDArray[np.int64]:
        """What the program printed: indices; all wrong if its table of actions is."""
        is_correct = True
        for values in self.context.action_columns.values():
            for value in values:
                decoded, output = _read_value(output, isinstance(value, str))
                is_correct &= decoded == value
        indices = np.array(output.split(), dtype=np.int64)
        return indices if is_correct else np.full_like(indices, UNKNOWN_ACTION_INDEX)


def _read_value(output: bytes, is_text_value: bool) -> tuple[float | str, bytes]:
    """The first value that the program printed, and what follows it."""
    if not is_text_value:
        line, _, rest = output.partition(b"\n")
        return float(line), rest
    size, _, rest = output.partition(b":")
    return rest[: int(size)].decode(), rest[int(size) + 1 :]


def format_c_string(text: str) -> str:
    """A text as a C string: UTF-8, everything but letters, digits and spaces in octal."""
    return f'"{"".join(map(_escape_byte, require_no_nul(text, "C").encode()))}"'


def _escape_byte(byte: int) -> str:
    return chr(byte) if byte == 32 or (byte < 128 and chr(byte).isalnum()) else f"\\{byte:03o}"


class BarePython(ExportTarget):
    """A Python function."""

    name: ClassVar[str] = "Python"
    suffix: ClassVar[str] = ".py"

    def write(self, context: ExportContext) -> bytes:
        return ("\n".join(PythonPrinter(context).render_lines()) + "\n").encode("ascii")

    def run(self, content: bytes, context: ExportContext, rows: InputRows) -> NDArray[np.int64]:
        """Run it in a new interpreter, without site packages or this package."""
        states = list(zip(*(rows[axis] for axis in context.grid.axes), strict=True))
        inputs = json.dumps([content.decode("ascii"), states])
        command = [sys.executable, "-I", "-S", "-c", RUNNER_SOURCE]
        process = subprocess.run(command, input=inputs, capture_output=True, text=True)
        if process.returncode:
            raise FileError("the Python that was written must run", value=process.stderr[-500:])
        actions, answers = json.loads(process.stdout)
        expected = json.loads(json.dumps(actions_to_json(context.policy.actions)))
        return (
            np.array(answers)
            if actions == expected
            else np.full_like(answers, UNKNOWN_ACTION_INDEX)
        )


class PythonPrinter(CodePrinter):
    """The text of one rule in Python."""

    return_template = "return {}  # {}"
    total_template = "total = {}"
    if_template = "if {}:"
    block_end = ""
    if_return_template = "if {}:"
    label_condition_template = "{}"
    conjunction = " and "
    true = "True"

    def __init__(self, context: ExportContext) -> None:
        super().__init__(context, PYTHON_RESERVED_NAMES)

    def render_lines(self) -> Iterator[str]:
        yield from (f"# {to_comment_text(line)}" for line in self.context.header_lines)
        yield from (f"# {line}" for line in self.renamed_axis_lines())
        arguments = ", ".join(self.axis_names.values())
        yield from ("", "ACTIONS = (")
        for action in self.context.policy.actions:
            literal = action.record if isinstance(action, Combination) else action
            yield f"    {literal!a},"
        yield from (")", "", "", f"def decide({arguments}):")
        yield f"    return ACTIONS[decide_index({arguments})]"
        yield from ("", "", *NUMBER_FUNCTION_LINES)
        yield from ("", "", f"def decide_index({arguments}):")
        yield from self._guard_lines()
        yield from self.node_lines(self.context.root, 1)

    def _guard_lines(self) -> Iterator[str]:
        for axis in self.grid.axes:
            name = self.axis_names[axis]
            axis_literal = ascii(axis)
            raise_line = f'        raise ValueError("%s cannot be %r" % ({axis_literal}, {name}))'
            if is_text_axis(self.grid, axis):
                is_known = self.format_label_test(axis, self.context.axis_labels(axis))
                yield f"    if not isinstance({name}, str) or not ({is_known}):"
                yield raise_line
            elif self.context.off_grid == "clamp":
                low, high = map(format_number, axis_ends(self.grid, axis))
                yield f"    {name} = min(max(_number({axis_literal}, {name}), {low}), {high})"
            else:
                known = ", ".join(map(format_number, self.context.axis_values(axis)))
                yield f"    if _number({axis_literal}, {name}) not in ({known},):"
                yield raise_line

    def format_label_test(self, axis: str, labels: Sequence[str]) -> str:
        return f"{self.axis_names[axis]} in ({', '.join(map(ascii, labels))},)"
