"""A certificate in a few figures, for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tessella.certificates.certificate import Certificate


def certificate_json(certificate: Certificate) -> dict[str, Any]:
    """Errors and losses, each loss with its bounds.

    Certificates of averages and of totals say nothing about single decisions or a worst state.
    """

    def interval_json(figure: Any) -> dict[str, float] | None:
        if figure is None:
            return None
        return {"value": float(figure), "lower": figure.lower, "upper": figure.upper}

    state = certificate.worst_state
    return {
        "policy_error": certificate.policy_error,
        "costly_error": certificate.costly_error,
        "mean_loss": interval_json(certificate.mean_loss),
        "relative_loss": interval_json(certificate.relative_loss),
        "worst_loss": interval_json(certificate.worst_loss),
        "worst_state": None if state is None else certificate.grid.describe(state),
    }
