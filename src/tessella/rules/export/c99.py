"""C99: one function from the coordinates of a state to the index of an action.

    int reorder(double stock, const char *season);     the index, or -1 for what is refused
    const double reorder_order[5];                      what the indices stand for

It needs ``strcmp`` for text axes, and nothing else.
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.errors import FileError
from tessella.mdp.rule_tree import Exceptions, LabelSplit, Leaf, Node, Split
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
from tessella.rules.export.names import (
    derive_identifier,
    make_identifiers,
    require_no_nul,
    to_comment_text,
)
from tessella.rules.export.target import ExportTarget, ToolMissing

# Of C and C++, and what headers and compilers define besides.
RESERVED_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl
const const_cast constexpr continue decltype default delete do double dynamic_cast else enum
explicit export extern false far float for friend goto huge if inline int interface linux
long mutable namespace near new noexcept not not_eq nullptr operator or or_eq pascal private
protected public register reinterpret_cast restrict return short signed sizeof small static
static_assert static_cast struct switch template this thread_local throw true try typedef
typeid typename typeof union unix unsigned using virtual void volatile wchar_t while xor
xor_eq assert errno eof i index isnan main max min null offsetof signal stderr stdin stdout
strcmp
""",
    )
)
MATH_FUNCTIONS = """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh drem erf erfc exp exp10 exp2
expm1 fabs fdim floor fma fmax fmin fmod frexp gamma hypot ilogb j0 j1 jn ldexp lgamma llrint
llround log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter nexttoward pow pow10
remainder remquo rint round scalb scalbln scalbn significand sin sincos sinh sqrt tan tanh tgamma
trunc y0 y1 yn cabs carg cexp cimag clog conj cpow cproj creal csin ccos ctan csqrt
"""
# Of the C library and of systems: a function of such a name would take the place of theirs.
LIBRARY_NAMES = frozenset(
    re.findall(
        r"\w+",
        """
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
""",
    )
) | {f"{name}{kind}" for name in MATH_FUNCTIONS.split() for kind in ("", "f", "l")}
LOCAL_NAMES = ("total", "i", "known")
COMPILER_FLAGS = ("-std=c99",)
HARNESS_PREFIX = (
    "tessella_harness_"  # names of the program that asks; a function is called as its file is
)

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


class C99(ExportTarget):
    """A C function."""

    name: ClassVar[str] = "C99"
    suffix: ClassVar[str] = ".c"

    def write(self, context: ExportContext) -> bytes:
        return (CSource(context).render() + "\n").encode("ascii")

    def run(
        self,
        content: bytes,
        context: ExportContext,
        rows: InputRows,
        flags: Sequence[str] = COMPILER_FLAGS,
    ) -> NDArray[np.int64]:
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            raise ToolMissing("no C compiler was found")
        source = CSource(context)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "rule.c").write_bytes(content)
            Path(folder, "main.c").write_text(source.render_harness(), encoding="ascii")
            command = [compiler, *flags, "main.c", "-o", "main"]
            compilation = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if compilation.returncode:
                raise FileError(
                    "the C that was written must compile", value=compilation.stderr[:500]
                )
            inputs = source.encode_rows(rows)
            process = subprocess.run([str(Path(folder, "main"))], input=inputs, capture_output=True)
            if process.returncode:
                raise FileError("the C that was written must run", value=str(process.stderr[:500]))
        return source.decode_output(process.stdout)


