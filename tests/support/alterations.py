"""False certificates: each function makes one from an honest document.

    forge(content, solution, rng) -> content

``content`` is the JSON of a certificate of a policy that loses something in a model without ties,
and may be altered in place; ``solution`` is what it was made from. What comes back must be false or
malformed, so that the checker has to reject it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from typing import Any, get_args

import numpy as np

from tessella.checker.claim import get_typed_fields
from tessella.solvers.solution import Solution

Forge = Callable[[dict, Solution, np.random.Generator], dict]

# A name and a size describe a policy to its reader; a tolerance and an eps ask and do not claim.
NO_CLAIMS = {
    ("policy", "name"),
    ("policy", "size"),
    ("figures", "tolerance"),
    ("bounds", "localisation", "eps"),
}


def leaves(content: Any, path: tuple = ()) -> Iterator[tuple]:
    """Paths of all numbers, texts, flags and nulls."""
    if isinstance(content, dict | list):
        parts = content.items() if isinstance(content, dict) else enumerate(content)
        for name, part in parts:
            yield from leaves(part, (*path, name))
    else:
        yield path


def altered_leaf(content: dict, solution: Solution, rng: np.random.Generator) -> dict:
    """One statement, clearly another one."""
    paths = [path for path in leaves(content) if path not in NO_CLAIMS]
    by_field: dict[tuple, list[tuple]] = {}
    for path in paths:  # each field as often as any other, however many numbers it holds
        by_field.setdefault(tuple(n for n in path if isinstance(n, str)), []).append(path)
    field = list(by_field)[rng.integers(len(by_field))]
    path = by_field[field][rng.integers(len(by_field[field]))]
    owner: Any = content
    for name in path[:-1]:
        owner = owner[name]
    owner[path[-1]] = otherwise(owner[path[-1]], rng)
    return content


def changes(stated: Any) -> list:
    """Other statements of the same kind: clearly so, or by little more than rounding."""
    if stated is None or isinstance(stated, bool | str):
        return [{None: 3, True: False, False: True}.get(stated, f"{stated}x")]
    if isinstance(stated, int):
        return [stated + 1, stated - 1]
    size = max(1.0, abs(stated))
    return [stated + sign * step * size for sign in (1, -1) for step in (1e-2, 1e-9)]


def otherwise(stated: Any, rng: np.random.Generator) -> Any:
    if stated is None or isinstance(stated, bool | str):
        return {None: 3, True: False, False: True}.get(stated, f"{stated}x")
    sign = int(rng.choice([-1, 1]))
    if isinstance(stated, int):
        return stated + (1 if sign > 0 or stated == 0 else -1)
    return stated + sign * float(rng.uniform(0.01, 0.5)) * max(1.0, abs(stated))


FORGERIES: list[Forge] = [altered_leaf]


def field_readers(record: type, prefix: str = "") -> dict[str, Callable]:
    """Path of each field of a record of the checker, inner records included, to its reader."""
    readers: dict[str, Callable] = {}
    for name, (hint, _) in get_typed_fields(record).items():
        if is_dataclass(hint):
            readers |= field_readers(hint, f"{prefix}{name}.")
        else:
            readers[prefix + name] = get_args(hint)[1]
    return readers
