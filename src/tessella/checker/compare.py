"""How a stated figure is compared with the derived one; what is wrong is named and rejected."""

from typing import Any

import numpy as np

from .arithmetic import EPS, divide_interval, dot, max_abs
from .model import Model

INTERVAL_PARTS = ("value", "lower", "upper")
OUTWARD_RELATIVE_STEP = 2 * EPS  # an end of an enclosure is rounded outward by more than this


class Rejected(Exception):  # noqa: N818 (it is the verdict)
    """The certificate does not hold; says why."""


def check_same_model(path: str, stated: object, known: object) -> None:
    if stated != known:
        difference = f"is {str(known)[:12]}, not {str(stated)[:12]} as stated"
        if path.startswith("policy."):
            difference = "differs"
        raise Rejected(f"the model file is of another model: {path} {difference}")


def check_equal(path: str, stated: object, derived: object) -> None:
    if stated != derived:
        raise Rejected(f"{path} is {derived}, not {stated} as stated")


def reject_states(model: Model, bad: np.ndarray, subject: str) -> None:
    """Reject at the first of the ``bad`` states."""
    if bad.any():
        count = f"{bad.sum():,} of {bad.size:,} states"
        raise Rejected(f"{subject}; first at {model.describe_state(int(bad.argmax()))} ({count})")


def check_interval(
    path: str,
    stated: np.ndarray | None,
    derived: Any,
    tolerance: Any,
    step: float = OUTWARD_RELATIVE_STEP,
    check_lower: bool = True,
    model: Model | None = None,
) -> None:
    """Compare the stated (value, lower, upper), of one number or of many, with the derived.

    The ends must reach at least as far as derived, by ``step`` of their size, and no further than
    ``tolerance`` beyond; the value may be off by that. Of a bound, only the upper end is a claim.
    Where there is one of each state, ``model`` names the state.
    """
    if stated is None or derived is None:
        if stated is not derived:
            raise Rejected(f"{path} must be {'null' if derived is None else 'stated'}")
        return
    derived = np.array(derived)
    is_off = ~(np.abs(stated - derived) <= tolerance)
    is_off |= ~((stated[1] <= stated[0]) & (stated[0] <= stated[2]))
    is_off[1] |= check_lower & ~(stated[1] <= derived[1] - step * np.abs(derived[1]))
    is_off[2] |= ~(stated[2] >= derived[2] + step * np.abs(derived[2]))
    if is_off.any():
        part, *index = np.unravel_index(int(is_off.argmax()), is_off.shape)
        name = f"{path}.{INTERVAL_PARTS[part]}" if part or index else path
        location = "" if model is None else f" at {model.describe_state(int(index[0]))}"
        derived_value = derived[(part, *index)]
        stated_value = stated[(part, *index)]
        raise Rejected(
            f"{name} is {derived_value:.12g}, not {stated_value:.12g} as stated{location}"
        )


def check_actions(path: str, table: np.ndarray, model: Model) -> None:
    unknown = (table < 0) | (table >= model.n_actions)
    reject_states(model, unknown, f"{path}: an action does not exist")
    infeasible = model.feasible[np.arange(model.n_states), table] == 0
    reject_states(model, infeasible, f"{path}: an action is not feasible")


def check_start(start: np.ndarray, model: Model) -> None:
    reject_states(model, ~(start >= 0), "start: a probability is negative")
    total = dot(start, 1.0)
    if not abs(total - 1) <= (model.n_states + 64) * EPS:
        raise Rejected(f"start must sum to 1, not to {total:.12g}")


def check_relative_loss(
    stated: np.ndarray | None, loss: np.ndarray, optimal_mean: np.ndarray
) -> None:
    relative = divide_interval(loss, optimal_mean)
    tolerance = 64 * EPS * max_abs(relative or [0])
    check_interval("relative_loss", stated, relative, tolerance, EPS / 2)
