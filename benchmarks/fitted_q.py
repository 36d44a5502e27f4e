"""Compares fitted Q iteration with the plain loop around scikit-learn's forest.

    python benchmarks/fitted_q.py [--trees 60] [--iterations 10]

The plain loop fits ``ExtraTreesRegressor`` on one row per transition and predicts on n x A rows.
Both have leaves of at least 2 observations and see the same transitions. CPU seconds, because other
work on the machine should not decide the ratio; neither way uses more than one core.

A second table says where our time goes, in ms for each tree: growing it on distinct rows with
weights, as is done, and on one row per transition; and asking it about the next states.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor

import tessella as ts
from tessella.baselines import FittedQ, train_batch
from tessella.baselines.fitted_q import WeightedRows, _prepare_batch, grow_tree
from tessella.baselines.training import draw_uniform_transitions

SIZES = (100, 400, 1600, 6400)
TREES = 40  # grown for each entry of the second table


def plain(method: FittedQ, mdp: ts.MDP, n: int, seed: int) -> np.ndarray:
    """(S,) greedy actions."""
    seen = draw_uniform_transitions(mdp, n, seed)
    points, actions = mdp.grid.points, np.arange(mdp.n_actions)

    def rows(states: np.ndarray) -> np.ndarray:
        return np.column_stack(
            [np.repeat(points[states], len(actions), axis=0), np.tile(actions, len(states))]
        )

    inputs, following = np.column_stack([points[seen.states], seen.actions]), rows(seen.nexts)
    rng = np.random.RandomState(seed)
    forest = ExtraTreesRegressor(method.trees, min_samples_leaf=method.leaf, random_state=rng)
    forest.fit(inputs, seen.rewards)
    for _ in range(method.iterations - 1):
        best = forest.predict(following).reshape(n, -1).max(axis=1)
        forest.fit(inputs, seen.rewards + mdp.discount * best)
    return forest.predict(rows(np.arange(mdp.n_states))).reshape(-1, len(actions)).argmax(axis=1)


def each(function) -> float:
    """Processor milliseconds of one call, the median of many."""
    spent = []
    for _ in range(TREES):
        start = time.process_time()
        function()
        spent.append(time.process_time() - start)
    return 1e3 * float(np.median(spent))


def where_it_goes(leaf: int) -> None:
    """The second table."""
    mdp, rng = ts.benchmark("INV-Mix"), np.random.RandomState(0)
    print(f"{'n':>7s}{'rows':>7s}{'merged ms':>11s}{'apart ms':>10s}{'ask ms':>8s}")
    for n in SIZES:
        seen = draw_uniform_transitions(mdp, n, 0)
        batch = _prepare_batch(mdp, seen)
        paid = np.bincount(batch.row_index, seen.rewards) / batch.distinct_rows.weights
        apart = WeightedRows(batch.distinct_rows.inputs[batch.row_index], np.ones(n))
        tree = grow_tree(batch.distinct_rows, paid, leaf, rng)
        ways = (
            lambda rows=batch.distinct_rows, paid=paid: grow_tree(rows, paid, leaf, rng),
            lambda rows=apart, paid=seen.rewards: grow_tree(rows, paid, leaf, rng),
            lambda tree=tree, reached=batch.next_inputs: tree.predict(reached, check_input=False),
        )
        merged, alone, asked = map(each, ways)
        print(f"{n:7,d}{len(paid):7,d}{merged:11.2f}{alone:10.2f}{asked:8.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trees", type=int, default=60)
    parser.add_argument("--iterations", type=int, default=10)
    options = parser.parse_args()
    method = FittedQ(trees=options.trees, iterations=options.iterations)
    print(f"{'n':>17s}{'plain s':>10s}{'ours s':>10s}{'ratio':>8s}{'PE plain':>10s}{'ours':>8s}")
    totals = np.zeros(2)
    for label in ("INV-Mix", "QUE-Mix"):
        solution = ts.solve(ts.benchmark(label))
        exact = solution.policy.table.ravel()
        for n in SIZES:
            start = time.process_time()
            slow = plain(method, solution.mdp, n, 0)
            middle = time.process_time()
            quick = train_batch(method, solution.mdp, [n], [0])[0, n].table.ravel()
            spent = np.array([middle - start, time.process_time() - middle])
            totals += spent
            errors = [(table != exact).mean() for table in (slow, quick)]
            print(
                f"{label:10s}{n:7,d}{spent[0]:10.3f}{spent[1]:10.3f}{spent[0] / spent[1]:8.1f}"
                f"{errors[0]:10.4f}{errors[1]:8.4f}",
                flush=True,
            )
    print(f"{'total':17s}{totals[0]:10.3f}{totals[1]:10.3f}{totals[0] / totals[1]:8.1f}")
    where_it_goes(method.leaf)


if __name__ == "__main__":
    main()
