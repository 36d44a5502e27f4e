"""False certificates, made from honest ones by changing one statement.

``content`` is the JSON document of a certificate. It certifies a policy with a loss, in a model
without ties. A changed document is false or malformed, so the checker must reject it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, get_args, get_type_hints

import numpy as np

from tessella.solvers.solution import Solution

# Not claims: the name and size of a policy, and the requested tolerance and eps.
UNCHECKED_FIELDS = {
    ("policy", "name"),
    ("policy", "size"),
    ("figures", "tolerance"),
    ("bounds", "localisation", "eps"),
}


def list_leaves(content: Any, path: tuple = ()) -> Iterator[tuple]:
    """Paths of all numbers, strings, booleans and nulls."""
    if isinstance(content, dict | list):
        parts = content.items() if isinstance(content, dict) else enumerate(content)
        for name, part in parts:
            yield from list_leaves(part, (*path, name))
    else:
        yield path


def choose_leaf(paths: list[tuple], rng: np.random.Generator) -> tuple:
    """One of the paths; each field is as likely as any other, however many numbers it has."""
    by_field: dict[tuple, list[tuple]] = {}
    for path in paths:
        by_field.setdefault(tuple(n for n in path if isinstance(n, str)), []).append(path)
    field = list(by_field)[rng.integers(len(by_field))]
    return by_field[field][rng.integers(len(by_field[field]))]


def find_owner(content: Any, path: tuple) -> Any:
    """The list or dictionary that holds the part at ``path``."""
    for name in path[:-1]:
        content = content[name]
    return content


def alter_leaf(content: dict, solution: Solution, rng: np.random.Generator) -> dict:
    """Change one statement, by more than rounding."""
    path = choose_leaf([path for path in list_leaves(content) if path not in UNCHECKED_FIELDS], rng)
    owner = find_owner(content, path)
    owner[path[-1]] = alter_value(owner[path[-1]], rng)
    return content


def list_changes(value: Any) -> list:
    """Values of the same type that differ clearly, or by little more than rounding."""
    if value is None or isinstance(value, bool | str):
        return [{None: 3, True: False, False: True}.get(value, f"{value}x")]
    if isinstance(value, int):
        return [value + 1, value - 1]
    scale = max(1.0, abs(value))
    return [value + sign * step * scale for sign in (1, -1) for step in (1e-2, 1e-9)]


def alter_value(value: Any, rng: np.random.Generator) -> Any:
    if value is None or isinstance(value, bool | str):
        return {None: 3, True: False, False: True}.get(value, f"{value}x")
    sign = int(rng.choice([-1, 1]))
    if isinstance(value, int):
        return value + (1 if sign > 0 or value == 0 else -1)
    return value + sign * float(rng.uniform(0.01, 0.5)) * max(1.0, abs(value))


def map_field_types(record: type, prefix: str = "") -> dict[str, Any]:
    """The type of each field of a record of the checker, by path, inner records included."""
    types: dict[str, Any] = {}
    for name, hint in get_type_hints(record, include_extras=True).items():
        options = (part for part in (hint, *get_args(hint)) if isinstance(part, type))
        inner = next(filter(is_dataclass, options), None)
        types |= map_field_types(inner, f"{prefix}{name}.") if inner else {prefix + name: hint}
    return types
