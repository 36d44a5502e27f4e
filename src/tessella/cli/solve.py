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

    found = opened(model, given)
    known = solved(found, tol) if isinstance(found, MDP) else None
    solution = found if known is None else known.solution
    assert not isinstance(solution, MDP)
    remembered = known is None or known.remembered
    wrote = _written(solution, save, policy)
    data = _data(solution) | {"remembered": remembered, "files": [str(path) for path in wrote]}
    lines = [_told(solution, remembered), *(f"wrote {path}" for path in wrote)]
    return Answer("\n".join(lines), data)


def _written(solution: Solution, save: Path | None, policy: Path | None) -> list[Path]:
    from tessella.mdp.files.netcdf import entries

    if save is not None:
        solution.save(save, with_model=entries(solution.mdp) <= WITH_MODEL)
    if policy is not None:
        solution.policy.to_csv(policy)
    return [path for path in (save, policy) if path is not None]


def _shares(solution: Solution) -> list[tuple[str, int]]:
    counts = np.bincount(solution.policy.table.ravel(), minlength=solution.mdp.n_actions)
    return [(str(a), int(n)) for a, n in zip(solution.mdp.actions, counts, strict=True)]


def _data(solution: Solution) -> dict[str, Any]:
    value = _signed(solution)
    return {
        "model": about(solution.mdp),
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


def _sign(solution: Solution) -> int:
    return -1 if solution.mdp.minimise else 1


def _signed(solution: Solution) -> np.ndarray:
    return _sign(solution) * solution.value


def _told(solution: Solution, remembered: bool) -> str:
    mdp, value = solution.mdp, _signed(solution)
    what = "cost" if mdp.minimise else "value"
    seconds = float(solution.history.seconds[-1]) if solution.sweeps else 0.0
    how = f"{solution.method}, {solution.sweeps} sweeps, {seconds:.2g} s"
    spread = f"mean {value.mean():,.6g}, from {value.min():,.6g} to {value.max():,.6g}"
    rows = [("solved", f"{how}{', remembered' if remembered else ''}; {solution.ending}")]
    if solution.gain is not None:
        gain = f"{_sign(solution) * solution.gain:,.8g} per period"
        rows += [(what, f"{gain}, off by at most {solution.error_bound:.1e}")]
        if mdp.clock is not None:
            rows += [
                ("", f"{mdp.clock.rate * _sign(solution) * solution.gain:,.8g} per unit of time")
            ]
    else:
        rows += [
            (what, spread),
            ("bound", f"no {what} is off by more than {solution.error_bound:.1e}"),
        ]
    ties = int((~solution.decided).sum())
    rows += [("decided", f"{mdp.n_states - ties:,} of {mdp.n_states:,} states; {ties:,} are ties")]
    used = sorted(_shares(solution), key=lambda row: -row[1])
    used = [(name, f"{n:,} states", f"{n / mdp.n_states:.1%}") for name, n in used if n]
    lines = [titled(mdp), table(rows), "", f"{mdp.action_name} by states:"]
    lines += [f"  {line}" for line in table(used[:ROWS], right="rrr").splitlines()]
    rest = len(used) - ROWS
    return "\n".join(lines + ([f"  and {rest} more"] if rest > 0 else []))
