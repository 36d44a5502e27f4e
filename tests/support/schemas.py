"""Documents read against the schemas that the project publishes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

DOCS = Path(__file__).parents[2] / "docs"


def find_faults(document: Any, name: str, within: str = "") -> list[str]:
    """What is wrong with a document by ``docs/name``, or by one definition ``within`` it."""
    schema = json.loads((DOCS / name).read_text())
    if within:
        schema = {"$ref": f"#/$defs/{within}", "$defs": schema["$defs"]}
    Draft202012Validator.check_schema(schema)
    errors = Draft202012Validator(schema).iter_errors(document)
    return [f"{error.json_path}: {error.message}" for error in errors]
