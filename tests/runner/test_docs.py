"""The page about comparisons says what is so."""

from __future__ import annotations

from support.pages import check_page

from tessella.problems import registry
from tessella.runner import methods
from tessella.runner import study as studies


def test_the_examples_of_the_page_are_true(monkeypatch):
    for module in (registry, methods, studies):
        monkeypatch.setattr(module, "_registered", {})
    check_page("comparisons.md")
