"""Iterating a method: the wrapper that checks, times, watches and reports; the kernels compute."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from tessella.criteria.average import Average
from tessella.criteria.criterion import CriterionKernel
from tessella.criteria.discounted import Discounted
from tessella.criteria.total import TotalKernel
from tessella.errors import ArgumentError, ModelError, NotConverged
from tessella.mdp.compilation import (
    in_callers_setting,
    in_float64,
    results_stay_on_device,
    to_backend,
)
from tessella.mdp.device_arrays import read_only
from tessella.mdp.dynamics import BackendModel, Dynamics, NumpyBackend
from tessella.mdp.sharded_arrays import ShardedArray, ShardLayout
from tessella.mdp.stages.sharded import ShardedBackend
from tessella.rounding import EPS, RowSumBounds, round_up
from tessella.solvers import kernels
from tessella.solvers.checkpoint import CheckpointWriter
from tessella.solvers.elimination import EliminationResult, eliminate_states
from tessella.solvers.method import Method, validate_tol
from tessella.solvers.multigrid import CoarseAxis, build_correction, choose_coarse_axes
from tessella.solvers.operators import MIN_REWARD_SCALE, AccuracySettings, ModelData
from tessella.solvers.recurrent_classes import check_recurrent_classes
from tessella.solvers.result import History, Result

if TYPE_CHECKING:
    from tessella.solvers.execution_plan import ExecutionPlan

VALUE_MAX_SIZE = 1e290  # values beyond this are refused: their sums could overflow
# A bound that does not fall to this share of itself within so many rounds calls for another way ...
STALL_REDUCTION = 0.5  # share of the earlier bound
STALL_WINDOW_ROUNDS = 8  # rounds; also those of one compiled call of a method of linear systems
# ... and one that does not fall to this share within so many calls for a diagnosis.
STUCK_REDUCTION = 0.9  # share of the earlier bound
STUCK_WINDOW_ROUNDS = 200  # rounds
SWEEPS_PER_CALL = 256  # sweeps in one compiled call
ETA_WINDOW_ROUNDS = 16  # rounds that tell how long the rest takes
SHARP_GAIN_FRACTION = 1e-9  # of the gain: one that is known less well is sought by elimination
USEFUL_REWARD_FRACTION = 1e-6  # of the largest reward: a gain known less well has not converged


@dataclass(frozen=True)
class Progress:
    """What a callback of ``solve`` sees after each sweep."""

    sweep: int
    bound: float
    changed: int
    seconds: float
    left: float | None = None  # seconds, at the pace of the last rounds; None where none is known


Callback = Callable[[Progress], object]


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
    def gap_of_saved_model(self) -> float:
        """The same for the rows of a model file, rounded down; 0 where that may not be positive."""
        row_error = (
            self.mdp.dynamics.rounding_as_saved.rows - self.mdp.dynamics.rounding_as_given.rows
        )
        gap = self.mdp.criterion.contraction_gap(self.row_sum_bounds.widen(2 * row_error))
        return max(gap * (1 - 64 * EPS), 0.0)

    def saved_model_error(self, value: NDArray) -> float:
        """How far a backup of ``value`` by the arrays of a model file may be off."""
        stored = self.mdp.dynamics.rounding_as_given
        written = self.mdp.dynamics.rounding_as_saved
        max_backup = float(np.abs(value).max()) * self.mdp.discount * self.row_sum_bounds.high
        difference = (written.reward - stored.reward) + (written.rows - stored.rows) * max_backup
        return 2 * difference * (1 + 8 * EPS)

    @property
    def row_sum_bounds(self) -> RowSumBounds:
        """Bounds on the row sums of the model that was meant, not only of its stored rows."""
        # Rows made of the stored numbers are rounded; what that does meets values, as a row error.
        return self.mdp.dynamics.row_sums.widen(self.mdp.dynamics.rounding_as_given.rows)

    @property
    def adjoint_rounding_floor(self) -> float:
        """What rounding leaves of the error of an occupancy, by the arrays of a file included."""
        # The adjoint adds up what flows into a state, which may be much.
        sums = EPS * (self.dynamics.adjoint_rounding_terms + 8)
        stored = self.mdp.dynamics.rounding_as_given.rows
        written = self.mdp.dynamics.rounding_as_saved.rows
        return float(sums + 2 * written - stored) / self.contraction_gap

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
        backend = self.program
        return (
            ShardLayout(backend, self.mdp.grid.shape)
            if isinstance(backend, ShardedBackend)
            else None
        )

    def to_device(self, array: NDArray, dim: int = 0) -> Any:
        """An array whose axes from ``dim`` on are the grid's, as the kernels take it."""
        if self.layout is not None:
            return self.layout.to_devices(array, dim)
        return to_backend(self.program, array)

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
    def program(self):
        return self.backend_model.backend

    @property
    def is_numpy(self) -> bool:
        """Whether nothing is compiled, so that one more function costs nothing."""
        return isinstance(self.program, NumpyBackend)

    def criterion_kernel(self, unit: float) -> CriterionKernel:
        kernel = self.mdp.criterion.make_kernel(self.row_sum_bounds, unit)
        if self.absorption_time is None or not isinstance(kernel, TotalKernel):
            return kernel
        return kernel._replace(absorption_time=np.float64(self.absorption_time))

    @property
    def needs_coarse_correction(self) -> bool:
        return self.plan.correction == "coarse"

    def build_policy_data(self, policy: NDArray) -> ModelData:
        """The same, with a coarse correction made for this policy where models may need one."""
        if not self.needs_coarse_correction:
            return self.data
        axes = self.coarse_axes
        probes = np.asarray(kernels.compute_coarse_system(self.program, axes, self.data, policy))
        return self.data._replace(coarse=to_backend(self.program, build_correction(probes, axes)))

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
        unit = EPS * (self.dynamics.rounding_terms + 8)
        rounding = self.dynamics.rounding_as_given
        errors = (unit, rounding.rows, rounding.reward, self.mdp.dynamics.reward_scale)
        targets = self.tol or 0, kernels.DEFAULT_RELATIVE_TOLERANCE
        accuracy = AccuracySettings(*map(np.float64, (*errors, *targets)))
        return ModelData(arrays, feasible, self.criterion_kernel(unit), accuracy)


