"""The two ways of a small staged model: as a table by NumPy, or through compiled stages.

By itself it goes as a table; large models go through stages, and what is said of these is tested on
small ones that are made to.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tessella.mdp.stages import staged

ROUTES = "table", "stages"


@contextmanager
def by(route: str) -> Iterator[None]:
    """Within, staged models go this way; build and solve them here."""
    before = staged.ROWS_MAX_ENTRIES, staged.ROWS_MAX_ENTRIES_HEAVY
    staged.ROWS_MAX_ENTRIES, staged.ROWS_MAX_ENTRIES_HEAVY = before if route == "table" else (0, 0)
    try:
        yield
    finally:
        staged.ROWS_MAX_ENTRIES, staged.ROWS_MAX_ENTRIES_HEAVY = before
