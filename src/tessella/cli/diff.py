"""``tessella diff MODEL A B``: what changes if one policy takes the place of another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tessella.cli.command import Answer, as_command
from tessella.cli.model_argument import (
    describe_model,
    load_model,
    load_solution,
    model_argument,
    parse_start,
    start_option,
)

if TYPE_CHECKING:
    from tessella.mdp.model import MDP

OPTIMAL_WORD = "optimal"


@as_command(
    "diff",
    example="tessella diff INV-Mix old.csv rule.json\ntessella diff INV-Mix optimal rule.json",
)
@model_argument
@click.argument("a")
@click.argument("b")
@start_option
def command(model: str, given: tuple[str, ...], a: str, b: str, start: str | None) -> Answer:
    """Show what changes from one policy to another, in states and money.

    A and B are saved rules or policies (.json), tables (.csv), or the word optimal.
    """
    from tessella.rules.diff import diff

    mdp = load_model(model, given)
    optimal_policy = load_solution(model, given).policy if OPTIMAL_WORD in (a, b) else None
    difference = diff(
        mdp,
        *(_read_policy(mdp, word, optimal_policy) for word in (a, b)),
        start=parse_start(mdp, start),
    )
    data = {
        "model": describe_model(mdp),
        "a": difference.a.name,
        "b": difference.b.name,
        "states": int(difference.where.sum()),
        "gain": difference.gain,
        "time_a": difference.time_a,
        "time_b": difference.time_b,
        "changes": [
            {"from": str(mdp.actions[x]), "to": str(mdp.actions[y]), "states": n, "gain": part}
            for x, y, n, part in difference.pairs
        ],
    }
    return Answer(str(difference), data)


def _read_policy(mdp: MDP, word: str, optimal_policy: Any) -> Any:
    return optimal_policy if word == OPTIMAL_WORD else mdp.policy(Path(word))
