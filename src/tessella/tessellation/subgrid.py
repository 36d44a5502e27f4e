"""Parts of a tessellation: the grid without its rim, and slices at fixed values of some axes.

A part is tessellated afresh: two states are in one cell of the part only if they are connected
inside it, and a face counts only if both of its states are inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tessella.errors import ArgumentError, format_value, require_type
from tessella.grid import StateGrid
from tessella.tessellation.tessellate import Tessellation, build_tessellation

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
    require_type("trim", tessellation, Tessellation)
    grid = tessellation.grid
    layers = _read_layers(grid, rim)
    if not any(map(any, layers)):
        return tessellation
    for name, n, (low, high) in zip(grid.axes, grid.shape, layers, strict=True):
        if low < 0 or high < 0 or low + high >= n:
            raise ArgumentError(
                "a rim must leave a part of each axis", location=name, value=f"{low}+{high} of {n}"
            )
    subgrid = tuple(slice(low, n - high) for n, (low, high) in zip(grid.shape, layers, strict=True))
    axes = dict(
        zip(grid.axes, (v[w] for v, w in zip(grid.values, subgrid, strict=True)), strict=True)
    )
    return _cut_subgrid(tessellation, grid.with_axes(axes), subgrid, tessellation.name)


def section(tessellation: Tessellation, **fixed: object) -> Tessellation:
    """The slice where the named axes have the given values: ``section(t, regime=3)``."""
    require_type("section", tessellation, Tessellation)
    grid = tessellation.grid
    free_axes = [name for name in grid.axes if name not in fixed]
    if not free_axes:
        raise ArgumentError("a section must leave at least one axis free")
    positions = {
        grid.axis(name): _find_position(grid, name, value) for name, value in fixed.items()
    }
    index = [positions.get(k, slice(None)) for k in range(grid.ndim)]
    axes = {name: grid.values[grid.axis(name)] for name in free_axes}
    name = ", ".join(
        f"{grid.axes[k]} = {format_value(grid.values[k][i])}" for k, i in positions.items()
    )
    return _cut_subgrid(tessellation, grid.with_axes(axes), tuple(index), name)


def sections(tessellation: Tessellation, axis: str) -> tuple[Tessellation, ...]:
    """Every slice across ``axis``, in the order of its values."""
    require_type("sections", tessellation, Tessellation)
    values = tessellation.grid.values[tessellation.grid.axis(axis)]
    return tuple(section(tessellation, **{axis: value}) for value in values)


def drop_axes(tessellation: Tessellation, *axes: str) -> Tessellation:
    """The tessellation on the other axes, for a policy that does not depend on ``axes``."""
    grid = tessellation.grid
    remaining = {n: v for n, v in zip(grid.axes, grid.values, strict=True) if n not in axes}
    table = tessellation.table[tuple(slice(None) if n in remaining else 0 for n in grid.axes)]
    # Margins may still depend on what the action does not, so none are kept.
    name = tessellation.name
    t = np.ascontiguousarray(table)
    return build_tessellation(
        grid.with_axes(remaining), tessellation.actions, tessellation.action_name, t, None, name
    )


def _cut_subgrid(whole: Tessellation, grid: StateGrid, index: tuple, name: str) -> Tessellation:
    margin = None if whole.margin is None else whole.margin[index]
    table = np.ascontiguousarray(whole.table[index])
    return build_tessellation(grid, whole.actions, whole.action_name, table, margin, name)


def _read_layers(grid: StateGrid, rim: Rim) -> list[tuple[int, int]]:
    if not isinstance(rim, Mapping):
        return [_read_layer_pair("the rim", rim)] * grid.ndim
    layers = [(0, 0)] * grid.ndim
    for name, layer in rim.items():
        layers[grid.axis(name)] = _read_layer_pair(name, layer)
    return layers


def _read_layer_pair(location: str, layer: Any) -> tuple[int, int]:
    pair = layer if isinstance(layer, tuple) else (layer, layer)
    if len(pair) != 2 or not all(isinstance(n, int | np.integer) for n in pair):
        requirement = "layers of a rim are a whole number, or a pair of them (low end, high end)"
        raise ArgumentError(requirement, location=location, value=f"has {layer!r}")
    return int(pair[0]), int(pair[1])


def _find_position(grid: StateGrid, name: str, value: object) -> int:
    position = grid.locate(grid.axis(name), np.asarray(value))
    if position.ndim or position < 0:
        raise ArgumentError(f"{name}={value} is not on the grid")
    return int(position)
