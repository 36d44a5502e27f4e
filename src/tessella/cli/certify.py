"""``tessella certify MODEL POLICY``: what a policy loses, exactly."""

from __future__ import annotations

from pathlib import Path

import click

from tessella.cli.command import Answer, as_command
from tessella.cli.model import about, solution_of, start_of, takes_model, takes_start
from tessella.cli.policy import FILE
from tessella.cli.verdict import verdict


@as_command("certify", example="tessella certify INV-Mix rule.csv --save certificate.json")
@takes_model
@click.argument("policy", type=FILE)
@takes_start
@click.option("--save", type=click.Path(path_type=Path), help="Write the certificate as JSON.")
def command(
    model: str, given: tuple[str, ...], policy: Path, start: str | None, save: Path | None
) -> Answer:
    """Say what a policy loses on a model, exactly.

    POLICY is a saved rule or policy (.json), or a CSV file with a row for each state: a column for
    each axis, and one for the action.
    """
    from tessella.certificates.certify import certify

    solution = solution_of(model, given)
    certificate = certify(solution, solution.mdp.policy(policy), start_of(solution.mdp, start))
    if save is not None:
        certificate.save(save)
    data = {"model": about(solution.mdp), "policy": certificate.policy.name}
    data |= {"certificate": verdict(certificate), "file": None if save is None else str(save)}
    return Answer(certificate.summary(), data)
