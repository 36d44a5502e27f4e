"""How small a rule can be, and our trees compared with CART: docs/generated/rules.md and cart.md.

    python benchmarks/rules.py [sizes] [cart] [seconds=5] [problem ...]

Both tables cover the paper's benchmarks and the published problems, unless some are named; other
lines stay as they are. Two problems have smaller settings (``SETTINGS``). VerticalCAS is left out:
each of its 41 periods has 1,779,570 states and 9 actions, and the array visits x gap, to which
every class is fitted, would take 5.3 GB.

The first: numbers needed at four losses, on average and from the worst state. Each entry is the
size of the smallest rule that was found and its class, then what is proven necessary in that class
(nothing, where the class is searched and not solved); a star says that the limit of ``SECONDS``
of the processor for each entry, or what ``seconds`` says, ended the search. Losses of an average
are the same from every state.

The second: our axis trees and those of scikit-learn's CART, which learns the optimal actions of
all states, weighted equally, by visits, or by visits x what the second-best action loses; of every
number of leaves the best of its pruned trees (cost-complexity path) and of those grown to that
number. Both are compared by the exact mean loss. "above" counts the numbers of leaves at
which our best tree of at most that many leaves loses more than CART's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence

import numpy as np
from sklearn.tree import DecisionTreeClassifier
from tables import Table

import tessella as ts
from tessella.mdp.start import start_distribution
from tessella.problems.registry import PUBLISHED_PROBLEMS
from tessella.rules.evaluator import PolicyEvaluator

LOSSES = (0.0, 0.001, 0.01, 0.05)
ENTRY_SECONDS = 5.0  # of the processor, for each entry
FRONTIER_SECONDS = 15.0  # of the processor, for each frontier of trees
SETTINGS = {"platelets": {"most": 10}, "seat_revenue": {"seats": 15, "periods": 30}}
EXCLUDED = ("vertical_cas",)
MAX_LEAVES = 60  # compared with CART, at most
MAX_ALPHAS = 40  # of a cost-complexity path
LARGE_MIN_STATES = 5_000  # states, beyond which only some numbers of leaves are compared
SHORT_NAMES = {
    "one action": "one action",
    "order up to": "order-up-to",
    "linear index": "index",
    "linear tree": "linear tree",
    "run-length table": "table",
    "axis tree": "tree",
    "rule with exceptions": "exceptions",
    "staircase": "staircase",
    "small network": "network",
    "monotone surface": "surface",
}


def cell(rule: ts.Rule) -> str:
    bound = f", >= {rule.size_needed}" if rule.size_needed > 1 else ""
    mark = "*" if any("time limit" in outcome.explanation for outcome in rule.outcomes) else ""
    return f"{rule.size} {SHORT_NAMES.get(rule.kind, rule.kind)}{bound}{mark}"


def find_entry(solution: ts.Solution, loss: float, worst: bool, seconds: float) -> str:
    try:
        return cell(ts.compress(solution, loss, worst=worst, prefer="smallest", time_limit=seconds))
    except ts.ArgumentError as error:
        return str(error).split(";")[0]


def measure_sizes(solution: ts.Solution, seconds: float) -> list[str]:
    """A line of the first table."""
    start = time.perf_counter()
    cells = [find_entry(solution, loss, False, seconds) for loss in LOSSES]
    is_average = isinstance(solution.mdp.criterion, ts.Average)
    has_no_start = solution.mdp.start is None  # then nothing may be lost anywhere, either way
    for loss in LOSSES:
        same = is_average or (has_no_start and not loss)
        cells.append("same" if same else find_entry(solution, loss, True, seconds))
    return [*cells, f"{time.perf_counter() - start:.0f}"]


def grow_cart_trees(evaluator: PolicyEvaluator) -> Iterator[tuple[int, np.ndarray]]:
    """(leaves, table) of CART trees."""
    points, best = evaluator.mdp.grid.points, evaluator.solution.policy.table.ravel()
    visits = evaluator.optimal.visits
    large = evaluator.mdp.n_states > LARGE_MIN_STATES
    weightings = [np.ones(len(points)), visits, visits * evaluator.second_best_loss]
    for weights in (weighting for weighting in weightings if weighting.any()):
        weights = np.maximum(weights / weights.mean(), 1e-9)
        settings_list = [
            {"max_leaf_nodes": k} for k in ((2, 8, 32) if large else range(2, MAX_LEAVES + 1))
        ]
        if not large:
            tree = DecisionTreeClassifier(random_state=0)
            path = tree.cost_complexity_pruning_path(points, best, sample_weight=weights)
            alphas = np.unique(np.maximum(path.ccp_alphas, 0.0))
            settings_list += [
                {"ccp_alpha": a} for a in alphas[:: max(1, len(alphas) // MAX_ALPHAS)]
            ]
        for settings in settings_list:
            tree = DecisionTreeClassifier(random_state=0, **settings)
            tree.fit(points, best, sample_weight=weights)
            yield int(tree.get_n_leaves()), tree.predict(points)


def measure_cart(evaluator: PolicyEvaluator) -> dict[int, float]:
    """The least mean loss of CART trees, by number of leaves."""
    losses: dict[int, float] = {}
    for leaves, table in grow_cart_trees(evaluator):
        if leaves > MAX_LEAVES or not evaluator.is_feasible(table):
            continue
        evaluation = evaluator.evaluate(table)
        if evaluation is not None:
            losses[leaves] = min(evaluation.mean_loss, losses.get(leaves, np.inf))
    return losses


def compare_with_cart(solution: ts.Solution, _: float) -> list[str]:
    """A line of the second table."""
    start = time.perf_counter()
    evaluator = PolicyEvaluator(solution, start_distribution(solution.mdp, None, solution.policy))
    cart = measure_cart(evaluator)
    cart_seconds, start = time.perf_counter() - start, time.perf_counter()
    max_size = 3 * max(cart) - 2
    points = ts.frontier(
        solution,
        max_size,
        classes=[ts.AxisTree()],
        relative=False,
        time_limit=FRONTIER_SECONDS,
    ).points
    own_seconds = time.perf_counter() - start
    noise = 1e-9 * max(abs(evaluator.compute_optimal_value()), 1.0)
    losses = {leaves: find_least_loss(points, 3 * leaves - 2) for leaves in sorted(cart)}
    above = list_above(losses, cart, noise)
    ratios = [max(losses[k], 0.0) / loss for k, loss in cart.items() if loss > noise]
    return [
        f"{len(cart)}",
        ": ".join(filter(None, [f"{len(above)}", ", ".join(above[:4])])),
        f"{np.median(ratios):.2f}" if ratios else "",
        format_least_leaves([(p.size + 2) // 3 for p in points if p.loss <= noise]),
        format_least_leaves([leaves for leaves, loss in cart.items() if loss <= noise]),
        f"{own_seconds:.0f}, {cart_seconds:.0f}",
    ]


def list_above(losses: dict[int, float], cart: dict[int, float], noise: float) -> list[str]:
    """The numbers of leaves at which our loss is above CART's."""
    return [
        f"{leaves} ({loss:.4g}, not {cart[leaves]:.4g})"
        for leaves, loss in losses.items()
        if loss > cart[leaves] * (1 + 1e-9) + noise
    ]


