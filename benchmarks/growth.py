"""How the cost of a sweep grows, and what share of the machine it reaches.

    python benchmarks/growth.py [--quick] [--out docs/generated/growth.md]

One quantity at a time: states, actions, outcomes of the noise, axes (2 to 6, about as many states),
and for tables of random rows, states. Seconds of one sweep T v, compiled, by the clock and of the
processor, the best of several; exponents by least squares in logarithms, of processor time.

The share: what a sweep computes (two operations for each state and outcome of a noise, and two for
each state and action) and the least that it moves (each value read and written once; of a table its
rows), over what the machine was measured to do in the same run on all cores: a large matrix
product, and sums of two long arrays.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import tessella as ts
from tessella.solvers.execution_plan import make_plan
from tessella.solvers.iteration import run_sweeps
from tessella.solvers.prepared_model import PreparedModel

LONG = 0.25  # seconds of sweeps that are timed at once
TIMES = 3


@dataclass(frozen=True)
class Cost:
    """Of one sweep."""

    x: int  # what grows
    states: int
    wall: float
    cpu: float
    operations: float
    bytes: float


def store(stock: int, regime: int, n_orders: int, most: int) -> ts.MDP:
    """Orders up to a full store, demand up to ``most`` by a regime that walks."""

    def law(regime_):
        return ts.truncated_poisson(most / 8 + most / 4 * regime_[..., 0] / max(regime, 1), most)

    return ts.MDP.staged(
        {"x": range(stock + 1), "z": range(regime + 1)},
        tuple(range(n_orders)),
        0.95,
        [
            ts.Decide(
                "x",
                to=lambda x, order: np.minimum(x + order, stock),
                pays=lambda order: -0.25 * order,
            ),
            ts.Shift(
                "x",
                ts.Noise("demand", range(most + 1), lambda z: law(z)),
                by=lambda demand: -demand,
                pays=lambda x, demand: -1.5 * np.maximum(demand - x, 0) - 0.1 * x,
            ),
            ts.Shift("z", ts.Noise("step", (-1, 0, 1), [0.25, 0.5, 0.25])),
        ],
        action_name="order",
    )


def cube(n_axes: int, side: int) -> ts.MDP:
    """A lazy walk along each axis; the first may be sent back to 0."""
    names = [f"x{i}" for i in range(n_axes)]
    back = ts.Decide(
        names[0],
        to=lambda x0, back: np.where(back == 1, 0, x0),
        pays=lambda x0, back: -0.1 * x0 - 2.0 * back,
    )
    walks = [ts.Shift(name, ts.Noise(f"w{name}", (-1, 0, 1), [0.25, 0.5, 0.25])) for name in names]
    axes = {name: range(side) for name in names}
    return ts.MDP.staged(axes, (0, 1), 0.95, [back, *walks], action_name="back")


def table(states: int) -> ts.MDP:
    """Four actions, eight successors anywhere."""
    rng = np.random.default_rng(0)
    n = 4 * states
    p, to = rng.dirichlet(np.ones(8), n), rng.integers(0, states, (n, 8))
    rows = sp.csr_array((p.ravel(), to.ravel(), np.arange(0, 8 * n + 1, 8)), shape=(n, states))
    state, action = np.divmod(np.arange(n), 4)
    return ts.MDP.from_pairs(state, action, rows, rng.random(n), 0.95)


def cost(x: int, mdp: ts.MDP, outcomes: int) -> Cost:
    """Of one sweep; ``outcomes`` of all noises together, for each state."""
    prepared = PreparedModel(make_plan(mdp))
    n = mdp.n_states
    run_sweeps(prepared, 1)
    began = time.perf_counter()
    run_sweeps(prepared, 1)
    many = max(1, int(LONG / max(time.perf_counter() - began, 1e-6)))
    walls, cpus = [], []
    for _ in range(TIMES):
        wall, cpu = time.perf_counter(), time.process_time()
        run_sweeps(prepared, many)
        walls.append((time.perf_counter() - wall) / many)
        cpus.append((time.process_time() - cpu) / many)
    is_table = prepared.is_numpy
    moved = 16.0 * n + (12.0 * outcomes * n if is_table else 0)
    operations = 2.0 * n * (outcomes + mdp.n_actions)
    return Cost(x, n, min(walls), min(cpus), operations, moved)


@dataclass(frozen=True)
class Family:
    """What grows, with everything else as it is."""

    title: str
    sizes: tuple[int, ...]
    made: Callable[[int], tuple[ts.MDP, int]]  # (model, outcomes for each state)

    def costs(self, quick: bool) -> list[Cost]:
        sizes = self.sizes[:3] if quick else self.sizes
        return [cost(x, *self.made(x)) for x in sizes]


SIDE = {2: 256, 3: 40, 4: 16, 5: 9, 6: 6}
FAMILIES = {
    "states": Family(
        "States: a store of stock x regime, 5 orders, 56 demands",
        (40, 100, 200, 500, 1000),
        lambda x: (store(x, x // 2, 5, 55), 59),
    ),
    "actions": Family(
        "Actions: a store of 20,301 states, 56 demands",
        (2, 4, 8, 16, 32),
        lambda x: (store(200, 100, x, 55), 59),
    ),
    "outcomes": Family(
        "Outcomes of the noise: a store of 20,301 states, 5 orders",
        (8, 16, 32, 64, 128),
        lambda x: (store(200, 100, 5, x - 1), x + 3),
    ),
    "axes": Family(
        "Axes: a lazy walk along each, 2 actions",
        (2, 3, 4, 5, 6),
        lambda x: (cube(x, SIDE[x]), 3 * x),
    ),
    "states of a table": Family(
        "Tables: random rows, 4 actions, 8 successors each",
        (1_000, 5_000, 20_000, 100_000),
        lambda x: (table(x), 32),
    ),
}


@dataclass(frozen=True)
class Machine:
    """What it does on all cores."""

    bandwidth: float  # bytes a second
    arithmetic: float  # operations a second

    @staticmethod
    def measured() -> Machine:
        cores = os.cpu_count() or 1
        parts = [[np.ones(1 << 22) for _ in range(3)] for _ in range(cores)]

        def add(arrays):
            for _ in range(5):
                np.add(arrays[0], arrays[1], out=arrays[2])

        with ThreadPoolExecutor(cores) as pool:
            moving = _best(lambda: list(pool.map(add, parts)))
        a = np.ones((1500, 1500))
        product = _best(lambda: a @ a)
        return Machine(cores * 5 * 3 * 8 * (1 << 22) / moving, 2 * 1500.0**3 / product)


def _best(function: Callable[[], object]) -> float:
    spent = []
    for _ in range(5):
        began = time.perf_counter()
        function()
        spent.append(time.perf_counter() - began)
    return min(spent)


def exponent(costs: list[Cost], of_states: bool = False) -> float:
    """The slope of log processor time, for each state where the number of states varies too."""
    x = np.log([one.states if of_states else one.x for one in costs])
    share = [one.cpu if of_states else one.cpu / one.states for one in costs]
    return float(np.polyfit(x, np.log(share), 1)[0])


def section(name: str, family: Family, costs: list[Cost], machine: Machine) -> list[str]:
    grows_states = name.startswith("states")
    lines = [
        f"## {family.title}",
        "",
        f"| {name} | states | sweep ms | cpu ms | cpu ns a state | of bandwidth | of arithmetic |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for one in costs:
        lines.append(
            f"| {one.states if grows_states else one.x:,} | {one.states:,} | "
            f"{1e3 * one.wall:.3g} | {1e3 * one.cpu:.3g} | {1e9 * one.cpu / one.states:.3g} | "
            f"{one.bytes / one.wall / machine.bandwidth:.0%} | "
            f"{one.operations / one.wall / machine.arithmetic:.0%} |"
        )
    whole, late = exponent(costs, grows_states), exponent(costs[len(costs) // 2 :], grows_states)
    told = "of processor time" if grows_states else "of processor time for each state"
    said = f"Exponent {told}: **{whole:.2f}**; of the larger half {late:.2f}."
    return [*lines, "", said, ""]


def page(found: dict[str, list[Cost]], machine: Machine) -> str:
    lines = [
        "# How cost grows",
        "",
        "Made by `python benchmarks/growth.py`, and by nothing else: one sweep T v, compiled, one",
        "quantity at a time. *of bandwidth* counts each value once in and once out (of a table its",
        "rows), *of arithmetic* two operations for each state and outcome or action, over what the",
        f"machine did in the same run on {os.cpu_count()} cores: sums of two long arrays at "
        f"{machine.bandwidth / 1e9:.1f} GB/s,",
        f"a matrix product at {machine.arithmetic / 1e9:.0f} GFlop/s. Tables go through one core.",
        "",
    ]
    for name, costs in found.items():
        lines += section(name, FAMILIES[name], costs, machine)
    return "\n".join(lines)


def write(out: Path, quick: bool) -> None:
    """Measure everything, and write the page."""
    machine = Machine.measured()
    found = {}
    for name, family in FAMILIES.items():
        found[name] = family.costs(quick)
        print(name, [f"{1e3 * one.cpu:.3g} ms" for one in found[name]], flush=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(found, machine))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the three smallest of each")
    parser.add_argument("--out", type=Path, default=Path("docs/generated/growth.md"))
    asked = parser.parse_args()
    write(asked.out, asked.quick)


if __name__ == "__main__":
    main()
