"""The methods of a study, by name: those of the package, registered ones, and imported ones."""

from __future__ import annotations

from functools import cache
from typing import get_args

from tessella.runner.methods.method import (
    MethodGroup,
    StudyMethod,
    UnknownNameError,
    find_named,
    require_own_name,
)

REQUIRED_MEMBERS = ("title", "group", "edition", "settings", "runs", "batch_key", "seconds", "fit")

_registered: dict[str, StudyMethod] = {}


@cache
def package_methods() -> dict[str, StudyMethod]:
    """The methods that come with the package, boundary learners first."""
    from tessella.runner.methods.builtin import BOUNDARY_METHODS, REFERENCES, VALUE_BASED_METHODS

    return {**BOUNDARY_METHODS, **VALUE_BASED_METHODS, **REFERENCES}


def register_method(method: StudyMethod) -> str:
    """Register a method under its name and return the name; a later one replaces an earlier."""
    name = require_own_name(method, "method", package_methods())
    _registered[name] = _require_method(method, repr(name))
    return name


def find_method(name: str) -> StudyMethod:
    """The method called ``name``; a name with a colon, ``module:attribute``, is imported."""
    return find_named(name, "method", package_methods() | _registered, _require_method)


def _require_method(method: StudyMethod, name: str) -> StudyMethod:
    missing = [part for part in REQUIRED_MEMBERS if not hasattr(method, part)]
    if missing:
        raise UnknownNameError(f"{name} is no method: it has no {', '.join(missing)}")
    if method.group not in get_args(MethodGroup):
        requirement = f"the group of {name} must be one of {', '.join(get_args(MethodGroup))}"
        raise UnknownNameError(f"{requirement}; it is {method.group!r}")
    return method