@in_float64
def iterate(
    engine: Engine,
    method: Method,
    *,
    policy: NDArray | None = None,
    guess: NDArray | None = None,
    callback: Callback | None = None,
    partial: bool = False,
    checkpoint_writer: CheckpointWriter | None = None,
) -> Result:
    """Iterate ``method`` until the engine's tolerance, its own limit, or the callback's wish.

    With a ``policy`` it evaluates that; without, it looks for the optimum. A
    ``checkpoint_writer`` saves the best point now and then, and a run that was interrupted
    continues from it.
    """
    resumed = None if checkpoint_writer is None else checkpoint_writer.load_run()
    log = _RunLog(callback, None if resumed is None else resumed.history)
    fixed = policy is not None
    data = engine.data
    state = _make_initial_state(engine, guess if resumed is None else resumed.value, policy)
    use_coarse_correction = method.linear and engine.needs_coarse_correction
    is_numpy = method.linear and engine.is_numpy and not fixed  # one more function costs nothing
    # The greedy policy of the first point is not known yet.
    if use_coarse_correction or is_numpy or resumed is not None:
        state = kernels.evaluate_first_point(engine.program, fixed, data, state)
        log.add([state.bound], [state.changed], kernels.compute_target(data, state.floor))
        if use_coarse_correction and engine.is_numpy:
            direct_state = eliminate_states(engine, state, fixed, early=True)
            if direct_state is not None:
                return _make_result(engine, method, data, state, log, partial, direct_state)
        data = engine.build_policy_data(state.policy) if use_coarse_correction else data
    chunk = STALL_WINDOW_ROUNDS if method.linear else SWEEPS_PER_CALL
    # Once a direct solve has helped, every policy is evaluated so while policies improve.
    use_direct_solve = False
    while True:
        # A limit, not a chunk: nothing else is compiled.
        single_step = use_direct_solve or callback is not None
        limit = 0 if log.stopped else min(1 if single_step else chunk, method.max_sweeps - len(log))
        limit = (
            limit
            if checkpoint_writer is None
            else max(min(limit, checkpoint_writer.rounds_per_check), 0)
        )
        batch = kernels.run_rounds(engine.program, method, fixed, chunk, data, state, limit)
        state = batch.state
        rounds = int(batch.n_rounds)
        reports = np.asarray(batch.bounds)[:rounds], np.asarray(batch.changes)[:rounds]
        log.add(*reports, batch.target)
        if bool(batch.finished) and not log.stopped and len(log) < method.max_sweeps:
            state = _run_final_round(engine, method, fixed, data, state)
            if state is not batch.state:
                log.add([state.bound], [state.changed], batch.target)
        cut_short = log.stopped or len(log) >= method.max_sweeps
        done = bool(batch.finished) or _brings_no_more(method, data, state, log)
        is_over = done or cut_short
        if log.should_eliminate(engine, method, done, cut_short):
            direct_state = _improve_by_elimination(engine, fixed, state, is_over)
            if direct_state is not None:
                return _make_result(engine, method, data, state, log, partial, direct_state)
        if checkpoint_writer is not None and (checkpoint_writer.is_due or is_over):
            checkpoint_writer.write(_read_value(engine, data.criterion, state), log.history())
        if is_over:
            return _make_result(engine, method, data, state, log, partial)
        if use_direct_solve and not log.changes[-1]:
            # The policy stays: what is left is for the method's own rounds.
            use_direct_solve = False
        elif method.linear and log.is_stalled and engine.needs_coarse_correction:
            data = engine.build_policy_data(state.policy)
        elif method.linear and not engine.is_numpy and (use_direct_solve or log.is_stalled):
            direct_state = _solve_directly(engine, state)
            state = direct_state or state
            use_direct_solve = direct_state is not None
        if log.is_stuck:
            check_recurrent_classes(engine.mdp, engine.to_numpy(state.policy), fixed)


