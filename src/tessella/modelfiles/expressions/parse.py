"""From the words of an expression to its tree, by recursive descent.

    choice      = both ("or" both)*               comparison = sum (("<" | "==" | ...) sum)*
    both        = other ("and" other)*            sum        = product (("+" | "-") product)*
    other       = "not" other | comparison        product    = sign (("*" | "/" | "//" | "%") sign)*
    sign        = ("-" | "+") sign | power        power      = atom ("**" sign)?
    atom        = number | text | name | name "(" list ")" | name "[" list "]" | "(" choice ")"

As in Python, which has the same precedence, ``a < b < c`` is ``a < b and b < c``. How deep it goes
is bounded while it is read, and how deep the tree is when it is done.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tessella.modelfiles.expressions.tokens import ExpressionError, Token, parse_number, tokenize
from tessella.modelfiles.expressions.tree import (
    CALL_MAX_OPERANDS,
    COMPARISONS,
    NAMED_FUNCTIONS,
    PI_NAME,
    CompareNode,
    ConstantNode,
    LookupNode,
    NameNode,
    Node,
    OperatorNode,
)

NESTING_MAX_LEVELS = 30  # brackets, signs, "not" and "**" within one another
TREE_MAX_DEPTH = 120


def parse(text: str) -> Node:
    """The tree of ``text``; ``ExpressionError`` where it is no expression."""
    parser = _Parser(tokenize(text))
    tree = parser.read_or()
    if parser.next_token.kind != "end":
        raise ExpressionError(f"{parser.next_token} cannot stand here", parser.next_token.position)
    if measure_depth(tree) > TREE_MAX_DEPTH:
        raise ExpressionError(f"an expression is at most {TREE_MAX_DEPTH} operations deep", 0)
    return tree


def measure_depth(tree: Node) -> int:
    """How many operations stand within one another; no recursion, whatever the tree."""
    deepest = 0
    pending = [(tree, 1)]
    while pending:
        node, level = pending.pop()
        deepest = max(deepest, level)
        pending += [(part, level + 1) for part in node.parts]
    return deepest


class _Parser:
    """What is left of an expression."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.index = 0
        self.nesting = 0

    @property
    def next_token(self) -> Token:
        return self.tokens[self.index]

    def _take(self) -> Token:
        self.index += 1
        return self.tokens[self.index - 1]

    def _next_is(self, *texts: str) -> bool:
        return self.next_token.kind in ("sign", "name") and self.next_token.text in texts

    def _expect(self, symbol: str, role: str) -> None:
        if not self._next_is(symbol):
            raise ExpressionError(
                f"{symbol!r} is missing before {self.next_token}, {role}", self.next_token.position
            )
        self._take()

    def _read_nested(self, read: Callable[[], Node]) -> Node:
        """What ``read`` finds one level deeper."""
        self.nesting += 1
        if self.nesting > NESTING_MAX_LEVELS:
            requirement = f"an expression goes at most {NESTING_MAX_LEVELS} brackets or signs deep"
            raise ExpressionError(requirement, self.next_token.position)
        node = read()
        self.nesting -= 1
        return node

    def _read_chain(self, read_operand: Callable[[], Node], *symbols: str) -> Node:
        node = read_operand()
        while self._next_is(*symbols):
            token = self._take()
            node = OperatorNode(token.position, token.text, (node, read_operand()))
        return node

    def read_or(self) -> Node:
        return self._read_chain(self._read_and, "or")

    def _read_and(self) -> Node:
        return self._read_chain(self._read_not, "and")

    def _read_not(self) -> Node:
        if not self._next_is("not"):
            return self._read_comparison()
        token = self._take()
        return OperatorNode(token.position, "not", (self._read_nested(self._read_not),))

    def _read_comparison(self) -> Node:
        first = self.next_token
        operands = [self._read_sum()]
        symbols = []
        while self._next_is(*COMPARISONS):
            symbols.append(self._take().text)
            operands.append(self._read_sum())
        return (
            CompareNode(first.position, tuple(symbols), tuple(operands)) if symbols else operands[0]
        )

    def _read_sum(self) -> Node:
        return self._read_chain(self._read_product, "+", "-")

    def _read_product(self) -> Node:
        return self._read_chain(self._read_sign, "*", "/", "//", "%")

    def _read_sign(self) -> Node:
        if not self._next_is("-", "+"):
            return self._read_power()
        token = self._take()
        operand = self._read_nested(self._read_sign)
        return (
            OperatorNode(token.position, "negative", (operand,)) if token.text == "-" else operand
        )

    def _read_power(self) -> Node:
        base = self._read_atom()
        if not self._next_is("**"):
            return base
        token = self._take()
        return OperatorNode(token.position, "**", (base, self._read_nested(self._read_sign)))

    def _read_atom(self) -> Node:
        token = self._take() if self.next_token.kind != "end" else self.next_token
        if token.kind == "number":
            return ConstantNode(token.position, parse_number(token))
        if token.kind == "text":
            return ConstantNode(token.position, token.text[1:-1])
        if token.kind == "name" and token.text not in ("and", "or", "not"):
            return self._read_name(token)
        if token.text != "(":
            raise ExpressionError(f"a value is missing before {token}", token.position)
        node = self._read_nested(self.read_or)
        self._expect(")", "which closes a bracket")
        return node

    def _read_name(self, token: Token) -> Node:
        if self._next_is("("):
            arguments = self._read_list("(", ")")
            return (
                self._make_call(token, arguments)
                if token.text in NAMED_FUNCTIONS
                else LookupNode(token.position, token.text, arguments)
            )
        if self._next_is("["):
            return LookupNode(
                token.position, token.text, self._read_list("[", "]"), uses_brackets=True
            )
        return (
            ConstantNode(token.position, math.pi)
            if token.text == PI_NAME
            else NameNode(token.position, token.text)
        )

    def _make_call(self, token: Token, arguments: tuple[Node, ...]) -> Node:
        function = NAMED_FUNCTIONS[token.text]
        if not function.min_operands <= len(arguments) <= function.max_operands:
            qualifier = "at least " if function.max_operands > function.min_operands else ""
            count_text = f"{qualifier}{function.min_operands}"
            noun = "value" if function.max_operands == 1 else "values"
            raise ExpressionError(
                f"{token.text} takes {count_text} {noun}; got {len(arguments)}", token.position
            )
        return OperatorNode(token.position, token.text, arguments)

    def _read_list(self, opening: str, closing: str) -> tuple[Node, ...]:
        self._expect(opening, "which opens a list")
        items: list[Node] = []
        while not self._next_is(closing):
            items.append(self._read_nested(self.read_or))
            if len(items) > CALL_MAX_OPERANDS:
                raise ExpressionError(
                    f"a list has at most {CALL_MAX_OPERANDS} entries", self.next_token.position
                )
            if not self._next_is(closing):
                self._expect(",", "which parts the entries of a list")
        self._take()
        return tuple(items)
