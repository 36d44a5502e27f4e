"""Requests of the page, read field by field, and replies to it.

An error in a request names the field, its kind and its range. A reply is JSON, a file, or a
sentence that states why it is neither.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tessella as ts
from tessella.errors import ArgumentError, NotConverged, TessellaError, format_brief
from tessella.problems.problem import Parameter
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
        self.location = location

    def text(self, name: str, default: str | None = None) -> str:
        return self._read(name, default, "text", lambda value: isinstance(value, str))

    def choice(self, name: str, options: Sequence[str], default: str | None = None) -> str:
        return self._check(ts.Choice(name, default, options=tuple(options)))

    def integer(self, name: str, default: int, low: int, high: int) -> int:
        return self._check(ts.Integer(name, default, low=low, high=high))

    def number(self, name: str, default: float, low: float, high: float) -> float:
        return self._check(ts.Number(name, default, low=low, high=high))

    def flag(self, name: str) -> bool:
        return self._read(name, False, "true or false", lambda value: isinstance(value, bool))

    def mapping(self, name: str) -> dict[str, Any]:
        return dict(self._read(name, {}, "a JSON object", lambda value: isinstance(value, Mapping)))

    def options(self, name: str, options: Sequence[str]) -> list[str]:
        """A list of some of the options."""
        expected = f"a list of some of {', '.join(options)}"
        return self._read(
            name, [], expected, lambda value: _is_text_list(value) and set(value) <= set(options)
        )

    def names(self, name: str) -> list[str]:
        """A list of any names."""
        return self._read(name, [], "a list of names", _is_text_list)

    def part(self, name: str) -> RequestFields | None:
        value = self.fields.get(name)
        return None if value is None else RequestFields(value, name)

    def has(self, name: str) -> bool:
        return self.fields.get(name) is not None

    def _check(self, parameter: Parameter) -> Any:
        return parameter.check(self.fields.get(parameter.name, parameter.default), self.location)

    def _read(self, name: str, default: Any, expected: str, is_valid: Callable[[Any], bool]) -> Any:
        value = self.fields.get(name, default)
        if not is_valid(value):
            reason = f"got {format_brief(value)}"
            raise ArgumentError(f"{name} must be {expected}", location=self.location, value=reason)
        return value


def _is_text_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


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
    """An error as a sentence; the traceback is printed here and not sent."""
    if isinstance(error, TessellaError | NotConverged):
        return json_reply({"error": str(error)}, STATUS_BAD_REQUEST)
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return json_reply({"error": OUT_OF_MEMORY_TEXT}, STATUS_TOO_LARGE)
    traceback.print_exception(error, file=sys.stderr)
    return json_reply({"error": INTERNAL_ERROR_TEXT}, STATUS_INTERNAL_ERROR)
