"""What is wrong with a model file: all of it at once, each with its line and the nearest name.

``model.toml:12: unknown axis 'stok'; did you mean 'stock'?``
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tessella.errors import FileError

MOST = 50  # mistakes that are told at once
LONGEST = 80  # characters of a value that a message repeats
LONGEST_LINE = 500  # characters of a message
LONGEST_TEXT = 100  # characters of a name or a value that a model shows
LISTED = 20  # names that a message lists


@dataclass(frozen=True)
class Mistake:
    """One of them: the file as the user named it, the line, and what is wrong there."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


class ModelFileError(FileError):
    """A model file has mistakes; they are listed in ``mistakes``, in the order of their lines.

    Where there are more than somebody reads, ``more`` says how many: ``30``, ``at least 150``.
    """

    def __init__(self, mistakes: Sequence[Mistake], more: str = "") -> None:
        self.mistakes, self.more = tuple(mistakes), more
        rest = [f"and {more} more"] if more else []
        super().__init__("\n".join([*map(str, self.mistakes), *rest]))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.mistakes, self.more), vars(self)


def closest(name: str, known: Iterable[str]) -> str | None:
    """The name that somebody who wrote ``name`` may have meant."""
    plain = {other.lower(): other for other in known}  # capitals are the commonest slip
    found = difflib.get_close_matches(name[:LONGEST].lower(), [*plain], n=1, cutoff=0.5)
    return plain[found[0]] if found else None


def nearest(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'stock'?``, or what there is where nothing comes near."""
    names = [*dict.fromkeys(known)]
    meant = closest(name, names)
    if meant is not None:
        return f"; did you mean {meant!r}?"
    rest = f" and {len(names) - LISTED} more" if len(names) > LISTED else ""
    return f"; there are {', '.join(names[:LISTED])}{rest}" if names else "; there are none"


def one_line(text: str) -> str:
    """A message on one line that can be printed, and not too long."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text[: 2 * LONGEST_LINE])
    words = " ".join(plain.split())
    return words if len(words) <= LONGEST_LINE else f"{words[: LONGEST_LINE - 3]}..."


def text_fault(text: str) -> str | None:
    """Why a text cannot be shown, if it cannot: in a terminal, control characters are commands."""
    if len(text) > LONGEST_TEXT:
        return f"has at most {LONGEST_TEXT} characters; got {len(text):,}"
    return None if text.isprintable() else f"must be printable, on one line; got {brief(text)}"


def brief(value: object) -> str:
    """A value as messages repeat it, on one line and not too long."""
    text = value if isinstance(value, str) else repr(value)
    text = repr(text[:LONGEST]) if isinstance(value, str) else text[:LONGEST]
    return text if len(text) < LONGEST else f"{text[: LONGEST - 3]}..."
