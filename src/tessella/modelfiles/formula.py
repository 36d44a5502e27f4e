"""A checked expression as a function of named arrays, like those that users of Python write.

A stage reads the names of a function's arguments; those of a formula are the axes, the action and
the noise that its expression names. Parameters and tables are part of it.
"""

from __future__ import annotations

import inspect
import keyword
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import Any

import numpy as np

from tessella.errors import ModelError, format_value
from tessella.modelfiles.expressions import (
    CONDITION,
    NAMED_FUNCTIONS,
    NUMBER,
    OPERATORS,
    TEXT,
    TREE_MAX_DEPTH,
    ExpressionError,
    Node,
    compare_values,
    is_missing,
    logical_and,
    parse,
)
from tessella.modelfiles.tables import LookupTable
from tessella.modelfiles.toml_document import suggest_name

REPORTED_MAX_UNKNOWN = 10  # unknown names of an expression that are reported
FORMULA_MAX_COMBINATIONS = 50_000_000  # combinations of coordinates of one expression
FORMULA_MAX_HELD_NUMBERS = 200_000_000  # numbers held at once while it is evaluated
HELD_REQUIREMENT = f"an expression holds at most {FORMULA_MAX_HELD_NUMBERS:,} numbers at once"


@dataclass(frozen=True, eq=False)
class VisibleNames:
    """What an expression may name."""

    kinds: Mapping[str, str] = field(default_factory=dict)  # of the values of arrays, by name
    constants: Mapping[str, Any] = field(default_factory=dict)  # parameters, by name
    tables: Mapping[str, LookupTable] = field(default_factory=dict)
    terms: Mapping[str, Formula] = field(default_factory=dict)  # named expressions
    hidden: frozenset[str] = frozenset()  # names of the model that cannot be used in this place
    invalid: frozenset[str] = frozenset()  # definitions with mistakes, reported already

    def __iter__(self) -> Iterator[str]:
        yield from (*self.kinds, *self.constants, *self.terms, *self.tables)


class Formula:
    """An expression as a vectorised function; ``kind`` is that of its values.

    A missing value, such as an entry that a table does not have, is NaN; a condition must have one.
    """

    def __init__(
        self, tree: Node, names: VisibleNames, kind: str, wanted_kind: str | None = None
    ) -> None:
        self.tree = tree
        self.kind = kind
        self.names = names
        self.wanted_kind = wanted_kind
        named = (node.value for node in tree.walk() if node.kind == "name")
        self.direct_names = [*dict.fromkeys(named)]
        self.terms = _select_terms(self.direct_names, names.terms)
        deepest = max((term.depth for term in self.terms.values()), default=0)
        self.depth = tree.depth + deepest
        used = [*self.direct_names, *(n for term in self.terms.values() for n in term.direct_names)]
        self.free_names = [name for name in dict.fromkeys(used) if name in names.kinds]
        self.__signature__ = make_signature(self.free_names)

    def __call__(self, /, **arrays: Any) -> Any:
        given = {name: np.asarray(array) for name, array in arrays.items()}
        values = {n: a if a.dtype.kind == "U" else a.astype(float) for n, a in given.items()}
        self._check_memory(values)
        constants = self.names.constants.items()
        bindings = {n: _to_scalar(v) for n, v in constants if not isinstance(v, list)} | values
        with np.errstate(all="ignore"):  # who reads the result rejects NaN
            for name, term in self.terms.items():
                bindings[name] = evaluate_node(term.tree, bindings, self.names.tables)
            result = evaluate_node(self.tree, bindings, self.names.tables)
            if self.wanted_kind == CONDITION and is_missing(result).any():
                self._raise_for_missing_value(result, bindings)
        return result

    def _raise_for_missing_value(self, result: Any, bindings: dict[str, Any]) -> None:
        """Say for which coordinates a condition has no value, and where a table has no entry."""
        shape = np.broadcast_shapes(*(np.shape(array) for array in bindings.values()))
        missing = np.broadcast_to(is_missing(result), shape)
        first_index = np.unravel_index(int(np.argmax(missing)), shape)
        point = {
            name: np.broadcast_to(array, shape)[first_index] for name, array in bindings.items()
        }
        trees = (*(term.tree for term in self.terms.values()), self.tree)
        entries = (find_missing_entry(tree, point, self.names.tables) for tree in trees)
        entry = next(filter(None, entries), None)
        raise ModelError(
            "a condition must have a value",
            location=", ".join(
                f"{name}={format_value(point[name].item())}" for name in self.free_names
            ),
            value=f"has none, as there is no {entry}" if entry else "has none",
            count=int(missing.sum()),
            total=missing.size,
            noun="combinations",
        )

    def peak_memory(self, widths: Mapping[str, float]) -> float:
        """Doubles held at once for each combination, given how many an entry of each array takes.

        A letter of a text takes half a double. The values of terms are kept to the end.
        """
        all_widths = {n: entry_width(v) for n, v in self.names.constants.items()} | dict(widths)
        peak = 0.0
        held = 0.0
        for name, term in self.terms.items():
            peak = max(peak, held + _peak_memory(term.tree, all_widths))
            all_widths[name] = _result_width(term.tree, all_widths)
            held += all_widths[name]
        return max(peak, held + _peak_memory(self.tree, all_widths))

    def _check_memory(self, values: Mapping[str, Any]) -> None:
        shape = np.broadcast_shapes(*(value.shape for value in values.values()))
        count = math.prod(shape)
        count_text = f"{', '.join(values)} have {count:,}"
        if count * (1 + len(self.terms)) > FORMULA_MAX_COMBINATIONS:
            limit = f"at most {FORMULA_MAX_COMBINATIONS:,} combinations"
            requirement = f"an expression and its terms are evaluated for {limit}"
            raise ModelError(requirement, value=count_text)
        widths = {name: value.dtype.itemsize / 8 for name, value in values.items()}
        if count * self.peak_memory(widths) > FORMULA_MAX_HELD_NUMBERS:
            raise ModelError(f"{HELD_REQUIREMENT} for all combinations", value=count_text)


