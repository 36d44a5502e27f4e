"""``tessella solve MODEL``: the optimum, and how good the answer is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from tessella.cli.command import Answer, as_command, table
from tessella.cli.model import about, opened, takes_model, titled

if TYPE_CHECKING:
    from tessella.solvers.solution import Solution

ROWS = 12  # actions that are listed
WITH_MODEL = 20_000_000  # entries of rows up to which a saved solution holds its model


@as_command(
    "solve",
    example="tessella solve INV-Mix\n"
    "tessella solve inventory --set max_stock=40 --save solution.nc",
)
@takes_model
@click.option("--tol", type=float, help="Largest error of any value; by default near rounding.")
@click.option("--save", type=click.Path(path_type=Path), help="Write the solution as NetCDF.")
@click.option("--policy", type=click.Path(path_type=Path), help="Write its policy as CSV.")
def command(
    model: str, given: tuple[str, ...], tol: float | None, save: Path | None, policy: Path | None
) -> Answer:
    """Solve a model exactly and say how good the answer is.

    The solution is remembered for the next command.
    """
    from tessella.cli.remembered import solved
    from tessella.mdp.model import MDP

    _refuse_other_endings(save, policy)
    found = opened(model, given)
    if not isinstance(found, MDP) and (tol is None or found.error_bound <= tol):
        solution, remembered = found, True
    else:
        known = solved(found if isinstance(found, MDP) else found.mdp, tol)
        solution, remembered = known.solution, known.remembered
    wrote = _written(solution, save, policy)
    data = _data(solution) | {"remembered": remembered, "files": list(wrote)}
    lines = [_told(solution, remembered), *wrote.values()]
    return Answer("\n".join(lines), data)


def _refuse_other_endings(save: Path | None, policy: Path | None) -> None:
    from tessella.errors import ArgumentError

    for path, ending in ((save, ".nc"), (policy, ".csv")):
        if path is not None and path.suffix != ending:
            raise ArgumentError(f"this file ends in {ending}", value=f"got {path.name!r}")


def _written(solution: Solution, save: Path | None, policy: Path | None) -> dict[str, str]:
    """What was written, and what is said of it."""
    from tessella.mdp.files.netcdf import entries

    said = {}
    if save is not None:
        whole = entries(solution.mdp) <= WITH_MODEL
        solution.save(save, with_model=whole)
        without = "" if whole else "; its model is too large to go with it, so name that instead"
        said[str(save)] = f"wrote {save}{without}"
    if policy is not None:
        solution.policy.to_csv(policy)
        said[str(policy)] = f"wrote {policy}"
    return said


def _shares(solution: Solution) -> list[tuple[str, int]]:
    counts = np.bincount(solution.policy.table.ravel(), minlength=solution.mdp.n_actions)
    return [(str(a), int(n)) for a, n in zip(solution.mdp.actions, counts, strict=True)]


def _data(solution: Solution) -> dict[str, Any]:
    value = _signed(solution)
    return {
        "model": about(solution.mdp),
        "from_start": _from_start(solution),
        "value": {"mean": value.mean(), "least": value.min(), "most": value.max()},
        "gain": None if solution.gain is None else _sign(solution) * solution.gain,
        "error_bound": solution.error_bound,
        "converged": solution.converged,
        "method": solution.method,
        "sweeps": solution.sweeps,
        "seconds": float(solution.history.seconds[-1]) if solution.sweeps else 0.0,
        "decided": float(solution.decided.mean()),
        "actions": [{"action": name, "states": count} for name, count in _shares(solution)],
    }


def _from_start(solution: Solution) -> float | None:
    """The value from the model's own start; None where it has none, and for averages."""
    from tessella.criteria.finite_horizon import FiniteHorizon
    from tessella.mdp.start import start_distribution

    mdp, horizon = solution.mdp, isinstance(solution.mdp.criterion, FiniteHorizon)
    if solution.gain is not None or (mdp.start is None and not horizon):
        return None
    first = start_distribution(mdp, {} if horizon and mdp.start is None else None)
    return float(first @ _signed(solution).ravel())


def _sign(solution: Solution) -> int:
    return -1 if solution.mdp.minimise else 1


def _signed(solution: Solution) -> np.ndarray:
    return _sign(solution) * solution.value


def _told(solution: Solution, remembered: bool) -> str:
    from tessella.rounding import round_up
    from tessella.solvers.result import write_average

    mdp, value = solution.mdp, _signed(solution)
    what = "cost" if mdp.minimise else "value"
    seconds = float(solution.history.seconds[-1]) if solution.sweeps else 0.0
    how = f"{solution.method}, {solution.sweeps} sweeps, {seconds:.2g} s"
    spread = f"mean {value.mean():,.6g}, from {value.min():,.6g} to {value.max():,.6g}"
    rows = [("solved", f"{how}{', remembered' if remembered else ''}; {solution.ending}")]
    if solution.gain is not None:
        rows += [(what, write_average(mdp, solution))]
        if mdp.clock is not None:
            rows += [("", f"{_sign(solution) * solution.gain:,.8g} per period ({mdp.clock})")]
    else:
        first = _from_start(solution)
        if first is not None:
            rows += [(what, f"{first:,.8g} from the start"), ("", f"over all states: {spread}")]
        else:
            rows += [(what, spread)]
        rows += [
            ("bound", f"no {what} is off by more than {round_up(solution.error_bound, 2)}"),
        ]
    ties = int((~solution.decided).sum())
    rows += [("decided", f"{mdp.n_states - ties:,} of {mdp.n_states:,} states; {ties:,} are ties")]
    used = sorted(_shares(solution), key=lambda row: -row[1])
    used = [(name, f"{n:,} states", f"{n / mdp.n_states:.1%}") for name, n in used if n]
    lines = [titled(mdp), table(rows), "", f"{mdp.action_name} by states:"]
    lines += [f"  {line}" for line in table(used[:ROWS], right="rrr").splitlines()]
    rest = len(used) - ROWS
    return "\n".join(lines + ([f"  and {rest} more"] if rest > 0 else []))
