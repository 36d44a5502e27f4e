"""Training a value-based baseline: it sees a simulator, never the solution."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tessella.baselines.fitted_q import FittedQ, train_forests
from tessella.baselines.q_learning import train_tables
from tessella.baselines.tabular_q import TabularQ
from tessella.baselines.training import TrainedPolicy, TrainingCurve, select_greedy
from tessella.criteria.criterion import require_criterion
from tessella.errors import ArgumentError, is_count, require_type, require_whole
from tessella.mdp.dynamics import as_generator
from tessella.mdp.model import MDP

Baseline = TabularQ | FittedQ


def train(
    baseline: Baseline, mdp: MDP, updates: int, rng: np.random.Generator | int = 0
) -> TrainedPolicy:
    """The policy after ``updates`` Bellman updates, each from one call of the simulator.

    For ``FittedQ`` these are the transitions of its batch, used again in every iteration. The
    policy's ``curve`` shows how training went.

    Args:
        baseline: ``TabularQ()``, ``DoubleQ()`` or ``FittedQ()``.
        mdp: the model, of which only the simulator is used.
        updates: how many.
        rng: an integer seed.

    Returns:
        The greedy policy, with its ``curve`` and the number of ``simulator_calls``.

    Raises:
        ArgumentError: the criterion is no discount.

    Example:
        >>> policy = ts.train(ts.TabularQ(), ts.benchmark("QUE-Lin"), updates=1000, rng=0)
        >>> policy.simulator_calls
        1000
    """
    _check_arguments("train", baseline, mdp)
    budget = _require_budgets([updates])[0]
    is_seed = isinstance(rng, int | np.integer)
    seed = require_whole("a seed", rng) if is_seed else int(as_generator(rng).integers(2**63))
    if isinstance(baseline, FittedQ):
        return train_forests(baseline, mdp, [budget], [seed])[seed, budget]
    # Halved ten times at most: where the curve of a single run has entries.
    budgets = sorted({max(1, budget >> k) for k in range(11)})
    return _train_tables(baseline, mdp, budgets, [seed])[seed, budget]


def train_batch(
    baseline: Baseline, mdp: MDP, budgets: Sequence[int], seeds: Sequence[int]
) -> dict[tuple[int, int], TrainedPolicy]:
    """``{(seed, budget): policy}``: each the same as ``train`` alone gives for that seed.

    Args:
        baseline: as for ``train``.
        mdp: the model.
        budgets: numbers of updates; the smaller are the beginning of the larger.
        seeds: integer seeds.

    Returns:
        A policy for each seed and budget.

    Raises:
        ArgumentError: the model has no discount, or a budget or a seed is no whole number.

    Example:
        >>> found = ts.train_batch(ts.TabularQ(), ts.benchmark("QUE-Lin"), [100, 200], range(2))
        >>> sorted(found)
        [(0, 100), (0, 200), (1, 100), (1, 200)]
    """
    _check_arguments("train_batch", baseline, mdp)
    ascending = _require_budgets(_as_list("budgets", budgets))
    distinct_seeds = dict.fromkeys(_as_list("seeds", seeds))
    seeds = [require_whole("a seed", seed) for seed in distinct_seeds]
    if not seeds:
        return {}
    method = train_forests if isinstance(baseline, FittedQ) else _train_tables
    return method(baseline, mdp, ascending, seeds)  # type: ignore[arg-type]


def _check_arguments(verb: str, baseline: object, mdp: MDP) -> None:
    require_type(verb, mdp, MDP)
    require_criterion(verb, mdp.criterion, "is_discounted")
    if not isinstance(baseline, Baseline):
        requirement = f"{verb} needs a baseline such as TabularQ()"
        raise ArgumentError(requirement, value=f"got {baseline!r}")


def _as_list(name: str, numbers: object) -> Sequence:
    if not isinstance(numbers, Iterable) or isinstance(numbers, str):
        raise ArgumentError(f"{name} must be a list of whole numbers", value=f"got {numbers!r}")
    return list(numbers)


def _require_budgets(budgets: Sequence[int]) -> list[int]:
    for budget in budgets:
        if not is_count(budget):
            raise ArgumentError("training needs at least 1 update", value=f"got {budget}")
    if not len(budgets):
        raise ArgumentError("training needs at least one budget")
    return sorted({int(budget) for budget in budgets})


def _train_tables(
    method: TabularQ, mdp: MDP, budgets: Sequence[int], seeds: Sequence[int]
) -> dict[tuple[int, int], TrainedPolicy]:
    policies = {}
    for seed in seeds:
        run = train_tables(method, mdp, budgets, seed)
        tables = np.stack([select_greedy(q_SA, mdp) for q_SA in run.q])
        curve = TrainingCurve("updates", run.at, tables, run.residual)
        for budget, table in zip(budgets, tables, strict=True):
            policies[seed, budget] = TrainedPolicy.of_method(
                method, mdp, table, curve.up_to(budget), budget
            )
    return policies
