"""``tessella show MODEL``: a model told back in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tessella.cli.command import Answer, as_command, table
from tessella.cli.model import about, criterion_of, model_of, takes_model

if TYPE_CHECKING:
    from tessella.mdp.model import MDP
    from tessella.problems.problem import Problem
    from tessella.solvers.plan import Plan

FEW = 12  # values that are listed one by one


@as_command("show", example="tessella show lost_sales --set lead_time=3\ntessella show model.toml")
@takes_model
def command(model: str, given: tuple[str, ...]) -> Answer:
    """Tell a model back in words.

    Axes, actions, the events of a period, the criterion, and what it needs in memory.

    Of a problem it also says what may be set, and what theory knows of it.
    """
    from tessella.mdp.told import events

    mdp, known = model_of(model, given), _problem(model)
    happens = events(mdp)
    data = about(mdp) | {"events": happens, "bytes": _bytes(mdp)}
    if known is not None:
        data["problem"] = _record(known, mdp)
    parts = [] if known is None else [str(known), ""]
    return Answer("\n".join([*parts, _told(mdp, happens, known)]), {"model": data})


def _problem(word: str) -> Problem | None:
    from tessella.errors import TessellaError
    from tessella.problems.registry import problem

    try:
        return problem(word)
    except TessellaError:
        return None


def _record(known: Problem, mdp: MDP) -> dict[str, Any]:
    settings = [
        {"name": p.name, "default": p.default, "range": p.range, "about": p.about}
        for p in known.settable
    ]
    axes = [{"name": name, "about": known.coordinate(name)} for name in mdp.grid.axes]
    theory = [{"structure": t.structure, "says": t.says} for t in known.theory]
    return {
        "title": known.title,
        "family": known.family,
        "settings": settings,
        "axes": axes,
        "theory": theory,
    }


def _told(mdp: MDP, happens: list[str], known: Problem | None) -> str:
    rows = [
        (name, f"{len(v):,} values", _values(v.tolist()), known.coordinate(name) if known else "")
        for name, v in zip(mdp.grid.axes, mdp.grid.values, strict=True)
    ]
    period = "Every period:" if mdp.clock is None else f"Every period ({mdp.clock}):"
    lines = [f"The model {mdp.name}:" if mdp.name else "The model:"]
    lines += [f"  {line}" for line in table(rows, right=" r").splitlines()]
    lines += [f"  {mdp.action_name}: {_values(mdp.actions)}"]
    lines += ["", period, *(f"  {k}. {what}" for k, what in enumerate(happens, 1))]
    from tessella.solvers.plan import in_bytes

    goal = "least cost" if mdp.minimise else "most reward"
    lines += ["", f"Wanted: {goal}, {criterion_of(mdp)}."]
    own = in_bytes(_bytes(mdp)["model"])
    size = f"{mdp.n_states:,} states, {mdp.n_actions} actions; the model takes {own}"
    lines += [f"Size: {size}.", _plan(mdp).short]
    return "\n".join(lines)


def _values(values: Sequence[Any]) -> str:
    words = [f"{v:.6g}" if isinstance(v, float) else str(v) for v in values]
    apart = "; " if any("," in word for word in words) else ", "
    if len(words) <= FEW:
        return apart.join(words)
    return apart.join([*words[:3], "...", words[-1]])


def _bytes(mdp: MDP) -> dict[str, int]:
    """Of the model's arrays, and of what a solve holds beside them."""
    from tessella.mdp.told import bytes_of

    own = bytes_of(mdp.dynamics)
    return {"model": own, "solve": _plan(mdp).memory - own}


def _plan(mdp: MDP) -> Plan:
    from tessella.solvers.plan import plan

    return plan(mdp, calibrate=False)
