"""A model file as it was read: its content, the line of each part, and its mistakes.

All mistakes are reported at once, each with its line and the nearest name:
``model.toml:12: unknown axis 'stok'; did you mean 'stock'?``

``tomllib`` gives the content of a document without lines. ``find_lines`` scans the same text, reads
only keys, brackets and the ends of values, and records the line of each key path: keys and
positions, as in ``("stages", 1, "pays")``. What it cannot follow, ``tomllib`` rejects.

It runs before ``tomllib`` and rejects what that would take too long for, or fail on: deep nesting,
long keys and long numbers. Paths have a bounded length and each is recorded once, so the time is
proportional to the text.
"""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tessella.errors import FileError, TessellaError, find_closest, format_brief
from tessella.files import read_file_bytes
from tessella.mdp.state_action_space import FUNCTION_MAX_ENTRIES

REPORTED_MAX_MISTAKES = 50  # mistakes that are reported at once
MESSAGE_MAX_CHARACTERS = 500  # characters of a message
TEXT_MAX_CHARACTERS = 100  # characters of a name or a value that a model shows
LISTED_MAX_NAMES = 20  # names that a message lists
KeyPath = tuple[str | int, ...]
BRACKETS_MAX_DEPTH = 16  # brackets within brackets
KEY_MAX_PARTS = 16  # parts of a dotted key
KEY_PATH_MAX_PARTS = 24  # parts of a path: keys and positions, of whatever brackets
NOTED_MAX_MISTAKES = 4 * REPORTED_MAX_MISTAKES  # mistakes after which none are noted any more
SCALAR_MAX_CHARACTERS = 64  # characters of a number, a date or a truth value
BLANK = re.compile(r"(?:[ \t\n]|#[^\n]*)*")
INLINE_BLANK = re.compile(r"[ \t]*")
STRING = r'"""(?:[^\\]|\\.)*?"{3,5}' r"|'''.*?'{3,5}" r'|"(?:[^"\\\n]|\\.)*"' r"|'[^'\n]*'"
KEY = re.compile(rf"[A-Za-z0-9_-]+|{STRING}", re.DOTALL)
VALUE = re.compile(rf"(?![\"'])[^,\]}}#\n]+|{STRING}", re.DOTALL)  # a string, or up to its end
QUOTES = ("'", '"')


@dataclass(frozen=True)
class Mistake:
    """A mistake: the file as the user named it, the line, and what is wrong there."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


class ModelFileError(FileError):
    """A model file has mistakes; they are listed in ``mistakes``, in the order of their lines.

    Beyond ``REPORTED_MAX_MISTAKES``, ``more`` says how many others: ``30``, ``at least 150``.
    """

    def __init__(self, mistakes: Sequence[Mistake], more: str = "") -> None:
        self.mistakes = tuple(mistakes)
        self.more = more
        rest = [f"and {more} more"] if more else []
        super().__init__("\n".join([*map(str, self.mistakes), *rest]))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.mistakes, self.more), vars(self)


def suggest_name(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'stock'?``, or all known names where none is similar."""
    names = [*dict.fromkeys(known)]
    closest = find_closest(name, names)
    if closest is not None:
        return f"; did you mean {closest!r}?"
    if not names:
        return "; there are none"
    n_unlisted = len(names) - LISTED_MAX_NAMES
    more_text = f" and {n_unlisted} more" if n_unlisted > 0 else ""
    return f"; there are {', '.join(names[:LISTED_MAX_NAMES])}{more_text}"


def to_printable(text: str) -> str:
    """A text with spaces in the place of what cannot be printed."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


def to_one_line(text: str) -> str:
    """A message on one line that can be printed, and not too long."""
    words = " ".join(to_printable(text[: 2 * MESSAGE_MAX_CHARACTERS]).split())
    is_long = len(words) > MESSAGE_MAX_CHARACTERS
    return f"{words[: MESSAGE_MAX_CHARACTERS - 3]}..." if is_long else words


def find_text_fault(text: str) -> str | None:
    """Why a text cannot be shown, None if it can; control characters would act on a terminal."""
    if len(text) > TEXT_MAX_CHARACTERS:
        return f"has at most {TEXT_MAX_CHARACTERS} characters; got {len(text):,}"
    if not text.isprintable():
        return f"must be printable, on one line; got {format_brief(text)}"
    return None


@dataclass(frozen=True)
class ReadLimits:
    """How much is read, and how large a model may be; a file of a few lines cannot ask for more."""

    model_file_max_bytes: int = 1 << 20  # long data belong in a CSV file
    csv_max_bytes: int = 16 << 20  # of one file
    csv_max_total_bytes: int = 32 << 20  # of all that a model file names
    csv_max_rows: int = 1_000_000
    max_states: int = 20_000_000  # scratch axes and time included
    max_actions: int = 100_000
    max_pairs: int = 200_000_000  # of states and actions, where some are infeasible
    max_entries: int = FUNCTION_MAX_ENTRIES  # of all expressions together


class LimitError(Exception):
    """A document goes beyond what is read: where, and how."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.line = line
        self.text = text


