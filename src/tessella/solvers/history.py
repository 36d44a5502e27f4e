"""How a solve went: what each of its sweeps reached."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class History:
    """One entry for each sweep."""

    bound: NDArray[np.float64]  # (n,) bound on the error of the value
    changed: NDArray[np.int64]  # (n,) states whose greedy action changed
    seconds: NDArray[np.float64]  # (n,) since the start; even within one compiled stretch

    def __len__(self) -> int:
        return len(self.bound)
