"""The solution of a model, with bounds on its errors."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, FileError, counted
from tessella.mdp.actions import actions_to_array, component_names
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy, TableRule
from tessella.mdp.start import start_distribution
from tessella.numerics import with_host_arrays
from tessella.rounding import round_up
from tessella.solvers.result import History, Result, ValueAccuracy, format_average
from tessella.support.json_values import json_default

if TYPE_CHECKING:
    import xarray as xr

    from tessella.mdp.netcdf import Variables
    from tessella.solvers.execution_plan import ExecutionPlan

SOLUTION_FORMAT = "tessella-solution-4"
FILE_KIND = "a saved solution"
HISTORY_FIELDS = "bound", "changed", "seconds"


def _load_model(path: str | Path, fingerprint: str) -> MDP:
    """The model that was saved with a solution of the model of this fingerprint."""
    from tessella.mdp.netcdf import read_group_fingerprint

    if read_group_fingerprint(path) != fingerprint:
        requirement = f"{path} holds a solution and not its model"
        raise FileError(requirement, value="give the model, or save with with_model=True")
    return MDP.load(path)


def make_optimal_policy(mdp: MDP, table: Any) -> Policy:
    """The optimal policy of ``mdp``, from its table, which may be on the device."""
    name = mdp.action_name
    if isinstance(table, np.ndarray):
        return Policy.from_table(mdp.grid, mdp.actions, table, name="optimal", action_name=name)
    return Policy(mdp.grid, mdp.actions, TableRule(mdp.grid, table), "optimal", name)


def _check_shapes(variables: Mapping[str, Any], mdp: MDP) -> None:
    """Raise an error for arrays that a solution of ``mdp`` does not have, before they are read."""
    n_actions = mdp.n_actions
    shape = mdp.grid.shape
    expected = dict.fromkeys(("value", "policy", "margin", "decided", "tie_tolerance"), shape)
    expected |= {axis: values.shape for axis, values in mdp.grid.columns.items()}
    expected |= dict.fromkeys((mdp.action_name, *component_names(mdp.actions)), (n_actions,))
    expected["q"] = (*shape, n_actions)
    sweeps = variables["history_bound"].shape
    expected |= {f"history_{name}": sweeps for name in HISTORY_FIELDS}
    found = {name: variable.shape for name, variable in variables.items()}
    if found != expected or len(sweeps) != 1:
        wrong = sorted({*found.items()} ^ {*expected.items()})
        requirement = "a solution must have the arrays of its model"
        raise FileError(requirement, value=f"it differs in {wrong[0][0]!r}" if wrong else "")


def _require_floats(data: dict[str, NDArray]) -> None:
    for name in ("value", "q", "margin", "tie_tolerance", "history_bound", "history_seconds"):
        if data[name].dtype != np.float64 or np.isnan(data[name]).any():
            raise FileError(f"{name!r} must hold floats, none of them NaN")


def _make_loaded_solution(mdp: MDP, metadata: dict[str, Any], data: dict[str, NDArray]) -> Solution:
    """The solution that a file holds, once all of it is checked."""
    _require_floats(data)
    error_bound, value_error = (float(metadata[name]) for name in ("error_bound", "value_error"))
    tolerance = data["tie_tolerance"]
    if (tolerance == tolerance.flat[0]).all():
        tolerance = float(tolerance.flat[0])
    bounds = error_bound, value_error, np.min(tolerance)
    gain = float(metadata["gain"]) if "gain" in metadata else None
    if not (np.isfinite(data["value"]).all() and all(bound >= 0 for bound in bounds)):
        raise FileError("values must be finite, and bounds on their errors not negative")
    if (gain is None) == mdp.criterion.has_gain:
        raise FileError("a solution has a gain if its criterion is an average")
    policy = make_optimal_policy(mdp, data["policy"])
    mdp.check_feasible(policy)
    _check_consistency(data, policy.table, error_bound, gain is not None)
    solution = Solution(
        data["value"],
        error_bound,
        bool(metadata["converged"]),
        str(metadata["reason"]),
        History(*(data[f"history_{name}"] for name in HISTORY_FIELDS)),
        mdp,
        policy,
        data["margin"],
        str(metadata["method"]),
        accuracy=ValueAccuracy(value_error, tolerance),
        gain=gain,
        has_values=bool(metadata["has_values"]),
    )
    solution.__dict__["q"] = data["q"]  # saved, so not computed again
    return solution


def _check_consistency(
    data: dict[str, NDArray], table: NDArray, error: float, is_relative: bool
) -> None:
    """Raise an error for arrays that cannot be those of one solution with these bounds.

    |T V - V| <= 2 |V - V*|, and a third for rounding; relative values are known up to a constant.
    """
    q = data["q"]
    value = data["value"]
    tie_tolerance = data["tie_tolerance"]
    best = second = np.full(value.shape, -np.inf)
    for action in range(q.shape[-1]):
        second = np.maximum(second, np.minimum(best, q[..., action]))
        best = np.maximum(best, q[..., action])
    taken = np.take_along_axis(q, table[..., None].astype(np.int64), axis=-1)[..., 0]
    with np.errstate(invalid="ignore"):  # of margins without end
        residual = best - value
        margin = best - second
        residual -= (residual.max() + residual.min()) / 2 if is_relative else 0.0
        agree = {
            "value": np.abs(residual) <= 3 * error,
            "policy": best - taken <= tie_tolerance,
            "margin": (margin == data["margin"])
            | (np.abs(margin - data["margin"]) <= tie_tolerance),
            "decided": data["decided"] == (data["margin"] > tie_tolerance),
        }
    for name, is_consistent in agree.items():
        if not is_consistent.all():
            requirement = f"{name!r} must agree with 'q' and the bounds of the file"
            count = int(np.sum(~is_consistent))
            raise FileError(
                requirement, value="does not", count=count, total=is_consistent.size, noun="states"
            )


@with_host_arrays("margin")
@dataclass(frozen=True, eq=False)
class Solution(Result):
    """The optimum of a model: a ``Result`` whose value is V, near V*.

    Attributes:
        policy: the greedy policy. Among tied actions, the lowest index.
            So an action of it loses at most ``2 tie_tolerance`` where it is taken.
        margin: (grid) best minus second-best action value; inf where only one action is feasible.
        method: the name of the method that computed it.
        accuracy: of values and comparisons; None of an average, whose relative values are bounded
            when first needed.
        plan: the routes of the solve, which ``certify`` and ``compress`` follow; None of a solution
            from a file.
        has_values: whether values were solved for; False of ``solve(mdp, until="policy")``, whose
            values are rough, as ``error_bound`` says.
    """

    mdp: MDP
    policy: Policy
    margin: NDArray[np.float64]
    method: str
    accuracy: ValueAccuracy | None = field(default=None, kw_only=True)
    plan: ExecutionPlan | None = field(default=None, kw_only=True, repr=False)
    has_values: bool = field(default=True, kw_only=True)

    def require_values(self, caller: str) -> None:
        """Raise an ArgumentError if only the policy was solved for."""
        if not self.has_values:
            bound = round_up(self.error_bound, 2)
            raise ArgumentError(
                f"{caller} needs accurate values: solve(mdp), without until='policy' "
                "(--until policy)",
                value=f"these are off by up to {bound}",
            )

    @property
    def mean(self) -> float:
        """Expected over the model's own start, or the gain; known within ``error_bound``."""
        if self.gain is not None:
            return self.gain
        return float((start_distribution(self.mdp, None) * self.value.ravel()).sum())

    @cached_property
    def policy_plan(self) -> ExecutionPlan:
        """The plan for evaluating and certifying policies of the model."""
        from tessella.solvers.execution_plan import plan_for_policies

        return plan_for_policies(self.mdp, self.plan)

    @cached_property
    def _known_accuracy(self) -> ValueAccuracy:
        if self.accuracy is not None:
            return self.accuracy
        from tessella.solvers.hitting_times import bound_relative_error
        from tessella.solvers.prepared_model import PreparedModel

        prepared = PreparedModel(self.policy_plan)
        return bound_relative_error(prepared, self.value, self.policy.table, self.error_bound)

    @property
    def value_error(self) -> float:
        """Bound on the error of the values: ``error_bound``, except where values are relative.

        Then it is inf if some near-optimal policy may never return to the reference state.
        """
        return self._known_accuracy.error

    @property
    def slice_tolerance(self) -> float | NDArray[np.float64]:
        """Margins up to this are ties: of all states, or for each slice of exogenous axes.

        As an array it has length one along all other axes.
        """
        return self._known_accuracy.tie_tolerance

    @property
    def tie_tolerance(self) -> float:
        """The largest of these: in no state are larger margins ties."""
        return float(np.max(self.slice_tolerance))

    @cached_property
    def decided(self) -> NDArray[np.bool_]:
        """(grid) whether the margin exceeds all that the error bound could overturn."""
        return self.margin > self.slice_tolerance

    def ties(self, table: NDArray[np.integer]) -> NDArray[np.bool_]:
        """(grid) whether the actions of a (grid) table tie with the best ones."""
        lost = self.q.max(axis=-1) - np.take_along_axis(self.q, table[..., None], axis=-1)[..., 0]
        known = np.where(np.isfinite(self.slice_tolerance), self.slice_tolerance, 0.0)
        return (lost <= known) | (table == self.policy.table)

    @property
    def lower(self) -> NDArray[np.float64]:
        """(grid) V* is at least this."""
        return self.value - self.value_error

    @property
    def upper(self) -> NDArray[np.float64]:
        """(grid) V* is at most this."""
        return self.value + self.value_error

    @cached_property
    def q(self) -> NDArray[np.float64]:
        """(grid, A) action values at ``value``, -inf where infeasible; computed when first asked.

        Differences between those of one state lie within ``slice_tolerance`` of the optimal ones.
        """
        from tessella.solvers.bounds import compute_q_values
        from tessella.solvers.prepared_model import PreparedModel

        return compute_q_values(PreparedModel(self.policy_plan), self.value)

    def _make_coordinates(self) -> Variables:
        """The values along each dimension: the grid's axes, and the action with its components."""
        grid = self.mdp.grid
        actions = self.mdp.actions
        action = (self.mdp.action_name,)
        action_components = component_names(actions)
        values = actions_to_array(actions)
        labels = [str(a) for a in actions] if action_components else actions
        return {
            **{n: (v, ("state" if grid.is_listed else n,)) for n, v in grid.columns.items()},
            self.mdp.action_name: (np.asarray(labels), action),
            **{name: (np.asarray(values[name]), action) for name in action_components},
        }

    def _make_arrays(self) -> Variables:
        axes = ("state",) if self.mdp.grid.is_listed else self.mdp.grid.axes
        return {
            "value": (self.value, axes),
            "q": (self.q, (*axes, self.mdp.action_name)),
            "policy": (self.policy.table, axes),
            "margin": (self.margin, axes),
            "decided": (self.decided, axes),
            "tie_tolerance": (
                np.broadcast_to(self.slice_tolerance, self.mdp.grid.shape).astype(float),
                axes,
            ),
        }

    @cached_property
    def dataset(self) -> xr.Dataset:
        """All of it with named dimensions: the grid's axes, and the action."""
        import xarray as xr

        return xr.Dataset(
            {name: (dims, values) for name, (values, dims) in self._make_arrays().items()},
            {name: (dims, values) for name, (values, dims) in self._make_coordinates().items()},
            {"name": self.mdp.name, "discount": self.mdp.discount, "error_bound": self.error_bound},
        )

    def save(self, path: str | Path, *, with_model: bool = False) -> None:
        """Write everything as NetCDF, with the model's parameters and fingerprint.

        ``with_model`` puts the model's arrays into the same file, so that it is read back alone.
        """
        from tessella.mdp.netcdf import create_dataset, write_model_group, write_variables

        history = {
            f"history_{name}": (getattr(self.history, name), ("sweep",)) for name in HISTORY_FIELDS
        }
        coordinates = self._make_coordinates()
        variables = coordinates | self._make_arrays() | history
        attributes = self._make_attributes() | {"coordinates": " ".join(coordinates)}
        with create_dataset(path) as file:
            write_variables(file, attributes, variables)
            if with_model:
                write_model_group(self.mdp, file)

    def _make_attributes(self) -> dict[str, Any]:
        gain_attribute = {} if self.gain is None else {"gain": self.gain}
        return gain_attribute | {
            "format": SOLUTION_FORMAT,
            "model": self.mdp.name,
            "fingerprint": self.mdp.fingerprint,
            "parameters": json.dumps(dict(self.mdp.parameters), default=json_default),
            "discount": self.mdp.discount,
            "error_bound": self.error_bound,
            "value_error": self.value_error,
            "has_values": int(self.has_values),
            "converged": int(self.converged),
            "reason": self.reason,
            "method": self.method,
        }

    @staticmethod
    def load(path: str | Path, mdp: MDP | None = None) -> Solution:
        """Read a solution of ``mdp`` back; a file of another model is rejected.

        Without ``mdp`` the model is read from the file, which must hold it. Its numbers must
        agree with one another; ``certify`` proves what they are worth.
        """
        from tessella.mdp import netcdf

        with netcdf.open_dataset(path, FILE_KIND) as file:
            metadata = netcdf.read_attributes(file)
            found = metadata.get("format")
            if found != SOLUTION_FORMAT:
                requirement = f"it must have format {SOLUTION_FORMAT!r}"
                raise FileError(requirement, value=f"got {found!r}")
            if mdp is None:
                mdp = _load_model(path, metadata["fingerprint"])
            elif metadata["fingerprint"] != mdp.fingerprint:
                raise FileError(
                    f"{path} holds the solution of another model",
                    location=f"its model is {metadata['model']!r} ({metadata['fingerprint']:.12}),",
                    value=f"this one is {mdp.name!r} ({mdp.fingerprint[:12]})",
                )
            _check_shapes(file.variables, mdp)
            data = netcdf.read_variables(file.variables, os.path.getsize(path))
            netcdf.require_unaltered(metadata, data)
            return _make_loaded_solution(mdp, metadata, data)

    @property
    def _accuracy_text(self) -> str:
        if self.gain is None:
            proven = ""
            if self.converged and not self.has_values:
                is_decided = self.get_raw("margin") > self.slice_tolerance
                proven = f"policy proven{'' if bool(is_decided.all()) else ' up to rounding'}, "
            return f"{proven}|V - V*| <= {round_up(self.error_bound, 2)}"
        average = format_average(self.mdp, self)
        return f"cost of {average}" if self.mdp.sense.is_cost else average

    def __repr__(self) -> str:
        suffix = " of the interpolated model" if self.mdp.dynamics.is_interpolated else ""
        return (
            f"Solution({self.mdp.name or 'MDP'}: {self.mdp.n_states:,} states, {self.method}, "
            f"{counted(self.sweeps, 'sweep')}, {self._accuracy_text}{suffix}, {self.status_text})"
        )
