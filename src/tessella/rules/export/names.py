"""Names and texts of a model, made safe for a language.

An axis or action may be called anything that its author liked: a keyword, a quote, a line break,
the end of a comment. Identifiers are mapped to safe ones, one to one; texts are escaped; what
stands in a comment is plain ASCII on one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tessella.errors import FileError

PLAIN_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


def make_identifiers(
    names: Sequence[str], reserved: Iterable[str] = (), subject: str = "axis"
) -> dict[str, str]:
    """Each name to an ASCII identifier, all different, none ``reserved``, whatever the case."""
    used = {word.lower() for word in reserved}
    result = {}
    for position, name in enumerate(names, 1):
        safe = name if PLAIN_IDENTIFIER.fullmatch(name) else f"{subject}{position}"
        while safe.lower() in used:
            safe += "_"
        used.add(safe.lower())
        result[name] = safe
    return result


def derive_identifier(stem: str, reserved: Iterable[str] = ()) -> str:
    """An ASCII identifier for a file's stem, another one for another stem of the usual kind.

    ``rule-a`` becomes ``rule_a``, and what is neither letter, digit, nor one of "_-. " its code.
    """
    safe = "".join(c if c.isascii() and c.isalnum() else _spell_character(c) for c in stem)
    safe = safe if safe[:1].isalpha() else f"rule_{safe}".rstrip("_")
    used = {word.lower() for word in reserved}
    while safe.lower() in used:
        safe += "_"
    return safe


def _spell_character(character: str) -> str:
    return "_" if character in "_-. " else f"u{ord(character):x}"


def to_comment_text(text: object) -> str:
    """``text`` in printable ASCII on one line, with nothing that ends or begins a comment."""
    line = ascii(str(text))[1:-1]
    for mark in ("*/", "/*", "??", "--"):
        while mark in line:
            line = line.replace(mark, f"{mark[0]} {mark[1]}")
    return line


def require_no_nul(text: str, language: str) -> str:
    """``text`` as it is, refused where it holds a NUL, which ends a text in ``language``."""
    if "\0" in text:
        raise FileError(f"a text in {language} cannot hold a NUL", value=f"got {text!r}")
    return text
