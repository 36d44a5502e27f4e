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

from tessella.paper.gaps import gaps
from tessella.paper.localisation import QUARTER, low_margin_shares
from tessella.paper.published import FAMILIES, LOWEST, NOUNS
from tessella.paper.readings import decays, final_runs, title
from tessella.paper.results import Results
from tessella.paper.statistics import PairedDifference, by_seed, paired
from tessella.rounding import round_down, round_up

CONCENTRATED = 0.5  # share of errors in the low-margin quarter: twice what chance would put there


@dataclass(frozen=True)
class Finding:
    """A claim of the paper and what the results say about it; None: it cannot be told from them."""

    claim: str
    holds: bool | None
    evidence: str


def conclusions(results: Results) -> list[Finding]:
    """All claims, by family, then those about single methods and about one problem."""
    found = [
        check(results, family)
        for family in results.families()
        for check in (
            partial(_lower, column="policy_error"),
            partial(_lower, column="value_gap"),
            _concentrated,
        )
    ]
    lowest = [
        _lowest(results, family, column, method)
        for (family, column), method in LOWEST.items()
        if family in results.families()
    ]
    return [*found, *lowest, _faster(results), _steadier(results)]


def tally(findings: list[Finding]) -> str:
    """How many claims of how many hold."""
    return f"{sum(finding.holds is True for finding in findings)} of {len(findings)}"


def _lower(results: Results, family: str, column: str) -> Finding:
    claim = (
        f"{FAMILIES[family]}: every boundary method has a lower {NOUNS[column]} than every baseline"
    )
    found = {m: by_seed(results.final, family, m, column) for m in _both(results)}
    mean = {m: float(values.mean()) for m, values in found.items() if values.size}
    ours, theirs = _split(results, mean)
    lack = _lack(results, family)
    if not ours or not theirs:
        return _untold(claim, lack)
    worst, best = max(ours, key=mean.__getitem__), min(theirs, key=mean.__getitem__)
    evidence = (
        f"highest boundary {mean[worst]:.4f} ({title(worst)}), "
        f"lowest baseline {mean[best]:.4f} ({title(best)})"
    )
    return _finding(claim, mean[worst] < mean[best], evidence, lack)


def _lowest(results: Results, family: str, column: str, method: str) -> Finding:
    claim = f"{FAMILIES[family]}: {title(method)} has the lowest {NOUNS[column]} of all methods"
    lack = _lack(results, family)
    others = [other for other in _both(results) if other != method]
    found = {o: paired(results.final, family, method, o, column) for o in others}
    told = {other: difference for other, difference in found.items() if difference.seeds > 1}
    if not told:
        return _untold(claim, lack)
    closest = max(told, key=lambda other: told[other].high)
    n, least = results.asked[method].n, min(results.study.sizes)
    evidence = (
        f"{title(method)} minus {title(closest)}, paired over {told[closest].seeds} seeds with "
        f"95 % intervals: {_signed(told[closest])} at n = {n:,}"
    )
    few = results.frame[results.frame["n"] == least]
    at_least = paired(few, family, method, closest, column)
    if least < n and at_least.seeds > 1:
        evidence += f", {_signed(at_least)} at n = {least:,}"
    return _finding(claim, told[closest].high < 0, evidence, lack)


def _signed(difference: PairedDifference) -> str:
    return f"{difference.mean:+.4f} [{difference.low:+.4f}, {difference.high:+.4f}]"


def _concentrated(results: Results, family: str) -> Finding:
    claim = (
        f"{FAMILIES[family]}: errors of boundary methods concentrate at low margins, "
        "those of baselines less so"
    )
    shares = {m: s for (f, m), s in low_margin_shares(results).items() if f == family}
    ours, theirs = _split(results, shares)
    lack = _lack(results, family)
    if not ours or not theirs:
        return _untold(claim, lack)
    least, most = min(shares[m] for m in ours), max(shares[m] for m in theirs)
    ends = round_down(100 * least, 2), round_up(100 * most, 2)
    evidence = (
        f"of their errors, boundary methods make at least {ends[0]}% and baselines at most "
        f"{ends[1]}% on the {QUARTER:.0%} of states with the smallest margins"
    )
    without = [title(m) for m in _both(results) if m in shares and np.isnan(shares[m])]
    if without:
        evidence += f"; no errors at all: {', '.join(without)}"
    return _finding(claim, least >= CONCENTRATED and least > most, evidence, lack)


