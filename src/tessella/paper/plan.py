"""The paper's study: its environments, methods, sizes and seeds, with references beside them."""

from __future__ import annotations

from tessella.errors import StudyError
from tessella.paper.published import SEEDS, SIZES
from tessella.problems.benchmarks import BENCHMARKS
from tessella.runner.methods import known
from tessella.runner.study import Study


def paper_study(
    environments: tuple[str, ...] = tuple(BENCHMARKS),
    methods: tuple[str, ...] | None = None,
    sizes: tuple[int, ...] = SIZES,
    seeds: int = SEEDS,
) -> Study:
    """The paper's study, or a part of it.

    Args:
        environments: labels of benchmarks.
        methods: names, or ``module:attribute``; None means all of the package.
    """
    unknown = [label for label in environments if label not in BENCHMARKS]
    if unknown:
        raise StudyError(
            f"no benchmark is called {unknown[0]!r}; there are {', '.join(BENCHMARKS)}"
        )
    return Study(environments, tuple(known()) if methods is None else methods, sizes, seeds)
