"""What can be named in a study: methods and measures of the package, registered, or imported.

A name with a colon, ``package.module:attribute``, is imported, here and by workers alike. What a
study was given as an object is registered under its own name, and sent along with the work.
"""

from __future__ import annotations

from tessella.errors import StudyError


class UnknownNameError(StudyError):
    """A name that leads to nothing of its kind, here or on a worker."""


def require_own_name(item: object, noun: str, reserved: object = ()) -> str:
    """The name that an object goes by; it must be one that nothing of the package has."""
    name = getattr(item, "name", None)
    if not isinstance(name, str) or not name or ":" in name:
        requirement = f"a {noun} needs a name, without a colon, in its attribute name"
        raise UnknownNameError(requirement, value=f"got {name!r}")
    if name in reserved:  # type: ignore[operator]
        raise UnknownNameError(f"a {noun} of the package keeps its name", value=f"got {name!r}")
    return name
