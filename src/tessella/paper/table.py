"""The main table: ours next to the paper's, as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from tessella.errors import counted
from tessella.paper.claims import VERDICT_REMARK, Finding, tally_verdicts
from tessella.paper.derived_numbers import (
    MissingRuns,
    Summary,
    averages_by_seed,
    compare_paired,
    describe_interval_caution,
    find_missing_runs,
    method_title,
    select_runs,
    summarise,
    values_by_seed,
)
from tessella.paper.published import FAMILY_TITLES, MAIN_TABLE, PAPER_SIZES, PublishedRow
from tessella.paper.results import PaperResults
from tessella.problems.registry import BENCHMARKS
from tessella.runner.methods import find_method
from tessella.runner.record import InformationBudget

INFORMATION_COLUMNS = tuple(part.name for part in fields(InformationBudget))


@dataclass(frozen=True)
class TableRow:
    """One method in one family, at its largest n."""

    family: str
    method: str
    group: str
    n: int
    policy_error: Summary
    value_gap: Summary
    mean_loss: Summary
    worst_loss: float
    seconds: float  # median training time of a run, in this study
    size: int  # effective number of parameters
    labels: float  # the information it was given, on average: labels, and the next three
    margins: float
    backups: float
    simulator_calls: float
    missing_runs: MissingRuns  # what failed runs left out of it
    decisions: int  # states, over all problems and seeds
    errors: int  # decisions that are not optimal
    published: PublishedRow | None = None  # the paper's row; None where the setting is not its
    best: tuple[str, ...] = ()  # columns in which it is, or ties with, the lowest

    @property
    def title(self) -> str:
        return method_title(self.method)

    @property
    def has_runs(self) -> bool:
        """Whether it has any finished run to show."""
        return bool(self.policy_error.seeds)

    @property
    def marked_title(self) -> str:
        """The title, with what is missing."""
        return f"{self.title} ({self.missing_runs.note})" if self.missing_runs.note else self.title

    def ratio(self, column: str) -> float:
        """Ours over the paper's; nan where the paper has none, or zero."""
        theirs = getattr(self.published, column) if self.published else 0.0
        return getattr(self, column).mean / theirs if theirs else math.nan


def make_rows(results: PaperResults) -> list[TableRow]:
    """Boundary methods, baselines and references of each family, failed ones too."""
    methods = results.planned_methods("boundary", "value", "reference")
    counts = results.error_counts.groupby(["family", "method"])[["decisions", "errors"]].sum()
    all_rows = []
    for family in results.families():
        family_rows = [_make_row(results, family, method, counts) for method in methods]
        compared = [
            r
            for r in family_rows
            if r.group != "reference" and r.has_runs and not r.missing_runs.missing_problems
        ]
        all_rows += [replace(r, best=_find_best_columns(results, r, compared)) for r in family_rows]
    return all_rows


def _find_best_columns(
    results: PaperResults, row: TableRow, compared: Sequence[TableRow]
) -> tuple[str, ...]:
    """Columns in which ``row`` is, or ties with, the lowest of ``compared``.

    A tie prints the same mean, or its paired difference from the lowest may be zero.
    """

    def is_tied(column: str) -> bool:
        lowest = min(compared, key=lambda other: getattr(other, column).mean)
        printed_means = {
            f"{getattr(r, column).mean:.{DECIMALS_BY_COLUMN[column]}f}" for r in (row, lowest)
        }
        final = select_runs(results.final_frame, family=row.family)
        ours, theirs = (
            averages_by_seed(select_runs(final, method=r.method), column) for r in (row, lowest)
        )
        return len(printed_means) == 1 or compare_paired(ours, theirs).low <= 0

    return tuple(column for column in DECIMALS_BY_COLUMN if row in compared and is_tied(column))


