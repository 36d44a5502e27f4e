"""The paper's conclusions, each checked against the stored results.

A conclusion is a claim about every boundary method against every value-based baseline of the study;
it holds, fails, or cannot be told from what was run. The evidence is computed, never assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from tessella.study.localisation import QUARTER, low_margin_shares
from tessella.study.measures import decays, final_runs, title
from tessella.study.published import FAMILIES
from tessella.study.results import Results
from tessella.study.statistics import runs

CONCENTRATED = 0.5  # share of errors in the low-margin quarter: twice what chance would put there


@dataclass(frozen=True)
class Finding:
    """A claim of the paper and what the results say about it; None: nothing was run to tell."""

    claim: str
    holds: bool | None
    evidence: str


def conclusions(results: Results) -> list[Finding]:
    """All claims, in the paper's order."""
    found = [
        check(results, family)
        for family in results.families()
        for check in (
            partial(_lower, column="policy_error", noun="policy error"),
            partial(_lower, column="value_gap", noun="value gap"),
            _concentrated,
        )
    ]
    return [*found, _faster(results), _steadier(results)]


def _lower(results: Results, family: str, column: str, noun: str) -> Finding:
    claim = f"{FAMILIES[family]}: every boundary method has a lower {noun} than every baseline"
    mean = {m: runs(results.frame, family, m, column).mean() for m in _both(results)}
    ours, theirs = _split(results, mean)
    if not ours or not theirs:
        return _untold(claim)
    worst, best = max(ours, key=mean.__getitem__), min(theirs, key=mean.__getitem__)
    evidence = (
        f"highest boundary {mean[worst]:.4f} ({title(worst)}), "
        f"lowest baseline {mean[best]:.4f} ({title(best)})"
    )
    return Finding(claim, bool(mean[worst] < mean[best]), evidence)


def _concentrated(results: Results, family: str) -> Finding:
    claim = (
        f"{FAMILIES[family]}: errors of boundary methods concentrate at low margins, "
        "those of baselines less so"
    )
    shares = {m: s for (f, m), s in low_margin_shares(results).items() if f == family}
    ours, theirs = _split(results, {m: s for m, s in shares.items() if not np.isnan(s)})
    if not ours or not theirs:
        return _untold(claim)
    least, most = min(shares[m] for m in ours), max(shares[m] for m in theirs)
    without = [title(m) for m in results.group("boundary") if np.isnan(shares[m])]
    evidence = (
        f"of their errors, boundary methods make at least {least:.0%} and baselines at most "
        f"{most:.0%} on the {QUARTER:.0%} of states with the smallest margins"
    )
    if without:
        evidence += f"; no errors at all: {', '.join(without)}"
    return Finding(claim, bool(least >= CONCENTRATED and least > most), evidence)


def _faster(results: Results) -> Finding:
    claim = (
        f"{results.representative}: the error of every boundary method falls faster with n than "
        "that of every baseline"
    )
    powers = {m: p for m, p in decays(results).items() if not np.isnan(p)}
    ours, theirs = _split(results, powers)
    if not ours or not theirs:
        return _untold(claim)
    slow, fast = min(ours, key=powers.__getitem__), max(theirs, key=powers.__getitem__)
    evidence = (
        f"error ~ n^-p with p at least {powers[slow]:.2f} for boundary methods ({title(slow)}), "
        f"at most {powers[fast]:.2f} for baselines ({title(fast)})"
    )
    return Finding(claim, bool(powers[slow] > powers[fast]), evidence)


def _steadier(results: Results) -> Finding:
    claim = (
        f"{results.representative}: the spread over seeds of every boundary method is smaller "
        "than that of every baseline"
    )
    spread = {m: r.std(ddof=1) for m, r in final_runs(results).items() if r.size > 1}
    ours, theirs = _split(results, spread)
    if not ours or not theirs:
        return _untold(claim)
    widest, closest = max(ours, key=spread.__getitem__), min(theirs, key=spread.__getitem__)
    evidence = (
        f"standard deviation at most {spread[widest]:.4f} for boundary methods "
        f"({title(widest)}), at least {spread[closest]:.4f} for baselines ({title(closest)})"
    )
    return Finding(claim, bool(spread[widest] < spread[closest]), evidence)


def _both(results: Results) -> list[str]:
    return results.group("boundary", "value")


def _split(results: Results, values: dict[str, float]) -> tuple[list[str], list[str]]:
    """Boundary methods and baselines that have a value."""
    return (
        [m for m in results.group("boundary") if m in values],
        [m for m in results.group("value") if m in values],
    )


def _untold(claim: str) -> Finding:
    return Finding(claim, None, "the study has no runs of one of the two groups, or one seed only")
