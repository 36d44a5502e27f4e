"""The certificate of an average in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tessella.certificates.summary import at_most, loss_word, money, percent, shown, value_word

if TYPE_CHECKING:
    from tessella.certificates.enclosure import Enclosed
    from tessella.certificates.gain_certificate import GainCertificate

WIDE = 1e-3  # of the larger gain: a figure whose enclosure is wider is told by its ends
NOT_STATED = (
    "Not stated: which single decisions are optimal, and what each of them costs. That takes "
    "bounds on the relative values too, which this certificate does not have; a solution has them."
)


def paragraphs(certificate: GainCertificate) -> list[str]:
    """Cost, certainty, and what is not stated."""
    return [_cost(certificate), _certainty(certificate), NOT_STATED]


def _cost(c: GainCertificate) -> str:
    text = f"Cost: in the long run, from every state, the best possible {value_word(c)} per period "
    text += f"is {_gain(c, c.optimal_gain)} and this policy "
    text += f"{'costs' if c.minimise else 'reaches'} {_gain(c, c.policy_gain)}. "
    if _wide(c, c.loss):
        ends = f"{money(c.loss.lower)} and {money(c.loss.upper)}"
        return text + f"Its {loss_word(c)} is between {ends} per period; float64 tells no more."
    if c.loss.lower <= 0:
        most = money(c.loss.upper)
        return text + f"No {loss_word(c)} can be seen; it is at most {most} per period."
    share = c.relative_loss
    relative = "" if share is None else f" ({percent(share)} of the best {value_word(c)})"
    lost = f"{money(c.loss)} per period{relative}."
    return text + (f"Its extra cost is {lost}" if c.minimise else f"It gives away {lost}")


def _wide(c: GainCertificate, figure: Enclosed) -> bool:
    """Whether so little is known of a figure that its middle would mislead."""
    sizes = (
        abs(end) for gain in (c.optimal_gain, c.policy_gain) for end in (gain.lower, gain.upper)
    )
    return figure.width > WIDE * max(sizes)


def _gain(c: GainCertificate, gain: Enclosed) -> str:
    if not _wide(c, gain):
        return shown(c, gain)
    low, high = sorted((gain.lower, gain.upper), key=lambda end: -end if c.minimise else end)
    return f"between {shown(c, low)} and {shown(c, high)}"


def _certainty(c: GainCertificate) -> str:
    off = at_most(max(c.loss.upper - c.loss, c.loss - c.loss.lower))
    known = f"is {c.loss:.12g} and at most {off} off"
    if _wide(c, c.loss):
        known = f"is at least {c.loss.lower:.12g} and at most {c.loss.upper:.12g}"
    return (
        f"Certainty: the {loss_word(c)} per period {known}, all "
        "rounding included; it is computed from the model, not estimated from runs. Whether the "
        "model fits the business is another question."
    )
