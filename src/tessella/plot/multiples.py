"""Small multiples: many policy maps side by side, with one legend for all that share actions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from matplotlib.axes import Axes

from tessella.errors import ArgumentError, require_type
from tessella.plot.policy import action_legend, policy_map
from tessella.tessellation import Tessellation


def small_multiples(
    axes: Iterable[Any] | Axes,
    tessellations: Iterable[Tessellation] | Tessellation,
    *,
    legend: bool = True,
) -> list[Axes]:
    """Draw one map on each of the axes, in order; axes left over are switched off.

    ``axes`` are those of ``figure.subplots(rows, columns)``, which are filled row by row, or any
    list of axes.

    The first axes left over carries the legends, one for each set of actions; without any, the last
    map carries them at its side. Slices of a higher-dimensional grid come from `sections`.
    """
    all_axes = list(_flatten_axes(axes))
    tessellations = _as_list(tessellations)
    if len(all_axes) < len(tessellations):
        raise ArgumentError(
            f"{len(tessellations)} maps need as many axes", value=f"got {len(all_axes)}"
        )
    used_axes = all_axes[: len(tessellations)]
    spare_axes = all_axes[len(tessellations) :]
    for one_axes, tessellation in zip(used_axes, tessellations, strict=True):
        policy_map(one_axes, tessellation, legend=False)
    for one_axes in spare_axes:
        one_axes.axis("off")
    if legend and tessellations:
        kinds = {(t.actions, t.action_name): t for t in tessellations}
        legends(
            spare_axes[0] if spare_axes else used_axes[-1],
            list(kinds.values()),
            beside=not spare_axes,
        )
    return used_axes


def _flatten_axes(axes: Any) -> Iterator[Axes]:
    if isinstance(axes, Axes):
        yield axes
    elif isinstance(axes, Iterable) and not isinstance(axes, str):
        for part in axes:
            yield from _flatten_axes(part)
    else:
        requirement = "small_multiples draws on axes, as figure.subplots(2, 3) makes them"
        raise ArgumentError(requirement, value=f"got {axes!r}")


def _as_list(tessellations: Iterable[Tessellation] | Tessellation) -> list[Tessellation]:
    alone = isinstance(tessellations, Tessellation)
    maps: list[Tessellation] = [tessellations] if alone else list(tessellations)
    for each in maps:
        require_type("a policy map", each, Tessellation)
    return maps


def legends(axes: Axes, tessellations: Sequence[Tessellation], *, beside: bool = False) -> Axes:
    """Draw the legends of several tessellations from left to right, on the axes or beside them."""
    left = 1.04 if beside else 0.0
    for k, tessellation in enumerate(tessellations):
        action_legend(axes, tessellation, bbox_to_anchor=(left + 0.45 * k, 1.0))
    return axes
