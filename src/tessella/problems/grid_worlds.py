"""Ways through grids: a slippery lake, and a cube of cells with storms."""

from __future__ import annotations

import numpy as np

from tessella.grid import StateGrid
from tessella.mdp.model import MDP
from tessella.mdp.stages import Jump, Noise
from tessella.problems.problem import CHANCE, DISCOUNT, Problem, choice, integer, number

LAKE_MAPS = {
    "4x4": "SFFF FHFH FFFH HFFG",
    "8x8": "SFFFFFFF FFFFFFFF FFFHFFFF FFFFFHFF FFFHFFFF FHHFFFHF FHFFHFHF FFFHFFFG",
    "12x12": "SFFFFFFFFFFF FFFFFFFFFFFF FFFHFFFFFFFH FFFFFHFFFFFF FFFHFFFFFFFF FHHFFFHFFHFF "
    "FHFFHFHFFFFF FFFHFFFFFFFF FFFFFFFFHFFF HFFFFHFFFFHH FFFFFFGFFFFF FFFFFFFFFFFF",
}
LAKE_MOVES = ("left", "down", "right", "up")  # each next to the two that it may slip into


def _frozen_lake_model(
    map: str = choice(
        "4x4", "the lake: Gymnasium's two maps, and one of 12 x 12", tuple(LAKE_MAPS)
    ),
    slip: float = number(2 / 3, "chance of going to the side, half of it each way", **CHANCE),
    discount: float = number(0.99, "worth of the next period", **DISCOUNT),
) -> MDP:
    """A slippery lake with holes: Gymnasium's FrozenLake, which ends in a hole or at the goal.

    State (row, column). A move goes where it was meant with probability 1 - slip, to either side of
    that with slip / 2 each; past the shore is staying. 1 is paid on reaching the goal.
    """
    ice = np.array([list(row) for row in LAKE_MAPS[map].split()])
    n = len(ice)

    def to(row, column, move, turn):
        way = (sum(k * (move == name) for k, name in enumerate(LAKE_MOVES)) + turn) % 4
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
        LAKE_MOVES,
        discount,
        [Jump(turn, to=to, pays=pays)],
        action_name="move",
    )
    return mdp.with_start({"row": 0, "column": 0})


frozen_lake = Problem(
    "frozen_lake",
    "Across a slippery lake with holes (Gymnasium's FrozenLake)",
    _frozen_lake_model,
    axes={"row": "row of the lake, from the top", "column": "column of the lake, from the left"},
)


CUBE_MOVES = ("x+", "x-", "y+", "y-", "z+", "z-")


def _navigation_model(
    side: int = integer(5, "cells along each edge", low=2, high=60),
    seed: int = integer(0, "which storms", low=0, high=2**32 - 1),
    discount: float = number(0.99, "worth of the next period", **DISCOUNT),
) -> MDP:
    """Through a cube of cells with storms, each sending back to the start with a chance of its own.

    State (x, y, z), six moves; past the walls is staying. In every cell but start and goal any move
    goes back to the start with probability p(x, y, z), one uniform draw each. 1 is paid on entering
    the goal, from which every move leads to the start.
    """
    last = side - 1
    storm = np.zeros(side**3)  # chances of being sent back
    storm[1:-1] = np.random.RandomState(seed).random_sample(side**3 - 2)  # as it was published
    storm = storm.reshape(side, side, side)

    def goal(x, y, z):
        return (x == last) & (y == last) & (z == last)

    def to(x, y, z, move, back):
        steps = [(move == f"{axis}+").astype(int) - (move == f"{axis}-") for axis in "xyz"]
        moved = [np.clip(at + step, 0, last) for at, step in zip((x, y, z), steps, strict=True)]
        home = (back == 1) | goal(x, y, z)
        return {axis: np.where(home, 0, at) for axis, at in zip("xyz", moved, strict=True)}

    def back_probabilities(x, y, z):
        p = storm[x, y, z]
        return np.concatenate([1 - p, p], axis=-1)

    def pays(x, y, z, move, back):
        return 1.0 * goal(**to(x, y, z, move, back))

    mdp = MDP.staged(
        {axis: range(side) for axis in "xyz"},
        CUBE_MOVES,
        discount,
        [Jump(Noise("back", (0, 1), back_probabilities), to=to, pays=pays)],
        action_name="move",
    )
    return mdp.with_start(0)


navigation = Problem(
    "navigation",
    "Through a cube of cells with storms",
    _navigation_model,
    axes={
        "x": "place in the cube, from side to side",
        "y": "place in the cube, from front to back",
        "z": "place in the cube, from bottom to top",
    },
    aliases=("3d_navigation",),
)
