"""``tessella measure MODEL``: geometry of the policy map, and the structures that it has."""

from __future__ import annotations

from pathlib import Path

import click

from tessella.cli.command import Answer, as_command
from tessella.cli.model import about, solution_of, takes_model
from tessella.cli.policy import takes_policy


@as_command(
    "measure",
    example="tessella measure INV-Mix\ntessella measure lost_sales --sum stock+due1",
)
@takes_model
@takes_policy
@click.option("--rim", type=int, default=0, help="Outer layers of the grid to leave out.")
@click.option(
    "--sum", "sums", multiple=True, metavar="A+B", help="Axes whose sum may be what matters."
)
@click.option("--component", help="Of actions that have several, the one to look at.")
def command(
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

    solution = solution_of(model, given)
    chosen = None if policy is None else solution.mdp.policy(policy)
    tessellation = tessellate(solution, chosen, component=component)
    geometry = measure(tessellation, rim=rim)
    added = [tuple(part.strip() for part in word.split("+")) for word in sums]
    structure = examine(tessellation, sums=added)
    found = structure.evidence.items()
    data = {
        "model": about(solution.mdp),
        "policy": "optimal" if chosen is None else chosen.name,
        "geometry": geometry.figures,
        "structures": [
            {"name": name, "holds": bool(test), "says": test.describe()} for name, test in found
        ],
    }
    return Answer(f"{geometry}\n\nStructure\n{structure}", data)
