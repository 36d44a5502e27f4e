"""Compares fitted Q iteration with the plain loop around scikit-learn's forest.

    python benchmarks/fitted_q.py [--trees 60] [--iterations 10]

The plain loop fits ``ExtraTreesRegressor`` on one row per transition and predicts on n x A rows.
Both have leaves of at least 2 observations and see the same transitions. CPU seconds, because other
work on the machine should not decide the ratio; neither way uses more than one core.

A second table has the times of our implementation in ms for each tree: growing it on distinct rows
with weights, as it does, and on one row per transition; and predicting all pairs.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor

import tessella as ts
from tessella.baselines import FittedQ, train_batch
from tessella.baselines.fitted_q import WeightedRows, grow_tree, make_pair_inputs
from tessella.baselines.training import draw_uniform_transitions

SIZES = (100, 400, 1600, 6400)
TREES_PER_TIMING = 40  # for each entry of the second table


def train_plain(method: FittedQ, mdp: ts.MDP, n: int, seed: int) -> np.ndarray:
    """(S,) greedy actions."""
    transitions = draw_uniform_transitions(mdp, n, seed)
    points, actions = mdp.grid.points, np.arange(mdp.n_actions)

    def make_rows(states: np.ndarray) -> np.ndarray:
        return np.column_stack(
            [np.repeat(points[states], len(actions), axis=0), np.tile(actions, len(states))]
        )

    inputs, next_inputs = (
        np.column_stack([points[transitions.states], transitions.actions]),
        make_rows(transitions.nexts),
    )
    rng = np.random.RandomState(seed)
    forest = ExtraTreesRegressor(method.trees, min_samples_leaf=method.leaf, random_state=rng)
    forest.fit(inputs, transitions.rewards)
    for _ in range(method.iterations - 1):
        best = forest.predict(next_inputs).reshape(n, -1).max(axis=1)
        forest.fit(inputs, transitions.rewards + mdp.discount * best)
    return (
        forest.predict(make_rows(np.arange(mdp.n_states))).reshape(-1, len(actions)).argmax(axis=1)
    )


def time_call(function) -> float:
    """Processor milliseconds of one call, the median of many."""
    seconds = []
    for _ in range(TREES_PER_TIMING):
        start = time.process_time()
        function()
        seconds.append(time.process_time() - start)
    return 1e3 * float(np.median(seconds))


def print_tree_times(leaf: int) -> None:
    """The second table."""
    mdp, rng = ts.benchmark("INV-Mix"), np.random.RandomState(0)
    inputs = make_pair_inputs(mdp)
    print(f"{'n':>7s}{'rows':>7s}{'merged ms':>11s}{'apart ms':>10s}{'ask ms':>8s}")
    for n in SIZES:
        transitions = draw_uniform_transitions(mdp, n, 0)
        pair_of_transition = transitions.states * mdp.n_actions + transitions.actions
        pairs, row_index, counts = np.unique(
            pair_of_transition, return_inverse=True, return_counts=True
        )
        rewards = np.bincount(row_index, transitions.rewards) / counts
        merged_rows = WeightedRows(inputs[pairs], counts.astype(float))
        separate_rows = WeightedRows(inputs[pair_of_transition], np.ones(n))
        tree = grow_tree(merged_rows, rewards, leaf, rng)
        calls = (
            lambda rows=merged_rows, rewards=rewards: grow_tree(rows, rewards, leaf, rng),
            lambda rows=separate_rows, rewards=transitions.rewards: grow_tree(
                rows, rewards, leaf, rng
            ),
            lambda tree=tree: tree.predict(inputs, check_input=False),
        )
        merged_ms, separate_ms, predict_ms = map(time_call, calls)
        print(
            f"{n:7,d}{len(rewards):7,d}{merged_ms:11.2f}{separate_ms:10.2f}{predict_ms:8.2f}",
            flush=True,
        )


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
            plain_table = train_plain(method, solution.mdp, n, 0)
            middle = time.process_time()
            own_table = train_batch(method, solution.mdp, [n], [0])[0, n].table.ravel()
            seconds = np.array([middle - start, time.process_time() - middle])
            totals += seconds
            errors = [(table != exact).mean() for table in (plain_table, own_table)]
            print(
                f"{label:10s}{n:7,d}{seconds[0]:10.3f}{seconds[1]:10.3f}"
                f"{seconds[0] / seconds[1]:8.1f}"
                f"{errors[0]:10.4f}{errors[1]:8.4f}",
                flush=True,
            )
    print(f"{'total':17s}{totals[0]:10.3f}{totals[1]:10.3f}{totals[0] / totals[1]:8.1f}")
    print_tree_times(method.leaf)


if __name__ == "__main__":
    main()
