"""The gallery: a picture, what theory says and a rule for every problem of the zoo, of today."""

from __future__ import annotations

import runpy

from support.pages import DOCS

import tessella as ts
from tessella.problems.registry import ZOO_PROBLEMS

SCRIPT = runpy.run_path(str(DOCS.parent / "scripts" / "gallery.py"))
RULES = DOCS / "generated" / "rules"
SEARCHED = [problem for problem in ZOO_PROBLEMS if problem.name not in SCRIPT["TOO_LARGE"]]


def test_the_page_is_what_records_and_kept_rules_say():
    assert (DOCS / "gallery.md").read_text() == SCRIPT["page"]()


def test_every_problem_of_the_zoo_stands_in_one_group_and_has_a_picture():
    listed = [name for names in SCRIPT["GROUPS"].values() for name in names]
    assert sorted(listed) == sorted(problem.name for problem in ZOO_PROBLEMS)
    assert [name for name in listed if not (DOCS / SCRIPT["shot"](name)).is_file()] == []


def test_every_rule_is_of_the_model_of_today_and_within_the_promise():
    for problem in SEARCHED:
        facts = ts.Rule.load(RULES / f"{problem.name}.json").facts
        assert facts["fingerprint"] == problem.build().fingerprint, problem.name
        assert facts["relative_loss"] <= facts["promised"] == SCRIPT["PROMISE"]


def test_a_kept_rule_loses_no_more_than_the_page_says():
    solution = ts.solve(ts.problem("system_administrator").build())  # a table: nothing is compiled
    rule = ts.Rule.load(RULES / "system_administrator.json")
    assert ts.loss(solution, rule).mean <= rule.facts["mean_loss"] + 1e-9
