"""Write the table of docs/results/speed.md from docs/generated/rivals.json.

python scripts/speed_table.py    # after `python benchmarks/rivals`
"""

from __future__ import annotations

import json
from pathlib import Path

from page_blocks import replace_block

DOCS = Path(__file__).parents[1] / "docs"
FIGURES = DOCS / "generated" / "rivals.json"
PAGE = DOCS / "results" / "speed.md"
BLOCK_NAME = "comparison"
OURS = "tessella"
ERROR_MAX = 1.01e-6  # of a value: the accuracy that every solver was given
LEVEL_MAX_RATIO = 1.1  # two times that differ by less count as level
TITLES = {
    "quantecon": "QuantEcon",
    "quantecon_pi": "QuantEcon, policy iteration",
    "stormpy": "Storm",
    "mdpsolver": "mdpsolver",
    "mdpax": "mdpax",
    "pymdptoolbox": "pymdptoolbox",
}
# At least one model of every group of the comparison, and both ends of each.
MODELS = {
    "inventory 501,501, 0.95": "inventory, 501,501 states",
    "inventory 125,751, 0.95": "inventory, 125,751 states",
    "inventory 20,301, 0.95": "inventory, 20,301 states",
    "inventory 825, average": "inventory, 825 states, average cost",
    "inventory 825, 0.9999": "inventory, 825 states, discount 0.9999",
    "hydro_reservoir 972, 0.99": "hydro reservoir, 972 states",
    "platelets 3,087, 0.95": "platelets, 3,087 states",
    "random 100,000 x 4 x 8, 0.99": "random table, 100,000 states",
    "random 200 x 4 x 10, 0.95": "random table, 200 states",
    "map 300 x 300": "slippery map, 90,000 states",
    "map 10 x 10": "slippery map, 100 states",
    "lost_sales 152, average": "lost sales, 152 states, average cost",
}
LARGEST_MODEL = "inventory 501,501, 0.95"


def render_block(results: dict) -> str:
    """The table, and the largest model in a sentence."""
    figures = results[LARGEST_MODEL]["figures"]
    ours = figures[OURS]
    others = [f for name, f in figures.items() if name != OURS and "failed" not in f]
    theirs = min(others, key=total_seconds)
    return (
        f"{render_table(results)}\n\n"
        f"With building, by the clock, {results[LARGEST_MODEL]['states']:,} states of inventory "
        f"take {total_seconds(ours):.2g} s; the\nfastest other package takes "
        f"{total_seconds(theirs):.2g} s and {theirs['memory'] / ours['memory']:.0f} times as much "
        f"memory. ({len(results)} models in all.)"
    )


def total_seconds(figures: dict) -> float:
    return figures["build_s"] + figures["solve_s"]


def render_table(results: dict) -> str:
    """One line for each model, best result first."""
    rows = [make_row(title, results[name]["figures"]) for name, title in MODELS.items()]
    rows.sort(key=lambda row: -row[0])
    lines = [
        "| model | tessella, ms | fastest other, ms | tessella is | memory, MB: ours, theirs |",
        "| --- | ---: | ---: | --- | ---: |",
    ]
    return "\n".join([*lines, *(line for _, line in rows)])


def make_row(title: str, figures: dict) -> tuple[float, str]:
    """The ratio of the fastest other package's time to ours, and the line that states it."""
    ours = figures[OURS]
    others = {
        name: f
        for name, f in figures.items()
        if name != OURS and "failed" not in f and f["error"] <= ERROR_MAX
    }
    best = min(others, key=lambda name: others[name]["solve_cpu"])
    theirs = others[best]
    ratio = theirs["solve_cpu"] / ours["solve_cpu"]
    memory = f"{ours['memory'] / 1e6:,.0f}, {theirs['memory'] / 1e6:,.0f}"
    cells = (
        title,
        format_ms(ours["solve_cpu"]),
        f"{format_ms(theirs['solve_cpu'])} ({TITLES[best]})",
        describe_ratio(ratio),
        memory,
    )
    return ratio, f"| {' | '.join(cells)} |"


def format_ms(seconds: float) -> str:
    ms = 1e3 * seconds
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.2g}"


def describe_ratio(ratio: float) -> str:
    if 1 / LEVEL_MAX_RATIO <= ratio <= LEVEL_MAX_RATIO:
        return "level"
    if ratio > 1:
        return f"{ratio:.2g} times faster"
    return f"{1 / ratio:.2g} times **slower**"


def main() -> None:
    block = render_block(json.loads(FIGURES.read_text()))
    PAGE.write_text(replace_block(PAGE.read_text(), BLOCK_NAME, block))


if __name__ == "__main__":
    main()
