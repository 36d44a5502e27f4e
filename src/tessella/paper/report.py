"""The report: one HTML file that opens anywhere, without a network."""

from __future__ import annotations

import base64
import json
import math
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from tessella.certificates.certify import certify
from tessella.paper import published
from tessella.paper.conclusions import check_conclusions, count_reproduced
from tessella.paper.derived_numbers import describe_effort, method_title
from tessella.paper.differences import describe_differences
from tessella.paper.paper_study import paper_study
from tessella.paper.results import PaperResults
from tessella.paper.table import (
    BOLD_REMARK,
    INFORMATION_HEAD,
    MAIN_HEAD,
    TableRow,
    describe_incomplete,
    describe_intervals,
    find_bold_cells,
    information_cells,
    main_cells,
)
from tessella.paper.where_boundary_loses import describe_limits
from tessella.problems.benchmarks import BENCHMARKS
from tessella.runner.record import Record
from tessella.runner.study import Study
from tessella.runner.throughput import format_duration

LISTED_MAX_FAILURES = 20  # failures that are listed


@dataclass(frozen=True)
class RenderedFigure:
    """A figure as two SVG files, for a page and for a phone."""

    name: str
    title: str
    says: str
    wide: bytes
    narrow: bytes

    @property
    def sources(self) -> dict[str, str]:
        return {"wide": _to_data_uri(self.wide), "narrow": _to_data_uri(self.narrow)}


def render_report(
    results: PaperResults, table: Sequence[TableRow], rendered: Sequence[RenderedFigure]
) -> str:
    """The whole page."""
    environment = Environment(
        loader=PackageLoader("tessella.paper"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    findings = check_conclusions(results)
    return environment.get_template("report.html.j2").render(
        paper=published,
        extent=_describe_extent(results),
        findings=findings,
        tally=count_reproduced(findings),
        families=[
            _family_tables(family, list(rows))
            for family, rows in groupby(table, lambda r: r.family)
        ],
        main_head=MAIN_HEAD,
        information_head=INFORMATION_HEAD,
        seeds=results.study.seeds,
        bold=BOLD_REMARK,
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
        settings=_settings_by_method(results),
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
        "clock": format_duration(seconds),
        "clock_unit": "hours" if round(seconds) >= 3600 else "minutes",
        "sessions": len(results.sessions),
        "whole": _has_paper_protocol(results),
        "command": format_command(study),
    }


def format_command(study: Study) -> str:
    """What runs this study again; what it leaves out is the default."""
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
    """Whether the study has the paper's protocol."""
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
    """Title and note apart: a phone has no room for them side by side."""
    cells = [row.title, *cells[1:]]
    return {"cells": cells, "note": row.missing_runs.note, "group": row.group, "best": best}


def _describe_certificates(results: PaperResults) -> list[tuple[str, str, list[str]]]:
    """The first run of every compared method on the representative problem, in plain words.

    Each is (title, what it gives away, paragraphs).
    """
    solution = results.solutions[results.representative]
    first_records: dict[str, Record] = {}
    for record in results.done:
        spec = record.spec
        if (spec.problem, spec.n) == (
            results.representative,
            results.planned_runs[spec.method].n,
        ):
            first_records.setdefault(spec.method, record)
    descriptions = []
    for method in results.finished_methods("boundary", "value"):
        if method in first_records:
            table = first_records[method].actions.reshape(solution.value.shape)
            certificate = certify(solution, solution.mdp.policy(table, name=method_title(method)))
            loss = (
                f"loses {certificate.mean_loss:.4g} on average, "
                f"{certificate.worst_loss:.4g} at worst"
            )
            descriptions.append((method_title(method), loss, certificate.paragraphs()))
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


def _settings_by_method(results: PaperResults) -> list[tuple[str, str]]:
    settings_by_method = {}
    for spec in results.study.specs:
        settings_by_method.setdefault(spec.method, dict(spec.settings))
    return [
        (method_title(m), _format_settings(settings)) for m, settings in settings_by_method.items()
    ]


def _format_settings(settings: dict[str, Any]) -> str:
    return (
        ", ".join(f"{name} {_format_setting(value)}" for name, value in settings.items()) or "none"
    )


def _format_setting(value: Any) -> str:
    if value is None:
        return "default"
    if isinstance(value, dict):
        contents = ", ".join(f"{k} {_format_setting(v)}" for k, v in value.items() if k != "kind")
        return (
            f"{value.get('kind', '')} ({contents})".strip() if contents else value.get("kind", "")
        )
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:g}"
    return json.dumps(value) if isinstance(value, list) else str(value)


def _to_data_uri(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
