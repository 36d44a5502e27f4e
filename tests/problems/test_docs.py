"""The page about problems: its programs run, and its table is right."""

from __future__ import annotations

from support.pages import DOCS, check_page

from tessella.problems import registry


def test_the_examples_of_the_page_are_true(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    check_page("gallery.md", at_least=9)


def test_every_published_problem_is_in_the_table_with_its_states():
    page = (DOCS / "gallery.md").read_text()
    for problem in registry.PUBLISHED_PROBLEMS:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{problem.name}` |")]
        assert f"{problem.build().n_states:,}" in row.split("|")[3]
