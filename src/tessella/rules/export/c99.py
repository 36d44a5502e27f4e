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
from tessella.mdp.program import Among, Choose, Except, Node, Split
from tessella.rules.export.draft import OTHER, Draft, Rows
from tessella.rules.export.lowered import Condition, Range, alone, cell, is_text, span, steps
from tessella.rules.export.names import derived, identifiers, plain, refuse_nul
from tessella.rules.export.target import Absent, Target

# Of C and C++, and what headers and compilers define besides.
RESERVED = frozenset(
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
MATHS = """
acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh drem erf erfc exp exp10 exp2
expm1 fabs fdim floor fma fmax fmin fmod frexp gamma hypot ilogb j0 j1 jn ldexp lgamma llrint
llround log log10 log1p log2 logb lrint lround modf nan nearbyint nextafter nexttoward pow pow10
remainder remquo rint round scalb scalbln scalbn significand sin sincos sinh sqrt tan tanh tgamma
trunc y0 y1 yn cabs carg cexp cimag clog conj cpow cproj creal csin ccos ctan csqrt
"""
# Of the C library and of systems: a function of such a name would take the place of theirs.
LIBRARY = frozenset(
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
) | {f"{name}{kind}" for name in MATHS.split() for kind in ("", "f", "l")}
OWN = ("total", "i", "known")
STRICT = ("-std=c99",)
HERE = "tessella_harness_"  # names of the program that asks; a function is called as its file is

HARNESS = """
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


class C99(Target):
    """A C function."""

    name: ClassVar[str] = "C99"
    suffix: ClassVar[str] = ".c"

    def write(self, draft: Draft) -> bytes:
        return (Source(draft).text() + "\n").encode("ascii")

    def run(
        self, content: bytes, draft: Draft, rows: Rows, flags: Sequence[str] = STRICT
    ) -> NDArray[np.int64]:
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            raise Absent("no C compiler was found")
        source = Source(draft)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "rule.c").write_bytes(content)
            Path(folder, "main.c").write_text(source.harness(), encoding="ascii")
            command = [compiler, *flags, "main.c", "-o", "main"]
            built = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            if built.returncode:
                raise FileError("the C that was written must compile", value=built.stderr[:500])
            given = source.given(rows)
            ran = subprocess.run([str(Path(folder, "main"))], input=given, capture_output=True)
            if ran.returncode:
                raise FileError("the C that was written must run", value=str(ran.stderr[:500]))
        return source.said(ran.stdout)


class Source:
    """The text of one rule in C, and a program that asks it about rows."""

    def __init__(self, draft: Draft) -> None:
        self.draft, self.grid = draft, draft.grid
        self.function = derived(draft.stem, RESERVED | LIBRARY)
        parts = identifiers([*draft.columns], what="part")
        self.tables = {name: f"{self.function}_{part}" for name, part in parts.items()}
        taken = (*RESERVED, *OWN, self.function, *self.tables.values())
        self.names = identifiers(self.grid.axes, taken)

    def text(self) -> str:
        lines = ["/*", *(f" * {plain(line)}" for line in self.draft.about)]
        lines += [f" * {plain(line)}" for line in self._mapped()]
        text = any(is_text(self.grid, axis) for axis in self.grid.axes)
        lines += [" */", *(["#include <string.h>"] if text else []), "", f"{self.signature};"]
        lines += [self._declared(name) for name in self.draft.columns]
        said = [*self._said(self.draft.root, 1)]
        adds = any(line.lstrip().startswith("total = ") for line in said)
        sums = ["    double total;"] if adds else []
        lines += ["", self.signature, "{", *sums, *self._guards(), *said, "}"]
        return "\n".join(lines)

    def _mapped(self) -> Iterator[str]:
        """What is called otherwise than in the model, and how to call it."""
        for name, safe in self.names.items():
            if name != safe:
                yield f"{safe} is the axis {name}"
        yield f"{self.function}(...) is the index of an action, or -1 for what is refused;"
        for name, table in self.tables.items():
            yield f"{table}[index] is what to do ({name})"

    @property
    def signature(self) -> str:
        kinds = ((name, is_text(self.grid, name)) for name in self.grid.axes)
        parts = (f"{'const char *' if text else 'double '}{self.names[n]}" for n, text in kinds)
        return f"int {self.function}({', '.join(parts)})"

    def _declared(self, name: str) -> str:
        values = self.draft.columns[name]
        if isinstance(values[0], str):
            kind, words = "char *const ", [literal(v) for v in values]
        else:
            kind, words = "double ", [number(v) for v in values]
        table = f"{self.tables[name]}[{len(values)}]"
        return f"extern const {kind}{table};\nconst {kind}{table} = {{{', '.join(words)}}};"

    def _guards(self) -> Iterator[str]:
        for axis in self.grid.axes:
            name = self.names[axis]
            if is_text(self.grid, axis):
                yield f"    if (!{name} || !({self._is(axis, self.draft.labels(axis))})) return -1;"
            elif self.draft.off_grid == "clamp":
                low, high = map(number, span(self.grid, axis))
                yield f"    if (!({name} == {name})) return -1;"
                yield f"    if ({name} < {low}) {name} = {low};"
                yield f"    if ({name} > {high}) {name} = {high};"
            else:
                yield from self._on_grid(axis)

    def _on_grid(self, axis: str) -> Iterator[str]:
        name, values = self.names[axis], self.draft.values(axis)
        yield "    {"
        yield f"        static const double known[] = {{{', '.join(map(number, values))}}};"
        yield "        int i = 0;"
        yield f"        while (i < {len(values)} && known[i] != {name}) i++;"
        yield f"        if (i == {len(values)}) return -1;"
        yield "    }"

    def _is(self, axis: str, labels: Sequence[str]) -> str:
        name = self.names[axis]
        return " || ".join(f"strcmp({name}, {literal(label)}) == 0" for label in labels)

    def _said(self, node: Node, depth: int) -> Iterator[str]:
        """The lines of a node; every way through them ends in a return."""
        pad = "    " * depth
        if isinstance(node, Choose):
            yield f"{pad}return {node.action}; /* {plain(self.draft.described(node.action))} */"
        elif isinstance(node, Split):
            yield from self._split(node, depth)
        elif isinstance(node, Among):
            yield f"{pad}if ({self._is(node.axis, node.labels)}) {{"
            yield from self._said(node.inside, depth + 1)
            yield f"{pad}}}"
            yield from self._said(node.outside, depth)
        elif isinstance(node, Except):
            for place, action in zip(node.places, node.actions, strict=True):
                yield f"{pad}if ({' && '.join(map(self._condition, cell(self.grid, place)))})"
                yield from self._said(Choose(action), depth + 1)
            yield from self._said(node.otherwise, depth)

    def _split(self, node: Split, depth: int) -> Iterator[str]:
        pad, axis = "    " * depth, alone(node.weights)
        of = "total" if axis is None else self.names[axis]
        if axis is None:
            yield f"{pad}total = {self._sum(node.weights)};"
        for step in steps(node):
            if step.test:
                yield f"{pad}if ({of} {step.test} {number(step.cut)}) {{"
                yield from self._said(step.node, depth + 1)
                yield f"{pad}}}"
            else:
                yield from self._said(step.node, depth)

    def _sum(self, weights: Sequence[tuple[str, float]]) -> str:
        parts = (f"{number(weight)} * {self.names[name]}" for name, weight in weights)
        return " + ".join(parts)

    def _condition(self, condition: Condition) -> str:
        if not isinstance(condition, Range):
            return f"({self._is(condition.axis, condition.labels)})"
        name = self.names[condition.weights[0][0]]
        ends = [] if math.isinf(condition.low) else [f"{name} > {number(condition.low)}"]
        ends += [] if math.isinf(condition.high) else [f"{name} <= {number(condition.high)}"]
        return " && ".join(ends) or "1"

    def harness(self) -> str:
        """A program that reads rows and prints what the function says."""
        texts = [is_text(self.grid, axis) for axis in self.grid.axes]
        read = [
            f"        char *{HERE}x{i} = {HERE}text();"
            if text
            else f"        double {HERE}x{i} = {HERE}number();"
            for i, text in enumerate(texts)
        ]
        free = [f"        free({HERE}x{i});" for i, text in enumerate(texts) if text]
        call = f"{self.function}({', '.join(f'{HERE}x{i}' for i in range(len(texts)))})"
        parts = {"values": self._printed(), "read": read, "free": free, "call": [call]}
        text = HARNESS
        for part, lines in parts.items():
            text = text.replace(f"@{part}@", "\n".join(lines))
        return text

    def _printed(self) -> list[str]:
        """Lines that print the table of actions, each value with its length before it."""
        lines = []
        for name, values in self.draft.columns.items():
            at = f"{self.tables[name]}[i]"
            shown = f'printf("%lu:%s\\n", (unsigned long)strlen({at}), {at})'
            if not isinstance(values[0], str):
                shown = f'printf("%.17g\\n", {at})'
            lines += [f"    for (i = 0; i < {len(values)}; i++) {shown};"]
        return lines

    def given(self, rows: Rows) -> bytes:
        """Rows as the program reads them."""
        columns = []
        for axis in self.grid.axes:
            if is_text(self.grid, axis):
                words = [str(value).encode() for value in rows[axis]]
                columns.append([b"%d:" % len(word) + word for word in words])
            else:
                columns.append([repr(float(value)).encode() for value in rows[axis]])
        lines = [b" ".join(row) for row in zip(*columns, strict=True)]
        return b"\n".join([b"%d" % len(lines), *lines, b""])

    def said(self, printed: bytes) -> NDArray[np.int64]:
        """What the program printed: indices; all wrong if its table of actions is."""
        right = True
        for values in self.draft.columns.values():
            for value in values:
                found, printed = _first(printed, isinstance(value, str))
                right &= found == value
        said = np.array(printed.split(), dtype=np.int64)
        return said if right else np.full_like(said, OTHER)


def _first(printed: bytes, text: bool) -> tuple[float | str, bytes]:
    """The first value that the program printed, and what follows it."""
    if not text:
        line, _, rest = printed.partition(b"\n")
        return float(line), rest
    size, _, rest = printed.partition(b":")
    return rest[: int(size)].decode(), rest[int(size) + 1 :]


def number(value: float) -> str:
    """A number as C, Python and SQL read it."""
    if float(value) != value:
        raise FileError("a number must be exact as a double", value=f"got {value!r}")
    return repr(float(value))


def literal(text: str) -> str:
    """A text as a C string: UTF-8, everything but letters, digits and spaces in octal."""
    return f'"{"".join(map(_char, refuse_nul(text, "C").encode()))}"'


def _char(byte: int) -> str:
    return chr(byte) if byte == 32 or (byte < 128 and chr(byte).isalnum()) else f"\\{byte:03o}"
