"""Policies given as bare maps, without a model behind them."""

import numpy as np
import pytest

from tessella.grid import StateGrid
from tessella.mdp.policy import check_actions
from tessella.tessellation.tessellate import build_tessellation as whole


@pytest.fixture(scope="session")
def tile():
    """``tile([[0, 1], [0, 1]])``: the tessellation of a map on axes x, y, z, w = 0, 1, 2, ..."""

    def build(table, actions=None, axes=None, action_name="act"):
        table = np.asarray(table)
        axes = axes or {name: range(n) for name, n in zip("xyzw", table.shape, strict=False)}
        actions = tuple(range(int(table.max()) + 1)) if actions is None else actions
        grid = StateGrid(axes)
        checked = check_actions(table, grid, tuple(actions))
        return whole(grid, tuple(actions), action_name, checked, name="map")

    return build
