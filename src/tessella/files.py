"""Files: written whole or not at all, and read within bounds.

Every save writes a new file in the same folder, flushes it to the disk and then renames it to the
old name, in one step. A killed process or a full disk leaves the old file or the new one. Every
load reads a regular file of bounded size, and any error in its content is a ``FileError``.
"""

from __future__ import annotations

import csv
import json
import lzma
import os
import re
import secrets
import shutil
import stat
import sys
import zipfile
import zlib
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
SIGNATURE_MAX_BYTES = 200  # bytes at the start of a file that identify its kind
JSON_FILE = "a JSON file"
NETCDF_FILE = "a netCDF file"
NETCDF_SIGNATURES = (b"\x89HDF\r\n\x1a\n", b"CDF")  # the first bytes of netCDF files
OPEN_FLAGS = sum(getattr(os, flag, 0) for flag in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
CONTENT_ERRORS = (  # exceptions that invalid content causes in parsers and constructors
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
    zlib.error,
    lzma.LZMAError,
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
    is_replaced = _is_regular_or_absent(path)
    name = f".{secrets.token_hex(8)}.part{target.suffix}"
    temporary = target.with_name(name) if is_replaced else Path(path)
    try:
        yield temporary
        if is_replaced:
            _flush_and_rename(temporary, target)
    except OSError as error:
        requirement = f"{path} cannot be written"
        raise FileError(requirement, value=error.strerror or str(error)) from error
    finally:
        if is_replaced:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def write_json(path: str | Path, content: Mapping[str, Any], indent: int | None = None) -> None:
    """Write an object of finite numbers, text, lists and objects, for ``read_json``."""
    try:
        text = json.dumps(content, indent=indent, allow_nan=False)
    except ValueError as error:
        raise FileError(f"{path} cannot be written", value=str(error)) from error
    with atomic_write(path) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")


def _flush_and_rename(temporary: Path, target: Path) -> None:
    """Flush the file ``temporary`` to the disk, and rename it to ``target``."""
    file = os.open(temporary, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        os.fsync(file)
    finally:
        os.close(file)
    if target.exists():
        shutil.copymode(target, temporary)
    os.replace(temporary, target)


def _is_regular_or_absent(path: str | Path) -> bool:
    """Whether a save replaces ``path`` by a new file; a device or an open pipe is written to."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        return True


def require_writable(path: str | Path) -> None:
    """Raise an error where a file at ``path`` could not be written, before any work."""
    is_replaced = _is_regular_or_absent(path)
    requirement = f"{path} cannot be written"
    folder = Path(os.path.realpath(path) if is_replaced else path).parent
    if not folder.is_dir():
        defect = "is a file" if folder.exists() else "is missing"
        shown_folder = Path(path).parent if not Path(path).is_symlink() else folder
        raise FileError(requirement, location=f"the folder {shown_folder}", value=defect)
    if Path(path).is_dir():
        raise FileError(requirement, value="a folder has that name")
    if Path(path).exists() and not os.access(path, os.W_OK):
        raise FileError(requirement, value="it is there and may only be read")
    if is_replaced and not os.access(folder, os.W_OK | os.X_OK):
        raise FileError(requirement, location=f"the folder {folder}", value="may not be written to")


@contextmanager
def wrap_read_errors(path: str | Path, subject: str) -> Iterator[None]:
    """Raise any error inside this, in reading the file at ``path``, as a ``FileError``."""
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
        raise FileError(requirement, value=_describe_cause(error)) from error


def _describe_cause(error: BaseException) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def read_json(path: str | Path, subject: str) -> dict[str, Any]:
    """The fields of a JSON file."""
    with wrap_read_errors(path, subject):
        text = read_file_bytes(path, subject, TEXT_MAX_BYTES)
        require_kind(text[:SIGNATURE_MAX_BYTES], JSON_FILE)
        content = json.loads(text.decode("utf-8"), parse_constant=_reject_constant)
        if not isinstance(content, dict):
            raise FileError("it must hold a JSON object", value=f"got {content!r:.60}")
        return content


def require_kind(beginning: bytes, kind: str) -> None:
    """Raise an error that names the kind of a file with this beginning, unless it is ``kind``."""
    actual_kind = _identify_kind(beginning)
    if not actual_kind.startswith(kind):
        raise FileError(f"it must be {kind}", value=f"it is {actual_kind}")


def _identify_kind(beginning: bytes) -> str:
    if beginning.startswith(NETCDF_SIGNATURES):
        return NETCDF_FILE
    if beginning.lstrip().startswith((b"{", b"[")):
        match = re.match(rb'\s*{\s*"format":\s*"([\w -]+)"', beginning)
        return f"{JSON_FILE} of format {match[1].decode()!r}" if match else JSON_FILE
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
    if not FIELD_CHECKS[kind](value):
        raise FileError(f"{name!r} must be {kind}", value=f"got {value!r:.60}")
    return value


def is_finite(value: object) -> bool:
    """Whether ``value``, from JSON, is a finite number that an array can hold."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return abs(value) <= (JSON_MAX_INTEGER if isinstance(value, int) else FLOAT_MAX)


FIELD_CHECKS: dict[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "true or false": lambda value: isinstance(value, bool),
    NATURAL_NUMBER: partial(is_whole, maximum=JSON_MAX_INTEGER),
    "a number": is_finite,
    NOT_NEGATIVE: lambda value: is_finite(value) and value >= 0,
    "a number or null": lambda value: value is None or is_finite(value),
    "an object": lambda value: isinstance(value, dict),
    "a list": lambda value: isinstance(value, list),
}


def read_file_bytes(path: str | Path, subject: str, max_bytes: int) -> bytes:
    """The bytes of the file that a user named: a regular one, of at most ``max_bytes`` bytes."""
    requirement = f"{path} cannot be read as {subject}"
    with wrap_read_errors(path, subject):
        require_regular(os.stat(path), requirement)
        return read_open_file(os.open(path, os.O_RDONLY | OPEN_FLAGS), requirement, max_bytes)


def read_open_file(file: int, requirement: str, max_bytes: int) -> bytes:
    """The bytes of an open file, which is closed afterwards."""
    with os.fdopen(file, "rb") as stream:
        require_regular(os.fstat(stream.fileno()), requirement)
        content = stream.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise FileError(requirement, value=f"it is larger than {max_bytes:,} bytes")
    return content


def require_regular(status: os.stat_result, requirement: str) -> None:
    """Raise an error for folders, pipes and devices: reading some of them never ends."""
    if not stat.S_ISREG(status.st_mode):
        subject = "a folder" if stat.S_ISDIR(status.st_mode) else "no regular file"
        raise FileError(requirement, value=f"it is {subject}")