class CSource:
    """The text of one rule in C, and a program that asks it about rows."""

    def __init__(self, context: ExportContext) -> None:
        self.draft = context
        self.grid = context.grid
        self.function_name = derive_identifier(context.stem, RESERVED_WORDS | LIBRARY_NAMES)
        parts = make_identifiers([*context.action_columns], subject="part")
        self.table_names = {name: f"{self.function_name}_{part}" for name, part in parts.items()}
        reserved = (*RESERVED_WORDS, *LOCAL_NAMES, self.function_name, *self.table_names.values())
        self.axis_names = make_identifiers(self.grid.axes, reserved)

    def render(self) -> str:
        lines = ["/*", *(f" * {to_comment_text(line)}" for line in self.draft.header_lines)]
        lines += [f" * {to_comment_text(line)}" for line in self._name_comments()]
        has_text_axis = any(is_text_axis(self.grid, axis) for axis in self.grid.axes)
        lines += [
            " */",
            *(["#include <string.h>"] if has_text_axis else []),
            "",
            f"{self.signature};",
        ]
        lines += [self._declare_table(name) for name in self.draft.action_columns]
        body = [*self._node_lines(self.draft.root, 1)]
        uses_total = any(line.lstrip().startswith("total = ") for line in body)
        declarations = ["    double total;"] if uses_total else []
        lines += ["", self.signature, "{", *declarations, *self._guard_lines(), *body, "}"]
        return "\n".join(lines)

    def _name_comments(self) -> Iterator[str]:
        """What is called otherwise than in the model, and how to call it."""
        for name, safe in self.axis_names.items():
            if name != safe:
                yield f"{safe} is the axis {name}"
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
        values = self.draft.action_columns[name]
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
                is_known = self._label_test(axis, self.draft.axis_labels(axis))
                yield f"    if (!{name} || !({is_known})) return -1;"
            elif self.draft.off_grid == "clamp":
                low, high = map(format_number, axis_ends(self.grid, axis))
                yield f"    if (!({name} == {name})) return -1;"
                yield f"    if ({name} < {low}) {name} = {low};"
                yield f"    if ({name} > {high}) {name} = {high};"
            else:
                yield from self._grid_check_lines(axis)

    def _grid_check_lines(self, axis: str) -> Iterator[str]:
        name = self.axis_names[axis]
        values = self.draft.axis_values(axis)
        yield "    {"
        yield f"        static const double known[] = {{{', '.join(map(format_number, values))}}};"
        yield "        int i = 0;"
        yield f"        while (i < {len(values)} && known[i] != {name}) i++;"
        yield f"        if (i == {len(values)}) return -1;"
        yield "    }"

    def _label_test(self, axis: str, labels: Sequence[str]) -> str:
        name = self.axis_names[axis]
        return " || ".join(f"strcmp({name}, {format_c_string(label)}) == 0" for label in labels)

    def _node_lines(self, node: Node, depth: int) -> Iterator[str]:
        """The lines of a node; every way through them ends in a return."""
        pad = "    " * depth
        if isinstance(node, Leaf):
            comment = to_comment_text(self.draft.describe_action(node.action))
            yield f"{pad}return {node.action}; /* {comment} */"
        elif isinstance(node, Split):
            yield from self._split_lines(node, depth)
        elif isinstance(node, LabelSplit):
            yield f"{pad}if ({self._label_test(node.axis, node.labels)}) {{"
            yield from self._node_lines(node.inside, depth + 1)
            yield f"{pad}}}"
            yield from self._node_lines(node.outside, depth)
        elif isinstance(node, Exceptions):
            for state, action in zip(node.places, node.actions, strict=True):
                cell = nearest_cell(self.grid, state)
                yield f"{pad}if ({' && '.join(map(self._format_condition, cell))})"
                yield from self._node_lines(Leaf(action), depth + 1)
            yield from self._node_lines(node.otherwise, depth)

    def _split_lines(self, node: Split, depth: int) -> Iterator[str]:
        pad = "    " * depth
        axis = single_axis(node.weights)
        operand = "total" if axis is None else self.axis_names[axis]
        if axis is None:
            yield f"{pad}total = {self._format_sum(node.weights)};"
        for step in list_branch_tests(node):
            if step.test:
                yield f"{pad}if ({operand} {step.test} {format_number(step.cut)}) {{"
                yield from self._node_lines(step.node, depth + 1)
                yield f"{pad}}}"
            else:
                yield from self._node_lines(step.node, depth)

    def _format_sum(self, weights: Sequence[tuple[str, float]]) -> str:
        parts = (f"{format_number(weight)} * {self.axis_names[name]}" for name, weight in weights)
        return " + ".join(parts)

    def _format_condition(self, condition: Condition) -> str:
        if not isinstance(condition, SumRange):
            return f"({self._label_test(condition.axis, condition.labels)})"
        name = self.axis_names[condition.weights[0][0]]
        ends = [] if math.isinf(condition.low) else [f"{name} > {format_number(condition.low)}"]
        ends += [] if math.isinf(condition.high) else [f"{name} <= {format_number(condition.high)}"]
        return " && ".join(ends) or "1"

    def render_harness(self) -> str:
        """A program that reads rows and prints what the function says."""
        texts = [is_text_axis(self.grid, axis) for axis in self.grid.axes]
        read = [
            f"        char *{HARNESS_PREFIX}x{i} = {HARNESS_PREFIX}text();"
            if text
            else f"        double {HARNESS_PREFIX}x{i} = {HARNESS_PREFIX}number();"
            for i, text in enumerate(texts)
        ]
        free = [f"        free({HARNESS_PREFIX}x{i});" for i, text in enumerate(texts) if text]
        call = (
            f"{self.function_name}({', '.join(f'{HARNESS_PREFIX}x{i}' for i in range(len(texts)))})"
        )
        parts = {"values": self._print_lines(), "read": read, "free": free, "call": [call]}
        text = HARNESS_SOURCE
        for part, lines in parts.items():
            text = text.replace(f"@{part}@", "\n".join(lines))
        return text

    def _print_lines(self) -> list[str]:
        """Lines that print the table of actions, each value with its length before it."""
        lines = []
        for name, values in self.draft.action_columns.items():
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
        for values in self.draft.action_columns.values():
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


def format_number(value: float) -> str:
    """A number as C, Python and SQL read it."""
    if float(value) != value:
        raise FileError("a number must be exact as a double", value=f"got {value!r}")
    return repr(float(value))


def format_c_string(text: str) -> str:
    """A text as a C string: UTF-8, everything but letters, digits and spaces in octal."""
    return f'"{"".join(map(_escape_byte, require_no_nul(text, "C").encode()))}"'


def _escape_byte(byte: int) -> str:
    return chr(byte) if byte == 32 or (byte < 128 and chr(byte).isalnum()) else f"\\{byte:03o}"
