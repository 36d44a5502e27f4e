"""A certificate in words, for a reader who knows the business and not the mathematics."""

from __future__ import annotations

import math
import textwrap
from typing import TYPE_CHECKING

import numpy as np

from tessella.mdp.stages.events import average_unit
from tessella.rounding import EPS, round_up, write_enclosed

if TYPE_CHECKING:
    from tessella.certificates.certificate import Certificate
    from tessella.certificates.enclosure import Enclosed
    from tessella.certificates.statement import Statement

WIDTH = 88
MOST = 5  # lines in a list of causes


def paragraphs(certificate: Certificate) -> list[str]:
    """Cost, places, causes, certainty, and what theory says: sentences, not broken into lines.

    A list has a line for each entry, which begins with spaces.
    """
    parts = [_cost(certificate), _differences(certificate)]
    if certificate.mean_loss.lower > 0:
        parts.append(_causes(certificate))
    return [*parts, _certainty(certificate), _theory(certificate)]


def summary(certificate: Statement) -> str:
    """The paragraphs under a title, as plain text of short lines."""
    told = ["\n".join(map(_broken, part.split("\n"))) for part in certificate.paragraphs()]
    return "\n\n".join([_title(certificate), *told])


def _broken(line: str) -> str:
    return line if line.startswith(" ") else wrap(line)


def money(amount: float) -> str:
    """Four digits, written out: 8.189, 12,340, 0.0004321."""
    if amount == 0:
        return "0"
    size = math.floor(math.log10(abs(amount)))
    return f"{amount:.2e}" if size < -6 else f"{amount:,.{max(3 - size, 0)}f}"


def percent(share: float) -> str:
    if share == 0:
        return "0 %"
    if abs(share) < 1e-5:
        return "less than 0.001 %"
    return f"{100 * share:.3g} %" if abs(share) < 1 else f"{100 * share:,.0f} %"


def certain(figure: Enclosed) -> str:
    """``8.18912345678 and at most 3e-11``: a figure, and how far that text is off."""
    off = max(figure.upper - figure, figure - figure.lower)
    return " and at most ".join(write_enclosed(figure, off * (1 + EPS)))


