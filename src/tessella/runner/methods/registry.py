"""Finding a method by its name: one of the package, one that was registered, or one imported."""

from __future__ import annotations

from functools import cache
from typing import get_args

from tessella.problems.imported import imported
from tessella.runner.methods.method import Group, Method
from tessella.runner.names import UnknownNameError, own_name

PARTS = ("title", "group", "edition", "settings", "runs", "together", "seconds", "fit")

_registered: dict[str, Method] = {}


@cache
def known() -> dict[str, Method]:
    """The methods that come with the package, boundary learners first."""
    from tessella.runner.methods.boundary import BOUNDARY
    from tessella.runner.methods.references import REFERENCES
    from tessella.runner.methods.value_based import VALUE_BASED

    return {**BOUNDARY, **VALUE_BASED, **REFERENCES}


def register_method(method: Method) -> str:
    """Make a method known by its name, and give that name back; the later of two counts."""
    name = own_name(method, "method", known())
    _registered[name] = _checked(method, repr(name))
    return name


def by_name(name: str) -> Method:
    """The method called ``name``."""
    if ":" in name:
        return _checked(imported(name, "method", UnknownNameError), repr(name))
    found = known().get(name) or _registered.get(name)
    if found is None:
        there = ", ".join([*known(), *_registered])
        raise UnknownNameError(f"no method is called {name!r}; there are {there}")
    return found


def _checked(found: Method, name: str) -> Method:
    lacking = [part for part in PARTS if not hasattr(found, part)]
    if lacking:
        raise UnknownNameError(f"{name} is no method: it has no {', '.join(lacking)}")
    if found.group not in get_args(Group):
        rule = f"the group of {name} must be one of {', '.join(get_args(Group))}"
        raise UnknownNameError(f"{rule}; it is {found.group!r}")
    return found
