"""Arrays as variables of a NetCDF file, each with the names of its dimensions.

Text is written as strings of any length, and what is true or false as bytes that xarray reads as
such. No other package is loaded for it: a command that reads a solution of before answers at once.

A small file can declare large arrays: what was never written reads as zeros, compressed bytes hold
up to ``MAX_COMPRESSION_RATIO`` times their number, and many labels may point at one long text. What
is declared is compared with the size of the file before it is read.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
from numpy.typing import NDArray

from tessella.errors import FileError
from tessella.files import atomic_write, read_errors, require_regular

Variables = dict[str, tuple[NDArray, tuple[str, ...]]]  # path to values and names of dimensions
MAX_COMPRESSION_RATIO = 1032  # bytes of content for each byte of a compressed file
MODEL_MAX_BYTES = 4 << 30  # bytes of all arrays of a model file
LABEL_BYTES = 32  # bytes of a label in a file, besides its text
# Bytes of labels for each byte of the file: all labels of an axis are as wide as the longest.
LABELS_MAX_EXPANSION = 32


@contextmanager
def open_dataset(path: str | Path, subject: str) -> Iterator[netCDF4.Dataset]:
    """The file at ``path``, which should be ``what``: "a saved model"."""
    with read_errors(path, subject):
        require_regular(os.stat(path), f"{path} cannot be read as {subject}")
        with netCDF4.Dataset(str(path), "r") as file:
            file.set_auto_maskandscale(False)
            yield file


@contextmanager
def created(path: str | Path) -> Iterator[netCDF4.Dataset]:
    """A new file, which takes the place of the one at ``path`` once all is written."""
    with atomic_write(path) as part:
        try:
            with netCDF4.Dataset(str(part), "w", format="NETCDF4") as file:
                yield file
        except (OSError, RuntimeError) as error:  # of a full disk, the library names other causes
            free = shutil.disk_usage(part.parent).free
            cause = (
                f"{getattr(error, 'strerror', None) or error}; {free:,} bytes are free on its disk"
            )
            value = cause if free else os.strerror(errno.ENOSPC)
            raise FileError(f"{path} cannot be written", value=value) from error


def write_variables(file: Any, attributes: dict[str, Any], variables: Variables) -> None:
    """Write attributes, their hash, and variables, those called ``group/name`` into groups."""
    file.setncatts(attributes | {"content": digest(attributes, variables)})
    for name, (values, dimensions) in variables.items():
        group, _, last = name.rpartition("/")
        _write(file.createGroup(group) if group else file, last, values, dimensions)


def _write(group: Any, name: str, values: NDArray, dimensions: tuple[str, ...]) -> None:
    for dimension, length in zip(dimensions, values.shape, strict=True):
        if dimension not in group.dimensions:
            group.createDimension(dimension, length)
    kind = values.dtype.kind
    options = {} if kind == "U" else {"zlib": True, "complevel": 1, "shuffle": True}
    stored = {"U": str, "b": np.int8}.get(kind, values.dtype)
    variable = group.createVariable(name, stored, dimensions, **options)
    if kind == "b":
        variable.setncattr("dtype", "bool")  # as xarray marks it
    variable[:] = values.astype(object) if kind == "U" else values


def digest(attributes: dict[str, Any], variables: Mapping[str, tuple[NDArray, Any]]) -> str:
    """The hash of a file's content: see ``netcdf``."""
    found = hashlib.sha256()
    for name, value in sorted(attributes.items()):
        text = value if isinstance(value, str) else float(value).hex()
        found.update(f"{name}={text}\n".encode())
    for name, (values, _) in sorted(variables.items()):
        kind = {"b": "i"}.get(values.dtype.kind, values.dtype.kind)
        found.update(f"{name} {kind} {list(values.shape)}\n".encode())
        if kind == "U":
            found.update(json.dumps(values.tolist()).encode())
        else:
            found.update(np.ascontiguousarray(values, dtype=f"<{kind}8").data)
    return found.hexdigest()


def refuse_altered(attributes: dict[str, Any], arrays: Mapping[str, NDArray]) -> None:
    """Raise an error for content that is not what the attribute ``content`` is the hash of."""
    stated = attributes.pop("content", None)
    if stated != digest(attributes, {name: (values, ()) for name, values in arrays.items()}):
        raise FileError("its arrays are not those that were saved")


def attributes_of(group: Any) -> dict[str, Any]:
    return {name: group.getncattr(name) for name in group.ncattrs()}


def read_variable(
    variables: Mapping[str, Any], size: int, largest: float = math.inf
) -> dict[str, NDArray]:
    """The values of variables, of a file of ``size`` bytes that has all of them.

    ``largest`` is the most bytes that may be read in all.
    """
    for name, variable in variables.items():
        if not (variable.dtype is str or variable.dtype.kind in "if"):
            raise FileError(f"{name!r} must hold numbers or text", value=f"got {variable.dtype}")
    declared = sum(map(_declared_bytes, variables.values()))
    most = min(MAX_COMPRESSION_RATIO * size, largest)
    if declared > most:
        requirement = f"a file of {size:,} bytes may declare arrays of {most:,} bytes"
        raise FileError(requirement, value=f"it declares {declared:,}")
    return {name: _values(name, variable, size) for name, variable in variables.items()}


def _declared_bytes(variable: Any) -> int:
    """Bytes that reading takes: of the whole, or of one chunk where that is larger."""
    chunks = variable.chunking()
    chunk = 1 if chunks == "contiguous" else math.prod(chunks)
    return 8 * max(math.prod(variable.shape), chunk)


def _values(name: str, variable: Any, size: int) -> NDArray:
    try:
        return _labels(name, variable, size) if variable.dtype is str else variable[...]
    except (OSError, RuntimeError) as error:  # what the library raises of damaged bytes
        raise FileError(f"{name!r} of a file cannot be read: {error}") from error


def _labels(name: str, variable: Any, size: int) -> NDArray:
    """Labels one by one, as long as a file of ``size`` bytes could hold them all."""
    if len(variable.shape) != 1:
        raise FileError(f"{name!r} must be a list of labels", value=f"has shape {variable.shape}")
    labels: list[str] = []
    left = size
    for i in range(variable.shape[0]):
        labels.append(variable[i])
        left -= LABEL_BYTES + len(labels[-1].encode("utf-8", "surrogatepass"))
        if left < 0:
            requirement = f"the labels of {name!r} must fit into the file's {size:,} bytes"
            raise FileError(requirement, location=f"label {i + 1}", value="is one too many")
    width = 4 * len(labels) * max(map(len, labels), default=0)
    if width > LABELS_MAX_EXPANSION * size:
        requirement = f"the labels of {name!r} must be of about one length"
        longest = max(map(len, labels))
        raise FileError(requirement, value=f"one of {len(labels):,} has {longest:,} characters")
    return np.asarray(labels, dtype=str)
