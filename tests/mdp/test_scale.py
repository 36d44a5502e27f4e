"""Staged models are built quickly, with memory linear in their states."""

from __future__ import annotations

import time
import tracemalloc

import pytest

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


def test_ten_million_states_are_built_within_a_second():
    def seconds() -> float:
        start = time.perf_counter()
        assert inventory(max_stock=3161, max_regime=3162).n_states > 10**7
        return time.perf_counter() - start

    inventory()
    assert min(seconds() for _ in range(3)) < 1.0