def _select_terms(used: Sequence[str], terms: Mapping[str, Formula]) -> dict[str, Formula]:
    """The terms that these names need, each after those that it needs itself."""
    direct = [name for name in used if name in terms]
    needed = {n for name in direct for n in (name, *terms[name].terms)}
    return {name: term for name, term in terms.items() if name in needed}


def make_signature(names: Iterable[str]) -> inspect.Signature:
    """The signature of a function of these names, each once."""
    kw = inspect.Parameter.KEYWORD_ONLY
    return inspect.Signature([inspect.Parameter(name, kw) for name in dict.fromkeys(names)])


def make_formula(
    given: Any,
    names: VisibleNames,
    wanted_kind: str | None,
    report: Callable[[ExpressionError], None],
) -> Formula | None:
    """The formula of a text, or of a plain number.

    None where a mistake went to ``report``, or where it names something that is wrong already.
    """
    try:
        tree = parse(given) if isinstance(given, str) else Node("constant", 0, value=float(given))
        name_errors = [*islice(find_name_errors(tree, names), REPORTED_MAX_UNKNOWN)]
        for error in name_errors:
            report(error)
        used = {node.value for node in tree.walk() if node.kind in ("name", "entry")}
        if name_errors or names.invalid & used:
            return None
        kind = infer_expression_kind(tree, names)
        if wanted_kind not in (None, kind) and not (wanted_kind == NUMBER and kind == CONDITION):
            raise ExpressionError(f"this must be {wanted_kind}; it is {kind}", tree.position)
        formula = Formula(tree, names, kind, wanted_kind)
        if formula.depth > TREE_MAX_DEPTH:
            limit = f"{TREE_MAX_DEPTH} operations deep"
            raise ExpressionError(f"with its terms it is more than {limit}", 0)
        return formula
    except ExpressionError as error:
        report(error)
        return None


