"""Working an expression out on arrays, and how many numbers that holds at once.

Parts are worked out from the left. Those of a sum, of ``min`` or of a row of comparisons are put
together as they come, so that of many parts two are there at once; ``where`` and a table need all
of theirs. Memory is counted in doubles for each combination of coordinates, before any is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tessella.errors import format_value
from tessella.modelfiles.expressions.tree import (
    OPERATORS,
    CompareNode,
    ConstantNode,
    LookupNode,
    LookupSource,
    NameNode,
    Node,
    OperatorNode,
    compare_values,
    is_missing,
    logical_and,
)


def evaluate_node(node: Node, values: Mapping[str, Any], tables: Mapping[str, LookupSource]) -> Any:
    """The array that an expression is, given arrays for its names."""

    def evaluate_part(part: Node) -> Any:
        return evaluate_node(part, values, tables)

    if isinstance(node, ConstantNode):
        return np.str_(node.value) if isinstance(node.value, str) else np.float64(node.value)
    if isinstance(node, NameNode):
        return values[node.name]
    if isinstance(node, LookupNode):
        return tables[node.table].look_up(*map(evaluate_part, node.operands))
    if isinstance(node, CompareNode):
        return _evaluate_comparison(node, evaluate_part)
    assert isinstance(node, OperatorNode)
    operator_spec = OPERATORS[node.operator_name]
    if not operator_spec.is_binary_fold:
        return operator_spec.apply(*map(evaluate_part, node.operands))
    result = evaluate_part(node.operands[0])
    for part in node.operands[1:]:  # functools.reduce would hold on to the parts before
        result = operator_spec.apply(result, evaluate_part(part))
    return result


def _evaluate_comparison(node: CompareNode, evaluate_part: Callable[[Node], Any]) -> Any:
    lhs = evaluate_part(node.operands[0])
    result = None
    for symbol, part in zip(node.comparisons, node.operands[1:], strict=True):
        rhs = evaluate_part(part)
        link = compare_values(symbol, lhs, rhs)
        result = link if result is None else logical_and(result, link)
        lhs = rhs
    return result


def find_missing_entry(
    node: Node, values: Mapping[str, Any], tables: Mapping[str, LookupSource]
) -> str | None:
    """The first entry of a tree, as ``limit[7]``, that its table does not have; numbers given."""
    for part in node.parts:
        entry = find_missing_entry(part, values, tables)
        if entry:
            return entry
    if (
        not isinstance(node, LookupNode)
        or not is_missing(evaluate_node(node, values, tables)).any()
    ):
        return None
    coordinates = [evaluate_node(part, values, tables) for part in node.operands]
    return f"{node.table}[{', '.join(format_value(np.asarray(x).item()) for x in coordinates)}]"


@dataclass(frozen=True)
class MemoryUse:
    """Doubles for each combination: at most at once, by the result, and as wide as an entry is."""

    peak: float
    result_size: float  # nothing by a name, whose array is there anyway
    entry_width: float


def peak_memory(node: Node, widths: Mapping[str, float]) -> MemoryUse:
    """What working out a tree holds, given the widths of the arrays that it names."""
    if isinstance(node, ConstantNode):
        return MemoryUse(0.0, 0.0, entry_width(node.value))
    if isinstance(node, NameNode):
        return MemoryUse(0.0, 0.0, widths.get(node.name, 1.0))
    parts = [peak_memory(part, widths) for part in node.parts]
    result_width = max(part.entry_width for part in parts[1:]) if _is_where(node) else 1.0
    workspace = (
        len(parts) + 7 if isinstance(node, LookupNode) else result_width
    )  # places, and finding them
    peak = current = 0.0
    for i, part in enumerate(parts):
        peak = max(peak, current + part.peak)
        current += part.result_size
        if i and isinstance(node, CompareNode):
            peak = max(peak, current + 3.0)
            current = 1.0 + part.result_size
        elif i and isinstance(node, OperatorNode) and OPERATORS[node.operator_name].is_binary_fold:
            peak = max(peak, current + 1.0 + workspace)
            current = 1.0
    return MemoryUse(max(peak, current + result_width + workspace), result_width, result_width)


def peak_memory_with_terms(
    terms: Iterable[tuple[str, Node]], last: Node, widths: Mapping[str, float]
) -> MemoryUse:
    """What a tree holds whose terms are worked out before it, and stay."""
    all_widths = dict(widths)
    peak = 0.0
    current = 0.0
    for name, tree in terms:
        memory = peak_memory(tree, all_widths)
        peak = max(peak, current + memory.peak)
        current = current + memory.result_size
        all_widths[name] = memory.entry_width
    memory = peak_memory(last, all_widths)
    return MemoryUse(max(peak, current + memory.peak), memory.result_size, memory.entry_width)


def entry_width(value: Any) -> float:
    """Doubles that an entry like this one takes: a letter is half of one."""
    return max(len(value) / 2, 1.0) if isinstance(value, str) else 1.0


def _is_where(node: Node) -> bool:
    return isinstance(node, OperatorNode) and node.operator_name == "where"
