"""Where the keys of a TOML document stand: from key paths to lines.

``tomllib`` says what a document holds, and not where. This walks over the same text, looks at
nothing but keys, brackets and the ends of values, and notes the line of each path: keys and
positions, as in ``("stages", 1, "pays")``. What it cannot follow is left to ``tomllib`` to refuse.

It comes before ``tomllib`` and keeps from it what that would take too long over, or fail on:
nesting, long keys and long numbers. As paths have a bounded length, and only what is new is noted,
the time is in proportion to the text.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

KeyPath = tuple[str | int, ...]

BRACKETS_MAX_DEPTH = 16  # brackets within brackets
KEY_MAX_PARTS = 16  # parts of a dotted key
KEY_PATH_MAX_PARTS = 24  # parts of a path: keys and positions, of whatever brackets
SCALAR_MAX_CHARACTERS = 64  # characters of a number, a date or a truth value

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}' r"|'''.*?'{3,5}" r'|"(?:[^"\\\n]|\\.)*"' r"|'[^'\n]*'", re.DOTALL
)
SCALAR = re.compile(r"[^,\]}#\n]+")


class LimitError(Exception):
    """A document goes beyond what is read: where, and how."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


class _SyntaxLostError(Exception):
    """This is no TOML."""


@dataclass
class LineNumbers:
    """The line of every key path that was found."""

    by_path: dict[KeyPath, int] = field(default_factory=dict)

    def find(self, path: KeyPath) -> int:
        """The line of ``path``, or of what it stands in."""
        while path and path not in self.by_path:
            path = path[:-1]
        return self.by_path.get(path, 1)


def find_lines(text: str) -> LineNumbers:
    """The lines of all key paths of a TOML document; ``LimitError`` where it goes too far."""
    return _Scanner(text.replace("\r\n", "\n")).scan()


class _Scanner:
    """One way through a document."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.line_starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self.line_numbers = LineNumbers()
        self.table_counts: dict[KeyPath, int] = {}  # how many [[tables]] of a name there are so far

    def scan(self) -> LineNumbers:
        table: KeyPath = ()
        try:
            while not self._is_at_end():
                if self._accept("["):
                    table = self._read_header()
                else:
                    self._read_pair(table, 0)
        except _SyntaxLostError:
            pass
        return self.line_numbers

    @property
    def line(self) -> int:
        return bisect_right(self.line_starts, self.position)

    def _is_at_end(self) -> bool:
        self._skip()
        return self.position >= len(self.text)

    def _skip(self, pattern: re.Pattern = BLANK) -> None:
        match = pattern.match(self.text, self.position)
        self.position = match.end() if match else self.position

    def _accept(self, word: str) -> bool:
        if not self.text.startswith(word, self.position):
            return False
        self.position += len(word)
        return True

    def _record_line(self, path: KeyPath, line: int) -> None:
        """The line of a path, and of all that it begins with and was not there before."""
        if len(path) > KEY_PATH_MAX_PARTS:
            requirement = (
                f"tables and lists stand within one another, at most {KEY_PATH_MAX_PARTS} keys deep"
            )
            raise LimitError(line, requirement)
        while path and path not in self.line_numbers.by_path:
            self.line_numbers.by_path[path] = line
            path = path[:-1]

    def _read_header(self) -> KeyPath:
        line = self.line
        is_repeated = self._accept("[")
        *parents, last = self._read_keys()
        if not self._accept("]]" if is_repeated else "]"):
            raise _SyntaxLostError
        path = (*self._resolve_path(parents), last)
        if is_repeated:
            self._record_line(path, line)
            self.table_counts[path] = self.table_counts.get(path, 0) + 1
        path = self._resolve_path([*parents, last])
        self._record_line(path, line)
        return path

    def _resolve_path(self, keys: list[str]) -> KeyPath:
        """The path that a header means: of repeated tables it means the latest."""
        path: KeyPath = ()
        for key in keys:
            path = (*path, key)
            if path in self.table_counts:
                path = (*path, self.table_counts[path] - 1)
        return path

    def _read_pair(self, table: KeyPath, depth: int) -> None:
        line = self.line
        path = (*table, *self._read_keys())
        if not self._accept("="):
            raise _SyntaxLostError
        self._record_line(path, line)
        self._skip(re.compile(r"[ \t]*"))
        self._read_value(path, depth)

    def _read_keys(self) -> list[str]:
        keys = [*self._read_key_parts()]
        if len(keys) > KEY_MAX_PARTS:
            raise LimitError(self.line, f"a key has at most {KEY_MAX_PARTS} parts")
        return keys

    def _read_key_parts(self) -> Iterator[str]:
        blank = re.compile(r"[ \t]*")
        for count in range(KEY_MAX_PARTS + 1):
            self._skip(blank)
            yield self._read_key_part()
            self._skip(blank)
            if count == KEY_MAX_PARTS or not self._accept("."):
                return

    def _read_key_part(self) -> str:
        quoted = self.text[self.position : self.position + 1] in ("'", '"')
        match = (STRING if quoted else BARE_KEY).match(self.text, self.position)
        if not match:
            raise _SyntaxLostError
        self.position = match.end()
        return _unquote(match.group()) if quoted else match.group()

    def _read_value(self, path: KeyPath, depth: int) -> None:
        if depth > BRACKETS_MAX_DEPTH:
            raise LimitError(self.line, f"brackets stand at most {BRACKETS_MAX_DEPTH} deep")
        if self._accept("["):
            self._read_array(path, depth + 1)
        elif self._accept("{"):
            self._read_inline_table(path, depth + 1)
        else:
            self._read_scalar()

    def _read_array(self, path: KeyPath, depth: int) -> None:
        index = 0
        self._skip()
        while not self._accept("]"):
            self._record_line((*path, index), self.line)
            self._read_value((*path, index), depth)
            index += 1
            self._read_comma("]")

    def _read_inline_table(self, path: KeyPath, depth: int) -> None:
        self._skip()
        while not self._accept("}"):
            self._read_pair(path, depth)
            self._read_comma("}")

    def _read_comma(self, end: str) -> None:
        self._skip()
        if not self._accept(",") and not self.text.startswith(end, self.position):
            raise _SyntaxLostError
        self._skip()

    def _read_scalar(self) -> None:
        quoted = self.text[self.position : self.position + 1] in ("'", '"')
        match = (STRING if quoted else SCALAR).match(self.text, self.position)
        if not match:
            raise _SyntaxLostError
        if not quoted and len(match.group().strip()) > SCALAR_MAX_CHARACTERS:
            raise LimitError(self.line, f"a number has at most {SCALAR_MAX_CHARACTERS} characters")
        self.position = match.end()


def _unquote(key: str) -> str:
    if "\\" not in key:
        return key[1:-1]
    try:
        return tomllib.loads(f"key = {key}")["key"]
    except ValueError:
        raise _SyntaxLostError from None
