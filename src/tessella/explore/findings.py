"""What stands beside the map: structure, a rule, a learned policy, a comparison, a path."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessella.errors import ArgumentError
from tessella.explore.asked import Asked
from tessella.explore.session import Session, proven
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.simulate import simulate
from tessella.mdp.start import start_distribution
from tessella.rules.diff import diff
from tessella.rules.proof import CERTIFIED, Proof
from tessella.solvers.solution import Solution
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


def change_found(session: Session, asked: Asked) -> dict[str, Any]:
    """What changes where the policy of a request takes the place of another one's, ``before``.

    Both are valued under the settings of the request. Where the other settings have other states or
    actions, no policy can take the other's place, and each is told with its own settings alone.
    """
    before = asked.part("before")
    if before is None:
        raise ArgumentError("a comparison needs 'before', a model and its policy")
    then, now = session.solved(before), session.solved(asked)
    mdp = now.solution.mdp
    old, new = (
        session.made(known, side.part("overlay")).policy
        for known, side in ((then, before), (now, asked))
    )
    told = {
        "told_in": "costs" if mdp.minimise else "rewards",
        "average": now.solution.gain is not None,
        "before": _side(then.solution, old),
        "after": _side(now.solution, new),
    }
    if not same_states(then.solution.mdp, mdp):
        return told | {"comparable": False}
    told["before"] |= _standing(now.solution, old)
    told["after"] |= _standing(now.solution, new)
    return told | {"comparable": True} | _difference(mdp, old, new, told)


def _side(solution: Solution, policy: Policy) -> dict[str, Any]:
    """What a policy is, and what the best one is worth under its own settings."""
    optimal = policy is solution.policy
    name = "optimal" if optimal else getattr(policy, "kind", policy.name) or "a policy"
    return {"policy": name, "size": policy.size, "optimum": _told(solution, _worth(solution))}


def _standing(solution: Solution, policy: Policy) -> dict[str, Any]:
    """What a policy surely loses at most under these settings, and so is worth at least."""
    if policy is solution.policy:
        lost, share = 0.0, 0.0
    else:
        proof = proven(solution, solution.mdp.policy(policy.table))
        lost, share = proof.mean, proof.relative
    worth = _told(solution, _worth(solution) - lost)
    return {"loss": lost, "relative_loss": share, "worth": worth}


def _worth(solution: Solution) -> float:
    """Of the best policy: from the start, or per period in the long run."""
    if solution.gain is not None:
        return float(solution.gain)
    start = start_distribution(solution.mdp, None, solution.policy)
    return float(start @ solution.value.ravel())


def _told(solution: Solution, worth: float) -> float:
    return -worth if solution.mdp.minimise else worth


def _difference(mdp: MDP, old: Policy, new: Policy, told: dict[str, Any]) -> dict[str, Any]:
    """States that change, and what that is worth; of a total, as the two losses tell it."""
    sign = -1.0 if mdp.minimise else 1.0
    where = old.table != new.table
    counted = {"changed": int(where.sum()), "states": where.size}
    if not isinstance(mdp.criterion, CERTIFIED):
        gain = told["before"]["loss"] - told["after"]["loss"] if where.any() else 0.0
        return counted | {"gain": sign * gain, "changes": []}
    found = diff(mdp, old.table, new)
    return counted | {
        "gain": sign * found.gain,
        "time_before": found.time_a,
        "time_after": found.time_b,
        "changes": [
            {"from": str(mdp.actions[x]), "to": str(mdp.actions[y]), "states": n, "gain": sign * g}
            for x, y, n, g in found.pairs
        ],
    }


def same_states(then: MDP, now: MDP) -> bool:
    """Whether a policy of one model says what to do in the other."""
    alike = then.grid.axes == now.grid.axes and then.grid.shape == now.grid.shape
    values = zip(then.grid.values, now.grid.values, strict=False)
    return alike and all(np.array_equal(a, b) for a, b in values) and then.actions == now.actions


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
