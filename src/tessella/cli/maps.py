"""The commands map, measure and tradeoff: maps and curves as text or pictures, and geometry.

In a terminal the map is made of coloured blocks, in a pipe of letters. The first axis runs to the
right, the second upwards, or downwards if the grid has a downward axis, as in pictures. Where
NO_COLOR is set there are letters in a terminal too. An axis that is too long is shown at evenly
spaced places, first and last included.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

import tessella as ts
from tessella.cli import arguments
from tessella.cli.command import Answer, as_command
from tessella.errors import ArgumentError
from tessella.files import atomic_write
from tessella.grid import StateGrid, require_product, spaced_indices

MAP_SHADES = 8  # levels of values or margins in a terminal
LEVEL_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
MAP_MAX_ROWS = 40  # rows of text
RgbColour = tuple[int, int, int]
# The level of each state; the name and the colour of each level.
ColouredLevels = tuple[NDArray[np.integer], list[str], list[RgbColour]]


@as_command(
    "map",
    example="tessella map INV-Mix\ntessella map INV-Mix -o map.svg\n"
    "tessella map lost_sales --set lead_time=3 --at due2=0",
)
@arguments.model_argument
@arguments.policy_option
@click.option(
    "--colour",
    type=click.Choice(["action", "value", "margin"]),
    default="action",
    help="What the colours show.",
)
@click.option(
    "--at", "fixed", multiple=True, metavar="AXIS=VALUE", help="Value of another axis; may repeat."
)
@click.option("--component", help="The component of the action to show.")
@click.option("-o", "--out", type=arguments.PATH, help="A picture: .svg .png .pdf.")
def map_command(model, policy, colour, fixed, component, out) -> Answer:
    """Show which action each state gets.

    The first two axes are shown; the others are at their first value, or at that of --at.
    """
    from tessella.tessellation import section

    if out is not None:
        _require_picture_format(out)
    solution, tessellation, fields = _tessellate(model, policy, component)
    grid = solution.mdp.grid
    require_product(grid, "map")
    fixed_values = _fix_other_axes(grid, arguments.parse_coordinates(grid, fixed, "--at"))
    part = section(tessellation, **fixed_values) if fixed_values else tessellation
    is_of_actions = colour == "action"
    data = fields | {
        "at": fixed_values,
        "axes": dict(zip(part.grid.axes, part.grid.values, strict=True)),
        "shows": colour,
        "actions": [str(action) for action in part.actions],
        "map": part.table if is_of_actions else _shown_values(solution, colour, fixed_values),
        "file": out,
    }
    if out is not None:
        _save_picture(part, solution, colour, fixed_values, out)
        return Answer(f"wrote {out}", data)
    return Answer(_format_map(part, tessellation, solution, colour, fixed_values), data)


@as_command(
    "measure", example="tessella measure INV-Mix\ntessella measure lost_sales --sum stock+due1"
)
@arguments.model_argument
@arguments.policy_option
@click.option("--rim", type=int, default=0, help="Outer layers of the grid to leave out.")
@click.option(
    "--sum", "sums", multiple=True, metavar="A+B", help="A sum of axes on which actions may depend."
)
@click.option("--component", help="Which component of an action to measure, of several.")
def measure_command(model, policy, rim, sums, component) -> Answer:
    """Measure the policy's geometry, and test it for structure.

    Boundary length, fragments and corners are those of the paper; structures are thresholds,
    monotone switching, base stock, (s, S) and the like, each with a counterexample where it fails.
    """
    _, tessellation, fields = _tessellate(model, policy, component)
    geometry = ts.measure(tessellation, rim=rim)
    axis_sums = [tuple(part.strip() for part in word.split("+")) for word in sums]
    structure = ts.examine(tessellation, sums=axis_sums)
    data = fields | {"geometry": geometry.figures, "structures": structure.records()}
    return Answer(f"{geometry}\n\nStructure\n{structure}", data)


@as_command(
    "tradeoff",
    example="tessella tradeoff inventory fill_rate\n"
    "tessella tradeoff inventory lost --better less --points 8 -o curve.svg",
)
@arguments.model_argument
@click.argument("measure")
@click.option("--points", type=click.IntRange(2), default=20, help="Number of levels.")
@click.option(
    "--level",
    "levels",
    type=arguments.LevelParam(),
    multiple=True,
    help="A level instead of --points, such as 0.98 or 98%; may repeat.",
)
@click.option(
    "--better",
    type=click.Choice(["more", "less"]),
    default="more",
    help="Whether more or less of the measure is better.",
)
@click.option("-o", "--out", type=arguments.PATH, help="A picture: .svg .png .pdf.")
def tradeoff_command(model, measure, points, levels, better, out) -> Answer:
    """Find what levels of a measure cost, with proven bounds.

    Without --level, the levels run from the optimum's to the best attainable.
    """
    from tessella.plot import tradeoff_plot

    if out is not None:
        _require_picture_format(out)
    mdp = model.ignore_constraints()
    objective = "cost" if mdp.sense.is_cost else "reward"
    curve = ts.tradeoff(mdp, objective, measure, points=levels or points, better=better)
    lines = [arguments.format_title(mdp), str(curve)]
    if out is not None:
        _write_picture(partial(tradeoff_plot, tradeoff=curve), mdp.name, out)
        lines.append(f"wrote {out}")
    rows = [{k: v for k, v in vars(p).items() if isinstance(v, float)} for p in curve.points]
    data = {"model": arguments.describe_model(mdp), "objective": objective, "measure": measure}
    return Answer("\n".join(lines), data | {"better": better, "points": rows, "file": out})


def _tessellate(
    model: arguments.NamedModel, policy: Path | None, component: str | None
) -> tuple[ts.Solution, ts.Tessellation, dict[str, Any]]:
    """The solution of a model, the tessellation of a policy, and both as JSON fields."""
    solution = model.solve_unconstrained()
    chosen = None if policy is None else solution.mdp.policy(policy)
    name = "optimal" if chosen is None else chosen.name
    fields = {"model": arguments.describe_model(solution.mdp), "policy": name}
    return solution, ts.tessellate(solution, chosen, component=component), fields


def _fix_other_axes(grid: StateGrid, fixed: dict[str, Any]) -> dict[str, Any]:
    """Values of all axes but two, as given or the first."""
    from tessella.mdp.state_action_space import TIME

    free = [name for name in grid.axes if name not in fixed]
    if len(free) > 2 and free[0] == TIME:
        free = [*free[1:], TIME]  # a horizon is shown time by time
    for name in free[2:]:
        fixed[name] = grid.values[grid.axis(name)].tolist()[0]
    return fixed


def _shown_values(solution: ts.Solution, colour: str, fixed_values: dict[str, Any]) -> NDArray:
    """Values or margins on the axes that are shown; costs where the model is stated in costs."""
    grid = solution.mdp.grid
    shown = solution.mdp.sense.display(solution.value) if colour == "value" else solution.margin
    index = [
        grid.values[k].tolist().index(fixed_values[name]) if name in fixed_values else slice(None)
        for k, name in enumerate(grid.axes)
    ]
    return shown[tuple(index)]


def _format_map(
    part: ts.Tessellation,
    tessellation: ts.Tessellation,
    solution: ts.Solution,
    colour: str,
    fixed_values: dict[str, Any],
) -> str:
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    width = shutil.get_terminal_size((100, 40)).columns if coloured else 120
    levels, names, colours = (
        _action_levels(part, tessellation)
        if colour == "action"
        else _value_levels(_shown_values(solution, colour, fixed_values))
    )
    drawn = format_blocks(levels, part.grid, colours, coloured=coloured, width=width)
    fixed_text = ", ".join(f"{name}={value}" for name, value in fixed_values.items())
    fixed_line = f"\nat {fixed_text} (--at for another place)" if fixed_text else ""
    head = arguments.format_title(solution.mdp) + fixed_line
    subject = part.action_name if colour == "action" else colour
    legend = [f"{_format_cell(k, colours, coloured)} {name}" for k, name in enumerate(names)]
    return "\n".join([head, "", drawn, "", f"{subject}:", *legend])


def _action_levels(part: ts.Tessellation, tessellation: ts.Tessellation) -> ColouredLevels:
    """Levels are the actions in use anywhere, by rank: the same in every part."""
    from tessella.plot.frame import action_colours

    used = sorted(
        np.unique(tessellation.table).tolist(), key=lambda action: int(part.ranks[action])
    )
    if len(used) > len(LEVEL_LETTERS):
        return _value_levels(part.ranks[part.table].astype(float))
    level = np.zeros(len(part.actions), dtype=int)
    level[used] = np.arange(len(used))
    palette = (255 * action_colours(part)(np.array(used))[:, :3]).round().astype(int)
    colours = [(r, g, b) for r, g, b in palette.tolist()]
    return level[part.table], [str(part.actions[action]) for action in used], colours


def _value_levels(values: NDArray) -> ColouredLevels:
    """Levels are equal shares of the range."""
    import matplotlib

    finite = values[np.isfinite(values)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    cuts = np.linspace(low, high, MAP_SHADES + 1)
    levels = np.clip(np.searchsorted(cuts, values, side="right") - 1, 0, MAP_SHADES - 1)
    names = [f"{a:.4g} to {b:.4g}" for a, b in pairwise(cuts)]
    shades = matplotlib.colormaps["cividis"](np.linspace(0, 1, MAP_SHADES))[:, :3]
    return levels, names, [(r, g, b) for r, g, b in (255 * shades).astype(int).tolist()]


def format_blocks(
    levels: NDArray[np.integer],
    grid: StateGrid,
    colours: Sequence[RgbColour],
    *,
    coloured: bool,
    width: int,
) -> str:
    """A map of ``levels`` (n,) or (n, m), each shown in its colour or by its letter."""
    axes = grid.picture_order(grid.axes)
    axis_order = [grid.axis(name) for name in axes]
    labels = [list(map(str, grid.values[k].tolist())) for k in axis_order]
    column_labels = labels[0]
    row_labels = labels[1] if grid.ndim == 2 else [""]
    table = levels.transpose(axis_order).reshape(len(column_labels), -1)
    margin = max(map(len, row_labels))
    cell_width = 2 if coloured else 1
    columns = spaced_indices(table.shape[0], (width - margin - 2) // cell_width)
    rows = spaced_indices(table.shape[1], MAP_MAX_ROWS)
    lines = axes[1:]
    for j in rows if axes[-1] == grid.downward_axis else rows[::-1]:
        cells = "".join(_format_cell(level, colours, coloured) for level in table[columns, j])
        lines.append(f"{row_labels[j].rjust(margin)} {cells}".rstrip())
    first = column_labels[columns[0]]
    last = column_labels[columns[-1]]
    label_width = max(cell_width * len(columns) - len(first) - len(last), 1)
    lines.append(" " * (margin + 1) + first + f" {axes[0]} ".center(label_width) + last)
    shown = zip((len(columns), len(rows)), table.shape, strict=True)
    parts = [f"{n} of {size}" for n, size in shown if n < size]
    if parts:
        lines.append(f"shown: {' and '.join(parts)} places")
    return "\n".join(lines)


def _format_cell(level: int, colours: Sequence[RgbColour], coloured: bool) -> str:
    if coloured:
        return click.style("  ", bg=colours[level % len(colours)])
    return LEVEL_LETTERS[level % len(LEVEL_LETTERS)]


def _require_picture_format(out: Path) -> None:
    """Before any work: a file type that can be drawn."""
    from matplotlib.backend_bases import FigureCanvasBase

    kinds = [f".{kind}" for kind in FigureCanvasBase.filetypes]
    if out.suffix.lower() not in kinds:
        requirement = f"a picture ends in {', '.join(sorted(kinds))}"
        raise ArgumentError(requirement, value=f"got {out.name!r}")


def _save_picture(
    part: ts.Tessellation,
    solution: ts.Solution,
    colour: str,
    fixed_values: dict[str, Any],
    out: Path,
) -> None:
    from tessella.plot import margin_map, policy_map, value_map

    if fixed_values and colour == "value":
        raise ArgumentError("a picture of values shows all of one or two axes, without --at")
    drawings = {
        "action": lambda axes: policy_map(axes, part),
        "value": lambda axes: value_map(axes, solution),
        "margin": lambda axes: margin_map(axes, part),
    }
    title = ", ".join(filter(None, [solution.mdp.name, part.name if fixed_values else ""]))
    _write_picture(drawings[colour], title, out)


def _write_picture(draw: Callable[[Any], Any], title: str, out: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    axes = figure.subplots()
    draw(axes)
    axes.set_title(title)
    with atomic_write(out) as temporary:
        figure.savefig(temporary, dpi=200)
