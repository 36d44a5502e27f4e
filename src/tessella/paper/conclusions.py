"""The paper's conclusions, each checked against the stored results.

A conclusion is a claim about every boundary method against every value-based baseline of the study,
or that one method is the best of all; it holds, fails, or cannot be told from what was run: a
method or a problem without finished runs might have decided otherwise. A method is the best of all
only where the interval of its paired difference from every other method lies below zero. The
evidence is computed, never assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from tessella.paper.derived_numbers import error_decays, final_runs, method_title
from tessella.paper.localisation import LOW_MARGIN_SHARE, low_margin_shares
from tessella.paper.missing_runs import find_missing_runs
from tessella.paper.published import COLUMN_TITLES, FAMILY_TITLES, LOWEST_METHODS
from tessella.paper.results import PaperResults
from tessella.paper.statistics import PairedDifference, compare_paired, values_by_seed
from tessella.rounding import round_down, round_up

# Share of errors in the low-margin quarter: twice what chance would put there.
CONCENTRATED_MIN_SHARE = 0.5


@dataclass(frozen=True)
class Finding:
    """A claim of the paper and what the results say about it; None: it cannot be told from them."""

    claim: str
    holds: bool | None
    evidence: str


def check_conclusions(results: PaperResults) -> list[Finding]:
    """All claims, by family, then those about single methods and about one problem."""
    findings = [
        check(results, family)
        for family in results.families()
        for check in (
            partial(_check_lower, column="policy_error"),
            partial(_check_lower, column="value_gap"),
            _check_concentrated,
        )
    ]
    lowest_findings = [
        _check_lowest(results, family, column, method)
        for (family, column), method in LOWEST_METHODS.items()
        if family in results.families()
    ]
    return [*findings, *lowest_findings, _check_faster(results), _check_steadier(results)]


def count_reproduced(findings: list[Finding]) -> str:
    """How many claims of how many hold."""
    return f"{sum(finding.holds is True for finding in findings)} of {len(findings)}"


def _check_lower(results: PaperResults, family: str, column: str) -> Finding:
    claim = (
        f"{FAMILY_TITLES[family]}: every boundary method has a lower {COLUMN_TITLES[column]} "
        "than every baseline"
    )
    values_by_method = {
        m: values_by_seed(results.final_frame, family, m, column)
        for m in _compared_methods(results)
    }
    mean = {m: float(values.mean()) for m, values in values_by_method.items() if values.size}
    ours, theirs = _split_groups(results, mean)
    caveat = _family_caveat(results, family)
    if not ours or not theirs:
        return _inconclusive(claim, caveat)
    worst = max(ours, key=mean.__getitem__)
    best = min(theirs, key=mean.__getitem__)
    evidence = (
        f"highest boundary {mean[worst]:.4f} ({method_title(worst)}), "
        f"lowest baseline {mean[best]:.4f} ({method_title(best)})"
    )
    return _make_finding(claim, mean[worst] < mean[best], evidence, caveat)


def _check_lowest(results: PaperResults, family: str, column: str, method: str) -> Finding:
    claim = (
        f"{FAMILY_TITLES[family]}: {method_title(method)} has the lowest {COLUMN_TITLES[column]} "
        "of all methods"
    )
    caveat = _family_caveat(results, family)
    others = [other for other in _compared_methods(results) if other != method]
    differences = {
        o: compare_paired(results.final_frame, family, method, o, column) for o in others
    }
    comparable = {
        other: difference for other, difference in differences.items() if difference.seeds > 1
    }
    if not comparable:
        return _inconclusive(claim, caveat)
    closest_rival = max(comparable, key=lambda other: comparable[other].high)
    n = results.planned_runs[method].n
    smallest_n = min(results.study.sizes)
    difference = comparable[closest_rival]
    evidence = (
        f"{method_title(method)} minus {method_title(closest_rival)}, paired over "
        f"{difference.seeds} seeds with 95 % intervals: {_format_difference(difference)} "
        f"at n = {n:,}"
    )
    smallest_runs = results.frame[results.frame["n"] == smallest_n]
    smallest_difference = compare_paired(smallest_runs, family, method, closest_rival, column)
    if smallest_n < n and smallest_difference.seeds > 1:
        evidence += f", {_format_difference(smallest_difference)} at n = {smallest_n:,}"
    return _make_finding(claim, comparable[closest_rival].high < 0, evidence, caveat)


def _format_difference(difference: PairedDifference) -> str:
    return f"{difference.mean:+.4f} [{difference.low:+.4f}, {difference.high:+.4f}]"


def _check_concentrated(results: PaperResults, family: str) -> Finding:
    claim = (
        f"{FAMILY_TITLES[family]}: errors of boundary methods concentrate at low margins, "
        "those of baselines less so"
    )
    shares = {m: s for (f, m), s in low_margin_shares(results).items() if f == family}
    ours, theirs = _split_groups(results, shares)
    caveat = _family_caveat(results, family)
    if not ours or not theirs:
        return _inconclusive(claim, caveat)
    lowest_boundary = min(shares[m] for m in ours)
    highest_baseline = max(shares[m] for m in theirs)
    evidence = (
        f"of their errors, boundary methods make at least {round_down(100 * lowest_boundary, 2)}% "
        f"and baselines at most {round_up(100 * highest_baseline, 2)}% "
        f"on the {LOW_MARGIN_SHARE:.0%} of states with the smallest margins"
    )
    error_free = [
        method_title(m) for m in _compared_methods(results) if m in shares and np.isnan(shares[m])
    ]
    if error_free:
        evidence += f"; no errors at all: {', '.join(error_free)}"
    return _make_finding(
        claim,
        lowest_boundary >= CONCENTRATED_MIN_SHARE and lowest_boundary > highest_baseline,
        evidence,
        caveat,
    )


def _check_faster(results: PaperResults) -> Finding:
    claim = (
        f"{results.representative}: the error of every boundary method falls faster with n than "
        "that of every baseline"
    )
    powers = error_decays(results)
    ours, theirs = _split_groups(results, powers)
    caveat = _problem_caveat(results, powers)
    if not ours or not theirs:
        return _inconclusive(claim, caveat)
    slowest_boundary = min(ours, key=powers.__getitem__)
    fastest_baseline = max(theirs, key=powers.__getitem__)
    evidence = (
        f"error ~ n^-p with p at least {round_down(powers[slowest_boundary], 2)} "
        f"for boundary methods ({method_title(slowest_boundary)}), "
        f"at most {round_up(powers[fastest_baseline], 2)} "
        f"for baselines ({method_title(fastest_baseline)})"
    )
    too_few_sizes = [method_title(m) for m, p in powers.items() if np.isnan(p)]
    if too_few_sizes:
        evidence += f"; errors at fewer than two sizes: {', '.join(too_few_sizes)}"
    return _make_finding(
        claim, powers[slowest_boundary] > powers[fastest_baseline], evidence, caveat
    )


def _check_steadier(results: PaperResults) -> Finding:
    claim = (
        f"{results.representative}: the spread over seeds of every boundary method is smaller "
        "than that of every baseline"
    )
    spread = {m: float(r.std(ddof=1)) for m, r in final_runs(results).items() if r.size > 1}
    ours, theirs = _split_groups(results, spread)
    caveat = _problem_caveat(results, spread) if results.study.seeds > 1 else Caveat()
    if not ours or not theirs:
        return _inconclusive(claim, caveat)
    widest_boundary = max(ours, key=spread.__getitem__)
    narrowest_baseline = min(theirs, key=spread.__getitem__)
    evidence = (
        f"standard deviation at most {round_up(spread[widest_boundary], 2)} "
        f"for boundary methods ({method_title(widest_boundary)}), "
        f"at least {round_down(spread[narrowest_baseline], 2)} "
        f"for baselines ({method_title(narrowest_baseline)})"
    )
    return _make_finding(
        claim, spread[widest_boundary] < spread[narrowest_baseline], evidence, caveat
    )


@dataclass(frozen=True)
class Caveat:
    """What failures took from a claim, in words, and whether it can still be told."""

    text: str = ""
    is_fatal: bool = False


def _family_caveat(results: PaperResults, family: str) -> Caveat:
    """Of a claim about family averages: missing seeds weaken it, missing problems bar it."""
    missing_by_method = {
        m: find_missing_runs(results, family, m) for m in _compared_methods(results)
    }
    words = [
        f"{method_title(m)}: {missing_runs.note}"
        for m, missing_runs in missing_by_method.items()
        if missing_runs.note
    ]
    return Caveat(
        "; ".join(words),
        any(
            missing_runs.missing_problems or not missing_runs.seeds
            for missing_runs in missing_by_method.values()
        ),
    )


def _problem_caveat(results: PaperResults, values: dict[str, float]) -> Caveat:
    """Of a claim about one problem: methods that have no value there."""
    missing = [method_title(m) for m in _compared_methods(results) if m not in values]
    words = f"too few finished runs on {results.representative}: {', '.join(missing)}"
    return Caveat(words, is_fatal=True) if missing else Caveat()


def _compared_methods(results: PaperResults) -> list[str]:
    return results.planned_methods("boundary", "value")


def _split_groups(results: PaperResults, values: dict[str, float]) -> tuple[list[str], list[str]]:
    """Boundary methods and baselines that have a value."""
    available = {m for m, value in values.items() if not np.isnan(value)}
    return (
        [m for m in results.planned_methods("boundary") if m in available],
        [m for m in results.planned_methods("value") if m in available],
    )


def _make_finding(claim: str, holds: bool, evidence: str, caveat: Caveat) -> Finding:
    full_evidence = f"{evidence}; {caveat.text}" if caveat.text else evidence
    return Finding(claim, None if caveat.is_fatal else bool(holds), full_evidence)


def _inconclusive(claim: str, caveat: Caveat) -> Finding:
    why = "there are not enough runs to compare"
    return Finding(claim, None, f"{why}; {caveat.text}" if caveat.text else why)
