"""Where errors are: the share of them that falls on states with small margins.

The low-margin quarter of an environment is the quarter of its states with the smallest margins. If
errors were spread evenly, it would hold a quarter of them.
"""

from __future__ import annotations

import numpy as np

from tessella.study.results import Results

QUARTER = 0.25


def low_margin_shares(results: Results) -> dict[tuple[str, str], float]:
    """(family, method) to the share of its errors in the low-margin quarter; nan without errors."""
    found = {}
    for family in results.families():
        labels = [e for e in results.study.environments if results.family(e) == family]
        for method in results.group("boundary", "value"):
            counts = np.sum([_counts(results, label, method) for label in labels], axis=0)
            found[family, method] = counts[0] / counts[1] if counts[1] else float("nan")
    return found


def _counts(results: Results, environment: str, method: str) -> tuple[int, int]:
    """Errors in the low-margin quarter, and all errors."""
    margin = results.solutions[environment].margin.ravel()
    low = margin <= np.quantile(margin, QUARTER)
    wrong = results.wrong(environment, method)
    return int(wrong[:, low].sum()), int(wrong.sum())
