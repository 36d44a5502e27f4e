"""What stands beside the map: structure, a rule, a learned policy, a path."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessella.errors import ArgumentError
from tessella.explore.asked import Asked
from tessella.explore.session import Session, Solved
from tessella.mdp.policy import Policy
from tessella.mdp.simulate import simulate
from tessella.mdp.stages.events import average_unit
from tessella.rounding import round_up, round_up_percent
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
        "loses": _loses(rule.facts["mean_loss"], rule.facts["relative_loss"]),
        "certified": certificate is not None,
        "summary": "" if certificate is None else certificate.summary(),
        "frontier": [
            {"size": p.size, "loss": p.loss, "class": p.kind} for p in rule.frontier.points
        ],
        "classes": [str(outcome) for outcome in rule.outcomes],
        "stopped": any("time limit" in outcome.said for outcome in rule.outcomes),
        "errors": int(known.worse(rule).sum()),
        "ties": _ties(known, rule),
    }


def learned_found(session: Session, asked: Asked) -> dict[str, Any]:
    """A policy learned from a sample, and what it loses."""
    known = session.solved(asked)
    made = session.made(known, asked.part("overlay"))
    if made.proof is None:
        raise ArgumentError("this needs a policy of the kind 'learned'")
    wrong = known.worse(made.policy)
    return {
        "name": made.policy.name,
        "size": made.policy.size,
        "errors": int(wrong.sum()),
        "ties": _ties(known, made.policy),
        "states": wrong.size,
        "summary": _summary(made.proof),
        "mean_loss": made.proof.mean,
        "worst_loss": made.proof.worst,
        "relative_loss": made.proof.relative,
        "loses": _loses(made.proof.mean, made.proof.relative),
    }


def _ties(known: Solved, policy: Policy) -> int:
    """In how many states a policy takes another action that is as good as the best one."""
    other = policy.table != known.solution.policy.table
    return int((other & ~known.worse(policy)).sum())


def _loses(mean: float, share: float | None) -> str:
    """``at most 0.64%``; of what has no share, in the model's own units."""
    return f"at most {round_up(mean, 4)}" if share is None else round_up_percent(share)


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
    sign, (times, unit) = -1.0 if mdp.minimise else 1.0, average_unit(mdp.clock)
    return {
        "places": {n: p.tolist() for n, p in zip(mdp.grid.axes, places, strict=True)},
        "actions": walked.actions[0, :live].tolist(),
        "earned": (sign * walked.rewards[0, :live]).tolist(),
        "mean": sign * times * float(walked.rewards[0, :live].mean()) if live else 0.0,
        "unit": unit,
        "total": sign * float(walked.returns[0]),
        "ended": live < periods,
    }
