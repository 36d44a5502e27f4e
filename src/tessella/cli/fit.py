"""``tessella fit MODEL``: learn a policy from a sample of the optimal one, and evaluate it."""

from __future__ import annotations

from pathlib import Path

import click

from tessella.cli.command import Answer, as_command
from tessella.cli.model_argument import describe_model, load_solution, model_argument
from tessella.cli.policy_files import certificate_json, require_writable_targets, write_policy

LEARNER_NAMES = ("linear", "neural", "margin", "local")  # of tessella.learn, which loads slowly


@as_command("fit", example="tessella fit INV-Mix --learner margin --samples 1600 -o policy.json")
@model_argument
@click.option("--learner", type=click.Choice(LEARNER_NAMES), default="margin", show_default=True)
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
    """Learn a policy from labelled states, and certify its loss."""
    from tessella import learn
    from tessella.certificates.certify import certify

    if out is not None:
        require_writable_targets((out,))
    solution = load_solution(model, given)
    sample = learn.draw(solution, samples, noise=noise, rng=seed)
    policy = learn.fit(learn.make_learner(learner, seed), sample)
    certificate = certify(solution, policy)
    if out is not None:
        write_policy(policy, out)
    data = {
        "model": describe_model(solution.mdp),
        "learner": learner,
        "samples": samples,
        "seed": seed,
        "size": policy.size,
        "certificate": certificate_json(certificate),
        "file": out,
    }
    messages = [f"wrote {out}"] if out is not None else []
    return Answer("\n".join([certificate.summary(), *messages]), data)
