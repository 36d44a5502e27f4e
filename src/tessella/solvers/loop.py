"""The loop around ``iteration``: it measures progress, reports it and decides when a run ends.

A run consists of phases (``mixed_precision``), each with a method, and a phase of batches of
iterations. Where the bound hardly falls, a direct solve or a new coarse correction helps between
two batches; where a gain is known poorly, elimination of states.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.compilation import in_caller_precision, in_float64
from tessella.solvers import elimination, iteration
from tessella.solvers.elimination import EliminationResult
from tessella.solvers.method import Method
from tessella.solvers.mixed_precision import PHASE_CHECK_ITERATIONS, Phase, make_phases
from tessella.solvers.operators import (
    TARGET_FLOOR_MULTIPLE,
    Operators,
    compute_rounding_floor,
    compute_target,
)
from tessella.solvers.policy_iteration import count_steps_left
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.result import (
    CheckpointWriter,
    History,
    Result,
    Status,
    find_status,
    make_run_result,
)

# Stalled: the bound fell by less than half in 8 iterations. Stuck: by less than 10 % in 200.
STALL_REDUCTION = 0.5  # share of the earlier bound
STALL_WINDOW_ITERATIONS = 8  # also the batch size of methods that solve linear systems
STUCK_REDUCTION = 0.9  # share of the earlier bound
STUCK_WINDOW_ITERATIONS = 200
SWEEPS_PER_CALL = 256  # sweeps in one compiled call
ETA_WINDOW_ITERATIONS = 16  # from these the remaining seconds are estimated
SHARP_GAIN_FRACTION = 1e-9  # of the gain: one that is known less well is sought by elimination
USEFUL_REWARD_FRACTION = 1e-6  # of the largest reward: a gain known less well has not converged


@dataclass(frozen=True)
class Progress:
    """What a callback of ``solve`` sees after each sweep."""

    sweep: int
    bound: float
    changed: int
    seconds: float
    left: float | None = None  # seconds, at the pace of the last iterations; None if unknown


Callback = Callable[[Progress], object]


@in_float64
def iterate(
    prepared: PreparedModel,
    method: Method,
    *,
    policy: NDArray | None = None,
    guess: NDArray | None = None,
    callback: Callback | None = None,
    partial: bool = False,
    checkpoint_writer: CheckpointWriter | None = None,
) -> Result:
    """Iterate ``method`` until the tolerance or its limit is reached, or the callback stops it.

    Large models go through several phases, whose iterations count together. With a ``policy`` it
    evaluates that; without, it looks for the optimum. A ``checkpoint_writer`` saves the best point
    now and then, and a run that was interrupted continues from it.
    """
    resumed = None if checkpoint_writer is None else checkpoint_writer.load_run()
    guess, previous = resumed or (guess, None)
    run = _Run(
        prepared,
        method,
        make_phases(prepared, method),
        prepared.make_operators(evaluates_policy=policy is not None),
        iteration.make_initial_state(prepared, guess, policy),
        RunLog(callback, previous),
        checkpoint_writer,
    )
    run.start(was_resumed=resumed is not None, has_guess=guess is not None)
    while not run.is_over:
        run.advance()
    return run.make_result(partial)


@dataclass
class _Run:
    """One run of a method: its state, its history, and the help that it gets."""

    prepared: PreparedModel
    requested: Method
    phases: list[Phase]  # the present one and those to come
    operators: Operators
    state: iteration.IterationState
    log: RunLog
    checkpoint_writer: CheckpointWriter | None
    is_over: bool = False
    elimination_result: EliminationResult | None = None  # if better than the iterations
    elimination_tried: bool = False
    # Once a direct solve has helped, every policy is evaluated so while policies improve.
    uses_direct_solve: bool = False

    @property
    def phase(self) -> Phase:
        return self.phases[0]

    @property
    def method(self) -> Method:
        """The method of the present phase."""
        return self.phase.method

    @property
    def target(self) -> float:
        """The bound to be reached."""
        return float(compute_target(self.operators.data, np.float64(self.state.floor)))

    @property
    def must_stop(self) -> bool:
        return self.log.is_stopped or len(self.log) >= self.requested.max_sweeps

    def start(self, was_resumed: bool, has_guess: bool) -> None:
        """Back up the first point, where its greedy policy is needed before the first iteration.

        That is quick by NumPy, which compiles nothing. A guess may be near the target, and sweeps
        in single precision would lose its digits.
        """
        needs_policy = self.method.solves_linear_systems and not self.operators.evaluates_policy
        is_quick = needs_policy and self.prepared.is_numpy
        is_near = has_guess and self.method.uses_single_precision
        if not (self.phase.uses_coarse_correction or is_quick or was_resumed or is_near):
            return
        first = self.state.value, self.state.shift, self.state.policy
        self.state = iteration.enclose_point(self.operators, *first)
        self.log.add([self.state.bound], [self.state.changed], self.target)
        if self.phase.uses_coarse_correction:
            self._build_correction()

    def _build_correction(self) -> None:
        """Build the coarse correction of the present policy, or find an average without it."""
        if self.prepared.is_numpy:
            self.elimination_result = elimination.eliminate_states(
                self.prepared,
                self.state,
                self.operators.evaluates_policy,
                before_iterations=True,
            )
            self.is_over = self.elimination_result is not None
        if not self.is_over:
            data = self.prepared.build_policy_data(self.state.policy)
            self.operators = self.operators.with_data(data)

    def advance(self) -> None:
        """Run a batch of iterations, and decide what comes next."""
        reached_target = self._run_batch()
        is_done = reached_target or self._has_stagnated()
        self.is_over = is_done or self.must_stop
        if self._should_eliminate(is_done):
            self._improve_by_elimination()
        if self.elimination_result is not None:
            self.is_over = True
            return
        self._write_checkpoint()
        if self.is_over or self._change_phase_if_ended():
            return
        self._try_direct_solve_or_correction()
        if self.log.is_stuck:
            actions = self.prepared.to_numpy(self.state.policy)
            is_policy = self.operators.evaluates_policy
            elimination.check_recurrent_classes(self.prepared.mdp, actions, is_policy)

    def _change_phase_if_ended(self) -> bool:
        """Let the next phase take over where the present one has ended; return whether it did."""
        has_ended = self.phase.has_ended
        if has_ended is None or not has_ended(self.log):
            return False
        del self.phases[0]
        self.log.start_phase()
        self.operators = self.operators.with_data(self.prepared.data)
        if self.phase.uses_coarse_correction:
            self._build_correction()
        return True

    def _run_batch(self) -> bool:
        """Run a batch of iterations; return whether they reached the target."""
        solves_systems = self.method.solves_linear_systems
        batch_size = STALL_WINDOW_ITERATIONS if solves_systems else SWEEPS_PER_CALL
        limit = self._limit_iterations(batch_size)
        batch = iteration.run_iterations(self.method, batch_size, self.operators, self.state, limit)
        self.state = batch.state
        n_iterations = int(batch.n_iterations)
        bounds = np.asarray(batch.bounds)[:n_iterations]
        self.log.add(bounds, np.asarray(batch.changes)[:n_iterations], batch.target)
        if bool(batch.finished) and not self.must_stop:
            self._run_final_iteration(batch.target)
        return bool(batch.finished)

    def _limit_iterations(self, batch_size: int) -> int:
        """The iterations of the next batch: a number, so that changing it compiles nothing."""
        if self.log.is_stopped:
            return 0
        if self.uses_direct_solve or self.log.callback is not None:
            batch_size = 1
        elif self.phase.has_ended is not None:
            batch_size = PHASE_CHECK_ITERATIONS
        limit = min(batch_size, self.requested.max_sweeps - len(self.log))
        if self.checkpoint_writer is None:
            return limit
        return max(min(limit, self.checkpoint_writer.iterations_per_check), 0)

    def _run_final_iteration(self, target: Any) -> None:
        """Run one more iteration, where that brings the bound nearer to the rounding floor.

        Only without a tolerance, with NumPy, and for methods that solve linear systems.
        """
        is_quick = self.method.solves_linear_systems and self.prepared.is_numpy
        is_bounded = np.isfinite(self.operators.criterion.value_of_constant_reward(1.0))
        if self.prepared.tol or not (is_quick and is_bounded):
            return
        data = self.operators.data
        finest = data.accuracy._replace(relative_tolerance=np.float64(0))
        operators = self.operators.with_data(data._replace(accuracy=finest))
        batch = iteration.run_iterations(self.method, 1, operators, self.state, 1)
        if int(batch.n_iterations) and batch.state.bound < self.state.bound:
            self.state = batch.state
            self.log.add([self.state.bound], [self.state.changed], target)

    def _has_stagnated(self) -> bool:
        """Whether no iteration helps any more: at the floor, or for averages after elimination."""
        policy_stays = not any(self.log.changes[-STUCK_WINDOW_ITERATIONS:])
        is_stagnant = self._solver_is_stuck and self.elimination_tried and policy_stays
        return is_stagnant or self._is_limited_by_rounding()

    @property
    def _solver_is_stuck(self) -> bool:
        """Of methods that solve linear systems: sweeps near discount 1 are slow but converge."""
        return self.method.solves_linear_systems and self.log.is_stuck

    def _is_limited_by_rounding(self) -> bool:
        """Whether only rounding changes the bound, which is near its floor."""
        bound = float(self.state.bound)
        return self._solver_is_stuck and bound <= TARGET_FLOOR_MULTIPLE * self._rounding_floor

    @property
    def _rounding_floor(self) -> float:
        return float(compute_rounding_floor(self.operators.data, np.float64(self.state.floor)))

    def _should_eliminate(self, is_done: bool) -> bool:
        """Whether an average may need elimination: at the end, or where the bound hardly falls."""
        if not self.prepared.mdp.criterion.has_gain:
            return False
        if self.is_over:
            return is_done
        solves_systems = self.method.solves_linear_systems
        has_slowed = self.log.is_stalled if solves_systems else self.log.is_stuck
        return has_slowed and not self.elimination_tried

    def _improve_by_elimination(self) -> None:
        """Compute the average by elimination, and keep it where its bound is smaller."""
        self.elimination_tried = True
        bound = float(self.state.bound)
        sharp_bound = SHARP_GAIN_FRACTION * abs(float(self.state.center))
        if self.is_over and bound <= max(sharp_bound, self.prepared.tol or 0.0):
            return
        useful_bound = USEFUL_REWARD_FRACTION * self.prepared.mdp.dynamics.reward_scale
        gain_is_known = self.is_over and bound <= useful_bound
        evaluates_policy = self.operators.evaluates_policy
        result = elimination.eliminate_states(
            self.prepared, self.state, evaluates_policy, gain_is_known=gain_is_known
        )
        if result is not None and result.bound < bound:
            self.elimination_result = result

    def _write_checkpoint(self) -> None:
        writer = self.checkpoint_writer
        if writer is not None and (writer.check_clock() or self.is_over):
            value, _ = self._report_values(self.prepared.to_numpy(self.state.backup))
            writer.write(value, self.log.history())

    def _try_direct_solve_or_correction(self) -> None:
        """Solve directly, or build a new coarse correction, where the bound hardly falls."""
        if self.uses_direct_solve and not self.log.changes[-1]:
            # The policy stays: the method's own iterations do the rest.
            self.uses_direct_solve = False
            return
        if not self.method.solves_linear_systems:
            return
        if self.log.is_stalled and self.phase.uses_coarse_correction:
            self.operators = self.operators.with_data(self.prepared.data)  # frees the old one
            data = self.prepared.build_policy_data(self.state.policy)
            self.operators = self.operators.with_data(data)
        elif not self.prepared.is_numpy and (self.uses_direct_solve or self.log.is_stalled):
            self.uses_direct_solve = self._solve_directly()

    def _solve_directly(self) -> bool:
        """Restart from the exact value of the current policy; False if there is no direct solve."""
        mdp = self.prepared.mdp
        if not mdp.criterion.is_discounted:
            return False
        actions = self.prepared.to_numpy(self.state.policy)
        system = self.prepared.dynamics.factorise_policy_system(actions, mdp.discount)
        if system is None:
            return False
        reward = mdp.reward[np.arange(mdp.n_states), actions.ravel()]
        self.state = iteration.make_initial_state(self.prepared, system.solve(reward), actions)
        return True

    def _report_values(self, backup: Any) -> tuple[Any, float | None]:
        """(values to report, gain or None)."""
        offsets = float(self.state.center), float(self.state.shift)
        return self.operators.criterion.report_values(backup, *offsets)

    def make_result(self, partial: bool) -> Result:
        """The result, as ``make_run_result`` reports it."""
        target = self.target
        bound = float(self.state.bound)
        if self.prepared.shard_layout is None:
            value, gain = self._report_values(self.prepared.to_result(self.state.backup))
        else:
            value, gain = self._report_values(self.state.backup)
            value = self.prepared.to_result(value)
        table = None
        if self.elimination_result is not None:
            value, table, gain, bound = self.elimination_result
        return make_run_result(
            self._find_status(bound, target, gain),
            value,
            bound,
            target,
            self.log.history(),
            may_raise=not (partial or self.log.is_stopped),
            gain=gain,
            table=table,
            limit=self.requested.limit,
        )

    def _find_status(self, bound: float, target: float, gain: float | None) -> Status:
        # Without a tolerance, a gain must also be known well enough to be of use.
        useful_bound = USEFUL_REWARD_FRACTION * self.prepared.mdp.dynamics.reward_scale
        if gain is not None and not self.prepared.tol and useful_bound < bound <= target:
            return Status.TOO_WIDE
        is_at_floor = bound <= iteration.FLOOR_REACHED_FACTOR * self._rounding_floor
        return find_status(
            bound,
            target,
            is_at_floor=is_at_floor or self._is_limited_by_rounding(),
            is_stopped=self.log.is_stopped,
            is_at_limit=self.must_stop,
        )


class RunLog:
    """The history of a run, new or resumed; it also calls the callback."""

    def __init__(self, callback: Callback | None, previous: History | None = None) -> None:
        self.callback = callback
        self.is_stopped = False
        self.target = 0.0  # the bound to be reached
        self.bounds: list[float] = [] if previous is None else previous.bound.tolist()
        self.changes: list[int] = [] if previous is None else previous.changed.tolist()
        self.seconds: list[float] = [] if previous is None else previous.seconds.tolist()
        self.started_at = time.perf_counter() - (self.seconds[-1] if self.seconds else 0.0)
        self.start_phase()

    def start_phase(self) -> None:
        """From here on, progress is that of a new phase, which begins with the last point."""
        self.phase_start = max(len(self) - 1, 0)

    def __len__(self) -> int:
        return len(self.bounds)

    @property
    def phase_iterations(self) -> int:
        """Iterations of the present phase, with the last one before it."""
        return len(self) - self.phase_start

    def has_slowed(self, reduction: float, window: int) -> bool:
        """Whether ``window`` iterations of the phase left more than this share of the bound."""
        if self.phase_iterations <= window:
            return False
        return not self.bounds[-1] < reduction * self.bounds[-1 - window]

    def count_iterations_left(self) -> float:
        """Iterations until the bound is at the target, at the pace of the last; 0 if unknown."""
        if self.phase_iterations < 2:
            return 0.0
        return count_steps_left(self.bounds[-2], self.bounds[-1], self.target)

    @property
    def is_stalled(self) -> bool:
        """Whether the last iterations hardly lowered the bound."""
        return self.has_slowed(STALL_REDUCTION, STALL_WINDOW_ITERATIONS)

    @property
    def is_stuck(self) -> bool:
        """Whether many iterations lowered the bound next to nothing."""
        return self.has_slowed(STUCK_REDUCTION, STUCK_WINDOW_ITERATIONS)

    def estimate_seconds_left(self) -> float | None:
        """Seconds until the bound is at the target, at the pace of the last iterations."""
        window = min(ETA_WINDOW_ITERATIONS, len(self) - 1)
        if window < 1 or not self.target > 0:
            return None
        before = self.bounds[-1 - window]
        now = self.bounds[-1]
        if not 0 < now < before < np.inf:
            return None
        seconds = self.seconds[-1] - self.seconds[-1 - window]
        return count_steps_left(before, now, self.target) * seconds

    def add(self, bounds, changes, target) -> None:
        """Add iterations, and call the callback; ``target`` is the bound to be reached."""
        self.target = float(target)
        before = self.seconds[-1] if self.seconds else 0.0
        now = time.perf_counter() - self.started_at
        count = len(bounds)
        self.seconds += np.linspace(before, now, count + 1)[1:].tolist()
        self.bounds += [float(b) for b in bounds]
        self.changes += [int(c) for c in changes]
        if self.callback is not None and count:
            latest = self.bounds[-1], self.changes[-1], self.seconds[-1]
            progress = Progress(len(self), *latest, self.estimate_seconds_left())
            with in_caller_precision():
                self.is_stopped = bool(self.callback(progress))

    def history(self) -> History:
        return History(np.array(self.bounds), np.array(self.changes), np.array(self.seconds))
