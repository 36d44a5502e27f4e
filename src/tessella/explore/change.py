"""What changes where one policy takes the place of another: two settings, or two rules.

Both are valued under the settings of now, from the model's own start:

    at stake = J(new) - J(old),    each J at least J* - (the loss that its certificate states).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tessella.criteria.total import Total
from tessella.errors import ArgumentError
from tessella.explore.asked import Asked
from tessella.explore.session import Session, proven
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.start import start_distribution
from tessella.rules.diff import diff
from tessella.solvers.solution import Solution


def change_found(session: Session, asked: Asked) -> dict[str, Any]:
    """What changes where the policy of a request takes the place of another one's, ``before``.

    Both are valued under the settings of the request. Where the other settings have other states or
    actions, no policy can take the other's place, and each is told with its own settings alone.
    """
    before = asked.part("before")
    if before is None:
        raise ArgumentError("a comparison needs 'before', a model and its policy")
    then, now = session.solved(before), session.solved(asked)
    mdp = now.solution.mdp
    old, new = (
        session.made(known, side.part("overlay")).policy
        for known, side in ((then, before), (now, asked))
    )
    told = {
        "told_in": "costs" if mdp.minimise else "rewards",
        "average": now.solution.gain is not None,
        "before": _side(then.solution, old),
        "after": _side(now.solution, new),
    }
    if not _same_states(then.solution.mdp, mdp):
        return told | {"comparable": False}
    told["before"] |= _standing(now.solution, old)
    told["after"] |= _standing(now.solution, new)
    return told | {"comparable": True} | _difference(mdp, old, new, told)


def _side(solution: Solution, policy: Policy) -> dict[str, Any]:
    """What a policy is, and what the best one is worth under its own settings."""
    optimal = policy is solution.policy
    name = "optimal" if optimal else getattr(policy, "kind", policy.name) or "a policy"
    return {"policy": name, "size": policy.size, "optimum": _told(solution, _worth(solution))}


def _standing(solution: Solution, policy: Policy) -> dict[str, Any]:
    """What a policy surely loses at most under these settings, and so is worth at least."""
    if policy is solution.policy:
        lost, share = 0.0, 0.0
    else:
        proof = proven(solution, solution.mdp.policy(policy.table))
        lost, share = proof.mean, proof.relative
    worth = _told(solution, _worth(solution) - lost)
    return {"loss": lost, "relative_loss": share, "worth": worth}


def _worth(solution: Solution) -> float:
    """Of the best policy: from the start, or per period in the long run."""
    if solution.gain is not None:
        return float(solution.gain)
    start = start_distribution(solution.mdp, None, solution.policy)
    return float(start @ solution.value.ravel())


def _told(solution: Solution, worth: float) -> float:
    return -worth if solution.mdp.minimise else worth


def _difference(mdp: MDP, old: Policy, new: Policy, told: dict[str, Any]) -> dict[str, Any]:
    """States that change, and what that is worth; of a total, as the two losses tell it."""
    sign = -1.0 if mdp.minimise else 1.0
    where = old.table != new.table
    counted = {"changed": int(where.sum()), "states": where.size}
    if isinstance(mdp.criterion, Total):  # which ``diff`` does not serve
        gain = told["before"]["loss"] - told["after"]["loss"] if where.any() else 0.0
        return counted | {"gain": sign * gain, "changes": []}
    found = diff(mdp, old.table, new)
    return counted | {
        "gain": sign * found.gain,
        "time_before": found.time_a,
        "time_after": found.time_b,
        "changes": [
            {"from": str(mdp.actions[x]), "to": str(mdp.actions[y]), "states": n, "gain": sign * g}
            for x, y, n, g in found.pairs
        ],
    }


def _same_states(then: MDP, now: MDP) -> bool:
    """Whether a policy of one model says what to do in the other."""
    alike = then.grid.axes == now.grid.axes and then.grid.shape == now.grid.shape
    values = zip(then.grid.values, now.grid.values, strict=False)
    return alike and all(np.array_equal(a, b) for a, b in values) and then.actions == now.actions
