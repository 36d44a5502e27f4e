"""What a study runs, and in which batches."""

from __future__ import annotations

from collections import Counter

import pytest

from tessella.errors import StudyError
from tessella.paper import published
from tessella.paper.published import PAPER_METHODS, REFERENCE_METHODS, paper_study
from tessella.problems.registry import BENCHMARKS
from tessella.runner.methods import find_method, package_methods
from tessella.runner.methods.method import get_instance


def test_the_papers_study_is_eleven_problems_seven_methods_seven_sizes_fifteen_seeds():
    specs = paper_study(methods=PAPER_METHODS).specs
    assert len(specs) == 11 * 7 * 7 * 15 == 8085
    assert len({spec.key for spec in specs}) == 8085


def test_references_are_apart_from_the_papers_methods():
    assert paper_study().methods == (*PAPER_METHODS, *REFERENCE_METHODS)
    assert set(paper_study().methods) == set(package_methods())
    assert {find_method(m).group for m in published.PAPER_BOUNDARY_METHODS} == {"boundary"}
    assert {find_method(m).group for m in published.PAPER_VALUE_BASED_METHODS} == {"value"}
    assert {m.group for name, m in package_methods().items() if name not in PAPER_METHODS} == {
        "reference"
    }
    times = Counter(spec.method for spec in paper_study().specs)
    assert times["value_iteration_2"] == times["exact_table"] == 11
    assert times["tabular_q_100"] == times["fitted_q_tuned"] == 11 * 15
    longest = {spec.n for spec in paper_study().specs if spec.method == "tabular_q_100"}
    assert longest == {100 * 6400}


def test_every_spec_holds_all_parameters_and_makes_its_problem_again():
    for spec in paper_study(seeds=1, methods=("linear",), sizes=(100,)).specs:
        expected = BENCHMARKS[spec.problem].build()
        assert get_instance(spec).mdp.fingerprint == expected.fingerprint
        assert get_instance(spec).mdp.parameters == expected.parameters


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"problems": ("INV-Max",)}, r"no benchmark is called 'INV-Max'; did you mean 'INV-Mix'\?"),
        ({"problems": ("cars",)}, "no benchmark is called 'cars'; there are INV-Mix"),
        ({"seeds": 0}, "at least one seed"),
        ({"sizes": (100, 0)}, "sample sizes must be positive"),
        ({"sizes": (100, 10**10)}, "sample sizes end at 1,000,000,000; got 10,000,000,000"),
        ({"seeds": 10**20}, "at most 1,000,000 runs; 100,000,000,000,000,000,000 seeds, 7 sizes"),
        ({"seeds": 2.5}, "seeds and sample sizes are whole numbers; got 2.5"),
        ({"sizes": ("a",)}, "seeds and sample sizes are whole numbers"),
        ({"problems": ()}, "at least one problem"),
        ({"methods": ()}, "at least one problem and one method"),
    ],
)
def test_a_study_that_cannot_be_run_is_refused(settings, message):
    with pytest.raises(StudyError, match=message):
        paper_study(**settings)
