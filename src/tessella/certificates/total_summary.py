"""The certificate of a total in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessella.certificates.summary import certain, loss_word, money, percent, shown, value_word
from tessella.rounding import round_up

if TYPE_CHECKING:
    from tessella.certificates.total_certificate import TotalCertificate

NOT_STATED = "Not stated: which single decisions are optimal, and what each of them costs."


def paragraphs(certificate: TotalCertificate) -> list[str]:
    """Cost, certainty, and what is not stated."""
    return [_cost(certificate), _certainty(certificate), NOT_STATED]


def _cost(c: TotalCertificate) -> str:
    text = f"Cost: until the end, the best possible {value_word(c)} from the start is "
    text += f"{shown(c, c.optimal_mean)} and this policy "
    text += f"{'costs' if c.minimise else 'reaches'} {shown(c, c.policy_mean)}. "
    if c.mean_loss.lower <= 0:
        text += f"No {loss_word(c)} can be seen; it is at most {round_up(c.mean_loss.upper, 4)}"
    else:
        share = c.relative_loss
        relative = "" if share is None else f" ({percent(share)} of the best {value_word(c)})"
        text += f"The {loss_word(c)} is {money(c.mean_loss)}{relative}"
    return f"{text}, and from the worst state at most {round_up(c.worst_loss.upper, 4)}."


def _certainty(c: TotalCertificate) -> str:
    return (
        f"Certainty: the {loss_word(c)} is {certain(c.mean_loss)} off, all rounding "
        "included; it is computed from the model, not estimated from runs. Whether the model fits "
        "the business is another question."
    )
