"""Compares fitted Q iteration with the plain loop around scikit-learn's forest.

    python benchmarks/fitted_q.py [--trees 60] [--iterations 10]

The plain loop fits ``ExtraTreesRegressor`` on one row per transition and predicts on n x A rows.
Both have leaves of at least 2 observations and see the same transitions. CPU seconds, because other
work on the machine should not decide the ratio; neither way uses more than one core.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor

import tessella as ts
from tessella.baselines import FittedQ, train_batch
from tessella.baselines.transitions import uniform_transitions

SIZES = (100, 400, 1600, 6400)


def plain(method: FittedQ, mdp: ts.MDP, n: int, seed: int) -> np.ndarray:
    """(S,) greedy actions."""
    seen = uniform_transitions(mdp, n, seed)
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


if __name__ == "__main__":
    main()
