"""What is wrong with a model file: all of it at once, each with its line and the nearest name.

``model.toml:12: unknown axis 'stok'; did you mean 'stock'?``
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tessella.errors import FileError

REPORTED_MAX_MISTAKES = 50  # mistakes that are reported at once
VALUE_MAX_CHARACTERS = 80  # characters of a value that a message repeats
MESSAGE_MAX_CHARACTERS = 500  # characters of a message
TEXT_MAX_CHARACTERS = 100  # characters of a name or a value that a model shows
LISTED_MAX_NAMES = 20  # names that a message lists


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
        self.mistakes = tuple(mistakes)
        self.more = more
        rest = [f"and {more} more"] if more else []
        super().__init__("\n".join([*map(str, self.mistakes), *rest]))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.mistakes, self.more), vars(self)


def find_closest(name: str, known: Iterable[str]) -> str | None:
    """The name that somebody who wrote ``name`` may have meant."""
    by_lower_case = {other.lower(): other for other in known}  # capitals are the commonest slip
    matches = difflib.get_close_matches(
        name[:VALUE_MAX_CHARACTERS].lower(), [*by_lower_case], n=1, cutoff=0.5
    )
    return by_lower_case[matches[0]] if matches else None


def suggest_name(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'stock'?``, or what there is where nothing comes near."""
    names = [*dict.fromkeys(known)]
    closest = find_closest(name, names)
    if closest is not None:
        return f"; did you mean {closest!r}?"
    if not names:
        return "; there are none"
    n_unlisted = len(names) - LISTED_MAX_NAMES
    more_text = f" and {n_unlisted} more" if n_unlisted > 0 else ""
    return f"; there are {', '.join(names[:LISTED_MAX_NAMES])}{more_text}"


def to_one_line(text: str) -> str:
    """A message on one line that can be printed, and not too long."""
    printable = "".join(
        letter if letter.isprintable() else " " for letter in text[: 2 * MESSAGE_MAX_CHARACTERS]
    )
    words = " ".join(printable.split())
    is_long = len(words) > MESSAGE_MAX_CHARACTERS
    return f"{words[: MESSAGE_MAX_CHARACTERS - 3]}..." if is_long else words


def find_text_fault(text: str) -> str | None:
    """Why a text cannot be shown, if it cannot: in a terminal, control characters are commands."""
    if len(text) > TEXT_MAX_CHARACTERS:
        return f"has at most {TEXT_MAX_CHARACTERS} characters; got {len(text):,}"
    if not text.isprintable():
        return f"must be printable, on one line; got {format_brief(text)}"
    return None


def format_brief(value: object) -> str:
    """A value as messages repeat it, on one line and not too long."""
    is_text = isinstance(value, str)
    text = repr(value[:VALUE_MAX_CHARACTERS]) if is_text else repr(value)[:VALUE_MAX_CHARACTERS]
    return text if len(text) < VALUE_MAX_CHARACTERS else f"{text[: VALUE_MAX_CHARACTERS - 3]}..."
