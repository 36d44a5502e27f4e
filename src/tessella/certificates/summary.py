"""A certificate in words, for a reader who knows the business and not the mathematics."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from tessella.errors import with_article
from tessella.mdp.stages.events import average_unit
from tessella.rounding import EPS, round_down, round_up, write_enclosed
from tessella.support.text import format_money, format_percent

if TYPE_CHECKING:
    from tessella.certificates.certificate import (
        AverageCertificate,
        BlockCertificate,
        Certificate,
        TotalCertificate,
        ValueCertificate,
    )
    from tessella.certificates.interval import Interval

LINE_WIDTH = 88  # characters
CAUSES_MAX_LINES = 5  # lines in a list of causes
WIDE_RELATIVE_WIDTH = 1e-3  # of the larger gain: a wider interval is stated by its ends
AVERAGE_NOT_STATED = (
    "Not stated: which single decisions are optimal, and what each of them costs. That takes "
    "bounds on the relative values too, which this certificate does not have; a solution has them."
)
CERTAINTY_TEXT = (
    "all rounding included; it is computed from the model, not estimated from runs. "
    "Whether the model fits the business is another question."
)
TOTAL_NOT_STATED = "Not stated: which single decisions are optimal, and what each of them costs."


def write_value_paragraphs(certificate: ValueCertificate) -> list[str]:
    """Cost, places, causes, certainty, and what theory says: sentences, not broken into lines.

    A list has a line for each entry, which begins with spaces.
    """
    result = [_describe_cost(certificate), _describe_differences(certificate)]
    if certificate.mean_loss.lower > 0:
        result.append(_describe_causes(certificate))
    return [*result, _describe_certainty(certificate), _describe_theory(certificate)]


def write_summary(certificate: Certificate) -> str:
    """The paragraphs under a title, as plain text of short lines."""
    paragraphs = [_write_title(certificate)]
    for paragraph in certificate.paragraphs():
        lines = paragraph.split("\n")
        paragraphs.append("\n".join(s if s.startswith(" ") else wrap(s) for s in lines))
    return "\n\n".join(paragraphs)


def format_with_error(figure: Interval) -> str:
    """``8.18912345678 and at most 3e-11``: a figure, and how far that text is off."""
    off = max(figure.upper - figure, figure - figure.lower)
    return " and at most ".join(write_enclosed(figure, off * (1 + EPS)))


def wrap(text: str) -> str:
    return textwrap.fill(text, LINE_WIDTH, break_long_words=False, break_on_hyphens=False)


def _write_title(c: Certificate) -> str:
    name = f'Certificate of the policy "{c.policy.name}"' if c.policy.name else "Certificate"
    model = f"{c.model}, " if c.model else ""
    headline = f"{name}: {model}{c.grid.size:,} states, {len(c.actions)} actions"
    return f"{headline}\n{'=' * len(headline)}"


def _describe_start(c: ValueCertificate) -> str:
    weights = c.start.ravel()
    if (weights == weights[0]).all():
        return "On average over all states to start from"
    if np.count_nonzero(weights) == 1:
        return f"Started in {c.grid.describe(int(weights.argmax()))}"
    return "On average over the states it is started in"


def format_by_sense(c: Certificate, value: float) -> str:
    return format_money(c.sense.display(value))


def _compare_values(c: Certificate, best: str, reached: str) -> str:
    return f"is {best} and this policy {c.sense.value_verb} {reached}. "


def _describe_unproven_loss(c: Certificate) -> str:
    return f"No {c.sense.loss} can be seen; it is at most {round_up(c.mean_loss.upper, 4)}"


def _format_relative(c: Certificate, share: Interval | None, where: str = "") -> str:
    """`` (3.1 % of the best value)``; nothing where the share is not known."""
    if share is None:
        return ""
    return f" ({format_percent(share)} of the best {c.sense.value}{where})"


def _describe_cost(c: ValueCertificate) -> str:
    start = _describe_start(c)
    best = format_by_sense(c, c.optimal_mean)
    value = f"long-run {c.sense.value}"
    if c.periods is not None:
        value = f"{c.sense.value} of {c.periods} periods"
    if c.worst_loss.upper == 0:
        return (
            f"Cost: none. This policy is optimal. {start}, its {value} is {best}, "
            "and no policy does better from any state."
        )
    text = f"Cost: {start[0].lower()}{start[1:]}, the best possible {value} "
    text += _compare_values(c, best, format_by_sense(c, c.policy_mean))
    if c.mean_loss.lower > 0:
        relative_text = _format_relative(c, c.relative_loss)
        clock = None if c.mdp is None else c.mdp.clock
        times, unit = (1.0, "every period") if clock is None else average_unit(clock)
        per_period = format_money(times * c.criterion.equivalent_constant_reward(c.mean_loss))
        loss_text = f"{format_money(c.mean_loss)}{relative_text}, as much as {per_period} {unit}. "
        verb = "Its mean extra cost is" if c.sense.is_cost else "It gives away"
        text += f"{verb} {loss_text}"
    else:
        text += f"{_describe_unproven_loss(c)}. "
    return text + _describe_worst(c)


def _describe_worst(c: ValueCertificate) -> str:
    if c.worst_loss.lower <= 0:
        return ""
    location = c.grid.describe(c.worst_state)
    relative_text = _format_relative(c, c.worst_relative_loss, " there")
    noun = with_article(c.sense.loss)
    loss_text = f"{noun} of {format_money(c.worst_loss)}{relative_text}"
    return f"The worst state to start from is {location}, with {loss_text}."


def _describe_differences(c: ValueCertificate) -> str:
    count = round(c.policy_error * c.grid.size)
    costly = round(c.costly_error * c.grid.size)
    if not count:
        return "Differences: none. It takes the optimal action in every state."
    harmless = count - costly
    text = f"Differences: it does not take the optimal action in {count:,} of {c.grid.size:,} "
    text += f"states ({format_percent(c.policy_error)}), in which "
    text += f"{format_percent(c.bounds.error_share)} of the time is spent" + (
        " (near periods count more, by the discount). " if c.discount < 1 else ". "
    )
    if harmless > 0:
        text += f"In {harmless:,} of them its action is as good as the optimal one. "
    if costly:
        costliest = format_money(c.local_losses.max())
        text += f"The costliest single decision costs {costliest}."
    return text


def _describe_causes(c: ValueCertificate) -> str:
    pair = c.decomposition.pair.value
    state = c.decomposition.state.value
    total = float(pair.sum())
    subject = c.action_name
    lines = [f"Causes: where the {format_money(c.mean_loss)} is {c.sense.loss_verb}"]
    for location in _find_largest(pair):
        best, taken = (c.actions[i] for i in np.unravel_index(location, pair.shape))
        amount = float(pair.flat[location])
        lines.append(
            f"  {100 * amount / total:5.1f} %  {format_money(amount):>10}  "
            f"{subject} {taken} where {best} is best"
        )
    costliest = [
        f"{c.grid.describe(location)} ({c.actions[c.policy.table.flat[location]]} instead of "
        f"{c.actions[c.optimal.flat[location]]}): {format_percent(state.flat[location] / total)}"
        for location in _find_largest(state)[:3]
    ]
    return "\n".join([*lines, f"The states that cost most: {'; '.join(costliest)}."])


def _find_largest(parts: np.ndarray) -> list[int]:
    order = np.argsort(-parts, axis=None, kind="stable")[:CAUSES_MAX_LINES]
    return [int(index) for index in order if parts.flat[index] > 0]


def _describe_certainty(c: ValueCertificate) -> str:
    word = c.sense.loss
    if c.worst_loss.upper > 0:
        mean_loss = format_with_error(c.mean_loss)
        return f"Certainty: the average {word} is {mean_loss} off, {CERTAINTY_TEXT}"
    return (
        f"Certainty: that the {word} is 0 is certain for this model, all rounding included. "
        "Whether the model fits the business is another question."
    )


def _describe_theory(c: ValueCertificate) -> str:
    bounds = c.bounds
    text = "Theory: "
    if bounds.error_share.upper == 0:
        return text + "without differences, every bound of the theory is 0 too."
    text += f"from the time spent in differing states alone, the {c.sense.loss} could be up to "
    text += f"{round_up(bounds.policy_error.upper, 4)}. "
    localisation = bounds.localisation
    if localisation.bound is not None:
        loss_bound = round_up(localisation.bound.upper, 4)
        text += "All differences lie where the best two actions are within "
        text += f"{format_money(localisation.eps)} of each other, "
        text += f"which bounds the {c.sense.loss} by {loss_bound}. "
    elif localisation.holds is None:
        text += "Whether all differences lie where the best two actions are within "
        text += f"{format_money(localisation.eps)} of each other is too close to tell. "
    else:
        text += (
            f"{localisation.exceptions:,} differences lie where the best two actions are more than "
        )
        example = c.grid.describe(localisation.example or 0)
        text += f"{format_money(localisation.eps)} apart, first at {example}. "
    if bounds.second_best.holds:
        text += "No difference is worse than the second-best action, so each costs its margin."
    return text.rstrip()


def write_average_paragraphs(certificate: AverageCertificate) -> list[str]:
    """Cost, certainty, and what is not stated."""
    cost = _describe_average_cost(certificate)
    return [cost, _describe_average_certainty(certificate), AVERAGE_NOT_STATED]


def _describe_average_cost(c: AverageCertificate) -> str:
    text = "Cost: in the long run, from every state, "
    text += f"the best possible {c.sense.value} per period "
    text += _compare_values(c, _format_gain(c, c.optimal_gain), _format_gain(c, c.policy_gain))
    if _is_wide(c, c.mean_loss):
        ends = f"{round_down(c.mean_loss.lower, 4)} and {round_up(c.mean_loss.upper, 4)}"
        text += f"Its {c.sense.loss} is between {ends} per period; "
        return text + "this certificate proves no more."
    if c.mean_loss.lower <= 0:
        return f"{text}{_describe_unproven_loss(c)} per period.{_describe_rate_of_time(c)}"
    relative_text = _format_relative(c, c.relative_loss)
    loss_text = f"{format_money(c.mean_loss)} per period{relative_text}."
    text += f"Its extra cost is {loss_text}" if c.sense.is_cost else f"It gives away {loss_text}"
    return text + _describe_rate_of_time(c)


def _describe_rate_of_time(c: AverageCertificate) -> str:
    """The same per unit of time, of a model made from rates."""
    clock = None if c.mdp is None else c.mdp.clock
    if clock is None:
        return ""
    best, reached = (
        format_by_sense(c, clock.per_time(gain)) for gain in (c.optimal_gain, c.policy_gain)
    )
    most = round_up(clock.per_time(c.mean_loss.upper) * (1 + 2 * EPS), 4)
    verb = c.sense.value_verb
    return (
        f" With {clock}, the best possible {c.sense.value} per unit of time is {best}, "
        f"this policy {verb} {reached}, and its {c.sense.loss} is at most {most}."
    )


def _is_wide(c: AverageCertificate, figure: Interval) -> bool:
    """Whether so little is known of a figure that its middle would mislead."""
    sizes = (
        abs(end) for gain in (c.optimal_gain, c.policy_gain) for end in (gain.lower, gain.upper)
    )
    return figure.width > WIDE_RELATIVE_WIDTH * max(sizes)


def _format_gain(c: AverageCertificate, gain: Interval) -> str:
    if not _is_wide(c, gain):
        return format_by_sense(c, gain)
    low, high = c.sense.display_interval(gain.lower, gain.upper)
    return f"between {round_down(low, 6)} and {round_up(high, 6)}"


def _describe_average_certainty(c: AverageCertificate) -> str:
    known = f"is {format_with_error(c.mean_loss)} off"
    if _is_wide(c, c.mean_loss):
        least = round_down(c.mean_loss.lower, 12)
        known = f"is at least {least} and at most {round_up(c.mean_loss.upper, 12)}"
    return f"Certainty: the {c.sense.loss} per period {known}, {CERTAINTY_TEXT}"


def write_total_paragraphs(certificate: TotalCertificate) -> list[str]:
    """Cost, certainty, and what is not stated."""
    word = certificate.sense.loss
    certainty = (
        f"Certainty: the {word} is {format_with_error(certificate.mean_loss)} off, {CERTAINTY_TEXT}"
    )
    return [_describe_total_cost(certificate), certainty, TOTAL_NOT_STATED]


def _describe_total_cost(c: TotalCertificate) -> str:
    text = f"Cost: until the end, the best possible {c.sense.value} from the start "
    best, reached = (format_by_sense(c, mean) for mean in (c.optimal_mean, c.policy_mean))
    text += _compare_values(c, best, reached)
    if c.mean_loss.lower <= 0:
        text += _describe_unproven_loss(c)
    else:
        relative_text = _format_relative(c, c.relative_loss)
        text += f"The {c.sense.loss} is {format_money(c.mean_loss)}{relative_text}"
    return f"{text}, and from the worst state at most {round_up(c.worst_loss.upper, 4)}."


def write_block_paragraphs(c: BlockCertificate) -> list[str]:
    """The figures of a very large model in a few sentences."""
    name = f'"{c.policy.name}"' if c.policy.name else "the policy"
    relative_text = "" if c.relative_loss is None else f" ({format_percent(c.relative_loss)})"
    return [
        f"{c.model or 'MDP'}, {c.grid.size:,} states: the mean {c.sense.loss} of {name} is "
        f"{format_with_error(c.mean_loss)} off{relative_text}, and at most "
        f"{round_up(c.worst_loss.upper, 4)} from any state. It does not take the optimal "
        f"action in {format_percent(c.policy_error)} of the states. "
        "All rounding is included."
    ]
