"""Whether and how a grid is cut into tiles: by its shape, and by the device that is there."""

from __future__ import annotations

import math
from dataclasses import dataclass

LARGE = 1 << 22  # states from which on a grid is cut into tiles
MOST = (1 << 31) - 1  # positions in memory are counted in 32 bits
NARROW = 64  # a last axis shorter than this makes poor columns
DEVICES = ("gpu", "cuda", "rocm")


@dataclass(frozen=True)
class Tiles:
    """How kernels cut a grid."""

    width: int = 1024  # of a row of a tile, in bytes: a power of two
    rows: int = 16  # of a window
    written: int = 4  # terms of a sliding sum that are written out in a round of its loop
    warps: int = 4
    interpret: bool = False


def tiling(shape: tuple[int, ...]) -> Tiles | None:
    """How kernels cut a grid of this shape on the present device; None where plain forms do."""
    import jax

    fit = LARGE <= math.prod(shape) <= MOST and shape[-1] >= NARROW
    return Tiles() if fit and jax.default_backend() in DEVICES else None
