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

Path = tuple[str | int, ...]

DEEPEST = 16  # brackets within brackets
MOST_PARTS = 16  # of a dotted key
LONGEST_PATH = 24  # parts of a path: keys and positions, of whatever brackets
LONGEST_WORD = 64  # characters of a number, a date or a truth value

BARE = re.compile(r"[A-Za-z0-9_-]+")
BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
STRING = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}' r"|'''.*?'{3,5}" r'|"(?:[^"\\\n]|\\.)*"' r"|'[^'\n]*'", re.DOTALL
)
WORD = re.compile(r"[^,\]}#\n]+")


class BeyondError(Exception):
    """A document goes beyond what is read: where, and how."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line, self.text = line, text


class _LostError(Exception):
    """This is no TOML."""


@dataclass
class Lines:
    """The line of every key path that was found."""

    of: dict[Path, int] = field(default_factory=dict)

    def at(self, path: Path) -> int:
        """The line of ``path``, or of what it stands in."""
        while path and path not in self.of:
            path = path[:-1]
        return self.of.get(path, 1)


def find_lines(text: str) -> Lines:
    """The lines of all key paths of a TOML document; ``BeyondError`` where it goes too far."""
    return _Walk(text.replace("\r\n", "\n")).walk()


class _Walk:
    """One way through a document."""

    def __init__(self, text: str) -> None:
        self.text, self.here = text, 0
        self.starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self.found = Lines()
        self.repeated: dict[Path, int] = {}  # how many [[tables]] of a name there are so far

    def walk(self) -> Lines:
        table: Path = ()
        try:
            while not self._ended():
                if self._takes("["):
                    table = self._header()
                else:
                    self._pair(table, 0)
        except _LostError:
            pass
        return self.found

    @property
    def line(self) -> int:
        return bisect_right(self.starts, self.here)

    def _ended(self) -> bool:
        self._skip()
        return self.here >= len(self.text)

    def _skip(self, pattern: re.Pattern = BLANK) -> None:
        found = pattern.match(self.text, self.here)
        self.here = found.end() if found else self.here

    def _takes(self, word: str) -> bool:
        if not self.text.startswith(word, self.here):
            return False
        self.here += len(word)
        return True

    def _note(self, path: Path, line: int) -> None:
        """The line of a path, and of all that it begins with and was not there before."""
        if len(path) > LONGEST_PATH:
            rule = f"tables and lists stand within one another, at most {LONGEST_PATH} keys deep"
            raise BeyondError(line, rule)
        while path and path not in self.found.of:
            self.found.of[path] = line
            path = path[:-1]

    def _header(self) -> Path:
        line, several = self.line, self._takes("[")
        *above, last = self._keys()
        if not self._takes("]]" if several else "]"):
            raise _LostError
        path = (*self._resolved(above), last)
        if several:
            self._note(path, line)
            self.repeated[path] = self.repeated.get(path, 0) + 1
        path = self._resolved([*above, last])
        self._note(path, line)
        return path

    def _resolved(self, keys: list[str]) -> Path:
        """The path that a header means: of repeated tables it means the latest."""
        path: Path = ()
        for key in keys:
            path = (*path, key)
            if path in self.repeated:
                path = (*path, self.repeated[path] - 1)
        return path

    def _pair(self, table: Path, depth: int) -> None:
        line = self.line
        path = (*table, *self._keys())
        if not self._takes("="):
            raise _LostError
        self._note(path, line)
        self._skip(re.compile(r"[ \t]*"))
        self._value(path, depth)

    def _keys(self) -> list[str]:
        keys = [*self._parts()]
        if len(keys) > MOST_PARTS:
            raise BeyondError(self.line, f"a key has at most {MOST_PARTS} parts")
        return keys

    def _parts(self) -> Iterator[str]:
        blank = re.compile(r"[ \t]*")
        for count in range(MOST_PARTS + 1):
            self._skip(blank)
            yield self._part()
            self._skip(blank)
            if count == MOST_PARTS or not self._takes("."):
                return

    def _part(self) -> str:
        quoted = self.text[self.here : self.here + 1] in ("'", '"')
        found = (STRING if quoted else BARE).match(self.text, self.here)
        if not found:
            raise _LostError
        self.here = found.end()
        return _unquoted(found.group()) if quoted else found.group()

    def _value(self, path: Path, depth: int) -> None:
        if depth > DEEPEST:
            raise BeyondError(self.line, f"brackets stand at most {DEEPEST} deep")
        if self._takes("["):
            self._array(path, depth + 1)
        elif self._takes("{"):
            self._inline(path, depth + 1)
        else:
            self._scalar()

    def _array(self, path: Path, depth: int) -> None:
        position = 0
        self._skip()
        while not self._takes("]"):
            self._note((*path, position), self.line)
            self._value((*path, position), depth)
            position += 1
            self._comma("]")

    def _inline(self, path: Path, depth: int) -> None:
        self._skip()
        while not self._takes("}"):
            self._pair(path, depth)
            self._comma("}")

    def _comma(self, end: str) -> None:
        self._skip()
        if not self._takes(",") and not self.text.startswith(end, self.here):
            raise _LostError
        self._skip()

    def _scalar(self) -> None:
        quoted = self.text[self.here : self.here + 1] in ("'", '"')
        found = (STRING if quoted else WORD).match(self.text, self.here)
        if not found:
            raise _LostError
        if not quoted and len(found.group().strip()) > LONGEST_WORD:
            raise BeyondError(self.line, f"a number has at most {LONGEST_WORD} characters")
        self.here = found.end()


def _unquoted(key: str) -> str:
    if "\\" not in key:
        return key[1:-1]
    try:
        return tomllib.loads(f"key = {key}")["key"]
    except ValueError:
        raise _LostError from None
