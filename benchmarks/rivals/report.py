"""Write the page and the plots of the comparison from its figures."""

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
from contest import count_machine_bytes
from environments import DTCONTROL, Rival
from faults import EXPECTED_REACTIONS
from trees import TreeComparison

COLOURS = ("#0072b2", "#d55e00", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#000000")
MARKERS = "osD^vPX"
MEMORY_LABEL = "peak memory, MB"
OURS = "tessella"
FASTER_MIN_RATIO = 1.1  # the summary names rivals that are faster by this ratio
ERROR_MAX = 1.01e-6  # the target of 1e-6, with a margin for rounding
EXPLANATION = """\
In models of a few hundred states most of the time of a solve is Python's own overhead: hundreds
to thousands of calls of NumPy and SciPy, including those for the bound, the margins and the ties,
which no other package computes. Storm, mdpsolver and QuantEcon sweep in compiled loops; on small
averages they are done before tessella has factorised the system of its first policy. On slippery
maps policies improve one step at a time from the goal, so tessella needs 4 to 14 rounds of sweeps
and a sparse factorisation in each; on the largest map a direct solve takes a third of the time."""
INTRODUCTION = """\
# tessella and other packages

Written by `python benchmarks/rivals`. Every package runs in its own environment and process, on
the same models, with the target `max|V - V*| <= 1e-6` (for averages, the same of the gain).
Packages take turns; the best round counts. Times are processor milliseconds of all threads,
unless wall-clock time is stated. A package that does not answer within the limit of processor
seconds (15 for models of less than 1,000 states, 25 below 50,000, 35 below 200,000, 120 beyond)
or of memory (10 GB) is not run on larger models of that group. For Storm, the discount is a
probability that the process ends; mdpax takes functions and no rows; QuantEcon has no averages;
pymdptoolbox has no feasible sets. How the run time of tessella grows with states, actions, noise
and axes is in [growth](growth.md).
"""
GROUP_TITLES = {
    "structured": "Structured models: inventory at five sizes, discount 0.95",
    "discounts": "Discounts: inventory of 825 states",
    "random": "Random sparse rows: states x actions x successors, discount",
    "maps": "Slippery maps with holes, discount 0.99",
    "published": "Published models",
    "averages": "The average per period: inventory",
    "published averages": "The average per period: published models",
}
COLUMN_LEGEND = """\
*build*: from the model's settings to what the package solves, its arrays included (published
models are read from a file of arrays; tessella builds them from their settings). *first*: the
first solve, which may compile. *solve*: a later one; both are wall-clock times. *cpu*: the
processor time of that later solve. *MB*: peak memory above what the process held after its
imports, the compiler's included. *again*: the same for building and solving once more. *error*:
against the optimum to twelve digits. *wrong*: states whose action differs from the proven optimal
one. *other*: states whose action differs from tessella's, ties included.
"""


def write(
    out: Path,
    contenders: list[Rival],
    results: dict,
    reactions: dict,
    comparisons: list[TreeComparison],
    missing: dict[str, str],
    quick: bool = False,
) -> None:
    """Write ``generated/rivals.md``, its plots and its figures."""
    (out / "generated").mkdir(parents=True, exist_ok=True)
    (out / "images").mkdir(parents=True, exist_ok=True)
    (out / "generated" / "rivals.json").write_text(json.dumps(results, indent=1) + "\n")
    plot(out / "images" / "rivals.svg", contenders, results)
    page = _render_page(contenders, results, reactions, comparisons, missing)
    if quick:
        page.insert(1, "**A quick run, to try the script: small models only.**\n")
    (out / "generated" / "rivals.md").write_text("\n".join(page) + "\n")


def _render_page(
    contenders: list[Rival],
    results: dict,
    reactions: dict,
    comparisons: list[TreeComparison],
    missing: dict[str, str],
) -> list[str]:
    lines = [INTRODUCTION, _describe_machine(contenders), ""]
    lines += [f"{title} took no part: it {why}.\n" for title, why in missing.items()]
    lines += ["## In short", "", *_summarise(contenders, results), ""]
    lines += [
        "![Time and memory against size, and time against the discount](../images/rivals.svg)",
        "",
    ]
    for group, members in groupby(results.items(), lambda item: item[1]["group"]):
        lines += [
            f"## {GROUP_TITLES.get(group, group)}",
            "",
            *_render_group(contenders, dict(members)),
            "",
        ]
    lines += [
        "## Nine inputs, most of them faulty",
        "",
        *_render_reactions(contenders, reactions),
        "",
    ]
    lines += ["## Trees: dtControl", "", *_render_trees(comparisons), ""]
    lines += ["## All figures", "", COLUMN_LEGEND]
    for name, row in results.items():
        lines += [f"### {name}", "", *_render_figures(contenders, row["figures"]), ""]
    return lines[:-1]


def _describe_machine(contenders: list[Rival]) -> str:
    """Date, processor and versions, without the name of the machine."""
    cpuinfo = Path("/proc/cpuinfo")
    processors = re.findall(r"model name\s*: (.*)", cpuinfo.read_text()) if cpuinfo.exists() else []
    packages = [p for r in (*contenders, DTCONTROL) for p in r.packages if "==" in p]
    versions = ", ".join(
        f"{name} {version(name)}" for name in ("tessella", "jax", "numpy", "scipy")
    )
    return (
        f"{date.today()}, {(processors or [platform.machine()])[0]}, {os.cpu_count()} cores, "
        f"{count_machine_bytes() / 2**30:.0f} GiB, Python {platform.python_version()}; {versions}; "
        f"{', '.join(packages).replace('==', ' ')}."
    )


def has_answer(figures: dict) -> bool:
    return "failed" not in figures


def _summarise(contenders: list[Rival], results: dict) -> list[str]:
    """Where and by how much a rival is faster than tessella, and the ratio on the largest model."""
    titles = {r.name: r.title for r in contenders}
    lines = []
    for model, row in results.items():
        ours = row["figures"][OURS]
        for name, theirs in row["figures"].items():
            if name != OURS and _is_faster(theirs, ours):
                lines.append(f"- {model}: {titles[name]} {_describe_lead(theirs, ours)}.")
    heading = (
        "Where another package reaches the target with at least a tenth less processor time than "
        "`ts.solve`:"
    )
    none = "No other package needs a tenth less processor time than `ts.solve` for any model."
    summary = [heading, "", *lines, "", EXPLANATION] if lines else [none]
    return [*summary, "", *_describe_largest(contenders, results)]


def _is_faster(theirs: dict, ours: dict) -> bool:
    """Whether a rival reaches the target in clearly less processor time than tessella."""
    if not has_answer(theirs) or not has_answer(ours) or theirs["error"] > ERROR_MAX:
        return False
    return ours["solve_cpu"] > FASTER_MIN_RATIO * theirs["solve_cpu"]


def _describe_lead(theirs: dict, ours: dict) -> str:
    """Times of a faster rival and of tessella, without and with building."""
    ratio = ours["solve_cpu"] / theirs["solve_cpu"]
    totals = [1e3 * (f["build_cpu"] + f["solve_cpu"]) for f in (theirs, ours)]
    return (
        f"in {1e3 * theirs['solve_cpu']:.3g} ms, tessella in {1e3 * ours['solve_cpu']:.3g} ms "
        f"({ratio:.2f} times); with building {totals[0]:.3g} and {totals[1]:.3g} ms"
    )


def _describe_largest(contenders: list[Rival], results: dict) -> list[str]:
    """Time and memory on the largest structured model that a rival also solves."""
    rows = [row for row in results.values() if row["group"] == "structured"]
    for row in reversed(rows):
        figures = row["figures"]
        answers = {r.title: figures.get(r.name, {"failed": ""}) for r in contenders}
        ours = answers.pop(OURS)
        answers = {title: answer for title, answer in answers.items() if has_answer(answer)}
        if answers and has_answer(ours):
            return [_compare_with_fastest(row["states"], ours, answers)]
    return []


def _compare_with_fastest(states: int, ours: dict, answers: dict[str, dict]) -> str:
    """Total time and memory of tessella and of the fastest other package, by its title."""
    fastest = min(answers, key=lambda title: _total_seconds(answers[title]))
    theirs = answers[fastest]
    our_seconds, their_seconds = _total_seconds(ours), _total_seconds(theirs)
    our_warm, their_warm = (f.get("warm_memory", f["memory"]) for f in (ours, theirs))
    return (
        f"Structured, {states:,} states, wall-clock time to build and solve: "
        f"{our_seconds:.2g} s against {their_seconds:.3g} s of the fastest other package "
        f"({fastest}), **{their_seconds / our_seconds:.0f} times**; peak memory "
        f"{ours['memory'] / 1e6:,.0f} MB with the compiler's, "
        f"{our_warm / 1e6:,.0f} MB once compiled, against "
        f"{their_warm / 1e6:,.0f} MB: **{theirs['memory'] / ours['memory']:.0f} and "
        f"{their_warm / our_warm:.0f} times** less."
    )


def _total_seconds(figures: dict) -> float:
    return figures["build_s"] + figures["solve_s"]


def _render_group(contenders: list[Rival], rows: dict) -> list[str]:
    """Processor time of a solve, one line for each model; the fastest in bold."""
    shown = [r for r in contenders if any(r.name in row["figures"] for row in rows.values())]
    lines = [
        "| cpu ms | " + " | ".join(r.title for r in shown) + " |",
        "| --- |" + " ---: |" * len(shown),
    ]
    for name, row in rows.items():
        figures = row["figures"]
        fastest = min((f["solve_cpu"] for f in figures.values() if has_answer(f)), default=0.0)
        cells = [_format_time(figures.get(r.name, {"failed": ""}), fastest) for r in shown]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def _format_time(figures: dict, fastest: float) -> str:
    """One cell of a group's table: milliseconds, or why there are none."""
    if not has_answer(figures):
        return "-" if figures["failed"].startswith("not tried: it") else figures["failed"]
    seconds = figures["solve_cpu"]
    text = f"{1e3 * seconds:,.3g}" if seconds < 1 else f"{1e3 * seconds:,.0f}"
    if seconds == fastest:
        text = f"**{text}**"
    error = figures["error"]
    return text if error <= ERROR_MAX else f"{text} (off by {error:.0e})"


def _render_figures(contenders: list[Rival], row: dict) -> list[str]:
    lines = [
        "| | build s | first s | solve ms | cpu ms | MB | again | error | wrong | other |",
        "| --- |" + " ---: |" * 9,
    ]
    for rival in contenders:
        figures = row.get(rival.name, {"failed": ""})
        if not has_answer(figures):
            lines.append(f"| {rival.title} | {figures['failed'].replace('|', '/')} |" + " |" * 8)
            continue
        warm = figures.get("warm_memory")
        cells = (
            f"{figures['build_s']:.3g}",
            f"{figures['first_s']:.3g}",
            f"{1e3 * figures['solve_s']:,.4g}",
            f"{1e3 * figures['solve_cpu']:,.4g}",
            f"{figures['memory'] / 1e6:,.0f}",
            "" if warm is None else f"{warm / 1e6:,.0f}",
            f"{figures['error']:.1e}",
            f"{figures['wrong']:,}" if "wrong" in figures else "",
            f"{figures['other']:,}" if "other" in figures else "",
        )
        lines.append(f"| {rival.title} | {' | '.join(cells)} |")
    return lines


def _render_reactions(contenders: list[Rival], reactions: dict) -> list[str]:
    lines = ["| | should | " + " | ".join(r.title for r in contenders) + " |"]
    lines.append("| --- | --- |" + " --- |" * len(contenders))
    n_correct = dict.fromkeys((r.name for r in contenders), 0)
    for fault, row in reactions.items():
        cells = []
        for rival in contenders:
            text, is_correct = row[rival.name]
            n_correct[rival.name] += is_correct
            cells.append(("" if is_correct else "✗ ") + text.replace("|", "/"))
        lines.append(f"| {fault} | {EXPECTED_REACTIONS[fault]} | " + " | ".join(cells) + " |")
    count = [f"{n_correct[r.name]} of {len(reactions)}" for r in contenders]
    lines.append("| as it should | | " + " | ".join(count) + " |")
    return lines


def _render_trees(comparisons: list[TreeComparison]) -> list[str]:
    """Nodes of exact trees, and parameters of rules of any class."""
    lines = [
        "The optimal policies as trees, exact in every state. dtControl splits by single axes, or",
        "also by linear functions (its presets); ours are the axis tree with the fewest leaves",
        "that was found, and the smallest rule of any class, by parameters: exact, and within 1 %",
        "of the optimum, which dtControl cannot guarantee, which has no rewards. A star: the",
        "search ended at its time limit. An axis tree of n leaves has 2n - 1 nodes.",
        "",
        "| | states | dtControl, axes: nodes | with lines: nodes | ours, axes: nodes | "
        "ours, any rule: parameters | within 1 % | s: dtControl, ours |",
        "| --- |" + " ---: |" * 7,
    ]
    return lines + [comparison.line for comparison in comparisons]


def plot(path: Path, contenders: list[Rival], results: dict) -> None:
    """Plot time with building and memory against states, and time against 1 / (1 - discount)."""
    panels = (
        ("structured", "states", "build and solve, s", _get_states, _total_seconds),
        ("structured", "states", MEMORY_LABEL, _get_states, lambda f: f["memory"] / 1e6),
        ("maps", "states of a slippery map", "build and solve, s", _get_states, _total_seconds),
        (
            "discounts",
            "1 / (1 - discount), 825 states",
            "solve, processor s",
            lambda name, row: 1 / (1 - float(name.rsplit(", ", 1)[1])),
            lambda f: f["solve_cpu"],
        ),
    )
    figure, axes = plt.subplots(2, 2, figsize=(9.5, 7), layout="constrained")
    for axis, (group, x_label, y_label, x_of, y_of) in zip(axes.flat, panels, strict=True):
        rows = {n: row for n, row in results.items() if row["group"] == group}
        for rival, colour, mark in zip(contenders, COLOURS, MARKERS, strict=False):
            points = {
                x_of(n, row): max(y_of(row["figures"][rival.name]), 1e-4)
                for n, row in rows.items()
                if has_answer(row["figures"].get(rival.name, {"failed": ""}))
            }
            if points:
                width = 2.4 if rival.name == OURS else 1.4
                style = {"color": colour, "marker": mark, "markersize": 5, "linewidth": width}
                axis.plot(list(points), list(points.values()), label=rival.title, **style)
        if y_label == MEMORY_LABEL:
            _plot_warm_memory(axis, rows)
        axis.set(xscale="log", yscale="log", xlabel=x_label, ylabel=y_label)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _plot_warm_memory(axis, rows: dict) -> None:
    """Plot our memory without the compiler's, which dominates in small models."""
    ours = {row["states"]: row["figures"].get(OURS, {}).get("warm_memory") for row in rows.values()}
    points = {states: bytes_held / 1e6 for states, bytes_held in ours.items() if bytes_held}
    if points:
        axis.plot(list(points), list(points.values()), "o--", color=COLOURS[0], markersize=4)
        axis.annotate(
            "once compiled",
            (min(points), points[min(points)]),
            xytext=(4, 6),
            textcoords="offset points",
            ha="left",
            fontsize=9,
            color=COLOURS[0],
        )


def _get_states(name: str, row: dict) -> float:
    return row["states"]
