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
from tessella.explore.request import RequestFields
from tessella.explore.session import Session, prove_loss
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.stages.events import average_unit
from tessella.mdp.start import start_distribution
from tessella.rounding import EPS, round_down, round_up, round_up_percent
from tessella.rules.diff import diff
from tessella.solvers.solution import Solution


def compare_policies(session: Session, request: RequestFields) -> dict[str, Any]:
    """What changes where the policy of a request takes the place of another one's, ``before``.

    Both are valued under the settings of the request. Where the other settings have other states or
    actions, no policy can take the other's place, and each is shown with its own settings alone.
    """
    before = request.part("before")
    if before is None:
        raise ArgumentError("a comparison needs 'before', a model and its policy")
    before_model = session.get_model(before)
    after_model = session.get_model(request)
    mdp = after_model.solution.mdp
    old, new = (
        session.get_policy(known, side.part("overlay")).policy
        for known, side in ((before_model, before), (after_model, request))
    )
    is_average = after_model.solution.gain is not None
    comparison = {
        "told_in": "costs" if mdp.minimise else "rewards",
        "unit": average_unit(mdp.clock)[1] if is_average else "from the start",
        "before": _describe_side(before_model.solution, old),
        "after": _describe_side(after_model.solution, new),
    }
    if not _have_same_states(before_model.solution.mdp, mdp):
        return comparison | {"comparable": False}
    comparison["before"] |= _bound_loss(after_model.solution, old)
    comparison["after"] |= _bound_loss(after_model.solution, new)
    return (
        comparison
        | {"comparable": True}
        | _describe_difference(after_model.solution, old, new, comparison)
    )


def _describe_side(solution: Solution, policy: Policy) -> dict[str, Any]:
    """Name and size of a policy, and the optimal value under its own settings."""
    optimal = policy is solution.policy
    name = "optimal" if optimal else getattr(policy, "kind", policy.name) or "a policy"
    return {
        "policy": name,
        "size": policy.size,
        "optimum": _signed_value(solution, _optimal_value(solution)),
    }


def _average_factor(solution: Solution) -> float:
    """What an average per period is multiplied by to be one per unit of time; 1 of a total."""
    return 1.0 if solution.gain is None else average_unit(solution.mdp.clock)[0]


def _bound_loss(solution: Solution, policy: Policy) -> dict[str, Any]:
    """An upper bound on the loss of a policy under these settings, a lower one on its value."""
    if policy is solution.policy:
        loss_bound = 0.0
        relative_loss = 0.0
    else:
        proof = prove_loss(solution, solution.mdp.policy(policy.table))
        loss_bound = _average_factor(solution) * proof.mean * (1 + 2 * EPS)
        relative_loss = proof.relative
    value_bound = (
        _optimal_value(solution) - _average_factor(solution) * solution.error_bound - loss_bound
    )
    # The rounding of this sum, and of the start's.
    value_bound -= 8 * EPS * (abs(_optimal_value(solution)) + loss_bound)
    value_text = round_up(-value_bound, 6) if solution.mdp.minimise else round_down(value_bound, 6)
    return {
        "loss": loss_bound,
        "relative_loss": relative_loss,
        "worth": _signed_value(solution, value_bound),
        "loses": "nothing" if not loss_bound else round_up(loss_bound, 4),
        "loses_share": _format_share(relative_loss),
        "surely": value_text,
    }


def _format_share(relative_loss: float | None) -> str:
    if relative_loss is None:
        return "–"
    return round_up_percent(relative_loss) if relative_loss else "nothing"


def _optimal_value(solution: Solution) -> float:
    """Of the best policy: from the start, or per period in the long run."""
    if solution.gain is not None:
        return _average_factor(solution) * float(solution.gain)
    start = start_distribution(solution.mdp, None, solution.policy)
    return float(start @ solution.value.ravel())


def _signed_value(solution: Solution, value: float) -> float:
    return -value if solution.mdp.minimise else value


def _describe_difference(
    solution: Solution, old: Policy, new: Policy, comparison: dict[str, Any]
) -> dict[str, Any]:
    """States that change, and the gain; of a total, from the two bounds on the loss."""
    mdp = solution.mdp
    sign = -1.0 if mdp.minimise else 1.0
    changed = old.table != new.table
    counts = {"changed": int(changed.sum()), "states": changed.size}
    if isinstance(mdp.criterion, Total):  # which ``diff`` does not serve
        gain = comparison["before"]["loss"] - comparison["after"]["loss"] if changed.any() else 0.0
        return counts | {"gain": sign * gain, "changes": []}
    difference = diff(mdp, old.table, new)
    factor = _average_factor(solution)
    # What the errors of both may make of no difference at all.
    noise_level = 4 * factor * solution.error_bound

    def signed_gain(gain: float) -> float:
        return 0.0 if factor * abs(gain) <= noise_level else sign * factor * gain

    return counts | {
        "gain": signed_gain(difference.gain),
        "time_before": difference.time_a,
        "time_after": difference.time_b,
        "changes": [
            {
                "from": str(mdp.actions[x]),
                "to": str(mdp.actions[y]),
                "states": n,
                "gain": signed_gain(g),
            }
            for x, y, n, g in difference.pairs
        ],
    }


def _have_same_states(before_model: MDP, after_model: MDP) -> bool:
    """Whether a policy of one model is a policy of the other."""
    same_grid = (
        before_model.grid.axes == after_model.grid.axes
        and before_model.grid.shape == after_model.grid.shape
    )
    values = zip(before_model.grid.values, after_model.grid.values, strict=False)
    return (
        same_grid
        and all(np.array_equal(a, b) for a, b in values)
        and before_model.actions == after_model.actions
    )
