"""Which runs a study has, in which batches, and which methods it can name."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from tessella.errors import StudyError
from tessella.paper.published import paper_study
from tessella.problems.registry import BENCHMARKS
from tessella.runner.methods import find_method, package_methods
from tessella.runner.methods.method import UnknownNameError
from tessella.runner.study import make_batches


def test_batches_hold_every_spec_once_and_never_mix_methods_or_dynamics():
    specs = paper_study(seeds=3).specs
    made = make_batches(specs)
    assert Counter(s.key for b in made for s in b) == Counter(s.key for s in specs)
    dynamics = {label: known.build().fingerprint for label, known in BENCHMARKS.items()}
    for batch in made:
        assert len({(dynamics[s.problem], s.method) for s in batch}) == 1


def test_environments_that_differ_only_in_noise_are_one_to_a_baseline_and_three_to_a_learner():
    def labels(method: str) -> list[list[str]]:
        made = make_batches(paper_study(methods=(method,), sizes=(100,), seeds=1).specs)
        return sorted(sorted({s.problem for s in batch}) for batch in made)

    assert ["INV-Mix", "INV-N0", "INV-NH"] in labels("fitted_q")
    assert ["QUE-Mix", "QUE-N0"] in labels("tabular_q")
    assert len(labels("fitted_q")) == 8
    assert len(labels("linear")) == 11


def test_q_learning_of_all_seeds_and_budgets_is_one_batch():
    made = make_batches(paper_study(("INV-Mix",), ("tabular_q",), seeds=4).specs)
    assert [len(batch) for batch in made] == [7 * 4]


def test_the_longest_batches_come_first():
    made = make_batches(paper_study(("INV-Mix",)).specs)
    seconds = [sum(find_method(s.method).seconds(s) for s in batch) for batch in made]
    assert seconds[0] == max(seconds)
    assert sum(seconds[: len(seconds) // 4]) > sum(seconds) / 2


def test_a_changed_setting_changes_only_the_specs_it_touches(monkeypatch):
    def keys() -> dict[str, set[str]]:
        specs = paper_study(("INV-Mix", "QUE-Mix"), ("linear", "local"), (100,), 2).specs
        return {m: {s.key for s in specs if s.method == m} for m in ("linear", "local")}

    before = keys()
    monkeypatch.setitem(package_methods(), "linear", replace(find_method("linear"), edition=9))
    after = keys()
    assert before["local"] == after["local"]
    assert not before["linear"] & after["linear"]


@pytest.mark.parametrize("name", ["lineal", "no_such_module:method", "tessella:nothing"])
def test_an_unknown_method_is_refused(name):
    with pytest.raises(StudyError, match=f"no method is called '{name}'"):
        _ = paper_study(methods=(name,)).specs


def test_a_study_is_the_same_however_it_was_asked_for():
    asked = paper_study(("QUE-Lin", "INV-Mix", "QUE-Lin"), ("local", "local"), (400, 100, 100), 1)
    assert asked == paper_study(("INV-Mix", "QUE-Lin"), ("local",), (100, 400), 1)
    assert len(asked.specs) == 4


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nosuch", "no method is called 'nosuch'; there are linear"),
        ("nosuch:method", "no method is called 'nosuch:method': ModuleNotFoundError"),
        ("math:nosuch", "no method is called 'math:nosuch': AttributeError"),
        (":x", "no method is called ':x': ValueError"),
        (".a:b", "no method is called '.a:b': TypeError"),
        ("math:pi", "'math:pi' is no method: it has no title, group"),
    ],
)
def test_what_is_no_method_is_refused(name, message):
    with pytest.raises(UnknownNameError, match=re.escape(message)):
        paper_study(methods=(name,)).specs  # noqa: B018


def test_a_method_belongs_to_a_known_group(monkeypatch):
    monkeypatch.setattr("tessella.runner.methods.builtin.odd", odd_one(), raising=False)
    with pytest.raises(UnknownNameError, match="must be one of boundary, value, reference"):
        find_method("tessella.runner.methods.builtin:odd")


def odd_one():
    return replace(find_method("linear"), group="best")
