"""Files that are read whole, within bounds: regular ones, and no larger than they may be.

What a model file names must lie beside it or below: neither absolute nor climbing out of the
folder, and no part of the way a symbolic link. Each part is opened from the folder before it, so
what was checked is what is read. Pipes and devices are never waited for.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath, PureWindowsPath

from tessella.errors import FileError, reading

NOW = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def read_whole(path: str | Path, what: str, largest: int) -> bytes:
    """The bytes of the file that a user named."""
    rule = f"{path} cannot be read as {what}"
    try:
        with reading(path, what):
            _refuse_odd(os.stat(path), rule)
            file = os.open(path, os.O_RDONLY | NOW)
    except (OSError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(rule, value=getattr(error, "strerror", None) or str(error)) from error
    return _content(file, rule, largest)


def read_beside(folder: Path, name: str, largest: int) -> bytes:
    """The bytes of the file that a model file in ``folder`` names."""
    rule = f"{name!r} cannot be read"
    parts = _parts(name, rule)
    try:
        here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        for part in parts[:-1]:
            here = _stepped(here, part)
        file = _opened(here, parts[-1], rule)
    except FileNotFoundError:
        raise FileError(rule, value="it is missing") from None
    except (OSError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(rule, value=getattr(error, "strerror", None) or str(error)) from error
    return _content(file, rule, largest)


def _parts(name: str, rule: str) -> tuple[str, ...]:
    plain = PurePosixPath(name)
    climbs = ".." in (*plain.parts, *PureWindowsPath(name).parts)
    if plain.is_absolute() or PureWindowsPath(name).drive or climbs or not plain.parts:
        raise FileError(rule, value="data lie beside the model file, or in a folder below it")
    return plain.parts


def _stepped(here: int, part: str) -> int:
    """The folder ``part`` of an open folder, which is closed."""
    try:
        return os.open(part, os.O_RDONLY | os.O_DIRECTORY | NO_LINK, dir_fd=here)
    finally:
        os.close(here)


def _opened(here: int, part: str, rule: str) -> int:
    try:
        found = os.stat(part, dir_fd=here, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            raise FileError(rule, value="it is a symbolic link")
        _refuse_odd(found, rule)
        return os.open(part, os.O_RDONLY | NOW | NO_LINK, dir_fd=here)
    finally:
        os.close(here)


def _refuse_odd(found: os.stat_result, rule: str) -> None:
    if not stat.S_ISREG(found.st_mode):
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "no regular file"
        raise FileError(rule, value=f"it is {what}")


def _content(file: int, rule: str, largest: int) -> bytes:
    with os.fdopen(file, "rb") as opened:
        _refuse_odd(os.fstat(opened.fileno()), rule)
        found = opened.read(largest + 1)
    if len(found) > largest:
        raise FileError(rule, value=f"it is larger than {largest:,} bytes")
    return found
