"""solve(mdp) -> Solution, by whichever method; what its values decide is in ``bounds``."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, overload

from numpy.typing import NDArray

from tessella.errors import ArgumentError, require_type
from tessella.mdp.measures import Constraint, read_constraints
from tessella.mdp.model import MDP
from tessella.solvers.absorbing import solve_total_reward
from tessella.solvers.bounds import GreedyPolicy
from tessella.solvers.constraints.column_generation import ColumnGeneration
from tessella.solvers.constraints.constrained_solution import ConstrainedSolution
from tessella.solvers.execution_plan import ExecutionPlan, make_plan, require_plan
from tessella.solvers.loop import Callback, iterate
from tessella.solvers.method import Method
from tessella.solvers.policy_proof import decide_by_slices, prove_policy
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.result import Checkpoint, CheckpointWriter, Result, ValueAccuracy
from tessella.solvers.solution import Solution, make_optimal_policy


@overload
def solve(
    mdp: MDP,
    method: Method | None = None,
    *,
    tol: float | None = None,
    callback: Callback | None = None,
    partial: bool = False,
    checkpoint: str | Path | Checkpoint | None = None,
    devices: int | None = None,
    plan: ExecutionPlan | None = None,
    until: Literal["values", "policy"] = "values",
    guess: NDArray | None = None,
    subject_to: None = None,
) -> Solution: ...


@overload
def solve(
    mdp: MDP,
    *,
    tol: float | None = None,
    callback: Callback | None = None,
    devices: int | None = None,
    subject_to: Mapping[str, Constraint],
) -> ConstrainedSolution: ...


def solve(
    mdp: MDP,
    method: Method | None = None,
    *,
    tol: float | None = None,
    callback: Callback | None = None,
    partial: bool = False,
    checkpoint: str | Path | Checkpoint | None = None,
    devices: int | None = None,
    plan: ExecutionPlan | None = None,
    until: Literal["values", "policy"] = "values",
    guess: NDArray | None = None,
    subject_to: Mapping[str, Constraint] | None = None,
) -> Solution | ConstrainedSolution:
    """The optimal value, action values and policy of ``mdp``, with a bound on their error.

    Args:
        mdp: the model.
        method: by default inexact policy iteration, which finds out as it goes whether sweeps or
            a linear solver evaluate a policy more quickly; for most staged models with over 10,000
            states single-precision sweeps and linear systems, with residuals and bounds in double
            precision (``MixedPrecision``); for a finite horizon backward induction.
        tol: bound on max|V - V*| for the default method; a method object carries its own.
        callback: called with a ``Progress`` after each sweep; a true result stops the run.
        partial: return the current result when a limit is reached, instead of raising NotConverged.
        checkpoint: a file, ``run.npz``, that keeps the best point of a long run every minute; a run
            that was interrupted continues from it. See ``Checkpoint(path, every=600)``.
        devices: how many devices share a model of stages; by default all accelerators where there
            are several and the model is large, and one device otherwise.
        plan: an execution plan, such as ``tessella.plan(mdp).using(representation="stages")``; it
            includes the method, the tolerance and the devices.
        until: with ``"policy"``, stop when every action is proven optimal, or tied within rounding:
            see ``policy_proof``. The values are then rough, as ``error_bound`` says. It
            serves discounted models, on one device.
        guess: (grid) values to start from, such as those of a similar model; not for finite
            horizons and totals.
        subject_to: constraints on measures, ``{"fill_rate": AtLeast(0.98)}``: the best of all
            policies that satisfy them, including those that choose at random, as a
            ``ConstrainedSolution``. Then ``tol`` is how far apart its bounds may be.

    Returns:
        The solution; with ``subject_to``, a ``ConstrainedSolution``.

    Raises:
        NotConverged: a limit is reached; ``partial`` holds the result so far.
        ArgumentError: ``tol`` is below what float64 can prove, or a method does not fit the model.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> solution.policy.decide([[3, 10], [30, 20]])
        array([1, 0])
        >>> solution.error_bound < 1e-9
        True
    """
    require_type("solve", mdp, MDP)
    _require_callback(callback)
    if subject_to is not None:
        options = {
            "until": None if until == "values" else until,
            "method": method,
            "partial": partial or None,
            "checkpoint": checkpoint,
            "plan": plan,
            "guess": guess,
        }
        _refuse_options("subject_to goes with tol, callback and devices", options)
        # A limit of rounding widens the bounds of a solve, and does not end the search.
        solve_model = functools.partial(solve, callback=callback, devices=devices, partial=True)
        constraints = read_constraints(mdp.measures, subject_to)
        return ColumnGeneration(mdp, constraints, solve_model, tol).run()
    if until != "values":
        _check_proof(mdp, until, method=method, tol=tol, checkpoint=checkpoint, guess=guess)
        devices = 1 if devices is None and plan is None else devices
    plan = _complete_plan(mdp, plan, method=method, tol=tol, devices=devices)
    method = plan.method
    prepared = PreparedModel(plan, method.tolerance(mdp))
    if until == "policy":
        _require_one_device(plan)
        proof = prove_policy(PreparedModel(plan), callback)  # no tolerance ends it
        if proof is not None:
            return _make_solution(prepared, *proof)
    checkpoint_writer = _make_checkpoint_writer(prepared, method, checkpoint)
    if method.has_own_loop:
        result, decision = method.run(prepared, callback, partial)
        return _make_solution(prepared, result, decision)
    if mdp.criterion.requires_absorption:
        prepared, result = solve_total_reward(prepared, method, callback=callback, partial=partial)
    else:
        options = {"callback": callback, "partial": partial, "checkpoint_writer": checkpoint_writer}
        first = method.init(mdp) if guess is None else guess
        result = iterate(prepared, method, guess=first, **options)
    return _make_solution(
        prepared, result, decide_by_slices(prepared, result.get_raw("value"), result.error_bound)
    )


def _complete_plan(mdp: MDP, plan: ExecutionPlan | None, **options: Any) -> ExecutionPlan:
    """The plan, or one for these options; both at once are an error."""
    if plan is None:
        return make_plan(mdp, **options)
    requirement = "a plan has the method, tol and devices: change it with plan.using(...)"
    _refuse_options(requirement, options, next_to="plan and ")
    return require_plan(mdp, plan)


def _refuse_options(requirement: str, options: Mapping[str, object], next_to: str = "") -> None:
    """Raise an ArgumentError with this requirement for options that were given."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise ArgumentError(requirement, value=f"got {next_to}{' and '.join(given)}")


