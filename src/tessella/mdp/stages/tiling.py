"""Whether and how a grid is cut into tiles: by its shape, and by the device that is there."""

from __future__ import annotations

import math
from dataclasses import dataclass

TILED_MIN_STATES = 1 << 22  # states from which on a grid is cut into tiles
TILED_MAX_STATES = (1 << 31) - 1  # positions in memory are counted in 32 bits
TILED_MIN_LAST_AXIS = 64  # a last axis shorter than this makes poor columns
TILED_PLATFORMS = ("gpu", "cuda", "rocm")


@dataclass(frozen=True)
class TileSizes:
    """How kernels cut a grid."""

    row_bytes: int = 1024  # of a row of a tile, in bytes: a power of two
    rows: int = 16  # of a sliding window
    unrolled_terms: int = 4  # terms of a sliding sum that are written out in a round of its loop
    warps: int = 4
    interpret: bool = False


def choose_tiles(shape: tuple[int, ...]) -> TileSizes | None:
    """How kernels cut a grid of this shape on the present device; None where plain forms do."""
    import jax

    fit = (
        TILED_MIN_STATES <= math.prod(shape) <= TILED_MAX_STATES
        and shape[-1] >= TILED_MIN_LAST_AXIS
    )
    return TileSizes() if fit and jax.default_backend() in TILED_PLATFORMS else None
