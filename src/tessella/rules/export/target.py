"""What every target does: it writes a rule to a file, and asks that file about states."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.rules.export.export_context import ExportContext, InputRows


class ToolMissing(RuntimeError):  # noqa: N818 (it says what is the matter)
    """What would run a file is not installed; the message says what."""


class ExportTarget(ABC):
    """A language or format, by the ending of its files."""

    name: ClassVar[str]
    suffix: ClassVar[str]
    is_data: ClassVar[bool] = False  # whether it leaves input off the grid to its readers

    def require_packages(self) -> None:  # noqa: B027 (most need nothing)
        """Refuse where a package that writes it is missing."""

    @abstractmethod
    def write(self, context: ExportContext) -> bytes:
        """The content of the file."""

    @abstractmethod
    def run(self, content: bytes, context: ExportContext, rows: InputRows) -> NDArray[np.int64]:
        """(n,) action indices that the file gives for rows, -1 where it refuses.

        Raises ``ToolMissing`` where what would run it is not installed.
        """

    def extra_files(self, context: ExportContext) -> dict[str, bytes]:
        """Other files that belong to it, by what follows its stem."""
        return {}
