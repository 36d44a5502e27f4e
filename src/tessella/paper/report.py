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
from tessella.paper.conclusions import conclusions, tally
from tessella.paper.differences import differences
from tessella.paper.limits import limits
from tessella.paper.plan import paper_study
from tessella.paper.readings import effort, title
from tessella.paper.results import Results
from tessella.paper.table import (
    BOLD,
    MAIN_HEAD,
    TOLD_HEAD,
    Row,
    best_cells,
    incomplete,
    intervals,
    main_cells,
    told_cells,
)
from tessella.problems.benchmarks import BENCHMARKS
from tessella.runner.pace import clock
from tessella.runner.record import Record
from tessella.runner.study import Study

SHOWN = 20  # failures that are listed


@dataclass(frozen=True)
class Drawn:
    """A figure as two SVG files, for a page and for a phone."""

    name: str
    title: str
    says: str
    wide: bytes
    narrow: bytes

    @property
    def sources(self) -> dict[str, str]:
        return {"wide": _uri(self.wide), "narrow": _uri(self.narrow)}


def report(results: Results, table: Sequence[Row], drawn: Sequence[Drawn]) -> str:
    """The whole page."""
    environment = Environment(
        loader=PackageLoader("tessella.paper"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    findings = conclusions(results)
    return environment.get_template("report.html.j2").render(
        paper=published,
        extent=_extent(results),
        findings=findings,
        tally=tally(findings),
        families=[_family(family, list(of)) for family, of in groupby(table, lambda r: r.family)],
        main_head=MAIN_HEAD,
        told_head=TOLD_HEAD,
        seeds=results.study.seeds,
        bold=BOLD,
        incomplete=incomplete(table),
        intervals=intervals(table),
        margins=any(row.margins > 0 for row in table),
        compared=results.compared,
        effort=effort(results),
        figures=drawn,
        geometry=_geometry(results),
        certificates=_certificates(results),
        shown=results.representative,
        differences=differences(table),
        limits=limits(results, list(table)),
        settings=_settings(results),
        contexts=results.contexts,
        failed=[(str(r.spec), r.reason) for r in results.failed[:SHOWN]],
    )


def _extent(results: Results) -> dict[str, Any]:
    study = results.study
    known = [m for m in study.methods if m in published.METHODS]
    seconds = sum(session["seconds"] or 0.0 for session in results.sessions)
    return {
        "runs": len(results.records),
        "paper_runs": sum(r.spec.method in known for r in results.records),
        "failed": len(results.failed),
        "problems": len(study.problems),
        "methods": [title(m) for m in study.methods],
        "sizes": study.sizes,
        "seeds": study.seeds,
        "clock": clock(seconds),
        "clock_unit": "hours" if round(seconds) >= 3600 else "minutes",
        "sessions": len(results.sessions),
        "whole": _whole(results),
        "command": command(study),
    }


def command(study: Study) -> str:
    """What runs this study again; what it leaves out is the default."""
    usual = paper_study()
    lists = {
        "methods": (study.methods, usual.methods),
        "problems": (study.problems, usual.problems),
        "sizes": (study.sizes, usual.sizes),
    }
    given = [
        f" --{option} {shlex.quote(','.join(map(str, asked)))}"
        for option, (asked, default) in lists.items()
        if asked != default
    ]
    return f"tessella paper --seeds {study.seeds}{''.join(given)}"


def _whole(results: Results) -> bool:
    """Whether the study has the paper's protocol."""
    study = results.study
    return (
        study.seeds >= published.SEEDS
        and set(BENCHMARKS) <= set(study.problems)
        and set(published.SIZES) <= set(study.sizes)
        and set(published.METHODS) <= set(study.methods)
    )


def _family(family: str, of: list[Row]) -> dict[str, Any]:
    return {
        "title": published.FAMILIES[family],
        "main": [_shown(r, main_cells(r), best_cells(r)) for r in of if r.group != "reference"],
        "told": [_shown(r, told_cells(r), []) for r in of],
    }


def _shown(row: Row, cells: list[str], best: list[int]) -> dict[str, Any]:
    """Title and note apart: a phone has no room for them side by side."""
    cells = [row.title, *cells[1:]]
    return {"cells": cells, "note": row.gaps.note, "group": row.group, "best": best}


def _certificates(results: Results) -> list[tuple[str, str, list[str]]]:
    """The first run of every compared method on the representative problem, in plain words.

    Each is (title, what it gives away, paragraphs).
    """
    solution = results.solutions[results.representative]
    found: dict[str, Record] = {}
    for record in results.done:
        spec = record.spec
        if (spec.environment, spec.n) == (results.representative, results.asked[spec.method].n):
            found.setdefault(spec.method, record)
    told = []
    for method in results.group("boundary", "value"):
        if method in found:
            table = found[method].actions.reshape(solution.value.shape)
            given = certify(solution, solution.mdp.policy(table, name=title(method)))
            loss = f"loses {given.mean_loss:.4g} on average, {given.worst_loss:.4g} at worst"
            told.append((title(method), loss, given.paragraphs()))
    return told


def _geometry(results: Results) -> list[list[str]]:
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


def _settings(results: Results) -> list[tuple[str, str]]:
    found = {}
    for spec in results.study.specs:
        found.setdefault(spec.method, dict(spec.settings))
    return [(title(m), _words(settings)) for m, settings in found.items()]


def _words(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {_word(value)}" for name, value in settings.items()) or "none"


def _word(value: Any) -> str:
    if value is None:
        return "default"
    if isinstance(value, dict):
        inside = ", ".join(f"{k} {_word(v)}" for k, v in value.items() if k != "kind")
        return f"{value.get('kind', '')} ({inside})".strip() if inside else value.get("kind", "")
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:g}"
    return json.dumps(value) if isinstance(value, list) else str(value)


def _uri(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
