"""The boundary as line segments, for drawing.

State (i, j) is the unit square centred on (i, j). A face across the first axis is then a unit
segment parallel to the second axis, and the other way round; unit segments that continue each
other are joined into one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, require_type
from tessella.tessellation.tessellate import Tessellation


def outline(tessellation: Tessellation) -> NDArray[np.floating]:
    """(segments, 2 ends, 2 coordinates) of the boundary, in grid steps.

    On one axis the states are squares in a row, and the second coordinate runs from -1/2 to 1/2.
    """
    require_type("outline", tessellation, Tessellation)
    faces = tessellation.faces
    if len(faces) == 1:
        cuts = np.flatnonzero(faces[0]) + 0.5
        return np.stack([np.stack([cuts, np.full_like(cuts, y)], axis=-1) for y in (-0.5, 0.5)], 1)
    if len(faces) != 2:
        raise ArgumentError(f"an outline needs one or two axes, not {len(faces)}; take a section")
    upright = _join_segments(faces[0])
    level = _join_segments(faces[1].T)[..., ::-1]
    return np.concatenate([upright, level])


def _join_segments(faces: NDArray[np.bool_]) -> NDArray[np.floating]:
    """Maximal segments along the second axis of ``faces``, each at a half-step of the first."""
    padded = np.zeros((faces.shape[0], faces.shape[1] + 2), dtype=np.int8)
    padded[:, 1:-1] = faces
    step = np.diff(padded, axis=1)
    (row, begin), (_, end) = np.nonzero(step == 1), np.nonzero(step == -1)
    ends = [np.stack([row + 0.5, stop - 0.5], axis=-1) for stop in (begin, end)]
    return np.stack(ends, axis=1)
