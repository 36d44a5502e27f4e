"""The paper's claims, each with its place in the paper, checked against the stored results.

Most claims say that some methods have a lower figure than others. Such a claim is decided by its
closest pair: the one whose paired difference over seeds has the highest upper end of its interval.

    reproduced       the whole 95 % interval agrees with the claim
    tie              the interval has both signs: the results do not separate the two
    not reproduced   the whole interval contradicts the claim
    undecided        a method or a problem without finished runs might have decided otherwise

Claims about exact quantities (optimal policies, parameters) need no interval. All evidence is
computed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isnan
from typing import Any, Literal, get_args

import numpy as np

from tessella.errors import counted
from tessella.paper.derived_numbers import (
    Effect,
    averages_by_seed,
    compare_decays,
    compare_paired,
    compare_shares,
    compare_spread,
    error_curves,
    error_decays,
    final_runs,
    find_missing_runs,
    format_effect,
    format_range,
    low_margin_shares,
    method_title,
    select_runs,
)
from tessella.paper.published import COLUMN_TITLES, FAMILY_TITLES
from tessella.paper.results import LOW_MARGIN_SHARE, PaperResults

# Share of errors in the low-margin quarter: twice the share under independence.
CONCENTRATED_MIN_SHARE = 0.5
NEARLY_ALL_PAIRS_SHARE = 0.95  # share of the pairs of neighbouring states
SMALLEST_MARGIN_SHARE = 0.1  # share of the states
ESSENTIALLY_ZERO_MAX_ERROR = 1e-4  # prints as 0.0000 or 0.0001
MODERATE_SIZES = (400, 800, 1600)  # our reading of "moderate sample sizes"
FLEXIBLE_METHODS = ("neural", "margin", "local")

VERDICT_REMARK = (
    "Differences are paired over seeds, and brackets hold 95 % intervals; each claim is decided by "
    "its closest pair of methods. Reproduced: the whole interval agrees with the claim. Tie: the "
    "interval has both signs. Not reproduced: the whole interval contradicts the claim."
)

Verdict = Literal["reproduced", "tie", "not reproduced", "undecided"]


@dataclass(frozen=True)
class Finding:
    """A claim, where the paper makes it, and what the results say."""

    place: str
    claim: str
    verdict: Verdict
    evidence: str


Assessment = tuple[Verdict, str]  # what the finished runs say of a claim, and the evidence


def check_claims(results: PaperResults) -> list[Finding]:
    """All claims about problems of the study, in the paper's order."""
    return [*_check_table_claims(results), *_check_figure_claims(results)]


def _check(
    results: PaperResults,
    place: str,
    claim: str,
    labels: Sequence[str],
    methods: Sequence[str],
    assessment: Assessment | None,
) -> Finding:
    """A claim about ``methods`` in the problems ``labels``; undecided where runs are missing."""
    verdict, evidence = assessment or ("undecided", "there are not enough runs to compare")
    missing = _describe_missing(results, labels, methods)
    if any(missing.values()):
        verdict = "undecided"
    return Finding(place, claim, verdict, "; ".join([evidence, *missing]))


def _describe_missing(
    results: PaperResults, labels: Sequence[str], methods: Sequence[str]
) -> dict[str, bool]:
    """What failed runs leave out, and whether that leaves a claim undecided."""
    notes = {}
    for method in methods:
        missing = find_missing_runs(results, labels, method)
        if missing.note:
            is_fatal = bool(missing.missing_problems) or not missing.seeds
            notes[f"{method_title(method)}: {missing.note}"] = is_fatal
    return notes


def count_reproduced(findings: Sequence[Finding]) -> str:
    """``17 of 25``."""
    return f"{sum(f.verdict == 'reproduced' for f in findings)} of {len(findings)}"


def tally_verdicts(findings: Sequence[Finding]) -> str:
    """``17 reproduced, 5 ties, 3 not reproduced``."""
    counts = Counter(finding.verdict for finding in findings)
    words = {v: f"{counts[v]} {v}" for v in get_args(Verdict) if counts[v]}
    return ", ".join((words | {"tie": counted(counts["tie"], "tie")})[v] for v in words)


