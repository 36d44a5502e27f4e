"""The examples of the page on rules."""

from __future__ import annotations

from support.pages import check_page


def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    check_page("rules.md")
