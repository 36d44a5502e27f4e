"""Files to take away: a rule in a language, its certificate, the model."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tessella.errors import ArgumentError
from tessella.explore.request import RequestFields
from tessella.explore.session import Session
from tessella.modelfiles.named_problem import write_model

RULE_SUFFIXES = (".c", ".py", ".sql", ".xlsx", ".json", ".csv", ".txt")
MODEL_FILE = "model.toml"
CERTIFICATE_FILE = "certificate.json"


def make_file(session: Session, request: RequestFields) -> tuple[str, bytes]:
    """Name and content of the file that a request names."""
    file_names = [MODEL_FILE, CERTIFICATE_FILE, *(f"rule{ending}" for ending in RULE_SUFFIXES)]
    name = request.choice("file", file_names)
    if name == MODEL_FILE:
        return name, write_model(session.get_model(request).solution.mdp).encode()
    rule = session.get_rule(session.get_model(request), request.part("overlay"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        if name != CERTIFICATE_FILE:
            rule.export(path)
        elif rule.certificate is None:
            raise ArgumentError("a criterion of this kind has no certificates")
        else:
            rule.certificate.save(path)
        return name, path.read_bytes()
