"""What ``package.module:attribute`` leads to: a name for a thing of one's own, wherever it is."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tessella.errors import ArgumentError, TessellaError


def import_object(path: str, noun: str, error_class: type[TessellaError] = ArgumentError) -> Any:
    """The ``noun`` at ``path``; ``error_class`` is raised if it cannot be imported."""
    module, _, attribute = path.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except Exception as error:  # whatever a module may do when it is imported
        reason = f"{type(error).__name__}: {error}"
        raise error_class(f"no {noun} is called {path!r}: {reason}") from error
