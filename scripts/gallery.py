"""Compress every published problem, draw the rule over its map, and write the problem gallery.

python scripts/gallery.py [--seconds 60] [names ...]   # solve, compress, draw, then write pages
python scripts/gallery.py --pages                      # the pages alone, from rules that are kept

It writes docs/gallery/NAME.md, the cards of docs/gallery.md and docs/generated/twenty_rules.md,
from the records of the problems, scripts/gallery_notes.md, and the rules in docs/generated/rules.
So pages are written, and checked, without a search.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from page_blocks import replace_block

import tessella as ts
from tessella.paper.figures import FIGURE_STYLE
from tessella.paper.report import render_image
from tessella.plot.maps import rule_map
from tessella.problems.registry import PUBLISHED_PROBLEMS
from tessella.rounding import format_percent_bound
from tessella.tessellation import Tessellation, section
from tessella.tessellation.tessellate import build_tessellation

DOCS = Path(__file__).parents[1] / "docs"
RULES = DOCS / "generated" / "rules"
NOTES = Path(__file__).with_name("gallery_notes.md")
TWENTY_RULES = DOCS / "generated" / "twenty_rules.md"
LOSS_LIMIT = 0.005
LOOSE_LOSS_LIMIT = 0.05
# Problems of which a shorter rule is kept too, within the loose limit.
LOOSE_PROBLEMS = ("parallel_queues", "platelets", "seat_revenue", "hydro_reservoir")
TOLERANCE = 1e-8
ZERO_LOSS_MAX_SHARE = 1e-6  # of the optimum: what is left of a loss is the width of its enclosure
SMALL_LOSS_MAX_SHARE = 1e-4
OMITTED_PREFIXES = ("Rule type:", "It is optimal", "Guaranteed ", "Requested limit:")
PICTURE_INCHES = 4.6, 3.1  # inches of a picture
RULE_MAX_LINES = 40  # of a rule in words
SHORT_RULE_MAX_LINES = 12  # of a rule on the page of twenty

# Two axes are shown; of the others, these values.
FIXED_VALUES: dict[str, dict[str, Any]] = {
    "platelets": {"weekday": "Mon"},
    "two_products": {"b2": 0, "b1": 0},
    "traffic_intersection": {"green": "left", "wait": 0},
    "navigation": {"z": 0},
}
COMPONENT = {"dual_sourcing": "regular", "two_products": "order_a"}
MAP_ONLY = ("system_administrator", "vertical_cas")  # too many axes for a slice to show much
TOO_LARGE = {
    "vertical_cas": "No rule was searched for: the model has 398,034 states and 9 advisories by "
    "default, and 72,962,370 states as published."
}
GROUPS = {
    "Inventory": ("perishable", "platelets", "two_products", "lost_sales", "dual_sourcing"),
    "Maintenance": ("machine_replacement", "maintenance"),
    "Queues": ("naor_admission", "two_class_admission", "two_class_server", "parallel_queues"),
    "Water and power": ("hydro_reservoir", "battery_arbitrage"),
    "Benchmarks of small rules": (
        "traffic_intersection",
        "system_administrator",
        "navigation",
        "frozen_lake",
    ),
    "Finite horizons": ("seat_revenue", "vertical_cas"),
}
RULE_CAPTION = "The optimal decision in each state, and a rule within 0.5 % (dashed)."
PROGRAM = """\
```python
import tessella as ts

solution = ts.solve(ts.problem("{name}").build())
print(solution)
```
"""
COMMANDS = """\
```
tessella show {name}                    # settings, axes and theory
tessella explore {name}                 # change settings in the browser
tessella compress {name} --loss 0.5%    # the smallest rule within this loss
```
"""


def get_loose_path(name: str) -> Path:
    """The rule of a problem within the loose limit."""
    return RULES / f"{name}-5-percent.json"


def draw_picture(name: str, solution: ts.Solution, rule: ts.Rule) -> Figure:
    """The rule, dashed, over the map of the optimal policy; of more than two axes a slice."""
    figure = Figure(figsize=PICTURE_INCHES, layout="constrained")
    axes = figure.subplots()
    component = COMPONENT.get(name)
    optimal = ts.tessellate(solution, component=component)
    rule_tessellation = ts.tessellate(solution.mdp, rule, component=component)
    fixed = FIXED_VALUES.get(name, {})
    policy_section, rule_section = (section(t, **fixed) for t in (optimal, rule_tessellation))
    rule_map(axes, keep_used_actions(policy_section), rule_section)
    axes.set_title(", ".join(f"{axis} = {value}" for axis, value in fixed.items()))
    return figure


def keep_used_actions(t: Tessellation) -> Tessellation:
    """The same without actions that no state gets, so that colours are far apart."""
    used, positions = np.unique(t.table, return_inverse=True)
    actions = tuple(_round_action(t.actions[k]) for k in used)
    table = positions.reshape(t.grid.shape).astype(np.int32)
    return build_tessellation(t.grid, actions, t.action_name, table, None, t.name)


def _round_action(action: Any) -> Any:
    """An action without the digits that only its arithmetic brought."""
    return round(float(action), 6) if isinstance(action, float | np.floating) else action


def render_cards() -> str:
    """The list of problems on docs/gallery.md."""
    lines = []
    for group, names in GROUPS.items():
        lines += [f"## {group}", "", "{.cards}"]
        for name in names:
            title = ts.problem(name).title
            draw_picture = f"[![{name}]({get_picture_path(name)})](gallery/{name}.md)"
            lines.append(f"- {draw_picture} [`{name}`](gallery/{name}.md): {title}")
        lines.append("")
    return "\n".join(lines)


def render_page(name: str) -> str:
    """docs/gallery/NAME.md: the map, the rule, published results, code and model file."""
    problem = ts.problem(name)
    caption, published = read_notes()[name]
    lines = [f"# {problem.title}", ""]
    if name not in TOO_LARGE:
        lines += [f"![{problem.title}](../{get_picture_path(name)})", "", f"*{RULE_CAPTION}*", ""]
    lines += ["## The rule", "", *describe_rule(name), "## The model", "", *describe_axes(problem)]
    lines += [f"![How the policy depends on settings](../images/map-{to_file_name(name)}.svg)", ""]
    lines += [f"*{caption}*", "", *describe_theory(problem)]
    if published:
        lines += ["## Published results", "", published, ""]
    lines += ["## Use it", "", PROGRAM.format(name=name), COMMANDS.format(name=name)]
    lines += ["As a [model file](../model-files.md):", "", "```toml"]
    lines += [ts.write_model(name).rstrip(), "```", ""]
    return "\n".join(lines)


def read_notes() -> dict[str, tuple[str, str]]:
    """For each problem a caption, and what is known from elsewhere."""
    notes = {}
    for part in NOTES.read_text().split("\n## ")[1:]:
        name, _, body = part.partition("\n")
        caption, _, published = body.strip().partition("\n\n")
        notes[name] = (" ".join(caption.split()), published.strip())
    return notes


def describe_axes(problem: ts.Problem) -> list[str]:
    """The size of the model, and what its coordinates mean."""
    return [f"`{problem.build()}`", "", *list_axes(problem)]


def list_axes(problem: ts.Problem) -> list[str]:
    """What the coordinates of a problem mean."""
    return [*(f"- `{axis}`: {text}" for axis, text in problem.axes.items()), ""]


def describe_theory(problem: ts.Problem) -> list[str]:
    """What is proven about the optimal policy."""
    statements = "; ".join(theory.says for theory in problem.theory)
    return [f"**Theory.** {statements[:1].upper()}{statements[1:]}.", ""] if statements else []


def describe_rule(name: str) -> list[str]:
    """The smallest rule that was found, or why none was searched for."""
    if name in TOO_LARGE:
        return [TOO_LARGE[name], ""]
    return put_in_words(ts.Rule.load(RULES / f"{name}.json"))


def render_twenty_rules() -> str:
    """docs/generated/twenty_rules.md: the kept rules of few lines, with what words mean."""
    lines = ["# Twenty rules in words", ""]
    lines += [
        "Made by `scripts/gallery.py --pages`: the rules of the [gallery](../gallery.md) that"
    ]
    lines += [f"take at most {SHORT_RULE_MAX_LINES} lines. Each is within 0.5 % of the optimum, or"]
    lines += ["within 5 % where its title says so.", ""]
    for name, rule in load_rules():
        if len(write_sentences(rule)) <= SHORT_RULE_MAX_LINES:
            problem = ts.problem(name)
            limit = " (within 5 %)" if rule.facts["loss_limit"] == LOOSE_LOSS_LIMIT else ""
            lines += [f"## {problem.title}{limit}", "", f"[`{name}`](../gallery/{name}.md)", ""]
            lines += [*list_axes(problem), *put_in_words(rule)]
    return "\n".join(lines)


def load_rules() -> list[tuple[str, ts.Rule]]:
    """All kept rules with the names of their problems, in the order of the cards."""
    names = [name for group in GROUPS.values() for name in group]
    paths = [(n, path) for n in names for path in (RULES / f"{n}.json", get_loose_path(n))]
    return [(name, ts.Rule.load(path)) for name, path in paths if path.exists()]


def put_in_words(rule: ts.Rule) -> list[str]:
    """What a rule stores and loses, and below it the rule in words."""
    size = "1 parameter" if rule.size == 1 else f"{rule.size} parameters"
    proven = " (proven minimal in its class)" if rule.proven else ""
    head = f"{rule.kind.capitalize()}, {size}{proven}; {describe_loss(rule)}.\n"
    text = write_sentences(rule)
    if len(text) > RULE_MAX_LINES:
        text = [*text[:RULE_MAX_LINES], "..."]
    return [head, "```output", *text, "```\n"]


def write_sentences(rule: ts.Rule) -> list[str]:
    """A rule in words, without what is known about it."""
    lines = rule.explain().splitlines()
    return [line for line in lines if not line.startswith(OMITTED_PREFIXES)]


def describe_loss(rule: ts.Rule) -> str:
    """What a rule loses, as a share of the optimum."""
    share = rule.facts["relative_loss"]
    if share < ZERO_LOSS_MAX_SHARE:
        return "it loses nothing"
    bound = "less than 0.01%" if share < SMALL_LOSS_MAX_SHARE else format_percent_bound(share)
    if rule.facts.get("stated_in") == "costs":
        return f"it costs {bound} more than the least possible"
    return f"it loses {bound} of the optimal value"


def get_picture_path(name: str) -> str:
    """The picture on the card of a problem."""
    return f"images/{'map' if name in MAP_ONLY else 'gallery'}-{to_file_name(name)}.svg"


def to_file_name(name: str) -> str:
    return name.replace("_", "-")


def write_pages() -> None:
    index = DOCS / "gallery.md"
    index.write_text(replace_block(index.read_text(), "problems", render_cards()))
    for problem in PUBLISHED_PROBLEMS:
        (DOCS / "gallery" / f"{problem.name}.md").write_text(render_page(problem.name))
    TWENTY_RULES.write_text(render_twenty_rules())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="for each search")
    parser.add_argument("--pages", action="store_true", help="only write the pages")
    parser.add_argument("names", nargs="*", help="which problems; all by default")
    options = parser.parse_args()
    RULES.mkdir(parents=True, exist_ok=True)
    chosen = options.names or [p.name for p in PUBLISHED_PROBLEMS if p.name not in TOO_LARGE]
    with matplotlib.rc_context(FIGURE_STYLE):
        for name in () if options.pages else chosen:
            solution = ts.solve(ts.problem(name).build(), tol=TOLERANCE)
            rule = ts.compress(solution, LOSS_LIMIT, time_limit=options.seconds)
            rule.save(RULES / f"{name}.json")
            if name in LOOSE_PROBLEMS:
                loose = ts.compress(solution, LOOSE_LOSS_LIMIT, time_limit=options.seconds)
                loose.save(get_loose_path(name))
            if name not in MAP_ONLY:
                (DOCS / get_picture_path(name)).write_bytes(
                    render_image(draw_picture(name, solution, rule), "svg")
                )
            print(name, rule.kind, rule.size, flush=True)
    write_pages()


if __name__ == "__main__":
    main()
