"""Shift: the coordinate along one axis moves by a random amount.

    E[w](x) = sum_k p_k w(edge(x + by_k))

It adds up slices of a padded array (``AxisShift``), as a banded chain of ``Move`` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError, format_value, raise_for_first
from tessella.mdp.checks import FunctionChecks, as_numbers
from tessella.mdp.dynamics import take_walker_entries
from tessella.mdp.stages.interpolation import (
    OffGridOption,
    build_interpolated_scatter,
    find_neighbours,
    require_known_options,
)
from tessella.mdp.stages.operation import (
    NO_DISPLACEMENT,
    Displacement,
    RandomOperation,
    bound_displacement,
    compiled_action_slice,
    gather_policy_entries,
    is_shared_by_actions,
    relative_to_block,
    take_range,
    with_length,
)
from tessella.mdp.stages.stage import Function, Noise, Stage, require_noise
from tessella.mdp.state_action_space import call_by_name

Edge = Literal["clip", "reflect", "wrap", "error"]
SLICED_MAX_ACTIONS = 8  # actions for which slices are faster than reading single entries


@dataclass(frozen=True, eq=False)
class Shift(Stage):
    """The coordinate along an evenly spaced ``axis`` moves by ``by(noise, action)``.

    ``edge`` says what happens past the ends: ``clip`` stops there, ``reflect`` turns back,
    ``wrap`` goes on at the other end (weekdays, angles), ``error`` raises an error if that can
    happen. ``pays`` and ``costs`` may depend on the noise; they see the coordinate before the move.
    With ``between="interpolate"`` it may move by any amount, along grid points of any spacing, and
    land between them: see ``interpolation``.

    Args:
        axis: the axis that changes.
        noise: what is random.
        by: a function of noise, axes and action that returns how far to move; None to move by the
            noise.
        edge, between: see above.
        pays, costs, counts: as in ``Pay``; functions may name the noise too.

    Example:
        >>> demand = ts.Noise("demand", range(3), [0.2, 0.5, 0.3])
        >>> sell = ts.Shift("stock", demand, by=lambda demand: -demand,
        ...                 pays=lambda stock, demand: 4.0 * np.minimum(stock, demand))
        >>> mdp = ts.MDP.staged({"stock": range(5)}, ("wait",), 0.9, [sell])
        >>> mdp.to_arrays().transition[0, 1]            # from a stock of 1; unmet demand is lost
        array([0.8, 0.2, 0. , 0. , 0. ])
    """

    axis: str
    noise: Noise
    by: Function | None = None
    edge: Edge = "clip"
    pays: Function | None = None
    between: OffGridOption = "error"
    costs: Function | None = None
    counts: Mapping[str, float | Function] | None = None

    subject_template = "the shift of {axis} by {noise.name}"

    def __post_init__(self) -> None:
        require_noise(self.noise, f"a shift of {self.axis}")

    def build_operation(self, checks: FunctionChecks) -> RandomOperation:
        grid = checks.space.grid
        axis = checks.space.axis(self.axis)
        if self.between != "error":
            require_known_options(self.subject, self.between, self.edge)
            target = checks.space.along(axis, grid.numbers[axis]) + self._compute_amounts(checks)
            return build_interpolated_scatter(
                checks, {axis: find_neighbours(checks, axis, target, self.edge)}
            )
        steps = self._count_grid_steps(checks, axis)
        if self.edge == "error":
            _require_inside(checks, axis, steps)
        return build_shift(grid.shape, axis, steps, np.moveaxis(checks.probs, -1, 1), self.edge)

    def _compute_amounts(self, checks: FunctionChecks) -> NDArray[np.float64]:
        """(A | 1, 1, ..., K | 1) how far each noise value moves."""
        subject = f"{self.subject}: its amount"
        variable = checks.variable
        assert variable is not None  # a shift has a noise
        amounts = variable.values
        if self.by is not None:
            mesh = checks.space.mesh(variable)
            allowed = {n: mesh[n] for n in (variable.name, *checks.space.action_values)}
            amounts = call_by_name(self.by, allowed, subject)
        amounts = checks.space.as_mesh(as_numbers(amounts, subject), subject, checks.n_outcomes)
        if amounts.size > len(amounts) * checks.n_outcomes:
            raise ModelError(f"{subject} may depend on the action and the noise only")
        return amounts

    def _count_grid_steps(self, checks: FunctionChecks, axis: int) -> NDArray[np.float64]:
        """(A | 1, K) how many grid steps each noise value moves, a whole number of any size."""
        if self.edge not in get_args(Edge):
            *others, last = map(repr, get_args(Edge))
            requirement = f"{self.subject}: edge must be {', '.join(others)} or {last}"
            raise ModelError(requirement, value=f"got {self.edge!r}")
        gap = _find_axis_spacing(checks, axis)
        amounts = self._compute_amounts(checks)
        with np.errstate(over="ignore", invalid="ignore"):
            steps = amounts / gap
            is_fractional = ~(np.abs(steps - np.rint(steps)) <= 1e-9)  # True for inf and nan
        spacing = f"where neighbours are {format_value(abs(gap))} apart"
        raise_for_first(
            f"{self.subject} must be by whole grid steps",
            is_fractional,
            lambda p: checks.describe(p, amounts.shape),
            lambda p: f"moves by {format_value(amounts[p])} {spacing}",
            "amounts",
        )
        whole = np.rint(steps).reshape(len(steps), -1)
        return np.broadcast_to(whole, (len(whole), checks.n_outcomes))


def _find_axis_spacing(checks: FunctionChecks, axis: int) -> float:
    """The distance between neighbours on an evenly spaced axis, negative if it descends."""
    grid = checks.space.grid
    numbers = grid.numbers[axis]
    if len(numbers) == 1:
        return 1.0
    gaps = np.diff(numbers)
    rounding = 8 * np.spacing(np.abs(numbers).max())
    gap = (numbers[-1] - numbers[0]) / len(gaps)
    if grid.values[axis].dtype.kind == "i":  # exact also beyond 2^53, unlike float64
        gaps = np.diff(grid.values[axis].astype(object)).astype(float)
        rounding = 0.0
        gap = gaps.mean()
    if np.abs(gaps - gap).max() > 1e-9 * abs(gap) + min(rounding, abs(gap) / 4):
        low = format_value(np.abs(gaps).min())
        high = format_value(np.abs(gaps).max())
        requirement = f"{checks.subject}: the axis must be evenly spaced"
        raise ModelError(requirement, value=f"gaps are {low} to {high}")
    return float(gap)


def _require_inside(checks: FunctionChecks, axis: int, steps: NDArray) -> None:
    n = checks.space.grid.shape[axis]
    steps_mesh = steps.reshape(len(steps), *(1,) * checks.space.grid.ndim, -1)
    target = checks.space.along(axis, np.arange(n)) + steps_mesh
    # The probability of an outcome may depend on more than the axis and the noise.
    shape = np.broadcast_shapes(target.shape, checks.probs.shape)
    is_outside = np.broadcast_to((target < 0) | (target >= n), shape)
    amounts = np.broadcast_to(steps_mesh * _find_axis_spacing(checks, axis), shape)
    requirement = f"{checks.subject} leaves the grid"
    checks.raise_for_first(
        requirement, is_outside, lambda p: f"moves by {format_value(amounts[p])}"
    )


def build_shift(
    shape: tuple[int, ...], axis: int, steps: NDArray, probs: NDArray, edge: str
) -> AxisShift:
    """Moves by ``steps`` (A | 1, K), whole numbers, with ``probs`` (A | 1, K, *broadcast)."""
    n = shape[axis]
    # Steps of any size become those that reach the same positions and are small.
    if edge == "reflect":
        cycle = max(2 * (n - 1), 1)  # reflection at both ends is periodic
        steps = np.fmod(steps, cycle)
        steps = np.where(np.abs(steps) < n, steps, steps % cycle)
    elif edge == "wrap":
        steps = np.fmod(steps, n)
    else:
        steps = np.clip(steps, 1 - n, n - 1)
    low = min(int(steps.min()), 0)
    high = max(int(steps.max()), 0)
    mode = edge if edge in ("reflect", "wrap") else "edge"
    pad_index = np.pad(np.arange(n, dtype=np.int32), (-low, high), mode)
    offsets = (steps - low).astype(np.int32)
    return AxisShift(shape, (axis,), pad_index, offsets, np.ascontiguousarray(probs))


@dataclass(frozen=True, eq=False)
class AxisShift(RandomOperation):
    """Shifts along one axis; ``pad_index`` holds the axis position of each padded position.

    Compiled, ``sum_k p_k * w[x + offset_k]`` with a slice of the padded ``w`` for each k.
    """

    pad_index: NDArray[np.int32]
    offsets: NDArray[np.int32]  # (A | 1, K)
    probs: NDArray[np.float64]  # (A | 1, K, *broadcast)

    hashed_name = "Slices"
    mesh_fields = ("probs",)

    def fingerprint_key(self) -> tuple:
        return self.shape, self.axis, self.pad_index, self.offsets, self.probs

    def arrays(self) -> dict[str, NDArray]:
        return {"pad_index": self.pad_index, "offsets": self.offsets, "probs": self.probs}

    @property
    def depends_on_action(self) -> bool:
        return len(self.offsets) > 1 or len(self.probs) > 1

    def positions(self, axis: int) -> NDArray:
        current = self.current_positions(axis)
        if axis != self.axis:
            return current
        target = self.pad_index[self.offsets[..., None] + np.arange(self.shape[axis])]
        return target.reshape(*self.offsets.shape, *current.shape[2:])

    def max_displacement(self, axis: int) -> Displacement:
        if axis != self.axis:
            return NO_DISPLACEMENT
        x = np.arange(self.shape[axis])
        moved = [self.pad_index[x + offset] - x for offset in np.unique(self.offsets)]
        return bound_displacement(np.array([[steps.min(), steps.max()] for steps in moved]))

    def block(self, axis: int, first: int, count: int) -> AxisShift:
        shape = with_length(self.shape, axis, count)
        pad_index = self.pad_index
        if axis == self.axis:
            padded = np.arange(first, first + count + int(self.offsets.max()))
            pad_index = relative_to_block(
                pad_index[np.clip(padded, 0, len(pad_index) - 1)], first, count
            )
        probs = take_range(self.probs, axis + 2, first, count)
        return replace(self, shape=shape, pad_index=pad_index, probs=probs)

    @property
    def adjoint_rounding_terms(self) -> int:
        return 2 * self.offsets.shape[1] + len(self.pad_index)

    def sample(self, states, actions, rng):
        positions, noise_index = self.draw(states, actions, rng)
        offset = take_walker_entries(self.offsets, actions, [noise_index])
        positions[self.axis] = self.pad_index[offset + positions[self.axis]].astype(np.int64)
        return np.ravel_multi_index(tuple(positions), self.shape), noise_index

    @staticmethod
    def supports_policy_arrays(axes, arrays, /) -> bool:
        # Slices are so much faster than single entries that few actions are done one by one.
        n_actions = max(len(arrays["offsets"]), len(arrays["probs"]))
        return n_actions == 1 or n_actions > SLICED_MAX_ACTIONS

    @staticmethod
    def apply(axes, arrays, w, action, /):
        import jax.numpy as jnp
        from jax import lax

        (axis,) = axes
        offsets = arrays["offsets"]
        probs = arrays["probs"]
        padded = jnp.take(w, arrays["pad_index"], axis=axis, mode="clip")
        size = w.shape[axis]

        def add(total, term):
            offset, p = term
            return total + p * lax.dynamic_slice_in_dim(padded, offset, size, axis), None

        def add_own(total, k):
            x = lax.broadcasted_iota(jnp.int32, w.shape, axis)
            offset = offsets[action if len(offsets) > 1 else 0, k]
            reached = jnp.take_along_axis(padded, x + offset, axis, mode="clip")
            return total + gather_policy_entries(probs, action, k) * reached, None

        if jnp.ndim(action) and not is_shared_by_actions(offsets, probs):
            return lax.scan(add_own, jnp.zeros_like(w), jnp.arange(offsets.shape[1]))[0]
        action = 0 if jnp.ndim(action) else action
        terms = compiled_action_slice(offsets, action), compiled_action_slice(probs, action)
        return lax.scan(add, jnp.zeros_like(w), terms)[0]
