"""The report and the other files that a study leaves in its folder, written from the store.

table.md, table.csv, table.tex     ours next to the paper's
figures/*.svg, *.png               the paper's figures, and loss against information, for a page
figures/*-column.svg, *.pdf        the same for a column of a two-column paper
records.parquet                    every run, with its policy
report.html                        all of it in one file
"""

from __future__ import annotations

import base64
import io
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib import rc_context
from matplotlib.figure import Figure

from tessella.certificates.certify import certify
from tessella.files import atomic_write
from tessella.paper import published
from tessella.paper.claims import (
    VERDICT_REMARK,
    Finding,
    check_claims,
    count_reproduced,
    tally_verdicts,
)
from tessella.paper.derived_numbers import describe_effort, method_title
from tessella.paper.figures import COLUMN_STYLE, FIGURE_STYLE, FIGURES, FigureSpec
from tessella.paper.limits import describe_differences, describe_limits
from tessella.paper.published import paper_study
from tessella.paper.results import PaperResults
from tessella.paper.table import (
    BOLD_REMARK,
    INFORMATION_HEAD,
    IQM_REMARK,
    MAIN_HEAD,
    TableRow,
    describe_incomplete,
    describe_intervals,
    find_bold_cells,
    information_cells,
    main_cells,
    make_rows,
    to_csv,
    to_latex,
    to_markdown,
)
from tessella.problems.registry import BENCHMARKS
from tessella.runner.record import records_to_parquet
from tessella.runner.study import Study
from tessella.support.progress import ProgressDisplay

LISTED_MAX_FAILURES = 20  # failures that are listed
PNG_DOTS_PER_INCH = 200
FIGURE_FORMS = {"": ("svg", "png"), "-column": ("svg", "pdf")}  # by the ending of the width
# Without dates and versions the same results give the same bytes.
LEFT_OUT_METADATA = {
    "svg": ("Date", "Creator"),
    "png": ("Software",),
    "pdf": ("CreationDate", "Creator", "Producer"),
}
OUTPUT_TASK = "Tables, figures, report"


@dataclass(frozen=True)
class RenderedFigure:
    """A figure as two SVG images in data URIs, for a page and for a column or a phone."""

    name: str
    title: str
    description: str
    wide: str
    narrow: str


