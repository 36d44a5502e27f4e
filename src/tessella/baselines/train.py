"""Training a value-based baseline: it sees a simulator, never the solution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessella.baselines.fitted_q import FittedQ, train_forests
from tessella.baselines.options import Trajectory
from tessella.baselines.tabular_q import TabularQ
from tessella.baselines.trained import Curve, Trained, greedy
from tessella.errors import ArgumentError, expect
from tessella.mdp.model import MDP

Baseline = TabularQ | FittedQ


def train(
    baseline: Baseline, mdp: MDP, updates: int, rng: np.random.Generator | int = 0
) -> Trained:
    """The policy after ``updates`` Bellman updates, each from one call of the simulator.

    For ``FittedQ`` these are the transitions of its batch, used again in every iteration. The
    policy's ``curve`` tells how training went.
    """
    expect("train", mdp, MDP)
    budget = _budgets([updates])[0]
    seed = int(rng) if isinstance(rng, int | np.integer) else int(rng.integers(2**63))
    if isinstance(baseline, FittedQ):
        return train_forests(baseline, mdp, [budget], [seed], watch=True)[seed, budget]
    return _train_tables(baseline, mdp, _checkpoints(budget), [seed])[seed, budget]


def train_batch(
    baseline: Baseline, mdp: MDP, budgets: Sequence[int], seeds: Sequence[int]
) -> dict[tuple[int, int], Trained]:
    """``{(seed, budget): policy}``: each the same as ``train`` alone gives for that seed."""
    expect("train_batch", mdp, MDP)
    if not len(seeds):
        return {}
    ascending = _budgets(budgets)
    seeds = [int(seed) for seed in dict.fromkeys(seeds)]
    method = train_forests if isinstance(baseline, FittedQ) else _train_tables
    return method(baseline, mdp, ascending, seeds)  # type: ignore[arg-type]


def _budgets(budgets: Sequence[int]) -> list[int]:
    for budget in budgets:
        if not isinstance(budget, int | np.integer) or budget < 1:
            raise ArgumentError("training needs at least 1 update", value=f"got {budget}")
    if not len(budgets):
        raise ArgumentError("training needs at least one budget")
    return sorted({int(budget) for budget in budgets})


def _checkpoints(updates: int) -> list[int]:
    """``updates`` halved ten times at most: where a single run's curve has entries."""
    return sorted({max(1, updates >> k) for k in range(11)})


def _train_tables(
    method: TabularQ, mdp: MDP, budgets: Sequence[int], seeds: Sequence[int]
) -> dict[tuple[int, int], Trained]:
    from tessella.baselines.q_learning import uniform_updates
    from tessella.baselines.walk import walk

    path = method.sampling
    if isinstance(path, Trajectory):
        runs = [walk(method, path, mdp, budgets, seed) for seed in seeds]
    else:
        runs = uniform_updates(method, mdp, budgets, seeds)
    found = {}
    for seed, run in zip(seeds, runs, strict=True):
        tables = np.stack([greedy(q_SA, mdp) for q_SA in run.q])
        curve = Curve("updates", run.at, tables, run.residual)
        for budget, table in zip(budgets, tables, strict=True):
            found[seed, budget] = Trained.of(
                mdp.grid,
                mdp.actions,
                table,
                size=method.size(mdp),
                name=method.title,
                action_name=mdp.action_name,
                curve=curve.until(budget),
                simulator_calls=budget,
            )
    return found
