"""Expressions of model files: from text to a tree, and what their operators do on arrays.

A text is cut into numbers, quoted text, names and signs; whatever is none of them, such as a dot, a
backslash or a brace, is rejected. Python's parser then sees the signs alone, with one placeholder
for every operand: it decides precedence, and no literal, keyword or attribute of Python can reach
it. Its nodes are converted one by one, those of a closed list; nothing is compiled or run.

Numbers are doubles throughout, so nothing wraps around: what grows too large becomes infinite, and
a missing value is NaN; who reads the result rejects either. Truth values count as 0 and 1 in
arithmetic. A comparison with a missing value is missing too: NaN among doubles 0 and 1. ``and``,
``or`` and ``where`` have a value all the same where the other operands decide it (Kleene's strong
logic of three values).
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tessella.modelfiles.toml_document import TEXT_MAX_CHARACTERS

NUMBER = "a number"
CONDITION = "a condition"
TEXT = "text"

EXPRESSION_MAX_CHARACTERS = 4000
NUMBER_MAX_CHARACTERS = 32
EXACT_INTEGER_MAX = 2**53  # beyond it not every whole number is a double
NESTING_MAX_LEVELS = 30  # brackets within one another; signs, "not" and "**" in a row
TREE_MAX_DEPTH = 120  # operations within one another
CALL_MAX_OPERANDS = 100

TOKEN_PATTERN = re.compile(
    r"(?P<blank>[ \t\r\n]+)"
    r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<text>'[^'\n]*'|\"[^\"\n]*\")"
    r"|(?P<sign>\*\*|//|<=|>=|==|!=|[-+*/%<>(),\[\]])",
    re.ASCII,
)
PLACEHOLDER = "x"  # of an operand, in the text that Python parses
NESTED_SIGNS = re.compile(rf"(?:(?:{PLACEHOLDER} )?\*\* |[-+] |not ){{{NESTING_MAX_LEVELS + 1}}}")
CLOSING_BRACKETS = {"(": ")", "[": "]"}
SYMBOL_HINTS = {
    "=": "'==' compares",
    "&": "'and' joins conditions",
    "|": "'or' joins conditions",
    "!": "'not' negates a condition",
    "^": "'**' is a power",
    ".": "names have no parts",
}


class ExpressionError(Exception):
    """What is wrong with an expression, and at which character, counted from 0."""

    def __init__(self, text: str, position: int) -> None:
        super().__init__(text)
        self.text = text
        self.position = position


@dataclass(frozen=True)
class Node:
    """A part of an expression; ``position`` is the character where it begins.

    Its kind is a word of ``OPERATORS``, or says what ``value`` is: a "constant", a "name", of which
    table it is an "entry", or in "compare" the signs of ``a < b <= c``, where each operand is
    compared with the next, and every one evaluated once.
    """

    kind: str
    position: int
    operands: tuple[Node, ...] = ()
    value: Any = None
    uses_brackets: bool = False  # of an entry: square ones

    @property
    def depth(self) -> int:
        """How many operations are nested; the parser bounds it."""
        return 1 + max((operand.depth for operand in self.operands), default=0)

    def walk(self) -> Iterator[Node]:
        """This part and all within, from the left."""
        yield self
        for operand in self.operands:
            yield from operand.walk()


def _power(base: Any, exponent: Any) -> Any:
    # A plain number as exponent takes NumPy's short ways, such as a product for a square.
    exponent = float(exponent) if np.ndim(exponent) == 0 else exponent
    return np.asarray(base, dtype=float) ** exponent


def _on_doubles(function: Callable) -> Callable:
    """``function`` of doubles: NumPy has other rules for truth values."""
    return lambda *operands: function(*(np.asarray(x, dtype=float) for x in operands))


MISSING_TEXT = "no value\u200b"  # equals no text of a model, since those are printable


def _are_boolean(*conditions: Any) -> bool:
    """Whether these are plain truth values, none of them missing."""
    return all(np.asarray(condition).dtype.kind == "b" for condition in conditions)


def logical_and(a: Any, b: Any) -> Any:
    """``a and b``."""
    if _are_boolean(a, b):
        return np.logical_and(a, b)
    return np.where(np.equal(a, 0) | np.equal(b, 0), 0.0, np.multiply(a, b, dtype=float))


def _logical_or(a: Any, b: Any) -> Any:
    if _are_boolean(a, b):
        return np.logical_or(a, b)
    return np.where(np.equal(a, 1) | np.equal(b, 1), 1.0, np.add(a, b, dtype=float))


def _select(condition: Any, if_true: Any, if_false: Any) -> Any:
    if _are_boolean(condition):
        return np.where(condition, if_true, if_false)
    result = np.where(np.equal(condition, 1), if_true, if_false)
    return np.where(
        np.isnan(condition), MISSING_TEXT if result.dtype.kind == "U" else np.nan, result
    )


def compare_values(symbol: str, a: Any, b: Any) -> Any:
    """``a < b`` and the like."""
    result = COMPARISONS[symbol][1](a, b)
    missing = is_missing(a) | is_missing(b)
    return np.where(missing, np.nan, result) if missing.any() else result


def is_missing(array: Any) -> Any:
    """Where an array has no value."""
    array = np.asarray(array)
    if array.dtype.kind == "U":
        return array == MISSING_TEXT
    return np.zeros((), dtype=bool) if array.dtype.kind == "b" else np.isnan(array)


@dataclass(frozen=True)
class OperatorSpec:
    """What an operator does, with how many operands, of which kind, and the kind of its result."""

    apply: Callable[..., Any]
    min_operands: int
    max_operands: int
    operand_kind: str = NUMBER
    result_kind: str = NUMBER

    @property
    def is_binary_fold(self) -> bool:
        """Whether it takes two operands at a time, however many there are."""
        return self.min_operands == 2


# Each sign with the class of its node in Python's parser, and its function.
ARITHMETIC = {
    "+": (ast.Add, operator.add),
    "-": (ast.Sub, operator.sub),
    "*": (ast.Mult, operator.mul),
    "/": (ast.Div, operator.truediv),
    "//": (ast.FloorDiv, operator.floordiv),
    "%": (ast.Mod, operator.mod),
    "**": (ast.Pow, _power),
}
COMPARISONS = {
    "<": (ast.Lt, operator.lt),
    "<=": (ast.LtE, operator.le),
    ">": (ast.Gt, operator.gt),
    ">=": (ast.GtE, operator.ge),
    "==": (ast.Eq, operator.eq),
    "!=": (ast.NotEq, operator.ne),
}
UNARY_FUNCTIONS = {
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
}
NAMED_FUNCTIONS = {
    **{word: OperatorSpec(_on_doubles(f), 1, 1) for word, f in UNARY_FUNCTIONS.items()},
    "min": OperatorSpec(_on_doubles(np.minimum), 2, CALL_MAX_OPERANDS),
    "max": OperatorSpec(_on_doubles(np.maximum), 2, CALL_MAX_OPERANDS),
    "where": OperatorSpec(_select, 3, 3),
}
OPERATORS = {
    **{s: OperatorSpec(_on_doubles(function), 2, 2) for s, (_, function) in ARITHMETIC.items()},
    "negative": OperatorSpec(_on_doubles(operator.neg), 1, 1),
    "and": OperatorSpec(logical_and, 2, 2, CONDITION, CONDITION),
    "or": OperatorSpec(_logical_or, 2, 2, CONDITION, CONDITION),
    "not": OperatorSpec(
        lambda a: np.logical_not(a) if _are_boolean(a) else 1.0 - a, 1, 1, CONDITION, CONDITION
    ),
    **NAMED_FUNCTIONS,
}
NODE_OPERATORS: dict[type[ast.AST], str] = {
    **{node: sign for sign, (node, _) in (ARITHMETIC | COMPARISONS).items()},
    **{ast.USub: "negative", ast.And: "and", ast.Or: "or", ast.Not: "not"},
}
LOGICAL_WORDS = ("and", "or", "not")
PI_NAME = "pi"
RESERVED_WORDS = frozenset({*LOGICAL_WORDS, PI_NAME, *NAMED_FUNCTIONS})  # no names of a model


@dataclass(frozen=True)
class Token:
    """A number, a name, a text or a sign of an expression, or its end."""

    kind: str  # "number", "name", "text", "sign" or "end"
    text: str
    position: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text[:NUMBER_MAX_CHARACTERS])

    @property
    def is_operand(self) -> bool:
        return self.kind in ("number", "name", "text")


def parse(text: str) -> Node:
    """The tree of ``text``; ``ExpressionError`` where it is no expression."""
    tokens = _tokenize(text)
    _check_tokens(tokens)
    source = ""
    by_column = {}
    for token in tokens:
        by_column[len(source)] = token
        source += f"{PLACEHOLDER if token.is_operand else token.text} "
    nested = NESTED_SIGNS.search(source)
    if nested:
        raise _nesting_error(by_column[nested.start()])
    try:
        return _convert(ast.parse(source, mode="eval").body, by_column)
    except (SyntaxError, RecursionError, MemoryError):
        raise ExpressionError("not a valid expression", 0) from None


def _tokenize(text: str) -> list[Token]:
    if len(text) > EXPRESSION_MAX_CHARACTERS:
        limit = f"{EXPRESSION_MAX_CHARACTERS:,} characters"
        raise ExpressionError(f"an expression has at most {limit}", 0)
    tokens = []
    position = 0
    while position < len(text):
        match = TOKEN_PATTERN.match(text, position)
        if not match:
            symbol = text[position]
            hint = f": {SYMBOL_HINTS[symbol]}" if symbol in SYMBOL_HINTS else ""
            raise ExpressionError(f"{symbol!r} is not allowed here{hint}", position)
        kind = "sign" if match.group() in LOGICAL_WORDS else str(match.lastgroup)
        tokens += [Token(kind, match.group(), position)] if kind != "blank" else []
        position = match.end()
    return [*tokens, Token("end", "", len(text))]


def _check_tokens(tokens: list[Token]) -> None:
    """Reject neighbours that do not fit, brackets that do not match, and deep nesting."""
    brackets = [("", False)]  # what closes each open one, and whether it holds a list
    for previous, token in pairwise([Token("start", "", 0), *tokens]):
        _check_neighbours(previous, token, *brackets[-1])
        if token.text in CLOSING_BRACKETS:
            brackets.append((CLOSING_BRACKETS[token.text], previous.kind == "name"))
        elif token.text in (")", "]"):
            brackets.pop()
        if len(brackets) > NESTING_MAX_LEVELS + 1:
            raise _nesting_error(token)


def _check_neighbours(previous: Token, token: Token, closing: str, in_list: bool) -> None:
    if previous.is_operand or previous.text in (")", "]"):
        if not _may_follow_operand(token, previous, closing, in_list):
            raise _unexpected_token(token, closing, in_list)
        return
    is_last = token.text == closing and in_list and previous.text in ("(", ",")
    if not is_last and not _may_start(token, previous):
        raise ExpressionError(f"a value is missing before {token}", token.position)


def _may_start(token: Token, previous: Token) -> bool:
    """Whether a token may begin an operand, after what is no operand."""
    if token.text == "not":
        return previous.text in ("", "(", "[", ",", *LOGICAL_WORDS)
    return token.is_operand or token.text in ("(", "+", "-")


def _may_follow_operand(token: Token, previous: Token, closing: str, in_list: bool) -> bool:
    if token.text in CLOSING_BRACKETS:
        return previous.kind == "name"
    if token.text in (")", "]") or token.kind == "end":
        return token.text == closing
    return in_list if token.text == "," else not token.is_operand and token.text != "not"


def _unexpected_token(token: Token, closing: str, in_list: bool) -> ExpressionError:
    """The error for a token where an operator, a comma or a bracket is expected."""
    if not closing:
        message = f"{token} is not allowed here"
    elif in_list and token.kind != "end":
        message = f"',' is missing before {token}, between two entries of a list"
    else:
        message = f"{closing!r} is missing before {token}, to close a bracket"
    return ExpressionError(message, token.position)


def _nesting_error(token: Token) -> ExpressionError:
    limit = f"{NESTING_MAX_LEVELS} brackets or signs"
    return ExpressionError(f"an expression goes at most {limit} deep", token.position)


def _convert(node: ast.expr, tokens: Mapping[int, Token], depth: int = 1) -> Node:
    """A node of Python's parser as one of ours; ``tokens`` by their columns in the parsed text."""
    token = tokens[node.col_offset]
    if isinstance(node, ast.Name):
        return _make_leaf(token)
    if depth >= TREE_MAX_DEPTH:
        raise ExpressionError(f"an expression is at most {TREE_MAX_DEPTH} operations deep", 0)
    operands = tuple(_convert(part, tokens, depth + 1) for part in _operands(node))
    if isinstance(node, ast.Call | ast.Subscript):
        return _make_call(token, operands, isinstance(node, ast.Subscript))
    if isinstance(node, ast.Compare):
        symbols = tuple(NODE_OPERATORS[type(op)] for op in node.ops)
        return Node("compare", token.position, operands, symbols)
    assert isinstance(node, ast.BinOp | ast.UnaryOp | ast.BoolOp)
    if isinstance(node.op, ast.UAdd):
        return operands[0]
    return Node(NODE_OPERATORS[type(node.op)], token.position, operands)