def _faster(results: Results) -> Finding:
    claim = (
        f"{results.representative}: the error of every boundary method falls faster with n than "
        "that of every baseline"
    )
    powers = decays(results)
    ours, theirs = _split(results, powers)
    lack = _lacking(results, powers)
    if not ours or not theirs:
        return _untold(claim, lack)
    slow, fast = min(ours, key=powers.__getitem__), max(theirs, key=powers.__getitem__)
    ends = round_down(powers[slow], 2), round_up(powers[fast], 2)
    evidence = (
        f"error ~ n^-p with p at least {ends[0]} for boundary methods ({title(slow)}), "
        f"at most {ends[1]} for baselines ({title(fast)})"
    )
    without = [title(m) for m, p in powers.items() if np.isnan(p)]
    if without:
        evidence += f"; errors at fewer than two sizes: {', '.join(without)}"
    return _finding(claim, powers[slow] > powers[fast], evidence, lack)


def _steadier(results: Results) -> Finding:
    claim = (
        f"{results.representative}: the spread over seeds of every boundary method is smaller "
        "than that of every baseline"
    )
    spread = {m: float(r.std(ddof=1)) for m, r in final_runs(results).items() if r.size > 1}
    ours, theirs = _split(results, spread)
    lack = _lacking(results, spread) if results.study.seeds > 1 else Lack()
    if not ours or not theirs:
        return _untold(claim, lack)
    widest, closest = max(ours, key=spread.__getitem__), min(theirs, key=spread.__getitem__)
    ends = round_up(spread[widest], 2), round_down(spread[closest], 2)
    evidence = (
        f"standard deviation at most {ends[0]} for boundary methods "
        f"({title(widest)}), at least {ends[1]} for baselines ({title(closest)})"
    )
    return _finding(claim, spread[widest] < spread[closest], evidence, lack)


@dataclass(frozen=True)
class Lack:
    """What failures took from a claim, in words, and whether it can still be told."""

    words: str = ""
    fatal: bool = False


def _lack(results: Results, family: str) -> Lack:
    """Of a claim about family averages: missing seeds weaken it, missing problems bar it."""
    found = {m: gaps(results, family, m) for m in _both(results)}
    words = [f"{title(m)}: {gap.note}" for m, gap in found.items() if gap.note]
    return Lack("; ".join(words), any(gap.without or not gap.seeds for gap in found.values()))


def _lacking(results: Results, values: dict[str, float]) -> Lack:
    """Of a claim about one problem: methods that have no value there."""
    missing = [title(m) for m in _both(results) if m not in values]
    words = f"too few finished runs on {results.representative}: {', '.join(missing)}"
    return Lack(words, fatal=True) if missing else Lack()


def _both(results: Results) -> list[str]:
    return results.planned("boundary", "value")


def _split(results: Results, values: dict[str, float]) -> tuple[list[str], list[str]]:
    """Boundary methods and baselines that have a value."""
    there = {m for m, value in values.items() if not np.isnan(value)}
    return (
        [m for m in results.planned("boundary") if m in there],
        [m for m in results.planned("value") if m in there],
    )


def _finding(claim: str, holds: bool, evidence: str, lack: Lack) -> Finding:
    told = f"{evidence}; {lack.words}" if lack.words else evidence
    return Finding(claim, None if lack.fatal else bool(holds), told)


def _untold(claim: str, lack: Lack) -> Finding:
    why = "there are not enough runs to compare"
    return Finding(claim, None, f"{why}; {lack.words}" if lack.words else why)
