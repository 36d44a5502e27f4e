"""The page about deploying says what is so, and the example of perishable stock runs to its end."""

from __future__ import annotations

import runpy
from pathlib import Path

from support.pages import check_page

from tessella.rules.export.export import FORMATS

ROOT = Path(__file__).parents[3]


def test_the_examples_of_the_page_are_true(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_page("deploying.md")


def test_the_page_lists_every_ending():
    page = (ROOT / "docs" / "deploying.md").read_text()
    assert [t.suffix for t in FORMATS if f"| `{t.suffix}` |" not in page] == []


def test_perishable_stock_goes_from_model_to_checked_code(tmp_path, capfd):
    main = runpy.run_path(str(ROOT / "examples" / "perishable.py"))["main"]
    main(tmp_path, seconds=1.0)
    said = capfd.readouterr().out
    assert "reorder.c: C99, agrees in all 121 states" in said
    assert "reorder.sql: SQL, agrees in all 121 states" in said
    assert 'END AS "order"' in said
    assert "HOLDS: perishable" in said
