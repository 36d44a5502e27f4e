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


@dataclass(frozen=True)
class Mistake:
    """One of them: the file as the user named it, the line, and what is wrong there."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.text}"


class ModelFileError(FileError):
    """A model file has mistakes; they are listed in ``mistakes``, in the order of their lines."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(map(str, self.mistakes)))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.mistakes,), vars(self)


def nearest(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'stock'?``, or what there is where nothing comes near."""
    names = [*dict.fromkeys(known)]
    close = difflib.get_close_matches(name[:LONGEST], names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; there are {', '.join(names)}" if names else "; there are none"


def brief(value: object) -> str:
    """A value as messages repeat it, on one line and not too long."""
    text = value if isinstance(value, str) else repr(value)
    text = repr(text[:LONGEST]) if isinstance(value, str) else text[:LONGEST]
    return text if len(text) < LONGEST else f"{text[: LONGEST - 3]}..."
