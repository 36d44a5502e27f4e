"""``tessella measure MODEL``: geometry of the policy map, and the structures that it has."""

from __future__ import annotations

from pathlib import Path

import click

from tessella.cli.arguments import describe_model, load_solution, model_argument, policy_option
from tessella.cli.command import Answer, as_command


@as_command(
    "measure", example="tessella measure INV-Mix\ntessella measure lost_sales --sum stock+due1"
)
@model_argument
@policy_option
@click.option("--rim", type=int, default=0, help="Outer layers of the grid to leave out.")
@click.option(
    "--sum", "sums", multiple=True, metavar="A+B", help="Axes whose sum may be what matters."
)
@click.option("--component", help="Of actions that have several, the one to look at.")
def measure_command(
    model: str,
    given: tuple[str, ...],
    policy: Path | None,
    rim: int,
    sums: tuple[str, ...],
    component: str | None,
) -> Answer:
    """Measure the policy's geometry, and test it for structure.

    Boundary length, fragments and corners are those of the paper; structures are thresholds,
    monotone switching, base stock, (s, S) and the like, each with a counterexample where it fails.
    """
    from tessella.tessellation import examine, measure, tessellate

    solution = load_solution(model, given)
    chosen = None if policy is None else solution.mdp.policy(policy)
    tessellation = tessellate(solution, chosen, component=component)
    geometry = measure(tessellation, rim=rim)
    axis_sums = [tuple(part.strip() for part in word.split("+")) for word in sums]
    structure = examine(tessellation, sums=axis_sums)
    evidence = structure.evidence.items()
    data = {
        "model": describe_model(solution.mdp),
        "policy": "optimal" if chosen is None else chosen.name,
        "geometry": geometry.figures,
        "structures": [
            {"name": name, "holds": bool(test), "says": test.describe()} for name, test in evidence
        ],
    }
    return Answer(f"{geometry}\n\nStructure\n{structure}", data)
