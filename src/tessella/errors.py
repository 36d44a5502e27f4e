"""Errors of the package: each states the requirement, the location, the value, and how often.

The message reads ``requirement; location value (count of total noun)``, for example
``transition rows must sum to 1; stock=3, regime=0, order=8 sums to 0.97 (1 of 4,125 rows)``.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from numbers import Integral, Real
from typing import Any

BRIEF_MAX_CHARACTERS = 80  # of a value that a message repeats
HUGE_INTEGER = 10**60  # whole numbers from here on are not written out


class TessellaError(ValueError):
    """A requirement is not met; the parts of the message are attributes."""

    def __init__(
        self,
        requirement: str,
        *,
        location: str = "",
        value: str = "",
        count: int | None = None,
        total: int | None = None,
        noun: str = "places",
    ) -> None:
        self.requirement = requirement
        self.location = location
        self.value = value
        self.count = count
        self.total = total
        self.noun = noun
        detail = " ".join(part for part in (location, value) if part)
        message = f"{requirement}; {detail}" if detail else requirement
        if count is not None:
            message += f" ({count:,} of {total:,} {noun})" if total is not None else f" ({count:,})"
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        # Errors travel between processes; the message alone would become the requirement.
        names = ("requirement", "location", "value", "count", "total", "noun")
        parts = {name: getattr(self, name) for name in names}
        return partial(type(self), **parts), (), vars(self)


class ModelError(TessellaError):
    """A model breaks a rule."""


class PolicyError(TessellaError):
    """A policy, or an object to be converted to one, breaks a rule."""


class ArgumentError(TessellaError):
    """An argument of a verb, or a setting of an object given to one, breaks a rule."""


class FileError(TessellaError):
    """A file cannot be read, written or understood."""


class StudyError(TessellaError):
    """The spec, the store or a run of a study breaks a rule."""


class MissingExtra(TessellaError, ImportError):  # noqa: N818
    """A feature needs packages that come with an extra of tessella, and they are not there."""


class NotConverged(RuntimeError):  # noqa: N818 (it says what happened)
    """A limit was reached before the tolerance; ``partial`` holds what there is."""

    def __init__(self, message: str, partial: object = None) -> None:
        super().__init__(message)
        self.partial = partial


def raise_for_first(
    requirement: str,
    bad: Any,
    describe: Callable[[Any], str],
    value: Callable[[Any], str],
    noun: str,
    *,
    error: type[TessellaError] = ModelError,
) -> None:
    """Raise for the first of the places marked in the array ``bad``, and count them.

    ``describe`` and ``value`` get the place: a number in a list, otherwise a tuple of numbers.
    """
    import numpy as np

    if not bad.any():
        return
    index = tuple(map(int, np.unravel_index(bad.argmax(), bad.shape)))
    place = index[0] if len(index) == 1 else index
    raise error(
        requirement,
        location=describe(place),
        value=value(place),
        count=int(bad.sum()),
        total=bad.size,
        noun=noun,
    )


def format_value(value: object) -> str:
    """A value as messages write it: ``3``, ``0.3``, ``nan``, ``high``; ``about 10^400``."""
    if isinstance(value, Integral) and exceeds_float(value):
        return _format_magnitude(int(value))
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def format_exactly(number: float) -> str:
    """The shortest text that is read as this number: ``2``, ``0.98``, ``0.9999999``."""
    return repr(float(number)).removesuffix(".0")


def _format_magnitude(value: int) -> str:
    return f"about {'-' if value < 0 else ''}10^{math.log10(abs(value)):.0f}"


def format_brief(value: object) -> str:
    """A value as messages repeat it, on one line and not too long."""
    if isinstance(value, int) and abs(value) >= HUGE_INTEGER:
        return _format_magnitude(value)
    text = repr(value[:BRIEF_MAX_CHARACTERS] if isinstance(value, str) else value)
    if len(text) < BRIEF_MAX_CHARACTERS:
        return text
    return f"{text[: BRIEF_MAX_CHARACTERS - 3]}..."


def find_closest(name: str, known: Iterable[str]) -> str | None:
    """The name that somebody who wrote ``name`` may have meant."""
    by_lower_case = {other.lower(): other for other in known}  # wrong capitals are common
    matches = difflib.get_close_matches(
        name[:BRIEF_MAX_CHARACTERS].lower(), [*by_lower_case], n=1, cutoff=0.5
    )
    return by_lower_case[matches[0]] if matches else None


def counted(count: int, noun: str) -> str:
    """``1 number``, ``1,200 numbers``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def exceeds_float(value: Real) -> bool:
    """Whether a number is too large for float64, such as ``10**400``."""
    try:
        float(value)
    except OverflowError:
        return True
    return False


def require_type(verb: str, value: object, kind: type, name: str = "") -> None:
    """Raise an error unless ``value`` is a ``kind``: ``solve needs an MDP; got a Solution``."""
    if not isinstance(value, kind):
        got = with_article(type(value).__name__)
        if isinstance(value, type):
            got = f"the class {value.__name__}, not an instance of it"
        elif kind.__name__ == "MDP" and hasattr(value, "build"):
            got += "; its method build() returns the model"
        raise ArgumentError(
            f"{verb} needs {with_article(name or kind.__name__)}", value=f"got {got}"
        )


def is_whole(value: object, minimum: int = 0, maximum: float = math.inf) -> bool:
    """Whether ``value`` is a whole number in ``minimum..maximum``."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        return False
    return minimum <= int(value) <= maximum


def is_count(value: object) -> bool:
    """Whether ``value`` is a whole number, at least 1."""
    return is_whole(value, 1)


def require_whole(
    subject: str,
    value: object,
    minimum: int = 0,
    maximum: int | None = None,
    error: type[TessellaError] = ArgumentError,
) -> int:
    """``value`` as an int, or an error: ``k must be a whole number, at least 1; got 0``."""
    if is_whole(value, minimum, math.inf if maximum is None else maximum):
        return int(value)  # type: ignore[call-overload]
    bounds = f", at least {minimum}"
    if maximum is not None:
        bounds = f" from {minimum:,} to {_format_limit(maximum)}"
    raise error(f"{subject} must be a whole number{bounds}", value=f"got {format_brief(value)}")


def is_number(value: object) -> bool:
    """Whether ``value`` is a finite number."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    return not exceeds_float(value) and math.isfinite(value)


def is_positive(value: object) -> bool:
    """Whether ``value`` is a number above 0."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return False
    return bool(value > 0)  # type: ignore[operator]


def _format_limit(limit: int) -> str:
    """``1,000``, or ``2^63 - 1`` for the largest number of a type."""
    is_largest_of_type = limit >= 2**31 - 1 and (limit & (limit + 1)) == 0
    return f"2^{limit.bit_length()} - 1" if is_largest_of_type else f"{limit:,}"


@contextmanager
def require_extra(feature: str, extra: str) -> Iterator[None]:
    """Import the packages of ``feature`` inside this: an error names the extra they come with."""
    try:
        yield
    except ModuleNotFoundError as error:
        requirement = f"{feature} needs the extra '{extra}': pip install 'tessella[{extra}]'"
        raise MissingExtra(requirement, value=f"{error.name} is missing") from error


def require_packages(feature: str, extra: str, packages: Iterable[str]) -> None:
    """Before long work: the packages of ``extra`` are there, none of which is imported yet."""
    with require_extra(feature, extra):
        for name in packages:
            if find_spec(name) is None:
                raise ModuleNotFoundError(name=name)


def with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOaeiou' or name.startswith('MDP') else 'a'} {name}"
