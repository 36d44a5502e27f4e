"""The user's cache folder, in which commands keep compiled code and solutions for each other.

The folder is ``TESSELLA_CACHE``, else the system's. Compiled code lies in a folder for each
machine, since code for one processor may not run on another: the second solve of a shape compiles
nothing. Solutions lie each under a hash of the model's fingerprint and the version, so that ``map``
after ``solve`` is instant. A file appears whole or not at all, so commands that run at once do not
disturb each other. Files that were not used for longest are removed beyond a limit of bytes.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import click

import tessella as ts
from tessella.errors import FileError
from tessella.support.progress import open_progress

JAX_CACHE_MAX_BYTES = 1 << 29  # bytes of compiled code
SOLUTIONS_MAX_BYTES = 1 << 30  # bytes of all solutions
PROGRESS_MIN_STATES = 100_000  # states from which a solve shows its progress
CACHE_FOLDER_VARIABLE = "JAX_COMPILATION_CACHE_DIR"
JAX_CACHE_VARIABLES = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
}


def cache_folder() -> Path:
    """``TESSELLA_CACHE``, or else the cache folder of the system."""
    from_environment = os.environ.get("TESSELLA_CACHE")
    if from_environment:
        return Path(from_environment)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tessella"
    base = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "tessella"


def evict(folder: Path, max_bytes: int) -> None:
    """Delete the least recently used files of a folder, but never the latest."""
    files = []
    for path in folder.iterdir():
        with suppress(OSError):
            status = path.stat()
            if path.is_file():
                files.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files)[:-1]:
        if total <= max_bytes:
            break
        with suppress(OSError):
            path.unlink()
        total -= size


def enable_jax_cache() -> None:
    """Name the folder in the environment; JAX reads it when it is first imported."""
    # An entry that another command is writing at that time is compiled again.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
    if CACHE_FOLDER_VARIABLE in os.environ:
        return
    with suppress(OSError, RuntimeError):
        folder = cache_folder() / "compiled" / platform.node()
        folder.mkdir(parents=True, exist_ok=True)
        evict(folder, JAX_CACHE_MAX_BYTES)
        os.environ.update({CACHE_FOLDER_VARIABLE: str(folder), **JAX_CACHE_VARIABLES})


class CachedSolution(NamedTuple):
    solution: ts.Solution
    is_cached: bool


def solve_cached(
    mdp: ts.MDP,
    tol: float | None = None,
    *,
    any_tol: bool = False,
    max_bytes: int = SOLUTIONS_MAX_BYTES,
) -> CachedSolution:
    """The solution of ``mdp``, from an earlier command if there is one.

    Two solutions of a model are kept: with the default tolerance, and the last with another. For a
    ``tol``, either serves whose bound is as good; with ``any_tol``, whichever there is. All
    solutions together take at most ``max_bytes``.
    """
    from tessella.solvers.solution import SOLUTION_FORMAT

    identity = "\n".join([SOLUTION_FORMAT, ts.__version__, mdp.fingerprint])
    name = hashlib.sha256(identity.encode()).hexdigest()[:32]
    default_path = cache_folder() / "solutions" / f"{name}.nc"
    other_path = default_path.with_name(f"{name}-other.nc")
    for path in (default_path,) if tol is None and not any_tol else (default_path, other_path):
        cached = _read_cached(path, mdp)
        if cached is not None and (tol is None or cached.error_bound <= tol):
            return CachedSolution(cached, True)
    solution = solve_with_status(mdp, tol=tol)
    if 8 * mdp.n_states * (mdp.n_actions + 4) > max_bytes // 4:
        click.echo("the solution is too large to be kept for the next command", err=True)
    elif solution.converged:
        _store(solution, default_path if tol is None else other_path, max_bytes)
    return CachedSolution(solution, False)


def solve_with_status(mdp: ts.MDP, **options: Any) -> ts.Solution:
    """Solve ``mdp`` with options of ``solve``, and show the progress of a large one."""
    with open_progress() as progress:
        progress.status("solving; the first solve of a large shape compiles for some seconds")
        is_long = mdp.n_states >= PROGRESS_MIN_STATES
        return ts.solve(mdp, callback=progress.sweep if is_long else None, **options)


def _read_cached(path: Path, mdp: ts.MDP) -> ts.Solution | None:
    if not path.is_file():
        return None
    try:
        solution = ts.Solution.load(path, mdp)
        os.utime(path)
    except (FileError, OSError):  # cut short, or gone since
        with suppress(OSError):
            path.unlink()
        return None
    return solution


def _store(solution: ts.Solution, path: Path, max_bytes: int) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        solution.save(path)
        evict(path.parent, max_bytes)
    except (OSError, FileError) as error:
        click.echo(f"the solution is not kept for the next command: {error}", err=True)
