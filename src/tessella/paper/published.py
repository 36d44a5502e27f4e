"""What the paper prints: its protocol and its main table, for comparison with ours.

Source: F. Pokou, "Low-Complexity Policy Tessellations in Structured Markov Decision Processes",
arXiv 2606.25593: Table "Main performance comparison" (family averages at the largest sample size,
mean and standard deviation over 15 seeds) and Table "Common experimental protocol".
"""

from __future__ import annotations

from dataclasses import dataclass

from tessella.errors import StudyError
from tessella.problems.problem import suggest_name
from tessella.problems.registry import BENCHMARKS
from tessella.runner.study import Study

TITLE = (
    "Low-Complexity Policy Tessellations in Structured Markov Decision Processes"  # in the report
)
SOURCE = "arXiv 2606.25593"

PAPER_SEEDS = 15
PAPER_SIZES = (100, 200, 400, 800, 1600, 3200, 6400)
REPRESENTATIVE_PROBLEM = "INV-Mix"  # the problem of the paper's Figures 2, 4 and A1

PAPER_BOUNDARY_METHODS = ("linear", "neural", "margin", "local")
PAPER_VALUE_BASED_METHODS = ("double_q", "fitted_q", "tabular_q")
PAPER_METHODS = (*PAPER_BOUNDARY_METHODS, *PAPER_VALUE_BASED_METHODS)
COLUMN_TITLES = {"policy_error": "policy error", "value_gap": "value gap"}
FAMILY_TITLES = {"inventory": "Inventory", "queue": "Queue admission"}


@dataclass(frozen=True)
class PublishedRow:
    """One row of the paper's main table."""

    policy_error: float
    policy_error_std: float
    value_gap: float
    value_gap_std: float
    seconds: float
    size: int


MAIN_TABLE = {
    ("inventory", "linear"): PublishedRow(0.0408, 0.0023, 0.099, 0.010, 0.043, 15),
    ("inventory", "neural"): PublishedRow(0.0117, 0.0045, 0.008, 0.006, 2.787, 4677),
    ("inventory", "margin"): PublishedRow(0.0083, 0.0032, 0.010, 0.005, 2.935, 4677),
    ("inventory", "local"): PublishedRow(0.0098, 0.0029, 0.015, 0.006, 0.004, 6400),
    ("inventory", "double_q"): PublishedRow(0.6236, 0.0152, 24.933, 1.144, 0.115, 8250),
    ("inventory", "fitted_q"): PublishedRow(0.2101, 0.0182, 1.144, 0.169, 1.300, 60),
    ("inventory", "tabular_q"): PublishedRow(0.6118, 0.0171, 24.609, 1.128, 0.132, 4125),
    ("queue", "linear"): PublishedRow(0.0148, 0.0008, 0.030, 0.002, 0.005, 3),
    ("queue", "neural"): PublishedRow(0.0038, 0.0020, 0.004, 0.005, 2.201, 4417),
    ("queue", "margin"): PublishedRow(0.0003, 0.0006, 0.001, 0.002, 3.722, 4417),
    ("queue", "local"): PublishedRow(0.0000, 0.0001, 0.000, 0.000, 0.004, 6400),
    ("queue", "double_q"): PublishedRow(0.1245, 0.0032, 2.303, 0.214, 0.115, 2604),
    ("queue", "fitted_q"): PublishedRow(0.1250, 0.0120, 2.303, 0.346, 0.825, 60),
    ("queue", "tabular_q"): PublishedRow(0.1318, 0.0048, 2.928, 0.383, 0.143, 1302),
}


# Not in the paper: what a plain use of the model, or many more simulator calls, would give.
REFERENCE_METHODS = (
    "value_iteration_2",
    "value_iteration_4",
    "tabular_q_100",
    "fitted_q_tuned",
    "exact_table",
)


def paper_study(
    problems: tuple[str, ...] = tuple(BENCHMARKS),
    methods: tuple[str, ...] = (*PAPER_METHODS, *REFERENCE_METHODS),
    sizes: tuple[int, ...] = PAPER_SIZES,
    seeds: int = PAPER_SEEDS,
) -> Study:
    """The paper's study, or a part of it.

    Args:
        problems: labels of benchmarks.
        methods: names, or ``module:attribute``; by default the paper's, and the references.
    """
    unknown = [label for label in problems if label not in BENCHMARKS]
    if unknown:
        hint = suggest_name(unknown[0], [*BENCHMARKS])
        raise StudyError(f"no benchmark is called {unknown[0]!r}; {hint}")
    return Study(problems, methods, sizes, seeds)
