"""A certificate in a few figures, for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tessella.certificates.certificate import Certificate


def verdict(certificate: Certificate) -> dict[str, Any]:
    """Errors and losses, each loss with its bounds."""

    def enclosed(figure: Any) -> dict[str, float] | None:
        if figure is None:
            return None
        return {"value": float(figure), "lower": figure.lower, "upper": figure.upper}

    return {
        "policy_error": certificate.policy_error,
        "costly_error": certificate.costly_error,
        "mean_loss": enclosed(certificate.mean_loss),
        "relative_loss": enclosed(certificate.relative_loss),
        "worst_loss": enclosed(certificate.worst_loss),
        "worst_state": certificate.grid.describe(certificate.worst_state),
    }
