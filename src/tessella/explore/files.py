"""Files to take away: a rule in a language, its certificate, the model."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tessella.errors import ArgumentError
from tessella.explore.asked import Asked
from tessella.explore.session import Session
from tessella.modelfiles.write_model import write_model

RULES = (".c", ".py", ".sql", ".xlsx", ".json", ".csv", ".txt")
MODEL, CERTIFICATE = "model.toml", "certificate.json"


def file_made(session: Session, asked: Asked) -> tuple[str, bytes]:
    """Name and content of the file that a request names."""
    named = [MODEL, CERTIFICATE, *(f"rule{ending}" for ending in RULES)]
    name = asked.choice("file", named)
    if name == MODEL:
        return name, write_model(session.solved(asked).solution.mdp).encode()
    rule = session.rule(session.solved(asked), asked.part("overlay"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        if name != CERTIFICATE:
            rule.export(path)
        elif rule.certificate is None:
            raise ArgumentError("a criterion of this kind has no certificates")
        else:
            rule.certificate.save(path)
        return name, path.read_bytes()
