"""A model made ready for the kernels as its plan says, and what is computed at one point of it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tessella.criteria.criterion import CriterionKernel
from tessella.errors import ArgumentError, ModelError
from tessella.mdp.compilation import in_float64, results_stay_on_device, to_backend
from tessella.mdp.dynamics import BackendModel, Dynamics
from tessella.mdp.stages.sharded import ShardedArray, ShardedBackend, ShardLayout
from tessella.numerics import read_only
from tessella.rounding import EPS, RowSumBounds
from tessella.solvers import kernels
from tessella.solvers.method import validate_tol
from tessella.solvers.multigrid import CoarseAxis, build_correction, choose_coarse_axes
from tessella.solvers.operators import MIN_REWARD_SCALE, AccuracySettings, ModelData

if TYPE_CHECKING:
    from tessella.solvers.execution_plan import ExecutionPlan

VALUE_MAX_SIZE = 1e290  # values beyond this are refused: their sums could overflow


class Engine:
    """A model made ready for the kernels, as its plan says.

    ``absorption_time`` bounds the periods to the end, where a criterion rests on that; with 1,
    bounds are those of residuals.
    """

    def __init__(
        self,
        plan: ExecutionPlan,
        tol: float | None = None,
        absorption_time: float | None = None,
    ) -> None:
        mdp = plan.mdp
        self.plan = plan
        self.mdp = mdp
        self.tol = validate_tol(tol)
        self.absorption_time = absorption_time
        if not self.contraction_gap > 0:
            raise ModelError(mdp.criterion.why_unbounded(self.row_sum_bounds))
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
        row_error = (
            self.mdp.dynamics.rounding.as_saved.rows - self.mdp.dynamics.rounding.as_given.rows
        )
        gap = self.mdp.criterion.contraction_gap(self.row_sum_bounds.widen(2 * row_error))
        return max(gap * (1 - 64 * EPS), 0.0)

    def saved_backup_error(self, value: NDArray) -> float:
        """How far a backup of ``value`` by the arrays of a model file may be off."""
        given_rounding = self.mdp.dynamics.rounding.as_given
        saved_rounding = self.mdp.dynamics.rounding.as_saved
        max_backup = float(np.abs(value).max()) * self.mdp.discount * self.row_sum_bounds.high
        difference = (saved_rounding.reward - given_rounding.reward) + (
            saved_rounding.rows - given_rounding.rows
        ) * max_backup
        return 2 * difference * (1 + 8 * EPS)

    @property
    def row_sum_bounds(self) -> RowSumBounds:
        """Bounds on the row sums of the model that was meant, not only of its stored rows."""
        # Derived rows carry rounding; it enters as a row error.
        return self.mdp.dynamics.row_sums.widen(self.mdp.dynamics.rounding.as_given.rows)

    @property
    def adjoint_rounding_floor(self) -> float:
        """What rounding leaves of the error of an occupancy, by the arrays of a file included."""
        # The adjoint adds up what flows into a state, which may be much.
        sums = EPS * (self.dynamics.adjoint_rounding_terms + 8)
        given_rounding = self.mdp.dynamics.rounding.as_given.rows
        saved_rounding = self.mdp.dynamics.rounding.as_saved.rows
        return float(sums + 2 * saved_rounding - given_rounding) / self.contraction_gap

    @property
    def contraction_gap(self) -> float:
        """What a residual is divided by to bound an error: 1 - c when rewards are discounted."""
        return self.mdp.criterion.contraction_gap(self.row_sum_bounds)

    @cached_property
    def dynamics(self) -> Dynamics:
        """The dynamics in the planned representation, whose rounding bounds count."""
        return self.plan.dynamics

    @cached_property
    def backend_model(self) -> BackendModel:
        return self.plan.backend_model

    @cached_property
    def layout(self) -> ShardLayout | None:
        """How arrays over the grid lie on several devices; None on one."""
        backend = self.backend
        return (
            ShardLayout(backend, self.mdp.grid.shape)
            if isinstance(backend, ShardedBackend)
            else None
        )

    def to_device(self, array: NDArray, dim: int = 0) -> Any:
        """An array whose axes from ``dim`` on are the grid's, as the kernels take it."""
        if self.layout is not None:
            return self.layout.to_devices(array, dim)
        return to_backend(self.backend, array)

    def to_numpy(self, array: Any) -> NDArray:
        """An array over the grid as NumPy's."""
        return np.asarray(array if self.layout is None else self.layout.to_result(array))

    def to_result(self, array: Any) -> Any:
        """An array over the grid for a result: NumPy's, or one that stays until it is read.

        On an accelerator and on several devices it stays.
        """
        if self.layout is not None:
            return self.layout.to_result(array)
        return array if not self.is_numpy and results_stay_on_device() else np.asarray(array)

    @property
    def backend(self):
        return self.backend_model.backend

    @property
    def is_numpy(self) -> bool:
        """Whether nothing is compiled, so that one more function costs nothing."""
        return not self.backend.is_compiled

    def criterion_kernel(self, unit: float) -> CriterionKernel:
        kernel = self.mdp.criterion.make_kernel(self.row_sum_bounds, unit)
        if self.absorption_time is None:
            return kernel
        return kernel.with_absorption_time(np.float64(self.absorption_time))

    @property
    def needs_coarse_correction(self) -> bool:
        return self.plan.correction == "coarse"

    def build_policy_data(self, policy: NDArray) -> ModelData:
        """Model data, with a coarse correction for this policy if the plan has one."""
        if not self.needs_coarse_correction:
            return self.data
        axes = self.coarse_axes
        probes = np.asarray(kernels.compute_coarse_system(self.backend, axes, self.data, policy))
        return self.data._replace(coarse=to_backend(self.backend, build_correction(probes, axes)))

    @cached_property
    def coarse_axes(self) -> tuple[CoarseAxis, ...]:
        """Where a coarse correction has its nodes."""
        shape = self.mdp.grid.shape
        displacements = map(self.mdp.dynamics.max_displacement, range(len(shape)))
        return choose_coarse_axes(
            shape,
            [displacement or (n, n) for n, displacement in zip(shape, displacements, strict=True)],
        )

    @cached_property
    def data(self) -> ModelData:
        mdp = self.mdp
        feasible = None
        if mdp.feasible is not None:
            allowed = mdp.feasible.T.reshape(mdp.n_actions, *mdp.grid.shape)
            feasible = self.to_device(allowed, 1)
        return self.build_data(self.backend_model.arrays, feasible)

    def build_data(self, arrays: Any, feasible: Any) -> ModelData:
        """The same with other arrays of the dynamics, such as those of a block with its halo."""
        unit = EPS * (self.dynamics.rounding.terms + 8)
        rounding = self.dynamics.rounding.as_given
        errors = (unit, rounding.rows, rounding.reward, self.mdp.dynamics.reward_scale)
        targets = self.tol or 0, kernels.DEFAULT_RELATIVE_TOLERANCE
        accuracy = AccuracySettings(*map(np.float64, (*errors, *targets)))
        return ModelData(arrays, feasible, self.criterion_kernel(unit), accuracy)