def _operands(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.Call):
        return node.args
    if isinstance(node, ast.Subscript):
        return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)]


def _make_leaf(token: Token) -> Node:
    if token.kind == "number":
        return Node("constant", token.position, value=_parse_number(token))
    if token.text == PI_NAME:
        return Node("constant", token.position, value=math.pi)
    if token.kind == "name":
        return Node("name", token.position, value=token.text)
    if len(token.text) > TEXT_MAX_CHARACTERS + 2:
        limit = f"{TEXT_MAX_CHARACTERS} characters"
        raise ExpressionError(f"a text has at most {limit}", token.position)
    return Node("constant", token.position, value=token.text[1:-1])


def _parse_number(token: Token) -> float:
    """The number that a token writes; whole numbers must be exact."""
    if len(token.text) > NUMBER_MAX_CHARACTERS:
        limit = f"{NUMBER_MAX_CHARACTERS} characters"
        raise ExpressionError(f"a number has at most {limit}", token.position)
    value = float(token.text)
    if not math.isfinite(value) or (token.text.isdigit() and int(token.text) > EXACT_INTEGER_MAX):
        raise ExpressionError(f"the number {token.text} is too large", token.position)
    return value


def _make_call(token: Token, operands: tuple[Node, ...], uses_brackets: bool) -> Node:
    """A function of operands, or an entry of a table."""
    if len(operands) > CALL_MAX_OPERANDS:
        raise ExpressionError(f"a list has at most {CALL_MAX_OPERANDS} entries", token.position)
    if uses_brackets or token.text not in NAMED_FUNCTIONS:
        return Node("entry", token.position, operands, token.text, uses_brackets)
    function = NAMED_FUNCTIONS[token.text]
    if not function.min_operands <= len(operands) <= function.max_operands:
        qualifier = "at least " if function.max_operands > function.min_operands else ""
        noun = "value" if function.max_operands == 1 else "values"
        requirement = f"{token.text} takes {qualifier}{function.min_operands} {noun}"
        raise ExpressionError(f"{requirement}; got {len(operands)}", token.position)
    return Node(token.text, token.position, operands)
