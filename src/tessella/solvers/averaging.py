"""Averages of large models: sweeps until the greedy policy settles, and only then linear systems.

The linear system of a poor policy is as hard as that of a good one, and with averages often harder:
a queue that lets everybody in fills up, and hardly ever empties. Sweeps cost little, and after as
many as the longest way through the states takes, the greedy policy is nearly the best; then a few
linear systems, each with a coarse correction (``coarse``), do the rest.

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
from tessella.solvers.driver import Callback, Engine, Progress, iterate
from tessella.solvers.method import Method
from tessella.solvers.modified_policy_iteration import ModifiedPolicyIteration
from tessella.solvers.policy_iteration import TRIED, InexactPolicyIteration, enough
from tessella.solvers.result import Result

if TYPE_CHECKING:
    from tessella.solvers.kernels import State
    from tessella.solvers.operators import Operators

SETTLED = 1e-3  # of the states, at most, whose action changes in a round
SLOW = 0.5, 3  # a bound that is not cut to this share in so many rounds calls for more digits

Until = Callable[[list[Progress]], bool]  # what has been reported of a part of the run -> enough?


def average(engine: Engine, method: Method, *, callback: Callback | None, partial: bool) -> Result:
    """The gain and relative values of a large model, by ``method`` after some sweeps."""
    few = SETTLED * engine.mdp.n_states
    sweeps = SWEEPS if engine.plain else ROUGH_SWEEPS
    parts: list[tuple[Method, Until | None]] = [(sweeps, lambda seen: seen[-1].changed <= few)]
    if not engine.plain and type(method) is InexactPolicyIteration:
        parts.append((_RoughCorrections(**vars(method)), slow))
    parts.append((method, None))
    found, guess, left = None, method.begin(engine.mdp), method.max_sweeps
    for each, until in parts:
        each = each if each is sweeps else replace(each, max_sweeps=max(left, 1))
        watch = _Watch(callback, until, found)
        asked = None if until is None and callback is None else watch
        begins = each is sweeps  # its limit is not one that the caller has set
        new = iterate(engine, each, guess=guess, callback=asked, partial=partial or begins)
        found = new if found is None else replace(new, history=found.history.then(new.history))
        if found.converged or watch.stopped or not (begins or watch.ended):
            break
        guess, left = found.value, left if begins else left - new.sweeps
    assert found is not None
    return found


def slow(seen: list[Progress]) -> bool:
    """Whether the last rounds brought little."""
    share, rounds = SLOW
    return len(seen) > rounds and not seen[-1].bound < share * seen[-1 - rounds].bound


class _Watch:
    """Ends a part of a run once ``until`` says so, or the whole if the caller's callback does."""

    def __init__(self, callback: Callback | None, until: Until | None, before: Result | None):
        self.callback, self.until = callback, until
        self.stopped = self.ended = False  # the whole, and this part
        self.seen: list[Progress] = []
        self.sweeps = 0 if before is None else before.sweeps
        self.seconds = 0.0 if before is None else float(before.history.seconds[-1])

    def __call__(self, progress: Progress) -> bool:
        self.seen.append(progress)
        if self.callback is not None:
            sweep, seconds = progress.sweep + self.sweeps, progress.seconds + self.seconds
            self.stopped = bool(self.callback(replace(progress, sweep=sweep, seconds=seconds)))
        self.ended = self.until is not None and self.until(self.seen)
        return self.stopped or self.ended


@dataclass(frozen=True)
class _RoughSweeps(ModifiedPolicyIteration):
    """Modified policy iteration with its sweeps of a policy in single precision."""

    traced = True

    def refine(self, operators: Operators, state: State):
        import jax.numpy as jnp

        from tessella.solvers.single_precision import in_single

        first = operators.criterion.step(state.value, state.backup)
        sweep = bound_to(in_single(operators).plain, state.policy)
        point = JAX.repeat(self.partial_sweeps, sweep, first.astype(jnp.float32))
        # Single precision ends at 3e38: larger rewards are swept over one at a time, in double.
        return jnp.where(jnp.isfinite(point).all(), point.astype(first.dtype), first)


@dataclass(frozen=True)
class _RoughCorrections(InexactPolicyIteration):
    """Inexact policy iteration whose corrections are in single precision, with a coarse one."""

    traced = True

    def refine(self, operators: Operators, state: State):
        import jax.numpy as jnp

        from tessella.solvers.single_precision import in_single, scaled_residual

        rough, criterion = in_single(operators), operators.criterion
        residual = state.backup - state.value
        d, scale = scaled_residual(residual - criterion.shared(residual))
        e = JAX.bicgstab(
            bound_to(rough.left, state.policy),
            d,
            tol=enough(operators, state, self.forcing).astype(d.dtype),
            maxiter=max(self.max_products // 2, 1),
            rough=rough.preconditioned,
        )

        def sweep(e):  # of v + e, where T_pi (v + e) - v = d + P_pi e
            return criterion.step(e, d + rough.expect(state.policy, e))

        # A small norm may hide large entries; sweeps even them out.
        point = state.value + scale * JAX.repeat(TRIED + 1, sweep, e)
        return jnp.where(jnp.isfinite(point).all(), point, state.backup)


SWEEPS = ModifiedPolicyIteration(partial_sweeps=20, max_sweeps=100)
ROUGH_SWEEPS = _RoughSweeps(partial_sweeps=20, max_sweeps=100)
