"""The measures of a model in its file: a group that is no part of the ``content`` of the model.

A certificate names that content, so it does not depend on measures. The group has

attributes   counts and formulas (JSON: names, and expressions by name), content (its own hash)
amounts      (count, state, action) expected amounts of a period, 0 where an action is infeasible
errors       (count) bounds on the errors of amounts
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import FileError
from tessella.mdp.dynamics import Dynamics, Payment
from tessella.mdp.finite_horizon import FiniteHorizonDynamics
from tessella.mdp.measures import check_measure_name, read_measure
from tessella.mdp.tabular.tabular import Tabular

if TYPE_CHECKING:
    from tessella.mdp.model import MDP

MEASURES_GROUP = "measures"


def tabulate_counts(mdp: MDP) -> dict[str, Payment]:
    """The expected amounts of counts (state, action), with bounds on their errors."""
    counts = {}
    for name in sorted(mdp.dynamics.counts):
        counted = mdp.dynamics.with_reward({name: 1.0})
        periods = getattr(counted, "distinct_periods", [counted])
        error = max(period.rounding.in_file.reward_error for period in periods)
        amounts = np.where(mdp.feasible_mask, counted.expected_reward(), 0.0)
        counts[name] = Payment(amounts, error)
    return counts


def measures_to_arrays(mdp: MDP) -> tuple[dict[str, str], dict[str, Any]]:
    """Attributes and variables of the group."""
    counts = tabulate_counts(mdp)
    formulas = {name: m.text for name, m in mdp.measures.items() if name not in counts}
    amounts = np.array([payment.expected for payment in counts.values()])
    errors = np.array([payment.error for payment in counts.values()])
    return {"counts": json.dumps([*counts]), "formulas": json.dumps(formulas)}, {
        "amounts": (amounts.reshape(-1, *mdp.feasible_mask.shape), ("count", "state", "action")),
        "errors": (errors, ("count",)),
    }


def read_measures(
    fields: Mapping[str, Any], attributes: Mapping[str, Any], arrays: Mapping[str, NDArray]
) -> dict[str, Any]:
    """The fields of a model that hold its measures, checked; ``fields`` are all others."""
    names = json.loads(attributes["counts"])
    amounts, errors = arrays["amounts"], arrays["errors"]
    mask = fields["feasible"]
    fits = amounts.shape == (len(names), *mask.shape) and errors.shape == amounts.shape[:1]
    is_finite = np.isfinite(amounts).all() and np.isfinite(errors).all()
    if not fits or not is_finite or amounts[:, ~mask].any() or (errors < 0).any():
        requirement = "counts must have finite amounts, 0 where infeasible, and errors from 0 on"
        raise FileError(requirement, value=f"got {len(names)} counts of shape {amounts.shape}")
    for name in names:
        check_measure_name(name)
    formulas = json.loads(attributes["formulas"])
    counts = dict(zip(names, map(Payment, amounts, errors.tolist()), strict=True))
    measures = {name: read_measure(name, text, names) for name, text in formulas.items()}
    return {"dynamics": add_counts(fields["dynamics"], counts), "measures": measures}


def add_counts(dynamics: Dynamics, counts: Mapping[str, Payment]) -> Dynamics:
    """The tables of a file with what they count; one object where periods are the same."""
    if isinstance(dynamics, Tabular):
        return replace(dynamics, counted=counts)
    assert isinstance(dynamics, FiniteHorizonDynamics)
    periods = []
    distinct: dict[tuple[int, bytes], Dynamics] = {}
    length = dynamics.space.grid.size // len(dynamics.periods)
    for time, period in enumerate(dynamics.periods):
        states = slice(time * length, (time + 1) * length)
        period_counts = {
            name: replace(payment, expected=payment.expected[states])
            for name, payment in counts.items()
        }
        content = b"".join(payment.expected.tobytes() for payment in period_counts.values())
        key = id(period), hashlib.sha256(content).digest()
        periods.append(distinct.setdefault(key, add_counts(period, period_counts)))
    return replace(dynamics, periods=tuple(periods))
