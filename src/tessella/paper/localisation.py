"""Where errors are: the share of them that falls on states with small margins.

The low-margin quarter of a problem is the quarter of its states with the smallest margins. If
errors were spread evenly, it would hold a quarter of them.
"""

from __future__ import annotations

import numpy as np

from tessella.paper.results import PaperResults

LOW_MARGIN_SHARE = 0.25


def low_margin_shares(results: PaperResults) -> dict[tuple[str, str], float]:
    """(family, method) to the share of its errors in the low-margin quarter, at the largest n.

    nan for a method that makes no errors; one without finished runs is left out.
    """
    shares = {}
    for family in results.families():
        for method in results.finished_methods("boundary", "value"):
            counts = [
                _count_errors(results, label, method) for label in results.problems_of(family)
            ]
            low, wrong, runs = np.sum(counts, axis=0)
            if runs:
                shares[family, method] = float(low / wrong) if wrong else float("nan")
    return shares


def _count_errors(results: PaperResults, problem: str, method: str) -> tuple[int, int, int]:
    """Errors in the low-margin quarter, all errors, and runs."""
    margin = results.solutions[problem].margin.ravel()
    is_low_margin = margin <= np.quantile(margin, LOW_MARGIN_SHARE)
    wrong = results.wrong_actions(problem, method)
    return int(wrong[:, is_low_margin].sum()), int(wrong.sum()), len(wrong)
