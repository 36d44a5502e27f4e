"""``tessella bench MODEL...``: how long building and solving take here."""

from __future__ import annotations

import time
from typing import Any

import click

from tessella.cli.command import Answer, as_command, format_table
from tessella.cli.model_argument import ModelParam, describe_model, load_model
from tessella.rounding import round_up

DEFAULT_MODELS = ("QUE-Mix", "INV-Mix", "INV-Hard")


@as_command("bench", example="tessella bench\ntessella bench model.toml lost_sales --repeat 5")
@click.argument("models", nargs=-1, type=ModelParam())
@click.option("--set", "given", multiple=True, metavar="NAME=VALUE", help="Settings of all.")
@click.option("--repeat", type=click.IntRange(1, 1000), default=3, show_default=True)
@click.option("--tol", type=float, default=1e-6, show_default=True, help="Largest error.")
def command(models: tuple[str, ...], given: tuple[str, ...], repeat: int, tol: float) -> Answer:
    """Time building and solving here.

    The first solve compiles; of later ones the quickest counts.

    Nothing is remembered or read from memory here.
    """
    timings = [_time_model(word, given, repeat, tol) for word in models or DEFAULT_MODELS]
    rows = [
        (
            row["model"]["name"] or "model",
            f"{row['model']['states']:,}",
            *(f"{row[key]:.3g}" for key in ("build", "first", "again")),
            str(row["sweeps"]),
            round_up(row["bound"], 2),
        )
        for row in timings
    ]
    heads = ("model", "states", "build s", "first s", "again s", "sweeps", "bound")
    peak = _peak_memory_bytes()
    text = format_table(rows, heads, alignment=" rrrrrr") + f"\npeak memory {peak / 1e6:,.0f} MB"
    return Answer(text, {"runs": timings, "peak_bytes": peak})


def _peak_memory_bytes() -> int:
    """The most memory that this process held, in bytes."""
    import resource
    import sys

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _time_model(word: str, given: tuple[str, ...], repeat: int, tol: float) -> dict[str, Any]:
    from tessella.solvers.solve import solve

    began = time.perf_counter()
    mdp = load_model(word, given)
    seconds = [time.perf_counter() - began]
    solution = None
    for _ in range(1 + repeat):
        began = time.perf_counter()
        solution = solve(mdp, tol=tol)
        seconds.append(time.perf_counter() - began)
    assert solution is not None
    return {
        "model": describe_model(mdp),
        "build": seconds[0],
        "first": seconds[1],
        "again": min(seconds[2:]),
        "sweeps": solution.sweeps,
        "bound": solution.error_bound,
    }
