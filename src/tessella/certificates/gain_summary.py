"""The certificate of an average in words."""

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
from tessella.rounding import EPS, round_down, round_up

if TYPE_CHECKING:
    from tessella.certificates.gain_certificate import GainCertificate
    from tessella.certificates.interval import Interval

WIDE_RELATIVE_WIDTH = 1e-3  # of the larger gain: a wider interval is stated by its ends
NOT_STATED_TEXT = (
    "Not stated: which single decisions are optimal, and what each of them costs. That takes "
    "bounds on the relative values too, which this certificate does not have; a solution has them."
)


def write_average_paragraphs(certificate: GainCertificate) -> list[str]:
    """Cost, certainty, and what is not stated."""
    return [_describe_cost(certificate), _describe_certainty(certificate), NOT_STATED_TEXT]


def _describe_cost(c: GainCertificate) -> str:
    text = "Cost: in the long run, from every state, "
    text += f"the best possible {choose_value_word(c)} per period "
    text += f"is {_gain(c, c.optimal_gain)} and this policy "
    text += f"{'costs' if c.minimise else 'reaches'} {_gain(c, c.policy_gain)}. "
    if _wide(c, c.loss):
        ends = f"{round_down(c.loss.lower, 4)} and {round_up(c.loss.upper, 4)}"
        text += f"Its {choose_loss_word(c)} is between {ends} per period; "
        return text + "this certificate proves no more."
    if c.loss.lower <= 0:
        limit = round_up(c.loss.upper, 4)
        text += f"No {choose_loss_word(c)} can be seen; it is at most {limit} per period."
        return text + _by_time(c)
    relative_loss = c.relative_loss
    relative_text = (
        ""
        if relative_loss is None
        else f" ({format_percent(relative_loss)} of the best {choose_value_word(c)})"
    )
    loss_text = f"{format_money(c.loss)} per period{relative_text}."
    text += f"Its extra cost is {loss_text}" if c.minimise else f"It gives away {loss_text}"
    return text + _by_time(c)


def _by_time(c: GainCertificate) -> str:
    """The same per unit of time, of a model made from rates."""
    clock = None if c.mdp is None else c.mdp.clock
    if clock is None:
        return ""
    best, reached = (
        format_by_sense(c, clock.per_time(gain)) for gain in (c.optimal_gain, c.policy_gain)
    )
    most = round_up(clock.per_time(c.loss.upper) * (1 + 2 * EPS), 4)
    verb = "costs" if c.minimise else "reaches"
    return (
        f" With {clock}, the best possible {choose_value_word(c)} per unit of time is {best}, "
        f"this policy {verb} {reached}, and its {choose_loss_word(c)} is at most {most}."
    )


def _wide(c: GainCertificate, figure: Interval) -> bool:
    """Whether so little is known of a figure that its middle would mislead."""
    sizes = (
        abs(end) for gain in (c.optimal_gain, c.policy_gain) for end in (gain.lower, gain.upper)
    )
    return figure.width > WIDE_RELATIVE_WIDTH * max(sizes)


def _gain(c: GainCertificate, gain: Interval) -> str:
    if not _wide(c, gain):
        return format_by_sense(c, gain)
    low, high = (-gain.upper, -gain.lower) if c.minimise else (gain.lower, gain.upper)
    return f"between {round_down(low, 6)} and {round_up(high, 6)}"


def _describe_certainty(c: GainCertificate) -> str:
    known = f"is {certain(c.loss)} off"
    if _wide(c, c.loss):
        known = (
            f"is at least {round_down(c.loss.lower, 12)} and at most {round_up(c.loss.upper, 12)}"
        )
    return (
        f"Certainty: the {choose_loss_word(c)} per period {known}, all "
        "rounding included; it is computed from the model, not estimated from runs. Whether the "
        "model fits the business is another question."
    )