def make_initial_state(
    engine: Engine, value: NDArray | None, policy: NDArray | None
) -> kernels.IterationState:
    """Where a run begins: at ``value`` and ``policy``, or at zeros."""
    shape = engine.mdp.grid.shape
    if value is None and policy is None:
        return _make_state(*_make_zeros(engine))
    point = np.zeros(shape) if value is None else _check_guess(value, shape)
    if engine.mdp.dynamics.reward_scale == 0:
        point = np.zeros(shape)  # all values are 0; a distant guess would decay slowly
    actions = np.zeros(shape, np.int32) if policy is None else np.asarray(policy, np.int32)
    return _make_state(*(engine.to_device(array.reshape(shape)) for array in (point, actions)))


def _make_zeros(engine: Engine) -> tuple[Any, Any]:
    """(grid) a value and a policy of zeros, nothing of it on the host where arrays stay away."""
    shape = engine.mdp.grid.shape
    if engine.layout is not None:
        return engine.layout.zeros(jnp.float64), engine.layout.zeros(jnp.int32)
    if not engine.is_numpy and results_stay_on_device():
        return jnp.zeros(shape), jnp.zeros(shape, jnp.int32)
    return engine.to_device(np.zeros(shape)), engine.to_device(np.zeros(shape, np.int32))


