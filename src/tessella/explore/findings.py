"""What stands beside the map: structure, a rule, a learned policy, a path."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessella.errors import ArgumentError
from tessella.explore.asked import Asked
from tessella.explore.session import Session
from tessella.mdp.simulate import simulate
from tessella.rules.proof import Proof
from tessella.tessellation import examine, measure, tessellate

MOST_EXAMINED = 20_000  # states up to which structure is tested here
MOST_PERIODS = 1000


def structure_found(session: Session, asked: Asked) -> dict[str, Any]:
    """Geometry of the optimal policy, and the structures that it has."""
    tessellation = tessellate(session.solved(asked).solution)
    geometry = measure(tessellation)
    found: dict[str, Any] = {
        "geometry": geometry.figures,
        "structures": [],
        "remark": "",
    }
    if tessellation.grid.size > MOST_EXAMINED:
        limit = f"Structure is tested up to {MOST_EXAMINED:,} states here"
        return found | {"remark": f"{limit}; the command `tessella measure` has no limit."}
    evidence = examine(tessellation).evidence
    found["structures"] = [
        {"name": name, "holds": bool(test), "says": test.describe()}
        for name, test in evidence.items()
    ]
    return found


def rule_found(session: Session, asked: Asked) -> dict[str, Any]:
    """The smallest rule within a promise, in words, with what it loses and the frontier."""
    known = session.solved(asked)
    rule = session.rule(known, asked.part("overlay"))
    certificate = rule.certificate
    return {
        "class": rule.kind,
        "size": rule.size,
        "size_needed": rule.size_needed,
        "table_size": known.solution.mdp.n_states,
        "promise": rule.promise,
        "says": rule.explain(),
        "seconds": rule.seconds,
        "promised": rule.facts["promised"],
        "mean_loss": rule.facts["mean_loss"],
        "worst_loss": rule.facts["worst_loss"],
        "relative_loss": rule.facts["relative_loss"],
        "certified": certificate is not None,
        "summary": "" if certificate is None else certificate.summary(),
        "frontier": [
            {"size": p.size, "loss": p.loss, "class": p.kind} for p in rule.frontier.points
        ],
        "classes": [str(outcome) for outcome in rule.outcomes],
        "stopped": any("time limit" in outcome.said for outcome in rule.outcomes),
        "errors": int((rule.table != known.solution.policy.table).sum()),
    }


def learned_found(session: Session, asked: Asked) -> dict[str, Any]:
    """A policy learned from a sample, and what it loses."""
    known = session.solved(asked)
    made = session.made(known, asked.part("overlay"))
    if made.proof is None:
        raise ArgumentError("this needs a policy of the kind 'learned'")
    wrong = made.policy.table != known.solution.policy.table
    return {
        "name": made.policy.name,
        "size": made.policy.size,
        "errors": int(wrong.sum()),
        "states": wrong.size,
        "summary": _summary(made.proof),
        "mean_loss": made.proof.mean,
        "worst_loss": made.proof.worst,
        "relative_loss": made.proof.relative,
    }


def _summary(proof: Proof) -> str:
    return "" if proof.certificate is None else proof.certificate.summary()


def path_found(session: Session, asked: Asked) -> dict[str, Any]:
    """One path under a policy: places along each axis, actions, and what was earned."""
    known = session.solved(asked)
    mdp = known.solution.mdp
    policy = session.made(known, asked.part("overlay")).policy
    periods = asked.whole("periods", 60, 1, MOST_PERIODS)
    seed, start = asked.whole("seed", 0, 0, 2**31), None
    if asked.has("start"):
        start = asked.whole("start", 0, 0, mdp.n_states - 1)
    walked = simulate(mdp, policy, periods, seed, start=start)
    live = int((walked.actions[0] >= 0).sum())
    places = np.unravel_index(walked.states[0, : live + 1], mdp.grid.shape)
    sign = -1.0 if mdp.minimise else 1.0
    return {
        "places": {n: p.tolist() for n, p in zip(mdp.grid.axes, places, strict=True)},
        "actions": walked.actions[0, :live].tolist(),
        "earned": (sign * walked.rewards[0, :live]).tolist(),
        "total": sign * float(walked.returns[0]),
        "ended": live < periods,
    }
