"""judge(solution, specs, fits) -> Records: every policy against the optimum, none by its method."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessella.solve.evaluate import evaluate
from tessella.solve.solution import Solution
from tessella.study.methods.method import Fit
from tessella.study.record import Record
from tessella.study.spec import Spec


def judge(solution: Solution, specs: Sequence[Spec], fits: Sequence[Fit]) -> tuple[Record, ...]:
    """One record for each spec and its fit."""
    return tuple(_record(solution, spec, fit) for spec, fit in zip(specs, fits, strict=True))


def _record(solution: Solution, spec: Spec, fit: Fit) -> Record:
    mdp, best = solution.mdp, solution.policy.table.ravel()
    actions = np.asarray(fit.actions).ravel()
    q = solution.q.reshape(mdp.n_states, mdp.n_actions)
    local = q.max(axis=1) - q[np.arange(mdp.n_states), actions]
    worth = evaluate(mdp, actions.reshape(mdp.grid.shape), start=solution.value)
    loss = solution.value - worth.value
    # What both errors together could have made is no loss.
    loss[loss <= solution.error_bound + worth.error_bound] = 0.0
    return Record(
        spec,
        policy_error=float((actions != best).mean()),
        value_gap=float(local.mean() / (1 - mdp.discount)),
        mean_loss=float(loss.mean()),
        worst_loss=float(loss.max()),
        size=int(fit.size),
        told=fit.told,
        seconds=float(fit.seconds),
        actions=actions.astype(np.uint8),
    )
