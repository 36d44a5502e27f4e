"""Which method is fastest on a varied set of models: the basis of the automatic choice.

    python benchmarks/methods.py [small|all|word of a model's name ...]

Processor time of a warm solve (compiled before, the best of a few), each as a multiple of the
fastest on that model, in one run. The last column is what ``solve`` chooses; the last line is how
much slower that is than the fastest, on average and at worst.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import tessella as ts
from tessella.solvers.execution_plan import make_plan

METHODS = {
    "modified 5": ts.ModifiedPolicyIteration(partial_sweeps=5),
    "modified 20": ts.ModifiedPolicyIteration(),
    "inexact .1": ts.InexactPolicyIteration(forcing=0.1),
    "inexact .01": ts.InexactPolicyIteration(),
    "mixed": ts.MixedPrecision(),
}


def build_inventory(stock: int, regime: int, discount: float) -> ts.MDP:
    slope = 0.36 * 24 / regime
    return ts.inventory(max_stock=stock, max_regime=regime, demand_slope=slope, discount=discount)


def build_queue(length: int, regime: int, discount: float) -> ts.MDP:
    return ts.queue_admission(
        max_queue=length, max_regime=regime, arrival_slope=7 / regime, discount=discount
    )


def build_platelets(ages: int, max_order: int, discount: float) -> ts.MDP:
    """Stock by remaining life and weekday: periodic, an order of fresh units, oldest used first."""
    names = [f"life{k + 1}" for k in range(ages)]
    mean = np.array([5.7, 6.9, 6.5, 6.2, 5.8, 3.3, 3.4]) * max_order / 20

    def law(weekday):
        return ts.truncated_poisson(mean[np.asarray(weekday, int)], max_order)

    def to(demand, order, weekday, **lives):
        left, later = demand, {}
        for k, name in enumerate([*names, "fresh"]):
            units = order if name == "fresh" else lives[name]
            used = np.minimum(units, left)
            left = left - used
            if k:
                later[names[k - 1]] = units - used
        return later | {"weekday": (weekday + 1) % 7}

    def pays(demand, order, **lives):
        stock = order + sum(lives[name] for name in names)
        waste = np.maximum(lives[names[0]] - demand, 0)
        short, left_over = np.maximum(demand - stock, 0), np.maximum(stock - demand, 0)
        return -(10 * (order > 0) + 20 * short + 5 * waste + left_over - waste)

    axes = {"weekday": range(7)} | {name: range(max_order + 1) for name in names}
    jump = ts.Jump(
        ts.Noise("demand", range(max_order + 1), law),
        to=to,
        pays=pays,
    )
    return ts.MDP.staged(
        axes, range(max_order + 1), discount, [jump], action_name="order", name="p"
    )


def build_random(states: int, discount: float) -> ts.MDP:
    """Ten next states anywhere, ten actions: mixes in a few periods."""
    import scipy.sparse as sp

    rng = np.random.default_rng(0)
    column = rng.integers(0, states, (10, states, 10))
    weight = rng.dirichlet(np.ones(10), (10, states))
    row = np.repeat(np.arange(states), 10)
    rows = [
        sp.csr_array((w.ravel(), (row, c.ravel())), shape=(states, states))
        for w, c in zip(weight, column, strict=True)
    ]
    return ts.MDP.from_arrays(rows, rng.normal(size=(states, 10)), discount)


def build_rival_model(kind: str, *settings, discount: float) -> ts.MDP:
    """A model of the comparison with other packages."""
    sys.path.insert(0, str(Path(__file__).parent / "rivals"))
    from models import BUILDERS

    pairs = BUILDERS[kind](*settings)
    return ts.MDP.from_pairs(pairs.state, pairs.action, pairs.rows, pairs.reward, discount)


def build_machine(states: int, discount: float) -> ts.MDP:
    """Wear that grows slowly until a repair: mixes in as many periods as there are states."""
    wear = ts.Shift("wear", ts.Noise("w", [0, 1], [0.5, 0.5]), pays=lambda wear: -wear / states)
    repair = ts.Decide(
        "wear",
        to=lambda wear, repair: np.where(repair == 1, 0, wear),
        pays=lambda repair: -20.0 * repair,
    )
    return ts.MDP.staged(
        {"wear": range(states)}, (0, 1), discount, [repair, wear], action_name="repair"
    )


CASES = {
    "inventory 825, 0.95": lambda: build_inventory(32, 24, 0.95),
    "inventory 825, 0.999": lambda: build_inventory(32, 24, 0.999),
    "inventory 20,301, 0.9": lambda: build_inventory(200, 100, 0.9),
    "inventory 20,301, 0.95": lambda: build_inventory(200, 100, 0.95),
    "inventory 20,301, 0.99": lambda: build_inventory(200, 100, 0.99),
    "queue 20,301, 0.95": lambda: build_queue(200, 100, 0.95),
    "queue 20,301, 0.99": lambda: build_queue(200, 100, 0.99),
    "platelets 3,087, 0.95": lambda: build_platelets(2, 20, 0.95),
    "platelets 9,317, 0.99": lambda: build_platelets(3, 10, 0.99),
    "random 200, 0.95": lambda: build_rival_model("random", 200, 4, 10, discount=0.95),
    "random 5,000, 0.95": lambda: build_rival_model("random", 5_000, 5, 20, discount=0.95),
    "map 10 x 10, 0.99": lambda: build_rival_model("lake", 10, discount=0.99),
    "map 30 x 30, 0.99": lambda: build_rival_model("lake", 30, discount=0.99),
    "map 100 x 100, 0.99": lambda: build_rival_model("lake", 100, discount=0.99),
    "maintenance 341, 0.95": lambda: ts.problem("maintenance").build(),
    "battery 315, 0.99": lambda: ts.problem("battery_arbitrage").build(),
    "traffic 432, 0.99": lambda: ts.problem("traffic_intersection").build(),
    "random 20,000, 0.95": lambda: build_random(20_000, 0.95),
    "random 20,000, 0.99": lambda: build_random(20_000, 0.99),
    "machine 20,000, 0.95": lambda: build_machine(20_000, 0.95),
    "machine 20,000, 0.99": lambda: build_machine(20_000, 0.99),
}
LARGE = {
    "platelets 64,827, 0.95": lambda: build_platelets(3, 20, 0.95),
    "inventory 501,501, 0.95": lambda: build_inventory(1000, 500, 0.95),
    "queue 501,501, 0.95": lambda: build_queue(1000, 500, 0.95),
    "machine 500,000, 0.99": lambda: build_machine(500_000, 0.99),
}


def time_solve(mdp: ts.MDP, method: ts.Method, repeats: int) -> tuple[float, int]:
    fastest, sweeps = np.inf, 0
    for _ in range(repeats + 1):  # the first compiles
        start = time.process_time()
        solution = ts.solve(mdp, method)
        fastest, sweeps = min(fastest, time.process_time() - start), solution.sweeps
    return fastest, sweeps


def list_cases(words: list[str]) -> dict[str, Callable[[], ts.MDP]]:
    """The models that the command line names, or all."""
    cases = CASES | (LARGE if "all" in words else {})
    parts = [word for word in words if word not in ("small", "all")]
    return {
        name: build
        for name, build in cases.items()
        if not parts or any(part in name for part in parts)
    }


def measure_methods(name: str, mdp: ts.MDP) -> float:
    """Print the times of all methods; returns the ratio of the automatic one to the fastest."""
    repeats = 3 if mdp.n_states < 50_000 else 1
    results = {label: time_solve(mdp, method, repeats) for label, method in METHODS.items()}
    fastest = min(seconds for seconds, _ in results.values())
    chosen = make_plan(mdp).method
    label = next((n for n, m in METHODS.items() if m == chosen), None)
    automatic = results[label][0] if label else time_solve(mdp, chosen, repeats)[0]
    ratio = automatic / fastest
    cells = "".join(f"{t / fastest:11.2f} ({n:4})" for t, n in results.values())
    print(f"{name:26}{cells}   {label or chosen.name} {ratio:.2f}", flush=True)
    return ratio


def main() -> None:
    print(f"{'model':26}" + "".join(f"{name:>18}" for name in METHODS) + "   automatic")
    cases = list_cases(sys.argv[1:])
    ratios = [measure_methods(name, build()) for name, build in cases.items()]
    print(f"automatic over fastest: mean {np.mean(ratios):.2f}, worst {max(ratios):.2f}")


if __name__ == "__main__":
    main()