def _improve_by_elimination(
    engine: Engine, fixed: bool, state: kernels.IterationState, ended: bool
) -> EliminationResult | None:
    """An average by elimination, where that knows it better than a run that has ended."""
    bound = float(state.bound)
    if ended and bound <= SHARP_GAIN_FRACTION * abs(float(state.center)):
        return None
    known = ended and bound <= USEFUL_REWARD_FRACTION * engine.mdp.dynamics.reward_scale
    result = eliminate_states(engine, state, fixed, known=known)
    return result if result is not None and result.bound < bound else None


def _run_final_round(
    engine: Engine, method: Method, fixed: bool, data: ModelData, state: kernels.IterationState
) -> kernels.IterationState:
    """One round more, where that brings the bound nearer to what rounding leaves.

    Without a tolerance, where nothing is compiled and a linear solver makes a round worth while.
    """
    if engine.tol or not (method.linear and engine.is_numpy):
        return state
    finer_data = data._replace(numbers=data.numbers._replace(relative=np.float64(0)))
    if not np.isfinite(data.criterion.value_of_constant_reward(1.0)):
        return state
    batch = kernels.run_rounds(engine.program, method, fixed, 1, finer_data, state, 1)
    is_better = int(batch.n_rounds) and batch.state.bound < state.bound
    return batch.state if is_better else state


