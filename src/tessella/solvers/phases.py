"""The phases of a run: methods that take over from one another, by what the iterations achieve.

The linear system of a poor policy is as hard as that of a good one, and often harder: a queue that
admits everybody fills up, and hardly ever empties. Sweeps cost little, and after as many as the
longest way through the states takes, the greedy policy is nearly the best. So large models are
swept until the policy settles. If sweeps then approach the target slowly, linear systems with a
coarse correction do the rest; where these achieve little, as in periodic chains, sweeps continue
or, if they would be too many, inexact policy iteration in double precision takes over.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, log
from typing import TYPE_CHECKING, NamedTuple

from tessella.solvers.method import Method
from tessella.solvers.mixed_precision import MixedPrecision
from tessella.solvers.policy_iteration import InexactPolicyIteration
from tessella.solvers.value_iteration import ModifiedPolicyIteration

if TYPE_CHECKING:
    from tessella.solvers.prepared_model import PreparedModel

PHASE_CHECK_ITERATIONS = 2  # iterations after which a phase is checked
# A phase of linear systems ends where these leave more than this share of the bound.
SLOW_REDUCTION = 0.5
WARM_UP_MAX_ITERATIONS = 100  # after these, a policy that still changes counts as settled
WARM_UP_METHOD = ModifiedPolicyIteration(partial_sweeps=20)


class PhaseLog(NamedTuple):
    """What the iterations of one phase achieved."""

    bounds: list[float]  # after each
    changes: list[int]  # states whose greedy action changed in each
    target: float  # the bound to be reached


class Phase(NamedTuple):
    """A method, and the rule by which the next phase takes over; the last phase has none."""

    method: Method
    has_ended: Callable[[PhaseLog], bool] | None = None
    uses_coarse_correction: bool = False


def make_phases(prepared: PreparedModel, method: Method) -> list[Phase]:
    """The phases of a run by ``method``: one alone, unless the model is large."""
    evaluation = prepared.plan.thresholds.evaluation
    max_changes = evaluation.policy_settled_fraction * prepared.mdp.n_states
    has_gain = prepared.mdp.criterion.has_gain

    def has_settled(progress: PhaseLog) -> bool:
        is_late = len(progress.changes) >= WARM_UP_MAX_ITERATIONS
        return is_late or progress.changes[-1] <= max_changes

    def needs_more_than(limit: int) -> Callable[[PhaseLog], bool]:
        return lambda log: has_settled(log) and count_iterations_left(log) > limit

    if method.solves_linear_systems and prepared.needs_coarse_correction and has_gain:
        return [Phase(WARM_UP_METHOD, has_settled), Phase(method, None, True)]
    if not isinstance(method, MixedPrecision):
        return [Phase(method)]
    forcing = prepared.plan.thresholds.large_forcing
    in_double = InexactPolicyIteration(method.tol, forcing=forcing, thresholds=evaluation)
    sweeps = Phase(method, needs_more_than(evaluation.many_mixed_iterations))
    if not prepared.needs_coarse_correction:
        return [sweeps, Phase(in_double)]
    first_sweeps = Phase(method, needs_more_than(evaluation.few_mixed_iterations))
    systems = Phase(method, is_slow, True)
    if has_gain:
        return [first_sweeps, systems, Phase(in_double, None, True)]
    return [first_sweeps, systems, sweeps, Phase(in_double)]


def count_iterations_left(progress: PhaseLog) -> float:
    """Iterations until the bound is at the target, at the pace of the last one; 0 if unknown."""
    if len(progress.bounds) < 2 or not progress.target < progress.bounds[-1] < inf:
        return 0.0
    before, now = progress.bounds[-2:]
    return log(now / progress.target) / log(before / now) if now < before else inf


def is_slow(progress: PhaseLog) -> bool:
    """Whether the last iterations hardly lowered the bound."""
    window = PHASE_CHECK_ITERATIONS
    bounds = progress.bounds
    return len(bounds) > window and not bounds[-1] < SLOW_REDUCTION * bounds[-1 - window]