def find_least_loss(points: Sequence, max_size: int) -> float:
    return min((p.loss for p in points if p.size <= max_size), default=np.inf)


def format_least_leaves(leaves: list[int]) -> str:
    """The fewest leaves of exact trees."""
    return f"{min(leaves)}" if leaves else f"> {MAX_LEAVES}"


SIZE_COLUMNS = [f"{loss:.1%}" for loss in LOSSES] + [f"{loss:.1%} worst" for loss in LOSSES]
CART_COLUMNS = (
    "sizes",
    "above",
    "loss, median share of CART's",
    "leaves, exact",
    "CART's",
    "s of both",
)
EXPLANATION = "[Small rules](../rules.md) explains what is measured."
SIZES_INTRODUCTION = (
    f"# How many parameters rules need\n\nWritten by `benchmarks/rules.py`. {EXPLANATION}\n"
)
CART_INTRODUCTION = (
    f"# Axis trees and CART compared\n\nWritten by `benchmarks/rules.py cart`. {EXPLANATION}\n"
)
TABLES = {
    "sizes": (
        Table("rules", ("problem", *SIZE_COLUMNS, "s"), head=SIZES_INTRODUCTION),
        measure_sizes,
    ),
    "cart": (Table("cart", ("problem", *CART_COLUMNS), head=CART_INTRODUCTION), compare_with_cart),
}


def solve_problems(names: list[str]) -> Iterator[tuple[str, ts.Solution]]:
    for name in names:
        settings = SETTINGS.get(name, {})
        mdp = ts.benchmark(name) if name in ts.BENCHMARKS else ts.problem(name).build(**settings)
        description = ", ".join(f"{key} {value}" for key, value in settings.items())
        yield f"{name} ({description})" if description else name, ts.solve(mdp)


def parse_seconds(words: list[str]) -> float:
    limits = [word.removeprefix("seconds=") for word in words if word.startswith("seconds=")]
    return float(limits[0]) if limits else ENTRY_SECONDS


def parse_problems(words: list[str]) -> list[str]:
    """The named problems; without names, the paper's and the published ones."""
    names = [word for word in words if word not in TABLES and not word.startswith("seconds=")]
    published = [p.name for p in PUBLISHED_PROBLEMS if p.name not in EXCLUDED]
    return names or [*ts.BENCHMARKS, *published]


def main() -> None:
    time.perf_counter = time.process_time  # so that limits are the same on a busy machine
    words = sys.argv[1:]
    seconds = parse_seconds(words)
    tables = [TABLES[word] for word in words if word in TABLES] or list(TABLES.values())
    names: dict[str, str] = {}  # by fingerprint
    for name, solution in solve_problems(parse_problems(words)):
        first = names.setdefault(solution.mdp.fingerprint, name)
        for table, measure in tables:
            empty = [""] * (len(table.columns) - 2)
            cells = measure(solution, seconds) if first == name else [f"as {first}", *empty]
            table.put([name, *cells])


if __name__ == "__main__":
    main()
