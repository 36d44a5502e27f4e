"""The page and the plots of the comparison, from its figures alone."""

from __future__ import annotations

import json
import os
import platform
from datetime import date
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from environments import Rival
from faults import FAULTS

COLOURS = ("#0072b2", "#d55e00", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#000000")
HEAD = """\
# Rivals, side by side

Made by `python benchmarks/rivals`, and by nothing else: each contender in an environment and a
process of its own, the same models, `max|V - V*| <= 1e-6` asked of all, in turn, the best of the
rounds. *build* is from the model's settings to what the contender solves (the making of its arrays
included), *first* is the first solve, which may compile, *solve* a later one; *cpu* is the
processor time of that, *MB* the peak above what the process held before. *error* is against the
optimum to twelve digits, *wrong* counts states with another action than the one that is proven
optimal. Storm is given the discount as a chance to end; mdpax takes functions, not rows.
"""
AHEAD = 1.1  # a rival this much quicker is named


def write(
    out: Path, contenders: list[Rival], results: dict, said: dict, missing: dict[str, str]
) -> None:
    """``rivals.md``, its two plots and its figures."""
    (out / "generated").mkdir(parents=True, exist_ok=True)
    (out / "images").mkdir(parents=True, exist_ok=True)
    (out / "generated" / "rivals.json").write_text(json.dumps(results, indent=1) + "\n")
    _plot(out / "images" / "rivals.svg", contenders, results)
    (out / "rivals.md").write_text("\n".join(_page(contenders, results, said, missing)) + "\n")


def _page(contenders: list[Rival], results: dict, said: dict, missing: dict[str, str]) -> list[str]:
    packages = [p for r in contenders for p in r.packages if "==" in p]
    lines = [
        HEAD,
        f"{date.today()}, {platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}; {', '.join(packages)}.",
        "",
    ]
    lines += [f"{title} took no part: it {why}." for title, why in missing.items()]
    lines += ["", *_ahead(contenders, results), "", "![Time and memory](images/rivals.svg)", ""]
    for model, row in results.items():
        lines += [f"## {model}", "", *_table(contenders, row), ""]
    return [*lines, "## Nine inputs", "", *_faults(contenders, said)]


def _ahead(contenders: list[Rival], results: dict) -> list[str]:
    """Where a rival is quicker than tessella, and by how much."""
    titles = {r.name: r.title for r in contenders}
    found = []
    for model, row in results.items():
        ours = row["tessella"]
        for name, theirs in row.items():
            if name == "tessella" or "failed" in theirs or "failed" in ours:
                continue
            ratio = ours["solve_s"] / theirs["solve_s"]
            if ratio > AHEAD:
                found.append(f"- {model}: {titles[name]} solves {ratio:.2f} times as fast.")
    head = "A rival that solves more than a tenth quicker than `ts.solve`, once compiled:"
    return [head, "", *found] if found else ["No rival solves more than a tenth quicker."]


def _table(contenders: list[Rival], row: dict) -> list[str]:
    lines = [
        "| | build s | first s | solve ms | cpu ms | MB | error | wrong |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for rival in contenders:
        f = row[rival.name]
        if "failed" in f:
            lines.append(f"| {rival.title} | {f['failed']} | | | | | | |")
            continue
        cells = (
            f"{f['build_s']:.3g}",
            f"{f['first_s']:.3g}",
            f"{1e3 * f['solve_s']:.3g}",
            f"{1e3 * f['solve_cpu']:.3g}",
            f"{f['memory'] / 1e6:,.0f}",
            f"{f['error']:.1e}",
            f"{f['wrong']:,}",
        )
        lines.append(f"| {rival.title} | {' | '.join(cells)} |")
    return lines


def _faults(contenders: list[Rival], said: dict) -> list[str]:
    lines = ["| | should | " + " | ".join(r.title for r in contenders) + " |"]
    lines.append("| --- | --- |" + " --- |" * len(contenders))
    for what, row in said.items():
        cells = [row[r.name].replace("|", "/") for r in contenders]
        lines.append(f"| {what} | {FAULTS[what]} | " + " | ".join(cells) + " |")
    return lines


def _plot(path: Path, contenders: list[Rival], results: dict) -> None:
    """Time with building, and memory, against the states of the structured model."""
    sized = {
        int(name.removeprefix("inventory ").replace(",", "")): row
        for name, row in results.items()
        if name.startswith("inventory ") and ", " not in name
    }
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    kinds = ("build and solve, s", "peak memory, MB")
    for axis, kind in zip(axes, kinds, strict=True):
        for colour, rival in zip(COLOURS, contenders, strict=False):
            known = {
                n: row[rival.name] for n, row in sized.items() if "failed" not in row[rival.name]
            }
            if not known:
                continue
            if kind == kinds[0]:
                height = [f["build_s"] + f["solve_s"] for f in known.values()]
            else:
                height = [max(f["memory"], 1e5) / 1e6 for f in known.values()]
            axis.plot(list(known), height, "o-", color=colour, label=rival.title, markersize=4)
        axis.set(xscale="log", yscale="log", xlabel="states", ylabel=kind)
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(alpha=0.25)
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(path, metadata={"Date": None})
