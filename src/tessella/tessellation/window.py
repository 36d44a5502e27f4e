"""Parts of a tessellation: the grid without its rim, and slices at fixed values of some axes.

A part is tessellated afresh: two states are in one cell of the part only if they are connected
inside it, and a face counts only if both of its states are inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tessella.errors import ArgumentError, expect, shown
from tessella.grid import StateGrid
from tessella.tessellation.tessellate import Tessellation, build

Rim = int | Mapping[str, int | tuple[int, int]]


def trim(tessellation: Tessellation, rim: Rim) -> Tessellation:
    """The tessellation without the outer layers of the grid.

    Where an unbounded quantity (a queue, a stock) was cut off, the states near the cut act on it,
    and the cells and faces they make belong to the cut and not to the problem.

    Args:
        tessellation: the whole.
        rim: layers to leave out: one number for both ends of every axis, or axis name to one
            number (both ends) or to a pair (low end, high end); axes not named stay whole.
    """
    expect("trim", tessellation, Tessellation)
    grid = tessellation.grid
    layers = _layers(grid, rim)
    if not any(map(any, layers)):
        return tessellation
    for name, n, (low, high) in zip(grid.axes, grid.shape, layers, strict=True):
        if low < 0 or high < 0 or low + high >= n:
            raise ArgumentError(
                "a rim must leave a part of each axis", place=name, value=f"{low}+{high} of {n}"
            )
    window = tuple(slice(low, n - high) for n, (low, high) in zip(grid.shape, layers, strict=True))
    axes = dict(
        zip(grid.axes, (v[w] for v, w in zip(grid.values, window, strict=True)), strict=True)
    )
    return _part(tessellation, StateGrid(axes), window, tessellation.name)


def section(tessellation: Tessellation, **fixed: object) -> Tessellation:
    """The slice where the named axes have the given values: ``section(t, regime=3)``."""
    expect("section", tessellation, Tessellation)
    grid = tessellation.grid
    left = [name for name in grid.axes if name not in fixed]
    if not left:
        raise ArgumentError("a section must leave at least one axis free")
    places = {grid.axis(name): _place(grid, name, value) for name, value in fixed.items()}
    window = [places.get(k, slice(None)) for k in range(grid.ndim)]
    axes = {name: grid.values[grid.axis(name)] for name in left}
    name = ", ".join(f"{grid.axes[k]} = {shown(grid.values[k][i])}" for k, i in places.items())
    return _part(tessellation, StateGrid(axes), tuple(window), name)


def sections(tessellation: Tessellation, axis: str) -> tuple[Tessellation, ...]:
    """Every slice across ``axis``, in the order of its values."""
    expect("sections", tessellation, Tessellation)
    values = tessellation.grid.values[tessellation.grid.axis(axis)]
    return tuple(section(tessellation, **{axis: value}) for value in values)


def without(tessellation: Tessellation, *axes: str) -> Tessellation:
    """The tessellation on the other axes, for a policy that does not depend on ``axes``."""
    grid = tessellation.grid
    left = {n: v for n, v in zip(grid.axes, grid.values, strict=True) if n not in axes}
    table = tessellation.table[tuple(slice(None) if n in left else 0 for n in grid.axes)]
    # Margins may still depend on what the action does not, so none are kept.
    name, t = tessellation.name, np.ascontiguousarray(table)
    return build(StateGrid(left), tessellation.actions, tessellation.action_name, t, None, name)


def _part(whole: Tessellation, grid: StateGrid, window: tuple, name: str) -> Tessellation:
    margin = None if whole.margin is None else whole.margin[window]
    table = np.ascontiguousarray(whole.table[window])
    return build(grid, whole.actions, whole.action_name, table, margin, name)


def _layers(grid: StateGrid, rim: Rim) -> list[tuple[int, int]]:
    if not isinstance(rim, Mapping):
        return [_ends("the rim", rim)] * grid.ndim
    layers = [(0, 0)] * grid.ndim
    for name, layer in rim.items():
        layers[grid.axis(name)] = _ends(name, layer)
    return layers


def _ends(place: str, layer: Any) -> tuple[int, int]:
    pair = layer if isinstance(layer, tuple) else (layer, layer)
    if len(pair) != 2 or not all(isinstance(n, int | np.integer) for n in pair):
        rule = "layers of a rim are a whole number, or a pair of them (low end, high end)"
        raise ArgumentError(rule, place=place, value=f"has {layer!r}")
    return int(pair[0]), int(pair[1])


def _place(grid: StateGrid, name: str, value: object) -> int:
    place = grid.locate(grid.axis(name), np.asarray(value))
    if place.ndim or place < 0:
        raise ArgumentError(f"{name}={value} is not on the grid")
    return int(place)
