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

from tessella.modelfiles.expressions.tokens import ExpressionError, Token, number, tokens
from tessella.modelfiles.expressions.tree import (
    COMPARISONS,
    FUNCTIONS,
    MANY,
    PI,
    Apply,
    Compare,
    Constant,
    LookUp,
    Name,
    Node,
)

DEEPEST = 30  # brackets, signs, "not" and "**" within one another
DEEPEST_TREE = 120


def parse(text: str) -> Node:
    """The tree of ``text``; ``ExpressionError`` where it is no expression."""
    reader = _Reader(tokens(text))
    tree = reader.choice()
    if reader.next.kind != "end":
        raise ExpressionError(f"{reader.next} cannot stand here", reader.next.at)
    if depth(tree) > DEEPEST_TREE:
        raise ExpressionError(f"an expression is at most {DEEPEST_TREE} operations deep", 0)
    return tree


def depth(tree: Node) -> int:
    """How many operations stand within one another; no recursion, whatever the tree."""
    deepest, left = 0, [(tree, 1)]
    while left:
        node, level = left.pop()
        deepest = max(deepest, level)
        left += [(part, level + 1) for part in node.parts]
    return deepest


class _Reader:
    """What is left of an expression."""

    def __init__(self, words: list[Token]) -> None:
        self.words, self.here, self.level = words, 0, 0

    @property
    def next(self) -> Token:
        return self.words[self.here]

    def _taken(self) -> Token:
        self.here += 1
        return self.words[self.here - 1]

    def _is(self, *texts: str) -> bool:
        return self.next.kind in ("sign", "name") and self.next.text in texts

    def _expect(self, sign: str, why: str) -> None:
        if not self._is(sign):
            raise ExpressionError(f"{sign!r} is missing before {self.next}, {why}", self.next.at)
        self._taken()

    def _within(self, read: Callable[[], Node]) -> Node:
        """What ``read`` finds one level deeper."""
        self.level += 1
        if self.level > DEEPEST:
            rule = f"an expression goes at most {DEEPEST} brackets or signs deep"
            raise ExpressionError(rule, self.next.at)
        found = read()
        self.level -= 1
        return found

    def _chain(self, part: Callable[[], Node], *signs: str) -> Node:
        left = part()
        while self._is(*signs):
            sign = self._taken()
            left = Apply(sign.at, sign.text, (left, part()))
        return left

    def choice(self) -> Node:
        return self._chain(self._both, "or")

    def _both(self) -> Node:
        return self._chain(self._other, "and")

    def _other(self) -> Node:
        if not self._is("not"):
            return self._comparison()
        sign = self._taken()
        return Apply(sign.at, "not", (self._within(self._other),))

    def _comparison(self) -> Node:
        first = self.next
        of, signs = [self._sum()], []
        while self._is(*COMPARISONS):
            signs.append(self._taken().text)
            of.append(self._sum())
        return Compare(first.at, tuple(signs), tuple(of)) if signs else of[0]

    def _sum(self) -> Node:
        return self._chain(self._product, "+", "-")

    def _product(self) -> Node:
        return self._chain(self._sign, "*", "/", "//", "%")

    def _sign(self) -> Node:
        if not self._is("-", "+"):
            return self._power()
        sign = self._taken()
        of = self._within(self._sign)
        return Apply(sign.at, "negative", (of,)) if sign.text == "-" else of

    def _power(self) -> Node:
        base = self._atom()
        if not self._is("**"):
            return base
        sign = self._taken()
        return Apply(sign.at, "**", (base, self._within(self._sign)))

    def _atom(self) -> Node:
        word = self._taken() if self.next.kind != "end" else self.next
        if word.kind == "number":
            return Constant(word.at, number(word))
        if word.kind == "text":
            return Constant(word.at, word.text[1:-1])
        if word.kind == "name" and word.text not in ("and", "or", "not"):
            return self._named(word)
        if word.text != "(":
            raise ExpressionError(f"a value is missing before {word}", word.at)
        found = self._within(self.choice)
        self._expect(")", "which closes a bracket")
        return found

    def _named(self, word: Token) -> Node:
        if self._is("("):
            of = self._list("(", ")")
            return (
                self._call(word, of) if word.text in FUNCTIONS else LookUp(word.at, word.text, of)
            )
        if self._is("["):
            return LookUp(word.at, word.text, self._list("[", "]"), square=True)
        return Constant(word.at, math.pi) if word.text == PI else Name(word.at, word.text)

    def _call(self, word: Token, of: tuple[Node, ...]) -> Node:
        function = FUNCTIONS[word.text]
        if not function.least <= len(of) <= function.most:
            least = f"{'at least ' if function.most > function.least else ''}{function.least}"
            noun = "value" if function.most == 1 else "values"
            raise ExpressionError(f"{word.text} takes {least} {noun}; got {len(of)}", word.at)
        return Apply(word.at, word.text, of)

    def _list(self, opens: str, closes: str) -> tuple[Node, ...]:
        self._expect(opens, "which opens a list")
        found: list[Node] = []
        while not self._is(closes):
            found.append(self._within(self.choice))
            if len(found) > MANY:
                raise ExpressionError(f"a list has at most {MANY} entries", self.next.at)
            if not self._is(closes):
                self._expect(",", "which parts the entries of a list")
        self._taken()
        return tuple(found)
