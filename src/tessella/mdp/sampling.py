"""Drawing outcomes for many walkers at once, by inversion.

k = #{j : F_j <= u F_K},    u uniform on [0, 1),    F the cumulated probabilities
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError


def generator(rng: object) -> np.random.Generator:
    """``rng``, a generator or whatever seeds one; there is no seed that comes by itself."""
    try:
        if rng is not None:
            return np.random.default_rng(rng)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        pass
    raise ArgumentError("rng must be a generator or an integer seed", value=f"got {rng!r}")


def draw_indices(rows: NDArray, rng: np.random.Generator) -> NDArray[np.int64]:
    """One index from each row of probabilities."""
    return invert_cumulative(np.cumsum(rows, axis=-1), rng)


def invert_cumulative(cumulative: NDArray, rng: np.random.Generator) -> NDArray[np.int64]:
    """One index from each row of cumulated probabilities."""
    u = rng.random(len(cumulative)) * cumulative[:, -1]  # below the total even after rounding
    return (cumulative <= u[:, None]).sum(axis=-1)


def entries_for_walkers(array: NDArray, actions: NDArray, where: Sequence[NDArray]) -> NDArray:
    """Entries of ``array`` (A | 1, *broadcast, ...) at ``where`` walkers are and what they do."""
    index = [w if n > 1 else 0 for w, n in zip(where, array.shape[1:], strict=False)]
    return array[(actions if len(array) > 1 else np.zeros_like(actions), *index)]
