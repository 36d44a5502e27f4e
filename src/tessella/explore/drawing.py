"""A solution as the page draws it: two axes of the grid, all others standing at a place.

Arrays are lists of columns, column i holding what is above place i of the first axis (or below it,
where the second is a row: ``down``); a model of one axis has columns of one. What is not finite is
null. Bounds are texts that are rounded outward.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError
from tessella.explore.asked import Asked
from tessella.explore.session import Session
from tessella.grid import DOWNWARDS, StateGrid, picture_axes
from tessella.mdp.model import MDP
from tessella.mdp.scope import TIME
from tessella.mdp.stages.events import average_unit
from tessella.rounding import EPS, round_up

FIELDS = ("visits", "loss", "local")  # what is worked out only when it is shown
MOST_CELLS = 500_000


def map_drawn(session: Session, asked: Asked) -> dict[str, Any]:
    """The policy map with values, margins and runners-up, on two axes."""
    known = session.solved(asked)
    solution = known.solution
    mdp = solution.mdp
    part = Slice.asked(mdp.grid, asked)
    sign = -1.0 if mdp.minimise else 1.0
    fields = {"value": sign * solution.value, "margin": solution.margin}
    wanted = asked.listed("fields", FIELDS)
    overlay = asked.part("overlay")
    made = session.made(known, overlay)
    if "visits" in wanted:
        fields["visits"] = known.visits
    if "loss" in wanted:
        fields["loss"] = known.loss(made.policy)
    if "local" in wanted:
        fields["local"] = known.local_loss(made.policy)
    times, unit = average_unit(mdp.clock)
    of_average = 1.0 if solution.gain is None else times * (1 + 2 * EPS)
    drawn = {
        "model": _model(mdp),
        "shown": part.shown,
        "down": part.shown[-1] == DOWNWARDS,
        "at": part.at,
        "table": part.of(solution.policy.table),
        "second": part.of(known.second),
        "decided": part.of(solution.decided.astype(int)),
        "fields": {name: part.of(values) for name, values in fields.items()},
        "ranges": {name: _range(values) for name, values in fields.items()},
        "colours": session.colours(known),
        "used": np.unique(solution.policy.table).tolist(),
        "bound": round_up(of_average * solution.error_bound, 2),
        "says": repr(solution),
        "gain": None if solution.gain is None else sign * times * solution.gain,
        "unit": unit,
    }
    if overlay is not None:
        drawn["overlay"] = part.of(made.policy.table)
        drawn["worse"] = part.of(known.worse(made.policy).astype(int))
        drawn["used"] = np.union1d(solution.policy.table, made.policy.table).tolist()
    return drawn


class Slice:
    """Two axes of a grid, and where the others stand."""

    def __init__(self, grid: StateGrid, shown: list[str], at: dict[str, int]) -> None:
        self.grid, self.shown, self.at = grid, shown, at
        self._order = [grid.axes.index(name) for name in shown]
        self._place = tuple(slice(None) if name in shown else at[name] for name in grid.axes)
        cells = int(np.prod([grid.shape[k] for k in self._order]))
        if cells > MOST_CELLS:
            rule = f"a map shows at most {MOST_CELLS:,} states at once"
            raise ArgumentError(rule, place=" x ".join(shown), value=f"has {cells:,}")

    @classmethod
    def asked(cls, grid: StateGrid, asked: Asked) -> Slice:
        """As a request says; what it leaves out, or what the grid has not, as is usual."""
        long = {name: size > 2 for name, size in zip(grid.axes, grid.shape, strict=True)}
        usual = sorted(grid.axes, key=lambda name: (name == TIME and grid.ndim > 2, not long[name]))
        usual = [*picture_axes(usual[:2]), *usual[2:]]
        wanted = [name for name in asked.names("shown") if name in grid.axes]
        shown = list(dict.fromkeys([*wanted, *usual]))[:2]
        places = asked.mapping("at")
        at = {}
        for name, size in zip(grid.axes, grid.shape, strict=True):
            if name not in shown:
                at[name] = min(Asked(places, "at").whole(name, 0, 0, 10**9), size - 1)
        return cls(grid, shown, at)

    def of(self, array: NDArray) -> list[Any]:
        """The part of a (grid) array that is shown, as columns."""
        part = array[self._place]
        if len(self.shown) == 2 and self._order[0] > self._order[1]:
            part = part.T
        return plain(part.reshape(part.shape[0], -1))


def plain(array: NDArray) -> list[Any]:
    """As JSON holds it; what is not finite is None."""
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return array.tolist()
    listed = array.astype(object)
    listed[~np.isfinite(array)] = None
    return listed.tolist()


def _model(mdp: MDP) -> dict[str, Any]:
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


def _range(values: NDArray) -> list[float]:
    finite = values[np.isfinite(values)]
    return [float(finite.min()), float(finite.max())] if finite.size else [0.0, 0.0]
