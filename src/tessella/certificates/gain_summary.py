"""The certificate of an average in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessella.certificates.summary import at_most, loss_word, money, percent, shown, value_word

if TYPE_CHECKING:
    from tessella.certificates.gain_certificate import GainCertificate

NOT_STATED = (
    "Not stated: which single decisions are optimal, and what each of them costs. That takes "
    "bounds on the relative values too, which this certificate does not have; a solution has them."
)


def paragraphs(certificate: GainCertificate) -> list[str]:
    """Cost, certainty, and what is not stated."""
    return [_cost(certificate), _certainty(certificate), NOT_STATED]


def _cost(c: GainCertificate) -> str:
    text = f"Cost: in the long run, from every state, the best possible {value_word(c)} per period "
    text += f"is {shown(c, c.optimal_gain)} and this policy "
    text += f"{'costs' if c.minimise else 'reaches'} {shown(c, c.policy_gain)}. "
    if c.loss.lower <= 0:
        most = money(c.loss.upper)
        return text + f"No {loss_word(c)} can be seen; it is at most {most} per period."
    share = c.relative_loss
    relative = "" if share is None else f" ({percent(share)} of the best {value_word(c)})"
    lost = f"{money(c.loss)} per period{relative}."
    return text + (f"Its extra cost is {lost}" if c.minimise else f"It gives away {lost}")


def _certainty(c: GainCertificate) -> str:
    off = at_most(max(c.loss.upper - c.loss, c.loss - c.loss.lower))
    return (
        f"Certainty: the {loss_word(c)} per period is {c.loss:.12g} and at most {off} off, all "
        "rounding included; it is computed from the model, not estimated from runs. Whether the "
        "model fits the business is another question."
    )
