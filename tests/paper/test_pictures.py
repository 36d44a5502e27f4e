"""Figures 1 and 2 are drawn in one place: the pictures of the docs are those of the report."""

from __future__ import annotations

import runpy
from pathlib import Path

from tessella.paper.figures import FIGURES

SCRIPT = Path(__file__).parents[2] / "scripts" / "figures.py"


def test_the_pictures_of_the_docs_are_drawn_as_the_report_draws_them(monkeypatch):
    script = runpy.run_path(str(SCRIPT))
    drawn = {picture.name: picture.draw for picture in FIGURES}
    for name, function, own in (
        ("figure-1", "figure_1", "draw_policies"),
        ("figure-2", "figure_2", "draw_landscape"),
    ):
        assert script[own] is drawn[name]
        monkeypatch.setitem(script[function].__globals__, own, lambda results, narrow: results)
        results = script[function]()
        assert results.representative == "INV-Mix"
        assert len(results.study.problems) == (11 if name == "figure-1" else 1)
