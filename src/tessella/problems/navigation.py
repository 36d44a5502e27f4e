"""Through a cube of cells with storms, each sending back to the start with a chance of its own.

State (x, y, z), six moves; past the walls is staying. In every cell but start and goal any move
goes back to the start with probability p(x, y, z), one uniform draw each. 1 is paid on entering the
goal, from which every move leads to the start.
"""

from __future__ import annotations

import numpy as np

from tessella.mdp.model import MDP
from tessella.mdp.stages import Jump, Noise
from tessella.problems.problem import DISCOUNT, Integer, Number, Problem

MOVES = ("x+", "x-", "y+", "y-", "z+", "z-")


def _model(side: int, seed: int, discount: float) -> MDP:
    storm = _storm_probabilities(side, seed)
    last = side - 1

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
        MOVES,
        discount,
        [Jump(Noise("back", (0, 1), back_probabilities), to=to, pays=pays)],
        action_name="move",
    )
    return mdp.with_start(0)


def _storm_probabilities(side: int, seed: int) -> np.ndarray:
    """(side, side, side) chances of being sent back: 0 at both ends, else uniform."""
    storm = np.zeros(side**3)
    storm[1:-1] = np.random.RandomState(seed).random_sample(side**3 - 2)  # as it was published
    return storm.reshape(side, side, side)


navigation = Problem(
    "navigation",
    "Through a cube of cells with storms",
    _model,
    parameters=(
        Integer("side", 5, "cells along each edge", low=2, high=60),
        Integer("seed", 0, "which storms", low=0, high=2**32 - 1),
        Number("discount", 0.99, "worth of the next period", **DISCOUNT),
    ),
    axes={
        "x": "place in the cube, from side to side",
        "y": "place in the cube, from front to back",
        "z": "place in the cube, from bottom to top",
    },
    aliases=("3d_navigation",),
)
