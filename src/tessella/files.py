"""Files: written whole or not at all, and read within bounds.

Every save of the package writes a new file in the same folder, hands it to the disk and then gives
it the name of the old one, in one step. Whoever is killed, and whatever disk is full, leaves the
old file or the new one. Every load reads a regular file of bounded size, and an error in what it
holds is a ``FileError``, whatever its cause.
"""

from __future__ import annotations

import csv
import json
import os
import re
import secrets
import shutil
import stat
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from tessella.errors import FileError, is_whole

TEXT_MAX_BYTES = 1 << 30  # of a file that is read as JSON
JSON_MAX_INTEGER = 2**63 - 1
FLOAT_MAX = sys.float_info.max
NATURAL_NUMBER = "a whole number, at least 0"
NOT_NEGATIVE = "a number, at least 0"
KIND_MAX_BYTES = 200  # of a file, by which its kind is told
JSON_FILE = "a JSON file"
NETCDF_FILE = "a netCDF file"
NETCDF_SIGNATURES = (b"\x89HDF\r\n\x1a\n", b"CDF")  # with which netCDF files begin
OPEN_FLAGS = sum(getattr(os, flag, 0) for flag in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
CONTENT_ERRORS = (  # what parsing and building raise of content that is not as it should be
    OSError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
    MemoryError,
    EOFError,
    zipfile.BadZipFile,
    csv.Error,
)


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """The path to write to: a new file, which takes the name of ``path`` once all is written.

    It has the ending of ``path``. A symbolic link stays one, and the file that it names is
    replaced. A device or a pipe has no content to lose and is written to as it is.
    """
    require_writable(path)
    target = Path(os.path.realpath(path))
    whole = _is_regular_or_absent(path)
    name = f".{secrets.token_hex(8)}.part{target.suffix}"
    part = target.with_name(name) if whole else Path(path)
    try:
        yield part
        if whole:
            _replace(part, target)
    except OSError as error:
        requirement = f"{path} cannot be written"
        raise FileError(requirement, value=error.strerror or str(error)) from error
    finally:
        if whole:
            with suppress(OSError):
                part.unlink(missing_ok=True)


def write_json(path: str | Path, content: Mapping[str, Any], indent: int | None = None) -> None:
    """Write an object of finite numbers, text, lists and objects, for ``read_json``."""
    try:
        text = json.dumps(content, indent=indent, allow_nan=False)
    except ValueError as error:
        raise FileError(f"{path} cannot be written", value=str(error)) from error
    with atomic_write(path) as part:
        part.write_text(text + "\n", encoding="utf-8")


def _replace(part: Path, target: Path) -> None:
    """Give the file ``part`` the name of ``target``, once the disk has it."""
    file = os.open(part, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        os.fsync(file)
    finally:
        os.close(file)
    if target.exists():
        shutil.copymode(target, part)
    os.replace(part, target)


def _is_regular_or_absent(path: str | Path) -> bool:
    """Whether a save gives ``path`` a new file; the link to an open pipe names no path."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return True


def require_writable(path: str | Path) -> None:
    """Raise an error where a file at ``path`` could not be written, before any work."""
    whole = _is_regular_or_absent(path)
    requirement = f"{path} cannot be written"
    folder = Path(os.path.realpath(path) if whole else path).parent
    if not folder.is_dir():
        fault = "is a file" if folder.exists() else "is missing"
        named = Path(path).parent if not Path(path).is_symlink() else folder
        raise FileError(requirement, location=f"the folder {named}", value=fault)
    if Path(path).is_dir():
        raise FileError(requirement, value="a folder has that name")
    if Path(path).exists() and not os.access(path, os.W_OK):
        raise FileError(requirement, value="it is there and may only be read")
    if whole and not os.access(folder, os.W_OK | os.X_OK):
        raise FileError(requirement, location=f"the folder {folder}", value="may not be written to")


@contextmanager
def read_errors(path: str | Path, subject: str) -> Iterator[None]:
    """Whatever is wrong with a file is a ``FileError``: every load works inside this."""
    requirement = f"{path} cannot be read as {subject}"
    try:
        yield
    except FileNotFoundError as error:
        raise FileError(requirement, value="it is missing") from error
    except FileError as error:
        if str(path) in str(error):
            raise
        raise FileError(requirement, value=str(error)) from error
    except CONTENT_ERRORS as error:
        raise FileError(requirement, value=_cause(error)) from error


def _cause(error: BaseException) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def read_json(path: str | Path, subject: str) -> dict[str, Any]:
    """The fields of a JSON file."""
    with read_errors(path, subject):
        text = read_whole(path, subject, TEXT_MAX_BYTES)
        require_kind(text[:KIND_MAX_BYTES], JSON_FILE)
        content = json.loads(text.decode("utf-8"), parse_constant=_reject_constant)
        if not isinstance(content, dict):
            raise FileError("it must hold a JSON object", value=f"got {content!r:.60}")
        return content


def require_kind(beginning: bytes, kind: str) -> None:
    """Raise an error where a file that begins so is of another kind, and name that kind."""
    found = _tell_kind(beginning)
    if not found.startswith(kind):
        raise FileError(f"it must be {kind}", value=f"it is {found}")


def _tell_kind(beginning: bytes) -> str:
    if beginning.startswith(NETCDF_SIGNATURES):
        return NETCDF_FILE
    if beginning.lstrip().startswith((b"{", b"[")):
        stated = re.match(rb'\s*{\s*"format":\s*"([\w -]+)"', beginning)
        return f"{JSON_FILE} of format {stated[1].decode()!r}" if stated else JSON_FILE
    if not beginning.strip():
        return "an empty file"
    return "a binary file" if b"\0" in beginning else "a text file"


def _reject_constant(name: str) -> float:
    raise FileError("numbers must be finite", value=f"got {name}")


def read_field(content: Mapping[str, Any], name: str, kind: str) -> Any:
    """The field ``name``, which must be of this ``kind``."""
    if name not in content:
        raise FileError(f"the field {name!r} is needed", value="it is missing")
    value = content[name]
    if not KINDS[kind](value):
        raise FileError(f"{name!r} must be {kind}", value=f"got {value!r:.60}")
    return value


def is_finite(value: object) -> bool:
    """Whether ``value``, from JSON, is a finite number that an array can hold."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= (JSON_MAX_INTEGER if isinstance(value, int) else FLOAT_MAX)


KINDS: dict[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "true or false": lambda value: isinstance(value, bool),
    NATURAL_NUMBER: partial(is_whole, maximum=JSON_MAX_INTEGER),
    "a number": is_finite,
    NOT_NEGATIVE: lambda value: is_finite(value) and value >= 0,
    "a number or null": lambda value: value is None or is_finite(value),
    "an object": lambda value: isinstance(value, dict),
    "a list": lambda value: isinstance(value, list),
}


def read_whole(path: str | Path, subject: str, largest: int) -> bytes:
    """The bytes of the file that a user named: a regular one, of at most ``largest`` bytes."""
    requirement = f"{path} cannot be read as {subject}"
    with read_errors(path, subject):
        require_regular(os.stat(path), requirement)
        return read_open(os.open(path, os.O_RDONLY | OPEN_FLAGS), requirement, largest)


def read_open(file: int, requirement: str, largest: int) -> bytes:
    """The bytes of an open file, which is closed."""
    with os.fdopen(file, "rb") as opened:
        require_regular(os.fstat(opened.fileno()), requirement)
        content = opened.read(largest + 1)
    if len(content) > largest:
        raise FileError(requirement, value=f"it is larger than {largest:,} bytes")
    return content


def require_regular(about: os.stat_result, requirement: str) -> None:
    """Raise an error for folders, pipes and devices: some have no end, or none that comes."""
    if not stat.S_ISREG(about.st_mode):
        subject = "a folder" if stat.S_ISDIR(about.st_mode) else "no regular file"
        raise FileError(requirement, value=f"it is {subject}")
