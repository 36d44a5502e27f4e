"""The pages about problems and the zoo say what is so."""

from __future__ import annotations

from support.pages import DOCS, check_page

from tessella.problems import registry


def test_the_examples_of_the_page_are_true(monkeypatch):
    monkeypatch.setattr(registry, "_registered", {})
    check_page("problems.md")


def test_the_examples_of_the_zoo_are_true():
    check_page("zoo.md", at_least=4)


def test_every_problem_of_the_zoo_is_in_the_table_with_its_states_and_has_a_picture():
    page = (DOCS / "zoo.md").read_text()
    for problem in registry.ZOO_PROBLEMS:
        (row,) = [line for line in page.splitlines() if line.startswith(f"| `{problem.name}` |")]
        assert f"{problem.build().n_states:,}" in row.split("|")[3]
        picture = f"images/zoo-{problem.name.replace('_', '-')}.svg"
        assert picture in page
        assert (DOCS / picture).exists()
