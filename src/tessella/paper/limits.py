"""Limits of the study: where boundary methods do not win, and what differs from the paper.

The paper prints every constant of its problems but neither the equations that use them nor the
learners' hyper-parameters, and its code is not public. This module lists our choices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tessella.paper.derived_numbers import (
    TABULAR_METHODS,
    averages_by_seed,
    compare_paired,
    error_curves,
    explain_first_action,
    format_effect,
    mean_costs,
    method_title,
    select_runs,
)
from tessella.paper.published import COLUMN_TITLES, FAMILY_TITLES
from tessella.paper.results import PaperResults
from tessella.paper.table import TableRow

NEARLY_ALL_STATES_SHARE = 0.95  # share of states that counts as nearly every one
CLOSE_MAX_DEVIATION = 0.25  # a ratio within this of 1 needs no explanation

MODEL_DIFFERENCES = (
    "The paper names the nonlinearities of demand and arrivals (mixed, sinusoidal, hard, ...) "
    "without formulas. Ours are sines and parabolas of the regime, chosen so that the table comes "
    "out close; the queue's strength, which the paper leaves out, is 2.5.",
    "The regime follows a lazy reflecting random walk (down, stay, up with 1/4, 1/2, 1/4), sales "
    "beyond the stock are lost, a queue is served before it admits, and tails of truncated "
    "Poisson laws go to the largest value. The paper does not say.",
    "The observation noise is Gaussian, in grid steps, on the coordinates of a training sample; "
    "labels are those of the true state, and policies are evaluated on the clean grid. This "
    "reading follows from the paper's own numbers: nearest neighbours err at noise 0.45 and not at "
    "0.25.",
    "The value gap is the mean over grid states of V* - Q*(s, pi(s)), divided by 1 - discount. "
    "The exact loss, V* minus the value of the policy, is reported as well.",
)
LEARNER_DIFFERENCES = (
    "A value-based baseline gets n sampled transitions where a boundary method gets n exact "
    "labels. Pairs of state and action are drawn uniformly, and values start at zero.",
    "Variants of a problem share the random draws of a seed, so that they are compared on the "
    "same draws. The paper does not say how its runs relate.",
    "Networks and neighbours were tuned for the lowest error. Linear and the three baselines were "
    "set to land near the paper's numbers instead; a fitted Q tuned for the lowest error is "
    "among the references.",
    "Hyper-parameters are ours; they were chosen on seeds that the study does not use. They are "
    "listed with the settings below.",
    "Training times are shares of batches that train together on one core; the paper's are single "
    "fits on another machine.",
)
KNOWN_REASONS = {
    "linear": "the penalty of the paper's regression is not given",
    "neural": "the paper's training is not given; ours ends with a step that falls to zero",
    "margin": "as the plain network, and eta is not given; a small one amplifies label noise",
    "local": "the number of neighbours is not given; ours grows with n and averages out noise",
    "fitted_q": "leaf size and iterations of the forest are not given",
    "tabular_q": "exploration and step size are not given",
    "double_q": "exploration and step size are not given",
}


def describe_limits(results: PaperResults, table: list[TableRow]) -> list[tuple[str, list[str]]]:
    """Headings with their sentences, all computed; a heading without sentences is left out."""
    if not results.has_comparison:
        return []
    checks = {
        "A few sweeps of the model may be enough": _check_references,
        "The labels show nearly every state": _check_coverage,
        "The exact table is smaller": _check_sizes,
        "Margin weights": _check_margin_weights,
        "Small samples": _check_small_samples,
        "Spread over seeds": _check_spread,
        "Training time": _check_training_times,
        "More updates can mean more errors": _check_rising_errors,
    }
    limits = [(heading, [*check(results, table)]) for heading, check in checks.items()]
    return [(heading, sentences) for heading, sentences in limits if sentences]


def _select_rows(table: list[TableRow], family: str, group: str) -> list[TableRow]:
    return [row for row in table if row.family == family and row.group == group and row.has_runs]


def _check_references(results: PaperResults, table: list[TableRow]) -> Iterator[str]:
    """References that were given less information and lose no more."""
    costs = mean_costs(results).set_index(["family", "method", "n"])["cost"]
    for family in results.families():
        ours = _select_rows(table, family, "boundary")
        if not ours:
            continue
        best = min(ours, key=lambda row: row.mean_loss.mean)
        cost = costs[family, best.method, best.n]
        for row in _select_rows(table, family, "reference"):
            row_cost = costs[family, row.method, row.n]
            if row.mean_loss.mean <= best.mean_loss.mean and row_cost < cost:
                yield (
                    f"{FAMILY_TITLES[family]}: {row.title} loses {row.mean_loss.mean:.3g} on "
                    f"average, {best.title} {best.mean_loss.mean:.3g}, with "
                    f"{row_cost:,.0f} state-action evaluations against the "
                    f"{cost:,.0f} behind the labels. With the model and a few sweeps, nobody "
                    "needs a learner here."
                )


def _check_coverage(results: PaperResults, table: list[TableRow]) -> Iterator[str]:
    """Families in which the labels show nearly every state."""
    for family in results.families():
        n = max((row.n for row in _select_rows(table, family, "boundary")), default=0)
        states = max(results.solutions[label].mdp.n_states for label in results.problems_of(family))
        seen_share = 1 - (1 - 1 / states) ** n
        if seen_share >= NEARLY_ALL_STATES_SHARE:
            yield (
                f"{FAMILY_TITLES[family]}: {n:,} labels drawn from {states} states show "
                f"{seen_share:.2%} of all states, {n / states:.1f} times each on average."
                + _describe_noise(results, family)
            )


def _describe_noise(results: PaperResults, family: str) -> str:
    """What is left to learn once all states were seen; empty without observation noise."""
    members = results.problems_of(family)
    noise_free = [label for label in members if not results.solutions[label].mdp.observation_noise]
    if len(noise_free) == len(members):
        return ""
    exception = f" (except in {', '.join(noise_free)}, without noise)" if noise_free else ""
    return (
        " What is left to learn at that size is the observation noise rather than unseen "
        f"states{exception}."
    )


def _check_sizes(results: PaperResults, table: list[TableRow]) -> Iterator[str]:
    """Methods that store more numbers than the table they approximate."""
    exact_rows = [row for row in table if row.method == "exact_table" and row.has_runs]
    for family, table_size in {row.family: row.size for row in exact_rows}.items():
        ours = _select_rows(table, family, "boundary")
        listed = ", ".join(f"{row.title} {row.size:,}" for row in ours if row.size > table_size)
        if listed:
            yield (
                f"{FAMILY_TITLES[family]}: the exact policy is a table of {table_size} entries; "
                f"more numbers than that are stored by {listed}."
            )


def _check_margin_weights(results: PaperResults, table: list[TableRow]) -> Iterator[str]:
    """Families in which margin weights lower the error of a network at no size."""
    for family in results.families():
        effects = {}
        for n in results.study.sizes:
            runs = select_runs(results.frame, family=family, n=n)
            margin, neural = (
                averages_by_seed(select_runs(runs, method=method), "policy_error")
                for method in ("margin", "neural")
            )
            effects[n] = compare_paired(margin, neural)
        if all(effect.is_known and effect.high >= 0 for effect in effects.values()):
            worse = [f"n = {n:,} ({format_effect(e)})" for n, e in effects.items() if e.low > 0]
            yield (
                f"{FAMILY_TITLES[family]}: Margin Boundary errs less than Neural Boundary at no "
                "size beyond chance" + (f", and more at {'; '.join(worse)}." if worse else ".")
            )


def _check_small_samples(results: PaperResults, table: list[TableRow]) -> Iterator[str]:
    """Problems and sizes at which a baseline errs no more than a boundary method."""
    means = results.frame.groupby(["method", "problem", "n"])["policy_error"].mean()
    for ours in results.finished_methods("boundary"):
        for theirs in results.finished_methods("value"):
            both = means[ours].to_frame("ours").join(means[theirs].rename("theirs"), how="inner")
            worse = both[both["ours"] >= both["theirs"]]
            if len(worse):
                sizes = sorted(set(worse.index.get_level_values("n")))
                yield (
                    f"{method_title(ours)} errs at least as much as {method_title(theirs)} in "
                    f"{len(worse)} of {len(both)} combinations of problem and size "
                    f"(n = {', '.join(map(str, sizes))})."
                )


def _check_spread(results: PaperResults, table: list[TableRow]) -> list[str]:
    """Sizes and families at which a boundary method varies more over seeds than a baseline."""
    frame = results.frame
    rows = frame[frame["problem"] == results.representative]
    spread = rows.groupby(["n", "method"])["policy_error"].std().dropna()
    clauses = []
    for n, part in spread.groupby(level="n"):
        ours = _select_methods(part.droplevel("n"), results.finished_methods("boundary"))
        theirs = _select_methods(part.droplevel("n"), results.finished_methods("value"))
        if len(ours) and len(theirs) and ours.max() >= theirs.min():
            clauses.append(
                f"n = {n:,} ({method_title(ours.idxmax())} {ours.max():.4f}, "
                f"{method_title(theirs.idxmin())} {theirs.min():.4f})"
            )
    sentences = [
        f"{FAMILY_TITLES[family]}: at the largest n the average of {a.title} varies as much or "
        f"more ({a.policy_error.std:.4f}) as that of {b.title} ({b.policy_error.std:.4f})."
        for family in results.families()
        for a in _select_rows(table, family, "boundary")
        for b in _select_rows(table, family, "value")
        if a.policy_error.std >= b.policy_error.std
    ]
    if clauses:
        subject = f"On {results.representative} a boundary method varies more at"
        sentences.insert(0, f"{subject} {'; '.join(clauses)}.")
    return sentences


def _select_methods(series: Any, methods: list[str]) -> Any:
    return series[series.index.isin(methods)]


def _check_training_times(results: PaperResults, table: list[TableRow]) -> Iterator[str]:
    """Boundary methods that train longer than the quickest baseline."""
    for family in results.families():
        theirs = _select_rows(table, family, "value")
        if not theirs:
            continue
        quickest = min(theirs, key=lambda row: row.seconds)
        ours = _select_rows(table, family, "boundary")
        listed = ", ".join(
            f"{row.title} {row.seconds / quickest.seconds:.1f} times"
            for row in ours
            if row.seconds > quickest.seconds
        )
        if listed:
            yield (
                f"{FAMILY_TITLES[family]}: {quickest.title} trains quickest of the baselines "
                f"({quickest.seconds:.3g} s); longer than that: {listed}. The solve behind the "
                "labels comes on top."
            )


def _check_rising_errors(results: PaperResults, table: list[TableRow]) -> Iterator[str]:
    """Baselines whose error rises with their budget; for tables, with the likely reason."""
    for method in results.finished_methods("value"):
        mean = error_curves(results, method, results.representative).mean(axis=1)
        if len(mean) < 2 or mean.iloc[-1] <= mean.iloc[0]:
            continue
        yield (
            f"{method_title(method)} errs more with more updates on {results.representative} "
            f"({mean.iloc[0]:.3f} at n = {mean.index[0]}, {mean.iloc[-1]:.3f} at n = "
            f"{mean.index[-1]:,})"
            + (explain_first_action(results) if method in TABULAR_METHODS else ".")
        )


def describe_differences(table: Sequence[TableRow]) -> dict[str, list[str]]:
    """Headings with their sentences; the last one is computed from the table."""
    return {
        "Models": list(MODEL_DIFFERENCES),
        "Learners": list(LEARNER_DIFFERENCES),
        "Where the numbers differ": [*_describe_ratios(table)] or [_describe_no_deviation(table)],
    }


def _describe_ratios(table: Sequence[TableRow]) -> Iterator[str]:
    for row in table:
        deviations = []
        for column, noun in COLUMN_TITLES.items():
            ratio = row.ratio(column)
            if ratio == ratio and abs(ratio - 1) > CLOSE_MAX_DEVIATION:
                deviations.append(f"{noun} {ratio:.2f} times the paper's")
        if deviations:
            why = KNOWN_REASONS.get(row.method)
            subject = f"{FAMILY_TITLES[row.family]}, {method_title(row.method)}"
            ending = f" ({why})." if why else "."
            yield f"{subject}: {' and '.join(deviations)}{ending}"


def _describe_no_deviation(table: Sequence[TableRow]) -> str:
    if any(row.published for row in table):
        return f"Every ratio to the paper lies within {CLOSE_MAX_DEVIATION:.0%} of 1."
    return "This study does not have the paper's setting, so its numbers are not compared."
