"""What goes back to the page: JSON, a file, or a sentence that says why neither."""

from __future__ import annotations

import json
import sys
import traceback
from dataclasses import dataclass
from typing import Any

from tessella.errors import NotConverged, TessellaError

JSON, BYTES = "application/json", "application/octet-stream"
REFUSED, TOO_LARGE, FAULT = 400, 413, 500
NO_ROOM = "this model does not fit into the memory that a request may take"
OWN_FAULT = "this is a fault of the program; the terminal shows where"


@dataclass(frozen=True)
class Reply:
    """An answer of the worker."""

    status: int
    media: str
    content: bytes
    name: str = ""  # of a file


def said(content: Any, status: int = 200) -> Reply:
    return Reply(status, JSON, json.dumps(content, allow_nan=False, default=_listed).encode())


def file(name: str, content: bytes) -> Reply:
    return Reply(200, BYTES, content, name)


def refusal(error: Exception) -> Reply:
    """An error in a sentence; its trace stays on this side."""
    if isinstance(error, TessellaError | NotConverged):
        return said({"error": str(error)}, REFUSED)
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        return said({"error": NO_ROOM}, TOO_LARGE)
    traceback.print_exception(error, file=sys.stderr)
    return said({"error": OWN_FAULT}, FAULT)


def _listed(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else str(value)
