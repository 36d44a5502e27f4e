"""How kernels of an accelerator cut a grid into tiles."""

from __future__ import annotations

from dataclasses import dataclass

TILED_MIN_LAST_AXIS = 64  # places of the last axis: a shorter one makes poor columns


@dataclass(frozen=True)
class TileSizes:
    """How kernels cut a grid."""

    row_bytes: int = 1024  # of a row of a tile, in bytes: a power of two
    rows: int = 16  # of a sliding window
    unrolled_terms: int = 4  # terms of a sliding sum that are written out in a round of its loop
    warps: int = 4
    interpret: bool = False
