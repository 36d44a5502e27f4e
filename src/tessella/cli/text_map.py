"""A map of one or two axes as text: coloured blocks in a terminal, letters in a pipe.

The first axis runs to the right, the second upwards, or downwards where the grid states it, as in
pictures. An axis that is too long is shown at evenly spaced places, first and last included.
"""

from __future__ import annotations

from collections.abc import Sequence

import click
import numpy as np
from numpy.typing import NDArray

from tessella.grid import StateGrid, spaced_indices

LEVEL_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
MAP_MAX_ROWS = 40  # rows of text
RgbColour = tuple[int, int, int]


def format_blocks(
    levels: NDArray[np.integer],
    grid: StateGrid,
    colours: Sequence[RgbColour],
    *,
    coloured: bool,
    width: int,
) -> str:
    """``levels`` (n,) or (n, m) numbers from 0 on, each shown in its colour or by its letter."""
    axes = grid.picture_order(grid.axes)
    axis_order = [grid.axis(name) for name in axes]
    values = [[str(value) for value in grid.values[k].tolist()] for k in axis_order]
    levels = levels.transpose(axis_order)
    table = levels[:, None] if levels.ndim == 1 else levels
    row_labels = values[1] if levels.ndim == 2 else [""]
    margin = max(map(len, row_labels))
    cell_width = 2 if coloured else 1
    column_indices = spaced_indices(len(table), (width - margin - 2) // cell_width)
    row_indices = spaced_indices(table.shape[1], MAP_MAX_ROWS)

    def cell(level: int) -> str:
        if coloured:
            return click.style("  ", bg=colours[level % len(colours)])
        return LEVEL_LETTERS[level % len(LEVEL_LETTERS)]

    lines: list[str] = [axes[1]] if levels.ndim == 2 else []
    for j in row_indices if axes[-1] == grid.downward_axis else row_indices[::-1]:
        row = "".join(cell(int(table[i, j])) for i in column_indices)
        lines.append(f"{row_labels[j].rjust(margin)} {row}".rstrip())
    first, last = (values[0][int(k)] for k in (column_indices[0], column_indices[-1]))
    label_width = max(cell_width * len(column_indices) - len(first) - len(last), 1)
    lines.append(" " * (margin + 1) + first + f" {axes[0]} ".center(label_width) + last)
    shown_parts = [
        f"{n} of {m}"
        for n, m in ((len(column_indices), len(table)), (len(row_indices), table.shape[1]))
        if n < m
    ]
    return "\n".join(
        lines + ([f"shown: {' and '.join(shown_parts)} places"] if shown_parts else [])
    )


def format_legend(names: Sequence[str], colours: Sequence[RgbColour], *, coloured: bool) -> str:
    """What each colour or letter means."""
    if coloured:
        return "\n".join(
            f"{click.style('  ', bg=colour)} {name}"
            for name, colour in zip(names, colours, strict=True)
        )
    return "\n".join(
        f"{LEVEL_LETTERS[k % len(LEVEL_LETTERS)]} {name}" for k, name in enumerate(names)
    )