def _make_row(results: PaperResults, family: str, method: str, counts: Any) -> TableRow:
    runs = select_runs(results.final_frame, family=family, method=method)
    n = results.planned_runs[method].n
    family_problems = {label for label, known in BENCHMARKS.items() if known.family == family}
    is_paper_setting = n == max(PAPER_SIZES) and family_problems <= set(runs["problem"])
    policy_error, value_gap, mean_loss = (
        summarise(values_by_seed(runs, column).to_numpy(dtype=float))
        for column in ("policy_error", "value_gap", "mean_loss")
    )
    decisions, errors = counts.loc[family, method] if len(runs) else (0, 0)
    # Of no runs, maximum, median and mean are nan.
    information: dict[str, Any] = {c: float(runs[c].mean()) for c in INFORMATION_COLUMNS}
    return TableRow(
        family,
        method,
        find_method(method).group,
        n,
        policy_error,
        value_gap,
        mean_loss,
        worst_loss=float(runs["worst_loss"].max()),
        seconds=float(runs["seconds"].median()),
        size=int(runs["size"].max()) if len(runs) else 0,
        **information,
        missing_runs=find_missing_runs(results, results.problems_of(family), method),
        decisions=int(decisions),
        errors=int(errors),
        published=MAIN_TABLE.get((family, method)) if is_paper_setting else None,
    )


BOLD_REMARK = (
    "Bold: the lowest error and gap, and all that tie with it: the same as printed, or a paired "
    "difference over seeds whose 95 % interval reaches zero. Errors below 0.0001 are counts over "
    "all problems and seeds."
)
IQM_REMARK = (
    "The interquartile mean (IQM) leaves out the best and the worst quarter of the seeds in each "
    "problem, then averages over problems; its 95 % interval is a bootstrap's over seeds."
)
DECIMALS_BY_COLUMN = {"policy_error": 4, "value_gap": 3}  # decimals printed, by column


def format_plus_minus(mean: float, std: float, digits: int) -> str:
    return f"{mean:.{digits}f}" + ("" if math.isnan(std) else f" ± {std:.{digits}f}")


def _format_ours(row: TableRow, column: str) -> str:
    """Mean and deviation; a count, or a bound, where these would print as zero."""
    summary: Summary = getattr(row, column)
    digits = DECIMALS_BY_COLUMN[column]
    if row.errors and summary.mean >= 10.0**-digits:
        return format_plus_minus(summary.mean, summary.std, digits)
    if column == "policy_error":
        return f"{counted(row.errors, 'error') if row.errors else 'no error'} in {row.decisions:,}"
    return _format_bound(digits) if row.errors else "exact"


def _format_bound(digits: int) -> str:
    """``< 0.001``, for a positive number that prints as zero."""
    return f"< {10.0**-digits:.{digits}f}"


def format_interval(row: TableRow, column: str) -> str:
    """Interquartile mean and interval, where the method has several seeds."""
    summary: Summary = getattr(row, column)
    digits = DECIMALS_BY_COLUMN[column]
    if row.errors == 0:
        return "exact"
    if summary.iqm < 0.5 * 10.0**-digits:
        return _format_bound(digits)
    if math.isnan(summary.low):
        return f"{summary.iqm:.{digits}f}"
    return f"{summary.iqm:.{digits}f} [{summary.low:.{digits}f}, {summary.high:.{digits}f}]"


def format_ratio(value: float) -> str:
    if math.isnan(value):
        return "–"
    return "< 0.01" if 0 < value < 0.01 else f"{value:.2f}"


def format_seconds(value: float) -> str:
    return f"{value:.4f}" if value < 0.01 else f"{value:.3f}"


MAIN_HEAD = (
    *("Method", "Policy error", "paper", "ratio", "Value gap", "paper", "ratio"),
    *("Train (s)", "paper", "Size", "paper"),
)


def main_cells(row: TableRow) -> list[str]:
    """A row of the main table."""
    if not row.has_runs:
        return [row.marked_title, *["–"] * (len(MAIN_HEAD) - 1)]
    paper = row.published
    return [
        row.marked_title,
        *_compared_cells(row, "policy_error"),
        *_compared_cells(row, "value_gap"),
        format_seconds(row.seconds),
        f"{paper.seconds:.3f}" if paper else "–",
        f"{row.size:,}",
        f"{paper.size:,}" if paper else "–",
    ]


