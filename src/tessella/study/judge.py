"""judge(solution, specs, fits) -> Records: every policy against the optimum, none by its method."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from tessella.solve.evaluate import evaluate
from tessella.solve.solution import Solution
from tessella.study.methods.method import Fit
from tessella.study.record import Record
from tessella.study.spec import Spec


def judge(solution: Solution, specs: Sequence[Spec], fits: Sequence[Fit]) -> tuple[Record, ...]:
    """One record for each spec and its fit; policies that are equal are evaluated once."""
    mdp, best = solution.mdp, solution.policy.table.ravel()
    q = solution.q.reshape(mdp.n_states, mdp.n_actions)
    loss_of = cache(partial(_loss, solution))

    def record(spec: Spec, fit: Fit) -> Record:
        actions = np.asarray(fit.actions).ravel()
        local = q.max(axis=1) - q[np.arange(mdp.n_states), actions]
        loss = loss_of(tuple(actions.tolist()))
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

    return tuple(record(spec, fit) for spec, fit in zip(specs, fits, strict=True))


def _loss(solution: Solution, actions: tuple[int, ...]) -> NDArray[np.float64]:
    """(S,) V* - V_pi; what both errors together could have made is no loss."""
    mdp = solution.mdp
    worth = evaluate(mdp, np.reshape(actions, mdp.grid.shape), start=solution.value)
    loss = (solution.value - worth.value).ravel()
    loss[loss <= solution.error_bound + worth.error_bound] = 0.0
    return loss
