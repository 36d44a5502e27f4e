"""A certificate in words, for a reader who knows the business and not the mathematics."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np

from tessella.errors import format_exactly, with_article
from tessella.mdp.stages.events import average_unit
from tessella.rounding import (
    EPS,
    format_percent_bound,
    format_with_error_bound,
    round_down,
    round_up,
)
from tessella.support.text import format_money, format_percent

if TYPE_CHECKING:
    from tessella.certificates.certificate import Certificate, ConstrainedPart
    from tessella.certificates.interval import Interval
    from tessella.certificates.loss_bounds import Decomposition, LossBounds

LINE_WIDTH = 88  # characters
CAUSES_MAX_LINES = 5  # lines in a list of causes
WIDE_RELATIVE_WIDTH = 1e-3  # of the larger value: a wider interval is stated by its ends
CERTAINTY_TEXT = (
    "all rounding included; it is computed from the model, not estimated from runs. "
    "Whether the model fits the business is another question."
)
NOT_STATED_TEXT = "Not stated: which single decisions are optimal, and what each of them costs."
NOT_STATED_OF_AVERAGE = (
    " That takes bounds on the relative values too, which this certificate does not have; "
    "a solution has them."
)


def write_paragraphs(c: Certificate) -> list[str]:
    """Cost, places, causes, certainty, and what theory says: sentences, not broken into lines.

    A list has a line for each entry, which begins with spaces. What rests on a part that the
    certificate does not have is left out.
    """
    result = [] if c.constrained is None else [_describe_constraints(c, c.constrained)]
    result.append(_describe_cost(c))
    if c.figures is not None:
        result.append(_describe_differences(c))
    if c.decomposition is not None and c.mean_loss.lower > 0:
        result.append(_describe_causes(c, c.decomposition))
    result.append(_describe_certainty(c))
    if c.bounds is not None:
        return [*result, _describe_theory(c, c.bounds)]
    reason = "" if c.relative_values is None else NOT_STATED_OF_AVERAGE
    return [*result, NOT_STATED_TEXT + reason]


def write_summary(c: Certificate) -> str:
    """The paragraphs under a title, as plain text of short lines."""
    name = f'Certificate of the policy "{c.policy.name}"' if c.policy.name else "Certificate"
    model = f"{c.model}, " if c.model else ""
    headline = f"{name}: {model}{c.grid.size:,} states, {len(c.actions)} actions"
    paragraphs = [f"{headline}\n{'=' * len(headline)}"]
    for paragraph in c.paragraphs():
        lines = paragraph.split("\n")
        paragraphs.append("\n".join(s if s.startswith(" ") else wrap(s) for s in lines))
    return "\n\n".join(paragraphs)


def wrap(text: str) -> str:
    return textwrap.fill(text, LINE_WIDTH, break_long_words=False, break_on_hyphens=False)


def _describe_start(c: Certificate) -> str:
    if c.criterion.has_gain:
        return "In the long run, from every state"
    if c.criterion.requires_absorption:
        return "Until the end"
    weights = np.zeros(2) if c.start is None else c.start.ravel()
    if np.count_nonzero(weights) == 1:
        return f"Started in {c.grid.describe(int(weights.argmax()))}"
    if c.start is not None and (weights == weights[0]).all():
        return "On average over all states to start from"
    return "On average over the states it is started in"


def _describe_value(c: Certificate) -> str:
    if c.criterion.has_gain:
        return f"{c.sense.value} per period"
    if c.criterion.requires_absorption:
        return f"{c.sense.value} from the start"
    if c.criterion.has_horizon:
        return f"{c.sense.value} of {c.criterion.periods} periods"
    return f"long-run {c.sense.value}"


def _describe_unit(c: Certificate) -> str:
    return " per period" if c.criterion.has_gain else ""


def _is_wide(c: Certificate, figure: Interval) -> bool:
    """Whether so little is known of a figure that its middle would mislead."""
    ends = (end for mean in (c.optimal_mean, c.policy_mean) for end in (mean.lower, mean.upper))
    return figure.width > WIDE_RELATIVE_WIDTH * max(map(abs, ends))


def _format_mean(c: Certificate, mean: Interval) -> str:
    if not _is_wide(c, mean):
        return format_money(c.sense.display(mean))
    low, high = c.sense.display_interval(mean.lower, mean.upper)
    return f"between {round_down(low, 6)} and {round_up(high, 6)}"


def _format_relative(c: Certificate, share: Interval | None, where: str = "") -> str:
    """`` (3.1 % of the best value)``; nothing where the share is not known."""
    if share is None:
        return ""
    return f" ({format_percent(share)} of the best {c.sense.value}{where})"


def _describe_cost(c: Certificate) -> str:
    start = _describe_start(c)
    value = _describe_value(c)
    best = _format_mean(c, c.optimal_mean)
    if c.worst_loss.upper == 0:
        return (
            f"Cost: none. This policy is optimal. {start}, its {value} is {best}, "
            "and no policy does better from any state."
        )
    reached = _format_mean(c, c.policy_mean)
    text = f"Cost: {start[0].lower()}{start[1:]}, the best possible {value} "
    text += f"is {best} and this policy {c.sense.value_verb} {reached}. "
    return text + _describe_loss(c) + _describe_worst(c) + _describe_rate_of_time(c)


def _describe_constraints(c: Certificate, part: ConstrainedPart) -> str:
    sentences = []
    for constraint in part.constraints:
        ((key, level),) = constraint.bound.items()
        words = key.replace("_", " ")
        reached = (round_down if key == "at_least" else round_up)(constraint.proven[key], 6)
        required = f"{words} {format_exactly(level)}"
        sentences.append(f"{constraint.name} is {words} {reached} (required: {required}).")
    comparison = "costs less" if c.sense.is_cost else "earns more"
    bound = abs(c.policy_mean.lower + part.loss)
    share = (
        f" ({format_percent_bound(part.loss / bound)} of the bound)" if bound > part.loss else ""
    )
    return (
        f"Constraints: {' '.join(sentences)} This policy {c.sense.value_verb} "
        f"{_format_mean(c, c.policy_mean)}{_describe_unit(c)}; no policy that satisfies the "
        f"constraints, not even a randomised one, {comparison} by over "
        f"{round_up(part.loss, 4)}{_describe_unit(c)}{share}. "
        "All further figures compare with the best policy without constraints."
    )


def _describe_loss(c: Certificate) -> str:
    unit = _describe_unit(c)
    if _is_wide(c, c.mean_loss):
        ends = f"{round_down(c.mean_loss.lower, 4)} and {round_up(c.mean_loss.upper, 4)}"
        return f"Its {c.sense.loss} is between {ends}{unit}; this certificate proves no more."
    if c.mean_loss.lower <= 0:
        upper = round_up(c.mean_loss.upper, 4)
        return f"No {c.sense.loss} can be seen; it is at most {upper}{unit}."
    verb = "Its mean extra cost is" if c.sense.is_cost else "It gives away"
    text = f"{verb} {format_money(c.mean_loss)}{unit}{_format_relative(c, c.relative_loss)}"
    if c.figures is None:
        return f"{text}."
    # Values that sum rewards over known times, as a reward of every period.
    clock = None if c.mdp is None else c.mdp.clock
    times, unit = (1.0, "every period") if clock is None else average_unit(clock)
    per_period = times * c.criterion.equivalent_constant_reward(c.mean_loss)
    return f"{text}, as much as {format_money(per_period)} {unit}."


def _describe_worst(c: Certificate) -> str:
    if c.value_bounds is not None:
        return f" From the worst state it is at most {round_up(c.worst_loss.upper, 4)}."
    if c.figures is None or c.worst_loss.lower <= 0:
        return ""
    location = c.grid.describe(c.figures.worst_state)
    relative_loss = None if c.values is None else c.worst_relative_loss
    relative_text = _format_relative(c, relative_loss, " there")
    loss_text = f"{with_article(c.sense.loss)} of {format_money(c.worst_loss)}{relative_text}"
    return f" The worst state to start from is {location}, with {loss_text}."


def _describe_rate_of_time(c: Certificate) -> str:
    """The same per unit of time, of an average of a model made from rates."""
    clock = None if c.mdp is None else c.mdp.clock
    if clock is None or not c.criterion.has_gain or _is_wide(c, c.mean_loss):
        return ""
    best, reached = (
        format_money(c.sense.display(clock.per_time(mean)))
        for mean in (c.optimal_mean, c.policy_mean)
    )
    most = round_up(clock.per_time(c.mean_loss.upper) * (1 + 2 * EPS), 4)
    return (
        f" With {clock}, the best possible {c.sense.value} per unit of time is {best}, "
        f"this policy {c.sense.value_verb} {reached}, and its {c.sense.loss} is at most {most}."
    )


def _describe_differences(c: Certificate) -> str:
    count = round(c.policy_error * c.grid.size)
    costly = round(c.costly_error * c.grid.size)
    if not count:
        return "Differences: none. It takes the optimal action in every state."
    harmless = count - costly
    text = f"Differences: it does not take the optimal action in {count:,} of {c.grid.size:,} "
    text += f"states ({format_percent(c.policy_error)})"
    if c.bounds is not None:
        text += f", in which {format_percent(c.bounds.error_share)} of the time is spent"
        text += " (near periods count more, by the discount)" if c.criterion.discount < 1 else ""
    text += ". "
    if harmless > 0:
        text += f"In {harmless:,} of them its action is as good as the optimal one. "
    if costly and c.decisions is not None:
        costliest = format_money(c.local_losses.max())
        text += f"The costliest single decision costs {costliest}."
    return text


def _describe_causes(c: Certificate, decomposition: Decomposition) -> str:
    pair = decomposition.pair.value
    state = decomposition.state.value
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


def _describe_certainty(c: Certificate) -> str:
    word = c.sense.loss
    if c.worst_loss.upper == 0:
        return (
            f"Certainty: that the {word} is 0 is certain for this model, all rounding included. "
            "Whether the model fits the business is another question."
        )
    off = max(c.mean_loss.upper - c.mean_loss, c.mean_loss - c.mean_loss.lower)
    figure, error = format_with_error_bound(c.mean_loss, off * (1 + EPS))
    known = f"is {figure} and at most {error} off"
    if _is_wide(c, c.mean_loss):
        least = round_down(c.mean_loss.lower, 12)
        known = f"is at least {least} and at most {round_up(c.mean_loss.upper, 12)}"
    return f"Certainty: the average {word}{_describe_unit(c)} {known}, {CERTAINTY_TEXT}"


def _describe_theory(c: Certificate, bounds: LossBounds) -> str:
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
        text += f"{format_money(localisation.eps)} of each other is too close to decide. "
    else:
        text += (
            f"{localisation.exceptions:,} differences lie where the best two actions are more than "
        )
        example = c.grid.describe(localisation.example or 0)
        text += f"{format_money(localisation.eps)} apart, first at {example}. "
    if bounds.second_best.holds:
        text += "No difference is worse than the second-best action, so each costs its margin."
    return text.rstrip()
