"""What changes where one policy takes the place of another: two settings, or two rules.

Both are valued under the settings of now, from the model's own start:

    at stake = J(new) - J(old),    each J at least J* - (the loss that its certificate states),

in texts that are rounded outward. Averages of a model made from rates are per unit of time.
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
from tessella.mdp.stages.events import average_unit
from tessella.mdp.start import start_distribution
from tessella.rounding import EPS, round_down, round_up, round_up_percent
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
    average = now.solution.gain is not None
    told = {
        "told_in": "costs" if mdp.minimise else "rewards",
        "unit": average_unit(mdp.clock)[1] if average else "from the start",
        "before": _side(then.solution, old),
        "after": _side(now.solution, new),
    }
    if not _same_states(then.solution.mdp, mdp):
        return told | {"comparable": False}
    told["before"] |= _standing(now.solution, old)
    told["after"] |= _standing(now.solution, new)
    return told | {"comparable": True} | _difference(now.solution, old, new, told)


def _side(solution: Solution, policy: Policy) -> dict[str, Any]:
    """What a policy is, and what the best one is worth under its own settings."""
    optimal = policy is solution.policy
    name = "optimal" if optimal else getattr(policy, "kind", policy.name) or "a policy"
    return {"policy": name, "size": policy.size, "optimum": _told(solution, _worth(solution))}


def _scale(solution: Solution) -> float:
    """What an average per period is multiplied by to be one per unit of time; 1 of a total."""
    return 1.0 if solution.gain is None else average_unit(solution.mdp.clock)[0]


def _standing(solution: Solution, policy: Policy) -> dict[str, Any]:
    """What a policy surely loses at most under these settings, and so is worth at least."""
    if policy is solution.policy:
        lost, share = 0.0, 0.0
    else:
        proof = proven(solution, solution.mdp.policy(policy.table))
        lost, share = _scale(solution) * proof.mean * (1 + 2 * EPS), proof.relative
    least = _worth(solution) - _scale(solution) * solution.error_bound - lost
    least -= 8 * EPS * (abs(_worth(solution)) + lost)  # of this sum, and of the start's
    surely = round_up(-least, 6) if solution.mdp.minimise else round_down(least, 6)
    return {
        "loss": lost,
        "relative_loss": share,
        "worth": _told(solution, least),
        "loses": "nothing" if not lost else round_up(lost, 4),
        "loses_share": "–" if share is None else round_up_percent(share) if share else "nothing",
        "surely": surely,
    }


def _worth(solution: Solution) -> float:
    """Of the best policy: from the start, or per period in the long run."""
    if solution.gain is not None:
        return _scale(solution) * float(solution.gain)
    start = start_distribution(solution.mdp, None, solution.policy)
    return float(start @ solution.value.ravel())


def _told(solution: Solution, worth: float) -> float:
    return -worth if solution.mdp.minimise else worth


def _difference(
    solution: Solution, old: Policy, new: Policy, told: dict[str, Any]
) -> dict[str, Any]:
    """States that change, and what that is worth; of a total, as the two losses tell it."""
    mdp = solution.mdp
    sign = -1.0 if mdp.minimise else 1.0
    where = old.table != new.table
    counted = {"changed": int(where.sum()), "states": where.size}
    if isinstance(mdp.criterion, Total):  # which ``diff`` does not serve
        gain = told["before"]["loss"] - told["after"]["loss"] if where.any() else 0.0
        return counted | {"gain": sign * gain, "changes": []}
    found, scale = diff(mdp, old.table, new), _scale(solution)
    unseen = 4 * scale * solution.error_bound  # what both errors may make of no difference at all

    def stake(gain: float) -> float:
        return 0.0 if scale * abs(gain) <= unseen else sign * scale * gain

    return counted | {
        "gain": stake(found.gain),
        "time_before": found.time_a,
        "time_after": found.time_b,
        "changes": [
            {"from": str(mdp.actions[x]), "to": str(mdp.actions[y]), "states": n, "gain": stake(g)}
            for x, y, n, g in found.pairs
        ],
    }


def _same_states(then: MDP, now: MDP) -> bool:
    """Whether a policy of one model says what to do in the other."""
    alike = then.grid.axes == now.grid.axes and then.grid.shape == now.grid.shape
    values = zip(then.grid.values, now.grid.values, strict=False)
    return alike and all(np.array_equal(a, b) for a, b in values) and then.actions == now.actions
