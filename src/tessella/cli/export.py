"""``tessella export RULE FILE...``: a rule as something that a system runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tessella.cli.command import Answer, as_command
from tessella.cli.model_argument import ModelParam, load_model, load_solution
from tessella.cli.policy_files import read_policy, require_writable_targets
from tessella.errors import ArgumentError

if TYPE_CHECKING:
    from tessella.mdp.policy import Policy


@as_command(
    "export",
    example="tessella export rule.json rule.c rule.sql\n"
    "tessella export policy.csv rule.xlsx --model INV-Mix\ntessella export INV-Mix optimal.c",
)
@click.argument("rule")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--model", type=ModelParam(), help="The model that a CSV table is a policy of.")
@click.option("--set", "given", multiple=True, metavar="NAME=VALUE", help="Settings of the model.")
@click.option(
    "--off-grid",
    type=click.Choice(["clamp", "refuse"]),
    help="What programs do with a state beyond the axes; clamp by default.",
)
def command(
    rule: str,
    files: tuple[Path, ...],
    model: str | None,
    given: tuple[str, ...],
    off_grid: str | None,
) -> Answer:
    """Write a rule in the languages that the files' endings name.

    RULE is a saved rule or policy (.json), a table (.csv, with --model), or a MODEL, whose optimal
    policy is written. Endings: .c .py .sql .json .onnx .txt (formula) .xlsx .csv .dtcontrol.csv.
    Each file is run over every state before it is written.
    """
    from tessella.rules.export.export import export

    require_writable_targets(files)
    policy = _read_policy(rule, model, given)
    written = [export(policy, path, off_grid=off_grid) for path in files]  # type: ignore[arg-type]
    data = [
        {"file": str(w.path), "target": w.target, "states": w.states, "remark": w.remark}
        for w in written
    ]
    return Answer("\n".join(map(str, written)), {"rule": policy.name, "files": data})


def _read_policy(rule: str, model: str | None, given: tuple[str, ...]) -> Policy:
    path = Path(rule)
    if path.suffix == ".json" and model is None:
        return read_policy(path)
    if path.suffix in (".json", ".csv"):
        if model is None:
            raise ArgumentError("a table needs its model", value="add --model MODEL")
        return load_model(model, given).policy(path)
    return load_solution(rule, given).policy
