"""``tessella certify MODEL POLICY``: what a policy loses, exactly."""

from __future__ import annotations

from pathlib import Path

import click

from tessella.cli.command import Answer, as_command
from tessella.cli.model_argument import (
    describe_model,
    load_solution,
    model_argument,
    parse_start,
    start_option,
)
from tessella.cli.params import POLICY_FILE
from tessella.cli.policy_files import certificate_json


@as_command("certify", example="tessella certify INV-Mix rule.csv --save certificate.json")
@model_argument
@click.argument("policy", type=POLICY_FILE)
@start_option
@click.option("--save", type=click.Path(path_type=Path), help="Write the certificate as JSON.")
def command(
    model: str, given: tuple[str, ...], policy: Path, start: str | None, save: Path | None
) -> Answer:
    """Compute what a policy loses on a model, exactly.

    POLICY is a saved rule or policy (.json), or a CSV file with a row for each state: a column for
    each axis, and one for the action.
    """
    from tessella.certificates.certify import certify

    solution = load_solution(model, given)
    certificate = certify(solution, solution.mdp.policy(policy), parse_start(solution.mdp, start))
    if save is not None:
        certificate.save(save)
    data = {"model": describe_model(solution.mdp), "policy": certificate.policy.name}
    data |= {"certificate": certificate_json(certificate), "file": save}
    return Answer(certificate.summary(), data)