class _ScanError(Exception):
    """The text is not valid TOML; ``tomllib`` reports where."""


@dataclass(frozen=True, eq=False)
class TomlDocument:
    """A TOML document, and the mistakes that were found in it so far."""

    path: Path
    data: dict[str, Any]
    lines: Mapping[KeyPath, int]  # of every key path
    limits: ReadLimits = ReadLimits()
    mistakes: list[Mistake] = field(default_factory=list)
    mistake_paths: list[KeyPath] = field(default_factory=list)  # of the mistakes

    def note_mistake(self, key_path: KeyPath, text: str) -> None:
        """Note that something is wrong at ``key_path``."""
        if self.is_full:
            return
        mistake = Mistake(str(self.path), self.find_line(key_path), to_one_line(text))
        if mistake not in self.mistakes:
            self.mistakes.append(mistake)
            self.mistake_paths.append(key_path)

    def find_line(self, key_path: KeyPath) -> int:
        """The line of ``key_path``, or of the nearest part around it."""
        while key_path and key_path not in self.lines:
            key_path = key_path[:-1]
        return self.lines.get(key_path, 1)

    @property
    def is_full(self) -> bool:
        """Whether so much is wrong that no more mistakes are noted."""
        return len(self.mistakes) >= NOTED_MAX_MISTAKES

    @contextmanager
    def noting_errors(self, key_path: KeyPath) -> Iterator[None]:
        """Errors of the package within the block become mistakes at ``key_path``."""
        try:
            yield
        except TessellaError as error:
            self.note_mistake(key_path, str(error))

    def section(self, key: str) -> dict[str, Any]:
        """A table of the document, empty where there is none."""
        section = self.data.get(key)
        return section if isinstance(section, dict) else {}

    def entries(self, key: str) -> list[tuple[KeyPath, dict[str, Any]]]:
        """The tables of a list of the document, each with its key path."""
        entries = self.data.get(key)
        numbered = enumerate(entries if isinstance(entries, list) else [])
        return [((key, i), entry) for i, entry in numbered if isinstance(entry, dict)]

    def has_mistake(self, key_path: KeyPath) -> bool:
        """Whether something is wrong already at ``key_path`` or within."""
        return any(path[: len(key_path)] == key_path for path in self.mistake_paths)

    def raise_mistakes(self) -> None:
        """Raise all mistakes that were noted, if there are any."""
        if self.mistakes:
            mistakes = sorted(self.mistakes, key=lambda mistake: mistake.line)
            n_unlisted = len(mistakes) - REPORTED_MAX_MISTAKES
            prefix = "at least " if self.is_full else ""
            raise ModelFileError(
                mistakes[:REPORTED_MAX_MISTAKES], f"{prefix}{n_unlisted}" if n_unlisted > 0 else ""
            )


