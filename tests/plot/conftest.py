"""Maps without a model behind them, and bare axes to draw on."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from tessella.grid import StateGrid
from tessella.tessellation.tessellate import build_tessellation


@pytest.fixture(scope="session")
def tile():
    def make(table, actions=(0, 1, 2), axes=None, margin=None, name="a map"):
        table = np.asarray(table, dtype=np.int32)
        axes = axes or {n: range(k) for n, k in zip("xyz", table.shape, strict=False)}
        return build_tessellation(StateGrid(axes), actions, "act", table, margin, name)

    return make


@pytest.fixture
def figure():
    return Figure(figsize=(5, 3), layout="constrained")
