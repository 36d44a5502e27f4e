"""``read_model``: a model that a TOML file describes.

The file names a problem and its parameters, or describes a model of its own. All its mistakes are
reported at once, in a ``ModelFileError``. Nothing in it is ever run as a program.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tessella.mdp.model import MDP
from tessella.modelfiles.build_model import build_model
from tessella.modelfiles.check_schema import check_schema
from tessella.modelfiles.named_problem import build_named_problem
from tessella.modelfiles.schema import (
    EVENT_MODEL_SCHEMA,
    NAMED_PROBLEM_SCHEMA,
    STAGED_MODEL_SCHEMA,
    STAGES_AND_EVENTS_SCHEMA,
    Schema,
)
from tessella.modelfiles.toml_document import TomlDocument, read_document


def read_model(path: str | Path, settings: Mapping[str, Any] | None = None) -> MDP:
    """The model that the file at ``path`` describes; see docs/model-files.md.

    ``settings`` take the place of parameters in the file, by name: values, or text as it is typed
    on a command line.
    """
    document = read_document(path)
    settings = dict(settings or {})
    if "problem" in document.data:
        check_schema(document, document.data, NAMED_PROBLEM_SCHEMA)
        return build_named_problem(document, settings)
    check_schema(document, document.data, _choose_schema(document))
    return build_model(document, settings)


def _choose_schema(document: TomlDocument) -> Schema:
    if "events" not in document.data:
        return STAGED_MODEL_SCHEMA
    if "stages" not in document.data:
        return EVENT_MODEL_SCHEMA
    document.note_mistake(("events",), "a model file has stages or events, not both")
    return STAGES_AND_EVENTS_SCHEMA
