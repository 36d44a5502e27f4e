"""The README: its programs print what it shows, its pictures are current, its links work."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from support.pages import are_alike

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
README = (ROOT / "README.md").read_text()
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "page_outputs.py"))


README_MAX_LINES = 100
ANIMATION_MAX_BYTES = 1_500_000


def test_the_readme_is_short():
    assert len(README.splitlines()) <= README_MAX_LINES


def test_the_programs_of_the_readme_print_what_it_shows(tmp_path, monkeypatch):
    """`python scripts/page_outputs.py README.md` writes it."""
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    found = list(SCRIPT["PROGRAM"].finditer(README))
    assert len(found) == 2
    for part in found:
        assert are_alike(part["output"], SCRIPT["run_program"](part["program"], names))


def test_the_animation_shows_the_costs_and_the_loss_limit_of_today():
    """`python scripts/animation.py` draws it."""
    script = runpy.run_path(str(ROOT / "scripts" / "animation.py"))
    facts = script["read_facts"](script["IMAGE"])
    assert script["IMAGE"].stat().st_size < ANIMATION_MAX_BYTES
    assert [fact["value"] for fact in facts] == list(script["VALUES"])
    for fact in facts:
        solution = script["solve_setting"](fact["value"])
        assert fact["cost"] == pytest.approx(-solution.mean, abs=0.006)  # two decimals are kept
        assert fact["loss"] <= script["LOSS_LIMIT"]


def test_the_picture_of_the_explorer_shows_the_page_of_today():
    """`python scripts/explorer.py` takes it."""
    script = runpy.run_path(str(ROOT / "scripts" / "explorer.py"))
    assert script["read_hash"](script["IMAGE"]) == script["hash_page"]()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
