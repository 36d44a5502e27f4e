"""A certificate in a few figures, for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tessella.certificates.certificate import Certificate
    from tessella.certificates.gain_certificate import GainCertificate
    from tessella.certificates.total_certificate import TotalCertificate


def certificate_json(
    certificate: Certificate | GainCertificate | TotalCertificate,
) -> dict[str, Any]:
    """Errors and losses, each loss with its bounds.

    Certificates of averages and of totals say nothing about single decisions or a worst state.
    """
    from tessella.certificates.certificate import Certificate

    def interval_json(figure: Any) -> dict[str, float] | None:
        if figure is None:
            return None
        return {"value": float(figure), "lower": figure.lower, "upper": figure.upper}

    by_state = certificate if isinstance(certificate, Certificate) else None
    return {
        "policy_error": by_state and by_state.policy_error,
        "costly_error": by_state and by_state.costly_error,
        "mean_loss": interval_json(certificate.mean_loss),
        "relative_loss": interval_json(certificate.relative_loss),
        "worst_loss": interval_json(certificate.worst_loss),
        "worst_state": by_state and by_state.grid.describe(by_state.worst_state),
    }
