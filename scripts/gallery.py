"""Compress every problem of the zoo, draw the rule over its map, and write docs/gallery.md.

python scripts/gallery.py [--seconds 60] [names ...]   # solve, compress, draw, then write the page
python scripts/gallery.py --page                       # the page alone, from rules that are kept

Rules are kept in docs/generated/rules, so that the page is written, and checked, without a search.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

import tessella as ts
from tessella.paper.figures import FIGURE_STYLE
from tessella.paper.report import render_image
from tessella.plot.maps import rule_map
from tessella.problems.registry import ZOO_PROBLEMS
from tessella.rounding import round_up_percent
from tessella.tessellation import Tessellation, section
from tessella.tessellation.tessellate import build_tessellation

DOCS = Path(__file__).parents[1] / "docs"
RULES = DOCS / "generated" / "rules"
PROMISE = 0.005
TOLERANCE = 1e-8
NOTHING = 1e-6  # of the optimum: what is left of a loss is the width of its enclosure
LITTLE = 1e-4
ABOUT = ("It is of the class", "It costs ", "It loses ", "The target was")
SIZE = 4.6, 3.1  # inches of a picture
MOST_LINES = 40  # of a rule in words

# Two axes are shown; of the others, these values.
SHOWN: dict[str, dict[str, Any]] = {
    "platelets": {"weekday": "Mon"},
    "two_products": {"b2": 0, "b1": 0},
    "traffic_intersection": {"green": "left", "wait": 0},
    "navigation": {"z": 0},
}
COMPONENT = {"dual_sourcing": "regular", "two_products": "order_a"}
AS_IN_THE_ZOO = ("system_administrator", "vertical_cas")  # too many axes for a slice to show much
TOO_LARGE = {
    "vertical_cas": "Not searched for at this size: 398,034 states x 9 advisories by default, and "
    "72,962,370 states as published."
}
GROUPS = {
    "Stock": ("perishable", "platelets", "two_products", "lost_sales", "dual_sourcing"),
    "Machines": ("machine_replacement", "maintenance"),
    "Queues": ("naor_admission", "two_class_admission", "two_class_server", "parallel_queues"),
    "Water and power": ("hydro_reservoir", "battery_arbitrage"),
    "Yardsticks of small rules": (
        "traffic_intersection",
        "system_administrator",
        "navigation",
        "frozen_lake",
    ),
    "Over a horizon": ("seat_revenue", "vertical_cas"),
}
HEAD = """\
# Gallery

Every problem of [the zoo](zoo.md): the optimal policy as a map, what theory says of it, and the
smallest rule that was found within {promise:.1%} of the optimum. A colour is an action; the dashed
line is the rule. What was printed elsewhere, and how ours compares, is on [the zoo's own
page](zoo.md); how rules are found and counted is on [that of rules](rules.md).

Every one of them is opened by `tessella explore NAME`, changed by its sliders, and compressed anew.
"""


def made(name: str, seconds: float) -> tuple[ts.Solution, ts.Rule]:
    """The optimum of a problem and the smallest rule within the promise."""
    solution = ts.solve(ts.problem(name).build(), tol=TOLERANCE)
    return solution, ts.compress(solution, PROMISE, time_limit=seconds)


def picture(name: str, solution: ts.Solution, rule: ts.Rule) -> Figure:
    """The rule, dashed, over the map of the optimal policy; of more than two axes a slice."""
    figure = Figure(figsize=SIZE, layout="constrained")
    place = figure.subplots()
    part = COMPONENT.get(name)
    optimal = ts.tessellate(solution, component=part)
    drawn = ts.tessellate(solution.mdp, rule, component=part)
    fixed = SHOWN.get(name, {})
    shown, over = (section(t, **fixed) for t in (optimal, drawn))
    rule_map(place, on_used(shown), over)
    place.set_title(", ".join(f"{axis} = {value}" for axis, value in fixed.items()))
    return figure


def on_used(t: Tessellation) -> Tessellation:
    """The same without actions that no state gets, so that colours are far apart."""
    taken, places = np.unique(t.table, return_inverse=True)
    actions = tuple(_short(t.actions[k]) for k in taken)
    table = places.reshape(t.grid.shape).astype(np.int32)
    return build_tessellation(t.grid, actions, t.action_name, table, None, t.name)


def _short(action: Any) -> Any:
    """An action without the digits that only its arithmetic brought."""
    return round(float(action), 6) if isinstance(action, float | np.floating) else action


def page() -> str:
    """docs/gallery.md, from the records of the problems and the rules that are kept."""
    parts = [HEAD.format(promise=PROMISE)]
    for group, names in GROUPS.items():
        parts.append(f"## {group}\n")
        parts.extend(entry(ts.problem(name)) for name in names)
    parts.append("`python scripts/gallery.py` makes this page, its rules and its pictures.\n")
    return "\n".join(parts)


def entry(problem: ts.Problem) -> str:
    """One problem of the page: title, picture, theory, rule."""
    name = problem.name
    lines = [f"### {name}\n", f"{problem.title}.\n", f"![{problem.title}]({shot(name)})\n"]
    known = "; ".join(known.says for known in problem.theory)
    known = known[:1].upper() + known[1:]
    lines.append(f"**Theory.** {known or 'No structure is claimed'}.\n")
    if name in TOO_LARGE:
        return "\n".join([*lines, f"**Rule.** {TOO_LARGE[name]}\n"])
    rule = ts.Rule.load(RULES / f"{name}.json")
    return "\n".join([*lines, *told(rule)])


def told(rule: ts.Rule) -> list[str]:
    """What a rule stores and loses, and below it the rule in words."""
    size = "1 number" if rule.size == 1 else f"{rule.size} numbers"
    proven = ", and none of its class is smaller" if rule.proven else ""
    head = f"**Rule.** {rule.kind.capitalize()}, {size}{proven}; {lost(rule)}.\n"
    text = [line for line in rule.explain().splitlines() if not line.startswith(ABOUT)]
    if len(text) > MOST_LINES:
        text = [*text[:MOST_LINES], "..."]
    return [head, "```output", *text, "```\n"]


def lost(rule: ts.Rule) -> str:
    """What a rule loses, as a share of the optimum."""
    share = rule.facts["relative_loss"]
    if share < NOTHING:
        return "it loses nothing"
    most = "less than 0.01%" if share < LITTLE else round_up_percent(share)
    if rule.facts.get("stated_in") == "costs":
        return f"it costs {most} more than the least possible"
    return f"it loses {most} of the optimal value"


def shot(name: str) -> str:
    dashed = name.replace("_", "-")
    return f"images/{'zoo' if name in AS_IN_THE_ZOO else 'gallery'}-{dashed}.svg"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for each search")
    parser.add_argument("--page", action="store_true", help="only write the page")
    parser.add_argument("names", nargs="*", help="which problems; all by default")
    given = parser.parse_args()
    RULES.mkdir(parents=True, exist_ok=True)
    chosen = given.names or [p.name for p in ZOO_PROBLEMS if p.name not in TOO_LARGE]
    with matplotlib.rc_context(FIGURE_STYLE):
        for name in () if given.page else chosen:
            solution, rule = made(name, given.seconds)
            rule.save(RULES / f"{name}.json")
            if name not in AS_IN_THE_ZOO:
                (DOCS / shot(name)).write_bytes(render_image(picture(name, solution, rule), "svg"))
            print(name, rule.kind, rule.size, flush=True)
    if given.page or not given.names:
        (DOCS / "gallery.md").write_text(page())


if __name__ == "__main__":
    main()
