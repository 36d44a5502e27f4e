"""``tessella simulate MODEL``: playing a policy forward."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from tessella.cli.arguments import (
    describe_model,
    load_model,
    load_solution,
    model_argument,
    parse_start,
    policy_option,
    start_option,
)
from tessella.cli.command import Answer, as_command, format_table
from tessella.files import atomic_write

if TYPE_CHECKING:
    from tessella.mdp.simulate import Paths

SHOWN_MAX_PERIODS = 12  # periods of the first path


@as_command(
    "simulate",
    example="tessella simulate INV-Mix --periods 50 --start stock=3,regime=0\n"
    "tessella simulate INV-Mix --policy rule.json --paths 1000 -o paths.csv",
)
@model_argument
@policy_option
@click.option("--periods", type=click.IntRange(1), default=100, show_default=True)
@click.option("--paths", type=click.IntRange(1), default=100, show_default=True)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Same seed, same paths."
)
@start_option
@click.option("-o", "--out", type=click.Path(path_type=Path), help="All paths as CSV.")
def simulate_command(
    model: str,
    given: tuple[str, ...],
    policy: Path | None,
    periods: int,
    paths: int,
    seed: int,
    start: str | None,
    out: Path | None,
) -> Answer:
    """Play a policy forward on independent paths, and print what it earned."""
    from tessella.mdp.simulate import simulate

    if policy is None:
        chosen: Any = load_solution(model, given)
        mdp = chosen.mdp
    else:
        mdp = load_model(model, given)
        chosen = mdp.policy(policy)
    simulated = simulate(mdp, chosen, periods, seed, paths=paths, start=parse_start(mdp, start))
    returns = mdp.sense.display(simulated.returns)
    if out is not None:
        _write_csv(simulated, out)
    data = {
        "model": describe_model(mdp),
        "policy": "optimal" if policy is None else chosen.name,
        "periods": periods,
        "paths": paths,
        "seed": seed,
        "returns": {"mean": returns.mean(), "least": returns.min(), "most": returns.max()},
        "standard_error": returns.std(ddof=1) / np.sqrt(paths) if paths > 1 else None,
        "file": out,
    }
    lines = [str(simulated), "", "The first path:", _format_first_path(simulated)]
    return Answer("\n".join(lines + ([f"wrote {out}"] if out is not None else [])), data)


def _format_first_path(simulated: Paths) -> str:
    mdp = simulated.mdp
    end_periods = np.flatnonzero(simulated.actions[0] < 0)
    n_shown = min(
        SHOWN_MAX_PERIODS, end_periods[0] if end_periods.size else simulated.actions.shape[1]
    )
    points = mdp.grid.coordinates(simulated.states[0, :n_shown])
    columns = [[str(v) for v in points[name].tolist()] for name in mdp.grid.axes]
    actions = [str(mdp.actions[a]) for a in simulated.actions[0, :n_shown]]
    rewards = [f"{r:.4g}" for r in mdp.sense.display(simulated.rewards[0, :n_shown])]
    rows = list(zip(map(str, range(n_shown)), *columns, actions, rewards, strict=True))
    heads = ["period", *mdp.grid.axes, mdp.action_name, mdp.sense.unit]
    return format_table(rows, heads, alignment="r" * len(heads))


def _write_csv(simulated: Paths, out: Path) -> None:
    import pandas as pd

    mdp, (paths, periods) = simulated.mdp, simulated.actions.shape
    is_live = simulated.actions.ravel() >= 0
    states = simulated.states[:, :-1].ravel()[is_live]
    names = np.array([str(action) for action in mdp.actions])
    reserved = {*mdp.grid.axes, mdp.action_name}

    def free_name(name: str) -> str:
        """A column of ours, by a name that the model has not given."""
        return free_name(f"{name}_") if name in reserved else name

    frame = pd.DataFrame(
        {
            free_name("path"): np.repeat(np.arange(paths), periods)[is_live],
            free_name("period"): np.tile(np.arange(periods), paths)[is_live],
            **mdp.grid.coordinates(states),
            mdp.action_name: names[simulated.actions.ravel()[is_live]],
            free_name(mdp.sense.unit): mdp.sense.display(simulated.rewards.ravel()[is_live]),
        }
    )
    with atomic_write(out) as temporary:
        frame.to_csv(temporary, index=False)
