"""Text for people: tables, money, percentages, durations and bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest


def format_money(amount: float) -> str:
    """Four digits, written out: 8.189, 12,340, 0.0004321."""
    if amount == 0:
        return "0"
    exponent = math.floor(math.log10(abs(amount)))
    return f"{amount:.2e}" if exponent < -6 else f"{amount:,.{max(3 - exponent, 0)}f}"


def format_percent(share: float) -> str:
    """Three digits: ``0.64 %``, ``1,230 %``."""
    if share == 0:
        return "0 %"
    if abs(share) < 1e-5:
        return "less than 0.001 %"
    return f"{100 * share:.3g} %" if abs(share) < 1 else f"{100 * share:,.0f} %"


def format_duration(seconds: float) -> str:
    """``4:07``, or ``1:02:03``."""
    minutes, seconds_part = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds_part:02}" if hours else f"{minutes}:{seconds_part:02}"


def format_bytes(count: float) -> str:
    """``1.2 GB``."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"


def align_columns(
    rows: Sequence[Sequence[str]], alignment: str = "", indent: str = ""
) -> list[str]:
    """The lines of a table whose columns are as wide as needed.

    Args:
        alignment: an ``r`` for each right-aligned column.
    """
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]

    def format_line(row: Sequence[str]) -> str:
        cells = [
            text.rjust(widths[k]) if alignment[k : k + 1] == "r" else text.ljust(widths[k])
            for k, text in enumerate(row)
        ]
        return (indent + "  ".join(cells)).rstrip()

    return [format_line(row) for row in rows]
