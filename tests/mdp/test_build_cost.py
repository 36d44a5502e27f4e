"""Staged models are built with little work, and with memory linear in their states."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from tessella.mdp.model import MDP
from tessella.mdp.stages import Noise, Pay, Shift
from tessella.problems.inventory import inventory


def peak(size: int) -> tuple[int, int]:
    """States, and the most bytes that building the model held at once."""
    tracemalloc.start()
    try:
        states = inventory(max_stock=size - 1, max_regime=size).n_states
        return states, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_is_linear_in_the_states():
    (few, small), (many, large) = peak(300), peak(1000)
    assert (large - small) / (many - few) == pytest.approx(8, rel=0.5)  # one number for each state


def test_ten_million_states_are_built_with_little_more_than_one_number_for_each():
    states, held = peak(3162)
    assert states > 10**7
    assert held < 12 * states


def test_functions_are_asked_for_the_axes_they_name_and_not_for_the_grid():
    asked = []

    def counted(array):
        asked.append(np.size(array))
        return array

    MDP.staged(
        {"x": range(1000), "y": range(2000)},
        (0, 1),
        0.9,
        [
            Pay(lambda x: counted(x + 0.0)),
            Shift("x", Noise("w", [-1, 1], [0.5, 0.5]), pays=lambda y, w: counted(y * w)),
        ],
    )
    assert asked == [1000, 2 * 2000]
