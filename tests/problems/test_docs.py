"""The page about problems says what is so."""

from __future__ import annotations

from support.pages import check_page

from tessella.problems import registry


def test_the_examples_of_the_page_are_true(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    check_page("problems.md")
