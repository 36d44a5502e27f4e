"""``tessella fit MODEL``: learn a policy from a sample of the optimal one, and judge it."""

from __future__ import annotations

from pathlib import Path

import click

from tessella.cli.command import Answer, as_command
from tessella.cli.model import about, solution_of, takes_model
from tessella.cli.verdict import verdict

LEARNERS = {
    "linear": "LinearBoundary",
    "neural": "NeuralBoundary",
    "margin": "MarginBoundary",
    "local": "LocalBoundary",
}


@as_command("fit", example="tessella fit INV-Mix --learner margin --samples 1600 -o policy.json")
@takes_model
@click.option("--learner", type=click.Choice(list(LEARNERS)), default="margin", show_default=True)
@click.option("--samples", type=click.IntRange(1), default=1600, show_default=True)
@click.option(
    "--noise",
    type=float,
    help="Noise of observed states, in grid steps; by default the model's own.",
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="Write the policy: .json or .csv."
)
def command(
    model: str,
    given: tuple[str, ...],
    learner: str,
    samples: int,
    noise: float | None,
    seed: int,
    out: Path | None,
) -> Answer:
    """Learn a policy from labelled states, and say what it loses."""
    from tessella import learn
    from tessella.certificates.certify import certify
    from tessella.cli.files import refuse_other_files, write_policy

    if out is not None:
        refuse_other_files((out,))
    solution = solution_of(model, given)
    sample = learn.draw(solution, samples, noise=noise, rng=seed)
    kind = getattr(learn, LEARNERS[learner])
    known = kind(random_state=seed) if "random_state" in kind().get_params() else kind()
    policy = learn.fit(known, sample)
    certificate = certify(solution, policy)
    if out is not None:
        write_policy(policy, out)
    data = {
        "model": about(solution.mdp),
        "learner": learner,
        "samples": samples,
        "seed": seed,
        "size": policy.size,
        "certificate": verdict(certificate),
        "file": None if out is None else str(out),
    }
    wrote = [f"wrote {out}"] if out is not None else []
    return Answer("\n".join([certificate.summary(), *wrote]), data)