def _check_table_claims(results: PaperResults) -> Iterator[Finding]:
    """Claims of Sections 1 to 5.4: geometry and the main table."""
    families = {family: results.problems_of(family) for family in results.families()}
    compared = results.planned_methods("boundary", "value")
    labels = results.study.problems
    shown = results.representative
    place = "Section 1, third contribution"
    text = "Boundary methods reach low errors with fewer parameters than the baselines"
    yield _check(results, place, text, labels, compared, _assess_sizes(results))
    place = "Section 5.3, Figure 1"
    for family, members in families.items():
        text = f"{FAMILY_TITLES[family]}: every optimal policy has few contiguous regions"
        yield _check(results, place, text, members, (), _assess_regions(results, members))
    place = "Section 5.3, Figure 2"
    text = (
        f"{shown}: the value varies over the whole grid, margins are small near the boundary only"
    )
    yield _check(results, place, text, [shown], (), _assess_landscape(results))
    yield from _check_order_claims(results)
    place = "Section 5.4, Table 2"
    if "queue" in families:
        text = "Queue admission: Local Boundary reaches essentially zero policy error"
        assessment = _assess_nearly_exact(results, "queue", "local")
        yield _check(results, place, text, families["queue"], ["local"], assessment)
    for family, members in families.items():
        text = f"{FAMILY_TITLES[family]}: Local Boundary trains fastest of all methods"
        assessment = _assess_training_time(results, family)
        yield _check(results, place, text, members, compared, assessment)


def _check_order_claims(results: PaperResults) -> Iterator[Finding]:
    """Claims of Section 5.4 that some methods have a lower figure than others."""
    families = results.families()
    ours, theirs = (results.planned_methods(group) for group in ("boundary", "value"))
    compared = [*ours, *theirs]
    place = "Abstract; Section 5.4, Table 2"
    for family in families:
        for column, title in COLUMN_TITLES.items():
            text = f"every boundary method has a lower {title} than every baseline"
            yield _check_order(results, place, family, text, column, ours, theirs)
    place = "Section 5.4, Table 2"
    if "inventory" in families:
        for method, column in (("margin", "policy_error"), ("neural", "value_gap")):
            text = f"{method_title(method)} has the lowest {COLUMN_TITLES[column]} of all methods"
            yield _check_order(results, place, "inventory", text, column, [method], compared)
    if "queue" in families:
        for column, title in COLUMN_TITLES.items():
            text = f"Local Boundary has the lowest {title} of all methods"
            yield _check_order(results, place, "queue", text, column, ["local"], compared)
        text = "Margin Boundary has a lower policy error than Neural Boundary"
        yield _check_order(results, place, "queue", text, "policy_error", ["margin"], ["neural"])
    place = "Section 5.4, Table 2; Section 6"
    text = "Neural, Margin and Local Boundary have a lower policy error than Linear Boundary"
    lower = FLEXIBLE_METHODS
    for family in families:
        yield _check_order(results, place, family, text, "policy_error", lower, ["linear"])
    if "inventory" in families:
        place = "Section 5.4, Table 2"
        text = "Fitted Q iteration has a lower policy error than both Q-learning methods"
        rivals = ["tabular_q", "double_q"]
        yield _check_order(results, place, "inventory", text, "policy_error", ["fitted_q"], rivals)


def _check_order(
    results: PaperResults,
    place: str,
    family: str,
    text: str,
    column: str,
    lower: Sequence[str],
    higher: Sequence[str],
) -> Finding:
    """Whether each of ``lower`` has a lower figure than each other one of ``higher``."""
    higher = [method for method in higher if method not in lower]
    runs = select_runs(results.frame, family=family)
    smallest = min(results.study.sizes)
    early = None if smallest == max(results.study.sizes) else select_runs(runs, n=smallest)
    frames = {family: select_runs(results.final_frame, family=family)}
    assessment = _assess_pairs(frames, lower, higher, column, early)
    claim = f"{FAMILY_TITLES[family]}: {text}"
    members = results.problems_of(family)
    return _check(results, place, claim, members, [*lower, *higher], assessment)


