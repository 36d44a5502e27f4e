"""Conversion to start distributions: where a process begins.

None            the model's own start, or a uniform one
an integer      that state
integers        a list of states, all entries with the same probability
a mapping       coordinates by name: ``{"stock": 3}`` is uniform over states with that stock;
                with a finite horizon at time 0, unless it names another
floats          the probabilities of all states, flat or in the grid's shape
"stationary"    the long-run distribution under the policy
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ArgumentError, format_value, raise_for_first
from tessella.grid import StateGrid, describe_coordinates, require_unmasked
from tessella.mdp.checks import ROW_SUM_TOLERANCE, as_numbers, read_shape
from tessella.mdp.state_action_space import TIME

if TYPE_CHECKING:
    from tessella.mdp.dynamics import BackendModel
    from tessella.mdp.model import MDP
    from tessella.mdp.policy import Policy

Start = ArrayLike | Mapping[str, object] | None
STATIONARY = "stationary"
START_REQUIREMENT = (
    "a start is a state index, a list of them, coordinates by name, a distribution written as "
    "floats, or 'stationary'"
)


class HasBackendModel(Protocol):
    """An execution plan, or dynamics: what has a backend that can run a model."""

    @property
    def backend_model(self) -> BackendModel: ...


def start_distribution(
    mdp: MDP, start: Start, policy: Policy | None = None, plan: HasBackendModel | None = None
) -> NDArray[np.float64]:
    """(S,) probabilities of the first state; a stationary start is that of ``policy``.

    It is computed by the backend of ``plan``; without one, of the dynamics as given.
    """
    if start is None:
        return np.full(mdp.n_states, 1.0 / mdp.n_states) if mdp.start is None else mdp.start
    if isinstance(start, str):
        if start != STATIONARY:
            raise ArgumentError(START_REQUIREMENT, value=f"got the text {start!r}")
        if policy is None:
            raise ArgumentError("a stationary start needs a policy, and none is given")
        from tessella.mdp.long_run import long_run_distribution  # loads JAX

        return long_run_distribution(mdp, policy, plan)
    states = find_listed_states(mdp, start)
    if states is not None:
        return np.bincount(states, minlength=mdp.n_states) / len(states)
    return _check_distribution(mdp, start)


def _check_distribution(mdp: MDP, start: Start) -> NDArray[np.float64]:
    """(S,) probabilities of all states, as they were given."""
    weights = as_numbers(start, "start probabilities", error=ArgumentError).ravel()
    if weights.size != mdp.n_states:
        raise ArgumentError(
            f"a start distribution has {mdp.n_states} entries", value=f"got {weights.size}"
        )
    raise_for_first(
        "start probabilities must be finite and not negative",
        ~(weights >= 0) | np.isinf(weights),
        mdp.grid.describe,
        lambda state: f"has {weights[state]}",
        "states",
        error=ArgumentError,
    )
    total = weights.sum()
    if abs(total - 1) > ROW_SUM_TOLERANCE:
        raise ArgumentError(
            "start probabilities must sum to 1", value=f"they sum to {format_value(total)}"
        )
    # Rounding is not corrected, so that a start is returned as it was given.
    return weights if abs(total - 1) <= 1e-14 else weights / total


def draw_start_states(
    mdp: MDP, start: Start, policy: Policy, count: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """(count,) first states, by inversion; without a distribution over all states."""
    states = find_listed_states(mdp, start)
    if states is not None:
        return np.sort(states)[_draw_uniform(len(states), count, rng)]
    if start is None and mdp.start is None:
        return _draw_uniform(mdp.n_states, count, rng)
    return rng.choice(mdp.n_states, size=count, p=start_distribution(mdp, start, policy))


def _draw_uniform(n: int, count: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """(count,) integers of 0..n - 1, as ``rng.choice`` draws them with n equal probabilities."""
    return np.minimum((rng.random(count) * n).astype(np.int64), n - 1)


def _find_states_at(grid: StateGrid, coordinates: Mapping[str, object]) -> NDArray[np.int64]:
    """Flat indices of the states that have these coordinates."""
    positions = {}
    for name, value in coordinates.items():
        axis = grid.axis(name)
        position = np.atleast_1d(grid.locate(axis, np.asarray(value)))
        if position.size != 1 or position[0] < 0:
            raise ArgumentError(
                "a start must lie on the grid", location=f"{name}={value}", value="does not"
            )
        positions[axis] = int(position.ravel()[0])
    states = grid.select_states(positions)
    if not states.size:
        location = describe_coordinates(coordinates)
        raise ArgumentError("a start must be a state", location=location, value="does not exist")
    return states


def find_listed_states(mdp: MDP, start: Start) -> NDArray[np.int64] | None:
    """The states that a start names, by index or coordinates; None if it is a distribution."""
    if start is None or isinstance(start, str):
        return None
    if isinstance(start, Mapping):
        time = {TIME: mdp.grid.values[0][0]} if mdp.criterion.has_horizon else {}
        return _find_states_at(mdp.grid, time | dict(start))
    read_shape(start, "start", error=ArgumentError)
    array = np.asarray(require_unmasked(start, "start", error=ArgumentError))
    if array.dtype.kind not in "biu":
        return None
    is_list = array.dtype.kind != "b" and array.ndim <= 1 and array.size > 0
    if not is_list:
        value = f"got {array.dtype} of shape {array.shape}"
        raise ArgumentError(START_REQUIREMENT, value=value)
    _check_states(np.atleast_1d(array), mdp.n_states, is_scalar=array.ndim == 0)
    return np.atleast_1d(array).astype(np.int64)


def _check_states(states: NDArray, n_states: int, *, is_scalar: bool) -> None:
    """Reject indices out of range, and integers that could be a distribution of zeros and a one."""
    may_be_distribution = not is_scalar and len(states) == n_states
    if may_be_distribution and states.max() == 1 and states.min() >= 0:
        value = f"0 and 1 for each of {n_states} states could mean either"
        raise ArgumentError(START_REQUIREMENT, value=value)
    bad = states[(states < 0) | (states >= n_states)]
    if bad.size:
        raise ArgumentError(f"states must lie in 0..{n_states - 1}", value=f"got {bad[0]}")