def wrap(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _title(c: Statement) -> str:
    name = f'Certificate of the policy "{c.policy.name}"' if c.policy.name else "Certificate"
    model = f"{c.model}, " if c.model else ""
    head = f"{name}: {model}{c.grid.size:,} states, {len(c.actions)} actions"
    return f"{head}\n{'=' * len(head)}"


def _start(c: Certificate) -> str:
    weights = c.start.ravel()
    if (weights == weights[0]).all():
        return "On average over all states to start from"
    if np.count_nonzero(weights) == 1:
        return f"Started in {c.grid.describe(int(weights.argmax()))}"
    return "On average over the states it is started in"


def value_word(c: Statement) -> str:
    """What a value is called: a model told in costs has costs."""
    return "cost" if c.minimise else "value"


def loss_word(c: Statement) -> str:
    return "extra cost" if c.minimise else "loss"


def shown(c: Statement, value: float) -> str:
    return money(-value if c.minimise else value)


def _value(c: Certificate) -> str:
    what = value_word(c)
    return f"long-run {what}" if c.periods is None else f"{what} of {c.periods} periods"


def _cost(c: Certificate) -> str:
    if c.worst_loss.upper == 0:
        return (
            f"Cost: none. This policy is optimal. {_start(c)}, its {_value(c)} is "
            f"{shown(c, c.optimal_mean)}, and no policy does better from any state."
        )
    start, reached = _start(c), shown(c, c.policy_mean)
    text = f"Cost: {start[0].lower()}{start[1:]}, the best possible {_value(c)} is "
    text += f"{shown(c, c.optimal_mean)} and this policy "
    text += f"costs {reached}. " if c.minimise else f"reaches {reached}. "
    if c.mean_loss.lower > 0:
        share = c.relative_loss
        relative = "" if share is None else f" ({percent(share)} of the best {value_word(c)})"
        clock = None if c.mdp is None else c.mdp.clock
        times, unit = (1.0, "every period") if clock is None else average_unit(clock)
        each = money(times * c.criterion.per_period(c.mean_loss))
        lost = f"{money(c.mean_loss)}{relative}, as much as {each} {unit}. "
        text += f"Its mean extra cost is {lost}" if c.minimise else f"It gives away {lost}"
    else:
        text += f"No {loss_word(c)} can be seen; it is at most {round_up(c.mean_loss.upper, 4)}. "
    return text + _worst(c)


def _worst(c: Certificate) -> str:
    if c.worst_loss.lower <= 0:
        return ""
    where = c.grid.describe(c.worst_state)
    share = c.worst_relative_loss
    relative = "" if share is None else f" ({percent(share)} of the best {value_word(c)} there)"
    lost = "an extra cost" if c.minimise else "a loss"
    return (
        f"The worst state to start from is {where}, with {lost} of {money(c.worst_loss)}{relative}."
    )


def _differences(c: Certificate) -> str:
    count, costly = round(c.policy_error * c.grid.size), round(c.costly_error * c.grid.size)
    if not count:
        return "Differences: none. It takes the optimal action in every state."
    harmless = count - costly
    text = f"Differences: it does not take the optimal action in {count:,} of {c.grid.size:,} "
    text += f"states ({percent(c.policy_error)}), in which {percent(c.bounds.error_share)} of the "
    text += "time is spent" + (
        " (near periods count more, by the discount). " if c.discount < 1 else ". "
    )
    if harmless > 0:
        text += f"In {harmless:,} of them its action is as good as the optimal one. "
    if costly:
        costliest = money(c.local_losses.max())
        text += f"The costliest single decision costs {costliest}."
    return text


def _causes(c: Certificate) -> str:
    pair, state = c.decomposition.pair.value, c.decomposition.state.value
    whole = float(pair.sum())
    what = c.action_name
    lines = [f"Causes: where the {money(c.mean_loss)} is {'spent' if c.minimise else 'lost'}"]
    for place in _largest(pair):
        best, taken = (c.actions[i] for i in np.unravel_index(place, pair.shape))
        amount = float(pair.flat[place])
        lines.append(
            f"  {100 * amount / whole:5.1f} %  {money(amount):>10}  "
            f"{what} {taken} where {best} is best"
        )
    costliest = [
        f"{c.grid.describe(place)} ({c.actions[c.policy.table.flat[place]]} instead of "
        f"{c.actions[c.optimal.flat[place]]}): {percent(state.flat[place] / whole)}"
        for place in _largest(state)[:3]
    ]
    return "\n".join([*lines, f"The states that cost most: {'; '.join(costliest)}."])


def _largest(parts: np.ndarray) -> list[int]:
    order = np.argsort(-parts, axis=None, kind="stable")[:MOST]
    return [int(place) for place in order if parts.flat[place] > 0]


def _certainty(c: Certificate) -> str:
    loss = c.mean_loss
    if c.worst_loss.upper == 0:
        text = f"that the {loss_word(c)} is 0 is certain for this model, all rounding included"
    else:
        text = f"the average {loss_word(c)} is {certain(loss)} off, all rounding "
        text += "included; it is computed from the model, not estimated from runs"
    return f"Certainty: {text}. Whether the model fits the business is another question."


def _theory(c: Certificate) -> str:
    b = c.bounds
    text = "Theory: "
    if b.error_share.upper == 0:
        return text + "without differences, every bound of the theory is 0 too."
    text += f"from the time spent in differing states alone, the {loss_word(c)} could be up to "
    text += f"{round_up(b.policy_error.upper, 4)}. "
    near = b.localisation
    if near.holds:
        text += f"All differences lie where the best two actions are within {money(near.eps)} of "
        bound = round_up(near.bound.upper, 4)  # type: ignore[union-attr]
        text += f"each other, which bounds the {loss_word(c)} by {bound}. "
    elif near.holds is None:
        text += "Whether all differences lie where the best two actions are within "
        text += f"{money(near.eps)} of each other is too close to tell. "
    else:
        text += f"{near.exceptions:,} differences lie where the best two actions are more than "
        text += f"{money(near.eps)} apart, first at {c.grid.describe(near.example or 0)}. "
    if b.second_best.holds:
        text += "No difference is worse than the second-best action, so each costs its margin."
    return text.rstrip()
