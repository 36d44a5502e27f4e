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

# Percent of errors in the low-margin quarter: twice those under independence.
CONCENTRATED_MIN_PERCENT = 50.0


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
    evidence = (
        "highest boundary {our_value:.4f} ({our_title}), "
        "lowest baseline {their_value:.4f} ({their_title})"
    )
    caveat = _family_caveat(results, family)
    return _compare_groups(results, claim, means, caveat, evidence, lower_is_better=True)


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
    percents = {m: 100 * s for (f, m), s in low_margin_shares(results).items() if f == family}
    evidence = (
        "of their errors, boundary methods make at least {ours}% and baselines at most {theirs}% "
        f"on the {LOW_MARGIN_SHARE:.0%} of states with the smallest margins"
    )
    return _compare_groups(
        results,
        claim,
        percents,
        _family_caveat(results, family),
        evidence,
        lower_is_better=False,
        if_undefined="no errors at all",
        at_least=CONCENTRATED_MIN_PERCENT,
    )


def _check_faster(results: PaperResults) -> Finding:
    claim = (
        f"{results.representative}: the error of every boundary method falls faster with n than "
        "that of every baseline"
    )
    powers = error_decays(results)
    evidence = (
        "error ~ n^-p with p at least {ours} for boundary methods ({our_title}), "
        "at most {theirs} for baselines ({their_title})"
    )
    return _compare_groups(
        results,
        claim,
        powers,
        _problem_caveat(results, powers),
        evidence,
        lower_is_better=False,
        if_undefined="errors at fewer than two sizes",
    )


def _check_steadier(results: PaperResults) -> Finding:
    claim = (
        f"{results.representative}: the spread over seeds of every boundary method is smaller "
        "than that of every baseline"
    )
    spread = spread_over_seeds(results)
    caveat = _problem_caveat(results, spread) if results.study.seeds > 1 else Caveat()
    evidence = (
        "standard deviation at most {ours} for boundary methods ({our_title}), "
        "at least {theirs} for baselines ({their_title})"
    )
    return _compare_groups(results, claim, spread, caveat, evidence, lower_is_better=True)


def _compare_groups(
    results: PaperResults,
    claim: str,
    values: Mapping[str, float],
    caveat: Caveat,
    evidence: str,
    *,
    lower_is_better: bool,
    if_undefined: str = "",
    at_least: float = -np.inf,
) -> Finding:
    """Whether the worst boundary method is better than the best baseline.

    Args:
        evidence: a template with the values of both (``ours`` and ``theirs`` are rounded outward)
            and their titles.
        if_undefined: what it means that the value of a method is nan.
        at_least: what the value of the boundary method must reach in addition.
    """
    sign = 1 if lower_is_better else -1
    costs = {m: sign * value for m, value in values.items() if not np.isnan(value)}
    boundary = _select_methods(results, "boundary", costs)
    baselines = _select_methods(results, "value", costs)
    if not boundary or not baselines:
        return _make_undecided(claim, caveat)
    worst = max(boundary, key=costs.__getitem__)
    rival = min(baselines, key=costs.__getitem__)
    outward = (round_up, round_down) if lower_is_better else (round_down, round_up)
    text = evidence.format(
        ours=outward[0](values[worst], 2),
        theirs=outward[1](values[rival], 2),
        our_value=values[worst],
        their_value=values[rival],
        our_title=method_title(worst),
        their_title=method_title(rival),
    )
    text += _list_undefined(if_undefined, results, values)
    holds = costs[worst] < costs[rival] and values[worst] >= at_least
    return _make_finding(claim, holds, text, caveat)


def _list_undefined(reason: str, results: PaperResults, values: Mapping[str, float]) -> str:
    """``; reason: titles`` of the methods whose value is nan; empty where there are none."""
    titles = [
        method_title(m) for m in _compared_methods(results) if m in values and np.isnan(values[m])
    ]
    return f"; {reason}: {', '.join(titles)}" if titles else ""


def _select_methods(results: PaperResults, group: str, values: Mapping[str, float]) -> list[str]:
    """The methods of a group that have a value, in the study's order."""
    return [m for m in results.planned_methods(group) if m in values]


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
