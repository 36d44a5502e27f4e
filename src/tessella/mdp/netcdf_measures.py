"""The measures of a model in its file: a group that is no part of the ``content`` of the model.

A certificate names that content, and so holds whatever is counted besides. The group has

attributes   counts (JSON, each name to a bound on the error of its amounts), formulas and
             constraints (JSON, by measure), content (hash of all else in the group)
amounts      (count, state, action) expected amounts of a period, 0 where an action is infeasible
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import FileError, is_number
from tessella.mdp.dynamics import Dynamics, Payment
from tessella.mdp.finite_horizon import FiniteHorizonDynamics
from tessella.mdp.measures import CONSTRAINT_KEYS, check_measure_name, read_measure
from tessella.mdp.tabular.tabular import Tabular

if TYPE_CHECKING:
    from tessella.mdp.model import MDP

MEASURES_GROUP = "measures"


def tabulate_counts(mdp: MDP) -> tuple[dict[str, float], NDArray[np.float64]]:
    """Bounds on the errors of counts by name, and their amounts (count, state, action)."""
    errors = {}
    amounts = []
    for name in sorted(mdp.dynamics.counts):
        counted = mdp.dynamics.with_reward({name: 1.0})
        is_timed = isinstance(counted, FiniteHorizonDynamics)
        periods = counted.distinct_periods if is_timed else (counted,)
        errors[name] = max(period.rounding.in_file.reward_error for period in periods)
        amounts.append(np.where(mdp.feasible_mask, counted.expected_reward(), 0.0))
    return errors, np.array(amounts).reshape(-1, *mdp.feasible_mask.shape)


def measures_to_arrays(mdp: MDP) -> tuple[dict[str, Any], dict[str, Any]]:
    """Attributes and variables of the group."""
    errors, amounts = tabulate_counts(mdp)
    levels = {name: {one.key: one.level} for name, one in mdp.constraints.items()}
    formulas = {name: one.text for name, one in mdp.measures.items() if name not in errors}
    attributes = {"counts": errors, "formulas": formulas, "constraints": levels}
    variables = {"amounts": (amounts, ("count", "state", "action"))}
    return {name: json.dumps(content) for name, content in attributes.items()}, variables


def read_measures(
    dynamics: Dynamics, mask: NDArray[np.bool_], attributes: Mapping[str, Any], amounts: NDArray
) -> dict[str, Any]:
    """The fields of a model with these tables that hold its measures, checked."""
    errors, formulas, levels = (
        json.loads(attributes[name]) for name in ("counts", "formulas", "constraints")
    )
    shape = (len(errors), *mask.shape)
    is_table = amounts.dtype.kind == "f" and amounts.shape == shape and np.isfinite(amounts).all()
    if not is_table or amounts[:, ~mask].any():
        requirement = f"'amounts' must hold finite floats of shape {shape}, 0 where infeasible"
        raise FileError(requirement, value=f"got {amounts.dtype} of shape {amounts.shape}")
    for name, error in errors.items():
        check_measure_name(name)
        if not is_number(error) or error < 0:
            requirement = f"the error of {name!r} must be a number from 0 on"
            raise FileError(requirement, value=f"it is {error!r:.60}")
    measures = {name: read_measure(name, text, [*errors]) for name, text in formulas.items()}
    constraints = {}
    for name, entry in levels.items():
        ((key, level),) = entry.items()
        constraints[name] = CONSTRAINT_KEYS[key](level)
    dynamics = add_counts(dynamics, errors, amounts)
    return {"dynamics": dynamics, "measures": measures, "constraints": constraints}


def add_counts(dynamics: Dynamics, errors: Mapping[str, float], amounts: NDArray) -> Dynamics:
    """The tables of a file with what they count; one object where periods are the same."""
    if isinstance(dynamics, Tabular):
        payments = map(Payment, amounts, errors.values())
        return replace(dynamics, counted=dict(zip(errors, payments, strict=True)))
    assert isinstance(dynamics, FiniteHorizonDynamics)
    parts = np.split(amounts, len(dynamics.periods), axis=1)
    distinct: dict[tuple[int, bytes], Dynamics] = {}
    periods = []
    for period, part in zip(dynamics.periods, parts, strict=True):
        key = id(period), hashlib.sha256(part.tobytes()).digest()
        if key not in distinct:
            distinct[key] = add_counts(period, errors, part)
        periods.append(distinct[key])
    return replace(dynamics, periods=tuple(periods))
