"""Where boundary methods do not win: searched for in the results, and stated."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tessella.paper.derived_numbers import mean_costs, method_title
from tessella.paper.published import FAMILY_TITLES
from tessella.paper.results import PaperResults
from tessella.paper.table import TableRow

NEARLY_ALL_STATES_SHARE = 0.95  # share of states that counts as nearly every one
# All values of these methods are equal where they have learned nothing.
TABULAR_METHODS = ("tabular_q", "double_q")


def describe_limits(results: PaperResults, table: list[TableRow]) -> list[tuple[str, list[str]]]:
    """Headings with their sentences, all computed; silent where there is nothing to say."""
    checks = {
        "A few sweeps of the model may do": _check_references,
        "The labels show nearly every state": _check_coverage,
        "The exact table is smaller": _check_sizes,
        "Small samples": _check_small_samples,
        "Spread over seeds": _check_spread,
        "Training time": _check_training_times,
        "More updates can mean more errors": _check_rising_errors,
    }
    if not results.has_comparison:
        return []
    results_by_heading = ((heading, check(results, table)) for heading, check in checks.items())
    return [(heading, sentences) for heading, sentences in results_by_heading if sentences]


def _select_rows(table: list[TableRow], family: str, *groups: str) -> list[TableRow]:
    return [row for row in table if row.family == family and row.group in groups and row.has_runs]


def _check_references(results: PaperResults, table: list[TableRow]) -> list[str]:
    """A plain use of the model that was given less information and loses no more."""
    sentences = []
    cost_table = mean_costs(results)
    for family in results.families():
        ours = _select_rows(table, family, "boundary")
        if not ours:
            continue
        best = min(ours, key=lambda row: row.mean_loss.mean)
        cost = _row_cost(cost_table, best)
        for row in _select_rows(table, family, "reference"):
            if row.mean_loss.mean <= best.mean_loss.mean and _row_cost(cost_table, row) < cost:
                sentences.append(
                    f"{FAMILY_TITLES[family]}: {row.title} loses {row.mean_loss.mean:.3g} on "
                    f"average, {best.title} {best.mean_loss.mean:.3g}, with "
                    f"{_row_cost(cost_table, row):,.0f} state-action evaluations against the "
                    f"{cost:,.0f} behind the labels. Who has the model and can afford a few sweeps "
                    "needs no learner here."
                )
    return sentences


def _row_cost(cost_table, row: TableRow) -> float:
    rows = cost_table[(cost_table["family"] == row.family) & (cost_table["method"] == row.method)]
    return float(rows[rows["n"] == row.n]["cost"].iloc[0])


def _check_coverage(results: PaperResults, table: list[TableRow]) -> list[str]:
    """Families whose labels have already shown nearly the whole table."""
    sentences = []
    for family in results.families():
        ours = _select_rows(table, family, "boundary")
        if not ours:
            continue
        n = max(row.n for row in ours)
        states = max(results.solutions[label].mdp.n_states for label in results.problems_of(family))
        seen_share = 1 - (1 - 1 / states) ** n
        if seen_share >= NEARLY_ALL_STATES_SHARE:
            sentences.append(
                f"{FAMILY_TITLES[family]}: {n:,} labels drawn from {states} states show "
                f"{seen_share:.2%} of all states, {n / states:.1f} times each on average."
                + _describe_noise(results, family)
            )
    return sentences


def _describe_noise(results: PaperResults, family: str) -> str:
    """What is left to learn when the states have been seen, where observations are noisy."""
    members = results.problems_of(family)
    noise_free = [label for label in members if not results.solutions[label].mdp.observation_noise]
    if len(noise_free) == len(members):
        return ""
    exception = f" (except in {', '.join(noise_free)}, without noise)" if noise_free else ""
    return (
        " What is left to learn at that size is the observation noise rather than unseen "
        f"states{exception}."
    )


def _check_sizes(results: PaperResults, table: list[TableRow]) -> list[str]:
    """Methods that store more numbers than the table they approximate."""
    sentences = []
    for family in results.families():
        exact = [
            row for row in _select_rows(table, family, "reference") if row.method == "exact_table"
        ]
        larger = [
            row
            for row in _select_rows(table, family, "boundary")
            if exact and row.size > exact[0].size
        ]
        if larger:
            listed = ", ".join(f"{row.title} {row.size:,}" for row in larger)
            sentences.append(
                f"{FAMILY_TITLES[family]}: the exact policy is a table of {exact[0].size} entries; "
                f"more numbers than that are stored by {listed}."
            )
    return sentences


def _check_small_samples(results: PaperResults, table: list[TableRow]) -> list[str]:
    """Problems and sizes at which a baseline errs no more than a boundary method."""
    frame = results.frame
    mean = frame.groupby(["method", "problem", "n"])["policy_error"].mean()
    loss_counts: Counter[tuple[str, str]] = Counter()
    combination_counts: dict[tuple[str, str], int] = {}
    losing_sizes: dict[tuple[str, str], list[int]] = {}
    for ours in results.finished_methods("boundary"):
        for theirs in results.finished_methods("value"):
            both = mean[ours].to_frame("ours").join(mean[theirs].rename("theirs"), how="inner")
            worse = both[both["ours"] >= both["theirs"]]
            loss_counts[ours, theirs] = len(worse)
            combination_counts[ours, theirs] = len(both)
            losing_sizes[ours, theirs] = sorted(set(worse.index.get_level_values("n")))
    sentences = [
        f"{method_title(ours)} errs at least as much as {method_title(theirs)} in {count} of "
        f"{combination_counts[ours, theirs]} combinations of problem and size "
        f"(n = {', '.join(map(str, losing_sizes[ours, theirs]))})."
        for (ours, theirs), count in loss_counts.items()
        if count
    ]
    if not sentences and loss_counts:
        planned_count = len(results.study.problems) * len(results.study.sizes)
        restriction = (
            ""
            if min(combination_counts.values()) == planned_count
            else " of those with finished runs"
        )
        sentences = [
            f"At no size and in no problem{restriction} does a baseline err less than a boundary "
            "method."
        ]
    return sentences


def _check_spread(results: PaperResults, table: list[TableRow]) -> list[str]:
    """Sizes and families at which a boundary method varies more over seeds than a baseline."""
    frame = results.frame
    rows = frame[frame["problem"] == results.representative]
    spread = rows.groupby(["n", "method"])["policy_error"].std()
    ours = results.finished_methods("boundary")
    theirs = results.finished_methods("value")
    clauses = []
    for n, part in spread.groupby(level="n"):
        known_spread = part.droplevel("n").dropna()
        boundary_spread = known_spread[known_spread.index.isin(ours)]
        baseline_spread = known_spread[known_spread.index.isin(theirs)]
        if (
            len(boundary_spread)
            and len(baseline_spread)
            and boundary_spread.max() >= baseline_spread.min()
        ):
            clauses.append(
                f"n = {n:,} ({method_title(boundary_spread.idxmax())} {boundary_spread.max():.4f}, "
                f"{method_title(baseline_spread.idxmin())} {baseline_spread.min():.4f})"
            )
    sentences = [
        f"On {results.representative} a boundary method varies more at {'; '.join(clauses)}."
    ]
    return (sentences if clauses else []) + _check_family_spread(results, table)


def _check_family_spread(results: PaperResults, table: list[TableRow]) -> list[str]:
    return [
        f"{FAMILY_TITLES[family]}: at the largest n the average of {a.title} varies as much or "
        f"more ({a.policy_error.std:.4f}) as that of {b.title} ({b.policy_error.std:.4f})."
        for family in results.families()
        for a in _select_rows(table, family, "boundary")
        for b in _select_rows(table, family, "value")
        if a.policy_error.std >= b.policy_error.std
    ]


def _check_training_times(results: PaperResults, table: list[TableRow]) -> list[str]:
    """Boundary methods that train longer than the quickest baseline."""
    sentences = []
    for family in results.families():
        theirs = _select_rows(table, family, "value")
        if not theirs:
            continue
        quickest = min(theirs, key=lambda row: row.seconds)
        slower = [
            r for r in _select_rows(table, family, "boundary") if r.seconds > quickest.seconds
        ]
        if slower:
            listed = ", ".join(
                f"{r.title} {r.seconds / quickest.seconds:.1f} times" for r in slower
            )
            sentences.append(
                f"{FAMILY_TITLES[family]}: {quickest.title} trains quickest of the baselines "
                f"({quickest.seconds:.3g} s); longer than that: {listed}. The solve behind the "
                "labels comes on top."
            )
    return sentences


def _check_rising_errors(results: PaperResults, table: list[TableRow]) -> list[str]:
    """Baselines whose error rises with their budget; for tables, with the likely reason."""
    sentences = []
    for method in results.finished_methods("value"):
        frame = results.frame
        rows = frame[(frame["method"] == method) & (frame["problem"] == results.representative)]
        mean = rows.groupby("n")["policy_error"].mean()
        if len(mean) < 2 or mean.iloc[-1] <= mean.iloc[0]:
            continue
        sentences.append(
            f"{method_title(method)} errs more with more updates on {results.representative} "
            f"({mean.iloc[0]:.3f} at n = {mean.index[0]}, {mean.iloc[-1]:.3f} at n = "
            f"{mean.index[-1]:,})"
            + (_explain_first_action(results) if method in TABULAR_METHODS else ".")
        )
    return sentences


def _explain_first_action(results: PaperResults) -> str:
    share = float(np.mean(results.solutions[results.representative].policy.table == 0))
    return (
        ", probably because, where it has learned nothing yet, all values are equal and the tie "
        f"goes to the first action, which is optimal in {share:.0%} of the states."
    )
