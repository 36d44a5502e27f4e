"""Tables from a file, checked as the arrays of a user are: anybody can write a file.

Of a model with a horizon, the rows of a file lead from each time to the next. ``end/`` holds the
last period, which leads nowhere there, as it is, and ``end/final`` what comes after it.

Measures are a group ``measures``, which is no part of the ``content`` of the model: a certificate
names that content, so it does not depend on measures. The group has

attributes   counts and formulas (JSON: names, and expressions by name), content (its own hash)
amounts      (count, state, action) expected amounts of a period, 0 where an action is infeasible
errors       (count) bounds on the errors of amounts
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tessella.criteria.finite_horizon import FiniteHorizon
from tessella.errors import FileError, raise_for_first
from tessella.grid import index_type
from tessella.mdp.dynamics import Dynamics, Payment
from tessella.mdp.finite_horizon import FiniteHorizonDynamics
from tessella.mdp.measures import check_measure_name, read_measure
from tessella.mdp.state_action_space import TIME, StateActionSpace, drop_time_axis
from tessella.mdp.tabular.pairs import (
    Pairs,
    check_entries,
    check_rewards,
    check_sums,
    pairs_from_outcomes,
)
from tessella.mdp.tabular.rows import find_first
from tessella.mdp.tabular.tabular import Outcomes, Tabular
from tessella.rounding import EPS, ModelRounding

if TYPE_CHECKING:
    from tessella.mdp.model import MDP

Mask = NDArray[np.bool_]  # (S, A) which pairs are feasible
# The product of a hundred stages, each within ``ROW_SUM_TOLERANCE``, is within this. Error bounds
# use the actual sums of the rows, so they also hold for rows that do not sum to 1.
FILE_ROW_SUM_TOLERANCE = 1e-7
END_GROUP = "end/"
MEASURES_GROUP = "measures"


@dataclass(frozen=True, eq=False)
class TableReader:
    """The arrays of a file as tables of a model with these states and actions.

    Attributes:
        arrays: path to values.
        rounding: error bounds of rows and rewards.
    """

    space: StateActionSpace
    arrays: Mapping[str, NDArray]
    rounding: ModelRounding
    checked_tables: dict[bytes, Tabular] = field(default_factory=dict)  # by content

    def read_mask(self) -> Mask:
        entries = self._read_array("feasible", "i", self._pair_shape(self.space))
        if not np.isin(entries, (0, 1)).all():
            raise FileError("'feasible' must hold 0 and 1")
        return entries.astype(bool)

    def read_table(self, mask: Mask) -> Tabular:
        """Of a model without a horizon."""
        return self._check_once(
            self._assemble_table(self.space, "", mask, self._read_outcomes(self.space)), mask
        )

    def read_periods(self, mask: Mask, horizon: FiniteHorizon) -> FiniteHorizonDynamics:
        """Of a model with a horizon; one object where periods are the same."""
        grid = self.space.grid
        if grid.axes[0] != TIME or not np.array_equal(grid.values[0], range(horizon.periods)):
            requirement = (
                f"the first axis of a model with a horizon must be {TIME!r}, of all its periods"
            )
            raise FileError(requirement, value=f"it is {grid.axes[0]!r}")
        period_space = drop_time_axis(self.space)
        all_periods = self._assemble_table(self.space, "", mask, None)
        outcomes = self._read_outcomes(period_space)
        n = period_space.grid.size
        periods = []
        for time in range(horizon.periods - 1):
            period_mask = mask[time * n : (time + 1) * n]
            period = _extract_period(all_periods, period_space, period_mask, time)
            periods.append(self._check_once(replace(period, outcomes=outcomes), period_mask))
        last = self._assemble_table(period_space, END_GROUP, mask[-n:], outcomes)
        periods.append(self._check_once(last, mask[-n:]))
        if outcomes is not None and len(self.checked_tables) > 1:
            raise FileError("a model with outcomes must have periods that are all alike")
        final = self._read_array(f"{END_GROUP}final", "f", (n,))
        _check_end(all_periods, last, mask[-n:], final)
        return FiniteHorizonDynamics(
            self.space, tuple(periods), final.reshape(period_space.grid.shape)
        )

    def _assemble_table(
        self, space: StateActionSpace, group: str, mask: Mask, outcomes: Outcomes | None
    ) -> Tabular:
        """A table of arrays with consistent shapes and indices; their numbers are not checked."""
        pairs = self._pair_shape(space)
        n = space.grid.size
        starts = self._read_starts(f"{group}indptr")
        length = (int(starts[-1]),)
        columns = self._read_array(f"{group}indices", "i", length)
        data = self._read_array(f"{group}data", "f", length)
        row_of = self._read_array(f"{group}row_of", "i", pairs)
        reward = self._read_array(f"{group}reward", "f", pairs)
        _require_inside(columns, n, f"{group}indices")
        _require_inside(row_of, len(starts) - 1, f"{group}row_of")
        rows = sp.csr_array((data, columns, starts), shape=(len(starts) - 1, n))
        if not rows.has_canonical_format:
            raise FileError(f"'{group}indices' must ascend in every row")
        if row_of[~mask].any() or reward[~mask].any():
            raise FileError("an infeasible action must have row 0 and reward 0")
        return Tabular(space, rows, row_of, reward, outcomes, self.rounding)

    def _read_outcomes(self, space: StateActionSpace) -> Outcomes | None:
        if "outcomes/start" not in self.arrays:
            return None
        n, n_actions = self._pair_shape(space)
        start = self._read_starts("outcomes/start")
        if len(start) != n * n_actions + 1:
            raise FileError(f"'outcomes/start' must have {n * n_actions + 1:,} entries")
        kinds = {"state": "i", "probability": "f", "reward": "f", "ended": "i"}
        length = (int(start[-1]),)
        parts = {name: self._read_array(f"outcomes/{name}", k, length) for name, k in kinds.items()}
        _require_inside(parts["state"], n, "outcomes/state")
        _require_inside(parts["ended"], 2, "outcomes/ended")
        if not np.isfinite(parts["reward"]).all():
            raise FileError("'outcomes/reward' must be finite")
        return Outcomes(pair_starts=start, **parts | {"ended": parts["ended"].astype(bool)})

    def _check_once(self, table: Tabular, mask: Mask) -> Tabular:
        """The table with this content, checked once."""
        hasher = hashlib.sha256(np.ascontiguousarray(mask).data)
        for indices in (table.rows.indptr, table.rows.indices, table.row_of):
            hasher.update(np.ascontiguousarray(indices, dtype=np.int64).data)
        for numbers in (table.rows.data, table.reward):
            hasher.update(np.ascontiguousarray(numbers).data)
        key = hasher.digest()
        if key not in self.checked_tables:
            _check_table(table, mask)
            self.checked_tables[key] = table
        return self.checked_tables[key]

    def _read_array(self, name: str, kind: str, shape: tuple[int, ...]) -> NDArray:
        if name not in self.arrays:
            raise FileError(f"the array {name!r} is needed", value="it is missing")
        array = self.arrays[name]
        if array.dtype.kind != kind or array.shape != shape:
            subject = {"i": "integers", "f": "floats"}[kind]
            value = f"got {array.dtype} of shape {array.shape}"
            raise FileError(f"{name!r} must hold {subject} of shape {shape}", value=value)
        return array

    def _read_starts(self, name: str) -> NDArray:
        """Where rows begin, and where the last one ends."""
        length = len(self.arrays[name]) if name in self.arrays else 0
        starts = self._read_array(name, "i", (length,))
        if length < 2 or starts[0] != 0 or (starts[1:] < starts[:-1]).any():
            raise FileError(f"{name!r} must ascend from 0")
        return starts

    @staticmethod
    def _pair_shape(space: StateActionSpace) -> tuple[int, int]:
        return space.grid.size, len(space.actions)


def _extract_period(
    all_periods: Tabular, period_space: StateActionSpace, mask: Mask, time: int
) -> Tabular:
    """The period at ``time``, with its rows in the order in which pairs use them."""
    n = len(mask)
    states = slice(time * n, (time + 1) * n)
    row_of_pairs = all_periods.row_of[states][mask]
    first, index = find_first(row_of_pairs)
    row_of = np.zeros(mask.shape, dtype=index_type(len(first)))
    row_of[mask] = index
    rows = all_periods.rows[row_of_pairs[first]]
    columns = rows.indices - (time + 1) * n
    if columns.size and not 0 <= columns.min() <= columns.max() < n:
        requirement = "every period of a model with a horizon must move time on by one"
        raise FileError(requirement, location=f"time={time}", value="does not")
    rows = sp.csr_array((rows.data, columns, rows.indptr), shape=(len(first), n))
    reward = all_periods.reward[states]
    return Tabular(period_space, rows, row_of, reward, None, all_periods.build_rounding)


def _check_table(table: Tabular, mask: Mask) -> None:
    """Probabilities and rewards, as in models from arrays; errors name the first pair of a row."""
    states, choices = np.nonzero(mask)
    check_rewards(Pairs(table.space, states, choices, table.rows), table.reward[mask])
    used, first = np.unique(table.row_of[mask], return_index=True)
    rows = Pairs(table.space, states[first], choices[first], table.rows[used])
    check_entries(rows)
    if table.outcomes is None:
        check_sums(rows, FILE_ROW_SUM_TOLERANCE)
    else:
        _check_outcomes(table, table.outcomes, mask)


def _check_outcomes(table: Tabular, outcomes: Outcomes, mask: Mask) -> None:
    """Reject outcomes unless rows and rewards are their expectations."""
    all_pairs = pairs_from_outcomes(table.space, outcomes, outcomes.probability)
    check_entries(all_pairs)
    check_sums(all_pairs, FILE_ROW_SUM_TOLERANCE)
    if not np.array_equal(all_pairs.pair_indices, np.flatnonzero(mask)):
        raise FileError("every feasible pair must have outcomes, and no other")
    tolerance = 4 * EPS * (int(np.diff(outcomes.pair_starts).max()) + 4)
    continuing = pairs_from_outcomes(
        table.space, outcomes, outcomes.probability * ~outcomes.ended
    ).rows
    size = outcomes.expected(np.abs(outcomes.reward)).reshape(mask.shape)
    reward_error = np.abs(outcomes.expected_reward.reshape(mask.shape) - table.reward)
    is_consistent = np.diff(table.rows.indptr)[table.row_of[mask]].sum() == continuing.nnz
    if is_consistent:  # so that the rows of all pairs fit in memory
        difference = continuing - table.rows[table.row_of[mask]]
        is_consistent = (
            np.abs(difference.data).max(initial=0.0) <= tolerance
            and (reward_error <= tolerance * size).all()
        )
    if not is_consistent:
        raise FileError("rows and rewards must be the expectations of their outcomes")


def _check_end(all_periods: Tabular, last: Tabular, mask: Mask, final: NDArray) -> None:
    """Reject rows and rewards at the last time unless they follow from ``last`` and ``final``."""
    n = len(mask)
    lengths = np.diff(all_periods.rows.indptr)
    if not np.isfinite(final).all():
        raise FileError(f"'{END_GROUP}final' must be finite")
    expected = last.reward_with_final(final)
    size = np.abs(last.reward) + (last.rows @ np.abs(final))[last.row_of]
    is_close = np.abs(expected - all_periods.reward[-n:]) <= 4 * EPS * (last.longest_row + 4) * size
    if lengths[all_periods.row_of[-n:]][mask].any() or not is_close[mask].all():
        raise FileError(f"at the last time, rows must be empty and rewards those of '{END_GROUP}'")


def _require_inside(index: NDArray, count: int, name: str) -> None:
    raise_for_first(
        f"indices in {name!r} must lie in 0..{count - 1}",
        (index < 0) | (index >= count),
        lambda _: "",
        lambda place: f"it holds {index[place]}",
        "indices",
        error=FileError,
    )


def table_to_arrays(table: Tabular, group: str = "") -> dict[str, tuple[NDArray, tuple[str, ...]]]:
    """The arrays that ``TableReader`` reads, each with the names of its dimensions."""
    pair = ("state", "action")
    rows = table.rows
    return {
        f"{group}indptr": (rows.indptr.astype(np.int64), ("row_end",)),
        f"{group}indices": (rows.indices.astype(np.int64), ("entry",)),
        f"{group}data": (rows.data, ("entry",)),
        f"{group}row_of": (table.row_of, pair),
        f"{group}reward": (table.reward, pair),
    }


def outcomes_to_arrays(outcomes: Outcomes) -> dict[str, tuple[NDArray, tuple[str, ...]]]:
    """The arrays of outcomes, each with the name of its dimension."""
    arrays = {}
    for part in fields(outcomes):
        values = getattr(outcomes, part.name)
        values = values.astype(np.int8) if values.dtype == bool else values
        is_start = part.name == "pair_starts"
        name = "start" if is_start else part.name
        dimension = "pair_end" if is_start else "outcome"
        arrays[f"outcomes/{name}"] = (values, (dimension,))
    return arrays


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
