"""The paper's eleven environments against their equations, summed directly in plain Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tessella.errors import ArgumentError, ModelError
from tessella.mdp.stages.staged import Staged
from tessella.problems.admission import queue_admission
from tessella.problems.inventory import inventory
from tessella.problems.registry import BENCHMARKS, benchmark
from tessella.problems.shared import NONLINEARITIES

# The paper's table of environments: nonlinearity, observation noise, strength.
INVENTORY = {
    "INV-Mix": ("mixed", 0.45, 1.0, "Inventory-Mixed-0.45"),
    "INV-Lin": ("linear", 0.45, 0.0, "Inventory-Linear-0.45"),
    "INV-N0": ("mixed", 0.00, 1.0, "Inventory-Mixed-0.00"),
    "INV-NH": ("mixed", 0.80, 1.0, "Inventory-Mixed-0.80"),
    "INV-Sin": ("sinusoidal", 0.45, 1.0, "Inventory-Sinusoidal-0.45"),
    "INV-Quad": ("quadratic", 0.45, 1.0, "Inventory-Quadratic-0.45"),
    "INV-Hard": ("hard", 0.45, 1.2, "Inventory-Hard-0.45"),
}
QUEUE = {
    "QUE-Mix": ("mixed", 0.25, 2.5, "Queue-Mixed-0.25"),
    "QUE-Lin": ("linear", 0.25, 2.5, "Queue-Linear-0.25"),
    "QUE-Burst": ("bursty", 0.25, 2.5, "Queue-Bursty-0.25"),
    "QUE-N0": ("mixed", 0.00, 2.5, "Queue-Mixed-0.00"),
}
WALK = ((-1, 0.25), (0, 0.5), (1, 0.25))


def bend(name: str, u: float) -> float:
    return {
        "linear": 0.0,
        "sinusoidal": math.sin(2 * math.pi * u),
        "quadratic": 4 * (u - 0.5) ** 2,
        "mixed": 0.5 * math.sin(2 * math.pi * u) + 2 * (u - 0.5) ** 2,
        "hard": math.sin(4 * math.pi * u) + 4 * (u - 0.5) ** 2,
        "bursty": 1.0 if u > 0.7 else 0.0,
    }[name]


def poisson(mean: float, largest: int) -> list[float]:
    """P(D = k) = m^k e^-m / k!, what is left of 1 on the largest value."""
    p = [math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(largest)]
    return [*p, max(1 - math.fsum(p), 0.0)]


def sum_inventory(nonlinearity: str, strength: float) -> tuple[np.ndarray, np.ndarray]:
    """P (A, S, S) and r (S, A) of the inventory model."""
    x_max, z_max, orders, d_max = 32, 24, (0, 4, 8, 12, 16), 55
    P = np.zeros((5, x_max + 1, z_max + 1, x_max + 1, z_max + 1))
    r = np.zeros((x_max + 1, z_max + 1, 5))
    for z in range(z_max + 1):
        mean = max(1.8 + 0.36 * z + strength * bend(nonlinearity, z / z_max), 0.05)
        law = poisson(mean, d_max)
        for x in range(x_max + 1):
            for i, a in enumerate(orders):
                y = min(x + a, x_max)
                r[x, z, i] = -(0.25 * a + 0.20 * (a > 0))
                for d, p in enumerate(law):
                    r[x, z, i] -= p * (0.08 * max(y - d, 0) + 1.55 * max(d - y, 0))
                    for step, q in WALK:
                        P[i, x, z, max(y - d, 0), min(max(z + step, 0), z_max)] += p * q
    n = (x_max + 1) * (z_max + 1)
    return P.reshape(5, n, n), r.reshape(n, 5)


def sum_queue(nonlinearity: str, strength: float) -> tuple[np.ndarray, np.ndarray]:
    """P (A, S, S) and r (S, A) of the queue-admission model."""
    q_max, l_max, d_max, s_max = 30, 20, 45, 20
    P = np.zeros((2, q_max + 1, l_max + 1, q_max + 1, l_max + 1))
    r = np.zeros((q_max + 1, l_max + 1, 2))
    services = poisson(4.0, s_max)
    for level in range(l_max + 1):
        mean = max(1.0 + 0.35 * level + strength * bend(nonlinearity, level / l_max), 0.05)
        arrivals = poisson(mean, d_max)
        for q in range(q_max + 1):
            for a in (0, 1):
                to = [0.0] * (q_max + 1)
                reward = -0.10 * q
                for s, ps in enumerate(services):
                    for d, pd in enumerate(arrivals):
                        y = max(q - s, 0) + a * d
                        over = max(y - q_max, 0)
                        paid = 2.0 * a * (d - over) - 0.40 * (1 - a) * d - 4.0 * (over > 0)
                        reward += ps * pd * paid
                        to[min(y, q_max)] += ps * pd
                r[q, level, a] = reward
                for step, p in WALK:
                    P[a, q, level, :, min(max(level + step, 0), l_max)] += p * np.array(to)
    n = (q_max + 1) * (l_max + 1)
    return P.reshape(2, n, n), r.reshape(n, 2)


@pytest.mark.parametrize("label", INVENTORY)
def test_inventory_rows_and_rewards_are_those_of_the_equations(label):
    nonlinearity, _, strength, _ = INVENTORY[label]
    P, r = sum_inventory(nonlinearity, strength)
    mdp = benchmark(label)
    assert (mdp.grid.axes, mdp.grid.shape) == (("stock", "regime"), (33, 25))
    assert (mdp.actions, mdp.action_name, mdp.discount) == ((0, 4, 8, 12, 16), "order", 0.95)
    np.testing.assert_allclose(mdp.to_arrays().transition, P, rtol=0, atol=1e-13)
    np.testing.assert_allclose(mdp.reward, r, rtol=0, atol=1e-12)


@pytest.mark.parametrize("label", QUEUE)
def test_queue_rows_and_rewards_are_those_of_the_equations(label):
    nonlinearity, _, strength, _ = QUEUE[label]
    P, r = sum_queue(nonlinearity, strength)
    mdp = benchmark(label)
    assert (mdp.grid.axes, mdp.grid.shape) == (("queue", "regime"), (31, 21))
    assert (mdp.actions, mdp.action_name, mdp.discount) == ((0, 1), "admit", 0.95)
    np.testing.assert_allclose(mdp.to_arrays().transition, P, rtol=0, atol=1e-13)
    np.testing.assert_allclose(mdp.reward, r, rtol=0, atol=1e-12)


def test_the_eleven_labels_carry_the_papers_parameters():
    assert list(BENCHMARKS) == [*INVENTORY, *QUEUE]
    shared_inventory = {
        "max_stock": 32,
        "max_regime": 24,
        "orders": [0, 4, 8, 12, 16],
        "demand_base": 1.8,
        "demand_slope": 0.36,
        "max_demand": 55,
        "unit_cost": 0.25,
        "fixed_cost": 0.20,
        "holding_cost": 0.08,
        "shortage_cost": 1.55,
        "discount": 0.95,
    }
    shared_queue = {
        "max_queue": 30,
        "max_regime": 20,
        "arrival_base": 1.0,
        "arrival_slope": 0.35,
        "max_arrivals": 45,
        "service_rate": 4.0,
        "max_service": 20,
        "admission_reward": 2.0,
        "holding_cost": 0.10,
        "overflow_cost": 4.0,
        "rejection_cost": 0.40,
        "discount": 0.95,
    }
    for table, shared in ((INVENTORY, shared_inventory), (QUEUE, shared_queue)):
        for label, (nonlinearity, noise, strength, full_name) in table.items():
            mdp = benchmark(label)
            own = {"nonlinearity": nonlinearity, "strength": strength}
            assert mdp.parameters == shared | own
            assert mdp.observation_noise == noise
            assert mdp.name == label
            assert benchmark(full_name).fingerprint == mdp.fingerprint
            assert benchmark(full_name).name == label


@pytest.mark.parametrize(
    ("label", "hint"),
    [("INV-mx", r"did you mean 'INV-Mix'\?"), ("INV", "there are INV-Mix, INV-Lin")],
)
def test_an_unknown_label_is_answered_with_a_similar_one_or_with_all(label, hint):
    with pytest.raises(ArgumentError, match=f"no benchmark is called {label!r}; {hint}"):
        benchmark(label)


def test_an_unknown_nonlinearity_is_answered_with_the_known_ones():
    known = ", ".join(NONLINEARITIES)
    for problem in (inventory, queue_admission):
        with pytest.raises(
            ArgumentError, match=f"nonlinearity must be one of {known}; \\w+ got 'odd'"
        ):
            problem(nonlinearity="odd")


def test_every_benchmark_is_kept_as_stages_of_a_few_numbers_for_each_state():
    for label in BENCHMARKS:
        mdp = benchmark(label)
        assert isinstance(mdp.dynamics, Staged)
        arrays = (a for stage in mdp.dynamics.stages for a in stage.arrays().values())
        assert sum(array.size for array in arrays) < 8 * mdp.n_states


def test_problems_take_other_sizes_and_refuse_impossible_ones():
    assert inventory(max_stock=0, max_regime=0, orders=(0,)).n_states == 1
    assert queue_admission(max_queue=5, max_regime=0).n_states == 6
    with pytest.raises(
        ArgumentError, match="max_stock must be a whole number from 0 to 1000000; inv"
    ):
        inventory(max_stock=-1)
    with pytest.raises(ArgumentError, match="orders must be a list of whole numbers, each from 0"):
        inventory(orders=(-1, 4))
    with pytest.raises(ModelError, match="actions must differ from one another; order=4 occurs 2"):
        inventory(orders=(4, 4))
    with pytest.raises(
        ArgumentError, match="demand_slope must be a number from -1000 to 1000; inv"
    ):
        inventory(demand_slope=float("nan"))
