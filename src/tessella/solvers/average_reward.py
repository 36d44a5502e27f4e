"""Averages of large models: sweeps until the greedy policy settles, then linear systems.

The linear system of a poor policy is as hard as that of a good one, and with averages often harder:
a queue that lets everybody in fills up, and hardly ever empties. Sweeps cost little, and after as
many as the longest way through the states takes, the greedy policy is nearly the best; then a few
linear systems, each with a coarse correction (``multigrid``), do the rest.

Through stages, both are in single precision, which takes half the time. Sweeps need only find a
policy. A correction e of relative values v,

    (I - P_pi) e + mean(e) = T v - v,

is found with the size of the right side taken out, which is worked out in double precision, as are
all bounds: so rounding costs little. Where iterations hardly lower
the bound, as for a system that single precision cannot solve, double precision takes over.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from tessella.numerics import JAX
from tessella.solvers.loop import Callback, Progress, iterate
from tessella.solvers.method import Method
from tessella.solvers.mixed_precision import scale_residual, to_single_precision
from tessella.solvers.policy_iteration import InexactPolicyIteration, choose_relative_tolerance
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.result import Result
from tessella.solvers.value_iteration import ModifiedPolicyIteration

if TYPE_CHECKING:
    from tessella.solvers.iteration import IterationState
    from tessella.solvers.operators import Operators

# Double precision takes over where the bound does not fall to SLOW_REDUCTION of itself within
# SLOW_WINDOW_ITERATIONS.
SLOW_REDUCTION = 0.5  # share of the earlier bound
SLOW_WINDOW_ITERATIONS = 3

StopRule = Callable[[list[Progress]], bool]  # reports of a phase of the run -> whether it may end


def solve_average_reward(
    prepared: PreparedModel, method: Method, *, callback: Callback | None, partial: bool
) -> Result:
    """The gain and relative values of a large model, by ``method`` after some sweeps."""
    first, *others = _make_phases(prepared, method)
    # The limit of the warm-up is not one that the caller has set.
    monitor = _PhaseMonitor(callback, first.stop_rule, None)
    guess = method.init(prepared.mdp)
    result = iterate(prepared, first.method, guess=guess, callback=monitor, partial=True)
    may_go_on = not monitor.is_stopped
    sweeps_left = method.max_sweeps
    for phase in others:
        if result.converged or not may_go_on:
            break
        limited = replace(phase.method, max_sweeps=max(sweeps_left, 1))
        monitor = _PhaseMonitor(callback, phase.stop_rule, result)
        watched = phase.stop_rule is not None or callback is not None
        latest = iterate(
            prepared,
            limited,
            guess=result.value,
            callback=monitor if watched else None,
            partial=partial,
        )
        result = replace(latest, history=result.history.followed_by(latest.history))
        may_go_on = monitor.phase_ended and not monitor.is_stopped
        sweeps_left -= latest.sweeps
    return result


class _Phase(NamedTuple):
    """A method, and the rule by which it gives way to the next."""

    method: Method
    stop_rule: StopRule | None


def _make_phases(prepared: PreparedModel, method: Method) -> list[_Phase]:
    """Sweeps until the policy has settled, corrections in single precision, then ``method``."""
    max_changes = (
        prepared.plan.thresholds.evaluation.policy_settled_fraction * prepared.mdp.n_states
    )

    def has_settled(reports: list[Progress]) -> bool:
        return reports[-1].changed <= max_changes

    last = _Phase(method, None)
    # Single precision comes first by default; a plan may request double.
    in_double = prepared.plan.requests.get("evaluation_precision") == "double"
    if prepared.is_numpy or in_double:
        return [_Phase(WARM_UP_METHOD, has_settled), last]
    warm_up = _Phase(SINGLE_PRECISION_WARM_UP, has_settled)
    if type(method) is not InexactPolicyIteration:
        return [warm_up, last]
    return [warm_up, _Phase(_SinglePrecisionCorrections(**vars(method)), is_slow), last]


def is_slow(reports: list[Progress]) -> bool:
    """Whether the last iterations hardly lowered the bound."""
    if len(reports) <= SLOW_WINDOW_ITERATIONS:
        return False
    earlier = reports[-1 - SLOW_WINDOW_ITERATIONS].bound
    return not reports[-1].bound < SLOW_REDUCTION * earlier


class _PhaseMonitor:
    """Ends a phase once its stop rule says so, or the run if the caller's callback does."""

    def __init__(
        self, callback: Callback | None, stop_rule: StopRule | None, previous: Result | None
    ):
        self.callback = callback
        self.stop_rule = stop_rule
        self.is_stopped = False  # the run
        self.phase_ended = False
        self.reports: list[Progress] = []
        self.sweeps_before = 0 if previous is None else previous.sweeps
        self.seconds_before = 0.0 if previous is None else float(previous.history.seconds[-1])

    def __call__(self, progress: Progress) -> bool:
        self.reports.append(progress)
        if self.callback is not None:
            sweep = progress.sweep + self.sweeps_before
            seconds = progress.seconds + self.seconds_before
            self.is_stopped = bool(self.callback(replace(progress, sweep=sweep, seconds=seconds)))
        self.phase_ended = self.stop_rule is not None and self.stop_rule(self.reports)
        return self.is_stopped or self.phase_ended


@dataclass(frozen=True)
class _SinglePrecisionSweeps(ModifiedPolicyIteration):
    """Modified policy iteration with its sweeps of a policy in single precision."""

    requires_jax = True

    def step(self, operators: Operators, state: IterationState):
        first = operators.criterion.next_iterate(state.value, state.backup)
        sweep = functools.partial(to_single_precision(operators).policy_step, state.policy)
        point = JAX.iterate(self.partial_sweeps, sweep, first.astype(JAX.float32))
        # Single precision overflows at 3e38: larger values take one plain sweep in double.
        return JAX.where(JAX.isfinite(point).all(), point.astype(first.dtype), first)


@dataclass(frozen=True)
class _SinglePrecisionCorrections(InexactPolicyIteration):
    """Inexact policy iteration whose corrections are in single precision, with a coarse one."""

    requires_jax = True

    def step(self, operators: Operators, state: IterationState):
        single = to_single_precision(operators)
        criterion = operators.criterion
        residual = state.backup - state.value
        d, scale = scale_residual(residual - criterion.common_part(residual))
        e = JAX.bicgstab(
            functools.partial(single.policy_system, state.policy),
            d,
            tol=choose_relative_tolerance(operators, state, self.forcing, self.thresholds).astype(
                d.dtype
            ),
            maxiter=max(self.max_products // 2, 1),
            preconditioner=single.precondition,
        )

        def sweep(e):  # of v + e, where T_pi (v + e) - v = d + P_pi e
            return criterion.next_iterate(e, d + single.policy_expectation(state.policy, e))

        # A small norm may hide large entries; sweeps smooth them.
        point = state.value + scale * JAX.iterate(self.thresholds.trial_sweeps + 1, sweep, e)
        return JAX.where(JAX.isfinite(point).all(), point, state.backup)


WARM_UP_METHOD = ModifiedPolicyIteration(partial_sweeps=20, max_sweeps=100)
SINGLE_PRECISION_WARM_UP = _SinglePrecisionSweeps(partial_sweeps=20, max_sweeps=100)
