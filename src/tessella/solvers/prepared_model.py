"""A model in the representation and on the backend of its plan, and what bounds its errors."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tessella.errors import ModelError
from tessella.mdp.compilation import compile_per_shape, results_stay_on_device, to_backend
from tessella.mdp.dynamics import BackendModel, Dynamics
from tessella.rounding import EPS, RowSumBounds
from tessella.solvers import multigrid
from tessella.solvers.method import validate_tol
from tessella.solvers.multigrid import CoarseAxis, CoarseLimits
from tessella.solvers.operators import (
    DEFAULT_RELATIVE_TOLERANCE,
    MIN_REWARD_SCALE,
    AccuracySettings,
    ModelData,
    Operators,
    bound_rounding_floor,
)

if TYPE_CHECKING:
    from tessella.mdp.stages.sharded import ShardLayout
    from tessella.solvers.execution_plan import ExecutionPlan

VALUE_MAX_SIZE = 1e290  # larger values are rejected: their sums could overflow

# Compiled functions take operators like an array; those of another backend are compiled again.
# Not in ``operators``: a plan is chosen without loading JAX.
jax.tree_util.register_dataclass(
    Operators, data_fields=["data", "gain"], meta_fields=["backend", "evaluates_policy"]
)


class PreparedModel:
    """A model in the representation and on the backend of its plan, for a tolerance.

    It holds what every solver needs: the arrays (``data``), their transfer to devices and back, and
    the constants that turn residuals into error bounds. ``absorption_time`` bounds the expected
    periods to the end, for criteria whose bounds depend on it; with 1, bounds are residuals.
    """

    def __init__(
        self, plan: ExecutionPlan, tol: float | None = None, absorption_time: float | None = None
    ) -> None:
        mdp = plan.mdp
        self.plan = plan
        self.mdp = mdp
        self.tol = validate_tol(tol)
        self.absorption_time = absorption_time
        if not self.contraction_gap > 0:
            raise ModelError(mdp.criterion.explain_unbounded(self.row_sum_bounds))
        scale = mdp.dynamics.reward_scale
        if scale > mdp.criterion.equivalent_constant_reward(VALUE_MAX_SIZE):
            raise ModelError(
                f"rewards up to {scale:.3g} at discount {mdp.discount} would overflow float64; "
                "rescale them"
            )
        if 0 < scale < MIN_REWARD_SCALE:
            raise ModelError(f"rewards of at most {scale:.3g} vanish in float64; rescale them")

    @property
    def saved_contraction_gap(self) -> float:
        """Lower bound on 1 - c for the model as saved to a file; 0 if it may be negative."""
        rounding = self.mdp.dynamics.rounding
        row_error = rounding.in_file.row_error - rounding.in_memory.row_error
        gap = self.mdp.criterion.contraction_gap(self.row_sum_bounds.widen(2 * row_error))
        return max(gap * (1 - 64 * EPS), 0.0)

    def saved_backup_error(self, value: NDArray) -> float:
        """The error of a backup of ``value`` that is computed from the arrays of a model file."""
        given = self.mdp.dynamics.rounding.in_memory
        saved = self.mdp.dynamics.rounding.in_file
        max_backup = float(np.abs(value).max()) * self.mdp.discount * self.row_sum_bounds.high
        row_difference = (saved.row_error - given.row_error) * max_backup
        return 2 * (saved.reward_error - given.reward_error + row_difference) * (1 + 8 * EPS)

    @property
    def row_sum_bounds(self) -> RowSumBounds:
        """Bounds on the exact row sums, of which the stored rows are rounded versions."""
        return self.mdp.dynamics.row_sums.widen(self.mdp.dynamics.rounding.in_memory.row_error)

    @property
    def adjoint_rounding_floor(self) -> float:
        """The part of the error of an occupancy that is due to rounding, also of a saved model."""
        # The adjoint sums over all predecessors of a state, which may be many.
        sums = EPS * (self.dynamics.adjoint_rounding_terms + 8)
        rounding = self.mdp.dynamics.rounding
        given_rounding, saved_rounding = rounding.in_memory.row_error, rounding.in_file.row_error
        return float(sums + 2 * saved_rounding - given_rounding) / self.contraction_gap

    @property
    def contraction_gap(self) -> float:
        """The divisor that turns a residual into an error bound: 1 - c with a discount."""
        return self.mdp.criterion.contraction_gap(self.row_sum_bounds)

    @cached_property
    def dynamics(self) -> Dynamics:
        """The dynamics in the planned representation, with their rounding bounds."""
        return self.plan.dynamics

    @cached_property
    def backend_model(self) -> BackendModel:
        return self.plan.backend_model

    @cached_property
    def layout(self) -> ShardLayout | None:
        """How arrays over the grid are distributed among several devices; None on one."""
        return self.backend.shard_layout(self.mdp.grid.shape)

    def to_device(self, array: NDArray, dim: int = 0) -> Any:
        """An array whose axes from ``dim`` on are the grid's, as compiled functions take it."""
        if self.layout is not None:
            return self.layout.to_devices(array, dim)
        return to_backend(self.backend, array)

    def make_zeros(self) -> tuple[Any, Any]:
        """(grid) a value and a policy of zeros, not on the host where arrays stay on the device."""
        shape = self.mdp.grid.shape
        if self.layout is not None:
            return self.layout.zeros(jnp.float64), self.layout.zeros(jnp.int32)
        if self.stays_on_device:
            return jnp.zeros(shape), jnp.zeros(shape, jnp.int32)
        return self.to_device(np.zeros(shape)), self.to_device(np.zeros(shape, np.int32))

    def from_result(self, array: Any) -> Any:
        """An array of a result as compiled functions take it, the reverse of ``to_result``."""
        return array if self.layout is None else self.layout.from_result(array)

    def to_numpy(self, array: Any) -> NDArray:
        """An array over the grid as NumPy's."""
        return np.asarray(array if self.layout is None else self.layout.to_result(array))

    def to_result(self, array: Any) -> Any:
        """An array over the grid for a result: NumPy's, or, on accelerators, left on the device."""
        if self.layout is not None:
            return self.layout.to_result(array)
        return array if self.stays_on_device else np.asarray(array)

    @property
    def backend(self):
        return self.backend_model.backend

    @property
    def is_numpy(self) -> bool:
        """Whether NumPy computes, so that nothing is compiled."""
        return not self.backend.is_compiled

    @property
    def stays_on_device(self) -> bool:
        """Whether arrays stay on an accelerator that computes."""
        return self.plan.backend == "jax" and results_stay_on_device()

    def build_policy_data(self, policy: NDArray) -> ModelData:
        """Model data, with a coarse correction for this policy if the plan has one."""
        if self.plan.preconditioner != "coarse":
            return self.data
        axes = self.coarse_axes
        has_gain = self.mdp.criterion.has_gain
        probes = _compute_coarse_system(axes, self.make_operators(), policy)
        if self.stays_on_device:
            order = self.to_device(multigrid.order_by_blocks(axes))
            correction, size = _factorise_on_device(axes, has_gain, probes, order)
            return self.data._replace(
                coarse_correction=correction if multigrid.is_usable(size) else None
            )
        correction = multigrid.build_correction(np.asarray(probes), axes, has_gain)
        return self.data._replace(coarse_correction=to_backend(self.backend, correction))

    @cached_property
    def coarse_axes(self) -> tuple[CoarseAxis, ...]:
        """The nodes of the coarse correction along each axis."""
        shape = self.mdp.grid.shape
        displacements = map(self.mdp.dynamics.max_displacement, range(len(shape)))
        return multigrid.choose_coarse_axes(
            shape,
            [displacement or (n, n) for n, displacement in zip(shape, displacements, strict=True)],
            self.coarse_limits,
        )

    @property
    def coarse_limits(self) -> CoarseLimits:
        """What the coarse correction may cost."""
        if not self.stays_on_device:
            return multigrid.PROCESSOR_LIMITS
        return (
            multigrid.ACCELERATOR_GAIN_LIMITS
            if self.mdp.criterion.has_gain
            else multigrid.ACCELERATOR_LIMITS
        )

    def make_operators(self, evaluates_policy: bool = False) -> Operators:
        """The operators of the model, for an optimum or for the value of a policy."""
        return Operators(self.backend, self.data, evaluates_policy=evaluates_policy)

    @cached_property
    def data(self) -> ModelData:
        mdp = self.mdp
        feasible = None
        if mdp.feasible is not None:
            allowed = mdp.feasible.T.reshape(mdp.n_actions, *mdp.grid.shape)
            feasible = self.to_device(allowed, 1)
        return self.build_data(self.backend_model.arrays, feasible)

    def build_data(self, arrays: Any, feasible: Any) -> ModelData:
        """Model data with other arrays of the dynamics, such as those of a block with its halo."""
        unit = EPS * (self.dynamics.rounding.backup_terms + 8)
        rounding = self.dynamics.rounding.in_memory
        errors = (unit, rounding.row_error, rounding.reward_error, self.mdp.dynamics.reward_scale)
        targets = self.tol or 0, DEFAULT_RELATIVE_TOLERANCE
        accuracy = AccuracySettings(*map(np.float64, (*errors, *targets)))
        kernel = self.mdp.criterion.make_kernel(self.row_sum_bounds, unit)
        if self.absorption_time is not None:
            kernel = kernel._replace(error_factor=np.float64(self.absorption_time))
        data = ModelData(arrays, feasible, kernel, accuracy)
        return data._replace(accuracy=accuracy._replace(max_floor=bound_rounding_floor(data)))


@compile_per_shape("axes")
def _compute_coarse_system(axes: tuple[CoarseAxis, ...], operators: Operators, policy):
    """The probes from which ``multigrid`` assembles the coarse system of a policy."""
    return multigrid.probe_coarse_system(
        lambda e: operators.policy_expectation(policy, e), axes, policy
    )


@compile_per_shape("axes", "has_gain")
def _factorise_on_device(axes: tuple[CoarseAxis, ...], has_gain: bool, probes, order):
    """The correction and the size of its trial solution: moving it there would take longer."""
    return multigrid.factorise_correction(
        axes, has_gain, probes, order, multigrid.ACCELERATOR_LIMITS.inverse_rows
    )