def _brings_no_more(
    method: Method, data: ModelData, state: kernels.IterationState, log: _RunLog
) -> bool:
    """Whether no round helps any more: at the floor, or of an average after elimination failed."""
    policy_stays = not any(log.changes[-STUCK_WINDOW_ROUNDS:])
    stands_still = method.linear and log.tried and log.is_stuck and policy_stays
    return stands_still or _is_limited_by_rounding(method, data, state, log)


def _is_limited_by_rounding(
    method: Method, data: ModelData, state: kernels.IterationState, log: _RunLog
) -> bool:
    """Whether only rounding moves the bound to and fro, near what it leaves, and no round helps.

    Of rounds that solve linear systems: sweeps near discount 1 bring next to nothing each, and yet
    get there.
    """
    is_near_floor = float(state.bound) <= kernels.TARGET_FLOOR_MULTIPLE * float(
        kernels.compute_rounding_floor(data, state.floor)
    )
    return method.linear and log.is_stuck and is_near_floor


def _solve_directly(engine: Engine, state: kernels.IterationState) -> kernels.IterationState | None:
    """A start from the value of the present policy, where dynamics offer a direct solve."""
    mdp = engine.mdp
    if not isinstance(mdp.criterion, Discounted):
        return None
    actions = engine.to_numpy(state.policy)
    system = engine.dynamics.factorise_policy_system(actions, mdp.discount)
    if system is None:
        return None
    reward = mdp.reward[np.arange(mdp.n_states), actions.ravel()]
    return _make_initial_state(engine, system.solve(reward), actions)


def _make_initial_state(
    engine: Engine, value: NDArray | None, policy: NDArray | None
) -> kernels.IterationState:
    shape = engine.mdp.grid.shape
    if value is None and policy is None and engine.layout is not None:
        return _make_state(*map(engine.layout.zeros, (jnp.float64, jnp.int32)))
    if value is None and policy is None and not engine.is_numpy and results_stay_on_device():
        return _make_state(
            jnp.zeros(shape), jnp.zeros(shape, jnp.int32)
        )  # nothing of it on the host
    point = np.zeros(shape) if value is None else np.asarray(value, dtype=float)
    if point.size != int(np.prod(shape)) or not np.isfinite(point).all():
        raise ArgumentError(
            f"a guess must hold finite values of shape {shape}", value=f"got {point.shape}"
        )
    if (
        engine.mdp.dynamics.reward_scale == 0
    ):  # worth 0: what is far off would vanish, digit by digit
        point = np.zeros(shape)
    actions = np.zeros(shape, np.int32) if policy is None else np.asarray(policy, np.int32)
    return _make_state(*(engine.to_device(array.reshape(shape)) for array in (point, actions)))


def _make_state(v, pi) -> kernels.IterationState:
    zero = np.float64(0)
    infinite = np.float64(np.inf)
    return kernels.IterationState(v, v, pi, zero, zero, infinite, zero, np.int64(0))


def _read_value(
    engine: Engine, criterion: CriterionKernel, state: kernels.IterationState
) -> NDArray[np.float64]:
    """The values that a run would report now."""
    parts = engine.to_numpy(state.backup), float(state.center), float(state.shift)
    return criterion.report_values(*parts)[0]


