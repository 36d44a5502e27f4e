"""Arrays as variables of a NetCDF file, each with the names of its dimensions.

Text is written as strings of any length, and what is true or false as bytes that xarray reads as
such. No other package is loaded for it: a command that reads a solution of before answers at once.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import netCDF4
import numpy as np
from numpy.typing import NDArray

from tessella.errors import FileError, reading

Variables = dict[str, tuple[NDArray, tuple[str, ...]]]  # path to values and names of dimensions


def opened(path: str | Path, what: str) -> netCDF4.Dataset:
    """The file at ``path``, which is said to be ``what``: "a saved model"."""
    try:
        with reading(path, what):
            return netCDF4.Dataset(str(path), "r")
    except OSError as error:
        raise FileError(f"{path} cannot be read as {what}: {error}") from error


def put(file: Any, variables: Variables) -> None:
    """Write all variables, those called ``group/name`` into groups."""
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


def take(group: Any, name: str) -> NDArray:
    """The values of one variable, of a file whose masks are off."""
    try:
        values = group[name][:]
    except (OSError, RuntimeError) as error:  # what the library raises of damaged bytes
        raise FileError(f"{name!r} of a file cannot be read: {error}") from error
    return np.asarray(values, dtype=str) if values.dtype == object else np.asarray(values)
