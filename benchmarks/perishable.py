"""Perishable stock: the 32 published optima and best base-stock levels, compared with ours.

    python benchmarks/perishable.py [most_states]

The measure is that of Farrington et al. (2025), Table 3: the mean discounted reward of 365 days
after 100 unscored days from empty. They simulate it; here it is exact: the distribution of states
is pushed forward along the chain of the policy, on the states that it reaches from empty. The chain
is computed independently of the package's stages. The base-stock level S is the one of 0..10
with the best measure; it orders max(S - stock - transit, 0). (For m of 4 and 5, L = 2 and FIFO a
level of 11 is better, at -1450.2 to -1450.7; what is printed is the best up to the largest order.)

Models: 11^(m + L - 1) states, up to 1,771,561 (the default is 20,000).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

import tessella as ts
from tessella.problems.perishables import rounded_gamma_probabilities

MAX_ORDER, MAX_DEMAND, DISCOUNT = 10, 30, 0.99
LAW = rounded_gamma_probabilities(4.0, 0.5, MAX_DEMAND)
PUBLISHED = {  # life: optimum/base stock, columns as in CASES below
    2: "1553/1565 1457/1474 1571/1581 1463/1485 1551/1590 1461/1495 1569/1606 1469/1504",
    3: "1490/1500 1424/1435 1498/1512 1425/1436 1513/1533 1435/1456 1526/1544 1437/1457",
    4: "1459/1476 1422/1430 1465/1481 1422/1430 1480/1496 1432/1453 1489/1505 1432/1453",
    5: "1443/1454 1422/1430 1446/1460 1422/1430 1463/1480 1432/1453 1467/1484 1432/1453",
}


class Case(NamedTuple):
    life: int
    lead_time: int
    waste: int
    issuing: str

    @property
    def shape(self) -> tuple[int, ...]:
        return (MAX_ORDER + 1,) * (self.life + self.lead_time - 1)


CASES = [
    Case(life, lead, waste, issuing)
    for life in PUBLISHED
    for lead in (1, 2)
    for waste in (7, 10)
    for issuing in ("LIFO", "FIFO")
]
Orders = Callable[[np.ndarray], np.ndarray]  # (n, axes) states -> (n,) orders


def step(case: Case, states: np.ndarray, order: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n, K, axes) next states and (n,) expected rewards; freshest stock first, then transit."""
    m, demand = case.life, np.arange(MAX_DEMAND + 1)
    stock, transit = states[:, :m], states[:, m:]
    unmet = np.broadcast_to(demand, (len(states), MAX_DEMAND + 1)).copy()
    left = np.broadcast_to(stock[:, None, :], (*unmet.shape, m)).copy()
    for age in range(m) if case.issuing == "LIFO" else reversed(range(m)):
        sold = np.minimum(left[..., age], unmet)
        left[..., age] -= sold
        unmet -= sold
    cost = left[..., :-1].sum(axis=-1) + case.waste * left[..., -1] + 5.0 * unmet
    pipeline = np.column_stack([order, transit])  # what comes in, latest first
    pipelines = [
        np.broadcast_to(pipeline[:, None, k], unmet.shape) for k in range(pipeline.shape[1])
    ]
    nexts = np.stack([pipelines[-1], *np.moveaxis(left[..., :-1], -1, 0), *pipelines[:-1]], axis=-1)
    return nexts, -(cost @ LAW) - 3.0 * order


def compute_measure(case: Case, orders: Orders) -> float:
    """The published measure of a policy, exactly."""
    reached = np.array([0])
    rows, rewards, frontier = [], [], reached
    while frontier.size:
        states = np.stack(np.unravel_index(frontier, case.shape), axis=-1)
        nexts, reward = step(case, states, orders(states))
        to = np.ravel_multi_index(tuple(np.moveaxis(nexts, -1, 0)), case.shape)
        rows.append(np.stack([np.repeat(frontier, MAX_DEMAND + 1), to.ravel()]))
        rewards.append((frontier, reward))
        frontier = np.setdiff1d(to, reached)
        reached = np.union1d(reached, frontier)
    source, to = np.searchsorted(reached, np.concatenate(rows, axis=1))
    probabilities = np.tile(LAW, len(source) // len(LAW))
    forward = sp.csr_array((probabilities, (to, source)), shape=(len(reached), len(reached)))
    reward = np.zeros(len(reached))
    for positions, reward_here in rewards:
        reward[np.searchsorted(reached, positions)] = reward_here
    share = (reached == 0).astype(float)
    for _ in range(100):
        share = forward @ share
    total = 0.0
    for day in range(365):
        total += DISCOUNT**day * (share @ reward)
        share = forward @ share
    return total


def find_base_stock(case: Case) -> tuple[int, float]:
    """The best level and its measure."""

    def evaluate(level: int) -> float:
        return compute_measure(case, lambda s: np.clip(level - s.sum(axis=1), 0, MAX_ORDER))

    measures = {level: evaluate(level) for level in range(MAX_ORDER + 1)}
    best = max(measures, key=measures.__getitem__)
    return best, measures[best]


def solve_case(case: Case) -> tuple[float, float]:
    """The measure of the optimal policy, and seconds to solve."""
    mdp = ts.problem("perishable").build(
        life=case.life,
        lead_time=case.lead_time,
        waste_cost=case.waste,
        issuing=case.issuing,
        max_demand=MAX_DEMAND,
    )
    start = time.perf_counter()
    table = ts.solve(mdp, ts.ModifiedPolicyIteration(partial_sweeps=2, tol=1e-3)).policy.table
    seconds = time.perf_counter() - start
    return compute_measure(case, lambda states: table[tuple(states.T)]), seconds


def main() -> None:
    max_states = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    header = ("m", "L", "waste", "issuing", "states", "printed", "optimum", "printed", "base stock")
    print("| " + " | ".join(header) + " | S | s |")
    print("| " + " | ".join(["---:"] * (len(header) + 2)) + " |")
    published = [pair.split("/") for row in PUBLISHED.values() for pair in row.split()]
    for case, (published_optimum, published_base_stock) in zip(CASES, published, strict=True):
        states = int(np.prod(case.shape))
        if states > max_states:
            continue
        optimum, seconds = solve_case(case)
        level, base_stock_measure = find_base_stock(case)
        cells = [
            *case,
            f"{states:,}",
            f"-{published_optimum}",
            f"{optimum:.2f}",
            f"-{published_base_stock}",
            f"{base_stock_measure:.2f}",
        ]
        print("| " + " | ".join(map(str, [*cells, level, f"{seconds:.1f}"])) + " |", flush=True)


if __name__ == "__main__":
    main()
