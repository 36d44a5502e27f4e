"""How small a rule can be, and how our trees fare beside CART: docs/generated/rules.md and cart.md.

    python benchmarks/rules.py [sizes] [cart] [seconds=5] [problem ...]

Both tables, over the paper's benchmarks and the zoo, unless some are named; lines that are not
measured stay as they are. Two problems are taken
with smaller settings (``SETTINGS``), and VerticalCAS is left out: for each of its 41 periods it has
1,779,570 states and 9 actions, and visits x gap, which every class is fitted to, would take 5.3 GB.

The first: numbers needed at four losses, on average and from the worst state. Each entry is the
size of the smallest rule that was found and its class, then what is proven necessary in that class
(nothing, where the class is searched and not solved); a star says that the limit of ``SECONDS``
of the processor for each entry, or what ``seconds`` says, ended the search. Losses of an average
are the same from every state.

The second: our axis trees beside those of scikit-learn's CART, which learns the optimal actions of
all states, weighted equally, by visits, or by visits x what the second-best action loses; of every
number of leaves the best of its pruned trees (cost-complexity path) and of those grown to that
number. Both are judged by the mean loss, by evaluation. "above" counts the numbers of leaves at
which our best tree of at most so many leaves loses more than CART's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import numpy as np
from sklearn.tree import DecisionTreeClassifier
from tables import Table

import tessella as ts
from tessella.mdp.start import start_distribution
from tessella.problems.registry import ZOO_PROBLEMS
from tessella.rules.evaluator import PolicyEvaluator

LOSSES = (0.0, 0.001, 0.01, 0.05)
SECONDS = 5.0  # of the processor, for each entry
FRONTIER = 15.0  # of the processor, for each frontier of trees
SETTINGS = {"platelets": {"most": 10}, "seat_revenue": {"seats": 15, "periods": 30}}
LEFT_OUT = ("vertical_cas",)
LEAVES = 60  # compared with CART, at most
ALPHAS = 40  # of a cost-complexity path
LARGE = 5_000  # states, beyond which only some numbers of leaves are compared
SHORT = {
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
    proven = f", >= {rule.size_needed}" if rule.size_needed > 1 else ""
    cut = "*" if any("time limit" in outcome.explanation for outcome in rule.outcomes) else ""
    return f"{rule.size} {SHORT.get(rule.kind, rule.kind)}{proven}{cut}"


def entry(solution: ts.Solution, loss: float, worst: bool, seconds: float) -> str:
    try:
        return cell(ts.compress(solution, loss, worst=worst, time_limit=seconds))
    except ts.ArgumentError as error:
        return str(error).split(";")[0]


def needed(solution: ts.Solution, seconds: float) -> list[str]:
    """A line of the first table."""
    begun = time.perf_counter()
    cells = [entry(solution, loss, False, seconds) for loss in LOSSES]
    lasting = isinstance(solution.mdp.criterion, ts.Average)
    everywhere = solution.mdp.start is None  # then nothing may be lost anywhere, either way
    for loss in LOSSES:
        same = lasting or (everywhere and not loss)
        cells.append("same" if same else entry(solution, loss, True, seconds))
    return [*cells, f"{time.perf_counter() - begun:.0f}"]


def carts(evaluator: PolicyEvaluator) -> Iterator[tuple[int, np.ndarray]]:
    """(leaves, table) of CART trees."""
    points, best = evaluator.mdp.grid.points, evaluator.solution.policy.table.ravel()
    visits = evaluator.optimal.visits
    large = evaluator.mdp.n_states > LARGE
    told = [np.ones(len(points)), visits, visits * evaluator.second_best_loss]
    for weights in (one for one in told if one.any()):
        weights = np.maximum(weights / weights.mean(), 1e-9)
        trees = [{"max_leaf_nodes": k} for k in ((2, 8, 32) if large else range(2, LEAVES + 1))]
        if not large:
            grown = DecisionTreeClassifier(random_state=0)
            path = grown.cost_complexity_pruning_path(points, best, sample_weight=weights)
            alphas = np.unique(np.maximum(path.ccp_alphas, 0.0))
            trees += [{"ccp_alpha": a} for a in alphas[:: max(1, len(alphas) // ALPHAS)]]
        for asked in trees:
            made = DecisionTreeClassifier(random_state=0, **asked)
            made.fit(points, best, sample_weight=weights)
            yield int(made.get_n_leaves()), made.predict(points)


def beside_cart(solution: ts.Solution, _: float) -> list[str]:
    """A line of the second table."""
    begun = time.perf_counter()
    evaluator = PolicyEvaluator(solution, start_distribution(solution.mdp, None, solution.policy))
    rival: dict[int, float] = {}
    for leaves, table in carts(evaluator):
        lost = (
            evaluator.evaluate(table) if leaves <= LEAVES and evaluator.is_feasible(table) else None
        )
        if lost is not None:
            rival[leaves] = min(lost.mean_loss, rival.get(leaves, np.inf))
    theirs, begun = time.perf_counter() - begun, time.perf_counter()
    most = 3 * max(rival) - 2
    trees, limit = [ts.AxisTree()], FRONTIER
    found = ts.frontier(solution, most, classes=trees, relative=False, time_limit=limit)
    ours = time.perf_counter() - begun
    noise = 1e-9 * max(abs(evaluator.compute_optimal_value()), 1.0)
    above, ratios = [], []
    for leaves, loss in sorted(rival.items()):
        best = min((p.loss for p in found.points if p.size <= 3 * leaves - 2), default=np.inf)
        if best > loss * (1 + 1e-9) + noise:
            above.append(f"{leaves} ({best:.4g}, not {loss:.4g})")
        if loss > noise:
            ratios.append(max(best, 0.0) / loss)
    exact = [k for k, loss in rival.items() if loss <= noise]
    mine = [(p.size + 2) // 3 for p in found.points if p.loss <= noise]
    return [
        f"{len(rival)}",
        f"{len(above)}" + (f": {', '.join(above[:4])}" if above else ""),
        f"{np.median(ratios):.2f}" if ratios else "",
        f"{min(mine)}" if mine else f"> {LEAVES}",
        f"{min(exact)}" if exact else f"> {LEAVES}",
        f"{ours:.0f}, {theirs:.0f}",
    ]


HEADS = [f"{loss:.1%}" for loss in LOSSES] + [f"{loss:.1%} worst" for loss in LOSSES]
BESIDE = ("sizes", "above", "loss, median share of CART's", "leaves, exact", "CART's", "s of both")
MEASURED = "[Small rules](../rules.md) says what is measured."
NEEDED_HEAD = f"# Numbers that rules need\n\nWritten by `benchmarks/rules.py`. {MEASURED}\n"
CART_HEAD = f"# Rules beside CART\n\nWritten by `benchmarks/rules.py cart`. {MEASURED}\n"
TABLES = {
    "sizes": (Table("rules", ("problem", *HEADS, "s"), head=NEEDED_HEAD), needed),
    "cart": (Table("cart", ("problem", *BESIDE), head=CART_HEAD), beside_cart),
}


def solutions(names: list[str]) -> Iterator[tuple[str, ts.Solution]]:
    for name in names:
        settings = SETTINGS.get(name, {})
        mdp = ts.benchmark(name) if name in ts.BENCHMARKS else ts.problem(name).build(**settings)
        told = ", ".join(f"{key} {value}" for key, value in settings.items())
        yield f"{name} ({told})" if told else name, ts.solve(mdp)


def main() -> None:
    time.perf_counter = time.process_time  # so that limits are the same on a busy machine
    words = sys.argv[1:]
    limits = [float(word.removeprefix("seconds=")) for word in words if word.startswith("seconds=")]
    seconds = limits[0] if limits else SECONDS
    asked = [word for word in words if word not in TABLES and not word.startswith("seconds=")]
    zoo = [problem.name for problem in ZOO_PROBLEMS if problem.name not in LEFT_OUT]
    names = asked or [*ts.BENCHMARKS, *zoo]
    tables = [TABLES[word] for word in words if word in TABLES] or list(TABLES.values())
    seen: dict[str, str] = {}
    for name, solution in solutions(names):
        same = next((p for p in seen if seen[p] == solution.mdp.fingerprint), None)
        seen.setdefault(name, solution.mdp.fingerprint)
        for table, measured in tables:
            known = [f"as {same}", *[""] * (len(table.columns) - 2)]
            table.put([name, *(known if same else measured(solution, seconds))])


if __name__ == "__main__":
    main()