def render_report(
    results: PaperResults,
    table: Sequence[TableRow],
    findings: Sequence[Finding],
    rendered: Sequence[RenderedFigure],
) -> str:
    """The whole page."""
    environment = Environment(
        loader=PackageLoader("tessella.paper"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    settings = {spec.method: spec.settings for spec in results.study.specs}
    return environment.get_template("report.html.j2").render(
        paper=published,
        extent=_describe_extent(results),
        findings=findings,
        tally=tally_verdicts(findings),
        reproduced=count_reproduced(findings),
        verdicts=VERDICT_REMARK,
        families=[
            _family_tables(family, list(rows))
            for family, rows in groupby(table, lambda r: r.family)
        ],
        main_head=MAIN_HEAD,
        information_head=INFORMATION_HEAD,
        seeds=results.study.seeds,
        bold=BOLD_REMARK,
        iqm=IQM_REMARK,
        incomplete=describe_incomplete(table),
        intervals=describe_intervals(table),
        margins=any(row.margins > 0 for row in table),
        compared=results.has_comparison,
        effort=describe_effort(results),
        figures=rendered,
        geometry=_geometry_cells(results),
        certificates=_describe_certificates(results),
        shown=results.representative,
        differences=describe_differences(table),
        limits=describe_limits(results, list(table)),
        settings=[(method_title(m), _format_settings(s) or "none") for m, s in settings.items()],
        contexts=results.contexts,
        failed=[(str(r.spec), r.reason) for r in results.failed[:LISTED_MAX_FAILURES]],
    )


def _describe_extent(results: PaperResults) -> dict[str, Any]:
    study = results.study
    paper_methods = [m for m in study.methods if m in published.PAPER_METHODS]
    seconds = sum(session["seconds"] or 0.0 for session in results.sessions)
    return {
        "runs": len(results.records),
        "paper_runs": sum(r.spec.method in paper_methods for r in results.records),
        "failed": len(results.failed),
        "problems": len(study.problems),
        "methods": [method_title(m) for m in study.methods],
        "sizes": study.sizes,
        "seeds": study.seeds,
        "run_time": _format_run_time(seconds),
        "sessions": len(results.sessions),
        "whole": _has_paper_protocol(results),
        "command": format_command(study),
    }


def _format_run_time(seconds: float) -> str:
    """``5 min 26 s``, or ``1 h 2 min``."""
    minutes, seconds_part = divmod(round(seconds), 60)
    hours, minutes_part = divmod(minutes, 60)
    return f"{hours} h {minutes_part} min" if hours else f"{minutes} min {seconds_part} s"


def format_command(study: Study) -> str:
    """The command that runs this study again; options with default values are left out."""
    default_study = paper_study()
    lists = {
        "methods": (study.methods, default_study.methods),
        "problems": (study.problems, default_study.problems),
        "sizes": (study.sizes, default_study.sizes),
    }
    options = [
        f" --{option} {shlex.quote(','.join(map(str, chosen)))}"
        for option, (chosen, default) in lists.items()
        if chosen != default
    ]
    return f"tessella paper --seeds {study.seeds}{''.join(options)}"


def _has_paper_protocol(results: PaperResults) -> bool:
    study = results.study
    return (
        study.seeds >= published.PAPER_SEEDS
        and set(BENCHMARKS) <= set(study.problems)
        and set(published.PAPER_SIZES) <= set(study.sizes)
        and set(published.PAPER_METHODS) <= set(study.methods)
    )


def _family_tables(family: str, rows: list[TableRow]) -> dict[str, Any]:
    return {
        "title": published.FAMILY_TITLES[family],
        "main": [
            _report_row(r, main_cells(r), find_bold_cells(r))
            for r in rows
            if r.group != "reference"
        ],
        "information": [_report_row(r, information_cells(r), []) for r in rows],
    }


def _report_row(row: TableRow, cells: list[str], best: list[int]) -> dict[str, Any]:
    """Title and note are separate: a phone is too narrow for both on one line."""
    cells = [row.title, *cells[1:]]
    return {"cells": cells, "note": row.missing_runs.note, "group": row.group, "best": best}


def _describe_certificates(results: PaperResults) -> list[tuple[str, str, list[str]]]:
    """The first run of every compared method on the representative problem, in plain words.

    Each is (title, loss, paragraphs).
    """
    solution = results.solutions[results.representative]
    descriptions = []
    for method in results.finished_methods("boundary", "value"):
        records = results.final_records(results.representative, method)
        if not records:
            continue
        title = method_title(method)
        table = records[0].actions.reshape(solution.value.shape)
        certificate = certify(solution, solution.mdp.policy(table, name=title))
        worst = f"{certificate.worst_loss:.4g} at worst"
        loss = f"loses {certificate.mean_loss:.4g} on average, {worst}"
        descriptions.append((title, loss, certificate.paragraphs()))
    return descriptions


def _geometry_cells(results: PaperResults) -> list[list[str]]:
    return [
        [
            label,
            f"{g.boundary_length:.4f}",
            f"{g.boundary_fraction:.4f}",
            str(g.boundary_components),
            str(g.region_components),
            f"{g.corner_index:.3f}",
            f"{results.solutions[label].margin.min():.4f}",
        ]
        for label, g in results.geometry.items()
    ]


def _format_settings(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {_format_setting(value)}" for name, value in settings.items())


def _format_setting(value: Any) -> str:
    if value is None:
        return "default"
    if isinstance(value, dict):
        kind = value.get("kind", "")
        contents = _format_settings({k: v for k, v in value.items() if k != "kind"})
        return f"{kind} ({contents})".strip() if contents else kind
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:g}"
    return json.dumps(value) if isinstance(value, list) else str(value)


def write_outputs(results: PaperResults, folder: Path, display: ProgressDisplay) -> list[Path]:
    """Write all outputs and return their files.

    Figures that need runs which the study does not have are left out; those of an earlier study in
    the same folder are removed.
    """
    n_figures = sum(_can_draw(figure_spec, results) for figure_spec in FIGURES)
    display.add_task(OUTPUT_TASK, n_figures + 3, n_figures + 3.0)
    table = make_rows(results)
    findings = check_claims(results)
    forms = {
        "table.md": partial(to_markdown, findings=findings),
        "table.csv": to_csv,
        "table.tex": to_latex,
    }
    files = [write_file(folder / name, form(table).encode()) for name, form in forms.items()]
    display.advance(OUTPUT_TASK, 1, 1.0)
    files.append(write_file(folder / "records.parquet", records_to_parquet(results.records)))
    display.advance(OUTPUT_TASK, 1, 1.0)
    figure_folder = folder / "figures"
    with suppress(OSError):  # writing a figure reports the error
        figure_folder.mkdir(exist_ok=True)
    rendered = []
    for figure_spec in FIGURES:
        if _can_draw(figure_spec, results):
            rendered.append(_draw_figure(results, figure_spec, figure_folder))
            files += _figure_paths(figure_spec, figure_folder)
            display.advance(OUTPUT_TASK, 1, 1.0)
        else:
            for path in _figure_paths(figure_spec, figure_folder):
                path.unlink(missing_ok=True)
    page = render_report(results, table, findings, rendered)
    files.append(write_file(folder / "report.html", page.encode()))
    display.advance(OUTPUT_TASK, 1, 1.0)
    return files


def _can_draw(figure_spec: FigureSpec, results: PaperResults) -> bool:
    return results.has_comparison or not figure_spec.needs_runs


def write_file(path: Path, content: bytes) -> Path:
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)
    return path


def _figure_paths(figure_spec: FigureSpec, folder: Path) -> list[Path]:
    """The files of a figure: of a page's width, then of a column's."""
    endings = [f"{width}.{form}" for width, forms in FIGURE_FORMS.items() for form in forms]
    return [folder / f"{figure_spec.name}{ending}" for ending in endings]


def _draw_figure(results: PaperResults, figure_spec: FigureSpec, folder: Path) -> RenderedFigure:
    images = []
    for width, style in (("", FIGURE_STYLE), ("-column", COLUMN_STYLE)):
        with rc_context(style):
            figure = figure_spec.draw(results, width == "-column")
            content = {form: render_image(figure, form) for form in FIGURE_FORMS[width]}
        for form, image in content.items():
            write_file(folder / f"{figure_spec.name}{width}.{form}", image)
        encoded = base64.b64encode(content["svg"]).decode()
        images.append(f"data:image/svg+xml;base64,{encoded}")
    name, title = figure_spec.name, figure_spec.title
    return RenderedFigure(name, title, figure_spec.describe(results), *images)


def render_image(figure: Figure, form: str) -> bytes:
    """The figure as the bytes of a file: ``svg``, ``png`` or ``pdf``."""
    file = io.BytesIO()
    metadata: dict[str, Any] = dict.fromkeys(LEFT_OUT_METADATA[form])
    figure.savefig(file, format=form, dpi=PNG_DOTS_PER_INCH, metadata=metadata)
    return file.getvalue()
