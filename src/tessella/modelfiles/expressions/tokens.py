"""An expression cut into words: numbers, quoted text, names and signs, each with its place.

Whatever is none of them is refused here, so a dot, a backslash or a brace never gets further.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tessella.modelfiles.mistakes import TEXT_MAX_CHARACTERS

EXPRESSION_MAX_CHARACTERS = 4000  # characters of an expression
NUMBER_MAX_CHARACTERS = 32
EXACT_INTEGER_MAX = 2**53  # beyond it not every whole number is a double

TOKEN_PATTERN = re.compile(
    r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<text>'[^'\n]*'|\"[^\"\n]*\")"
    r"|(?P<sign>\*\*|//|<=|>=|==|!=|[-+*/%<>(),\[\]])"
)
BLANK_PATTERN = re.compile(r"[ \t\r\n]*")
SYMBOL_HINTS = {
    "=": "'==' compares",
    "&": "'and' joins conditions",
    "|": "'or' joins conditions",
    "!": "'not' turns a condition round",
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
class Token:
    """One word of an expression."""

    kind: str  # "number", "name", "text", "sign" or "end"
    text: str
    position: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text[:NUMBER_MAX_CHARACTERS])


def tokenize(text: str) -> list[Token]:
    """The words of ``text``, and a last one that says that it ends."""
    if len(text) > EXPRESSION_MAX_CHARACTERS:
        raise ExpressionError(
            f"an expression has at most {EXPRESSION_MAX_CHARACTERS:,} characters", 0
        )
    result = []
    position = _skip_blanks(text, 0)
    while position < len(text):
        match = TOKEN_PATTERN.match(text, position)
        if not match:
            symbol = text[position]
            hint = f": {SYMBOL_HINTS[symbol]}" if symbol in SYMBOL_HINTS else ""
            raise ExpressionError(f"{symbol!r} cannot stand here{hint}", position)
        if match.lastgroup == "text" and len(match.group()) > TEXT_MAX_CHARACTERS + 2:
            raise ExpressionError(f"a text has at most {TEXT_MAX_CHARACTERS} characters", position)
        result.append(Token(str(match.lastgroup), match.group(), position))
        position = _skip_blanks(text, match.end())
    return [*result, Token("end", "", len(text))]


def _skip_blanks(text: str, position: int) -> int:
    match = BLANK_PATTERN.match(text, position)
    return match.end() if match else position


def parse_number(token: Token) -> float:
    """The number that a token writes; whole numbers must be exact."""
    if len(token.text) > NUMBER_MAX_CHARACTERS:
        raise ExpressionError(
            f"a number has at most {NUMBER_MAX_CHARACTERS} characters", token.position
        )
    value = float(token.text)
    if not math.isfinite(value) or (token.text.isdigit() and int(token.text) > EXACT_INTEGER_MAX):
        raise ExpressionError(f"the number {token.text} is too large", token.position)
    return value
