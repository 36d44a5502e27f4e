"""Small models to learn."""

from types import SimpleNamespace

import numpy as np
import pytest

import tessella as ts


@pytest.fixture(scope="session")
def small():
    """Six states, three actions, some infeasible, with margins that learning can see."""
    rng = np.random.default_rng(5)
    transition = rng.dirichlet(np.full(6, 0.5), size=(3, 6))
    reward = rng.integers(0, 6, (6, 3)).astype(float)
    feasible = np.ones((6, 3), dtype=bool)
    feasible[1, 0] = feasible[4, 2] = feasible[5, 1] = False
    return ts.MDP.from_arrays(
        transition, reward, 0.6, grid={"x": range(3), "y": range(2)}, feasible=feasible
    )


@pytest.fixture(scope="session")
def certain():
    """Eight states in a ring; two actions, moves without chance."""
    left, right = np.roll(np.eye(8), -1, axis=1), np.roll(np.eye(8), 1, axis=1)
    reward = np.random.default_rng(1).normal(size=(8, 2))
    return ts.MDP.from_arrays(np.stack([left, right]), reward, 0.9)


@pytest.fixture(scope="session")
def ending():
    """Action 0 pays 1 and ends; action 1 pays 0.5 and stays. Discount 0.9: staying is worth 5."""
    table = {0: {0: [(1.0, 0, 1.0, True)], 1: [(1.0, 0, 0.5, False)]}}
    return ts.MDP.from_gymnasium(SimpleNamespace(P=table), 0.9)