def _compared_cells(row: TableRow, column: str) -> list[str]:
    """Ours, the paper's and the ratio."""
    published_cell = "–"
    if row.published:
        published_cell = format_plus_minus(
            getattr(row.published, column),
            getattr(row.published, f"{column}_std"),
            DECIMALS_BY_COLUMN[column],
        )
    return [_format_ours(row, column), published_cell, format_ratio(row.ratio(column))]


CELL_INDEX_BY_COLUMN = {"policy_error": 1, "value_gap": 4}  # in MAIN_HEAD


def find_bold_cells(row: TableRow) -> list[int]:
    """Which of ``main_cells`` are bold."""
    return [index for column, index in CELL_INDEX_BY_COLUMN.items() if column in row.best]


def _format_bold(row: TableRow, template: str, cells: Iterable[str]) -> list[str]:
    bold_cells = find_bold_cells(row)
    return [
        template.format(cell) if index in bold_cells else cell for index, cell in enumerate(cells)
    ]


INFORMATION_HEAD = (
    *("Method", "Policy error, IQM [95\u00a0%]", "Value gap, IQM [95\u00a0%]"),
    *("Mean loss", "Worst loss"),
    *("Labels", "Margins", "Backups behind them", "Simulator calls"),
)


def information_cells(row: TableRow) -> list[str]:
    """Robust figures, exact losses, and the information that the method was given."""
    if not row.has_runs:
        return [row.marked_title, *["–"] * (len(INFORMATION_HEAD) - 1)]
    return [
        row.marked_title,
        format_interval(row, "policy_error"),
        format_interval(row, "value_gap"),
        f"{row.mean_loss.mean:.3g}",
        f"{row.worst_loss:.3g}",
        *(f"{getattr(row, name):,.0f}" for name in INFORMATION_COLUMNS),
    ]


def describe_incomplete(table: Sequence[TableRow]) -> str:
    """A caution about a table with failed runs; empty when it is complete."""
    if not any(row.missing_runs.note for row in table):
        return ""
    return (
        "Runs have failed: a note after a method says what its row lacks. Its averages are over "
        "the seeds that finished in every problem left."
    )


def describe_intervals(table: Sequence[TableRow]) -> str:
    """A caution about intervals over few seeds; empty when there are enough."""
    planned_seeds = max((row.missing_runs.planned_seeds for row in table), default=0)
    complete_rows = [
        row for row in table if row.has_runs and row.missing_runs.planned_seeds == planned_seeds
    ]
    return describe_interval_caution(
        min((row.policy_error.seeds for row in complete_rows), default=planned_seeds)
    )


def to_markdown(table: Sequence[TableRow], findings: Sequence[Finding] = ()) -> str:
    """The claims, then for each family the main table and the information that methods use."""
    seeds = max((row.missing_runs.planned_seeds for row in table), default=0)
    parts = [
        "# Our results and the paper's",
        "Written by `tessella paper`. Averages over a family's problems at the largest n: mean ± "
        f"standard deviation over {counted(seeds, 'seed')}. Ratios are ours over the paper's. "
        f"{BOLD_REMARK}",
        *filter(None, [describe_incomplete(table), describe_intervals(table)]),
        *_format_claims(findings),
    ]
    for family in dict.fromkeys(row.family for row in table):
        family_rows = [row for row in table if row.family == family]
        paper_cells = [
            _format_bold(r, "**{}**", main_cells(r)) for r in family_rows if r.group != "reference"
        ]
        parts += [f"## {FAMILY_TITLES[family]}", _format_grid(MAIN_HEAD, paper_cells)]
        parts += [
            f"Robust means, exact losses, and the information used by each method. {IQM_REMARK}",
            _format_grid(INFORMATION_HEAD, [information_cells(row) for row in family_rows]),
        ]
    return "\n\n".join(parts) + "\n"


