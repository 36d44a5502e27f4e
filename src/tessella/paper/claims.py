"""The paper's claims, each checked against the stored results.

A claim is about every boundary method against every value-based baseline of the study, or says that
one method is the best of all. It holds, fails, or is undecided: a method or a problem without
finished runs might have decided otherwise. A method is the best of all only where the interval of
its paired difference from every other method lies below zero. All evidence is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from tessella.paper.derived_numbers import (
    LOW_MARGIN_SHARE,
    PairedDifference,
    compare_paired,
    error_decays,
    find_missing_runs,
    low_margin_shares,
    method_title,
    spread_over_seeds,
    values_by_seed,
)
from tessella.paper.published import COLUMN_TITLES, FAMILY_TITLES, LOWEST_METHODS
from tessella.paper.results import PaperResults
from tessella.rounding import round_down, round_up

# Share of errors in the low-margin quarter: twice the share under independence.
CONCENTRATED_MIN_SHARE = 0.5


@dataclass(frozen=True)
class Finding:
    """A claim of the paper and the evidence; ``holds`` is None where the results are undecided."""

    claim: str
    holds: bool | None
    evidence: str


@dataclass(frozen=True)
class Caveat:
    """Failed runs behind a claim, as text, and whether they leave it undecided."""

    text: str = ""
    is_fatal: bool = False


def check_claims(results: PaperResults) -> list[Finding]:
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
    means = {m: float(values.mean()) for m, values in values_by_method.items() if values.size}
    caveat = _family_caveat(results, family)
    closest = _closest_pair(results, means, lower_is_better=True)
    if closest is None:
        return _make_undecided(claim, caveat)
    highest_boundary, lowest_baseline = closest
    evidence = (
        f"highest boundary {means[highest_boundary]:.4f} ({method_title(highest_boundary)}), "
        f"lowest baseline {means[lowest_baseline]:.4f} ({method_title(lowest_baseline)})"
    )
    return _make_finding(claim, means[highest_boundary] < means[lowest_baseline], evidence, caveat)


def _check_lowest(results: PaperResults, family: str, column: str, method: str) -> Finding:
    claim = (
        f"{FAMILY_TITLES[family]}: {method_title(method)} has the lowest {COLUMN_TITLES[column]} "
        "of all methods"
    )
    caveat = _family_caveat(results, family)
    differences = {
        other: compare_paired(results.final_frame, family, method, other, column)
        for other in _compared_methods(results)
        if other != method
    }
    comparable = {other: d for other, d in differences.items() if d.seeds > 1}
    if not comparable:
        return _make_undecided(claim, caveat)
    closest_rival = max(comparable, key=lambda other: comparable[other].high)
    difference = comparable[closest_rival]
    n = results.planned_runs[method].n
    evidence = (
        f"{method_title(method)} minus {method_title(closest_rival)}, paired over "
        f"{difference.seeds} seeds with 95 % intervals: {_format_difference(difference)} "
        f"at n = {n:,}"
    )
    smallest_n = min(results.study.sizes)
    smallest_runs = results.frame[results.frame["n"] == smallest_n]
    smallest_difference = compare_paired(smallest_runs, family, method, closest_rival, column)
    if smallest_n < n and smallest_difference.seeds > 1:
        evidence += f", {_format_difference(smallest_difference)} at n = {smallest_n:,}"
    return _make_finding(claim, difference.high < 0, evidence, caveat)


def _format_difference(difference: PairedDifference) -> str:
    return f"{difference.mean:+.4f} [{difference.low:+.4f}, {difference.high:+.4f}]"


def _check_concentrated(results: PaperResults, family: str) -> Finding:
    claim = (
        f"{FAMILY_TITLES[family]}: errors of boundary methods concentrate at low margins, "
        "those of baselines less so"
    )
    shares = {m: s for (f, m), s in low_margin_shares(results).items() if f == family}
    caveat = _family_caveat(results, family)
    closest = _closest_pair(results, shares, lower_is_better=False)
    if closest is None:
        return _make_undecided(claim, caveat)
    lowest_boundary, highest_baseline = (shares[method] for method in closest)
    evidence = (
        f"of their errors, boundary methods make at least {round_down(100 * lowest_boundary, 2)}% "
        f"and baselines at most {round_up(100 * highest_baseline, 2)}% "
        f"on the {LOW_MARGIN_SHARE:.0%} of states with the smallest margins"
        + _list_undefined("no errors at all", results, shares)
    )
    is_concentrated = lowest_boundary >= CONCENTRATED_MIN_SHARE
    return _make_finding(
        claim, is_concentrated and lowest_boundary > highest_baseline, evidence, caveat
    )


def _check_faster(results: PaperResults) -> Finding:
    claim = (
        f"{results.representative}: the error of every boundary method falls faster with n than "
        "that of every baseline"
    )
    powers = error_decays(results)
    caveat = _problem_caveat(results, powers)
    closest = _closest_pair(results, powers, lower_is_better=False)
    if closest is None:
        return _make_undecided(claim, caveat)
    slowest_boundary, fastest_baseline = closest
    evidence = (
        f"error ~ n^-p with p at least {round_down(powers[slowest_boundary], 2)} "
        f"for boundary methods ({method_title(slowest_boundary)}), "
        f"at most {round_up(powers[fastest_baseline], 2)} "
        f"for baselines ({method_title(fastest_baseline)})"
        + _list_undefined("errors at fewer than two sizes", results, powers)
    )
    return _make_finding(
        claim, powers[slowest_boundary] > powers[fastest_baseline], evidence, caveat
    )


def _check_steadier(results: PaperResults) -> Finding:
    claim = (
        f"{results.representative}: the spread over seeds of every boundary method is smaller "
        "than that of every baseline"
    )
    spread = spread_over_seeds(results)
    caveat = _problem_caveat(results, spread) if results.study.seeds > 1 else Caveat()
    closest = _closest_pair(results, spread, lower_is_better=True)
    if closest is None:
        return _make_undecided(claim, caveat)
    widest_boundary, narrowest_baseline = closest
    evidence = (
        f"standard deviation at most {round_up(spread[widest_boundary], 2)} "
        f"for boundary methods ({method_title(widest_boundary)}), "
        f"at least {round_down(spread[narrowest_baseline], 2)} "
        f"for baselines ({method_title(narrowest_baseline)})"
    )
    return _make_finding(
        claim, spread[widest_boundary] < spread[narrowest_baseline], evidence, caveat
    )


def _closest_pair(
    results: PaperResults, values: Mapping[str, float], *, lower_is_better: bool
) -> tuple[str, str] | None:
    """The worst boundary method and the best baseline; None where a group has no value."""
    sign = 1 if lower_is_better else -1
    costs = {m: sign * value for m, value in values.items() if not np.isnan(value)}
    ours = [m for m in results.planned_methods("boundary") if m in costs]
    theirs = [m for m in results.planned_methods("value") if m in costs]
    if not ours or not theirs:
        return None
    return max(ours, key=costs.__getitem__), min(theirs, key=costs.__getitem__)


def _list_undefined(reason: str, results: PaperResults, values: Mapping[str, float]) -> str:
    """``; reason: titles`` of the methods whose value is nan; empty where there are none."""
    titles = [
        method_title(m) for m in _compared_methods(results) if m in values and np.isnan(values[m])
    ]
    return f"; {reason}: {', '.join(titles)}" if titles else ""


def _family_caveat(results: PaperResults, family: str) -> Caveat:
    """For a claim about family averages: missing problems leave it undecided, not missing seeds."""
    notes = []
    is_fatal = False
    for method in _compared_methods(results):
        missing_runs = find_missing_runs(results, family, method)
        if missing_runs.note:
            notes.append(f"{method_title(method)}: {missing_runs.note}")
        is_fatal |= bool(missing_runs.missing_problems) or not missing_runs.seeds
    return Caveat("; ".join(notes), is_fatal)


def _problem_caveat(results: PaperResults, values: Mapping[str, float]) -> Caveat:
    """For a claim about one problem: methods that have no value there."""
    missing = [method_title(m) for m in _compared_methods(results) if m not in values]
    text = f"too few finished runs on {results.representative}: {', '.join(missing)}"
    return Caveat(text, is_fatal=True) if missing else Caveat()


def _compared_methods(results: PaperResults) -> list[str]:
    return results.planned_methods("boundary", "value")


def _make_finding(claim: str, holds: bool, evidence: str, caveat: Caveat) -> Finding:
    full_evidence = f"{evidence}; {caveat.text}" if caveat.text else evidence
    return Finding(claim, None if caveat.is_fatal else bool(holds), full_evidence)


def _make_undecided(claim: str, caveat: Caveat) -> Finding:
    evidence = "there are not enough runs to compare"
    return _make_finding(claim, False, evidence, replace(caveat, is_fatal=True))