def _check_figure_claims(results: PaperResults) -> Iterator[Finding]:
    """Claims of Section 5.5 and of the appendix: where errors are, sample sizes, seeds."""
    ours, theirs = (results.planned_methods(group) for group in ("boundary", "value"))
    compared = [*ours, *theirs]
    labels = results.study.problems
    shown = results.representative
    place = "Section 5.5, Figure 3"
    for family in results.families():
        text = (
            f"{FAMILY_TITLES[family]}: errors of boundary methods concentrate at low margins, "
            "those of baselines less so"
        )
        assessment = _assess_concentration(results, family)
        yield _check(results, place, text, results.problems_of(family), compared, assessment)
    place = "Section 5.5, Figure 4"
    text = f"{shown}: the error of every boundary method falls faster with n than any baseline's"
    assessment = _assess_decay(results)
    yield _check(results, f"Abstract; {place}", text, [shown], compared, assessment)
    runs = select_runs(results.frame, problem=shown)
    moderate = {shown: runs[runs["n"].isin(MODERATE_SIZES)]}
    for method in ("local", "margin"):
        text = (
            f"{shown}: {method_title(method)} does well at moderate sample sizes (our reading: "
            f"fewer errors than Neural Boundary at n = {format_range(MODERATE_SIZES)})"
        )
        assessment = _assess_pairs(moderate, [method], ["neural"])
        yield _check(results, place, text, [shown], [method, "neural"], assessment)
    text = f"{shown}: Neural Boundary improves with every increase of n"
    yield _check(results, place, text, [shown], ["neural"], _assess_steady(results))
    place = "Section 5.5, Figure 5"
    text = "Every problem: Margin, Local and Neural Boundary err less than every baseline"
    frames = {label: select_runs(results.final_frame, problem=label) for label in labels}
    assessment = _assess_pairs(frames, FLEXIBLE_METHODS, theirs)
    yield _check(results, place, text, labels, [*FLEXIBLE_METHODS, *theirs], assessment)
    text = "Every baseline errs more on inventory than on queue admission"
    yield _check(results, place, text, labels, theirs, _assess_families(results))
    place = "Abstract; Appendix B, Figure A1"
    text = f"{shown}: every boundary method errs less than every baseline"
    assessment = _assess_pairs({shown: frames[shown]}, ours, theirs)
    yield _check(results, place, text, [shown], compared, assessment)
    text = (
        f"{shown}: the spread over seeds of every boundary method is below that of every baseline"
    )
    yield _check(results, place, text, [shown], compared, _assess_spread(results))


def _decide(effect: Effect, neutral: float = 0.0, *, is_lower: bool = True) -> Verdict:
    """Whether an effect lies below ``neutral``, or above it, by its interval."""
    if not effect.is_known:
        return "undecided"
    is_below = effect.high < neutral
    is_above = effect.low > neutral
    if not is_below and not is_above:
        return "tie"
    return "reproduced" if is_below == is_lower else "not reproduced"


def _as_verdict(holds: Any) -> Verdict:
    """The verdict on a claim about exact quantities, which need no interval."""
    return "reproduced" if holds else "not reproduced"


def _assess_sizes(results: PaperResults) -> Assessment | None:
    sizes = results.final_frame.groupby("method")["size"].max()
    groups = [
        {method_title(m): int(sizes[m]) for m in results.planned_methods(group) if m in sizes}
        for group in ("boundary", "value")
    ]
    if not all(groups):
        return None
    ours, theirs = groups
    listed = [", ".join(f"{title} {size:,}" for title, size in g.items()) for g in groups]
    evidence = f"{listed[0]}; {listed[1]} (exact; of a forest, its trees)"
    return _as_verdict(max(ours.values()) < min(theirs.values())), evidence


def _assess_regions(results: PaperResults, labels: Sequence[str]) -> Assessment:
    geometries = [results.geometry[label] for label in labels]
    actions = [len(results.tessellations[label].actions) for label in labels]
    regions = [g.region_components for g in geometries]
    evidence = (
        f"{format_range(regions)} connected regions for {format_range(actions)} actions; at most "
        f"{max(g.boundary_length for g in geometries):.1%} of neighbouring states act differently "
        "(exact)"
    )
    return _as_verdict((np.array(regions) <= actions).all()), evidence


