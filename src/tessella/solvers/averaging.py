"""Averages of large models: sweeps until the greedy policy settles, and only then linear systems.

The linear system of a poor policy is as hard as that of a good one, and with averages often harder:
a queue that lets everybody in fills up, and hardly ever empties. Sweeps cost little, and after as
many as the longest way through the states takes, the greedy policy is nearly the best; then a few
linear systems, each with a coarse correction (``coarse``), do the rest.
"""

from __future__ import annotations

from dataclasses import replace

from tessella.solvers.driver import Callback, Engine, Progress, iterate
from tessella.solvers.method import Method
from tessella.solvers.modified_policy_iteration import ModifiedPolicyIteration
from tessella.solvers.result import Result

SWEEPS = ModifiedPolicyIteration(partial_sweeps=20, max_sweeps=100)
SETTLED = 1e-3  # of the states, at most, whose action changes in a round


def average(engine: Engine, method: Method, *, callback: Callback | None, partial: bool) -> Result:
    """The gain and relative values of a large model, by ``method`` after some sweeps."""
    watch = _Watch(engine.mdp.n_states, callback)
    begun = iterate(engine, SWEEPS, guess=method.begin(engine.mdp), callback=watch, partial=True)
    if watch.stopped or begun.converged:
        return begun
    later = None if callback is None else _after(begun, callback)
    found = iterate(engine, method, guess=begun.value, callback=later, partial=partial)
    return replace(found, history=begun.history.then(found.history))


class _Watch:
    """Stops sweeps once the policy has settled, or the caller's own callback says so."""

    def __init__(self, states: int, callback: Callback | None) -> None:
        self.few, self.callback, self.stopped = SETTLED * states, callback, False

    def __call__(self, progress: Progress) -> bool:
        if self.callback is not None:
            self.stopped = bool(self.callback(progress))
        return self.stopped or progress.changed <= self.few


def _after(begun: Result, callback: Callback) -> Callback:
    """A callback that counts on from where the sweeps ended."""
    sweeps, seconds = begun.sweeps, float(begun.history.seconds[-1])
    return lambda p: callback(replace(p, sweep=p.sweep + sweeps, seconds=p.seconds + seconds))
