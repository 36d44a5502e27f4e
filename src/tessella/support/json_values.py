"""Conversion of values to JSON and back.

JSON has no NaN, no infinity, no arrays of NumPy and no records. Here a number that is not finite
becomes None, arrays, ranges and sets become lists, a dataclass becomes its fields, and any other
object its text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, is_dataclass
from typing import Any

from tessella.errors import StudyError

Converters = Mapping[type, Callable[[Any], Any]]


def to_json_value(value: Any, converters: Converters | None = None) -> Any:
    """``value`` as JSON holds it.

    Args:
        converters: functions by type, whose results are converted in turn.
    """
    for record_type, convert in (converters or {}).items():
        if isinstance(value, record_type):
            return to_json_value(convert(value))
    if isinstance(value, str | bool | None):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "tolist"):
        return _array_to_json(value)
    return _container_to_json(value, converters)


def _container_to_json(value: Any, converters: Converters | None) -> Any:
    """A mapping or a record as an object, other collections as lists, anything else as text."""
    if is_dataclass(value) and not isinstance(value, type):
        value = {item.name: getattr(value, item.name) for item in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json_value(part, converters) for key, part in value.items()}
    if isinstance(value, Sequence | set):
        return [to_json_value(part, converters) for part in value]
    return str(value)


def _array_to_json(array: Any) -> Any:
    """A NumPy array or number as lists, numbers and text."""
    import numpy as np

    if array.dtype.kind == "O":
        return to_json_value(array.tolist())
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return array.tolist()
    parts = np.asarray(array, dtype=object)
    parts[~np.isfinite(array)] = None
    return parts.tolist()


def json_default(value: Any) -> Any:
    """The ``default`` of ``json.dumps`` for objects that JSON lacks; numbers stay exact."""
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, range | set) else str(value)


def to_canonical_json(value: Any) -> str:
    """The canonical text of a value of a spec: sorted names, no spaces, finite numbers."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise StudyError(f"a spec holds finite numbers, text, lists and objects: {error}") from None


def setting_to_json(value: Any, record_types: tuple[type, ...] = ()) -> Any:
    """A setting of a method as JSON; an object that JSON lacks becomes its text or its name.

    Args:
        record_types: dataclasses written as their fields, with the name if there are several.
    """
    if isinstance(value, record_types):
        name = {"kind": type(value).__name__} if len(record_types) > 1 else {}
        return name | asdict(value)
    if isinstance(value, tuple | list):
        return [setting_to_json(part, record_types) for part in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    text = repr(value)  # an address in it differs from process to process
    return getattr(value, "__qualname__", type(value).__name__) if " at 0x" in text else text


def setting_from_json(value: Any, record_types: tuple[type, ...]) -> Any:
    """The setting that ``setting_to_json`` wrote; a list comes back as a tuple."""
    if isinstance(value, list):
        return tuple(setting_from_json(part, record_types) for part in value)
    if not isinstance(value, dict):
        return value
    type_by_name = {record_type.__name__: record_type for record_type in record_types}
    record_type = type_by_name[value["kind"] if len(record_types) > 1 else next(iter(type_by_name))]
    return record_type(**{name: part for name, part in value.items() if name != "kind"})