class _RunLog:
    """The history of a run, new or resumed; it also calls the callback."""

    def __init__(self, callback: Callback | None, previous: History | None) -> None:
        self.callback = callback
        self.stopped = False
        self.tried = False  # whether elimination was tried, in vain
        self.bounds: list[float] = [] if previous is None else previous.bound.tolist()
        self.changes: list[int] = [] if previous is None else previous.changed.tolist()
        self.seconds: list[float] = [] if previous is None else previous.seconds.tolist()
        self.started_at = time.perf_counter() - (self.seconds[-1] if self.seconds else 0.0)

    def __len__(self) -> int:
        return len(self.bounds)

    @property
    def is_stalled(self) -> bool:
        """Whether the last rounds brought little."""
        return self._has_slowed(STALL_REDUCTION, STALL_WINDOW_ROUNDS)

    @property
    def is_stuck(self) -> bool:
        """Whether many rounds brought next to nothing."""
        return self._has_slowed(STUCK_REDUCTION, STUCK_WINDOW_ROUNDS)

    def _has_slowed(self, reduction: float, rounds: int) -> bool:
        return len(self) > rounds and not self.bounds[-1] < reduction * self.bounds[-1 - rounds]

    def should_eliminate(self, engine: Engine, method: Method, done: bool, cut_short: bool) -> bool:
        """Whether an average may need elimination: at the end, and where rounds bring little."""
        if not isinstance(engine.mdp.criterion, Average) or (cut_short and not done):
            return False
        if done:
            return True
        little = (self.is_stalled if method.linear else self.is_stuck) and not self.tried
        self.tried = self.tried or little
        return little

    def estimate_seconds_left(self, target: float) -> float | None:
        """Seconds until the bound is at ``target``, at the pace of the last rounds."""
        rounds = min(ETA_WINDOW_ROUNDS, len(self) - 1)
        if rounds < 1 or not 0 < self.bounds[-1] < self.bounds[-1 - rounds] < np.inf:
            return None
        log_reduction = np.log(self.bounds[-1 - rounds] / self.bounds[-1]) / rounds
        seconds_per_round = (self.seconds[-1] - self.seconds[-1 - rounds]) / rounds
        return (
            float(max(np.log(self.bounds[-1] / target), 0.0) / log_reduction * seconds_per_round)
            if target > 0
            else None
        )

    def add(self, bounds, changes, target) -> None:
        seconds_before = self.seconds[-1] if self.seconds else 0.0
        now = time.perf_counter() - self.started_at
        count = len(bounds)
        self.seconds += list(
            seconds_before + (now - seconds_before) * np.arange(1, count + 1) / max(count, 1)
        )
        self.bounds += [float(b) for b in bounds]
        self.changes += [int(c) for c in changes]
        if self.callback is not None and count:
            seconds_left = self.estimate_seconds_left(float(target))
            progress = Progress(
                len(self), self.bounds[-1], self.changes[-1], self.seconds[-1], seconds_left
            )
            with in_callers_setting():
                self.stopped = bool(self.callback(progress))

    def history(self) -> History:
        return History(np.array(self.bounds), np.array(self.changes), np.array(self.seconds))


def _make_result(
    engine: Engine,
    method: Method,
    data: ModelData,
    state: kernels.IterationState,
    log: _RunLog,
    partial: bool,
    direct: EliminationResult | None = None,
) -> Result:
    target = float(kernels.compute_target(data, state.floor))
    bound = float(state.bound)
    floor = float(kernels.compute_rounding_floor(data, state.floor))
    value, gain = _report_values(engine, data.criterion, state)
    table = None
    if direct is not None:
        value, table, gain, bound = direct
    if np.isnan(bound):
        raise NotConverged(
            f"the run broke down after {len(log)} sweeps: its numbers are not finite"
        )
    largest_bound = target
    if gain is not None and not engine.tol:
        largest_bound = min(target, USEFUL_REWARD_FRACTION * engine.mdp.dynamics.reward_scale)
    converged = bound <= largest_bound
    if converged:
        reason = f"bound {round_up(bound)} is within the tolerance {target:.3g}"
    elif gain is not None and bound <= target:
        reason = f"float64 leaves a bound of {round_up(bound)}, too wide to be of use"
    elif bound <= kernels.FLOOR_REACHED_FACTOR * floor or _is_limited_by_rounding(
        method, data, state, log
    ):
        reason = (
            f"float64 cannot certify tol={target:.3g} for this model: rounding leaves a bound of "
            f"{round_up(bound)}; ask for more than that, or for tol=None"
        )
    elif log.stopped:
        reason = f"stopped by the callback after {len(log)} sweeps at bound {round_up(bound)}"
    elif len(log) < method.max_sweeps:
        reason = (
            f"more sweeps bring no more after {len(log)}, at bound {round_up(bound)}, short of "
            f"{target:.3g}"
        )
    else:
        reason = f"{method.limit} at bound {round_up(bound)}, short of {target:.3g}"
    result = Result(value, bound, converged, reason, log.history(), gain=gain, table=table)
    if not converged and not partial and not log.stopped:
        raise NotConverged(reason, result)
    return result