def find_name_errors(tree: Node, names: VisibleNames) -> Iterator[ExpressionError]:
    """What is wrong with the names of a tree."""
    for node in tree.walk():
        fault = None
        if node.kind == "name":
            fault = _find_name_fault(node.value, names)
        elif node.kind == "entry":
            fault = _find_table_fault(node, names)
        if fault is not None:
            yield ExpressionError(fault, node.position)


def _find_name_fault(name: str, names: VisibleNames) -> str | None:
    if name in names.invalid:
        return None
    if name in names.kinds:
        is_keyword = keyword.iskeyword(name)  # a function cannot have an argument of that name
        return f"{name!r} is a word of Python: give it another name" if is_keyword else None
    if name in names.terms:
        missing = [n for n in names.terms[name].free_names if n not in names.kinds]
        message = f"the term {name!r} names {', '.join(missing)}, not known at this place"
        return message if missing else None
    if name in names.constants:
        is_list = isinstance(names.constants[name], list)
        return f"{name!r} is a list; a table looks numbers up" if is_list else None
    return _describe_unusable_name(name, names)


def _describe_unusable_name(name: str, names: VisibleNames) -> str:
    if name in names.tables:
        return f"{name!r} is a table: look it up, as in {name}[...]"
    if name in NAMED_FUNCTIONS:
        return f"{name!r} is a function: write {name}(...)"
    if name in names.hidden:
        allowed = "".join(f"{kind}, " for kind in names.kinds)
        return f"{name!r} is not known at this place, which may name {allowed}parameters and terms"
    return f"unknown name {name!r}{suggest_name(name, names)}"


def _find_table_fault(node: Node, names: VisibleNames) -> str | None:
    name = node.value
    if name in names.invalid:
        return None
    if name in names.tables:
        arity = names.tables[name].grid.ndim
        count = len(node.operands)
        message = f"the table {name!r} is looked up by {arity} coordinates; got {count}"
        return None if arity == count else message
    if name in (*names.kinds, *names.constants, *names.terms):
        return f"{name!r} is neither a function nor a table"
    if node.uses_brackets:
        return f"unknown table {name!r}{suggest_name(name, names.tables)}"
    known = (*NAMED_FUNCTIONS, *names.tables)
    return f"unknown function or table {name!r}{suggest_name(name, known)}"


def infer_expression_kind(node: Node, names: VisibleNames) -> str:
    """Whether an expression is a number, a condition or text; an error where it makes no sense."""
    if node.kind == "constant":
        return TEXT if isinstance(node.value, str) else NUMBER
    if node.kind == "name":
        if node.value in names.kinds:
            return names.kinds[node.value]
        if node.value in names.terms:
            return names.terms[node.value].kind
        return TEXT if isinstance(names.constants[node.value], str) else NUMBER
    kinds = [infer_expression_kind(part, names) for part in node.operands]
    if node.kind == "compare":
        _require_comparable(node, kinds)
        return CONDITION
    return _infer_operator_kind(node, kinds) if node.kind in OPERATORS else NUMBER


def _infer_operator_kind(node: Node, kinds: list[str]) -> str:
    if node.kind == "where":
        return _infer_where_kind(node, kinds)
    operator_spec = OPERATORS[node.kind]
    for part, kind in zip(node.operands, kinds, strict=True):
        if kind == TEXT or (operator_spec.operand_kind == CONDITION and kind != CONDITION):
            symbol = "'-'" if node.kind == "negative" else repr(node.kind)
            requirement = f"{symbol} takes {operator_spec.operand_kind}; this is {kind}"
            raise ExpressionError(requirement, part.position)
    return operator_spec.result_kind


def _require_comparable(node: Node, kinds: list[str]) -> None:
    for symbol, pair in zip(node.value, pairwise(kinds), strict=True):
        if TEXT in pair and not (pair == (TEXT, TEXT) and symbol in ("==", "!=")):
            requirement = "text is compared with text alone, by '==' or '!='"
            raise ExpressionError(requirement, node.position)


def _infer_where_kind(node: Node, kinds: list[str]) -> str:
    condition, if_true, if_false = kinds
    if condition != CONDITION:
        requirement = f"'where' begins with a condition; this is {condition}"
        raise ExpressionError(requirement, node.position)
    if (if_true == TEXT) != (if_false == TEXT):
        raise ExpressionError(f"'where' chooses between {if_true} and {if_false}", node.position)
    return if_true if if_true == if_false else NUMBER


