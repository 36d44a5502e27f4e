"""Averages of large models: sweeps until the greedy policy settles, and only then linear systems.

The linear system of a poor policy is as hard as that of a good one, and with averages often harder:
a queue that lets everybody in fills up, and hardly ever empties. Sweeps cost little, and after as
many as the longest way through the states takes, the greedy policy is nearly the best; then a few
linear systems, each with a coarse correction (``multigrid``), do the rest.

Through stages, both are in single precision, which takes half the time. Sweeps need only find a
policy. A correction e of relative values v,

    (I - P_pi) e + mean(e) = T v - v,

is found with the size of the right side taken out, which is worked out in double precision, as are
all bounds: so rounding costs little. Where rounds bring little, as they would for a
system that single precision cannot solve, double precision takes over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial as bound_to
from typing import TYPE_CHECKING

from tessella.numerics import JAX
from tessella.solvers.engine import Engine
from tessella.solvers.loop import Callback, Progress, iterate
from tessella.solvers.method import Method
from tessella.solvers.modified_policy_iteration import ModifiedPolicyIteration
from tessella.solvers.policy_iteration import InexactPolicyIteration, choose_relative_tolerance
from tessella.solvers.result import Result

if TYPE_CHECKING:
    from tessella.solvers.kernels import IterationState
    from tessella.solvers.operators import Operators

# Double precision takes over where the bound does not fall to SLOW_REDUCTION of itself within
# SLOW_WINDOW_ROUNDS.
SLOW_REDUCTION = 0.5  # share of the earlier bound
SLOW_WINDOW_ROUNDS = 3  # rounds

StopRule = Callable[[list[Progress]], bool]  # reports of a phase of the run -> whether it may end


def solve_average_reward(
    engine: Engine, method: Method, *, callback: Callback | None, partial: bool
) -> Result:
    """The gain and relative values of a large model, by ``method`` after some sweeps."""
    max_changes = engine.plan.thresholds.evaluation.policy_settled_fraction * engine.mdp.n_states
    warm_up = WARM_UP_METHOD if engine.is_numpy else SINGLE_PRECISION_WARM_UP
    phases: list[tuple[Method, StopRule | None]] = [
        (warm_up, lambda seen: seen[-1].changed <= max_changes)
    ]
    if not engine.is_numpy and type(method) is InexactPolicyIteration:
        phases.append((_SinglePrecisionCorrections(**vars(method)), is_slow))
    phases.append((method, None))
    result = None
    guess = method.begin(engine.mdp)
    sweeps_left = method.max_sweeps
    for phase_method, stop_rule in phases:
        phase_method = (
            phase_method
            if phase_method is warm_up
            else replace(phase_method, max_sweeps=max(sweeps_left, 1))
        )
        monitor = _PhaseMonitor(callback, stop_rule, result)
        phase_callback = None if stop_rule is None and callback is None else monitor
        is_warm_up = phase_method is warm_up  # its limit is not one that the caller has set
        phase_result = iterate(
            engine,
            phase_method,
            guess=guess,
            callback=phase_callback,
            partial=partial or is_warm_up,
        )
        result = (
            phase_result
            if result is None
            else replace(phase_result, history=result.history.followed_by(phase_result.history))
        )
        if result.converged or monitor.stopped or not (is_warm_up or monitor.phase_ended):
            break
        guess = result.value
        sweeps_left = sweeps_left if is_warm_up else sweeps_left - phase_result.sweeps
    assert result is not None
    return result


def is_slow(reports: list[Progress]) -> bool:
    """Whether the last rounds brought little."""
    if len(reports) <= SLOW_WINDOW_ROUNDS:
        return False
    earlier = reports[-1 - SLOW_WINDOW_ROUNDS].bound
    return not reports[-1].bound < SLOW_REDUCTION * earlier


class _PhaseMonitor:
    """Ends a phase once its stop rule says so, or the run if the caller's callback does."""

    def __init__(
        self, callback: Callback | None, stop_rule: StopRule | None, previous: Result | None
    ):
        self.callback = callback
        self.stop_rule = stop_rule
        self.stopped = self.phase_ended = False  # the run, and this phase
        self.reports: list[Progress] = []
        self.sweeps_before = 0 if previous is None else previous.sweeps
        self.seconds_before = 0.0 if previous is None else float(previous.history.seconds[-1])

    def __call__(self, progress: Progress) -> bool:
        self.reports.append(progress)
        if self.callback is not None:
            sweep = progress.sweep + self.sweeps_before
            seconds = progress.seconds + self.seconds_before
            self.stopped = bool(self.callback(replace(progress, sweep=sweep, seconds=seconds)))
        self.phase_ended = self.stop_rule is not None and self.stop_rule(self.reports)
        return self.stopped or self.phase_ended


@dataclass(frozen=True)
class _SinglePrecisionSweeps(ModifiedPolicyIteration):
    """Modified policy iteration with its sweeps of a policy in single precision."""

    traced = True

    def refine(self, operators: Operators, state: IterationState):
        import jax.numpy as jnp

        from tessella.solvers.single_precision import to_single_precision

        first = operators.criterion.step(state.value, state.backup)
        sweep = bound_to(to_single_precision(operators).policy_step, state.policy)
        point = JAX.repeat(self.partial_sweeps, sweep, first.astype(jnp.float32))
        # Single precision ends at 3e38: larger rewards are swept over one at a time, in double.
        return jnp.where(jnp.isfinite(point).all(), point.astype(first.dtype), first)


@dataclass(frozen=True)
class _SinglePrecisionCorrections(InexactPolicyIteration):
    """Inexact policy iteration whose corrections are in single precision, with a coarse one."""

    traced = True

    def refine(self, operators: Operators, state: IterationState):
        import jax.numpy as jnp

        from tessella.solvers.single_precision import scale_residual, to_single_precision

        single = to_single_precision(operators)
        criterion = operators.criterion
        residual = state.backup - state.value
        d, scale = scale_residual(residual - criterion.common_part(residual))
        e = JAX.bicgstab(
            bound_to(single.policy_system, state.policy),
            d,
            tol=choose_relative_tolerance(operators, state, self.forcing, self.thresholds).astype(
                d.dtype
            ),
            maxiter=max(self.max_products // 2, 1),
            preconditioner=single.precondition,
        )

        def sweep(e):  # of v + e, where T_pi (v + e) - v = d + P_pi e
            return criterion.step(e, d + single.policy_expectation(state.policy, e))

        # A small norm may hide large entries; sweeps even them out.
        point = state.value + scale * JAX.repeat(self.thresholds.trial_sweeps + 1, sweep, e)
        return jnp.where(jnp.isfinite(point).all(), point, state.backup)


WARM_UP_METHOD = ModifiedPolicyIteration(partial_sweeps=20, max_sweeps=100)
SINGLE_PRECISION_WARM_UP = _SinglePrecisionSweeps(partial_sweeps=20, max_sweeps=100)
