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
from tessella.files import OPEN_FLAGS, read_open, require_regular

NO_FOLLOW_FLAG = getattr(os, "O_NOFOLLOW", 0)
DIRECTORY_FLAG = getattr(os, "O_DIRECTORY", 0)
# Whether a path can be opened from one folder to the next.
CAN_OPEN_RELATIVE = bool(DIRECTORY_FLAG) and {os.open, os.stat} <= os.supports_dir_fd


def read_data_file(folder: Path, name: str, max_bytes: int) -> bytes:
    """The bytes of the file that a model file in ``folder`` names."""
    requirement = f"{name!r} cannot be read"
    parts = _require_relative(name, requirement)
    try:
        descriptor = (
            _open_relative(folder, parts, requirement)
            if CAN_OPEN_RELATIVE
            else _open_by_path(folder, name, requirement)
        )
    except FileNotFoundError:
        raise FileError(requirement, value="it is missing") from None
    except (OSError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(
            requirement, value=getattr(error, "strerror", None) or str(error)
        ) from error
    return read_open(descriptor, requirement, max_bytes)


def _require_relative(name: str, requirement: str) -> tuple[str, ...]:
    posix_path = PurePosixPath(name)
    climbs = ".." in (*posix_path.parts, *PureWindowsPath(name).parts)
    if posix_path.is_absolute() or PureWindowsPath(name).drive or climbs or not posix_path.parts:
        raise FileError(
            requirement, value="data lie beside the model file, or in a folder below it"
        )
    return posix_path.parts


def _open_relative(folder: Path, parts: tuple[str, ...], requirement: str) -> int:
    folder_descriptor = os.open(folder, os.O_RDONLY | DIRECTORY_FLAG)
    for part in parts[:-1]:
        folder_descriptor = _open_folder(folder_descriptor, part)
    return _open_file(folder_descriptor, parts[-1], requirement)


def _open_by_path(folder: Path, name: str, requirement: str) -> int:
    path = folder
    status = os.stat(folder)
    for part in PureWindowsPath(name).parts:
        path = path / part
        status = os.lstat(path)
        _refuse_link(status, requirement)
    require_regular(status, requirement)
    descriptor = os.open(path, os.O_RDONLY | OPEN_FLAGS | NO_FOLLOW_FLAG)
    if os.path.samestat(status, os.fstat(descriptor)):
        return descriptor
    os.close(descriptor)
    raise FileError(requirement, value="it changes while it is read")


def _refuse_link(status: os.stat_result, requirement: str) -> None:
    """Refuse symbolic links, and what Windows has like them."""
    is_reparse_point = getattr(status, "st_file_attributes", 0) & stat.FILE_ATTRIBUTE_REPARSE_POINT
    if stat.S_ISLNK(status.st_mode) or is_reparse_point:
        raise FileError(requirement, value="it is a symbolic link")


def _open_folder(folder_descriptor: int, part: str) -> int:
    """The folder ``part`` of an open folder, which is closed."""
    try:
        return os.open(
            part, os.O_RDONLY | DIRECTORY_FLAG | NO_FOLLOW_FLAG, dir_fd=folder_descriptor
        )
    finally:
        os.close(folder_descriptor)


def _open_file(folder_descriptor: int, part: str, requirement: str) -> int:
    try:
        status = os.stat(part, dir_fd=folder_descriptor, follow_symlinks=False)
        _refuse_link(status, requirement)
        require_regular(status, requirement)
        return os.open(part, os.O_RDONLY | OPEN_FLAGS | NO_FOLLOW_FLAG, dir_fd=folder_descriptor)
    finally:
        os.close(folder_descriptor)
