"""``tessella show MODEL``: a model described in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tessella.cli.command import Answer, as_command, format_table
from tessella.cli.model_argument import (
    describe_criterion,
    describe_model,
    load_model,
    model_argument,
)
from tessella.errors import TessellaError

if TYPE_CHECKING:
    from tessella.mdp.model import MDP
    from tessella.problems.problem import Problem
    from tessella.solvers.plan import CostEstimate

LISTED_MAX_VALUES = 12  # values that are listed one by one


@as_command("show", example="tessella show lost_sales --set lead_time=3\ntessella show model.toml")
@model_argument
def command(model: str, given: tuple[str, ...]) -> Answer:
    """Describe a model in words.

    Axes, actions, the events of a period, the criterion, and what it needs in memory.

    Of a problem also its settings, and what theory knows of it.
    """
    from tessella.mdp.describe import describe_events

    mdp = load_model(model, given)
    named_problem = _find_problem(model)
    event_texts = describe_events(mdp)
    data = describe_model(mdp) | {"events": event_texts, "bytes": _memory_bytes(mdp)}
    if named_problem is not None:
        data["problem"] = _describe_problem(named_problem, mdp)
    parts = [] if named_problem is None else [str(named_problem), ""]
    return Answer("\n".join([*parts, _describe(mdp, event_texts, named_problem)]), {"model": data})


def _find_problem(word: str) -> Problem | None:
    from tessella.problems.registry import problem

    try:
        return problem(word)
    except TessellaError:
        return None


def _describe_problem(named_problem: Problem, mdp: MDP) -> dict[str, Any]:
    settings = [
        {"name": p.name, "default": p.default, "range": p.range, "about": p.about}
        for p in named_problem.settable
    ]
    axes = [{"name": name, "about": named_problem.coordinate(name)} for name in mdp.grid.axes]
    theory = [{"structure": t.structure, "says": t.says} for t in named_problem.theory]
    return {
        "title": named_problem.title,
        "family": named_problem.family,
        "settings": settings,
        "axes": axes,
        "theory": theory,
    }


def _describe(mdp: MDP, event_texts: list[str], named_problem: Problem | None) -> str:
    rows = [
        (
            name,
            f"{len(v):,} values",
            _format_values(v.tolist()),
            named_problem.coordinate(name) if named_problem else "",
        )
        for name, v in zip(mdp.grid.axes, mdp.grid.values, strict=True)
    ]
    period = "Every period:" if mdp.clock is None else f"Every period ({mdp.clock}):"
    lines = [f"The model {mdp.name}:" if mdp.name else "The model:"]
    lines += [f"  {line}" for line in format_table(rows, alignment=" r").splitlines()]
    lines += [f"  {mdp.action_name}: {_format_values(mdp.actions)}"]
    lines += ["", period, *(f"  {k}. {subject}" for k, subject in enumerate(event_texts, 1))]
    from tessella.solvers.plan import format_bytes

    goal = "least cost" if mdp.minimise else "most reward"
    lines += ["", f"Wanted: {goal}, {describe_criterion(mdp)}."]
    model_size = format_bytes(_memory_bytes(mdp)["model"])
    size = f"{mdp.n_states:,} states, {mdp.n_actions} actions; the model takes {model_size}"
    lines += [f"Size: {size}.", _estimate_cost(mdp).short]
    return "\n".join(lines)


def _format_values(values: Sequence[Any]) -> str:
    words = [f"{v:.6g}" if isinstance(v, float) else str(v) for v in values]
    separator = "; " if any("," in word for word in words) else ", "
    if len(words) <= LISTED_MAX_VALUES:
        return separator.join(words)
    return separator.join([*words[:3], "...", words[-1]])


def _memory_bytes(mdp: MDP) -> dict[str, int]:
    """Bytes of the model's arrays, and of what a solve holds in addition."""
    from tessella.mdp.describe import model_bytes

    model_bytes = model_bytes(mdp.dynamics)
    return {"model": model_bytes, "solve": _estimate_cost(mdp).memory - model_bytes}


def _estimate_cost(mdp: MDP) -> CostEstimate:
    from tessella.solvers.execution_plan import make_plan
    from tessella.solvers.plan import estimate_cost

    return estimate_cost(make_plan(mdp), calibrate=False)
