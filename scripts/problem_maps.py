"""Draw a map of every problem for the problem gallery.

python scripts/problem_maps.py [--out FOLDER] [--form svg] [names ...]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

import tessella as ts
from tessella.paper.figures import FIGURE_STYLE
from tessella.paper.report import render_image
from tessella.plot import policy_map
from tessella.problems.energy import MONTHS
from tessella.problems.grid_worlds import LAKE_MAPS
from tessella.tessellation import Tessellation, section
from tessella.tessellation.tessellate import build_tessellation

MAP_INCHES = 2.25  # inches of one map
TOLERANCE = 1e-6
LABEL_BOX = {"boxstyle": "circle,pad=0.2", "facecolor": "white", "edgecolor": "none", "alpha": 0.75}


def solve_map(name: str, title: str = "", component: str | None = None, **settings: Any):
    """The tessellation of an optimal policy, on the actions that it uses."""
    mdp = ts.problem(name).build(**settings)
    solution = ts.solve(mdp, tol=TOLERANCE)
    return keep_used_actions(ts.tessellate(solution, component=component), title)


def keep_used_actions(
    t: Tessellation, title: str = "", axes: dict | None = None, table: Any = None
):
    """The same without actions that no state gets, under another title or on other axes."""
    table = t.table if table is None else table
    used, places = np.unique(table, return_inverse=True)
    grid = ts.StateGrid(axes or dict(zip(t.grid.axes, t.grid.values, strict=True)))
    actions = tuple(t.actions[k] for k in used)
    places = places.reshape(grid.shape).astype(np.int32)
    return build_tessellation(grid, actions, t.action_name, places, None, title)


def cut_slice(t: Tessellation, title: str, **fixed: Any) -> Tessellation:
    """A slice, under its own title."""
    part = section(t, **fixed)
    return build_tessellation(part.grid, part.actions, part.action_name, part.table, None, title)


def crop(t: Tessellation, **ranges: tuple[float, float]) -> Tessellation:
    """The part between two values of some axes."""
    axes, table = {}, t.table
    for k, (name, values) in enumerate(zip(t.grid.axes, t.grid.values, strict=True)):
        low, high = ranges.get(name, (values[0], values[-1]))
        inside = np.flatnonzero((values >= low) & (values <= high))
        axes[name], table = values[inside], np.take(table, inside, axis=k)
    return build_tessellation(ts.StateGrid(axes), t.actions, t.action_name, table, None, t.name)


def draw_row(
    maps: Iterable[Tessellation],
    height: float = MAP_INCHES,
    width: float = MAP_INCHES,
    columns: int = 4,
) -> Figure:
    """Maps side by side, the last with the legend."""
    maps = list(maps)
    n_columns = min(columns, len(maps))
    n_rows = -(-len(maps) // n_columns)
    size = (n_columns * width + 1.0, n_rows * height)
    figure = Figure(figsize=size, layout="constrained")
    places = figure.subplots(n_rows, n_columns, squeeze=False).ravel()
    for place, t in zip(places, maps, strict=False):
        policy_map(place, t, legend=t is maps[n_columns - 1])
        if place is not places[0] and t.grid.ndim == 2:
            place.set_ylabel("")
        if t.grid.ndim == 1 and t is not maps[-1]:
            place.set_xlabel("")
    for place in places[len(maps) :]:
        place.axis("off")
    return figure


def perishable() -> Figure:
    both = {"FIFO": "oldest units first", "LIFO": "newest units first"}
    return draw_row(
        unite_actions(solve_map("perishable", text, issuing=kind) for kind, text in both.items())
    )


def unite_actions(maps: Iterable[Tessellation]) -> list[Tessellation]:
    """Maps of quantities on the union of their actions, so that colours mean the same."""
    maps = list(maps)
    actions = tuple(sorted({action for t in maps for action in t.actions}))
    place = [np.array([actions.index(action) for action in t.actions]) for t in maps]
    return [
        build_tessellation(
            t.grid, actions, t.action_name, p[t.table].astype(np.int32), None, t.name
        )
        for t, p in zip(maps, place, strict=True)
    ]


def platelets() -> Figure:
    t = solve_map("platelets")
    days = [cut_slice(t, day, weekday=day) for day in ("Mon", "Fri", "Sat")]
    return draw_row(crop(day, life1=(0, 9), life2=(0, 9)) for day in days)


def two_products() -> Figure:
    a, b = (solve_map("two_products", component=f"order_{part}") for part in "ab")
    maps = [
        cut_slice(a, "order of a, no b in stock", b2=0, b1=0),
        cut_slice(b, "order of b, no a in stock", a2=0, a1=0),
        cut_slice(a, "order of a, none on its last day", a1=0, b1=0),
    ]
    figure = draw_row(
        build_tessellation(t.grid, t.actions, "order", t.table, None, t.name)
        for t in unite_actions(maps)
    )
    for place, t in zip(figure.axes, maps, strict=False):
        place.set_ylabel(t.grid.axes[1])
    return figure


def lost_sales() -> Figure:
    laws = ("Poisson", "geometric")
    return draw_row(
        unite_actions(solve_map("lost_sales", f"{law} demand", demand=law) for law in laws)
    )


def dual_sourcing() -> Figure:
    figure = Figure(figsize=(2 * MAP_INCHES + 2.0, MAP_INCHES), layout="constrained")
    for place, part in zip(figure.subplots(1, 2), ("express", "regular"), strict=True):
        t = solve_map("dual_sourcing", f"{part} order", component=part)
        policy_map(place, keep_used_actions(crop(t, stock=(0, 10)), t.name))
    return figure


def machine_replacement() -> Figure:
    prices = (5.0, 40.0, 300.0)
    maps = [solve_map("machine_replacement", f"price {price:g}", price=price) for price in prices]
    return draw_row(maps, height=0.75, width=2 * MAP_INCHES, columns=1)


def maintenance() -> Figure:
    return draw_row(
        [solve_map("maintenance", "0 run, 1 service, 2 overhaul")], width=2 * MAP_INCHES
    )


def naor_admission() -> Figure:
    rates = (0.3, 0.9, 1.5)
    maps = [
        solve_map(
            "naor_admission", f"{rate:g} arrivals for each service", arrivals=rate, longest=15
        )
        for rate in rates
    ]
    return draw_row(maps, height=0.75, width=2 * MAP_INCHES, columns=1)


def two_class_admission() -> Figure:
    slow = solve_map("two_class_admission", "second class stays longer", second_service=0.5)
    return draw_row([solve_map("two_class_admission", "equal service"), slow])


def two_class_server() -> Figure:
    dear = solve_map("two_class_server", "first class costs twice as much", first_cost=2.0)
    return draw_row([solve_map("two_class_server", "equal costs"), dear])


def parallel_queues() -> Figure:
    equal = solve_map("parallel_queues", "equal servers", second_service=1.0, arrivals=1.6)
    return draw_row([equal, solve_map("parallel_queues", "first server twice as fast")])


def hydro_reservoir() -> Figure:
    t = solve_map("hydro_reservoir")
    actions = tuple(round(float(action), 1) for action in t.actions)
    t = build_tessellation(t.grid, actions, "release", t.table, None, "")
    figure = draw_row([t], width=2 * MAP_INCHES)
    figure.axes[0].set_yticks(range(12), MONTHS)
    return figure


def battery_arbitrage() -> Figure:
    return draw_row(
        [solve_map("battery_arbitrage", "bought (above 0) or sold")], width=1.6 * MAP_INCHES
    )


def traffic_intersection() -> Figure:
    t = solve_map("traffic_intersection")
    return draw_row(
        cut_slice(t, f"green {side}, red for {wait}", green=side, wait=wait)
        for side in ("left", "right")
        for wait in (0, 1, 2, 4)
    )


def system_administrator() -> Figure:
    t = solve_map("system_administrator")
    bits = {n: [format(k, f"0{n}b") for k in range(2**n)] for n in (3, 4)}
    axes = {"lower": bits[4], "upper": bits[3]}
    figure = draw_row(
        [keep_used_actions(t, "", axes, t.table.reshape(8, 16).T)], height=2.8, width=5.0
    )
    (place,) = figure.axes[:1]
    place.set_xlabel("computers 3 to 6 on")
    place.set_ylabel("computers 0 to 2 on")
    place.set_xticks(range(16), bits[4], rotation=60)
    place.set_yticks(range(8), bits[3])
    return figure


def navigation() -> Figure:
    t = solve_map("navigation")
    return draw_row(
        (cut_slice(t, f"z = {z}", z=z) for z in range(5)), columns=5, width=1.8, height=1.9
    )


def frozen_lake() -> Figure:
    maps = [solve_map("frozen_lake", size.replace("x", " x "), map=size) for size in LAKE_MAPS]
    figure = draw_row(maps, height=2.5)
    for place, size in zip(figure.axes, LAKE_MAPS, strict=False):
        for y, line in enumerate(LAKE_MAPS[size].split()):
            for x, kind in enumerate(line):
                if kind != "F":
                    place.text(x, y, kind, ha="center", va="center", fontsize=6, bbox=LABEL_BOX)
    return figure


def seat_revenue() -> Figure:
    t = keep_used_actions(
        ts.tessellate(ts.solve(ts.problem("seat_revenue").build())), "fare classes open"
    )
    return draw_row([t], width=1.9 * MAP_INCHES)


FIGURES = {
    draw.__name__: draw
    for draw in (
        perishable,
        platelets,
        two_products,
        lost_sales,
        dual_sourcing,
        machine_replacement,
        maintenance,
        naor_admission,
        two_class_admission,
        two_class_server,
        parallel_queues,
        hydro_reservoir,
        battery_arbitrage,
        traffic_intersection,
        system_administrator,
        navigation,
        frozen_lake,
        seat_revenue,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "images")
    parser.add_argument("--form", choices=("svg", "png"), default="svg")
    parser.add_argument("names", nargs="*", help="which problems; all by default")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(FIGURE_STYLE):
        for name in options.names or FIGURES:
            path = options.out / f"map-{name.replace('_', '-')}.{options.form}"
            path.write_bytes(render_image(FIGURES[name](), options.form))
            print(path, flush=True)


if __name__ == "__main__":
    main()
