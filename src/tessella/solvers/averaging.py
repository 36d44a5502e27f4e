"""Averages of large models: sweeps until the greedy policy settles, and only then linear systems.

The linear system of a poor policy is as hard as that of a good one, and with averages often harder:
a queue that lets everybody in fills up, and hardly ever empties. Sweeps cost little, and after as
many as the longest way through the states takes, the greedy policy is nearly the best; then a few
linear systems, each with a coarse correction (``coarse``), do the rest.

Through stages, both are in single precision, which takes half the time. Sweeps need only find a
policy. A correction e of relative values v,

    (I - P_pi) e + mean(e) = T v - v,

is found with the size of the right side taken out, which is worked out in double precision, as are
all bounds: so rounding costs a round more at worst. Where rounds bring little, as they would for a
system that single precision cannot solve, double precision takes over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial as bound_to

from tessella.numerics import JAX
from tessella.solvers.driver import Callback, Engine, Progress, iterate
from tessella.solvers.method import Method
from tessella.solvers.modified_policy_iteration import ModifiedPolicyIteration
from tessella.solvers.policy_iteration import TRIED, InexactPolicyIteration, enough
from tessella.solvers.result import Result

SETTLED = 1e-3  # of the states, at most, whose action changes in a round
SLOW = 0.5, 3  # a bound that is not cut to this share in so many rounds calls for more digits

Until = Callable[[list[Progress]], bool]  # what has been reported of a part of the run -> enough?


def average(engine: Engine, method: Method, *, callback: Callback | None, partial: bool) -> Result:
    """The gain and relative values of a large model, by ``method`` after some sweeps."""
    few = SETTLED * engine.mdp.n_states
    parts: list[tuple[Method, Until | None]] = [(method, None)]
    if not engine.plain and type(method) is InexactPolicyIteration:
        parts.insert(0, (_Rough(**{f.name: getattr(method, f.name) for f in fields(method)}), slow))
    parts.insert(
        0, (SWEEPS if engine.plain else ROUGH_SWEEPS, lambda seen: seen[-1].changed <= few)
    )
    found, guess = None, method.begin(engine.mdp)
    for each, until in parts:
        watch = None if until is None and callback is None else _Watch(callback, until, found)
        rest = partial or until is not None
        new = iterate(engine, each, guess=guess, callback=watch, partial=rest)
        found = new if found is None else replace(new, history=found.history.then(new.history))
        if found.converged or (watch is not None and watch.stopped):
            break
        guess = found.value
    assert found is not None
    return found


def slow(seen: list[Progress]) -> bool:
    """Whether the last rounds brought little."""
    share, rounds = SLOW
    return len(seen) > rounds and not seen[-1].bound < share * seen[-1 - rounds].bound


class _Watch:
    """Ends a part of a run once ``until`` says so, or the whole if the caller's callback does."""

    def __init__(self, callback: Callback | None, until: Until | None, before: Result | None):
        self.callback, self.until, self.stopped = callback, until, False
        self.seen: list[Progress] = []
        self.sweeps = 0 if before is None else before.sweeps
        self.seconds = 0.0 if before is None else float(before.history.seconds[-1])

    def __call__(self, progress: Progress) -> bool:
        self.seen.append(progress)
        if self.callback is not None:
            sweep, seconds = progress.sweep + self.sweeps, progress.seconds + self.seconds
            self.stopped = bool(self.callback(replace(progress, sweep=sweep, seconds=seconds)))
        return self.stopped or (self.until is not None and self.until(self.seen))


@dataclass(frozen=True)
class _RoughSweeps(ModifiedPolicyIteration):
    """Modified policy iteration with its sweeps of a policy in single precision."""

    traced = True

    def refine(self, operators, state):
        import jax.numpy as jnp

        from tessella.solvers.single_precision import in_single

        first = operators.criterion.step(state.value, state.backup).astype(jnp.float32)
        sweep = bound_to(in_single(operators).plain, state.policy)
        return JAX.repeat(self.partial_sweeps, sweep, first).astype(state.value.dtype)


@dataclass(frozen=True)
class _Rough(InexactPolicyIteration):
    """Inexact policy iteration with corrections in single precision."""

    traced = True

    def refine(self, operators, state):
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
