"""An expression cut into words: numbers, quoted text, names and signs, each with its place.

Whatever is none of them is refused here, so a dot, a backslash or a brace never gets further.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from tessella.modelfiles.mistakes import LONGEST_TEXT

LONGEST = 4000  # characters of an expression
LONGEST_NUMBER = 32
WHOLE = 2**53  # beyond it not every whole number is a double

PATTERN = re.compile(
    r"(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<text>'[^'\n]*'|\"[^\"\n]*\")"
    r"|(?P<sign>\*\*|//|<=|>=|==|!=|[-+*/%<>(),\[\]])"
)
BLANK = re.compile(r"[ \t\r\n]*")
INSTEAD = {
    "=": "'==' compares",
    "&": "'and' joins conditions",
    "|": "'or' joins conditions",
    "!": "'not' turns a condition round",
    "^": "'**' is a power",
    ".": "names have no parts",
}


class ExpressionError(Exception):
    """What is wrong with an expression, and at which character, counted from 0."""

    def __init__(self, text: str, at: int) -> None:
        super().__init__(text)
        self.text, self.at = text, at


@dataclass(frozen=True)
class Token:
    """One word of an expression."""

    kind: str  # "number", "name", "text", "sign" or "end"
    text: str
    at: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else repr(self.text[:LONGEST_NUMBER])


def tokens(text: str) -> list[Token]:
    """The words of ``text``, and a last one that says that it ends."""
    if len(text) > LONGEST:
        raise ExpressionError(f"an expression has at most {LONGEST:,} characters", 0)
    found, here = [], _after_blanks(text, 0)
    while here < len(text):
        match = PATTERN.match(text, here)
        if not match:
            sign = text[here]
            hint = f": {INSTEAD[sign]}" if sign in INSTEAD else ""
            raise ExpressionError(f"{sign!r} cannot stand here{hint}", here)
        if match.lastgroup == "text" and len(match.group()) > LONGEST_TEXT + 2:
            raise ExpressionError(f"a text has at most {LONGEST_TEXT} characters", here)
        found.append(Token(str(match.lastgroup), match.group(), here))
        here = _after_blanks(text, match.end())
    return [*found, Token("end", "", len(text))]


def _after_blanks(text: str, here: int) -> int:
    found = BLANK.match(text, here)
    return found.end() if found else here


def number(token: Token) -> float:
    """The number that a token writes; whole numbers must be exact."""
    if len(token.text) > LONGEST_NUMBER:
        raise ExpressionError(f"a number has at most {LONGEST_NUMBER} characters", token.at)
    value = float(token.text)
    if not math.isfinite(value) or (token.text.isdigit() and int(token.text) > WHOLE):
        raise ExpressionError(f"the number {token.text} is too large", token.at)
    return value
