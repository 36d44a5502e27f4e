"""What the worker does for a request: a job by name, and an answer whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tessella.explore.asked import Asked
from tessella.explore.change import change_found
from tessella.explore.drawing import map_drawn
from tessella.explore.files import file_made
from tessella.explore.findings import (
    learned_found,
    path_found,
    rule_found,
    structure_found,
)
from tessella.explore.reply import Reply, file, refusal, said
from tessella.explore.session import Session

FINDINGS: dict[str, Callable[[Session, Asked], dict[str, Any]]] = {
    "map": map_drawn,
    "structure": structure_found,
    "rule": rule_found,
    "learned": learned_found,
    "change": change_found,
    "path": path_found,
}


def answer(session: Session, job: str, body: Any) -> Reply:
    """The answer to a request; an error is a sentence, and its trace stays on this side."""
    try:
        asked = Asked(body)
        if job == "file":
            return file(*file_made(session, asked))
        return said(FINDINGS[job](session, asked))
    except Exception as error:
        return refusal(error)
