"""The pages that a new user follows: what they say is typed and run, and comes out as they say."""

from __future__ import annotations

import shutil

import pytest
from support.pages import DOCS, check_page

PAGES = {
    "start.md": 3,
    "thinking.md": 4,
    "cookbook.md": 12,
    "sharp-bits.md": 5,
    "coming-from.md": 8,
    "tutorials/python.md": 8,
    "tutorials/arrays.md": 22,
}


@pytest.mark.parametrize("page", PAGES)
def test_what_the_page_says_comes_out(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_page(page, at_least=PAGES[page])


def test_a_column_of_demand_becomes_a_rule_with_a_service_level(tmp_path, monkeypatch):
    shutil.copy(DOCS / "tutorials" / "demand.csv", tmp_path)
    monkeypatch.chdir(tmp_path)
    check_page("tutorials/service-levels.md", at_least=16)


def test_the_program_of_the_front_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    check_page("index.md", at_least=0)
    assert "wear" in capsys.readouterr().out
    assert (tmp_path / "replace.sql").is_file()
