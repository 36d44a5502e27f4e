"""What a rule surely loses: the upper ends of its losses, and a certificate where there is one.

A certificate can be checked by whoever has the model's file. A total has none and is served by
``loss``, V* - V_pi with both errors bounded by their residuals: proven too, for oneself alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from tessella.certificates.certificate import Certificate
from tessella.certificates.certify import certify
from tessella.certificates.gain_certificate import GainCertificate
from tessella.certificates.loss import loss
from tessella.criteria.average import Average
from tessella.criteria.discounted import Discounted
from tessella.criteria.finite_horizon import FiniteHorizon
from tessella.mdp.policy import Policy
from tessella.solvers.solution import Solution

CERTIFIED = (Discounted, FiniteHorizon, Average)


@dataclass(frozen=True, eq=False)
class Proof:
    """What a policy surely loses at most.

    Attributes:
        mean: from the start.
        worst: from the worst state.
        relative: ``mean`` as a share of the optimal value; None where that may be 0.
        certificate: None for a criterion that has no certificates.
    """

    mean: float
    worst: float
    relative: float | None
    certificate: Certificate | GainCertificate | None = field(default=None, repr=False)

    def facts(self, solution: Solution) -> dict[str, Any]:
        """What the head of a file says: model and proven loss."""
        clock = solution.mdp.clock
        return {
            "model": solution.mdp.name,
            "fingerprint": solution.mdp.fingerprint,
            "mean_loss": self.mean,
            "relative_loss": self.relative,
            "worst_loss": self.worst,
            "certified": self.certificate is not None,
            "told_in": "costs" if solution.mdp.minimise else "rewards",
        } | ({} if clock is None else {"periods_per_time": clock.per_time(1.0)})


def prove(solution: Solution, policy: Policy, start: NDArray) -> Proof:
    """What ``policy`` surely loses at most, from ``start`` (S,)."""
    if isinstance(solution.mdp.criterion, CERTIFIED):
        made = certify(solution, policy, start)
        share = made.relative_loss
        relative = None if share is None else share.upper
        return Proof(made.mean_loss.upper, made.worst_loss.upper, relative, made)
    lost = loss(solution, policy, start)
    mean, worst = (figure + lost.error_bound for figure in (lost.mean, lost.worst))
    best = float((lost.start * solution.value).sum())
    least = abs(best) - solution.error_bound
    return Proof(mean, worst, mean / least if least > 0 else None)
