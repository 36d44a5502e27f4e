"""How the time of a sweep grows, and what share of the machine's speed it reaches.

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

import jax
import numpy as np
import scipy.sparse as sp

import tessella as ts
from tessella.solvers.execution_plan import make_plan
from tessella.solvers.iteration import run_sweeps
from tessella.solvers.prepared_model import PreparedModel

TIMED_SECONDS = 0.25  # of sweeps in one timing
REPETITIONS = 3


@dataclass(frozen=True)
class Cost:
    """Time and work of one sweep."""

    x: int  # the quantity that grows
    states: int
    wall: float
    cpu: float
    operations: float
    bytes: float


def build_store(stock: int, regime: int, n_orders: int, max_demand: int) -> ts.MDP:
    """Inventory with limited storage, demand up to ``max_demand``, and a regime that walks."""

    def law(regime_):
        return ts.truncated_poisson(
            max_demand / 8 + max_demand / 4 * regime_[..., 0] / max(regime, 1), max_demand
        )

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
                ts.Noise("demand", range(max_demand + 1), lambda z: law(z)),
                by=lambda demand: -demand,
                pays=lambda x, demand: -1.5 * np.maximum(demand - x, 0) - 0.1 * x,
            ),
            ts.Shift("z", ts.Noise("step", (-1, 0, 1), [0.25, 0.5, 0.25])),
        ],
        action_name="order",
    )


def build_cube(n_axes: int, side: int) -> ts.MDP:
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


def build_table(states: int) -> ts.MDP:
    """Four actions, eight successors anywhere."""
    rng = np.random.default_rng(0)
    n = 4 * states
    p, to = rng.dirichlet(np.ones(8), n), rng.integers(0, states, (n, 8))
    rows = sp.csr_array((p.ravel(), to.ravel(), np.arange(0, 8 * n + 1, 8)), shape=(n, states))
    state, action = np.divmod(np.arange(n), 4)
    return ts.MDP.from_pairs(state, action, rows, rng.random(n), 0.95)


def measure_cost(x: int, mdp: ts.MDP, outcomes: int) -> Cost:
    """Of one sweep; ``outcomes`` of all noises together, for each state."""
    prepared = PreparedModel(make_plan(mdp))
    n = mdp.n_states
    jax.block_until_ready(run_sweeps(prepared, 1))
    start = time.perf_counter()
    jax.block_until_ready(run_sweeps(prepared, 1))
    count = max(1, int(TIMED_SECONDS / max(time.perf_counter() - start, 1e-6)))
    walls, cpus = [], []
    for _ in range(REPETITIONS):
        wall, cpu = time.perf_counter(), time.process_time()
        jax.block_until_ready(run_sweeps(prepared, count))
        walls.append((time.perf_counter() - wall) / count)
        cpus.append((time.process_time() - cpu) / count)
    is_table = prepared.is_numpy
    n_bytes = 16.0 * n + (12.0 * outcomes * n if is_table else 0)
    operations = 2.0 * n * (outcomes + mdp.n_actions)
    return Cost(x, n, min(walls), min(cpus), operations, n_bytes)


@dataclass(frozen=True)
class Family:
    """Models that differ in one quantity."""

    title: str
    sizes: tuple[int, ...]
    build: Callable[[int], tuple[ts.MDP, int]]  # (model, outcomes for each state)

    def costs(self, quick: bool) -> list[Cost]:
        sizes = self.sizes[:3] if quick else self.sizes
        return [measure_cost(x, *self.build(x)) for x in sizes]


CUBE_SIDES = {2: 256, 3: 40, 4: 16, 5: 9, 6: 6}
FAMILIES = {
    "states": Family(
        "States: a store of stock x regime, 5 orders, 56 demands",
        (40, 100, 200, 500, 1000),
        lambda x: (build_store(x, x // 2, 5, 55), 59),
    ),
    "actions": Family(
        "Actions: a store of 20,301 states, 56 demands",
        (2, 4, 8, 16, 32),
        lambda x: (build_store(200, 100, x, 55), 59),
    ),
    "outcomes": Family(
        "Outcomes of the noise: a store of 20,301 states, 5 orders",
        (8, 16, 32, 64, 128),
        lambda x: (build_store(200, 100, 5, x - 1), x + 3),
    ),
    "axes": Family(
        "Axes: a lazy walk along each, 2 actions",
        (2, 3, 4, 5, 6),
        lambda x: (build_cube(x, CUBE_SIDES[x]), 3 * x),
    ),
    "states of a table": Family(
        "Tables: random rows, 4 actions, 8 successors each",
        (1_000, 5_000, 20_000, 100_000),
        lambda x: (build_table(x), 32),
    ),
}


@dataclass(frozen=True)
class Machine:
    """The speed of all cores."""

    bandwidth: float  # bytes a second
    arithmetic: float  # operations a second

    @staticmethod
    def measure() -> Machine:
        cores = os.cpu_count() or 1
        parts = [[np.ones(1 << 22) for _ in range(3)] for _ in range(cores)]

        def add(arrays):
            for _ in range(5):
                np.add(arrays[0], arrays[1], out=arrays[2])

        with ThreadPoolExecutor(cores) as pool:
            moving = _time_best(lambda: list(pool.map(add, parts)))
        a = np.ones((1500, 1500))
        product = _time_best(lambda: a @ a)
        return Machine(cores * 5 * 3 * 8 * (1 << 22) / moving, 2 * 1500.0**3 / product)


def _time_best(function: Callable[[], object]) -> float:
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def fit_exponent(costs: list[Cost], of_states: bool = False) -> float:
    """The slope of log processor time, for each state where the number of states varies too."""
    x = np.log([cost.states if of_states else cost.x for cost in costs])
    cpu_seconds = [cost.cpu if of_states else cost.cpu / cost.states for cost in costs]
    return float(np.polyfit(x, np.log(cpu_seconds), 1)[0])


def render_section(name: str, family: Family, costs: list[Cost], machine: Machine) -> list[str]:
    grows_states = name.startswith("states")
    lines = [
        f"## {family.title}",
        "",
        f"| {name} | states | sweep ms | cpu ms | cpu ns a state | of bandwidth | of arithmetic |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for cost in costs:
        lines.append(
            f"| {cost.states if grows_states else cost.x:,} | {cost.states:,} | "
            f"{1e3 * cost.wall:.3g} | {1e3 * cost.cpu:.3g} | {1e9 * cost.cpu / cost.states:.3g} | "
            f"{cost.bytes / cost.wall / machine.bandwidth:.0%} | "
            f"{cost.operations / cost.wall / machine.arithmetic:.0%} |"
        )
    exponent, upper_half = (
        fit_exponent(costs, grows_states),
        fit_exponent(costs[len(costs) // 2 :], grows_states),
    )
    quantity = "of processor time" if grows_states else "of processor time for each state"
    summary = f"Exponent {quantity}: **{exponent:.2f}**; of the larger half alone {upper_half:.2f}."
    return [*lines, "", summary, ""]


def render_page(costs_by_family: dict[str, list[Cost]], machine: Machine) -> str:
    lines = [
        "# How run time grows",
        "",
        "Written by `python benchmarks/growth.py`: the time of one compiled sweep T v, as one",
        "quantity grows at a time. *of bandwidth*: bytes if each value is read and written once",
        "(of a table, its rows). *of arithmetic*: two operations for each state and outcome or",
        "action. Both are shares of what the machine reached in the same run on",
        f"{os.cpu_count()} cores: {machine.bandwidth / 1e9:.1f} GB/s for sums of two long arrays,",
        f"{machine.arithmetic / 1e9:.0f} GFlop/s for a matrix product. Tables use one core.",
        "",
    ]
    for name, costs in costs_by_family.items():
        lines += render_section(name, FAMILIES[name], costs, machine)
    return "\n".join(lines)


def write(out: Path, quick: bool) -> None:
    """Measure everything, and write the page."""
    machine = Machine.measure()
    costs_by_family = {}
    for name, family in FAMILIES.items():
        costs_by_family[name] = family.costs(quick)
        print(name, [f"{1e3 * cost.cpu:.3g} ms" for cost in costs_by_family[name]], flush=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(render_page(costs_by_family, machine))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the three smallest of each")
    parser.add_argument("--out", type=Path, default=Path("docs/generated/growth.md"))
    options = parser.parse_args()
    write(options.out, options.quick)


if __name__ == "__main__":
    main()
