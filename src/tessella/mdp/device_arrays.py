"""Arrays that stand on a device, and become NumPy's when they are read; nobody changes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Record = TypeVar("Record")


def with_host_arrays(*names: str) -> Callable[[type[Record]], type[Record]]:
    """A dataclass whose fields of these names may be given arrays on a device."""

    def decorate(kind: type[Record]) -> type[Record]:
        for name in names:
            setattr(kind, name, HostArrayField(name))
        return kind

    return decorate


class HostArrayField:
    """A field that is read as NumPy's array, wherever it stands; the first reading copies it.

    ``vars(record)[name]`` holds whichever there is.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, record: Any, owner: type | None = None) -> NDArray | HostArrayField:
        if record is None:
            return self
        stored = record.__dict__[self.name]
        if not isinstance(stored, np.ndarray):
            stored = record.__dict__[self.name] = np.asarray(stored)
        return stored

    def __set__(self, record: Any, array: Any) -> None:
        record.__dict__[self.name] = read_only(array) if isinstance(array, np.ndarray) else array


def read_only(array: NDArray) -> NDArray:
    """The same numbers, which whoever gets them cannot change."""
    seen = array.view()
    seen.flags.writeable = False
    return seen


def host_fields(record: Any) -> dict[str, Any]:
    """What a record holds, with NumPy's arrays alone: for pickles, read in any precision."""
    kind = type(record)
    return {
        name: getattr(record, name)
        if isinstance(getattr(kind, name, None), HostArrayField)
        else value
        for name, value in vars(record).items()
    }
