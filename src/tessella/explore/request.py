"""Requests of the page, read field by field, and replies to it.

An error in a request names the field, its kind and its range. A reply is JSON, a file, or a
sentence that states why it is neither.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tessella.errors import (
    ArgumentError,
    NotConverged,
    TessellaError,
    format_brief,
    is_number,
    is_whole,
)
from tessella.support.json_values import to_json_value

JSON_MEDIA_TYPE = "application/json"
BINARY_MEDIA_TYPE = "application/octet-stream"
STATUS_BAD_REQUEST = 400
STATUS_TOO_LARGE = 413
STATUS_INTERNAL_ERROR = 500
OUT_OF_MEMORY_TEXT = "this model does not fit into the memory that a request may take"
INTERNAL_ERROR_TEXT = "this is a fault of the program; the terminal shows where"


class RequestFields:
    """The fields of a request, or of a part of one."""

    def __init__(self, fields: object, location: str = "a request") -> None:
        if not isinstance(fields, Mapping):
            raise ArgumentError(f"{location} is a JSON object", value=f"got {format_brief(fields)}")
        self.fields = fields
        self.owner = location

    def text(self, name: str, default: str | None = None) -> str:
        value = self.fields.get(name, default)
        if not isinstance(value, str):
            self._refuse(name, "text", value)
        return value

    def choice(self, name: str, options: Sequence[str], default: str | None = None) -> str:
        value = self.fields.get(name, default)
        if not isinstance(value, str) or value not in options:
            self._refuse(name, f"one of {', '.join(options)}", value)
        return value

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        value = self.fields.get(name, default)
        if not is_whole(value, low, high):
            self._refuse(name, f"a whole number from {low} to {high}", value)
        return value

    def number(self, name: str, default: float, low: float, high: float) -> float:
        value = self.fields.get(name, default)
        if not is_number(value) or not low <= value <= high:
            self._refuse(name, f"a number from {low:g} to {high:g}", value)
        return float(value)

    def flag(self, name: str) -> bool:
        value = self.fields.get(name, False)
        if not isinstance(value, bool):
            self._refuse(name, "true or false", value)
        return value

    def mapping(self, name: str) -> dict[str, Any]:
        value = self.fields.get(name, {})
        if not isinstance(value, Mapping):
            self._refuse(name, "a JSON object", value)
        return dict(value)

    def options(self, name: str, options: Sequence[str]) -> list[str]:
        """A list of some of the options."""
        value = self.fields.get(name, [])
        if not isinstance(value, list) or not all(
            isinstance(one, str) and one in options for one in value
        ):
            self._refuse(name, f"a list of some of {', '.join(options)}", value)
        return value

    def names(self, name: str) -> list[str]:
        """A list of any names."""
        value = self.fields.get(name, [])
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self._refuse(name, "a list of names", value)
        return value

    def part(self, name: str) -> RequestFields | None:
        value = self.fields.get(name)
        return None if value is None else RequestFields(value, name)

    def has(self, name: str) -> bool:
        return self.fields.get(name) is not None

    def _refuse(self, name: str, expected: str, value: object) -> Any:
        requirement = f"{name!r} of {self.owner} is {expected}"
        raise ArgumentError(requirement, value=f"got {format_brief(value)}")


@dataclass(frozen=True)
class Reply:
    """An answer of the worker."""

    status: int
    media_type: str
    content: bytes
    name: str = ""  # of a file


def json_reply(content: Any, status: int = 200) -> Reply:
    text = json.dumps(to_json_value(content), allow_nan=False)
    return Reply(status, JSON_MEDIA_TYPE, text.encode())


def file_reply(name: str, content: bytes) -> Reply:
    return Reply(200, BINARY_MEDIA_TYPE, content, name)


def error_reply(error: Exception) -> Reply:
    """An error in a sentence; its trace stays on this side."""
    if isinstance(error, TessellaError | NotConverged):
        return json_reply({"error": str(error)}, STATUS_BAD_REQUEST)
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return json_reply({"error": OUT_OF_MEMORY_TEXT}, STATUS_TOO_LARGE)
    traceback.print_exception(error, file=sys.stderr)
    return json_reply({"error": INTERNAL_ERROR_TEXT}, STATUS_INTERNAL_ERROR)
