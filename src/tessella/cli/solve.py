"""The commands solve and simulate: the optimum and its bound, and a policy played forward."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np

import tessella as ts
from tessella.cli import arguments
from tessella.cli.cache import CachedSolution, solve_cached, solve_with_status
from tessella.cli.command import Answer, as_command, format_table
from tessella.errors import ArgumentError, counted
from tessella.files import atomic_write
from tessella.rounding import round_up

DEFAULT_PERIODS = range(100, 5001)  # of a path: the fewest and the most
LEFT_OUT_MAX_SHARE = 0.01  # of all weight that a discount gives, in later periods
SHOWN_MAX_PERIODS = 12  # periods of the first path
LISTED_MAX_ACTIONS = 12  # actions that are listed
SAVED_MODEL_MAX_ENTRIES = 20_000_000  # row entries up to which a saved solution holds its model


@as_command(
    "solve",
    example="tessella solve INV-Mix\n"
    "tessella solve inventory --set max_stock=40 --save solution.nc",
)
@arguments.model_argument
@click.option("--tol", type=float, help="Largest error of any value; by default near rounding.")
@click.option(
    "--until",
    type=click.Choice(["values", "policy"]),
    default="values",
    help="Stop when values are accurate, or when the policy is proven.",
)
@arguments.constraints_option
@click.option("--save", type=arguments.PATH, help="Write the solution as NetCDF.")
@click.option("--policy", type=arguments.PATH, help="Write its policy as CSV.")
def solve_command(model, tol, until, subject_to, save, policy) -> Answer:
    """Solve a model exactly, with a bound on the error.

    The solution is cached for later commands, except with --until policy.
    """
    for option, path, ending in (("--save", save, ".nc"), ("--policy", policy, ".csv")):
        if path is not None and path.suffix != ending:
            requirement = f"the file of {option} must end in {ending}"
            raise ArgumentError(requirement, value=f"got {path.name!r}")
    mdp = model.mdp
    constraints = arguments.collect_constraints(mdp, subject_to)
    if constraints:
        if save is not None:
            raise ArgumentError("with constraints, --policy writes the result", value="got --save")
        with arguments.citing_levels(model, constraints):
            return _solve_constrained(mdp, policy, tol=tol, until=until, subject_to=constraints)
    solution, is_cached = _find_solution(model, tol, until)
    messages = _write_files(solution, save, policy)
    measured = ts.evaluate(mdp, solution.policy).measures if mdp.measures else {}
    text, measures = arguments.describe_measures(measured)
    data = _solution_data(solution) | {"remembered": is_cached, "files": list(messages)}
    lines = [_describe_solution(solution, is_cached) + text, *messages.values()]
    return Answer("\n".join(lines), data | {"measures": measures})


def _find_solution(model: arguments.NamedModel, tol: float | None, until: str) -> CachedSolution:
    """The solution of a file if it is good enough, one from the cache, or a new one."""
    if until == "policy":
        return CachedSolution(solve_with_status(model.mdp, tol=tol, until=until), is_cached=False)
    if isinstance(model.opened, ts.Solution):
        solution = model.opened
        if solution.has_values and (tol is None or solution.error_bound <= tol):
            return CachedSolution(solution, is_cached=True)
    return solve_cached(model.mdp, tol)


def _solve_constrained(mdp: ts.MDP, policy: Path | None, **options: Any) -> Answer:
    """The optimum with constraints, and the best deterministic policy found."""
    solution: Any = solve_with_status(mdp, **options)
    if policy is not None and solution.policy is None:
        raise ArgumentError("a saved policy is deterministic", value="none was found")
    text, measures = arguments.describe_measures(solution.measures)
    messages = _write_files(solution, None, policy)
    low, high = mdp.sense.display_interval(solution.low, solution.high)
    data = {
        "model": arguments.describe_model(mdp),
        "optimum": {"lower": low, "upper": high},
        "constraints": [
            {"measure": one.name, one.constraint.key: one.constraint.level}
            | {"value": one.value, "price": one.price}
            for one in solution.constraints
        ],
        "says": str(solution),
        "measures": measures,
        "files": list(messages),
    }
    return Answer("\n".join([str(solution) + text, *messages.values()]), data)


def _write_files(solution: ts.Solution, save: Path | None, policy: Path | None) -> dict[str, str]:
    """A message about each file that is written, by path."""
    from tessella.mdp.netcdf import count_saved_probabilities

    messages = {}
    if save is not None:
        with_model = count_saved_probabilities(solution.mdp) <= SAVED_MODEL_MAX_ENTRIES
        solution.save(save, with_model=with_model)
        remark = "" if with_model else " without the model, which is too large; name that instead"
        messages[str(save)] = f"wrote {save}{remark}"
    if policy is not None:
        solution.policy.to_csv(policy)
        messages[str(policy)] = f"wrote {policy}"
    return messages


def _count_states_by_action(solution: ts.Solution) -> list[tuple[str, int]]:
    counts = np.bincount(solution.policy.table.ravel(), minlength=solution.mdp.n_actions)
    return [(str(a), int(n)) for a, n in zip(solution.mdp.actions, counts, strict=True)]


def _solution_data(solution: ts.Solution) -> dict[str, Any]:
    value = solution.mdp.sense.display(solution.value)
    actions = [{"action": name, "states": n} for name, n in _count_states_by_action(solution)]
    return {
        "model": arguments.describe_model(solution.mdp),
        "from_start": _start_value(solution),
        "value": {"mean": value.mean(), "least": value.min(), "most": value.max()},
        "gain": None if solution.gain is None else solution.mdp.sense.display(solution.gain),
        "error_bound": solution.error_bound,
        "has_values": solution.has_values,
        "converged": solution.converged,
        "method": solution.method,
        "sweeps": solution.sweeps,
        "seconds": float(solution.history.seconds[-1]) if solution.sweeps else 0.0,
        "decided": float(solution.decided.mean()),
        "actions": actions,
    }


def _start_value(solution: ts.Solution) -> float | None:
    """The value from the model's own start; None where it has none, and for averages."""
    from tessella.mdp.start import start_distribution

    mdp = solution.mdp
    horizon = solution.mdp.criterion.has_horizon
    if solution.gain is not None or (mdp.start is None and not horizon):
        return None
    start = start_distribution(mdp, {} if horizon and mdp.start is None else None)
    return float(mdp.sense.display(start @ solution.value.ravel()))