def _assess_landscape(results: PaperResults) -> Assessment:
    label = results.representative
    solution = results.solutions[label]
    steps = [np.diff(solution.value, axis=axis).ravel() for axis in range(solution.value.ndim)]
    changed = float(np.mean(np.concatenate(steps) != 0))
    is_small = solution.margin <= np.quantile(solution.margin, SMALLEST_MARGIN_SHARE)
    at_boundary = float(results.tessellations[label].boundary[is_small].mean())
    evidence = (
        f"the value differs between {changed:.0%} of neighbouring states, the action between "
        f"{results.geometry[label].boundary_length:.1%}; of the {SMALLEST_MARGIN_SHARE:.0%} of "
        f"states with the smallest margins, {at_boundary:.0%} touch the boundary (exact)"
    )
    holds = changed >= NEARLY_ALL_PAIRS_SHARE and at_boundary > 0.5
    return _as_verdict(holds), evidence


def _assess_pairs(
    frames: Mapping[str, Any],
    lower: Sequence[str],
    higher: Sequence[str],
    column: str = "policy_error",
    early: Any = None,
) -> Assessment | None:
    """Whether each of ``lower`` is below each of ``higher`` in all frames, by the closest pair.

    The evidence adds the difference of that pair in ``early``, the runs at the smallest n.
    """
    effects = {
        (label, *pair): effect
        for label, frame in frames.items()
        for pair, effect in _compare_all(frame, lower, higher, column).items()
    }
    if not effects:
        return None
    closest = max(effects, key=lambda key: effects[key].high)
    label, *pair = closest
    means = [
        averages_by_seed(select_runs(frames[label], method=method), column).mean()
        for method in pair
    ]
    listed = ", ".join(f"{method_title(m)} {mean:.3g}" for m, mean in zip(pair, means, strict=True))
    evidence = f"{listed}; difference {format_effect(effects[closest])}"
    if len(frames) > 1:
        evidence = f"closest on {label}: {evidence}"
    if early is not None:
        for effect in _compare_all(early, pair[:1], pair[1:], column).values():
            n = early["n"].iloc[0]
            evidence += f"; at n = {n:,} the difference is {format_effect(effect)}"
    return _decide(effects[closest]), evidence


def _compare_all(
    frame: Any, lower: Sequence[str], higher: Sequence[str], column: str
) -> dict[tuple[str, str], Effect]:
    """Paired differences of all pairs that have an interval."""
    averages = {
        method: averages_by_seed(select_runs(frame, method=method), column)
        for method in (*lower, *higher)
    }
    effects = {(a, b): compare_paired(averages[a], averages[b]) for a in lower for b in higher}
    return {pair: effect for pair, effect in effects.items() if effect.is_known}


def _assess_nearly_exact(results: PaperResults, family: str, method: str) -> Assessment | None:
    counts = select_runs(results.error_counts, family=family, method=method)
    decisions, errors = counts[["decisions", "errors"]].sum()
    if not decisions:
        return None
    evidence = f"{counted(errors, 'error') if errors else 'no error'} in {decisions:,} decisions"
    return _as_verdict(errors < ESSENTIALLY_ZERO_MAX_ERROR * decisions), evidence


def _assess_training_time(results: PaperResults, family: str) -> Assessment | None:
    runs = select_runs(results.final_frame, family=family)
    seconds = runs.groupby("method")["seconds"].median()
    rivals = [m for m in results.planned_methods("boundary", "value") if m in seconds]
    if "local" not in rivals or len(rivals) < 2:
        return None
    rivals.remove("local")
    fastest = min(rivals, key=seconds.__getitem__)
    evidence = (
        f"median {seconds['local']:.2g} s; the fastest other method is {method_title(fastest)}, "
        f"{seconds[fastest]:.2g} s (shares of batches, so without interval)"
    )
    return _as_verdict(seconds["local"] < seconds[fastest]), evidence


