"""Training a value-based baseline: it sees a simulator, never the solution."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tessella.baselines.fitted_q import FittedQ, train_forests
from tessella.baselines.options import Trajectory
from tessella.baselines.tabular_q import TabularQ
from tessella.baselines.trained import Curve, Trained, greedy
from tessella.criteria.criterion import serve
from tessella.criteria.discounted import Discounted
from tessella.errors import ArgumentError, expect, is_count
from tessella.mdp.chance import generator
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
    serve("train", mdp.criterion, Discounted)
    _expect_baseline("train", baseline)
    budget = _budgets([updates])[0]
    own = isinstance(rng, int | np.integer)
    seed = _seed(rng) if own else int(generator(rng).integers(2**63))
    if isinstance(baseline, FittedQ):
        return train_forests(baseline, mdp, [budget], [seed], watch=True)[seed, budget]
    return _train_tables(baseline, mdp, _checkpoints(budget), [seed])[seed, budget]


def train_batch(
    baseline: Baseline, mdp: MDP, budgets: Sequence[int], seeds: Sequence[int]
) -> dict[tuple[int, int], Trained]:
    """``{(seed, budget): policy}``: each the same as ``train`` alone gives for that seed."""
    expect("train_batch", mdp, MDP)
    serve("train_batch", mdp.criterion, Discounted)
    _expect_baseline("train_batch", baseline)
    ascending = _budgets(_listed("budgets", budgets))
    seeds = list(map(_seed, dict.fromkeys(_listed("seeds", seeds))))
    if not seeds:
        return {}
    method = train_forests if isinstance(baseline, FittedQ) else _train_tables
    return method(baseline, mdp, ascending, seeds)  # type: ignore[arg-type]


def _expect_baseline(verb: str, baseline: object) -> None:
    if not isinstance(baseline, Baseline):
        rule = f"{verb} needs a baseline such as TabularQ()"
        raise ArgumentError(rule, value=f"got {baseline!r}")


def _listed(name: str, numbers: object) -> Sequence:
    if not isinstance(numbers, Iterable) or isinstance(numbers, str):
        raise ArgumentError(f"{name} must be a list of whole numbers", value=f"got {numbers!r}")
    return list(numbers)


def _seed(seed: object) -> int:
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        rule = "a seed must be a whole number that is not negative"
        raise ArgumentError(rule, value=f"got {seed!r}")
    return int(seed)


def _budgets(budgets: Sequence[int]) -> list[int]:
    for budget in budgets:
        if not is_count(budget):
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
