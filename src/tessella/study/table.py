"""The main table: ours beside the paper's, as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tessella.problems.benchmarks import BENCHMARKS
from tessella.study.measures import title
from tessella.study.methods import by_name
from tessella.study.published import FAMILIES, MAIN_TABLE, SIZES, Printed
from tessella.study.results import Results
from tessella.study.statistics import Summary, runs, summarise


@dataclass(frozen=True)
class Row:
    """One method in one family, at its largest n.

    Attributes:
        seconds: median training time of a run, in this study.
        size: effective number of parameters.
        labels, backups, simulator_calls: what it was told, on average.
        printed: the paper's row; None where the setting is not the paper's.
    """

    family: str
    method: str
    group: str
    n: int
    policy_error: Summary
    value_gap: Summary
    mean_loss: Summary
    worst_loss: float
    seconds: float
    size: int
    labels: float
    backups: float
    simulator_calls: float
    printed: Printed | None

    @property
    def title(self) -> str:
        return title(self.method)

    def ratio(self, column: str) -> float:
        """Ours over the paper's; nan where the paper has none, or zero."""
        theirs = getattr(self.printed, column) if self.printed else 0.0
        return getattr(self, column).mean / theirs if theirs else math.nan


def rows(results: Results) -> list[Row]:
    """Boundary methods, baselines and references of each family."""
    return [
        _row(results, family, method)
        for family in results.families()
        for method in results.group("boundary", "value", "reference")
        if runs(results.frame, family, method, "policy_error").size
    ]


def _row(results: Results, family: str, method: str) -> Row:
    frame = results.frame
    of = frame[(frame["family"] == family) & (frame["method"] == method)]
    of = of[of["n"] == of["n"].max()]

    def summary(column: str) -> Summary:
        return summarise(runs(frame, family, method, column))

    n = int(of["n"].max())
    whole = {label for label, known in BENCHMARKS.items() if known.family == family}
    as_printed = n == max(SIZES) and whole <= set(of["environment"])
    return Row(
        family,
        method,
        by_name(method).group,
        n,
        summary("policy_error"),
        summary("value_gap"),
        summary("mean_loss"),
        float(of["worst_loss"].max()),
        float(of["seconds"].median()),
        int(of["size"].max()),
        float(of["labels"].mean()),
        float(of["backups"].mean()),
        float(of["simulator_calls"].mean()),
        MAIN_TABLE.get((family, method)) if as_printed else None,
    )


def plus_minus(mean: float, std: float, digits: int) -> str:
    return f"{mean:.{digits}f}" + ("" if math.isnan(std) else f" ± {std:.{digits}f}")


def interval(summary: Summary, digits: int) -> str:
    return f"{summary.iqm:.{digits}f} [{summary.low:.{digits}f}, {summary.high:.{digits}f}]"


def ratio(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.2f}"


def seconds(value: float) -> str:
    return f"{value:.4f}" if value < 0.01 else f"{value:.3f}"


MAIN_HEAD = (
    *("Method", "Policy error", "paper", "ratio", "Value gap", "paper", "ratio"),
    *("Train (s)", "paper", "Size", "paper"),
)


def main_cells(row: Row) -> list[str]:
    """A row of the table beside the paper's."""
    p = row.printed
    return [
        row.title,
        plus_minus(row.policy_error.mean, row.policy_error.std, 4),
        plus_minus(p.policy_error, p.policy_error_std, 4) if p else "–",
        ratio(row.ratio("policy_error")),
        plus_minus(row.value_gap.mean, row.value_gap.std, 3),
        plus_minus(p.value_gap, p.value_gap_std, 3) if p else "–",
        ratio(row.ratio("value_gap")),
        seconds(row.seconds),
        f"{p.seconds:.3f}" if p else "–",
        f"{row.size:,}",
        f"{p.size:,}" if p else "–",
    ]


TOLD_HEAD = (
    *("Method", "Policy error, IQM [95 %]", "Value gap, IQM [95 %]", "Mean loss", "Worst loss"),
    *("Labels", "Backups behind them", "Simulator calls"),
)


def told_cells(row: Row) -> list[str]:
    """Robust figures, exact losses, and what the method was told."""
    return [
        row.title,
        interval(row.policy_error, 4),
        interval(row.value_gap, 3),
        f"{row.mean_loss.mean:.3g}",
        f"{row.worst_loss:.3g}",
        f"{row.labels:,.0f}",
        f"{row.backups:,.0f}",
        f"{row.simulator_calls:,.0f}",
    ]


def markdown(table: Sequence[Row]) -> str:
    seeds = max((row.policy_error.seeds for row in table), default=0)
    parts = [
        "# Ours beside the paper's",
        "Averages over a family's environments at the largest n: mean ± standard deviation over "
        f"{seeds} seeds. Ratios are ours over the paper's.",
    ]
    for family in dict.fromkeys(row.family for row in table):
        of = [row for row in table if row.family == family]
        paper = [main_cells(row) for row in of if row.group != "reference"]
        parts += [f"## {FAMILIES[family]}", _grid(MAIN_HEAD, paper)]
        parts += [
            "Interquartile means, exact losses, and what each was told:",
            _grid(TOLD_HEAD, [told_cells(row) for row in of]),
        ]
    return "\n\n".join(parts) + "\n"


def _grid(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def flat(row: Row) -> dict[str, str | float | int]:
    """A row with every number, for CSV."""
    found: dict[str, str | float | int] = {
        "family": row.family,
        "method": row.method,
        "title": row.title,
        "group": row.group,
        "n": row.n,
        "seeds": row.policy_error.seeds,
    }
    for column in ("policy_error", "value_gap", "mean_loss"):
        summary: Summary = getattr(row, column)
        for part in ("mean", "std", "iqm", "low", "high"):
            found[f"{column}_{part}"] = getattr(summary, part)
    for column in ("worst_loss", "seconds", "size", "labels", "backups", "simulator_calls"):
        found[column] = getattr(row, column)
    for column in Printed.__dataclass_fields__:
        found[f"paper_{column}"] = getattr(row.printed, column) if row.printed else np.nan
    for column in ("policy_error", "value_gap"):
        found[f"{column}_ratio"] = row.ratio(column)
    return found


def as_csv(table: Sequence[Row]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, list(flat(table[0])) if table else [], lineterminator="\n")
    writer.writeheader()
    for row in table:
        cells = flat(row)
        writer.writerow({k: "" if _missing(v) else v for k, v in cells.items()})
    return file.getvalue()


def _missing(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def latex(table: Sequence[Row]) -> str:
    """A booktabs table of the paper's methods, ours beside the paper's."""
    lines = [
        r"\begin{tabular}{llrrrrrr}",
        r"\toprule",
        r" & & \multicolumn{3}{c}{Policy error} & \multicolumn{3}{c}{Value gap} \\",
        r"\cmidrule(lr){3-5}\cmidrule(lr){6-8}",
        r"Family & Method & ours & paper & ratio & ours & paper & ratio \\",
    ]
    for family in dict.fromkeys(row.family for row in table):
        lines.append(r"\midrule")
        of = [r for r in table if r.family == family and r.group != "reference"]
        for place, row in enumerate(of):
            cells = main_cells(row)
            name = FAMILIES[family] if place == 0 else ""
            lines.append(" & ".join([name, *map(_tex, cells[:7])]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _tex(cell: str) -> str:
    return cell.replace(" ± ", r" $\pm$ ").replace("–", "--").replace("%", r"\%")
