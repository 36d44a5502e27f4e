"""The paper's study: its problems, methods, sizes and seeds, with references beside them."""

from __future__ import annotations

from tessella.errors import StudyError
from tessella.paper.published import PAPER_METHODS, PAPER_SEEDS, PAPER_SIZES
from tessella.problems.benchmarks import BENCHMARKS
from tessella.runner.study import Study

# Beside the paper's methods: what a plain use of the model, or more of a simulator, would give.
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
        raise StudyError(
            f"no benchmark is called {unknown[0]!r}; there are {', '.join(BENCHMARKS)}"
        )
    return Study(problems, methods, sizes, seeds)