def _describe_solution(solution: ts.Solution, is_cached: bool) -> str:
    mdp = solution.mdp
    seconds = float(solution.history.seconds[-1]) if solution.sweeps else 0.0
    method_text = f"{solution.method}, {counted(solution.sweeps, 'sweep')}, {seconds:.2g} s"
    cached_text = ", remembered" if is_cached else ""
    n_decided = int(solution.decided.sum())
    decided_text = f"{n_decided:,} of {counted(mdp.n_states, 'state')}"
    ties_text = counted(mdp.n_states - n_decided, "tie")
    rows = [
        ("solved", f"{method_text}{cached_text}; {solution.status_text}"),
        *_describe_value(solution),
        ("decided", f"{decided_text}; {ties_text}"),
    ]
    lines = [arguments.format_title(mdp), format_table(rows), "", f"{mdp.action_name} by states:"]
    counts = sorted(_count_states_by_action(solution), key=lambda row: -row[1])
    actions = [(name, counted(n, "state"), f"{n / mdp.n_states:.1%}") for name, n in counts if n]
    table = format_table(actions[:LISTED_MAX_ACTIONS], alignment="rrr")
    lines += [f"  {line}" for line in table.splitlines()]
    if len(actions) > LISTED_MAX_ACTIONS:
        lines.append(f"  and {len(actions) - LISTED_MAX_ACTIONS} more")
    return "\n".join(lines)


def _describe_value(solution: ts.Solution) -> list[tuple[str, str]]:
    """Rows of a table: the gain, or the value from the start and its range, and the bound."""
    from tessella.solvers.result import format_average

    mdp = solution.mdp
    subject = mdp.sense.value
    if solution.gain is not None:
        rows = [(subject, format_average(mdp, solution))]
        if mdp.clock is not None:
            gain = mdp.sense.display(solution.gain)
            rows.append(("", f"{gain:,.8g} per period ({mdp.clock})"))
        return rows
    value = mdp.sense.display(solution.value)
    value = np.where(np.abs(value) <= solution.error_bound, 0.0, value)
    range_text = f"mean {value.mean():,.6g}, from {value.min():,.6g} to {value.max():,.6g}"
    bound_text = f"no {subject} is off by more than {round_up(solution.error_bound, 2)}"
    remark = "" if solution.has_values else "; only the policy was solved for"
    bound = ("bound", bound_text + remark)
    start_value = _start_value(solution)
    if start_value is None:
        return [(subject, range_text), bound]
    start_row = (subject, f"{start_value:,.8g} from the start")
    return [start_row, ("", f"over all states: {range_text}"), bound]


