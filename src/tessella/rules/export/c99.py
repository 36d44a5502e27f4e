"""C99: one function from the coordinates of a state to an action.

    int reorder(double stock, const char *season);     the index, or -1 for invalid input
    const double reorder_order[5];                      the values of the indices

It needs ``strcmp`` for text axes, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tessella.mdp.rule_tree import is_text_axis
from tessella.rules.export.code import CompiledFormat, CompiledPrinter
from tessella.rules.export.export_context import (
    derive_identifier,
    require_no_nul,
)

# Keywords of C and C++, and names that headers and compilers define.
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
# Functions of the C library and of systems, which a function of the same name would replace.
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
    f"{name}{suffix}" for name in C_MATH_FUNCTIONS.split() for suffix in ("", "f", "l")
}
C_LOCAL_NAMES = frozenset({"i", "known"})

HARNESS_SOURCE = """
#include <stdio.h>
#include <string.h>
#include "rule.c"
@labels@
int main(void)
{
    double tessella_row[@width@];
    int i;
@tables@
    for (;;) {
        for (i = 0; i < @width@; i++)
            if (scanf("%lf", &tessella_row[i]) != 1) return 0;
        printf("%d\\n", @call@);
    }
}
"""


class CPrinter(CompiledPrinter):
    """The text of one rule in C, and a program that runs it on rows."""

    comment = " * {}"
    label_guard = "if (!{name} || !({test})) return -1;"
    clamp_guard = (
        "if (!({name} == {name})) return -1;\n"
        "if ({name} < {low}) {name} = {low};\n"
        "if ({name} > {high}) {name} = {high};"
    )
    grid_guard = (
        "{{\n"
        "    static const double known[] = {{{values}}};\n"
        "    int i = 0;\n"
        "    while (i < {count} && known[i] != {name}) i++;\n"
        "    if (i == {count}) return -1;\n"
        "}}"
    )
    return_index = "return {}; /* {} */"
    assign_total = "total = {};"
    if_block = "if ({}) {{"
    block_end = "}"
    if_return = "if ({})"
    label_condition = "({})"
    true = "1"
    number_type = "double "
    text_type = "char *const "
    table_declaration = (
        "extern const {type}{table}[{count}];\nconst {type}{table}[{count}] = {{{values}}};"
    )
    print_numbers = '    for (i = 0; i < {count}; i++) printf("%.17g\\n", {table}[i]);'
    print_texts = (
        "    for (i = 0; i < {count}; i++)\n"
        '        printf("%lu:%s\\n", (unsigned long)strlen({table}[i]), {table}[i]);'
    )
    row_number = "tessella_row[{position}]"
    row_label = "{table}[(int)tessella_row[{position}]]"
    reserved_words = C_RESERVED_WORDS | C_LOCAL_NAMES
    harness = HARNESS_SOURCE

    def name_function(self, stem: str) -> str:
        return derive_identifier(stem, C_RESERVED_WORDS | C_LIBRARY_NAMES)

    def name_table(self, part: str) -> str:
        return f"{self.function_name}_{part}"

    def render(self) -> str:
        types = [
            "const char *" if is_text_axis(self.grid, axis) else "double "
            for axis in self.grid.axes
        ]
        arguments = map("".join, zip(types, self.axis_names.values(), strict=True))
        signature = f"int {self.function_name}({', '.join(arguments)})"
        lines = ["/*", *self.comment_lines(*self.list_usage()), " */"]
        if any(is_text_axis(self.grid, axis) for axis in self.grid.axes):
            lines += ["#include <string.h>"]
        lines += ["", f"{signature};", *self.declare_action_tables(), ""]
        lines += [signature, "{", *(["    double total;"] if self.uses_total else [])]
        return "\n".join([*lines, *self.body_lines(), "}"])

    def format_label_test(self, axis: str, labels: Sequence[str]) -> str:
        name = self.axis_names[axis]
        return " || ".join(f"strcmp({name}, {self.format_text(label)}) == 0" for label in labels)

    def format_text(self, text: str) -> str:
        """UTF-8, everything but letters, digits and spaces in octal."""
        return f'"{"".join(map(_escape_byte, require_no_nul(text, "C").encode()))}"'


def _escape_byte(byte: int) -> str:
    return chr(byte) if byte == 32 or (byte < 128 and chr(byte).isalnum()) else f"\\{byte:03o}"


class C99(CompiledFormat):
    """A C function."""

    name: ClassVar[str] = "C99"
    suffix: ClassVar[str] = ".c"
    printer = CPrinter
    compilers = ("gcc", "cc")
    flags = ("-std=c99",)