def read_document(path: str | Path, limits: ReadLimits) -> TomlDocument:
    content = read_file_bytes(path, "a model file", limits.model_file_max_bytes)
    path = Path(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _single_mistake(path, line, "the file is not text in UTF-8") from None
    try:
        lines = find_lines(text)  # first: it rejects what tomllib would fail on
        return TomlDocument(path, tomllib.loads(text), lines, limits)
    except LimitError as error:
        raise _single_mistake(path, error.line, error.text) from None
    except RecursionError:
        raise _single_mistake(path, 1, "brackets are nested too deeply") from None
    except ValueError as error:
        raise _single_mistake(path, *_parse_toml_error(error, text)) from None


def _parse_toml_error(error: ValueError, text: str) -> tuple[int, str]:
    """The line and the message of an error of ``tomllib``."""
    message = str(error)
    match = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", message)
    if not match:
        return 1, f"not a valid TOML file: {message}"
    line = int(match[1]) if match[1] else text.rstrip().count("\n") + 1
    return line, f"not a valid TOML file: {message[: match.start()]}"


def _single_mistake(path: Path, line: int, text: str) -> ModelFileError:
    return ModelFileError([Mistake(str(path), line, to_one_line(text))])


def find_lines(text: str) -> dict[KeyPath, int]:
    """The lines of all key paths of a TOML document; ``LimitError`` where it goes too far."""
    scanner = _Scanner(text.replace("\r\n", "\n"))
    with suppress(_ScanError):
        scanner.scan()
    return scanner.lines


class _Scanner:
    """A scan of a document from its beginning, with the lines found so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.line_starts = [0, *(found.end() for found in re.finditer("\n", text))]
        self.lines: dict[KeyPath, int] = {}
        self.table_counts: dict[KeyPath, int] = {}  # [[tables]] of each name so far

    def scan(self) -> None:
        table: KeyPath = ()
        self._take(BLANK)
        while self.position < len(self.text):
            if self._accept("["):
                table = self._read_header()
            else:
                self._read_pair(table, 0)
            self._take(BLANK)

    @property
    def line(self) -> int:
        return bisect_right(self.line_starts, self.position)

    def _take(self, pattern: re.Pattern[str]) -> str:
        """Go past what ``pattern`` matches here."""
        match = pattern.match(self.text, self.position)
        if not match:
            raise _ScanError
        self.position = match.end()
        return match.group()

    def _accept(self, word: str) -> bool:
        if not self.text.startswith(word, self.position):
            return False
        self.position += len(word)
        return True

    def _record_line(self, path: KeyPath, line: int) -> None:
        """Record the line of a path, and of its beginnings that are new."""
        if len(path) > KEY_PATH_MAX_PARTS:
            limit = f"at most {KEY_PATH_MAX_PARTS} keys deep"
            raise LimitError(line, f"tables and lists are nested {limit}")
        while path and path not in self.lines:
            self.lines[path] = line
            path = path[:-1]

    def _read_header(self) -> KeyPath:
        line = self.line
        is_repeated = self._accept("[")
        *parents, last = self._read_keys()
        if not self._accept("]]" if is_repeated else "]"):
            raise _ScanError
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
            raise _ScanError
        self._record_line(path, line)
        self._take(INLINE_BLANK)
        self._read_value(path, depth)

    def _read_keys(self) -> list[str]:
        keys: list[str] = []
        while not keys or self._accept("."):
            if len(keys) == KEY_MAX_PARTS:
                raise LimitError(self.line, f"a key has at most {KEY_MAX_PARTS} parts")
            self._take(INLINE_BLANK)
            keys.append(_unquote(self._take(KEY)))
            self._take(INLINE_BLANK)
        return keys

    def _read_value(self, path: KeyPath, depth: int) -> None:
        line = self.line
        if depth > BRACKETS_MAX_DEPTH:
            raise LimitError(line, f"brackets are nested at most {BRACKETS_MAX_DEPTH} deep")
        if self._accept("["):
            self._read_entries(path, depth + 1, "]")
        elif self._accept("{"):
            self._read_entries(path, depth + 1, "}")
        else:
            value = self._take(VALUE)
            if not value.startswith(QUOTES) and len(value.strip()) > SCALAR_MAX_CHARACTERS:
                raise LimitError(line, f"a number has at most {SCALAR_MAX_CHARACTERS} characters")

    def _read_entries(self, path: KeyPath, depth: int, end: str) -> None:
        """The values of an array, or the pairs of an inline table, and their ``end``."""
        index = 0
        self._take(BLANK)
        while not self._accept(end):
            if end == "]":
                self._record_line((*path, index), self.line)
                self._read_value((*path, index), depth)
            else:
                self._read_pair(path, depth)
            index += 1
            self._take(BLANK)
            if not self._accept(",") and not self.text.startswith(end, self.position):
                raise _ScanError
            self._take(BLANK)


def _unquote(key: str) -> str:
    if not key.startswith(QUOTES):
        return key
    if "\\" not in key:
        return key[1:-1]
    try:
        return tomllib.loads(f"key = {key}")["key"]
    except ValueError:
        raise _ScanError from None
