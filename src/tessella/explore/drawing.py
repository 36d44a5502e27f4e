"""A solution as the page draws it: two axes of the grid, all others fixed at a value.

Arrays are lists of columns, column i holding what is above place i of the first axis (or below it,
where the second axis points down: ``down``); a model of one axis has columns of one. What is not
finite is null. Bounds are texts that are rounded outward.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError
from tessella.explore.request import RequestFields
from tessella.explore.session import Session
from tessella.grid import StateGrid
from tessella.mdp.context import TIME
from tessella.mdp.model import MDP
from tessella.mdp.stages.events import average_unit
from tessella.rounding import EPS, round_up

OPTIONAL_FIELDS = ("visits", "loss", "local")  # computed only when they are shown
MAP_MAX_STATES = 500_000  # states on the two axes that are shown


def draw_map(session: Session, request: RequestFields) -> dict[str, Any]:
    """The policy map with values, margins and runners-up, on two axes."""
    model = session.get_model(request)
    solution = model.solution
    mdp = solution.mdp
    section = GridSection.from_request(mdp.grid, request)
    sign = -1.0 if mdp.minimise else 1.0
    fields = {"value": sign * solution.value, "margin": solution.margin}
    wanted = request.options("fields", OPTIONAL_FIELDS)
    overlay = request.part("overlay")
    policy_with_proof = session.get_policy(model, overlay)
    if "visits" in wanted:
        fields["visits"] = model.state_occupancy
    if "loss" in wanted:
        fields["loss"] = model.compute_loss(policy_with_proof.policy)
    if "local" in wanted:
        fields["local"] = model.compute_local_loss(policy_with_proof.policy)
    average_factor, unit = average_unit(mdp.clock)
    bound_factor = 1.0 if solution.gain is None else average_factor * (1 + 2 * EPS)
    drawn = {
        "model": _describe_model(mdp),
        "shown": section.shown,
        "down": section.shown[-1] == mdp.grid.downward_axis,
        "at": section.at,
        "table": section.of(solution.policy.table),
        "second": section.of(model.second_best),
        "decided": section.of(solution.decided.astype(int)),
        "fields": {name: section.of(values) for name, values in fields.items()},
        "ranges": {name: _value_range(values) for name, values in fields.items()},
        "colours": session.get_colours(model),
        "used": np.unique(solution.policy.table).tolist(),
        "bound": round_up(bound_factor * solution.error_bound, 2),
        "says": repr(solution),
        "gain": None if solution.gain is None else sign * average_factor * solution.gain,
        "unit": unit,
    }
    if overlay is not None:
        drawn["overlay"] = section.of(policy_with_proof.policy.table)
        drawn["worse"] = section.of(model.find_worse_states(policy_with_proof.policy).astype(int))
        drawn["used"] = np.union1d(solution.policy.table, policy_with_proof.policy.table).tolist()
    return drawn


class GridSection:
    """Two axes of a grid, and the positions of the others."""

    def __init__(self, grid: StateGrid, shown: list[str], at: dict[str, int]) -> None:
        self.grid = grid
        self.shown = shown
        self.at = at
        self._axis_order = [grid.axes.index(name) for name in shown]
        self._index = tuple(slice(None) if name in shown else at[name] for name in grid.axes)
        cells = int(np.prod([grid.shape[k] for k in self._axis_order]))
        if cells > MAP_MAX_STATES:
            requirement = f"a map shows at most {MAP_MAX_STATES:,} states at once"
            raise ArgumentError(requirement, location=" x ".join(shown), value=f"has {cells:,}")

    @classmethod
    def from_request(cls, grid: StateGrid, request: RequestFields) -> GridSection:
        """As a request states, with default axes and positions for what it leaves out."""
        is_long = {name: size > 2 for name, size in zip(grid.axes, grid.shape, strict=True)}
        default_order = sorted(
            grid.axes, key=lambda name: (name == TIME and grid.ndim > 2, not is_long[name])
        )
        default_order = [*grid.picture_order(default_order[:2]), *default_order[2:]]
        wanted = [name for name in request.names("shown") if name in grid.axes]
        shown = list(dict.fromkeys([*wanted, *default_order]))[:2]
        fixed_indices = request.mapping("at")
        at = {}
        for name, size in zip(grid.axes, grid.shape, strict=True):
            if name not in shown:
                at[name] = min(
                    RequestFields(fixed_indices, "at").integer(name, 0, 0, 10**9), size - 1
                )
        return cls(grid, shown, at)

    def of(self, array: NDArray) -> NDArray:
        """The part of a (grid) array that is shown, as columns."""
        part = array[self._index]
        if len(self.shown) == 2 and self._axis_order[0] > self._axis_order[1]:
            part = part.T
        return part.reshape(part.shape[0], -1)


def _describe_model(mdp: MDP) -> dict[str, Any]:
    axes = zip(mdp.grid.axes, mdp.grid.values, strict=True)
    return {
        "name": mdp.name,
        "states": mdp.n_states,
        "axes": [{"name": name, "values": values.tolist()} for name, values in axes],
        "action_name": mdp.action_name,
        "actions": [str(action) for action in mdp.actions],
        "criterion": str(mdp.criterion).replace("reward", "cost" if mdp.minimise else "reward"),
        "told_in": "costs" if mdp.minimise else "rewards",
        "noise": mdp.observation_noise,
    }


def _value_range(values: NDArray) -> list[float]:
    finite = values[np.isfinite(values)]
    return [float(finite.min()), float(finite.max())] if finite.size else [0.0, 0.0]
