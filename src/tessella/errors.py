"""What went wrong, said so that it can be mended: the rule, the place, the value, how often."""

from __future__ import annotations


class ModelError(ValueError):
    """A model breaks a rule.

    The message reads ``rule; place value (count of total noun)``, for example
    ``transition rows must sum to 1; stock=3, regime=0, order=8 sums to 0.97 (1 of 4,125 rows)``.
    """

    def __init__(
        self,
        rule: str,
        place: str = "",
        value: str = "",
        count: int | None = None,
        total: int | None = None,
        noun: str = "places",
    ) -> None:
        self.rule, self.place, self.value = rule, place, value
        self.count, self.total, self.noun = count, total, noun
        found = " ".join(part for part in (place, value) if part)
        message = f"{rule}; {found}" if found else rule
        if count is not None:
            message += f" ({count:,} of {total:,} {noun})" if total is not None else f" ({count:,})"
        super().__init__(message)

    def __reduce__(self):
        # Errors travel between processes; the message alone would become the rule.
        parts = (self.rule, self.place, self.value, self.count, self.total, self.noun)
        return type(self), parts


class NotConverged(RuntimeError):  # noqa: N818 (it says what happened)
    """A limit was reached before the tolerance; ``partial`` holds what there is."""

    def __init__(self, message: str, partial: object = None) -> None:
        super().__init__(message)
        self.partial = partial


def shown(value: object) -> str:
    """A value as messages write it: ``3``, ``0.3``, ``nan``, ``high``."""
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def expect(verb: str, value: object, kind: type, name: str = "") -> None:
    """Refuse what is not of ``kind``: ``solve needs an MDP; got a Solution``."""
    if not isinstance(value, kind):
        needed, got = _one(name or kind.__name__), _one(type(value).__name__)
        raise ModelError(f"{verb} needs {needed}", "", f"got {got}")


def _one(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOaeiou' or name.startswith('MDP') else 'a'} {name}"
