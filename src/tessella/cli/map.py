"""``tessella map MODEL``: the policy map, in the terminal or as a picture."""

from __future__ import annotations

import shutil
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

from tessella.cli.blocks import LETTERS, blocks, legend
from tessella.cli.command import Answer, as_command
from tessella.cli.model import about, coordinates, solution_of, takes_model, titled
from tessella.cli.policy import takes_policy

if TYPE_CHECKING:
    from tessella.grid import StateGrid
    from tessella.solvers.solution import Solution
    from tessella.tessellation import Tessellation

SHADES = 8  # levels of values or margins in a terminal


@as_command(
    "map",
    example="tessella map INV-Mix\ntessella map INV-Mix -o map.svg\n"
    "tessella map lost_sales --set lead_time=3 --at due2=0",
)
@takes_model
@takes_policy
@click.option(
    "--colour",
    type=click.Choice(["action", "value", "margin"]),
    default="action",
    show_default=True,
    help="What the colours show.",
)
@click.option(
    "--at", "fixed", multiple=True, metavar="AXIS=VALUE", help="Where other axes stand; may repeat."
)
@click.option("--component", help="Of actions that have several, the one to show.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="A picture: .svg .png .pdf.")
def command(
    model: str,
    given: tuple[str, ...],
    policy: Path | None,
    colour: str,
    fixed: tuple[str, ...],
    component: str | None,
    out: Path | None,
) -> Answer:
    """Show which action each state gets.

    The first two axes are shown; others stand at their first value unless --at says otherwise.
    """
    from tessella.tessellation import tessellate

    if out is not None:
        _refuse_other_pictures(out)
    solution = solution_of(model, given)
    mdp = solution.mdp
    chosen = None if policy is None else mdp.policy(policy)
    whole = tessellate(solution, chosen, component=component)
    where = _standing(mdp.grid, coordinates(mdp.grid, fixed, "--at"))
    part = _part(whole, where)
    data = {
        "model": about(mdp),
        "policy": "optimal" if chosen is None else chosen.name,
        "at": where,
        "axes": {n: v.tolist() for n, v in zip(part.grid.axes, part.grid.values, strict=True)},
        "shows": colour,
        "actions": [str(action) for action in part.actions],
        "map": part.table if colour == "action" else _field(solution, colour, where),
        "file": None if out is None else str(out),
    }
    if out is not None:
        _draw(part, solution, colour, where, out)
        return Answer(f"wrote {out}", data)
    return Answer(_text(part, whole, solution, colour, where), data)


def _standing(grid: StateGrid, fixed: dict[str, Any]) -> dict[str, Any]:
    """Values of all axes but two, as asked for or the first."""
    from tessella.mdp.scope import TIME

    free = [name for name in grid.axes if name not in fixed]
    if len(free) > 2 and free[0] == TIME:
        free = [*free[1:], TIME]  # a horizon is looked at time by time
    for name in free[2:]:
        fixed[name] = grid.values[grid.axis(name)].tolist()[0]
    return fixed


def _part(whole: Tessellation, where: dict[str, Any]) -> Tessellation:
    from tessella.tessellation import section

    return section(whole, **where) if where else whole


def _field(solution: Solution, colour: str, where: dict[str, Any]) -> NDArray:
    """Values or margins on the axes that are shown; costs where the model is told in costs."""
    grid = solution.mdp.grid
    sign = -1 if solution.mdp.minimise else 1
    shown = sign * solution.value if colour == "value" else solution.margin
    place = [
        grid.values[k].tolist().index(where[name]) if name in where else slice(None)
        for k, name in enumerate(grid.axes)
    ]
    return shown[tuple(place)]


def _text(
    part: Tessellation, whole: Tessellation, solution: Solution, colour: str, where: dict[str, Any]
) -> str:
    coloured = sys.stdout.isatty()
    wide = shutil.get_terminal_size((100, 40)).columns if coloured else 120
    levels, names, colours = (
        _actions(part, whole) if colour == "action" else _levels(_field(solution, colour, where))
    )
    values = [[str(v) for v in axis.tolist()] for axis in part.grid.values]
    drawn = blocks(levels, part.grid.axes, values, colours, coloured=coloured, wide=wide)
    standing = ", ".join(f"{name}={value}" for name, value in where.items())
    other = f"\nat {standing} (--at for another place)" if standing else ""
    head = titled(solution.mdp) + other
    what = part.action_name if colour == "action" else colour
    return "\n".join([head, "", drawn, "", f"{what}:", legend(names, colours, coloured=coloured)])


Legend = tuple[NDArray[np.integer], list[str], list[tuple[int, int, int]]]


def _actions(part: Tessellation, whole: Tessellation) -> Legend:
    """Levels are the actions in use anywhere, by rank: the same in every part."""
    from tessella.plot.colours import action_colours

    used = sorted(np.unique(whole.table).tolist(), key=lambda action: int(part.ranks[action]))
    if len(used) > len(LETTERS):
        return _levels(part.ranks[part.table].astype(float))
    level = np.zeros(len(part.actions), dtype=int)
    level[used] = np.arange(len(used))
    palette = (255 * action_colours(part)(np.array(used))[:, :3]).round().astype(int)
    colours = [(int(r), int(g), int(b)) for r, g, b in palette]
    return level[part.table], [str(part.actions[action]) for action in used], colours


def _levels(shown: NDArray) -> Legend:
    """Levels are equal shares of the range."""
    import matplotlib

    finite = shown[np.isfinite(shown)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    cuts = np.linspace(low, high, SHADES + 1)
    levels = np.clip(np.searchsorted(cuts, shown, side="right") - 1, 0, SHADES - 1)
    names = [f"{a:.4g} to {b:.4g}" for a, b in pairwise(cuts)]
    palette = (255 * matplotlib.colormaps["cividis"](np.linspace(0, 1, SHADES))[:, :3]).astype(int)
    return levels, names, [(int(r), int(g), int(b)) for r, g, b in palette]


def _refuse_other_pictures(out: Path) -> None:
    """Before any work: a picture in a form that can be drawn."""
    from matplotlib.backend_bases import FigureCanvasBase

    from tessella.errors import ArgumentError

    kinds = [f".{kind}" for kind in FigureCanvasBase.filetypes]
    if out.suffix.lower() not in kinds:
        rule = f"a picture ends in {', '.join(sorted(kinds))}"
        raise ArgumentError(rule, value=f"got {out.name!r}")


def _draw(
    part: Tessellation, solution: Solution, colour: str, where: dict[str, Any], out: Path
) -> None:
    from matplotlib.figure import Figure

    from tessella.errors import ArgumentError
    from tessella.files import writing
    from tessella.plot import margin_map, policy_map, value_map

    if where and colour == "value":
        raise ArgumentError("a picture of values shows all of one or two axes, without --at")
    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    if colour == "value":
        value_map(axes, solution)
    else:
        (policy_map if colour == "action" else margin_map)(axes, part)
    name = ", ".join(filter(None, [solution.mdp.name, part.name if where else ""]))
    axes.set_title(name)
    with writing(out) as file:
        figure.savefig(file, dpi=200)
