"""Where errors are: the share of them that falls on states with small margins.

The low-margin quarter of a problem is the quarter of its states with the smallest margins. If
errors were spread evenly, it would hold a quarter of them.
"""

from __future__ import annotations

import numpy as np

from tessella.paper.results import Results

QUARTER = 0.25


def low_margin_shares(results: Results) -> dict[tuple[str, str], float]:
    """(family, method) to the share of its errors in the low-margin quarter, at the largest n.

    nan for a method that makes no errors; one without finished runs is left out.
    """
    found = {}
    for family in results.families():
        for method in results.group("boundary", "value"):
            counts = [_counts(results, label, method) for label in results.members(family)]
            low, wrong, runs = np.sum(counts, axis=0)
            if runs:
                found[family, method] = float(low / wrong) if wrong else float("nan")
    return found


def _counts(results: Results, problem: str, method: str) -> tuple[int, int, int]:
    """Errors in the low-margin quarter, all errors, and runs."""
    margin = results.solutions[problem].margin.ravel()
    low = margin <= np.quantile(margin, QUARTER)
    wrong = results.wrong(problem, method)
    return int(wrong[:, low].sum()), int(wrong.sum()), len(wrong)
