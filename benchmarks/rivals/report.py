"""The page and the plots of the comparison, from its figures alone."""

from __future__ import annotations

import json
import os
import platform
import re
from datetime import date
from importlib.metadata import version
from itertools import groupby
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from contest import memory
from environments import DTCONTROL, Rival
from faults import FAULTS
from trees import Beside

COLOURS = ("#0072b2", "#d55e00", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#000000")
MARKS = "osD^vPX"
MEMORY = "peak memory, MB"
OURS = "tessella"
AHEAD = 1.1  # a rival this much quicker is named
KEPT = 1.01e-6  # errors up to this are within what was asked
WHY = """\
What a solve of a few hundred states takes is Python's own overhead: some hundred to some thousand
calls of NumPy and SciPy, those for the bound, the margins and the ties included, which no rival
computes. Storm, mdpsolver and QuantEcon sweep in compiled loops, which a small average is done with
before ours has factorised the system of its first policy. On slippery maps policies improve by a
step at a time from the goal, so that ours takes 4 to 14 rounds of sweeps and a sparse
factorisation each; of the largest map a third is one direct solve."""
HEAD = """\
# Rivals, side by side

Made by `python benchmarks/rivals`, and by nothing else: each contender in an environment and a
process of its own, the same models, `max|V - V*| <= 1e-6` asked of all (of averages, the same of
the gain), in turn, the best of the rounds. Times are processor milliseconds of all threads, unless
they are said to be of the clock. A contender without an answer within its processor seconds (15 for
models of less than 1,000 states, 25 below 50,000, 35 below 200,000, 120 beyond) or within its
memory (10 GB) is not asked for larger models of that group. Storm is given the discount as a chance
to end; mdpax takes functions, not rows; QuantEcon knows no averages; pymdptoolbox no feasible sets.
How our own cost grows with states, actions, noise and axes is in [growth](generated/growth.md).
"""
GROUPS = {
    "structured": "Structured models: inventory at five sizes, discount 0.95",
    "discounts": "Discounts: inventory of 825 states",
    "random": "Random sparse rows: states x actions x successors, discount",
    "maps": "Slippery maps with holes, discount 0.99",
    "published": "Published models of the zoo",
    "averages": "The average per period: inventory",
    "published averages": "The average per period: published models",
}
COLUMNS = """\
*build* is from the model's settings to what the contender solves, the making of its arrays included
(models of the zoo are read from a file of arrays; tessella builds them from their settings);
*first* is the first solve, which may compile, *solve* a later one, both by the clock; *cpu* is the
processor time of that. *MB* is the peak above what the process held after its imports, the
compiler's own included; *again* that of building and solving once more. *error* is against the
optimum to twelve digits, *wrong* counts states with another action than the one that is proven
optimal, *other* those with another action than ours, ties included.
"""


def write(
    out: Path,
    contenders: list[Rival],
    results: dict,
    said: dict,
    beside: list[Beside],
    missing: dict[str, str],
    quick: bool = False,
) -> None:
    """``rivals.md``, its plots and its figures."""
    (out / "generated").mkdir(parents=True, exist_ok=True)
    (out / "images").mkdir(parents=True, exist_ok=True)
    (out / "generated" / "rivals.json").write_text(json.dumps(results, indent=1) + "\n")
    plot(out / "images" / "rivals.svg", contenders, results)
    page = _page(contenders, results, said, beside, missing)
    if quick:
        page.insert(1, "**A quick run, to try the script: small models only.**\n")
    (out / "rivals.md").write_text("\n".join(page) + "\n")


def _page(
    contenders: list[Rival],
    results: dict,
    said: dict,
    beside: list[Beside],
    missing: dict[str, str],
) -> list[str]:
    lines = [HEAD, _machine(contenders), ""]
    lines += [f"{title} took no part: it {why}.\n" for title, why in missing.items()]
    lines += ["## In short", "", *_short(contenders, results), ""]
    lines += [
        "![Time and memory against size, and time against the discount](images/rivals.svg)",
        "",
    ]
    for group, members in groupby(results.items(), lambda item: item[1]["group"]):
        lines += [f"## {GROUPS.get(group, group)}", "", *_group(contenders, dict(members)), ""]
    lines += ["## Nine inputs", "", *_faults(contenders, said), ""]
    lines += ["## Trees: dtControl", "", *_trees(beside), ""]
    lines += ["## All figures", "", COLUMNS]
    for name, row in results.items():
        lines += [f"### {name}", "", *_table(contenders, row["figures"]), ""]
    return lines[:-1]


def _machine(contenders: list[Rival]) -> str:
    """Date, kind of machine and versions; nothing that names a machine."""
    told = Path("/proc/cpuinfo")
    kinds = re.findall(r"model name\s*: (.*)", told.read_text()) if told.exists() else []
    packages = [p for r in (*contenders, DTCONTROL) for p in r.packages if "==" in p]
    own = ", ".join(f"{name} {version(name)}" for name in ("tessella", "jax", "numpy", "scipy"))
    return (
        f"{date.today()}, {(kinds or [platform.machine()])[0]}, {os.cpu_count()} cores, "
        f"{memory() / 2**30:.0f} GiB, Python {platform.python_version()}; {own}; "
        f"{', '.join(packages).replace('==', ' ')}."
    )


def answered(figures: dict) -> bool:
    return "failed" not in figures


def _short(contenders: list[Rival], results: dict) -> list[str]:
    """Where a rival is quicker than tessella, by how much, and how far ahead we are at the end."""
    titles = {r.name: r.title for r in contenders}
    found = []
    for model, row in results.items():
        ours = row["figures"][OURS]
        for name, theirs in row["figures"].items():
            if name == OURS or not answered(theirs) or not answered(ours):
                continue
            if theirs["error"] <= KEPT and ours["solve_cpu"] > AHEAD * theirs["solve_cpu"]:
                found.append(f"- {model}: {titles[name]} {_beaten(theirs, ours)}.")
    head = (
        "Where a rival, within the accuracy that was asked for, solves more than a tenth quicker "
        "than `ts.solve`, by processor time:"
    )
    none = "No rival solves a model of the set more than a tenth quicker than `ts.solve`."
    told = [head, "", *found, "", WHY] if found else [none]
    return [*told, "", *_largest(contenders, results)]


def _beaten(theirs: dict, ours: dict) -> str:
    """How far a rival is ahead, with building too."""
    ratio = ours["solve_cpu"] / theirs["solve_cpu"]
    whole = [1e3 * (f["build_cpu"] + f["solve_cpu"]) for f in (theirs, ours)]
    return (
        f"in {1e3 * theirs['solve_cpu']:.3g} ms, tessella in {1e3 * ours['solve_cpu']:.3g} ms "
        f"({ratio:.2f} times); with building {whole[0]:.3g} and {whole[1]:.3g} ms"
    )


def _largest(contenders: list[Rival], results: dict) -> list[str]:
    """The largest structured model that a rival solves too."""
    rows = [row for row in results.values() if row["group"] == "structured"]
    for row in reversed(rows):
        figures = row["figures"]
        rivals = [
            r
            for r in contenders
            if r.name != OURS and answered(figures.get(r.name, {"failed": ""}))
        ]
        if not rivals or not answered(figures[OURS]):
            continue
        ours, best = figures[OURS], min(rivals, key=lambda r: _whole(figures[r.name]))
        theirs = figures[best.name]
        held = theirs.get("warm_memory", theirs["memory"])
        return [
            f"Structured, {row['states']:,} states, build and solve by the clock: "
            f"{_whole(ours):.2g} s against {_whole(theirs):.3g} s of the quickest rival "
            f"({best.title}), **{_whole(theirs) / _whole(ours):.0f} times**; peak memory "
            f"{ours['memory'] / 1e6:,.0f} MB with the compiler's, "
            f"{ours.get('warm_memory', ours['memory']) / 1e6:,.0f} MB once compiled, against "
            f"{held / 1e6:,.0f} MB: **{theirs['memory'] / ours['memory']:.0f} and "
            f"{held / ours.get('warm_memory', ours['memory']):.0f} times** less."
        ]
    return []


def _whole(figures: dict) -> float:
    return figures["build_s"] + figures["solve_s"]


def _group(contenders: list[Rival], rows: dict) -> list[str]:
    """Processor time of a solve, one line for each model; the quickest in bold."""
    shown = [r for r in contenders if any(r.name in row["figures"] for row in rows.values())]
    lines = [
        "| cpu ms | " + " | ".join(r.title for r in shown) + " |",
        "| --- |" + " ---: |" * len(shown),
    ]
    for name, row in rows.items():
        figures = row["figures"]
        known = [f["solve_cpu"] for f in figures.values() if answered(f)]
        cells = []
        for rival in shown:
            f = figures.get(rival.name, {"failed": ""})
            if not answered(f):
                cells.append("-" if f["failed"].startswith("not tried: it") else f["failed"])
                continue
            text = (
                f"{1e3 * f['solve_cpu']:,.3g}"
                if f["solve_cpu"] < 1
                else (f"{1e3 * f['solve_cpu']:,.0f}")
            )
            text = f"**{text}**" if f["solve_cpu"] == min(known) else text
            cells.append(text if f["error"] <= KEPT else f"{text} (off by {f['error']:.0e})")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def _table(contenders: list[Rival], row: dict) -> list[str]:
    lines = [
        "| | build s | first s | solve ms | cpu ms | MB | again | error | wrong | other |",
        "| --- |" + " ---: |" * 9,
    ]
    for rival in contenders:
        f = row.get(rival.name, {"failed": ""})
        if not answered(f):
            lines.append(f"| {rival.title} | {f['failed'].replace('|', '/')} |" + " |" * 8)
            continue
        warm = f.get("warm_memory")
        cells = (
            f"{f['build_s']:.3g}",
            f"{f['first_s']:.3g}",
            f"{1e3 * f['solve_s']:,.4g}",
            f"{1e3 * f['solve_cpu']:,.4g}",
            f"{f['memory'] / 1e6:,.0f}",
            "" if warm is None else f"{warm / 1e6:,.0f}",
            f"{f['error']:.1e}",
            f"{f['wrong']:,}" if "wrong" in f else "",
            f"{f['other']:,}" if "other" in f else "",
        )
        lines.append(f"| {rival.title} | {' | '.join(cells)} |")
    return lines


def _faults(contenders: list[Rival], said: dict) -> list[str]:
    lines = ["| | should | " + " | ".join(r.title for r in contenders) + " |"]
    lines.append("| --- | --- |" + " --- |" * len(contenders))
    passed = dict.fromkeys((r.name for r in contenders), 0)
    for what, row in said.items():
        cells = []
        for rival in contenders:
            text, good = row[rival.name]
            passed[rival.name] += good
            cells.append(("" if good else "✗ ") + text.replace("|", "/"))
        lines.append(f"| {what} | {FAULTS[what]} | " + " | ".join(cells) + " |")
    count = [f"{passed[r.name]} of {len(said)}" for r in contenders]
    lines.append("| as it should | | " + " | ".join(count) + " |")
    return lines


def _trees(beside: list[Beside]) -> list[str]:
    """Nodes of exact trees by either, and what a rule of any class takes."""
    lines = [
        "The optimal policies as trees, exact in every state. dtControl splits by single axes, or",
        "also by linear functions (its presets); ours are the axis tree with the fewest leaves",
        "that was found, and the smallest rule of any class, in numbers stored: exact, and within",
        "1 % of the optimum, which dtControl, knowing no rewards, cannot promise. A star: the time",
        "limit of the search came first. An axis tree of n leaves has 2n - 1 nodes.",
        "",
        "| | states | dtControl, axes: nodes | with lines: nodes | ours, axes: nodes | "
        "ours, any rule: numbers | within 1 % | s: dtControl, ours |",
        "| --- |" + " ---: |" * 7,
    ]
    return lines + [one.line for one in beside]


def plot(path: Path, contenders: list[Rival], results: dict) -> None:
    """Time with building and memory against states; time against the discount's horizon."""
    panels = (
        ("structured", "states", "build and solve, s", _states, _whole),
        ("structured", "states", MEMORY, _states, lambda f: f["memory"] / 1e6),
        ("maps", "states of a slippery map", "build and solve, s", _states, _whole),
        (
            "discounts",
            "1 / (1 - discount), 825 states",
            "solve, processor s",
            lambda name, row: 1 / (1 - float(name.rsplit(", ", 1)[1])),
            lambda f: f["solve_cpu"],
        ),
    )
    figure, axes = plt.subplots(2, 2, figsize=(9.5, 7), layout="constrained")
    for axis, (group, across, up, where, height) in zip(axes.flat, panels, strict=True):
        rows = {n: row for n, row in results.items() if row["group"] == group}
        for rival, colour, mark in zip(contenders, COLOURS, MARKS, strict=False):
            known = {
                where(n, row): max(height(row["figures"][rival.name]), 1e-4)
                for n, row in rows.items()
                if answered(row["figures"].get(rival.name, {"failed": ""}))
            }
            if known:
                wide = 2.4 if rival.name == OURS else 1.4
                style = {"color": colour, "marker": mark, "markersize": 5, "linewidth": wide}
                axis.plot(list(known), list(known.values()), label=rival.title, **style)
        if up == MEMORY:
            _compiled(axis, rows)
        axis.set(xscale="log", yscale="log", xlabel=across, ylabel=up)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _compiled(axis, rows: dict) -> None:
    """Our memory without the compiler's, which most of it is where models are small."""
    ours = {row["states"]: row["figures"].get(OURS, {}).get("warm_memory") for row in rows.values()}
    known = {states: held / 1e6 for states, held in ours.items() if held}
    if known:
        axis.plot(list(known), list(known.values()), "o--", color=COLOURS[0], markersize=4)
        axis.annotate(
            "once compiled",
            (min(known), known[min(known)]),
            xytext=(4, 6),
            textcoords="offset points",
            ha="left",
            fontsize=9,
            color=COLOURS[0],
        )


def _states(name: str, row: dict) -> float:
    return row["states"]
