"""A target for the loss of a rule, from a start or from the worst state; and proofs of losses.

A relative target is a share of |J(pi*)|, the size of the optimal value from the start, as
``relative_loss`` of a certificate is; or of J(pi*) - J(random), what the optimum gains over taking
every feasible action as often. Rules that cannot be distinguished from optimal meet a target of 0:
``zero_tolerance`` is what ties and the error of the solution may hide. Any other target is met
exactly, and rejected where the solution is not known well enough for it.

``prove_loss_upper_bounds`` gives upper bounds on a rule's losses, and the certificate that proves
them, which can be checked with the model's file alone. For an average, rounding in that file and in
the checker may make it wider than the bounds on the gains; then those bounds are used.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.certificate import Certificate
from tessella.certificates.certify import certify
from tessella.certificates.loss import loss
from tessella.errors import ArgumentError, format_value, is_number, with_article
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.stages.events import average_unit
from tessella.rounding import EPS, round_up
from tessella.rules.evaluator import PolicyEvaluator, PolicyLoss
from tessella.solvers.operators import MIN_REWARD_SCALE
from tessella.solvers.solution import Solution
from tessella.support.sense import sense_of

WIDE_ERROR_MULTIPLE = 8  # errors of the best gain: a certificate that is wider may not decide
LossReference = Literal["optimal", "random"]
# How the text of a loss target about an average ends, in files too.
AVERAGE_UNITS = ("per period", "per unit of time")


@dataclass(frozen=True, eq=False)
class LossTarget:
    """The largest loss that a rule may have."""

    stated_loss: float  # as the user stated it
    limit: float  # the same in the model's own units
    reference: float  # what a loss is divided by to compare with ``stated_loss``; 1 if absolute
    relative_to: str  # "optimal" or "random", or "" for an absolute loss
    zero_tolerance: float  # losses up to this cannot be distinguished from 0
    required_tolerance: float  # of a solution, to separate the limit from 0; 0 if doubles cannot
    evaluator: PolicyEvaluator  # of which model it is; whether from the worst state

    def get_loss(self, policy_loss: PolicyLoss) -> float:
        """The loss that the target is about."""
        return policy_loss.worst_loss if self.evaluator.is_worst_case else policy_loss.mean_loss

    def is_met_by(self, policy_loss: PolicyLoss) -> bool:
        """Whether a rule may meet it, given the error of its loss; a proof has the last word.

        An error beyond the limit itself is no reason to hope: such a loss could not be proven.
        """
        limit = self.limit * (1 - 1e-9) if self.stated_loss else self.zero_tolerance / 2
        allowance = policy_loss.error if policy_loss.error <= self.effective_limit else 0.0
        return self.get_loss(policy_loss) - allowance <= limit

    def is_proven_by(self, proof: ProvenLoss) -> bool:
        """Whether it is proven to be met."""
        bound = proof.worst_loss if self.evaluator.is_worst_case else proof.mean_loss
        limit = self.limit if self.stated_loss else self.zero_tolerance
        return bound is not None and bound <= limit

    @property
    def effective_limit(self) -> float:
        """The largest loss that cannot be distinguished from one that meets the target."""
        return max(self.limit, self.zero_tolerance)

    @property
    def is_zero(self) -> bool:
        """Whether it allows no loss that can be distinguished from 0."""
        return self.limit <= self.zero_tolerance

    @property
    def hint(self) -> str:
        """What to do where the solution is too rough for such a loss; empty if it is not."""
        if not self.stated_loss or not self.is_zero:
            return ""
        text = "the solution is too rough for it"
        if not self.required_tolerance:
            return text
        return f"{text}: solve to a tolerance of {self.required_tolerance:.0e}"

    def __str__(self) -> str:
        mdp = self.evaluator.mdp
        where = (
            "from the worst state" if self.evaluator.is_worst_case else "on average from the start"
        )
        amount = self.stated_loss
        if self.evaluator.is_average:
            times, where = average_unit(mdp.clock)
            amount *= times
        noun = with_article(sense_of(mdp.minimise).loss)
        if not self.relative_to:
            return f"{noun} of at most {format_value(amount)} {where}"
        reference = describe_loss_reference(mdp.minimise, self.relative_to)
        share_text = f"{format_value(100 * self.stated_loss)}% of {reference}"
        return f"{noun} of at most {share_text} {where}"


def describe_loss_reference(minimise: bool, relative_to: str = "optimal") -> str:
    """What a relative loss is a share of, in words."""
    sense = sense_of(minimise)
    if relative_to == "random":
        return f"what the optimum {sense.gain_verb} over random actions"
    return f"the optimal {sense.value}"


def parse_loss(loss: float | str, relative: bool = True) -> tuple[float, bool]:
    """(loss, whether it is relative); a text is ``1%`` or ``0.01``, or ``12.5 units``."""
    if not isinstance(loss, str):
        return loss, relative
    text = loss.strip()
    is_percentage = text.endswith("%")
    is_absolute = text.endswith("units")
    try:
        number = float(text.removesuffix("%" if is_percentage else "units"))
    except ValueError:
        requirement = f"{loss!r} is not a loss, such as 1%, 0.01 or '12.5 units'"
        raise ArgumentError(requirement) from None
    if is_percentage or is_absolute:
        return number / 100 if is_percentage else number, is_percentage
    if relative and number > 1:
        requirement = f"{loss!r} is above 1, the whole value: write {loss}% or '{loss} units'"
        raise ArgumentError(requirement)
    return number, relative


def check_loss(loss: float | str, relative: bool) -> tuple[float, bool]:
    """(loss, whether it is relative), of a loss that a user gave."""
    require_flag("relative", relative)
    number, relative = parse_loss(loss, relative)
    if not (is_number(number) and number >= 0):
        raise ArgumentError("a loss target is a number, at least 0", value=f"got {number!r}")
    return float(number), relative


def make_loss_target(
    evaluator: PolicyEvaluator, loss: float | str, relative: bool, relative_to: LossReference
) -> LossTarget:
    """A checked loss target for the model of an evaluator."""
    loss, relative = check_loss(loss, relative)
    if relative_to not in ("optimal", "random"):
        requirement = "a loss is relative to 'optimal' or to 'random'"
        raise ArgumentError(requirement, value=f"got {relative_to!r}")
    reference = compute_reference(evaluator, relative_to) if relative else 1.0
    limit = loss * reference
    solution = evaluator.solution
    error = solution.error_bound
    if evaluator.is_average:  # by bounds on the gains: a tie in relative values may hide any loss
        optimal_loss = prove_loss_upper_bounds(solution, solution.policy, evaluator.start).mean_loss
        zero_tolerance = 2 * max(optimal_loss, 2 * error)
    else:
        tie_loss = evaluator.compute_effective_horizon() * 2 * evaluator.tie_tolerance
        zero_tolerance = float(tie_loss + 4 * error)
    zero_tolerance = max(zero_tolerance, MIN_REWARD_SCALE)
    tolerance = error * limit / zero_tolerance / 2
    value_scale = max(abs(evaluator.compute_optimal_value()), solution.mdp.dynamics.reward_scale)
    loss_target = LossTarget(
        stated_loss=loss,
        limit=limit,
        reference=reference,
        relative_to=relative_to if relative else "",
        zero_tolerance=zero_tolerance,
        required_tolerance=tolerance if tolerance > EPS * value_scale else 0.0,
        evaluator=evaluator,
    )
    if loss and error > limit:
        requirement = "a loss target must be larger than the error of the solution"
        value = f"the target is {limit:.3g}, the error is {round_up(error)}"
        raise ArgumentError(f"{requirement}; {loss_target.hint}", value=value)
    return loss_target


def require_flag(name: str, value: object) -> None:
    """Reject what is neither True nor False."""
    if not isinstance(value, bool | np.bool_):
        raise ArgumentError(f"{name} is True or False", value=f"got {value!r}")


def compute_reference(evaluator: PolicyEvaluator, relative_to: LossReference) -> float:
    """What a relative loss is a share of, no larger than it surely is."""
    error = evaluator.solution.error_bound
    optimal = evaluator.compute_optimal_value()
    reference = abs(optimal)
    if relative_to == "random":
        reference = optimal - evaluator.compute_random_value()
    # An optimum that is not known exactly makes the reference no larger than it surely is.
    reference -= error * (1 + 1e-9)
    if not reference > 0:
        requirement = "a relative loss needs an optimal value other than 0; pass relative=False"
        error_text = f", within {round_up(error)}" if error else ""
        raise ArgumentError(requirement, value=f"it is {optimal:.3g}{error_text}")
    return reference


@dataclass(frozen=True, eq=False)
class ProvenLoss:
    """Proven upper bounds on the loss of a policy."""

    mean_loss: float  # from the start
    worst_loss: float | None  # from the worst state; None with constraints
    relative_loss: float | None  # a share of the optimal value; None where that may be 0
    certificate: Certificate = field(repr=False)  # what proves it
    constraints: str = ""  # those that the policy satisfies, with its measures, in words

    def collect_facts(self, mdp: MDP) -> dict[str, Any]:
        """The facts at the head of a file: model and proven loss."""
        facts = {
            "model": mdp.name,
            "fingerprint": mdp.fingerprint,
            "mean_loss": self.mean_loss,
            "relative_loss": self.relative_loss,
            "certified": True,
            "stated_in": mdp.sense.rewards_noun,
        }
        if self.worst_loss is None:
            facts["constraints"] = self.constraints
        else:
            facts["worst_loss"] = self.worst_loss
        if mdp.clock is not None:
            facts["periods_per_time"] = mdp.clock.per_time(1.0)
        return facts


def prove_loss_upper_bounds(solution: Solution, policy: Policy, start: NDArray) -> ProvenLoss:
    """Proven upper bounds on the loss of ``policy`` from ``start`` (S,)."""
    certificate = certify(solution, policy, start)
    mean = certificate.mean_loss.upper
    relative_loss = certificate.relative_loss
    relative = None if relative_loss is None else relative_loss.upper
    if solution.mdp.criterion.has_gain:
        if certificate.mean_loss.width > WIDE_ERROR_MULTIPLE * solution.error_bound:
            policy_loss = loss(solution, policy)
            upper = policy_loss.mean + policy_loss.error_bound
            relative = None if relative is None else relative * min(upper / mean, 1.0)
            mean = min(mean, upper)
        return ProvenLoss(mean, mean, relative, certificate)
    return ProvenLoss(mean, certificate.worst_loss.upper, relative, certificate)
