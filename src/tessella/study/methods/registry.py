"""Finding a method by its name.

A name with a colon, ``package.module:attribute``, is imported, so that a study can include a method
of one's own; workers find it in the same way.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from tessella.errors import ModelError
from tessella.study.methods.method import Method


class UnknownMethodError(ModelError):
    """A name that leads to no method, here or on a worker."""


@cache
def known() -> dict[str, Method]:
    """The methods that come with the study, in the order of the paper's table."""
    from tessella.study.methods.boundary import BOUNDARY
    from tessella.study.methods.references import REFERENCES
    from tessella.study.methods.value_based import VALUE_BASED

    return {**BOUNDARY, **VALUE_BASED, **REFERENCES}


def by_name(name: str) -> Method:
    """The method called ``name``."""
    if ":" in name:
        module, attribute = name.split(":", 1)
        try:
            return getattr(import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise UnknownMethodError(f"no method is called {name!r}: {error}") from error
    if name not in known():
        raise UnknownMethodError(f"no method is called {name!r}; there are {', '.join(known())}")
    return known()[name]
