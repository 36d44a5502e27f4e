"""A slippery lake with holes: Gymnasium's FrozenLake, which ends in a hole or at the goal.

State (row, column). A move goes where it was meant with probability 1 - slip, to either side of
that with slip / 2 each; past the shore is staying. 1 is paid on reaching the goal.
"""

from __future__ import annotations

import numpy as np

from tessella.grid import StateGrid
from tessella.mdp.model import MDP
from tessella.mdp.stages import Jump, Noise
from tessella.problems.problem import CHANCE, DISCOUNT, Choice, Number, Problem

MAPS = {
    "4x4": "SFFF FHFH FFFH HFFG",
    "8x8": "SFFFFFFF FFFFFFFF FFFHFFFF FFFFFHFF FFFHFFFF FHHFFFHF FHFFHFHF FFFHFFFG",
    "12x12": "SFFFFFFFFFFF FFFFFFFFFFFF FFFHFFFFFFFH FFFFFHFFFFFF FFFHFFFFFFFF FHHFFFHFFHFF "
    "FHFFHFHFFFFF FFFHFFFFFFFF FFFFFFFFHFFF HFFFFHFFFFHH FFFFFFGFFFFF FFFFFFFFFFFF",
}
MOVES = ("left", "down", "right", "up")  # each next to the two that it may slip into


def _model(map: str, slip: float, discount: float) -> MDP:
    ice = np.array([list(row) for row in MAPS[map].split()])
    n = len(ice)

    def to(row, column, move, turn):
        way = (sum(k * (move == name) for k, name in enumerate(MOVES)) + turn) % 4
        stays = np.isin(ice, ["H", "G"])[row, column]
        down = (way == 1).astype(int) - (way == 3)
        right = (way == 2).astype(int) - (way == 0)
        return {
            "row": np.where(stays, row, np.clip(row + down, 0, n - 1)),
            "column": np.where(stays, column, np.clip(column + right, 0, n - 1)),
        }

    def pays(row, column, move, turn):
        there = to(row, column, move, turn)
        arrives = ice[there["row"], there["column"]] == "G"
        return 1.0 * (arrives & (ice[row, column] != "G"))

    turn = Noise("turn", (-1, 0, 1), (slip / 2, 1 - slip, slip / 2))
    mdp = MDP.staged(
        StateGrid(row=range(n), column=range(n)).with_downward_axis("row"),
        MOVES,
        discount,
        [Jump(turn, to=to, pays=pays)],
        action_name="move",
    )
    return mdp.with_start({"row": 0, "column": 0})


frozen_lake = Problem(
    "frozen_lake",
    "Across a slippery lake with holes (Gymnasium's FrozenLake)",
    _model,
    parameters=(
        Choice("map", "4x4", "the lake: Gymnasium's two maps, and one of 12 x 12", tuple(MAPS)),
        Number("slip", 2 / 3, "chance of going to the side, half of it each way", **CHANCE),
        Number("discount", 0.99, "worth of the next period", **DISCOUNT),
    ),
    axes={"row": "row of the lake, from the top", "column": "column of the lake, from the left"},
)