def _format_claims(findings: Sequence[Finding]) -> list[str]:
    """A heading, the tally and a table; nothing where there are no claims."""
    cells = [[f.claim, f.place, f.verdict, f.evidence] for f in findings]
    if not cells:
        return []
    head = ("Claim", "In the paper", "Here", "Evidence")
    return [
        "## The paper's claims",
        f"{tally_verdicts(findings)}. {VERDICT_REMARK}",
        _format_grid(head, cells, ":---"),
    ]


def _format_grid(
    head: Sequence[str], body: Sequence[Sequence[str]], alignment: str = "---:"
) -> str:
    lines = [head, ["---"] + [alignment] * (len(head) - 1), *body]
    escaped = ([cell.replace("|", r"\|") for cell in cells] for cells in lines)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in escaped)


def flatten_row(row: TableRow) -> dict[str, str | float | int]:
    """All numbers of a row by column, for CSV."""
    cells = {name: getattr(row, name) for name in ("family", "method", "title", "group", "n")}
    cells |= {"seeds": row.policy_error.seeds, "note": row.missing_runs.note}
    cells |= {"decisions": row.decisions, "errors": row.errors}
    for column in ("policy_error", "value_gap", "mean_loss"):
        summary: Summary = getattr(row, column)
        for part in ("mean", "std", "iqm", "low", "high"):
            cells[f"{column}_{part}"] = getattr(summary, part)
    for column in ("worst_loss", "seconds", "size", *INFORMATION_COLUMNS):
        cells[column] = getattr(row, column) if row.has_runs else math.nan
    for part in fields(PublishedRow):
        value = getattr(row.published, part.name) if row.published else math.nan
        cells[f"paper_{part.name}"] = value
    for column in ("policy_error", "value_gap"):
        cells[f"{column}_ratio"] = row.ratio(column)
    return cells


def to_csv(table: Sequence[TableRow]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, list(flatten_row(table[0])) if table else [], lineterminator="\n")
    writer.writeheader()
    for row in table:
        cells = flatten_row(row)
        # Only nan differs from itself.
        writer.writerow({k: v if v == v else "" for k, v in cells.items()})
    return file.getvalue()


def to_latex(table: Sequence[TableRow]) -> str:
    """A booktabs table of the paper's methods, ours and the paper's numbers."""
    column = r"ours & IQM [95\,\%] & paper & ratio"
    lines = [
        *(f"% {text}" for text in (describe_incomplete(table), describe_intervals(table)) if text),
        r"\begin{tabular}{llrrrrrrrr}",
        r"\toprule",
        r" & & \multicolumn{4}{c}{Policy error} & \multicolumn{4}{c}{Value gap} \\",
        r"\cmidrule(lr){3-6}\cmidrule(lr){7-10}",
        rf"Family & Method & {column} & {column} \\",
    ]
    for family in dict.fromkeys(row.family for row in table):
        lines.append(r"\midrule")
        family_rows = [r for r in table if r.family == family and r.group != "reference"]
        for index, row in enumerate(family_rows):
            name = FAMILY_TITLES[family] if index == 0 else ""
            lines.append(" & ".join([name, *_tex_cells(row)]) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _tex_cells(row: TableRow) -> list[str]:
    """Mean, interquartile mean, the paper's and the ratio, for error and gap."""
    cells = _format_bold(row, r"\textbf{{{}}}", map(_escape_tex, main_cells(row)))
    title_cell, error, paper_error, error_ratio, gap, paper_gap, gap_ratio = cells[:7]
    iqm = [_escape_tex(cell) for cell in information_cells(row)[1:3]]
    return [title_cell, error, iqm[0], paper_error, error_ratio, gap, iqm[1], paper_gap, gap_ratio]


_TEX_ESCAPES = {
    **{character: f"\\{character}" for character in "_&#%${}"},
    **{"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"},
    **{"±": r"$\pm$", "×": r"$\times$", "–": "--", "<": "$<$"},
}


def _escape_tex(cell: str) -> str:
    return cell.translate(str.maketrans(_TEX_ESCAPES))
