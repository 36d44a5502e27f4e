"""What a rule surely loses: the upper ends of its losses, and the certificate that proves them.

A certificate can be checked by whoever has the model's file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from tessella.certificates.certificate import Certificate
from tessella.certificates.certify import certify
from tessella.certificates.gain_certificate import GainCertificate
from tessella.certificates.total_certificate import TotalCertificate
from tessella.mdp.policy import Policy
from tessella.solvers.solution import Solution


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
    certificate: Certificate | GainCertificate | TotalCertificate = field(repr=False)

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
    relative_loss = certificate.relative_loss
    relative = None if relative_loss is None else relative_loss.upper
    return ProvenLoss(
        certificate.mean_loss.upper, certificate.worst_loss.upper, relative, certificate
    )
