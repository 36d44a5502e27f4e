"""What goes back to the page: JSON, a file, or a sentence that says why neither."""

from __future__ import annotations

import json
import sys
import traceback
from dataclasses import dataclass
from typing import Any

from tessella.errors import NotConverged, TessellaError

JSON_MEDIA_TYPE = "application/json"
BINARY_MEDIA_TYPE = "application/octet-stream"
STATUS_BAD_REQUEST = 400
STATUS_TOO_LARGE = 413
STATUS_INTERNAL_ERROR = 500
OUT_OF_MEMORY_TEXT = "this model does not fit into the memory that a request may take"
INTERNAL_ERROR_TEXT = "this is a fault of the program; the terminal shows where"


@dataclass(frozen=True)
class Reply:
    """An answer of the worker."""

    status: int
    media_type: str
    content: bytes
    name: str = ""  # of a file


def json_reply(content: Any, status: int = 200) -> Reply:
    return Reply(
        status, JSON_MEDIA_TYPE, json.dumps(content, allow_nan=False, default=_to_json).encode()
    )


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


def _to_json(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)
