"""Public functions: parameters, result, errors and a tested example are in the docstring."""

from __future__ import annotations

import inspect
import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from support.pages import check_examples

import tessella as ts
import tessella.plot
from tessella.problems import registry

API = runpy.run_path(str(Path(__file__).parents[1] / "scripts" / "api_pages.py"))
FUNCTIONS = {
    **{name: getattr(ts, name) for name in ts.__all__ if inspect.isfunction(getattr(ts, name))},
    **{name: getattr(tessella.plot, name) for name in API["PAGES"]["plotting"].names.split()},
}
# Of any tessellation or record, these draw something; the others raise nothing.
WITHOUT_ERRORS = {
    *("action_colours", "all_problems", "boundary_lines", "frontier_plot"),
    *("margin_error", "open_progress", "tradeoff_plot"),
}
CLASSES = [name for name in ts.__all__ if inspect.isclass(getattr(ts, name))]
# Results, whose examples are those of the functions that return them, and classes to inherit from.
RETURNED = {
    *("Certificate", "Comparison", "ConstrainedSolution", "CostEstimate", "Estimate", "Evaluation"),
    *(
        "ExecutionPlan",
        "Geometry",
        "Loss",
        "MDP",
        "Occupancy",
        "Paths",
        "Refinement",
    ),
    *("Sample", "Solution", "Structure", "StudyResults", "Tessellation", "Tradeoff"),
    "Method",
}
RULE_RESULTS = {
    "Candidate",
    "Costs",
    "Difference",
    "Frontier",
    "Rule",
    "RuleClass",
    "Scaling",
    "Tuned",
}
ERRORS = {name for name in CLASSES if issubclass(getattr(ts, name), BaseException)}
CONSTRUCTED = [name for name in CLASSES if name not in RETURNED | RULE_RESULTS | ERRORS]
BUILDERS = ("staged", "from_rates", "from_arrays", "from_pairs", "from_step")


def run_examples(found: object, place: str) -> int:
    _, _, example = (inspect.getdoc(found) or "").partition("\nExample:\n")
    return check_examples(example, place, {"ts": ts, "np": np})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_docstring_has_every_parameter_the_result_and_the_errors(name):
    function = inspect.unwrap(FUNCTIONS[name])
    text = inspect.getdoc(function) or ""
    _, _, described = text.partition("Args:\n")
    named = re.findall(r"^ {4}([\w, ]+):", described, re.MULTILINE)
    listed = {word for names in named for word in names.split(", ")}
    assert set(inspect.signature(function).parameters) - listed == set()
    assert "\nReturns:\n" in text
    assert ("\nRaises:\n" in text) != (name in WITHOUT_ERRORS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_of_the_docstring_is_true(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_registered", {})
    assert run_examples(FUNCTIONS[name], name) >= 1


@pytest.mark.parametrize("name", CONSTRUCTED)
def test_the_example_of_a_class_is_true(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_examples(getattr(ts, name), name) >= 1


@pytest.mark.parametrize("name", BUILDERS)
def test_the_example_of_a_builder_is_true(name):
    assert run_examples(getattr(ts.MDP, name), name) >= 1


def test_examples_of_all_other_classes_and_methods_are_true(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in CLASSES:
        for member, found in vars(getattr(ts, name)).items():
            if inspect.isfunction(inspect.unwrap(found)) and member not in BUILDERS:
                run_examples(found, f"{name}.{member}")


def test_the_program_on_the_page_about_plots_draws_a_picture(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(API["PLOTTING_PROGRAM"], "plotting.md", "exec"), {})
    assert (tmp_path / "queue.png").stat().st_size > 10_000  # bytes: more than an empty picture
