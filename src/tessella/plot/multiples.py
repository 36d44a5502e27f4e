"""Small multiples: many policy maps side by side, with one legend for all that share actions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from matplotlib.axes import Axes

from tessella.errors import ModelError
from tessella.plot.policy import action_legend, policy_map
from tessella.tessellation import Tessellation


def small_multiples(
    axes: Iterable[Axes], tessellations: Sequence[Tessellation], *, legend: bool = True
) -> list[Axes]:
    """Draw one map on each of the axes, in order; axes left over are switched off.

    The first axes left over carries the legends, one for each set of actions; without any, the last
    map carries them at its side. Slices of a higher-dimensional grid come from `sections`.
    """
    places = list(axes)
    if len(places) < len(tessellations):
        raise ModelError(f"{len(tessellations)} maps need as many axes; got {len(places)}")
    used, spare = places[: len(tessellations)], places[len(tessellations) :]
    for place, tessellation in zip(used, tessellations, strict=True):
        policy_map(place, tessellation, legend=False)
    for place in spare:
        place.axis("off")
    if legend and tessellations:
        kinds = {(t.actions, t.action_name): t for t in tessellations}
        legends(spare[0] if spare else used[-1], list(kinds.values()), beside=not spare)
    return used


def legends(axes: Axes, tessellations: Sequence[Tessellation], *, beside: bool = False) -> Axes:
    """Draw the legends of several tessellations from left to right, on the axes or beside them."""
    left = 1.04 if beside else 0.0
    for k, tessellation in enumerate(tessellations):
        action_legend(axes, tessellation, bbox_to_anchor=(left + 0.45 * k, 1.0))
    return axes
