"""What stands beside the map: structure, a rule, a learned policy, a path."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessella.errors import ArgumentError
from tessella.explore.request import RequestFields
from tessella.explore.session import Session, SolvedModel
from tessella.mdp.policy import Policy
from tessella.mdp.simulate import simulate
from tessella.mdp.stages.events import average_unit
from tessella.rounding import round_up, round_up_percent
from tessella.rules.loss_target import ProvenLoss
from tessella.tessellation import examine, measure, tessellate

STRUCTURE_MAX_STATES = 20_000  # states up to which structure is tested here
PATH_MAX_PERIODS = 1000  # periods


def describe_structure(session: Session, request: RequestFields) -> dict[str, Any]:
    """Geometry of the optimal policy, and the structures that it has."""
    tessellation = tessellate(session.get_model(request).solution)
    geometry = measure(tessellation)
    panel: dict[str, Any] = {
        "geometry": geometry.figures,
        "structures": [],
        "remark": "",
    }
    if tessellation.grid.size > STRUCTURE_MAX_STATES:
        limit = f"Structure is tested up to {STRUCTURE_MAX_STATES:,} states here"
        return panel | {"remark": f"{limit}; the command `tessella measure` has no limit."}
    evidence = examine(tessellation).evidence
    panel["structures"] = [
        {"name": name, "holds": bool(test), "says": test.describe()}
        for name, test in evidence.items()
    ]
    return panel


def describe_rule(session: Session, request: RequestFields) -> dict[str, Any]:
    """The smallest rule within a loss target, in words, with what it loses and the frontier."""
    model = session.get_model(request)
    rule = session.get_rule(model, request.part("overlay"))
    certificate = rule.certificate
    return {
        "class": rule.kind,
        "size": rule.size,
        "size_needed": rule.size_needed,
        "table_size": model.solution.mdp.n_states,
        "promise": rule.loss_target,
        "says": rule.explain(),
        "seconds": rule.seconds,
        "promised": rule.facts["promised"],
        "mean_loss": rule.facts["mean_loss"],
        "worst_loss": rule.facts["worst_loss"],
        "relative_loss": rule.facts["relative_loss"],
        "loses": _format_loss(rule.facts["mean_loss"], rule.facts["relative_loss"]),
        "certified": certificate is not None,
        "summary": "" if certificate is None else certificate.summary(),
        "frontier": [
            {"size": p.size, "loss": p.loss, "class": p.kind} for p in rule.frontier.points
        ],
        "classes": [str(outcome) for outcome in rule.outcomes],
        "stopped": any("time limit" in outcome.explanation for outcome in rule.outcomes),
        "errors": int(model.find_worse_states(rule).sum()),
        "ties": _count_ties(model, rule),
    }


def describe_learned(session: Session, request: RequestFields) -> dict[str, Any]:
    """A policy learned from a sample, and what it loses."""
    model = session.get_model(request)
    policy_with_proof = session.get_policy(model, request.part("overlay"))
    if policy_with_proof.proof is None:
        raise ArgumentError("this needs a policy of the kind 'learned'")
    wrong = model.find_worse_states(policy_with_proof.policy)
    return {
        "name": policy_with_proof.policy.name,
        "size": policy_with_proof.policy.size,
        "errors": int(wrong.sum()),
        "ties": _count_ties(model, policy_with_proof.policy),
        "states": wrong.size,
        "summary": _certificate_summary(policy_with_proof.proof),
        "mean_loss": policy_with_proof.proof.mean,
        "worst_loss": policy_with_proof.proof.worst,
        "relative_loss": policy_with_proof.proof.relative,
        "loses": _format_loss(policy_with_proof.proof.mean, policy_with_proof.proof.relative),
    }


def _count_ties(model: SolvedModel, policy: Policy) -> int:
    """In how many states a policy takes another action that is as good as the best one."""
    differs = policy.table != model.solution.policy.table
    return int((differs & ~model.find_worse_states(policy)).sum())


def _format_loss(mean_loss: float, relative_loss: float | None) -> str:
    """``at most 0.64%``; of what has no share, in the model's own units."""
    return (
        f"at most {round_up(mean_loss, 4)}"
        if relative_loss is None
        else round_up_percent(relative_loss)
    )


def _certificate_summary(proof: ProvenLoss) -> str:
    return "" if proof.certificate is None else proof.certificate.summary()


def simulate_path(session: Session, request: RequestFields) -> dict[str, Any]:
    """One path under a policy: places along each axis, actions, and what was earned."""
    model = session.get_model(request)
    mdp = model.solution.mdp
    policy = session.get_policy(model, request.part("overlay")).policy
    periods = request.integer("periods", 60, 1, PATH_MAX_PERIODS)
    seed = request.integer("seed", 0, 0, 2**31)
    start = None
    if request.has("start"):
        start = request.integer("start", 0, 0, mdp.n_states - 1)
    paths = simulate(mdp, policy, periods, seed, start=start)
    n_live = int((paths.actions[0] >= 0).sum())
    indices = np.unravel_index(paths.states[0, : n_live + 1], mdp.grid.shape)
    sign, (average_factor, unit) = -1.0 if mdp.minimise else 1.0, average_unit(mdp.clock)
    return {
        "places": {n: p.tolist() for n, p in zip(mdp.grid.axes, indices, strict=True)},
        "actions": paths.actions[0, :n_live].tolist(),
        "earned": (sign * paths.rewards[0, :n_live]).tolist(),
        "mean": sign * average_factor * float(paths.rewards[0, :n_live].mean()) if n_live else 0.0,
        "unit": unit,
        "total": sign * float(paths.returns[0]),
        "ended": n_live < periods,
    }