def _require_callback(callback: object) -> None:
    if callback is not None and not callable(callback):
        raise ArgumentError("callback must be a function", value=f"got {callback!r:.60}")


def _check_proof(mdp: MDP, until: object, **options: object) -> None:
    """Raise an ArgumentError for models and options that ``until="policy"`` does not support."""
    if until != "policy":
        raise ArgumentError("until must be 'values' or 'policy'", value=f"got {until!r:.60}")
    requirement = "until='policy' sweeps by itself, without method, tol, checkpoint or guess"
    _refuse_options(requirement, options)
    if not mdp.criterion.is_discounted or mdp.dynamics.n_periods is not None:
        requirement = "until='policy' serves discounted models; others are solved by solve(mdp)"
        raise ArgumentError(requirement, value=f"got {mdp.criterion}")


def _require_one_device(plan: ExecutionPlan) -> None:
    if plan.devices:
        requirement = "until='policy' runs on one device"
        raise ArgumentError(requirement, value=f"got {len(plan.devices)}")


def _make_solution(
    prepared: PreparedModel,
    result: Result,
    decision: GreedyPolicy,
    has_values: bool = True,
    method: str | None = None,
) -> Solution:
    mdp = prepared.mdp
    table = decision.policy if result.table is None else result.table
    # The relative values of an average are bounded when first requested.
    has_gain = result.gain is not None
    return Solution(
        **vars(result),
        mdp=mdp,
        policy=make_optimal_policy(mdp, table),
        margin=decision.margin,
        method=method or prepared.plan.method.name,
        has_values=has_values,
        accuracy=None if has_gain else ValueAccuracy(result.error_bound, decision.tie_tolerance),
        plan=prepared.plan,
    )


def _make_checkpoint_writer(
    prepared: PreparedModel, method: Method, source: str | Path | Checkpoint | None
) -> CheckpointWriter | None:
    mdp = prepared.mdp
    if source is None:
        return None
    checkpoint = source if isinstance(source, Checkpoint) else Checkpoint(source)
    if mdp.criterion.requires_absorption or method.has_own_loop:
        raise ArgumentError(
            "checkpoints are supported for discounted models and averages, "
            "but not by BackwardInduction and InPlace",
            value=f"this is {method.name}, {mdp.criterion}, {mdp.n_states:,} states",
        )
    if len({device.process_index for device in prepared.plan.devices}) > 1:
        requirement = "a checkpoint is kept by one process, whose devices have the whole model"
        raise ArgumentError(requirement, value=f"got {checkpoint.path}")
    return CheckpointWriter(checkpoint, prepared.mdp)
