"""Finding a method by its name.

A name with a colon, ``package.module:attribute``, is imported, so that a study can include a method
of one's own; workers find it in the same way.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import get_args

from tessella.errors import StudyError
from tessella.study.methods.method import Group, Method

PARTS = ("title", "group", "edition", "settings", "runs", "together", "seconds", "fit")


class UnknownMethodError(StudyError):
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
        return _imported(name)
    if name not in known():
        there = f"there are {', '.join(known())}"
        raise UnknownMethodError(f"no method is called {name!r}", value=there)
    return known()[name]


def _imported(name: str) -> Method:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except Exception as error:  # whatever a module may do when it is imported
        said = f"{type(error).__name__}: {error}"
        raise UnknownMethodError(f"no method is called {name!r}: {said}") from error
    lacking = [part for part in PARTS if not hasattr(found, part)]
    if lacking:
        raise UnknownMethodError(f"{name!r} is no method: it has no {', '.join(lacking)}")
    if found.group not in get_args(Group):
        rule = f"the group of {name!r} must be one of {', '.join(get_args(Group))}"
        raise UnknownMethodError(rule, value=f"it is {found.group!r}")
    return found
