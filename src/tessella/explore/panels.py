"""The jobs of the worker by name: panels next to the map, and files to download."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tessella.errors import ArgumentError
from tessella.explore.compare import compare_policies
from tessella.explore.drawing import draw_map
from tessella.explore.request import Reply, RequestFields, error_reply, file_reply, json_reply
from tessella.explore.session import Session, SolvedModel
from tessella.mdp.policy import Policy
from tessella.mdp.simulate import simulate
from tessella.mdp.stages.events import average_unit
from tessella.modelfiles.named_problem import write_model
from tessella.rounding import round_up, round_up_percent
from tessella.tessellation import examine, measure, tessellate

STRUCTURE_MAX_STATES = 20_000  # states up to which structure is tested here
PATH_MAX_PERIODS = 1000  # periods
RULE_SUFFIXES = (".c", ".py", ".sql", ".xlsx", ".json", ".csv", ".txt")
MODEL_FILE = "model.toml"
CERTIFICATE_FILE = "certificate.json"


def describe_structure(session: Session, request: RequestFields) -> dict[str, Any]:
    """Geometry of the optimal policy, and the structures that it has."""
    tessellation = tessellate(session.get_model(request).solution)
    panel: dict[str, Any] = {
        "geometry": measure(tessellation).figures,
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
    with_proof = session.get_policy(model, request.part("overlay"))
    policy = with_proof.policy
    proof = with_proof.proof
    if proof is None:
        raise ArgumentError("this needs a policy of the kind 'learned'")
    wrong = model.find_worse_states(policy)
    return {
        "name": policy.name,
        "size": policy.size,
        "errors": int(wrong.sum()),
        "ties": _count_ties(model, policy),
        "states": wrong.size,
        "summary": "" if proof.certificate is None else proof.certificate.summary(),
        "mean_loss": proof.mean,
        "worst_loss": proof.worst,
        "relative_loss": proof.relative,
        "loses": _format_loss(proof.mean, proof.relative),
    }


def _count_ties(model: SolvedModel, policy: Policy) -> int:
    """In how many states a policy takes another action that is as good as the best one."""
    differs = policy.table != model.solution.policy.table
    return int((differs & ~model.find_worse_states(policy)).sum())


def _format_loss(mean_loss: float, relative_loss: float | None) -> str:
    """``at most 0.64%``; of what has no share, in the model's own units."""
    if relative_loss is None:
        return f"at most {round_up(mean_loss, 4)}"
    return round_up_percent(relative_loss)


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
    sign = -1.0 if mdp.minimise else 1.0
    average_factor, unit = average_unit(mdp.clock)
    rewards = paths.rewards[0, :n_live]
    return {
        "places": dict(zip(mdp.grid.axes, indices, strict=True)),
        "actions": paths.actions[0, :n_live],
        "earned": sign * rewards,
        "mean": sign * average_factor * float(rewards.mean()) if n_live else 0.0,
        "unit": unit,
        "total": sign * float(paths.returns[0]),
        "ended": n_live < periods,
    }


def make_file(session: Session, request: RequestFields) -> tuple[str, bytes]:
    """Name and content of the file that a request names."""
    file_names = [MODEL_FILE, CERTIFICATE_FILE, *(f"rule{ending}" for ending in RULE_SUFFIXES)]
    name = request.choice("file", file_names)
    if name == MODEL_FILE:
        return name, write_model(session.get_model(request).solution.mdp).encode()
    rule = session.get_rule(session.get_model(request), request.part("overlay"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        if name != CERTIFICATE_FILE:
            rule.export(path)
        elif rule.certificate is None:
            raise ArgumentError("a criterion of this kind has no certificates")
        else:
            rule.certificate.save(path)
        return name, path.read_bytes()


PANELS: dict[str, Callable[[Session, RequestFields], dict[str, Any]]] = {
    "map": draw_map,
    "structure": describe_structure,
    "rule": describe_rule,
    "learned": describe_learned,
    "change": compare_policies,
    "path": simulate_path,
}


def answer_request(session: Session, job: str, body: Any) -> Reply:
    """The answer to a request; an error is a sentence, and its trace stays on this side."""
    try:
        request = RequestFields(body)
        if job == "file":
            return file_reply(*make_file(session, request))
        return json_reply(PANELS[job](session, request))
    except Exception as error:
        return error_reply(error)
