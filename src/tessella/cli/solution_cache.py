"""Solutions that are kept between commands, so that ``map`` after ``solve`` is instant.

They lie in the user's cache folder (``TESSELLA_CACHE``, else the system's), each under a hash of
the model's fingerprint and the version. A file appears whole or not at all, so commands that run at
once do not disturb each other; the oldest go when all take more than ``CACHE_MAX_BYTES``.
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

from tessella.cli.cache import cache_folder, evict
from tessella.cli.status_line import status_line
from tessella.errors import FileError
from tessella.mdp.model import MDP
from tessella.rounding import round_up
from tessella.solvers.solution import SOLUTION_FORMAT, Solution

if TYPE_CHECKING:
    from tessella.solvers.loop import Progress

CACHE_MAX_BYTES = 1 << 30  # bytes of all that is kept
SOLUTION_MAX_BYTES = CACHE_MAX_BYTES // 4  # bytes of one solution
PROGRESS_MIN_STATES = 100_000  # states from which a solve shows its progress


@dataclass(frozen=True)
class CachedSolution:
    solution: Solution
    is_cached: bool


def solve_cached(mdp: MDP, tol: float | None = None, *, any_tol: bool = False) -> CachedSolution:
    """The solution of ``mdp``, from an earlier command if there is one.

    One with the usual tolerance is kept beside the last with another. Asked for ``tol``, either
    serves whose bound is as good; with ``any_tol``, whichever there is.
    """
    default_path, other_path = _solution_paths(mdp)
    for path in (default_path,) if tol is None and not any_tol else (default_path, other_path):
        cached = _read_cached(path, mdp)
        if cached is not None and (tol is None or cached.error_bound <= tol):
            return CachedSolution(cached, True)
    solution = _solve_with_status(mdp, tol)
    if 8 * mdp.n_states * (mdp.n_actions + 4) > SOLUTION_MAX_BYTES:
        click.echo("the solution is too large to be kept for the next command", err=True)
    elif solution.converged:
        _store(solution, default_path if tol is None else other_path)
    return CachedSolution(solution, False)


def _solve_with_status(mdp: MDP, tol: float | None) -> Solution:
    from tessella.solvers.solve import solve

    with status_line(sys.stderr) as show_status:
        show_status("solving; the first solve of a large shape compiles for some seconds")
        if mdp.n_states < PROGRESS_MIN_STATES:
            return solve(mdp, tol=tol)

        def show_progress(progress: Progress) -> None:
            time_left = "" if progress.left is None else f", about {progress.left:.0f} s left"
            bound = round_up(progress.bound, 2)
            elapsed = f"{progress.seconds:.0f} s"
            show_status(f"sweep {progress.sweep}: bound {bound}, {elapsed}{time_left}")

        return solve(mdp, tol=tol, callback=show_progress)


def solutions_folder() -> Path:
    """Where solutions are kept."""
    return cache_folder() / "solutions"


def _solution_paths(mdp: MDP) -> tuple[Path, Path]:
    """Where this model's solutions belong: with the usual tolerance, and with another."""
    identity = "\n".join([SOLUTION_FORMAT, version("tessella"), mdp.fingerprint])
    name = hashlib.sha256(identity.encode()).hexdigest()[:32]
    return solutions_folder() / f"{name}.nc", solutions_folder() / f"{name}-other.nc"


def _read_cached(path: Path, mdp: MDP) -> Solution | None:
    if not path.is_file():
        return None
    try:
        solution = Solution.load(path, mdp)
        os.utime(path)
    except (FileError, OSError):  # cut short, or gone since
        with suppress(OSError):
            path.unlink()
        return None
    return solution


def _store(solution: Solution, path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        solution.save(path)
        evict(path.parent, CACHE_MAX_BYTES)
    except (OSError, FileError) as error:
        click.echo(f"the solution is not kept for the next command: {error}", err=True)