def _check_guess(value: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    point = np.asarray(value, dtype=float)
    if point.size != int(np.prod(shape)) or not np.isfinite(point).all():
        requirement = f"a guess must hold finite values of shape {shape}"
        raise ArgumentError(requirement, value=f"got {point.shape}")
    return point


def _make_state(v, pi) -> kernels.IterationState:
    zero = np.float64(0)
    infinite = np.float64(np.inf)
    return kernels.IterationState(v, v, pi, zero, zero, infinite, zero, np.int64(0))


@in_float64
def run_sweeps(engine: Engine, count: int) -> None:
    """So many plain sweeps from zero, in double precision: for timing them."""
    state = make_initial_state(engine, None, None)
    sweep_count = np.int64(count)
    jax.block_until_ready(
        kernels.run_plain_sweeps(engine.backend, engine.data, state.value, sweep_count)
    )


@in_float64
def compute_q_values(engine: Engine, value: NDArray) -> NDArray[np.float64]:
    """(grid, A) action values at ``value``."""
    q_A = kernels.compute_all_action_values(engine.backend, engine.data, np.asarray(value))
    return read_only(np.moveaxis(np.asarray(q_A), 0, -1))


@in_float64
def bound_error(
    engine: Engine, value: NDArray, policy: NDArray | None = None, extra: float = 0.0
) -> float:
    """Bound on |value - V*|, or on |value - V_pi|, from nothing but the value's residual.

    ``extra`` is a further error that a backup may have, such as that of a file's arrays.
    """
    arguments = _at_point(value, policy, extra)
    return float(kernels.bound_error(engine.backend, policy is not None, engine.data, *arguments))


@in_float64
def compute_bellman_residual(
    engine: Engine, value: NDArray, policy: NDArray | None = None, extra: float = 0.0
) -> tuple[NDArray[np.float64], float]:
    """((grid) T v - v, how far that may be off), or with T_pi; ``extra`` as for ``bound_error``."""
    arguments = _at_point(value, policy, extra)
    residual, error = kernels.compute_bellman_residual(
        engine.backend, policy is not None, engine.data, *arguments
    )
    return np.asarray(residual), float(error)


def _at_point(value: NDArray, policy: NDArray | None, extra: float) -> tuple[NDArray, ...]:
    table = np.zeros(value.shape, np.int32) if policy is None else np.asarray(policy, np.int32)
    return np.asarray(value, dtype=float), table, np.float64(extra)  # type: ignore[return-value]


@in_float64
def enclose_gain(
    engine: Engine, value: NDArray, policy: NDArray | None = None, extra: float = 0.0
) -> tuple[float, float]:
    """(gain, by how much it may be off): of the best policy, or of ``policy``, from every state.

    From nothing but the residual of the relative values ``value``, and ``extra``: see
    ``bound_error``.
    """
    state = make_initial_state(engine, value, policy)
    evaluated = kernels.evaluate_first_point(engine.backend, policy is not None, engine.data, state)
    # The middle that is taken out of the values is itself off by half a unit of its last digit.
    error = float(evaluated.bound) + extra + 4 * EPS * float(np.ptp(value))
    return float(evaluated.center), error * (1 + 8 * EPS)


@in_float64
def decide(engine: Engine, value: Any, bound: float) -> kernels.Decision:
    """Margins, policy and tie tolerance at ``value``, as they are given out."""
    if isinstance(value, ShardedArray):
        value = value.array
    value = value if isinstance(value, jax.Array) else np.asarray(value)
    decision = kernels.decide(engine.backend, engine.data, value, np.float64(bound))
    margin = engine.to_result(decision.margin)
    policy = engine.to_result(decision.policy)
    return kernels.Decision(margin, policy, float(decision.tie))


@in_float64
def compare_policy(
    engine: Engine, value: NDArray, bound: float, policy: NDArray, extra: float = 0.0
) -> kernels.PolicyComparison:
    """How the actions of ``policy`` compare with the best at ``value``, as NumPy arrays."""
    arguments = np.asarray(value, dtype=float), np.float64(bound), np.asarray(policy, np.int32)
    comparison = kernels.compare_policy(engine.backend, engine.data, *arguments, np.float64(extra))
    return kernels.PolicyComparison(*(np.asarray(array) for array in comparison))  # type: ignore[arg-type]
