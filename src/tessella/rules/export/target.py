"""What every target does: it writes a draft down, and asks what it wrote about states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.rules.export.draft import Draft, Rows


class Absent(RuntimeError):  # noqa: N818 (it says what is the matter)
    """What would run a file is not installed; the message says what."""


class Target(ABC):
    """A language or format, by the ending of its files."""

    name: ClassVar[str]
    suffix: ClassVar[str]
    data: ClassVar[bool] = False  # whether it leaves input off the grid to its readers

    def require(self) -> None:  # noqa: B027 (most need nothing)
        """Refuse where a package that writes it is missing."""

    @abstractmethod
    def write(self, draft: Draft) -> bytes:
        """The content of the file."""

    @abstractmethod
    def run(self, content: bytes, draft: Draft, rows: Rows) -> NDArray[np.int64]:
        """(n,) action indices that the file gives for rows, -1 where it refuses; or `Absent`."""

    def beside(self, draft: Draft) -> dict[str, bytes]:
        """Other files that belong to it, by what follows its stem."""
        return {}
