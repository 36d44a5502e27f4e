"""``read_model``: a model that is told in a TOML file.

The file names a problem and its parameters, or tells a model of its own. All that is wrong with it
is said at once, in a ``ModelFileError``. Nothing in it is ever run as a program.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tessella.mdp.model import MDP
from tessella.modelfiles.build_own import build_own
from tessella.modelfiles.document import Document, read_document
from tessella.modelfiles.named_problem import build_named
from tessella.modelfiles.schema import (
    NAMES_A_PROBLEM,
    TELLS_BOTH,
    TELLS_EVENTS,
    TELLS_STAGES,
    Schema,
)
from tessella.modelfiles.shape import check_shape


def read_model(path: str | Path, settings: Mapping[str, Any] | None = None) -> MDP:
    """The model that the file at ``path`` tells; see docs/model-files.md.

    ``settings`` take the place of parameters in the file, by name: values, or text as it is typed
    on a command line.
    """
    document, settings = read_document(path), dict(settings or {})
    if "problem" in document.data:
        check_shape(document, document.data, NAMES_A_PROBLEM)
        return build_named(document, settings)
    check_shape(document, document.data, _shape(document))
    return build_own(document, settings)


def _shape(document: Document) -> Schema:
    if "events" not in document.data:
        return TELLS_STAGES
    if "stages" not in document.data:
        return TELLS_EVENTS
    document.mistake(("events",), "a model file has stages or events, not both")
    return TELLS_BOTH
