"""The problem gallery: a page for each problem, from its record, its notes and its kept rule."""

from __future__ import annotations

import re
import runpy

import pytest
from support.pages import DOCS

import tessella as ts
from tessella.problems.registry import PUBLISHED_PROBLEMS

SCRIPT = runpy.run_path(str(DOCS.parent / "scripts" / "gallery.py"))
RULES = DOCS / "generated" / "rules"
SEARCHED = [problem for problem in PUBLISHED_PROBLEMS if problem.name not in SCRIPT["TOO_LARGE"]]


@pytest.mark.parametrize("problem", PUBLISHED_PROBLEMS, ids=lambda problem: problem.name)
def test_the_page_of_a_problem_is_what_its_record_and_its_kept_rule_say(problem):
    """`python scripts/gallery.py --pages` writes it."""
    assert (DOCS / "gallery" / f"{problem.name}.md").read_text() == SCRIPT["render_page"](
        problem.name
    )


def test_the_cards_show_every_problem():
    assert SCRIPT["render_cards"]().strip() in (DOCS / "gallery.md").read_text()


def test_every_problem_is_in_one_group_and_has_pictures_and_notes():
    listed = [name for names in SCRIPT["GROUPS"].values() for name in names]
    assert sorted(listed) == sorted(problem.name for problem in PUBLISHED_PROBLEMS)
    assert sorted(listed) == sorted(SCRIPT["read_notes"]())
    assert [
        name for name in listed if not (DOCS / SCRIPT["get_picture_path"](name)).is_file()
    ] == []
    dashed = [name.replace("_", "-") for name in listed]
    assert [n for n in dashed if not (DOCS / "images" / f"map-{n}.svg").is_file()] == []


@pytest.mark.parametrize("name", ["machine_replacement", "two_class_server", "frozen_lake"])
def test_the_program_of_the_pages_runs(name, capsys):
    (program,) = re.findall(r"```python\n(.*?)```", SCRIPT["render_page"](name), re.DOTALL)
    exec(compile(program, name, "exec"), {})
    assert f"Solution({name}: " in capsys.readouterr().out


def test_every_rule_is_of_the_model_of_today_and_within_the_loss_limit():
    for problem in SEARCHED:
        facts = ts.Rule.load(RULES / f"{problem.name}.json").facts
        assert facts["fingerprint"] == problem.build().fingerprint, problem.name
        assert facts["relative_loss"] <= facts["loss_limit"] == SCRIPT["LOSS_LIMIT"]


def test_a_looser_rule_is_of_the_model_of_today_and_smaller():
    for name in SCRIPT["LOOSE_PROBLEMS"]:
        loose = ts.Rule.load(SCRIPT["get_loose_path"](name))
        assert loose.facts["fingerprint"] == ts.problem(name).build().fingerprint, name
        assert (
            loose.facts["relative_loss"] <= loose.facts["loss_limit"] == SCRIPT["LOOSE_LOSS_LIMIT"]
        )
        assert loose.size < ts.Rule.load(RULES / f"{name}.json").size


def test_one_page_has_twenty_rules_that_are_shown_whole():
    page = SCRIPT["TWENTY_RULES"].read_text()
    assert page == SCRIPT["render_twenty_rules"]()
    assert page.count("\n## ") == 20
    assert "..." not in page


def test_a_kept_rule_loses_no_more_than_the_page_says():
    solution = ts.solve(ts.problem("system_administrator").build())  # a table: nothing is compiled
    rule = ts.Rule.load(RULES / "system_administrator.json")
    assert ts.loss(solution, rule).mean <= rule.facts["mean_loss"] + 1e-9
