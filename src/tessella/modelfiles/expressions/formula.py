"""A checked expression as a function of named arrays, like those that users of Python write.

A stage asks a function for the names of its arguments; a formula asks for the axes, the action and
the noise that its expression names. Parameters and tables are part of it.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from tessella.errors import ModelError, shown
from tessella.modelfiles.expressions.parse import DEEPEST_TREE, depth, parse
from tessella.modelfiles.expressions.tokens import ExpressionError
from tessella.modelfiles.expressions.tree import (
    FUNCTIONS,
    NUMBER,
    OPERATIONS,
    TEXT,
    TRUTH,
    Apply,
    Compare,
    Constant,
    LookUp,
    Name,
    Node,
    Table,
    lacks_value,
)
from tessella.modelfiles.expressions.work import held_by_all, not_in_table, width, work_out
from tessella.modelfiles.mistakes import nearest

MOST_UNKNOWN = 10  # names of an expression that are told
LARGEST = 50_000_000  # combinations of coordinates that one expression is worked out for
MOST_HELD = 200_000_000  # numbers that are there at once while it is
HOLDS = f"an expression holds at most {MOST_HELD:,} numbers at once"


@dataclass(frozen=True, eq=False)
class Names:
    """What an expression may name.

    Attributes:
        kinds: names of arrays, such as axes, to the kind of their values.
        constants: parameters, by name.
        tables: what can be looked up, by name.
        terms: expressions that were given a name.
        hidden: names of the model that cannot be named in this place.
        spoiled: names of what has mistakes of its own, of which nothing more is said.
    """

    kinds: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)
    terms: Mapping[str, Formula] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()
    spoiled: frozenset[str] = frozenset()

    def __iter__(self) -> Iterator[str]:
        yield from (*self.kinds, *self.constants, *self.terms, *self.tables)


class Formula:
    """An expression as a vectorised function; ``kind`` is that of its values.

    What has no value is not a number; where truth values are ``wanted``, it is refused.
    """

    def __init__(self, tree: Node, names: Names, kind: str, wanted: str | None = None) -> None:
        self.tree, self.kind, self.names, self.wanted = tree, kind, names, wanted
        self.terms = _terms(tree, names)
        self.depth = depth(tree) + max((term.depth for term in self.terms.values()), default=0)
        self.own = named(tree)
        used = [*self.own, *(n for term in self.terms.values() for n in term.own)]
        self.asks = [name for name in dict.fromkeys(used) if name in names.kinds]
        kw = inspect.Parameter.KEYWORD_ONLY
        self.__signature__ = inspect.Signature([inspect.Parameter(n, kw) for n in self.asks])

    def __call__(self, /, **arrays: Any) -> Any:
        values = {name: _as_doubles(array) for name, array in arrays.items()}
        self._refuse_large(values)
        constants = self.names.constants.items()
        known = {n: _constant(v) for n, v in constants if not isinstance(v, list)} | values
        with np.errstate(all="ignore"):  # what is no number is refused by whoever reads it
            for name, term in self.terms.items():
                known[name] = work_out(term.tree, known, self.names.tables)
            found = work_out(self.tree, known, self.names.tables)
            if self.wanted == TRUTH and lacks_value(found).any():
                self._refuse_without_value(found, known)
        return found

    def _refuse_without_value(self, found: Any, known: dict[str, Any]) -> None:
        """Say for which coordinates a condition has no value, and where a table has no entry."""
        full = np.broadcast_shapes(*(np.shape(array) for array in known.values()))
        missing = np.broadcast_to(lacks_value(found), full)
        first = np.unravel_index(int(np.argmax(missing)), full)
        point = {name: np.broadcast_to(array, full)[first] for name, array in known.items()}
        trees = (*(term.tree for term in self.terms.values()), self.tree)
        entries = (not_in_table(tree, point, self.names.tables) for tree in trees)
        entry = next(filter(None, entries), None)
        raise ModelError(
            "a condition must have a value",
            place=", ".join(f"{name}={shown(point[name].item())}" for name in self.asks),
            value=f"has none, as there is no {entry}" if entry else "has none",
            count=int(missing.sum()),
            total=missing.size,
            noun="combinations",
        )

    def held(self, widths: Mapping[str, float]) -> float:
        """Numbers held at once for each combination, given how wide the entries of arrays are."""
        constants = self.names.constants.items()
        known = {n: width(v) for n, v in constants} | dict(widths)
        terms = [(name, term.tree) for name, term in self.terms.items()]
        return held_by_all(terms, self.tree, known).most

    def _refuse_large(self, values: Mapping[str, Any]) -> None:
        lengths = np.broadcast_shapes(*(value.shape for value in values.values()))
        count, having = math.prod(lengths), f"{', '.join(values)} have {math.prod(lengths):,}"
        if count * (1 + len(self.terms)) > LARGEST:
            rule = f"an expression and its terms are worked out for at most {LARGEST:,}"
            raise ModelError(f"{rule} combinations", value=having)
        widths = {name: value.dtype.itemsize / 8 for name, value in values.items()}
        if count * self.held(widths) > MOST_HELD:
            raise ModelError(f"{HOLDS} for all combinations", value=having)


def make_formula(
    said: Any, names: Names, wanted: str | None, note: Callable[[ExpressionError], None]
) -> Formula | None:
    """The formula of a text, or of a plain number.

    None where ``note`` was told what is wrong, or where it names what is wrong already.
    """
    try:
        tree = parse(said) if isinstance(said, str) else Constant(0, float(said))
        wrong = unknown(tree, names)
        for error in wrong:
            note(error)
        spoiled = names.spoiled.intersection(named(tree))
        return None if wrong or spoiled else _checked(tree, names, wanted)
    except ExpressionError as error:
        note(error)
        return None


def _checked(tree: Node, names: Names, wanted: str | None) -> Formula:
    kind = kind_of(tree, names)
    if wanted not in (None, kind) and not (wanted == NUMBER and kind == TRUTH):
        raise ExpressionError(f"this must be {wanted}; it is {kind}", tree.at)
    formula = Formula(tree, names, kind, wanted)
    if formula.depth > DEEPEST_TREE:
        raise ExpressionError(f"with its terms it is more than {DEEPEST_TREE} operations deep", 0)
    return formula


def _terms(tree: Node, names: Names) -> dict[str, Formula]:
    """The terms that a tree needs, each after those that it needs itself."""
    direct = [name for name in named(tree) if name in names.terms]
    needed = {n for name in direct for n in (name, *names.terms[name].terms)}
    return {name: term for name, term in names.terms.items() if name in needed}


def named(tree: Node) -> list[str]:
    """Every name in a tree, each once."""
    found, left = [], [tree]
    while left:
        node = left.pop()
        found += [node.name] if isinstance(node, Name) else []
        left += reversed(node.parts)
    return [*dict.fromkeys(found)]


def unknown(tree: Node, names: Names) -> list[ExpressionError]:
    """What is wrong with the names of a tree: all of it, up to what somebody reads."""
    found, left = [], [tree]
    while left and len(found) < MOST_UNKNOWN:
        node = left.pop()
        if isinstance(node, Name):
            found += _unknown_name(node, names)
        elif isinstance(node, LookUp):
            found += _unknown_table(node, names)
        left += reversed(node.parts)
    return found


def _unknown_name(node: Name, names: Names) -> list[ExpressionError]:
    name = node.name
    if name in names.kinds or name in names.spoiled:
        return []
    if name in names.terms:
        out = [n for n in names.terms[name].asks if n not in names.kinds]
        said = f"the term {name!r} names {', '.join(out)}, not known at this place"
        return [ExpressionError(said, node.at)] if out else []
    if name in names.constants:
        listed = isinstance(names.constants[name], list)
        said = f"{name!r} is a list; a table looks numbers up"
        return [ExpressionError(said, node.at)] if listed else []
    if name in names.tables:
        return [ExpressionError(f"{name!r} is a table: look it up, as in {name}[...]", node.at)]
    if name in FUNCTIONS:
        return [ExpressionError(f"{name!r} is a function: write {name}(...)", node.at)]
    if name in names.hidden:
        may = "".join(f"{kind}, " for kind in names.kinds)
        said = f"{name!r} is not known at this place, which may name {may}parameters and terms"
        return [ExpressionError(said, node.at)]
    return [ExpressionError(f"unknown name {name!r}{nearest(name, names)}", node.at)]


def _unknown_table(node: LookUp, names: Names) -> list[ExpressionError]:
    name, count = node.table, len(node.of)
    if name in names.tables:
        arity = names.tables[name].arity
        said = f"the table {name!r} is looked up by {arity} coordinates; got {count}"
        return [] if arity == count else [ExpressionError(said, node.at)]
    if name in (*names.kinds, *names.constants, *names.terms):
        return [ExpressionError(f"{name!r} is neither a function nor a table", node.at)]
    what, known = ("table", names.tables) if node.square else ("function or table", FUNCTIONS)
    near = nearest(name, (*known, *names.tables))
    return [ExpressionError(f"unknown {what} {name!r}{near}", node.at)]


def kind_of(node: Node, names: Names) -> str:
    """Whether an expression is a number, a condition or text; an error where it makes no sense."""
    if isinstance(node, Constant):
        return TEXT if isinstance(node.value, str) else NUMBER
    if isinstance(node, Name):
        return _kind_of_name(node.name, names)
    kinds = [kind_of(part, names) for part in node.parts]
    if isinstance(node, LookUp):
        return NUMBER
    if isinstance(node, Compare):
        _refuse_uneven(node, kinds)
        return TRUTH
    assert isinstance(node, Apply)
    if node.word == "where":
        return _kind_of_choice(node, kinds)
    operation = OPERATIONS[node.word]
    for part, kind in zip(node.parts, kinds, strict=True):
        if kind == TEXT or (operation.takes == TRUTH and kind != TRUTH):
            sign = "'-'" if node.word == "negative" else repr(node.word)
            rule = f"{sign} takes {operation.takes}; this is {kind}"
            raise ExpressionError(rule, part.at)
    return operation.gives


def _refuse_uneven(node: Compare, kinds: list[str]) -> None:
    for sign, pair in zip(node.signs, pairwise(kinds), strict=True):
        if TEXT in pair and not (pair == (TEXT, TEXT) and sign in ("==", "!=")):
            raise ExpressionError("text is compared with text alone, by '==' or '!='", node.at)


def _kind_of_choice(node: Apply, kinds: list[str]) -> str:
    condition, this, other = kinds
    if condition != TRUTH:
        raise ExpressionError(f"'where' begins with a condition; this is {condition}", node.at)
    if (this == TEXT) != (other == TEXT):
        raise ExpressionError(f"'where' chooses between {this} and {other}", node.at)
    return this if this == other else NUMBER


def _kind_of_name(name: str, names: Names) -> str:
    if name in names.kinds:
        return names.kinds[name]
    if name in names.terms:
        return names.terms[name].kind
    return TEXT if isinstance(names.constants[name], str) else NUMBER


def _constant(value: Any) -> Any:
    return np.str_(value) if isinstance(value, str) else np.float64(value)


def _as_doubles(array: Any) -> Any:
    found = np.asarray(array)
    return found if found.dtype.kind == "U" else found.astype(float)
