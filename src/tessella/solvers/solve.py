"""solve(mdp) -> Solution, by whichever method.

From the enclosure |V - V*| <= e follow the action values, |Q - Q*| <= discount e + eta, and from
these what is certain: an action is *decided* where its margin exceeds ``2 (discount e + eta)``.
"""

from __future__ import annotations

from pathlib import Path

from tessella.criteria.average import Average
from tessella.criteria.total import Total
from tessella.errors import ArgumentError, expect
from tessella.mdp.model import MDP
from tessella.solvers.averaging import average
from tessella.solvers.backward_induction import BackwardInduction, induce, serves
from tessella.solvers.checkpoint import Checkpoint, Keeper, as_checkpoint
from tessella.solvers.devices import devices_for
from tessella.solvers.driver import WIDE, Callback, Engine, decide, iterate
from tessella.solvers.ending import until_the_end
from tessella.solvers.in_place import InPlace, iterate_in_place
from tessella.solvers.method import Method, refuse_other
from tessella.solvers.mixed_precision import MixedPrecision, pays_off
from tessella.solvers.policy_iteration import InexactPolicyIteration
from tessella.solvers.result import Precision, Result
from tessella.solvers.solution import Solution, optimal

# Found by ``benchmarks/methods.py``. A round of a small model costs little more than its overhead,
# so fewer and better rounds are quicker there.
SMALL = 10_000
FORCING = 1e-2, 1e-1  # of small models, and of others
AVERAGES = 3e-2, 500  # of large averages, whose policy has settled: forcing, and products at most


def solve(
    mdp: MDP,
    method: Method | None = None,
    *,
    tol: float | None = None,
    callback: Callback | None = None,
    partial: bool = False,
    checkpoint: str | Path | Checkpoint | None = None,
    devices: int | None = None,
) -> Solution:
    """The optimal value, action values and policy of ``mdp``, with a bound on their error.

    Args:
        method: by default inexact policy iteration, which finds out as it goes whether sweeps or
            a linear solver evaluate a policy more quickly; for many discounted models of over
            10,000 states sweeps in single precision, with residuals and bounds in double
            (``MixedPrecision``); for a finite horizon backward induction.
        tol: bound on max|V - V*| for the default method; a method object carries its own.
        callback: called with a ``Progress`` after each sweep; a true answer stops the run.
        partial: return what there is when a limit is reached, instead of raising NotConverged.
        checkpoint: a file, ``run.npz``, that keeps the best point of a long run every minute; a run
            that was broken off goes on from it. ``Checkpoint(path, every=600)`` writes less often.
        devices: how many a model of stages is cut among; by default all accelerators where there
            are several and the model is large, and one device otherwise.
    """
    expect("solve", mdp, MDP)
    if method is None:
        method = automatic(mdp, tol)
    else:
        refuse_other(method, tol)
    method.check_supports(mdp)
    shared = devices_for(mdp, devices)
    engine = Engine(mdp, method.tolerance(mdp), traced=method.traced, devices=shared)
    keeper = _keeper(engine, method, checkpoint)
    if isinstance(method, BackwardInduction):
        return _induced(engine, method, callback, partial)
    if isinstance(method, InPlace):
        return _in_place(engine, method, callback, partial)
    if isinstance(mdp.criterion, Total):
        engine, found = until_the_end(engine, method, callback=callback, partial=partial)
    elif method.linear and engine.widely_averaged:
        found = average(engine, method, callback=callback, partial=partial)
    else:
        watch = {"callback": callback, "partial": partial, "keeper": keeper}
        found = iterate(engine, method, guess=method.begin(mdp), **watch)
    return _solution(engine, found, method.name)


def _keeper(engine: Engine, method: Method, given: str | Path | Checkpoint | None) -> Keeper | None:
    checkpoint = as_checkpoint(given)
    if checkpoint is None:
        return None
    several = isinstance(engine.mdp.criterion, Total) or (method.linear and engine.widely_averaged)
    if several or isinstance(method, BackwardInduction | InPlace):
        raise ArgumentError(
            "a checkpoint serves methods that go from point to point, of discounted rewards and of "
            f"averages of at most {WIDE:,} states",
            value=f"this is {method.name}, {engine.mdp.criterion}, {engine.mdp.n_states:,} states",
        )
    if len({device.process_index for device in engine.devices}) > 1:
        rule = "a checkpoint is kept by one process, whose devices have the whole model"
        raise ArgumentError(rule, value=f"got {checkpoint.path}")
    return Keeper(checkpoint, engine.mdp)


def automatic(mdp: MDP, tol: float | None = None) -> Method:
    """The method that ``solve`` takes by itself."""
    if serves(mdp):
        return BackwardInduction(tol)
    if pays_off(mdp):
        return MixedPrecision(tol)
    large = mdp.n_states > SMALL
    if large and isinstance(mdp.criterion, Average):
        return InexactPolicyIteration(tol, forcing=AVERAGES[0], max_products=AVERAGES[1])
    return InexactPolicyIteration(tol, forcing=FORCING[large])


def _induced(
    engine: Engine, method: BackwardInduction, callback: Callback | None, partial: bool
) -> Solution:
    found, known = induce(engine, method, callback, partial)
    return Solution(
        **vars(found),
        mdp=engine.mdp,
        policy=optimal(engine.mdp, known.policy),
        margin=known.margin,
        method=method.name,
        precision=Precision(found.error_bound, float(known.tie.max())),
    )


def _in_place(
    engine: Engine, method: InPlace, callback: Callback | None, partial: bool
) -> Solution:
    swept = iterate_in_place(engine, method, callback, partial)
    return Solution(
        **vars(swept.result),
        mdp=engine.mdp,
        policy=optimal(engine.mdp, swept.policy),
        margin=swept.margin,  # type: ignore[arg-type]
        method=method.name,
        precision=Precision(swept.result.error_bound, swept.tie),
    )


def _solution(engine: Engine, found: Result, method: str) -> Solution:
    mdp, known_later = engine.mdp, found.gain is not None
    decision = decide(engine, found.stored("value"), found.error_bound)
    return Solution(
        **vars(found),
        mdp=mdp,
        policy=optimal(mdp, decision.policy if found.table is None else found.table),
        margin=decision.margin,  # type: ignore[arg-type]
        method=method,
        precision=None if known_later else Precision(found.error_bound, float(decision.tie)),
    )
