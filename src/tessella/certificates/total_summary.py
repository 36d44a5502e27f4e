"""The certificate of a total in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessella.certificates.summary import (
    certain,
    choose_loss_word,
    choose_value_word,
    format_by_sense,
    format_money,
    format_percent,
)
from tessella.rounding import round_up

if TYPE_CHECKING:
    from tessella.certificates.total_certificate import TotalCertificate

NOT_STATED = "Not stated: which single decisions are optimal, and what each of them costs."


def paragraphs(certificate: TotalCertificate) -> list[str]:
    """Cost, certainty, and what is not stated."""
    return [_cost(certificate), _certainty(certificate), NOT_STATED]


def _cost(c: TotalCertificate) -> str:
    text = f"Cost: until the end, the best possible {choose_value_word(c)} from the start is "
    text += f"{format_by_sense(c, c.optimal_mean)} and this policy "
    text += f"{'costs' if c.minimise else 'reaches'} {format_by_sense(c, c.policy_mean)}. "
    if c.mean_loss.lower <= 0:
        text += (
            f"No {choose_loss_word(c)} can be seen; it is at most {round_up(c.mean_loss.upper, 4)}"
        )
    else:
        share = c.relative_loss
        relative = (
            ""
            if share is None
            else f" ({format_percent(share)} of the best {choose_value_word(c)})"
        )
        text += f"The {choose_loss_word(c)} is {format_money(c.mean_loss)}{relative}"
    return f"{text}, and from the worst state at most {round_up(c.worst_loss.upper, 4)}."


def _certainty(c: TotalCertificate) -> str:
    return (
        f"Certainty: the {choose_loss_word(c)} is {certain(c.mean_loss)} off, all rounding "
        "included; it is computed from the model, not estimated from runs. Whether the model fits "
        "the business is another question."
    )
