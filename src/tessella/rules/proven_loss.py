"""What a rule surely loses: the upper ends of its losses, and the certificate that proves them.

A certificate can be checked by whoever has the model's file. Of an average it may be wider than the
gains are known, for that file's rounding and the checker's; then the bounds on the gains decide.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from tessella.certificates.certificate import Certificate
from tessella.certificates.certify import certify
from tessella.certificates.loss import loss
from tessella.criteria.average import Average
from tessella.mdp.policy import Policy
from tessella.solvers.solution import Solution

WIDE_ERROR_MULTIPLE = 8  # errors of the best gain: a certificate that is wider may not decide


@dataclass(frozen=True, eq=False)
class ProvenLoss:
    """What a policy surely loses at most.

    Attributes:
        mean: from the start.
        worst: from the worst state.
        relative: ``mean`` as a share of the optimal value; None where that may be 0.
        certificate: what proves it.
    """

    mean: float
    worst: float
    relative: float | None
    certificate: Certificate = field(repr=False)

    def collect_facts(self, solution: Solution) -> dict[str, Any]:
        """What the head of a file says: model and proven loss."""
        clock = solution.mdp.clock
        return {
            "model": solution.mdp.name,
            "fingerprint": solution.mdp.fingerprint,
            "mean_loss": self.mean,
            "relative_loss": self.relative,
            "worst_loss": self.worst,
            "certified": True,
            "told_in": "costs" if solution.mdp.minimise else "rewards",
        } | ({} if clock is None else {"periods_per_time": clock.per_time(1.0)})


def prove(solution: Solution, policy: Policy, start: NDArray) -> ProvenLoss:
    """What ``policy`` surely loses at most, from ``start`` (S,)."""
    certificate = certify(solution, policy, start)
    mean = certificate.mean_loss.upper
    relative_loss = certificate.relative_loss
    relative = None if relative_loss is None else relative_loss.upper
    if isinstance(solution.mdp.criterion, Average):
        if certificate.mean_loss.width > WIDE_ERROR_MULTIPLE * solution.error_bound:
            policy_loss = loss(solution, policy)
            upper = policy_loss.mean + policy_loss.error_bound
            relative = None if relative is None else relative * min(upper / mean, 1.0)
            mean = min(mean, upper)
        return ProvenLoss(mean, mean, relative, certificate)
    return ProvenLoss(mean, certificate.worst_loss.upper, relative, certificate)