def _to_scalar(value: Any) -> Any:
    return np.str_(value) if isinstance(value, str) else np.float64(value)


def evaluate_node(node: Node, values: Mapping[str, Any], tables: Mapping[str, LookupTable]) -> Any:
    """The array that an expression is, given arrays for its names.

    Operands are evaluated from the left. Those of a sum, of ``min`` or of a chain of comparisons
    are combined one by one, so that only two are held at once; ``where`` and a table need all.
    """

    def evaluate_part(part: Node) -> Any:
        return evaluate_node(part, values, tables)

    if node.kind == "constant":
        return _to_scalar(node.value)
    if node.kind == "name":
        return values[node.value]
    if node.kind == "entry":
        return tables[node.value].look_up(*map(evaluate_part, node.operands))
    if node.kind == "compare":
        return _evaluate_comparison(node, evaluate_part)
    operator_spec = OPERATORS[node.kind]
    if not operator_spec.is_binary_fold:
        return operator_spec.apply(*map(evaluate_part, node.operands))
    result = evaluate_part(node.operands[0])
    for part in node.operands[1:]:  # functools.reduce would hold on to the operands before
        result = operator_spec.apply(result, evaluate_part(part))
    return result


def _evaluate_comparison(node: Node, evaluate_part: Callable[[Node], Any]) -> Any:
    lhs = evaluate_part(node.operands[0])
    result = None
    for symbol, part in zip(node.value, node.operands[1:], strict=True):
        rhs = evaluate_part(part)
        holds = compare_values(symbol, lhs, rhs)
        result = holds if result is None else logical_and(result, holds)
        lhs = rhs
    return result


def find_missing_entry(
    node: Node, values: Mapping[str, Any], tables: Mapping[str, LookupTable]
) -> str | None:
    """The first entry, as ``limit[7]``, that a table of a tree lacks for these values."""
    for part in node.operands:
        entry = find_missing_entry(part, values, tables)
        if entry:
            return entry
    is_table = node.kind == "entry"
    if not is_table or not is_missing(evaluate_node(node, values, tables)).any():
        return None
    coordinates = [evaluate_node(part, values, tables) for part in node.operands]
    return f"{node.value}[{', '.join(format_value(np.asarray(x).item()) for x in coordinates)}]"


def _peak_memory(node: Node, widths: Mapping[str, float]) -> float:
    """Doubles held at once for each combination while a tree is evaluated, its result included.

    The results of earlier operands are kept while a later one is evaluated: all of them for a table
    or ``where``, one where operands are combined one by one, and one more in a comparison.
    """
    if not node.operands:
        return 0.0
    width = _result_width(node, widths)
    n_kept = len(node.operands)
    workspace = width
    if node.kind == "entry":
        workspace = n_kept + 7.0  # indices of entries, and finding them
    elif node.kind == "compare":
        n_kept = 2
        workspace = 2.0
    elif OPERATORS[node.kind].is_binary_fold:
        n_kept = 1
    kept: list[float] = []  # of results; the array of a name is held anyway
    peak = 0.0
    for part in node.operands:
        peak = max(peak, sum(kept[-n_kept:]) + _peak_memory(part, widths))
        kept.append(_result_width(part, widths) if part.operands else 0.0)
    return max(peak, sum(kept[-n_kept - 1 :]) + width + workspace)


def _result_width(node: Node, widths: Mapping[str, float]) -> float:
    """Doubles that an entry of the result takes: one, or more for text."""
    if node.kind == "constant":
        return entry_width(node.value)
    if node.kind == "name":
        return widths.get(node.value, 1.0)
    if node.kind == "where":
        return max(_result_width(part, widths) for part in node.operands[1:])
    return 1.0


def entry_width(value: Any) -> float:
    """Doubles that an entry like this one takes: a letter is half of one."""
    return max(len(value) / 2, 1.0) if isinstance(value, str) else 1.0