def _report_values(
    engine: Engine, criterion: CriterionKernel, state: kernels.IterationState
) -> tuple[Any, float | None]:
    """(values to report, gain or None), as they are given out."""
    offsets = float(state.center), float(state.shift)
    if engine.layout is None:
        return criterion.report_values(engine.to_result(state.backup), *offsets)
    value, gain = criterion.report_values(state.backup, *offsets)
    return engine.layout.to_result(value), gain


@in_float64
def run_sweeps(engine: Engine, count: int) -> None:
    """So many plain sweeps from zero, in double precision: for timing them."""
    state = _make_initial_state(engine, None, None)
    sweep_count = np.int64(count)
    jax.block_until_ready(
        kernels.run_plain_sweeps(engine.program, engine.data, state.value, sweep_count)
    )


@in_float64
def compute_q_values(engine: Engine, value: NDArray) -> NDArray[np.float64]:
    """(grid, A) action values at ``value``."""
    q_A = kernels.compute_all_action_values(engine.program, engine.data, np.asarray(value))
    return read_only(np.moveaxis(np.asarray(q_A), 0, -1))


@in_float64
def bound_error(
    engine: Engine, value: NDArray, policy: NDArray | None = None, extra: float = 0.0
) -> float:
    """Bound on |value - V*|, or on |value - V_pi|, from nothing but the value's residual.

    ``extra`` is a further error that a backup may have, such as that of a file's arrays.
    """
    arguments = _at_point(value, policy, extra)
    return float(kernels.bound_error(engine.program, policy is not None, engine.data, *arguments))


@in_float64
def rise(
    engine: Engine, value: NDArray, policy: NDArray | None = None, extra: float = 0.0
) -> tuple[NDArray[np.float64], float]:
    """((grid) T v - v, how far that may be off), or with T_pi; ``extra`` as for ``bound_error``."""
    numbers = _at_point(value, policy, extra)
    apart, off = kernels.rise(engine.program, policy is not None, engine.data, *numbers)
    return np.asarray(apart), float(off)


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
    state = _make_initial_state(engine, value, policy)
    evaluated = kernels.evaluate_first_point(engine.program, policy is not None, engine.data, state)
    # The middle that is taken out of the values is itself off by half a unit of its last digit.
    error = float(evaluated.bound) + extra + 4 * EPS * float(np.ptp(value))
    return float(evaluated.center), error * (1 + 8 * EPS)


@in_float64
def decide(engine: Engine, value: Any, bound: float) -> kernels.Decision:
    """Margins, policy and tie tolerance at ``value``, as they are given out."""
    if isinstance(value, ShardedArray):
        value = value.array
    value = value if isinstance(value, jax.Array) else np.asarray(value)
    decision = kernels.decide(engine.program, engine.data, value, np.float64(bound))
    margin = engine.to_result(decision.margin)
    policy = engine.to_result(decision.policy)
    return kernels.Decision(margin, policy, float(decision.tie))


@in_float64
def compare_policy(
    engine: Engine, value: NDArray, bound: float, policy: NDArray, extra: float = 0.0
) -> kernels.PolicyComparison:
    """How the actions of ``policy`` compare with the best at ``value``, as NumPy arrays."""
    arguments = np.asarray(value, dtype=float), np.float64(bound), np.asarray(policy, np.int32)
    comparison = kernels.compare_policy(engine.program, engine.data, *arguments, np.float64(extra))
    return kernels.PolicyComparison(*(np.asarray(array) for array in comparison))  # type: ignore[arg-type]
