"""``tessella compress MODEL``: the smallest rule within a loss target, with its proof."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tessella.cli.command import Answer, as_command
from tessella.cli.model_argument import (
    describe_model,
    load_solution,
    model_argument,
    parse_start,
    start_option,
)
from tessella.cli.params import LossParam
from tessella.cli.policy_files import certificate_json, require_writable_targets, write_policy
from tessella.cli.status_line import status_line

if TYPE_CHECKING:
    from tessella.rules.rule import Rule

OUTPUT_PATH = click.Path(path_type=Path)


@as_command(
    "compress",
    example="tessella compress perishable --loss 0.5% -o rule.sql -o rule.json\n"
    "tessella compress INV-Mix --loss 1% --worst --time-limit 20",
)
@model_argument
@click.option(
    "--loss",
    type=LossParam(),
    default="1%",
    show_default=True,
    help="What may be lost: 1%, 0.01, or '12.5 units'.",
)
@click.option("--worst", is_flag=True, help="From the worst state, not on average over the start.")
@start_option
@click.option("--time-limit", type=float, help="Seconds after which the best so far is taken.")
@click.option(
    "-o",
    "--out",
    type=OUTPUT_PATH,
    multiple=True,
    help="Write it: .json .c .py .sql .xlsx ...; may repeat.",
)
@click.option("--certificate", type=OUTPUT_PATH, help="Write its certificate as JSON.")
@click.option("--frontier", is_flag=True, help="Also list size against loss.")
def command(
    model: str,
    given: tuple[str, ...],
    loss: tuple[float, bool],
    worst: bool,
    start: str | None,
    time_limit: float | None,
    out: tuple[Path, ...],
    certificate: Path | None,
    frontier: bool,
) -> Answer:
    """Find the smallest rule whose certified loss is within a target.

    A .json file holds the rule for other commands (certify, export, diff, map, simulate).
    """
    from tessella.rules.compress import compress

    require_writable_targets(out)
    solution = load_solution(model, given)
    amount, relative = loss
    with status_line(sys.stderr) as show_status:
        rule = compress(
            solution,
            amount,
            start=parse_start(solution.mdp, start),
            worst=worst,
            relative=relative,
            time_limit=time_limit,
            progress=show_status,
        )
    messages = [write_policy(rule, path) for path in out]
    if certificate is not None and rule.certificate is not None:
        rule.certificate.save(certificate)
        messages.append(f"{certificate}: the certificate, for `tessella check --certificate`")
    files = [*map(str, out), *([str(certificate)] if certificate is not None else [])]
    lines = [rule.explain()]
    if frontier:
        lines += ["", "Size against loss:", str(rule.frontier)]
    return Answer(
        "\n".join(lines + ([""] if messages else []) + messages), _data(rule, solution, files)
    )


def _data(rule: Rule, solution: Any, files: list[str]) -> dict[str, Any]:
    points = rule.frontier.points
    return {
        "model": describe_model(solution.mdp),
        "promise": rule.loss_target,
        "class": rule.kind,
        "size": rule.size,
        "size_needed": rule.size_needed,
        "says": rule.explain(),
        "seconds": rule.seconds,
        "certificate": None if rule.certificate is None else certificate_json(rule.certificate),
        "frontier": [{"size": p.size, "loss": p.loss, "class": p.kind} for p in points],
        "classes": [
            {"class": o.kind, "size": o.size, "needed": o.size_needed, "said": o.explanation}
            for o in rule.outcomes
        ],
        "files": files,
    }
