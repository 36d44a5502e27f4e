"""A model file as it was read: what it holds, where each part stands, what is wrong with it."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tessella.files import read_whole
from tessella.modelfiles.mistakes import REPORTED_MAX_MISTAKES, Mistake, ModelFileError, to_one_line
from tessella.modelfiles.toml_lines import KeyPath, LimitError, LineNumbers, find_lines

MODEL_FILE_MAX_BYTES = 1 << 20  # bytes; long data belong in a CSV file beside it
NOTED_MAX_MISTAKES = 4 * REPORTED_MAX_MISTAKES  # mistakes after which none are noted any more


@dataclass(frozen=True, eq=False)
class TomlDocument:
    """A TOML document, and the mistakes that were found in it so far."""

    path: Path
    data: dict[str, Any]
    line_numbers: LineNumbers
    mistakes: list[Mistake] = field(default_factory=list)
    mistake_paths: list[KeyPath] = field(default_factory=list)  # of the mistakes

    def note_mistake(self, key_path: KeyPath, text: str) -> None:
        """Note that something is wrong at ``key_path``."""
        if len(self.mistakes) >= NOTED_MAX_MISTAKES:
            return
        mistake = Mistake(str(self.path), self.line_numbers.find(key_path), to_one_line(text))
        if mistake not in self.mistakes:
            self.mistakes.append(mistake)
            self.mistake_paths.append(key_path)

    def has_mistake(self, key_path: KeyPath) -> bool:
        """Whether something is wrong already at ``key_path`` or within."""
        return any(path[: len(key_path)] == key_path for path in self.mistake_paths)

    def raise_mistakes(self) -> None:
        """Raise all mistakes that were noted, if there are any."""
        if self.mistakes:
            mistakes = sorted(self.mistakes, key=lambda mistake: mistake.line)
            n_unlisted = len(mistakes) - REPORTED_MAX_MISTAKES
            prefix = "at least " if len(mistakes) >= NOTED_MAX_MISTAKES else ""
            raise ModelFileError(
                mistakes[:REPORTED_MAX_MISTAKES], f"{prefix}{n_unlisted}" if n_unlisted > 0 else ""
            )


def read_document(path: str | Path) -> TomlDocument:
    """The document in the file at ``path``."""
    return parse_document(read_whole(path, "a model file", MODEL_FILE_MAX_BYTES), Path(path))


def parse_document(content: bytes, path: Path) -> TomlDocument:
    """The document that these bytes are."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _single_mistake(path, line, "the file is not text in UTF-8") from None
    try:
        lines = find_lines(text)
        return TomlDocument(path, tomllib.loads(text), lines)
    except LimitError as error:
        raise _single_mistake(path, error.line, error.text) from None
    except RecursionError:
        raise _single_mistake(path, 1, "brackets stand too deep") from None
    except ValueError as error:
        raise _single_mistake(path, *_parse_toml_error(error, text)) from None


def _parse_toml_error(error: ValueError, text: str) -> tuple[int, str]:
    """The line and the words of what ``tomllib`` refuses."""
    message = str(error)
    match = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", message)
    if not match:
        return 1, f"this is no TOML: {message}"
    line = int(match[1]) if match[1] else text.rstrip().count("\n") + 1
    return line, f"this is no TOML: {message[: match.start()]}"


def _single_mistake(path: Path, line: int, text: str) -> ModelFileError:
    return ModelFileError([Mistake(str(path), line, to_one_line(text))])
