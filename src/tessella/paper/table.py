"""The main table: ours beside the paper's, as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from tessella.paper.gaps import Gaps, gaps
from tessella.paper.published import FAMILIES, MAIN_TABLE, SIZES, Printed
from tessella.paper.readings import title
from tessella.paper.results import Results
from tessella.paper.statistics import Summary, by_seed, caution, paired, summarise
from tessella.problems.benchmarks import BENCHMARKS
from tessella.runner.methods import by_name
from tessella.runner.record import Told


@dataclass(frozen=True)
class Row:
    """One method in one family, at its largest n.

    Attributes:
        seconds: median training time of a run, in this study.
        size: effective number of parameters.
        labels, margins, backups, simulator_calls: what it was told, on average.
        gaps: what failed runs left out of it.
        printed: the paper's row; None where the setting is not the paper's.
        best: the columns of ``DIGITS`` in which it is, or ties with, the lowest.
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
    margins: float
    backups: float
    simulator_calls: float
    gaps: Gaps
    printed: Printed | None = None
    best: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        return title(self.method)

    @property
    def there(self) -> bool:
        """Whether it has any finished run to show."""
        return bool(self.policy_error.seeds)

    @property
    def marked(self) -> str:
        """The title, with what is missing."""
        return f"{self.title} ({self.gaps.note})" if self.gaps.note else self.title

    def ratio(self, column: str) -> float:
        """Ours over the paper's; nan where the paper has none, or zero."""
        theirs = getattr(self.printed, column) if self.printed else 0.0
        return getattr(self, column).mean / theirs if theirs else math.nan


def rows(results: Results) -> list[Row]:
    """Boundary methods, baselines and references of each family, failed ones too."""
    methods = results.planned("boundary", "value", "reference")
    found = []
    for family in results.families():
        of = [_row(results, family, method) for method in methods]
        compared = [r for r in of if r.group != "reference" and r.there and not r.gaps.without]
        found += [replace(r, best=_best(results, r, compared)) for r in of]
    return found


def _best(results: Results, row: Row, compared: Sequence[Row]) -> tuple[str, ...]:
    """Columns in which ``row`` is, or ties with, the lowest of ``compared``.

    A tie prints the same mean, or its paired difference from the lowest may be zero.
    """

    def ties(column: str) -> bool:
        lowest = min(compared, key=lambda other: getattr(other, column).mean)
        printed = {f"{getattr(r, column).mean:.{DIGITS[column]}f}" for r in (row, lowest)}
        difference = paired(results.final, row.family, row.method, lowest.method, column)
        return len(printed) == 1 or difference.low <= 0

    return tuple(column for column in DIGITS if row in compared and ties(column))


def _row(results: Results, family: str, method: str) -> Row:
    final = results.final
    of = final[(final["family"] == family) & (final["method"] == method)]

    def summary(column: str) -> Summary:
        return summarise(by_seed(final, family, method, column))

    def told(column: str) -> float:
        return float(of[column].mean()) if there else math.nan

    n, there = results.asked[method].n, len(of) > 0
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
        float(of["worst_loss"].max()) if there else math.nan,
        float(of["seconds"].median()) if there else math.nan,
        int(of["size"].max()) if there else 0,
        told("labels"),
        told("margins"),
        told("backups"),
        told("simulator_calls"),
        gaps=gaps(results, family, method),
        printed=MAIN_TABLE.get((family, method)) if as_printed else None,
    )


BOLD = (
    "Bold: the lowest error and gap, and all that tie with it: the same as printed, or a paired "
    "difference over seeds whose 95 % interval reaches zero."
)
DIGITS = {"policy_error": 4, "value_gap": 3}  # decimals printed, by column


def plus_minus(mean: float, std: float, digits: int) -> str:
    return f"{mean:.{digits}f}" + ("" if math.isnan(std) else f" ± {std:.{digits}f}")


def interval(summary: Summary, digits: int) -> str:
    if math.isnan(summary.low):
        return f"{summary.iqm:.{digits}f} [–]"
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
    if not row.there:
        return [row.marked, *["–"] * (len(MAIN_HEAD) - 1)]
    p = row.printed
    return [
        row.marked,
        plus_minus(row.policy_error.mean, row.policy_error.std, DIGITS["policy_error"]),
        plus_minus(p.policy_error, p.policy_error_std, DIGITS["policy_error"]) if p else "–",
        ratio(row.ratio("policy_error")),
        plus_minus(row.value_gap.mean, row.value_gap.std, DIGITS["value_gap"]),
        plus_minus(p.value_gap, p.value_gap_std, DIGITS["value_gap"]) if p else "–",
        ratio(row.ratio("value_gap")),
        seconds(row.seconds),
        f"{p.seconds:.3f}" if p else "–",
        f"{row.size:,}",
        f"{p.size:,}" if p else "–",
    ]


PLACES = {"policy_error": 1, "value_gap": 4}  # in MAIN_HEAD


def best_cells(row: Row) -> list[int]:
    """Which of ``main_cells`` are bold."""
    return [place for column, place in PLACES.items() if column in row.best]


