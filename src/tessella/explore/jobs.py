"""What the worker does for a request: a job by name, and an answer whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tessella.explore.compare import compare_policies
from tessella.explore.downloads import make_file
from tessella.explore.drawing import draw_map
from tessella.explore.panels import (
    describe_learned,
    describe_rule,
    describe_structure,
    simulate_path,
)
from tessella.explore.reply import Reply, error_reply, file_reply, json_reply
from tessella.explore.request import RequestFields
from tessella.explore.session import Session

PANELS: dict[str, Callable[[Session, RequestFields], dict[str, Any]]] = {
    "map": draw_map,
    "structure": describe_structure,
    "rule": describe_rule,
    "learned": describe_learned,
    "change": compare_policies,
    "path": simulate_path,
}


def answer_request(session: Session, job: str, body: Any) -> Reply:
    """The answer to a request; an error is a sentence, and its trace stays on this side."""
    try:
        request = RequestFields(body)
        if job == "file":
            return file_reply(*make_file(session, request))
        return json_reply(PANELS[job](session, request))
    except Exception as error:
        return error_reply(error)
