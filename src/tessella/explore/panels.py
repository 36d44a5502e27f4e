"""The jobs of the worker by name: the map, comparisons, other panels, and files.

In a map, arrays are lists of columns; column i has the values along the second axis at place i of
the first, from the bottom up (``down``: from the top down), and one value in a model of one axis.
What is not finite is null. Bounds are texts that are rounded outward.

In a comparison, both policies are valued under the present settings, from the model's own start:

    at stake = J(new) - J(old),    each J at least J* - (the loss that its certificate states),

in texts that are rounded outward. Averages of a model made from rates are per unit of time.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tessella as ts
from tessella.errors import ArgumentError
from tessella.explore.request import Reply, RequestFields, error_reply, file_reply, json_reply
from tessella.explore.session import Session, prove_loss
from tessella.mdp.measures import MeasureFormula
from tessella.mdp.stages.events import average_unit
from tessella.mdp.start import start_distribution
from tessella.mdp.state_action_space import TIME
from tessella.rounding import EPS, format_percent_bound, round_down, round_up
from tessella.solvers.constraints.tradeoff import drop_rounding

MAP_MAX_STATES = 500_000  # states on the two axes that are shown
STRUCTURE_MAX_STATES = 20_000  # states up to which structure is tested here
PATH_MAX_PERIODS = 1000  # periods
RULE_FACTS = ("loss_limit", "mean_loss", "worst_loss", "relative_loss")
RULE_SUFFIXES = (".c", ".py", ".sql", ".xlsx", ".json", ".csv", ".txt")
MODEL_FILE = "model.toml"
CERTIFICATE_FILE = "certificate.json"


def draw_map(session: Session, request: RequestFields) -> dict[str, Any]:
    """The policy map with values, margins and runners-up, on two axes."""
    model = session.get_model(request)
    solution = model.solution
    mdp = solution.mdp
    section = GridSection(mdp.grid, request)
    fields = {"value": mdp.sense.display(solution.value), "margin": solution.margin}
    overlay = request.part("overlay")
    policy = session.get_policy(model, overlay)
    computed = {  # only when it is shown
        "visits": lambda: model.state_occupancy,
        "loss": lambda: ts.loss(solution, policy).by_state,
        "local": lambda: model.compute_local_loss(policy),
    }
    wanted = request.options("fields", tuple(computed))
    fields |= {name: compute() for name, compute in computed.items() if name in wanted}
    is_average = solution.gain is not None
    bound_factor = _average_factor(solution) * (1 + 2 * EPS) if is_average else 1.0
    gain = mdp.sense.display(_optimal_value(solution)) if is_average else None
    drawn = {
        "model": _describe_model(mdp),
        "shown": section.shown,
        "down": section.shown[-1] == mdp.grid.downward_axis,
        "at": section.at,
        "table": section.columns(solution.policy.table),
        "second": section.columns(model.second_best),
        "decided": section.columns(solution.decided.astype(int)),
        "fields": {name: section.columns(values) for name, values in fields.items()},
        "ranges": {name: _value_range(values) for name, values in fields.items()},
        "colours": model.colours,
        "used": np.unique(solution.policy.table).tolist(),
        "bound": round_up(bound_factor * solution.error_bound, 2),
        "says": repr(solution),
        "gain": gain,
        "unit": average_unit(mdp.clock)[1],
    }
    if overlay is not None:
        drawn["overlay"] = section.columns(policy.table)
        drawn["worse"] = section.columns((~solution.ties(policy.table)).astype(int))
        drawn["used"] = np.union1d(solution.policy.table, policy.table).tolist()
    return drawn


class GridSection:
    """Two axes of a grid, and the positions of the others, with defaults for both."""

    def __init__(self, grid: ts.StateGrid, request: RequestFields) -> None:
        sizes = dict(zip(grid.axes, grid.shape, strict=True))
        default_order = sorted(
            grid.axes, key=lambda name: (name == TIME and grid.ndim > 2, sizes[name] <= 2)
        )
        default_order = [*grid.picture_order(default_order[:2]), *default_order[2:]]
        wanted = [name for name in request.names("shown") if name in grid.axes]
        self.shown = list(dict.fromkeys([*wanted, *default_order]))[:2]
        positions = RequestFields(request.mapping("at"), "at")
        self.at = {
            name: min(positions.integer(name, 0, 0, 10**9), size - 1)
            for name, size in sizes.items()
            if name not in self.shown
        }
        self._axis_order = [grid.axes.index(name) for name in self.shown]
        self._index = tuple(self.at.get(name, slice(None)) for name in grid.axes)
        cells = math.prod(sizes[name] for name in self.shown)
        if cells > MAP_MAX_STATES:
            requirement = f"a map shows at most {MAP_MAX_STATES:,} states at once"
            place = " x ".join(self.shown)
            raise ArgumentError(requirement, location=place, value=f"has {cells:,}")

    def columns(self, array: NDArray) -> NDArray:
        """The part of a (grid) array that is shown, a row for each column of the map."""
        part = array[self._index]
        if len(self.shown) == 2 and self._axis_order[0] > self._axis_order[1]:
            part = part.T
        return part.reshape(part.shape[0], -1)


def _describe_model(mdp: ts.MDP) -> dict[str, Any]:
    axes = zip(mdp.grid.axes, mdp.grid.values, strict=True)
    return {
        "name": mdp.name,
        "states": mdp.n_states,
        "axes": [{"name": name, "values": values.tolist()} for name, values in axes],
        "action_name": mdp.action_name,
        "actions": [str(action) for action in mdp.actions],
        "criterion": str(mdp.criterion).replace("reward", mdp.sense.reward),
        "stated_in": mdp.sense.rewards_noun,
        "noise": mdp.observation_noise,
        "measures": [
            {"name": name, "better": "more" if _should_rise(mdp.measures[name]) else "less"}
            for name in _order_measures(mdp)
        ],
    }


def _order_measures(mdp: ts.MDP) -> list[str]:
    """Names of measures: those that are expressions of counts first, then the counts."""
    return sorted(mdp.measures, key=lambda name: name in mdp.dynamics.counts)


def _should_rise(measure: MeasureFormula) -> bool:
    """Whether more is better at first: where a count is subtracted, as in 1 - lost / demand."""
    return any(weight < 0 for weight in measure.numerator.values())


def _describe_measures(
    mdp: ts.MDP, *policies: Mapping[str, ts.MeasureValue | None]
) -> list[dict[str, Any]]:
    """The measures of policies; null for a ratio whose denominator is 0."""
    described = []
    for name in _order_measures(mdp) if policies[0] else ():
        found = [measures[name] for measures in policies]
        # 0 where the error hides whether a value is.
        values = [one and (one.value if abs(one.value) > one.error_bound else 0.0) for one in found]
        described.append(
            {
                "name": name,
                "is_share": mdp.is_share(name),
                "values": values,
                "off": [one and round_up(one.error_bound, 2) for one in found],
            }
        )
    return described


def _value_range(values: NDArray) -> list[float]:
    finite = values[np.isfinite(values)]
    return [float(finite.min()), float(finite.max())] if finite.size else [0.0, 0.0]


def compare_policies(session: Session, request: RequestFields) -> dict[str, Any]:
    """What changes where the policy of a request takes the place of another one's, ``before``.

    Both are valued under the settings of the request. Where the other settings have other states or
    actions, no policy can take the other's place, and each is shown with its own settings alone.
    """
    before = request.part("before")
    if before is None:
        raise ArgumentError("a comparison needs 'before', a model and its policy")
    before_model = session.get_model(before)
    after_model = session.get_model(request)
    mdp = after_model.solution.mdp
    old, new = (
        session.get_policy(known, side.part("overlay"))
        for known, side in ((before_model, before), (after_model, request))
    )
    is_average = after_model.solution.gain is not None
    comparison = {
        "stated_in": mdp.sense.rewards_noun,
        "unit": average_unit(mdp.clock)[1] if is_average else "from the start",
        "before": _describe_side(before_model.solution, old),
        "after": _describe_side(after_model.solution, new),
    }
    other = before_model.solution.mdp
    if other.grid != mdp.grid or other.actions != mdp.actions:
        return comparison | {"comparable": False}
    comparison["before"] |= _bound_loss(after_model.solution, old)
    comparison["after"] |= _bound_loss(after_model.solution, new)
    return (
        comparison
        | {"comparable": True}
        | _describe_difference(after_model.solution, old, new, comparison)
    )


def _describe_side(solution: ts.Solution, policy: ts.Policy) -> dict[str, Any]:
    """Name and size of a policy, and the optimal value under its own settings."""
    optimal = policy is solution.policy
    name = "optimal" if optimal else getattr(policy, "kind", policy.name) or "a policy"
    return {
        "policy": name,
        "size": policy.size,
        "optimum": solution.mdp.sense.display(_optimal_value(solution)),
    }


def _average_factor(solution: ts.Solution) -> float:
    """What an average per period is multiplied by to be one per unit of time; 1 of a total."""
    return 1.0 if solution.gain is None else average_unit(solution.mdp.clock)[0]


def _bound_loss(solution: ts.Solution, policy: ts.Policy) -> dict[str, Any]:
    """An upper bound on the loss of a policy under these settings, a lower one on its value."""
    if policy is solution.policy:
        loss_bound = 0.0
        relative_loss = 0.0
    else:
        proof = prove_loss(solution, solution.mdp.policy(policy.table))
        loss_bound = _average_factor(solution) * proof.mean_loss * (1 + 2 * EPS)
        relative_loss = proof.relative_loss
    value_bound = (
        _optimal_value(solution) - _average_factor(solution) * solution.error_bound - loss_bound
    )
    # Rounding of this sum, and of the one over the start.
    value_bound -= 8 * EPS * (abs(_optimal_value(solution)) + loss_bound)
    sense = solution.mdp.sense
    shown = sense.display(value_bound)
    share = format_percent_bound(relative_loss) if relative_loss else ""
    return {
        "loss": loss_bound,
        "relative_loss": relative_loss,
        "worth": shown,
        "loses": "nothing" if not loss_bound else round_up(loss_bound, 4),
        "loses_share": "–" if relative_loss is None else share or "nothing",
        "surely": round_up(shown, 6) if sense.is_cost else round_down(shown, 6),
    }


def _optimal_value(solution: ts.Solution) -> float:
    """The value of the best policy from the start, or per unit of time in the long run."""
    if solution.gain is not None:
        return _average_factor(solution) * float(solution.gain)
    start = start_distribution(solution.mdp, None, solution.policy)
    return float(start @ solution.value.ravel())


def _describe_difference(
    solution: ts.Solution, old: ts.Policy, new: ts.Policy, comparison: dict[str, Any]
) -> dict[str, Any]:
    """States that change, and the gain; of a total, from the two bounds on the loss."""
    mdp = solution.mdp
    changed = old.table != new.table
    counts = {"changed": int(changed.sum()), "states": changed.size}
    if mdp.criterion.requires_absorption:  # which ``diff`` does not serve
        gain = comparison["before"]["loss"] - comparison["after"]["loss"] if changed.any() else 0.0
        return counts | {"gain": mdp.sense.display(gain), "changes": [], "measures": []}
    difference = ts.diff(mdp, old.table, new)
    factor = _average_factor(solution)
    # A difference up to this may be an error of the two values.
    noise_level = 4 * factor * solution.error_bound

    def signed_gain(gain: float) -> float:
        return 0.0 if factor * abs(gain) <= noise_level else mdp.sense.display(factor * gain)

    return counts | {
        "gain": signed_gain(difference.gain),
        "time_before": difference.time_a,
        "time_after": difference.time_b,
        "measures": _describe_measures(
            mdp, *({k: both[i] for k, both in difference.measures.items()} for i in (0, 1))
        ),
        "changes": [
            {
                "from": str(mdp.actions[x]),
                "to": str(mdp.actions[y]),
                "states": n,
                "gain": signed_gain(g),
            }
            for x, y, n, g in difference.pairs
        ],
    }


def describe_structure(session: Session, request: RequestFields) -> dict[str, Any]:
    """Measures and geometry of the optimal policy, and the structures that it has."""
    solution = session.get_model(request).solution
    mdp = solution.mdp
    measures = ts.evaluate(mdp, solution.policy).measures if mdp.measures else {}
    tessellation = ts.tessellate(solution)
    panel: dict[str, Any] = {
        "measures": _describe_measures(mdp, measures),
        "geometry": ts.measure(tessellation).figures,
        "structures": [],
        "remark": "",
    }
    if tessellation.grid.size > STRUCTURE_MAX_STATES:
        limit = f"Structure is tested up to {STRUCTURE_MAX_STATES:,} states here"
        return panel | {"remark": f"{limit}; the command `tessella measure` has no limit."}
    return panel | {"structures": ts.examine(tessellation).records()}


def require_certificate(rule: ts.Rule) -> ts.Certificate:
    """The certificate of a rule that ``compress`` made; each of them has one."""
    assert rule.certificate is not None
    return rule.certificate


def describe_rule(session: Session, request: RequestFields) -> dict[str, Any]:
    """The smallest rule within a loss target, in words, with what it loses and the frontier."""
    model = session.get_model(request)
    rule = session.get_rule(model, request.part("overlay"))
    return {
        "class": rule.kind,
        "size": rule.size,
        "size_needed": rule.size_needed,
        "table_size": model.solution.mdp.n_states,
        "loss_target": rule.loss_target,
        "says": rule.explain(),
        "seconds": rule.seconds,
        **{name: rule.facts.get(name) for name in RULE_FACTS},
        "loses": _format_loss(rule.facts["mean_loss"], rule.facts["relative_loss"]),
        "summary": require_certificate(rule).summary(),
        "frontier": [
            {"size": p.size, "loss": p.loss, "class": p.kind} for p in rule.frontier.points
        ],
        "classes": [str(outcome) for outcome in rule.outcomes],
        "stopped": any("time limit" in outcome.explanation for outcome in rule.outcomes),
        **_count_errors(model.solution, rule),
    }


def describe_learned(session: Session, request: RequestFields) -> dict[str, Any]:
    """A policy learned from a sample, and what it loses."""
    model = session.get_model(request)
    overlay = request.part("overlay")
    if overlay is None or overlay.text("kind") != "learned":
        raise ArgumentError("this needs a policy of the kind 'learned'")
    policy = session.get_policy(model, overlay)
    proof = prove_loss(model.solution, policy)
    return {
        "name": policy.name,
        "size": policy.size,
        **_count_errors(model.solution, policy),
        "states": policy.table.size,
        "summary": proof.certificate.summary(),
        "mean_loss": proof.mean_loss,
        "worst_loss": proof.worst_loss,
        "relative_loss": proof.relative_loss,
        "loses": _format_loss(proof.mean_loss, proof.relative_loss),
    }


def describe_tradeoff(session: Session, request: RequestFields) -> dict[str, Any]:
    """What levels of a measure cost at least, and the policy that was found at each of them."""
    mdp = session.get_model(request).solution.mdp
    curve = session.get_tradeoff(session.get_model(request), request)
    return {
        "measure": curve.measure,
        "better": curve.better,
        "is_share": mdp.is_share(curve.measure),
        "stated_in": mdp.sense.rewards_noun,
        "unit": average_unit(mdp.clock)[1] if mdp.criterion.has_gain else "from the start",
        "points": [
            {
                "level": drop_rounding(point.level, curve.level_scale),
                "bound": drop_rounding(
                    point.low if mdp.sense.is_cost else point.high, curve.cost_scale
                ),
                "within": round_up(point.high - point.low, 2),
                "price": curve.describe_price(point),
                "objective": drop_rounding(point.objective, curve.cost_scale),
                "value": drop_rounding(point.value, curve.level_scale),
                "measures": _describe_measures(mdp, point.measures),
            }
            for point in curve.points
        ],
    }


def _count_errors(solution: ts.Solution, policy: ts.Policy) -> dict[str, int]:
    """In how many states a policy takes a worse action, and another one that is as good."""
    ties = solution.ties(policy.table)
    differs = policy.table != solution.policy.table
    return {"errors": int((~ties).sum()), "ties": int((differs & ties).sum())}


def _format_loss(mean_loss: float, relative_loss: float | None) -> str:
    """``0.64%``; ``at most 3.2`` in the units of the model where there is no relative loss."""
    if relative_loss is None:
        return f"at most {round_up(mean_loss, 4)}"
    return format_percent_bound(relative_loss)


def simulate_path(session: Session, request: RequestFields) -> dict[str, Any]:
    """One path under a policy: places along each axis, actions, and what was earned."""
    model = session.get_model(request)
    mdp = model.solution.mdp
    policy = session.get_policy(model, request.part("overlay"))
    periods = request.integer("periods", 60, 1, PATH_MAX_PERIODS)
    seed = request.integer("seed", 0, 0, 2**31)
    start = None
    if request.has("start"):
        start = request.integer("start", 0, 0, mdp.n_states - 1)
    paths = ts.simulate(mdp, policy, periods, seed, start=start)
    n_live = int((paths.actions[0] >= 0).sum())
    indices = np.unravel_index(paths.states[0, : n_live + 1], mdp.grid.shape)
    display = mdp.sense.display
    average_factor, unit = average_unit(mdp.clock)
    rewards = paths.rewards[0, :n_live]
    return {
        "places": dict(zip(mdp.grid.axes, indices, strict=True)),
        "actions": paths.actions[0, :n_live],
        "earned": display(rewards),
        "mean": display(average_factor * float(rewards.mean())) if n_live else 0.0,
        "unit": unit,
        "total": display(float(paths.returns[0])),
        "ended": n_live < periods,
    }


def make_file(session: Session, request: RequestFields) -> tuple[str, bytes]:
    """Name and content of the file that a request names."""
    file_names = [MODEL_FILE, CERTIFICATE_FILE, *(f"rule{ending}" for ending in RULE_SUFFIXES)]
    name = request.choice("file", file_names)
    if name == MODEL_FILE:
        return name, ts.write_model(session.get_model(request).solution.mdp).encode()
    rule = session.get_rule(session.get_model(request), request.part("overlay"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        if name != CERTIFICATE_FILE:
            rule.export(path)
        else:
            require_certificate(rule).save(path)
        return name, path.read_bytes()


PANELS: dict[str, Callable[[Session, RequestFields], dict[str, Any]]] = {
    "map": draw_map,
    "structure": describe_structure,
    "rule": describe_rule,
    "learned": describe_learned,
    "tradeoff": describe_tradeoff,
    "change": compare_policies,
    "path": simulate_path,
}


def answer_request(session: Session, job: str, body: Any) -> Reply:
    """The answer to a request, or an error as a sentence."""
    try:
        request = RequestFields(body)
        if job == "file":
            return file_reply(*make_file(session, request))
        return json_reply(PANELS[job](session, request))
    except Exception as error:
        return error_reply(error)