def _bold(row: Row, form: str, cells: Iterable[str]) -> list[str]:
    best = best_cells(row)
    return [form.format(cell) if place in best else cell for place, cell in enumerate(cells)]


TOLD_HEAD = (
    *(
        "Method",
        "Policy error, IQM [95\u00a0%]",
        "Value gap, IQM [95\u00a0%]",
        "Mean loss",
        "Worst loss",
    ),
    *("Labels", "Margins", "Backups behind them", "Simulator calls"),
)


def told_cells(row: Row) -> list[str]:
    """Robust figures, exact losses, and what the method was told."""
    if not row.there:
        return [row.marked, *["–"] * (len(TOLD_HEAD) - 1)]
    return [
        row.marked,
        interval(row.policy_error, 4),
        interval(row.value_gap, 3),
        f"{row.mean_loss.mean:.3g}",
        f"{row.worst_loss:.3g}",
        f"{row.labels:,.0f}",
        f"{row.margins:,.0f}",
        f"{row.backups:,.0f}",
        f"{row.simulator_calls:,.0f}",
    ]


def incomplete(table: Sequence[Row]) -> str:
    """What to know of a table from which failures took something; nothing when it is whole."""
    if not any(row.gaps.note for row in table):
        return ""
    return (
        "Runs have failed: beside a method stands what its row lacks. Its averages are over the "
        "seeds that finished in every problem left."
    )


def intervals(table: Sequence[Row]) -> str:
    """What to know of intervals over few seeds; nothing when there are enough."""
    asked = max((row.gaps.asked for row in table), default=0)
    drawn = [row for row in table if row.there and row.gaps.asked == asked]
    return caution(min((row.policy_error.seeds for row in drawn), default=asked))


def markdown(table: Sequence[Row]) -> str:
    seeds = max((row.gaps.asked for row in table), default=0)
    parts = [
        "# Ours beside the paper's",
        "Averages over a family's problems at the largest n: mean ± standard deviation over "
        f"{seeds} {'seed' if seeds == 1 else 'seeds'}. Ratios are ours over the paper's. {BOLD}",
        *filter(None, [incomplete(table), intervals(table)]),
    ]
    for family in dict.fromkeys(row.family for row in table):
        of = [row for row in table if row.family == family]
        paper = [_bold(r, "**{}**", main_cells(r)) for r in of if r.group != "reference"]
        parts += [f"## {FAMILIES[family]}", _grid(MAIN_HEAD, paper)]
        parts += [
            "Interquartile means, exact losses, and what each was told:",
            _grid(TOLD_HEAD, [told_cells(row) for row in of]),
        ]
    return "\n\n".join(parts) + "\n"


def _grid(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *body]
    plain = ([cell.replace("|", r"\|") for cell in cells] for cells in lines)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in plain)


def flat(row: Row) -> dict[str, str | float | int]:
    """A row with every number, for CSV."""
    found: dict[str, str | float | int] = {
        "family": row.family,
        "method": row.method,
        "title": row.title,
        "group": row.group,
        "n": row.n,
        "seeds": row.policy_error.seeds,
        "note": row.gaps.note,
    }
    for column in ("policy_error", "value_gap", "mean_loss"):
        summary: Summary = getattr(row, column)
        for part in ("mean", "std", "iqm", "low", "high"):
            found[f"{column}_{part}"] = getattr(summary, part)
    for column in ("worst_loss", "seconds", "size", *(part.name for part in fields(Told))):
        found[column] = getattr(row, column) if row.there else math.nan
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
    column = r"ours & IQM [95\,\%] & paper & ratio"
    lines = [
        *(f"% {text}" for text in (incomplete(table), intervals(table)) if text),
        r"\begin{tabular}{llrrrrrrrr}",
        r"\toprule",
        r" & & \multicolumn{4}{c}{Policy error} & \multicolumn{4}{c}{Value gap} \\",
        r"\cmidrule(lr){3-6}\cmidrule(lr){7-10}",
        rf"Family & Method & {column} & {column} \\",
    ]
    for family in dict.fromkeys(row.family for row in table):
        lines.append(r"\midrule")
        of = [r for r in table if r.family == family and r.group != "reference"]
        for place, row in enumerate(of):
            name = FAMILIES[family] if place == 0 else ""
            lines.append(" & ".join([name, *_tex_cells(row)]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _tex_cells(row: Row) -> list[str]:
    """Mean, interquartile mean, the paper's and the ratio, for error and gap."""
    cells = _bold(row, r"\textbf{{{}}}", map(_tex, main_cells(row)))
    named, error, paper, ratio_, gap, papers, ratios = cells[:7]
    iqm = [_tex(cell) for cell in told_cells(row)[1:3]]
    return [named, error, iqm[0], paper, ratio_, gap, iqm[1], papers, ratios]


_TEX = {
    **{character: f"\\{character}" for character in "_&#%${}"},
    **{"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"},
    **{"±": r"$\pm$", "×": r"$\times$", "–": "--"},
}


def _tex(cell: str) -> str:
    return cell.translate(str.maketrans(_TEX))
