"""``tessella diff MODEL A B``: what changes if one policy takes the place of another."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tessella.cli.command import Answer, as_command
from tessella.cli.model import about, model_of, solution_of, start_of, takes_model, takes_start

if TYPE_CHECKING:
    from tessella.mdp.model import MDP

OPTIMAL = "optimal"


@as_command(
    "diff",
    example="tessella diff INV-Mix old.csv rule.json\ntessella diff INV-Mix optimal rule.json",
)
@takes_model
@click.argument("a")
@click.argument("b")
@takes_start
def command(model: str, given: tuple[str, ...], a: str, b: str, start: str | None) -> Answer:
    """Say what changes from one policy to another, in states and money.

    A and B are saved rules or policies (.json), tables (.csv), or the word optimal.
    """
    from tessella.rules.diff import diff

    mdp = model_of(model, given)
    best = solution_of(model, given).policy if OPTIMAL in (a, b) else None
    found = diff(mdp, *(_policy(mdp, word, best) for word in (a, b)), start=start_of(mdp, start))
    data = {
        "model": about(mdp),
        "a": found.a.name,
        "b": found.b.name,
        "states": int(found.where.sum()),
        "gain": found.gain,
        "time_a": found.time_a,
        "time_b": found.time_b,
        "changes": [
            {"from": str(mdp.actions[x]), "to": str(mdp.actions[y]), "states": n, "gain": part}
            for x, y, n, part in found.pairs
        ],
    }
    return Answer(str(found), data)


def _policy(mdp: MDP, word: str, best: Any) -> Any:
    return best if word == OPTIMAL else mdp.policy(Path(word))