@as_command(
    "simulate",
    example="tessella simulate INV-Mix --periods 50 --start stock=3,regime=0\n"
    "tessella simulate INV-Mix --policy rule.json --paths 1000 -o paths.csv",
)
@arguments.model_argument
@arguments.policy_option
@click.option(
    "--periods",
    type=click.IntRange(1),
    help="Length of each path; by default 100, or more where the discount asks for it.",
)
@click.option("--paths", type=click.IntRange(1), default=100, help="Number of paths.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Same seed, same paths.")
@arguments.start_option
@click.option("-o", "--out", type=arguments.PATH, help="All paths as CSV.")
def simulate_command(model, policy, periods, paths, seed, start, out) -> Answer:
    """Play a policy forward on independent paths, and print what it earned."""
    if policy is None:
        chosen: Any = model.solve_unconstrained()
    else:
        chosen = model.mdp.policy(policy)
    mdp = model.mdp
    periods = periods or _choose_periods(mdp.discount)
    first = arguments.parse_start(mdp, start)
    simulated = ts.simulate(mdp, chosen, periods, seed, paths=paths, start=first)
    returns = mdp.sense.display(simulated.returns)
    if out is not None:
        _write_csv(simulated, out)
    measures = {name: found and asdict(found) for name, found in simulated.measures.items()}
    rows = [(name, str(found)) for name, found in simulated.measures.items()]
    data = {
        "model": arguments.describe_model(mdp),
        "measures": measures,
        "policy": "optimal" if policy is None else chosen.name,
        "periods": periods,
        "paths": paths,
        "seed": seed,
        "returns": {"mean": returns.mean(), "least": returns.min(), "most": returns.max()},
        "standard_error": returns.std(ddof=1) / np.sqrt(paths) if paths > 1 else None,
        "file": out,
    }
    text = str(simulated) + _describe_weight(simulated) + arguments.format_measures(rows)
    lines = [text, "", "The first path:", _format_first_path(simulated)]
    return Answer("\n".join(lines + ([f"wrote {out}"] if out is not None else [])), data)


def _choose_periods(discount: float) -> int:
    """As many as hold nearly all of the discounted weight, within limits."""
    needed = math.log(LEFT_OUT_MAX_SHARE) / math.log(discount) if 0 < discount < 1 else 0
    return min(max(math.ceil(needed), DEFAULT_PERIODS[0]), DEFAULT_PERIODS[-1])


def _describe_weight(simulated: ts.Paths) -> str:
    """A line that says how much of an infinite discounted sum the paths hold, if not nearly all."""
    periods = simulated.actions.shape[1]
    weight = 1 - simulated.mdp.discount**periods
    have_ended = (simulated.actions[:, -1] < 0).all()
    if have_ended or not 0 < weight < 1 - LEFT_OUT_MAX_SHARE:
        return ""
    return f"\n{counted(periods, 'period')} hold {weight:.0%} of the discounted weight"


def _format_first_path(simulated: ts.Paths) -> str:
    mdp = simulated.mdp
    end_periods = np.flatnonzero(simulated.actions[0] < 0)
    n_shown = min(
        SHOWN_MAX_PERIODS, end_periods[0] if end_periods.size else simulated.actions.shape[1]
    )
    points = mdp.grid.coordinates(simulated.states[0, :n_shown])
    columns = [[str(v) for v in points[name].tolist()] for name in mdp.grid.axes]
    actions = [str(mdp.actions[a]) for a in simulated.actions[0, :n_shown]]
    rewards = [f"{r:.4g}" for r in mdp.sense.display(simulated.rewards[0, :n_shown])]
    rows = list(zip(map(str, range(n_shown)), *columns, actions, rewards, strict=True))
    headings = ["period", *mdp.grid.axes, mdp.action_name, mdp.sense.reward]
    return format_table(rows, headings, alignment="r" * len(headings))


def _write_csv(simulated: ts.Paths, out: Path) -> None:
    import pandas as pd

    mdp = simulated.mdp
    paths, periods = simulated.actions.shape
    is_live = simulated.actions.ravel() >= 0
    states = simulated.states[:, :-1].ravel()[is_live]
    names = np.array([str(action) for action in mdp.actions])
    reserved = {*mdp.grid.axes, mdp.action_name}

    def free_name(name: str) -> str:
        """The name of a column, with underscores added until the model does not use it."""
        return free_name(f"{name}_") if name in reserved else name

    frame = pd.DataFrame(
        {
            free_name("path"): np.repeat(np.arange(paths), periods)[is_live],
            free_name("period"): np.tile(np.arange(periods), paths)[is_live],
            **mdp.grid.coordinates(states),
            mdp.action_name: names[simulated.actions.ravel()[is_live]],
            free_name(mdp.sense.reward): mdp.sense.display(simulated.rewards.ravel()[is_live]),
        }
    )
    with atomic_write(out) as temporary:
        frame.to_csv(temporary, index=False)
