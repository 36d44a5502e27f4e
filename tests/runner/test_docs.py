"""The page about studies: its programs run and print what it shows."""

from __future__ import annotations

from support.pages import DOCS, check_page

from tessella.problems import registry
from tessella.runner import methods
from tessella.runner import study as studies


def test_the_examples_of_the_page_are_true(monkeypatch):
    for module in (registry, methods, studies):
        monkeypatch.setattr(module, "_registered", {})
    monkeypatch.chdir(DOCS.parent)  # where the records of the full study are
    check_page("study.md", at_least=16)
