"""What can be named in a study: methods and measures of the package, registered, or imported.

A name with a colon, ``package.module:attribute``, is imported, here and by workers alike. What a
study was given as an object is registered under its own name, and sent along with the work.
"""

from __future__ import annotations

from tessella.errors import StudyError


class UnknownNameError(StudyError):
    """A name that leads to nothing of its kind, here or on a worker."""


def own_name(thing: object, noun: str, taken: object = ()) -> str:
    """The name that an object goes by; it must be one that nothing of the package has."""
    name = getattr(thing, "name", None)
    if not isinstance(name, str) or not name or ":" in name:
        rule = f"a {noun} needs a name, without a colon, in its attribute name"
        raise UnknownNameError(rule, value=f"got {name!r}")
    if name in taken:  # type: ignore[operator]
        raise UnknownNameError(f"a {noun} of the package keeps its name", value=f"got {name!r}")
    return name
