"""A map of one or two axes as text: coloured blocks in a terminal, letters in a pipe.

The first axis runs to the right, the second upwards, and rows of a map downwards, as in pictures. A
longer axis than there is room for is shown at evenly spaced places, first and last included.
"""

from __future__ import annotations

from collections.abc import Sequence

import click
import numpy as np
from numpy.typing import NDArray

from tessella.grid import DOWNWARDS, picture_axes

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
TALL = 40  # rows at most
Colour = tuple[int, int, int]


def places(length: int, room: int) -> NDArray[np.int64]:
    """Evenly spaced places on an axis, at most ``room`` of them."""
    return np.unique(np.linspace(0, length - 1, min(length, max(room, 1))).round().astype(int))


def blocks(
    levels: NDArray[np.integer],
    axes: Sequence[str],
    values: Sequence[Sequence[str]],
    colours: Sequence[Colour],
    *,
    coloured: bool,
    wide: int,
) -> str:
    """``levels`` (n,) or (n, m) numbers from 0 on, each shown in its colour or by its letter."""
    order = [axes.index(name) for name in picture_axes(axes)]
    axes, values = [axes[k] for k in order], [values[k] for k in order]
    levels = levels.transpose(order)
    grid = levels[:, None] if levels.ndim == 1 else levels
    ups = list(values[1]) if levels.ndim == 2 else [""]
    margin = max(map(len, ups))
    each = 2 if coloured else 1
    across, up = places(len(grid), (wide - margin - 2) // each), places(grid.shape[1], TALL)

    def cell(level: int) -> str:
        if coloured:
            return click.style("  ", bg=colours[level % len(colours)])
        return LETTERS[level % len(LETTERS)]

    lines: list[str] = [axes[1]] if levels.ndim == 2 else []
    for j in up if axes[-1] == DOWNWARDS else up[::-1]:
        row = "".join(cell(int(grid[i, j])) for i in across)
        lines.append(f"{ups[j].rjust(margin)} {row}".rstrip())
    first, last = (values[0][int(k)] for k in (across[0], across[-1]))
    room = max(each * len(across) - len(first) - len(last), 1)
    lines.append(" " * (margin + 1) + first + f" {axes[0]} ".center(room) + last)
    left = [f"{n} of {m}" for n, m in ((len(across), len(grid)), (len(up), grid.shape[1])) if n < m]
    return "\n".join(lines + ([f"shown: {' and '.join(left)} places"] if left else []))


def legend(names: Sequence[str], colours: Sequence[Colour], *, coloured: bool) -> str:
    """What each colour or letter means."""
    if coloured:
        return "\n".join(
            f"{click.style('  ', bg=colour)} {name}"
            for name, colour in zip(names, colours, strict=True)
        )
    return "\n".join(f"{LETTERS[k % len(LETTERS)]} {name}" for k, name in enumerate(names))
