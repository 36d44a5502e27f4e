"""Measures: quantities of a policy other than its objective, such as a fill rate.

A model counts amounts m_i(s, a) in every period. Under a policy each has an expected sum M_i as the
criterion defines it: discounted, total, over the horizon, or the average of a period. A measure is

    ( sum_i a_i M_i ) / ( sum_i b_i M_i ),

a weighted sum of them, or a ratio of two: the fill rate ``1 - lost / demand``. A ratio of
discounted sums weighs early periods more, in both of its sums; it is not the expectation of a
ratio.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from itertools import chain
from typing import Any, NoReturn, TypeVar

from tessella.errors import (
    ArgumentError,
    ModelError,
    find_closest,
    format_exactly,
    format_value,
    is_number,
)

Weights = Mapping[str, float]
Number = TypeVar("Number", float, Fraction)
CONSTANT = ""  # the name under which weights hold a plain number
ONE: Weights = {CONSTANT: 1.0}  # the denominator of a plain sum
OBJECTIVES: dict[str, float] = {"reward": 1.0, "cost": -1.0}  # names of the objective


def check_measure_name(name: object) -> None:
    """Reject a name that an expression cannot read, or that means the objective."""
    if not (isinstance(name, str) and name.isidentifier()) or name in OBJECTIVES:
        requirement = "a measure needs a name like 'lost', other than 'reward' and 'cost'"
        raise ModelError(requirement, value=f"got {name!r:.60}")


@dataclass(frozen=True)
class MeasureFormula:
    """A weighted sum of counts, or a ratio of two such sums.

    Attributes:
        numerator: weights by name of count; ``reward`` is the objective, and the empty name a
            number that is added.
        denominator: likewise; the number 1 for a sum.
        text: how it was written.
    """

    numerator: Weights
    denominator: Weights = field(default_factory=lambda: dict(ONE))
    text: str = ""

    @property
    def is_ratio(self) -> bool:
        return self.denominator != ONE

    @property
    def names(self) -> set[str]:
        """The counts that it reads."""
        return {*self.numerator, *self.denominator} - {CONSTANT}

    def excess(self, constraint: Constraint) -> dict[str, float]:
        """Weights of ``sign * (numerator - level * denominator) / scale``.

        Where the denominator is positive, this sum is at least 0 if and only if the constraint
        holds. The scale keeps levels of any size from overflowing.
        """
        factor = constraint.sign / constraint.scale
        return add_weights(
            scale_weights(self.numerator, factor),
            scale_weights(self.denominator, -constraint.sign * constraint.level / constraint.scale),
        )


def read_measure(name: str, text: str, counts: Collection[str]) -> MeasureFormula:
    """The measure of this name that an expression of counts describes: ``1 - lost / demand``."""
    check_measure_name(name)
    if name in counts:
        raise ModelError("a measure needs a name of its own", value=f"{name!r} is a count")
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        requirement = "a measure is an expression such as 1 - lost / demand"
        raise ModelError(requirement, value=f"got {text!r:.60}") from None
    measure = FormulaParser(text, frozenset(counts)).read(tree)
    if not measure.names:
        raise ModelError("a measure needs a count", value=f"got {text!r:.60}")
    for weight in chain(measure.numerator.values(), measure.denominator.values()):
        if not math.isfinite(weight):
            requirement = "the weights of a measure must be finite numbers"
            raise ModelError(requirement, location=f"{text!r:.60}", value=f"has one of {weight}")
    return replace(measure, text=text)


@dataclass(frozen=True)
class FormulaParser:
    """Reads the syntax tree of an expression without running it."""

    text: str
    counts: frozenset[str]

    def read(self, node: ast.AST) -> MeasureFormula:
        match node:
            case ast.Constant(value=int() | float() as number) if is_number(number):
                return MeasureFormula({CONSTANT: float(number)})
            case ast.Name(id=name) if name in OBJECTIVES:
                return MeasureFormula({"reward": OBJECTIVES[name]})
            case ast.Name(id=name) if name in self.counts:
                return MeasureFormula({name: 1.0})
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.combine(
                    ast.Mult(), MeasureFormula({CONSTANT: -1.0}), self.read(operand)
                )
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() as op):
                return self.combine(op, self.read(left), self.read(node.right))
        available = ", ".join(sorted(self.counts)) or "none in this model"
        requirement = (
            f"a measure is written with counts ({available}), reward, cost, numbers, + - * /"
        )
        value = f"got {ast.unparse(node)!r:.60}"
        raise ModelError(f"{requirement} and brackets", location=self.text, value=value)

    def combine(self, op: ast.AST, left: MeasureFormula, right: MeasureFormula) -> MeasureFormula:
        numerator = right.numerator
        denominator = right.denominator
        if isinstance(op, ast.Div):
            numerator, denominator = denominator, numerator
        if isinstance(op, ast.Mult | ast.Div):
            return self.divide(
                self.multiply(left.numerator, numerator),
                self.multiply(left.denominator, denominator),
            )
        numerator = scale_weights(numerator, -1.0 if isinstance(op, ast.Sub) else 1.0)
        if left.denominator == denominator:
            return MeasureFormula(add_weights(left.numerator, numerator), denominator)
        terms = (
            self.multiply(left.numerator, denominator),
            self.multiply(numerator, left.denominator),
        )
        return MeasureFormula(add_weights(*terms), self.multiply(left.denominator, denominator))

    def multiply(self, left: Weights, right: Weights) -> Weights:
        """The product of two sums, of which one is a number."""
        number, other = (right, left) if set(left) - {CONSTANT} else (left, right)
        if set(number) - {CONSTANT}:
            self.raise_not_a_measure()
        return scale_weights(other, number.get(CONSTANT, 0.0))

    def divide(self, numerator: Weights, denominator: Weights) -> MeasureFormula:
        if not denominator:
            self.raise_not_a_measure()
        if set(denominator) == {CONSTANT}:
            return MeasureFormula(scale_weights(numerator, 1 / denominator[CONSTANT]))
        return MeasureFormula(numerator, denominator)

    def raise_not_a_measure(self) -> NoReturn:
        requirement = "a measure is a weighted sum of counts or a ratio of two such sums"
        raise ModelError(requirement, location=self.text, value="is neither")


def add_weights(left: Mapping[str, Number], right: Mapping[str, Number]) -> dict[str, Number]:
    total = dict(left)
    for name, weight in right.items():
        total[name] = total[name] + weight if name in total else weight
    return {name: weight for name, weight in total.items() if weight}


def scale_weights(weights: Mapping[str, Number], factor: Number) -> dict[str, Number]:
    return {name: factor * weight for name, weight in weights.items() if factor * weight}


@dataclass(frozen=True)
class MeasureValue:
    """The value of a measure under a policy, with bounds.

    Attributes:
        value: the measure.
        low, high: the exact value lies between these, rounding included.

    Example:
        >>> mdp = ts.benchmark("QUE-Lin")
        >>> found = ts.evaluate(mdp, lambda queue: np.where(queue < 25, 1, 0)).measures["arrivals"]
        >>> found.low <= found.value <= found.high
        True
    """

    value: float
    low: float
    high: float

    @staticmethod
    def from_sum(value: float, error: float) -> MeasureValue:
        return MeasureValue(value, value - error, value + error)

    @property
    def error_bound(self) -> float:
        """How far the value may be off."""
        return max(self.high - self.value, self.value - self.low)

    def __str__(self) -> str:
        return f"{self.value:.6g}"


@dataclass(frozen=True)
class Constraint:
    """A bound on a measure."""

    level: float

    sign = 1.0
    key = "at_least"  # in files

    def __post_init__(self) -> None:
        if not is_number(self.level):
            requirement = f"the level of {type(self).__name__} must be a finite number"
            raise ArgumentError(requirement, value=f"got {format_value(self.level)}")

    @property
    def scale(self) -> float:
        """The divisor of the excess over the level: a power of 2, so that nothing is rounded."""
        return math.ldexp(1.0, max(math.frexp(self.level)[1] - 1, 0))

    def is_met_by(self, value: MeasureValue) -> bool:
        """Whether a value surely satisfies it."""
        return min(self.sign * (end - self.level) for end in (value.low, value.high)) >= 0

    def __str__(self) -> str:
        return f"{self.key.replace('_', ' ')} {format_exactly(self.level)}"


class AtLeast(Constraint):
    """The measure must be at least ``level``.

    Args:
        level: in the unit of the measure; 0.98 for 98 %.

    Example:
        >>> shop = ts.inventory(max_stock=8, max_regime=2, max_demand=6, orders=(0, 2, 4))
        >>> best = ts.solve(shop, subject_to={"fill_rate": ts.AtLeast(0.9)})
        >>> best.measures["fill_rate"].low >= 0.9
        True
    """


class AtMost(Constraint):
    """The measure must be at most ``level``.

    Args:
        level: in the unit of the measure; 0.05 for 5 %.

    Example:
        >>> ts.AtMost(0.05).level
        0.05
    """

    sign = -1.0
    key = "at_most"


def read_level(text: str) -> float | None:
    """``0.98`` or ``98%`` as a number; None for any other text."""
    number, percent, rest = text.strip().partition("%")
    try:
        level = float(Decimal(number) / (100 if percent else 1))  # 99.9% is 0.999, without error
    except (ArithmeticError, ValueError):
        return None
    return level if math.isfinite(level) and not rest else None


def describe_constraints(constraints: Mapping[str, Constraint]) -> str:
    return " and ".join(f"{name} {constraint}" for name, constraint in constraints.items())


CONSTRAINT_KEYS: dict[str, type[Constraint]] = {kind.key: kind for kind in (AtLeast, AtMost)}


def read_constraints(measures: Mapping[str, MeasureFormula], given: Any) -> dict[str, Constraint]:
    """``subject_to`` checked: constraints by measure."""
    requirement = "subject_to maps measures to AtLeast(level) or AtMost(level)"
    if not isinstance(given, Mapping) or not given:
        raise ArgumentError(requirement, value=f"got {given!r:.60}")
    for name, constraint in given.items():
        if name not in measures:
            available = ", ".join(measures) or "none; stages count them with counts={...}"
            closest = find_closest(str(name), measures)
            hint = "" if closest is None else f"; did you mean {closest!r}?"
            raise ArgumentError(
                f"the model's measures are {available}", value=f"got {name!r:.60}{hint}"
            )
        if isinstance(constraint, Sequence) and not isinstance(constraint, str):
            requirement = "a measure has one constraint: for a band, constrain it under two names"
            hint = f"with_measures(same={measures[name].text!r}) adds a name"
            raise ArgumentError(requirement, location=name, value=f"got {len(constraint)}; {hint}")
        if not isinstance(constraint, Constraint):
            raise ArgumentError(requirement, location=name, value=f"got {constraint!r:.60}")
    return dict(given)
