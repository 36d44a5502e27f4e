"""Solutions that are kept between commands, so that ``map`` after ``solve`` is instant.

They lie in the user's cache folder (``TESSELLA_CACHE``, else the system's), each under a hash of
the model's fingerprint and the version. A file appears whole or not at all, so
commands that run at once do not disturb each other; the oldest go when all take more than ``MOST``
bytes.
"""

from __future__ import annotations

import hashlib
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tessella.cli.progress import telling
from tessella.cli.room import cache_folder, make_room
from tessella.errors import FileError
from tessella.mdp.model import MDP
from tessella.rounding import round_up
from tessella.solvers.solution import FORMAT, Solution

if TYPE_CHECKING:
    from tessella.solvers.driver import Progress

MOST = 1 << 30  # bytes of all that is kept
EACH = MOST // 4  # of one solution
LARGE = 100_000  # states from which a solve tells how far it is


@dataclass(frozen=True)
class Solved:
    solution: Solution
    remembered: bool


def solved(mdp: MDP, tol: float | None = None, *, any_tol: bool = False) -> Solved:
    """The solution of ``mdp``, from an earlier command if there is one.

    One with the usual tolerance is kept beside the last with another. Asked for ``tol``, either
    serves whose bound is as good; with ``any_tol``, whichever there is.
    """
    usual, other = _paths(mdp)
    for path in (usual,) if tol is None and not any_tol else (usual, other):
        known = _read(path, mdp)
        if known is not None and (tol is None or known.error_bound <= tol):
            return Solved(known, True)
    solution = _solve(mdp, tol)
    if 8 * mdp.n_states * (mdp.n_actions + 4) > EACH:
        click.echo("the solution is too large to be kept for the next command", err=True)
    elif solution.converged:
        _keep(solution, usual if tol is None else other)
    return Solved(solution, False)


def _solve(mdp: MDP, tol: float | None) -> Solution:
    from tessella.solvers.solve import automatic, solve

    method = automatic(mdp, tol)
    with telling(sys.stderr) as tell:
        tell("solving; the first solve of a large shape compiles for some seconds")
        if mdp.n_states < LARGE:
            return solve(mdp, method)

        def told(now: Progress) -> None:
            left = "" if now.left is None else f", about {now.left:.0f} s left"
            tell(f"sweep {now.sweep}: bound {round_up(now.bound, 2)}, {now.seconds:.0f} s{left}")

        return solve(mdp, method, callback=told)


def folder() -> Path:
    """Where solutions are kept."""
    return cache_folder() / "solutions"


def _paths(mdp: MDP) -> tuple[Path, Path]:
    """Where this model's solutions belong: with the usual tolerance, and with another."""
    words = "\n".join([FORMAT, version("tessella"), mdp.fingerprint])
    name = hashlib.sha256(words.encode()).hexdigest()[:32]
    return folder() / f"{name}.nc", folder() / f"{name}-other.nc"


def _read(path: Path, mdp: MDP) -> Solution | None:
    if not path.is_file():
        return None
    try:
        found = Solution.load(path, mdp)
        os.utime(path)
    except (FileError, OSError):  # cut short, or gone since
        with suppress(OSError):
            path.unlink()
        return None
    return found


def _keep(solution: Solution, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        solution.save(path)
        make_room(path.parent, MOST)
    except (OSError, FileError) as error:
        click.echo(f"the solution is not kept for the next command: {error}", err=True)
