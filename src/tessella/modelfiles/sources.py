"""Data files that a model file names, read whole and within bounds.

They must lie beside it or below: neither absolute nor climbing out of the folder, and no part of
the way a symbolic link. Each part is opened from the folder before it, so what was checked is what
is read; where a system has no such thing (Windows), each part of the path is looked at, and the
file that was opened must be the one that was. Pipes and devices are never waited for.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath, PureWindowsPath

from tessella.errors import FileError
from tessella.files import AT_ONCE, read_open, refuse_irregular

NO_LINK = getattr(os, "O_NOFOLLOW", 0)
FOLDER = getattr(os, "O_DIRECTORY", 0)
STEPS = bool(FOLDER) and {os.open, os.stat} <= os.supports_dir_fd  # from one folder to the next


def read_beside(folder: Path, name: str, largest: int) -> bytes:
    """The bytes of the file that a model file in ``folder`` names."""
    rule = f"{name!r} cannot be read"
    parts = _parts(name, rule)
    try:
        file = _by_steps(folder, parts, rule) if STEPS else _by_path(folder, name, rule)
    except FileNotFoundError:
        raise FileError(rule, value="it is missing") from None
    except (OSError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(rule, value=getattr(error, "strerror", None) or str(error)) from error
    return read_open(file, rule, largest)


def _parts(name: str, rule: str) -> tuple[str, ...]:
    plain = PurePosixPath(name)
    climbs = ".." in (*plain.parts, *PureWindowsPath(name).parts)
    if plain.is_absolute() or PureWindowsPath(name).drive or climbs or not plain.parts:
        raise FileError(rule, value="data lie beside the model file, or in a folder below it")
    return plain.parts


def _by_steps(folder: Path, parts: tuple[str, ...], rule: str) -> int:
    here = os.open(folder, os.O_RDONLY | FOLDER)
    for part in parts[:-1]:
        here = _stepped(here, part)
    return _opened(here, parts[-1], rule)


def _by_path(folder: Path, name: str, rule: str) -> int:
    path, found = folder, os.stat(folder)
    for part in PureWindowsPath(name).parts:
        path = path / part
        found = os.lstat(path)
        _refuse_link(found, rule)
    refuse_irregular(found, rule)
    file = os.open(path, os.O_RDONLY | AT_ONCE | NO_LINK)
    if os.path.samestat(found, os.fstat(file)):
        return file
    os.close(file)
    raise FileError(rule, value="it changes while it is read")


def _refuse_link(found: os.stat_result, rule: str) -> None:
    """Refuse symbolic links, and what Windows has like them."""
    elsewhere = getattr(found, "st_file_attributes", 0) & stat.FILE_ATTRIBUTE_REPARSE_POINT
    if stat.S_ISLNK(found.st_mode) or elsewhere:
        raise FileError(rule, value="it is a symbolic link")


def _stepped(here: int, part: str) -> int:
    """The folder ``part`` of an open folder, which is closed."""
    try:
        return os.open(part, os.O_RDONLY | FOLDER | NO_LINK, dir_fd=here)
    finally:
        os.close(here)


def _opened(here: int, part: str, rule: str) -> int:
    try:
        found = os.stat(part, dir_fd=here, follow_symlinks=False)
        _refuse_link(found, rule)
        refuse_irregular(found, rule)
        return os.open(part, os.O_RDONLY | AT_ONCE | NO_LINK, dir_fd=here)
    finally:
        os.close(here)