def _assess_concentration(results: PaperResults, family: str) -> Assessment | None:
    shares = {m: s for (f, m), s in low_margin_shares(results).items() if f == family}
    pair = _closest_pair(results, shares)
    if pair is None:
        return None
    effect = compare_shares(results, family, *pair)
    evidence = (
        f"share of errors on the {LOW_MARGIN_SHARE:.0%} of states with the smallest margins: "
        f"{method_title(pair[0])} {shares[pair[0]]:.1%}, {method_title(pair[1])} "
        f"{shares[pair[1]]:.1%}; difference {format_effect(effect)}"
    )
    faultless = [m for m in results.planned_methods("boundary", "value") if isnan(shares.get(m, 0))]
    if faultless:
        evidence += f"; no errors at all: {', '.join(map(method_title, faultless))}"
    is_concentrated = shares[pair[0]] >= CONCENTRATED_MIN_SHARE
    verdict = _decide(effect, is_lower=False)
    return verdict if is_concentrated else "not reproduced", evidence


def _closest_pair(results: PaperResults, values: Mapping[str, float]) -> tuple[str, str] | None:
    """The lowest boundary method and the highest baseline; None where a group has no value."""
    known = {method: value for method, value in values.items() if not isnan(value)}
    ours = [m for m in results.planned_methods("boundary") if m in known]
    theirs = [m for m in results.planned_methods("value") if m in known]
    if not ours or not theirs:
        return None
    return min(ours, key=known.__getitem__), max(theirs, key=known.__getitem__)


def _assess_decay(results: PaperResults) -> Assessment | None:
    powers = {method: power.mean for method, power in error_decays(results).items()}
    pair = _closest_pair(results, powers)
    if pair is None or len(powers) < len(results.planned_methods("boundary", "value")):
        return None
    effect = compare_decays(results, *pair)
    evidence = (
        f"error ~ n^-p with p = {powers[pair[0]]:.2f} for {method_title(pair[0])} and "
        f"{powers[pair[1]]:.2f} for {method_title(pair[1])}; difference {format_effect(effect)}"
    )
    return _decide(effect, is_lower=False), evidence


def _assess_steady(results: PaperResults) -> Assessment | None:
    curves = error_curves(results, "neural", results.representative)
    effects = {
        (a, b): compare_paired(curves.loc[b], curves.loc[a]) for a, b in pairwise(curves.index)
    }
    if not effects or not all(effect.is_known for effect in effects.values()):
        return None
    (a, b), effect = max(effects.items(), key=lambda item: item[1].high)
    evidence = f"the smallest change, from n = {a:,} to {b:,}, is {format_effect(effect)}"
    return _decide(effect), evidence


def _assess_families(results: PaperResults) -> Assessment | None:
    effects = {}
    for method in results.planned_methods("value"):
        runs = select_runs(results.final_frame, method=method)
        inventory, queue = (
            averages_by_seed(select_runs(runs, family=name), "policy_error")
            for name in ("inventory", "queue")
        )
        effects[method] = compare_paired(inventory, queue)
    if not effects or not all(effect.is_known for effect in effects.values()):
        return None
    method, effect = min(effects.items(), key=lambda item: item[1].low)
    evidence = f"inventory minus queue, {method_title(method)}: {format_effect(effect)}"
    return _decide(effect, is_lower=False), evidence


def _assess_spread(results: PaperResults) -> Assessment | None:
    runs = {method: errors for method, errors in final_runs(results).items() if errors.size > 1}
    spread = {method: float(errors.std(ddof=1)) for method, errors in runs.items()}
    pair = _closest_pair(results, {method: -value for method, value in spread.items()})
    if pair is None:
        return None
    effect = compare_spread(*(runs[method] for method in pair))
    evidence = (
        f"standard deviation {spread[pair[0]]:.4f} for {method_title(pair[0])}, "
        f"{spread[pair[1]]:.4f} for {method_title(pair[1])}; ratio {format_effect(effect, '')}"
    )
    return _decide(effect, 1.0), evidence
