"""A model file as it was read: what it holds, where each part stands, what is wrong with it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tessella.files import read_whole
from tessella.modelfiles.lines import BeyondError, Lines, find_lines
from tessella.modelfiles.lines import Path as KeyPath
from tessella.modelfiles.mistakes import MOST, Mistake, ModelFileError, one_line

LARGEST = 1 << 20  # bytes; long data belong in a CSV file beside it
ENOUGH = 4 * MOST  # mistakes after which none are noted any more


@dataclass(frozen=True, eq=False)
class Document:
    """A TOML document, and the mistakes that were found in it so far."""

    path: Path
    data: dict[str, Any]
    lines: Lines
    mistakes: list[Mistake] = field(default_factory=list)
    places: list[KeyPath] = field(default_factory=list)  # of the mistakes

    def mistake(self, place: KeyPath, text: str) -> None:
        """Note that something is wrong at the key path ``place``."""
        if len(self.mistakes) >= ENOUGH:
            return
        found = Mistake(str(self.path), self.lines.at(place), one_line(text))
        if found not in self.mistakes:
            self.mistakes.append(found)
            self.places.append(place)

    def faulty(self, place: KeyPath) -> bool:
        """Whether something is wrong already at ``place`` or within."""
        return any(path[: len(place)] == place for path in self.places)

    def refuse(self) -> None:
        """Raise all mistakes that were noted, if there are any."""
        if self.mistakes:
            found = sorted(self.mistakes, key=lambda mistake: mistake.line)
            rest, least = len(found) - MOST, "at least " if len(found) >= ENOUGH else ""
            raise ModelFileError(found[:MOST], f"{least}{rest}" if rest > 0 else "")


def read_document(path: str | Path) -> Document:
    """The document in the file at ``path``."""
    return as_document(read_whole(path, "a model file", LARGEST), Path(path))


def as_document(content: bytes, path: Path) -> Document:
    """The document that these bytes are."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _one(path, line, "the file is not text in UTF-8") from None
    try:
        lines = find_lines(text)
        return Document(path, tomllib.loads(text), lines)
    except BeyondError as error:
        raise _one(path, error.line, error.text) from None
    except RecursionError:
        raise _one(path, 1, "brackets stand too deep") from None
    except ValueError as error:
        raise _one(path, *_said(error, text)) from None


def _said(error: ValueError, text: str) -> tuple[int, str]:
    """The line and the words of what ``tomllib`` refuses."""
    said = str(error)
    found = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", said)
    if not found:
        return 1, f"this is no TOML: {said}"
    line = int(found[1]) if found[1] else text.rstrip().count("\n") + 1
    return line, f"this is no TOML: {said[: found.start()]}"


def _one(path: Path, line: int, text: str) -> ModelFileError:
    return ModelFileError([Mistake(str(path), line, one_line(text))])
