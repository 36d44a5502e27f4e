"""``tessella simulate MODEL``: playing a policy forward."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from tessella.cli.command import Answer, as_command, table
from tessella.cli.model import about, model_of, solution_of, start_of, takes_model, takes_start
from tessella.cli.policy import takes_policy

if TYPE_CHECKING:
    from tessella.mdp.simulate import Paths

SHOWN = 12  # periods of the first path


@as_command(
    "simulate",
    example="tessella simulate INV-Mix --periods 50 --start stock=3,regime=0\n"
    "tessella simulate INV-Mix --policy rule.json --paths 1000 -o paths.csv",
)
@takes_model
@takes_policy
@click.option("--periods", type=click.IntRange(1), default=100, show_default=True)
@click.option("--paths", type=click.IntRange(1), default=100, show_default=True)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Same seed, same paths."
)
@takes_start
@click.option("-o", "--out", type=click.Path(path_type=Path), help="All paths as CSV.")
def command(
    model: str,
    given: tuple[str, ...],
    policy: Path | None,
    periods: int,
    paths: int,
    seed: int,
    start: str | None,
    out: Path | None,
) -> Answer:
    """Play a policy forward on independent paths, and say what it earned."""
    from tessella.mdp.simulate import simulate

    if policy is None:
        chosen: Any = solution_of(model, given)
        mdp = chosen.mdp
    else:
        mdp = model_of(model, given)
        chosen = mdp.policy(policy)
    walked = simulate(mdp, chosen, periods, seed, paths=paths, start=start_of(mdp, start))
    returns = walked.returns * (-1 if mdp.minimise else 1)
    if out is not None:
        _write(walked, out)
    data = {
        "model": about(mdp),
        "policy": "optimal" if policy is None else chosen.name,
        "periods": periods,
        "paths": paths,
        "seed": seed,
        "returns": {"mean": returns.mean(), "least": returns.min(), "most": returns.max()},
        "standard_error": returns.std(ddof=1) / np.sqrt(paths) if paths > 1 else None,
        "file": None if out is None else str(out),
    }
    lines = [str(walked), "", "The first path:", _first(walked)]
    return Answer("\n".join(lines + ([f"wrote {out}"] if out is not None else [])), data)


def _first(walked: Paths) -> str:
    mdp = walked.mdp
    ended = np.flatnonzero(walked.actions[0] < 0)
    shown = min(SHOWN, ended[0] if ended.size else walked.actions.shape[1])
    points = mdp.grid.coordinates(walked.states[0, :shown])
    columns = [[str(v) for v in points[name].tolist()] for name in mdp.grid.axes]
    actions = [str(mdp.actions[a]) for a in walked.actions[0, :shown]]
    sign = -1 if mdp.minimise else 1
    rewards = [f"{sign * r:.4g}" for r in walked.rewards[0, :shown]]
    rows = list(zip(map(str, range(shown)), *columns, actions, rewards, strict=True))
    earned = "cost" if mdp.minimise else "reward"
    heads = ["period", *mdp.grid.axes, mdp.action_name, earned]
    return table(rows, heads, right="r" * len(heads))


def _write(walked: Paths, out: Path) -> None:
    import pandas as pd

    from tessella.files import writing

    mdp, (paths, periods) = walked.mdp, walked.actions.shape
    live = walked.actions.ravel() >= 0
    states = walked.states[:, :-1].ravel()[live]
    names = np.array([str(action) for action in mdp.actions])
    sign, earned = (-1, "cost") if mdp.minimise else (1, "reward")
    taken = {*mdp.grid.axes, mdp.action_name}

    def own(name: str) -> str:
        """A column of ours, by a name that the model has not given."""
        return own(f"{name}_") if name in taken else name

    frame = pd.DataFrame(
        {
            own("path"): np.repeat(np.arange(paths), periods)[live],
            own("period"): np.tile(np.arange(periods), paths)[live],
            **mdp.grid.coordinates(states),
            mdp.action_name: names[walked.actions.ravel()[live]],
            own(earned): sign * walked.rewards.ravel()[live],
        }
    )
    with writing(out) as part:
        frame.to_csv(part, index=False)
