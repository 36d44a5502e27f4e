"""Solutions to learn from."""

import numpy as np
import pytest

import tessella as ts
from tessella.learn import Uniform, draw


@pytest.fixture(scope="session")
def stock():
    """INV-Lin: five actions, 825 states, boundaries that straight lines can represent."""
    return ts.solve(ts.benchmark("INV-Lin"))


@pytest.fixture(scope="session")
def queue():
    """QUE-Mix: two actions, 651 states."""
    return ts.solve(ts.benchmark("QUE-Mix"))


@pytest.fixture(scope="session")
def gated():
    """A model where some actions are infeasible, and one state has one action only."""
    rng = np.random.default_rng(0)
    transition = rng.dirichlet(np.ones(12), size=(3, 12))
    feasible = rng.random((12, 3)) < 0.6
    feasible[:, 0] = True
    feasible[5] = [True, False, False]
    reward = rng.normal(size=(12, 3))
    return ts.solve(
        ts.MDP.from_arrays(
            transition, reward, 0.9, grid={"a": range(3), "b": range(4)}, feasible=feasible
        )
    )


@pytest.fixture(scope="session")
def whole():
    """``whole(solution)``: every state once, without noise."""

    def sample(solution):
        return draw(solution, solution.mdp.n_states, noise=0, scheme=Uniform(replace=False))

    return sample
