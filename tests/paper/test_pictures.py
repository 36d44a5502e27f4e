"""Pictures of the docs are drawn in one place, as the report draws them, and are not stale."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from matplotlib import rc_context

from tessella.paper.figures import FIGURE_STYLE, FIGURES
from tessella.paper.report import render_image

ROOT = Path(__file__).parents[2]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "figures.py"))


def test_the_pictures_of_the_docs_are_drawn_as_the_report_draws_them(monkeypatch):
    drawn = {picture.name: picture.draw for picture in FIGURES}
    for name, own, count in (
        ("figure-1", "draw_policies", 11),
        ("figure-2", "draw_landscape", 1),
        ("figure-4", "draw_scaling", 11),
    ):
        assert SCRIPT[own] is drawn[name]
        draw = SCRIPT["FIGURES"][name]
        monkeypatch.setitem(draw.__globals__, own, lambda results, narrow: results)
        results = draw()
        assert results.representative == "INV-Mix"
        assert len(results.study.problems) == count


def split_numbers(svg: str) -> tuple[str, list[float]]:
    """The text of a drawing without its numbers and images, and the numbers."""
    text = re.sub(r'base64,[^"]*', "", svg)
    number = r"-?\d+\.\d+(?:e-?\d+)?"
    return re.sub(number, "#", text), [float(found) for found in re.findall(number, text)]


@pytest.mark.parametrize("name", SCRIPT["FIGURES"])
def test_no_picture_is_stale(name):
    """Otherwise: python scripts/figures.py. Last digits may differ from processor to processor."""
    with rc_context(FIGURE_STYLE):
        now = render_image(SCRIPT["FIGURES"][name](), "svg").decode()
    text, numbers = split_numbers(now)
    stored_text, stored = split_numbers((ROOT / "docs" / "images" / f"{name}.svg").read_text())
    assert text == stored_text
    np.testing.assert_allclose(numbers, stored, atol=0.01)
