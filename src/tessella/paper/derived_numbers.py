"""Numbers and statistics of the results, for tables, figures and claims alike.

A family's figure for one seed is the mean over the family's problems; the tables give the mean and
the standard deviation (n - 1) of these over the seeds, as in the paper. They add the interquartile
mean: the mean of the middle half of all runs of the family, which a few bad runs do not move, with
a 95 % percentile interval from a bootstrap. The bootstrap draws whole seeds: a family's problems
share the random draws of a seed, so only seeds are independent. With few seeds such intervals are
too narrow, about as much as those of a mean that use the normal distribution instead of Student's:
they contain the truth with P(|t_{n-1}| < 1.96 sqrt((n-1)/n)), 0.75 at 3 seeds and 0.92 at 15. One
seed has none.

Two methods are compared by their difference seed by seed, as both learn from the same draws, with
Student's 95 % interval for its mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t, trim_mean

from tessella.paper.published import FAMILY_TITLES
from tessella.paper.results import PaperResults
from tessella.runner.methods import find_method
from tessella.solvers.solution import Solution

BOOTSTRAP_DRAWS = 2000  # draws of whole seeds
INTERVAL_LEVEL = 0.95  # probability
NARROW_INTERVAL_MAX_SEEDS = 10  # seeds; with fewer, a note says that intervals are too narrow
LOW_MARGIN_SHARE = 0.25  # share of the states, those with the smallest margins
COST_UNIT = (
    "One evaluation is one action weighed in one state, by the exact expectation over all that may "
    "follow or by one sampled transition. Either counts 1, although an expectation tells more than "
    "a sample and takes longer; a full backup of a state counts as many as there are actions."
)


@dataclass(frozen=True)
class Summary:
    """One figure of one method in one family; ``std``, ``low`` and ``high`` need two seeds."""

    mean: float
    std: float
    iqm: float
    low: float
    high: float
    seeds: int


EMPTY_SUMMARY = Summary(nan, nan, nan, nan, nan, seeds=0)


@dataclass(frozen=True)
class PairedDifference:
    """One method minus another, averaged over seeds; ``low`` and ``high`` need two seeds."""

    mean: float
    low: float
    high: float
    seeds: int


def values_by_seed(frame: Any, family: str, method: str, column: str) -> NDArray[np.float64]:
    """(problems, seeds) of problems with runs, and of seeds that none of these lacks.

    ``frame`` has a row for each run, at one n for each method.
    """
    return _pivot_by_seed(frame, family, method, column).to_numpy(dtype=float)


def _pivot_by_seed(frame: Any, family: str, method: str, column: str) -> Any:
    rows = frame[(frame["family"] == family) & (frame["method"] == method)]
    return rows.pivot(index="problem", columns="seed", values=column).dropna(axis=1)


def compare_paired(
    frame: Any, family: str, method: str, other: str, column: str
) -> PairedDifference:
    """``method`` minus ``other``, over the seeds that both finished in every problem with runs."""
    ours, theirs = (_pivot_by_seed(frame, family, name, column).mean() for name in (method, other))
    values = (ours - theirs).dropna().to_numpy(dtype=float)
    mean = float(values.mean()) if values.size else nan
    if values.size < 2:
        return PairedDifference(mean, nan, nan, values.size)
    standard_error = float(values.std(ddof=1)) / values.size**0.5
    half_width = float(t.ppf((1 + INTERVAL_LEVEL) / 2, values.size - 1)) * standard_error
    return PairedDifference(mean, mean - half_width, mean + half_width, values.size)


def summarise(values: NDArray[np.float64], rng: np.random.Generator | int = 0) -> Summary:
    """Of (problems, seeds) runs."""
    if not values.size:
        return EMPTY_SUMMARY
    averages = values.mean(axis=0)
    low, high = _bootstrap_interval(values, np.random.default_rng(rng))
    return Summary(
        mean=float(averages.mean()),
        std=float(averages.std(ddof=1)) if averages.size > 1 else nan,
        iqm=float(interquartile_mean(values.ravel())),
        low=low,
        high=high,
        seeds=averages.size,
    )


def interquartile_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(..., n) -> (...) mean without the lowest and the highest quarter."""
    return trim_mean(values, 0.25, axis=-1)


def _bootstrap_interval(
    values: NDArray[np.float64], rng: np.random.Generator
) -> tuple[float, float]:
    seeds = values.shape[1]
    if seeds < 2:
        return nan, nan
    seed_indices = rng.integers(0, seeds, (BOOTSTRAP_DRAWS, seeds))
    resampled = values[:, seed_indices].swapaxes(0, 1).reshape(BOOTSTRAP_DRAWS, -1)
    tail = (1 - INTERVAL_LEVEL) / 2
    low, high = np.quantile(interquartile_mean(resampled), [tail, 1 - tail])
    return float(low), float(high)


def describe_interval_caution(seeds: int) -> str:
    """A caution about intervals over this many seeds; empty when there are enough."""
    if seeds >= NARROW_INTERVAL_MAX_SEEDS:
        return ""
    if seeds < 2:
        return "One seed has neither a standard deviation nor an interval."
    return (
        f"Bootstrap intervals of {seeds} seeds are too narrow: in simulations 95 % intervals of 3 "
        "seeds held the truth about 77 % of the time, those of 15 seeds 92 to 96 %."
    )


def fit_decay(sizes: NDArray, errors: NDArray[np.float64]) -> float:
    """The power p of the least-squares fit ``error ~ n^-p``; errors of zero are left out."""
    is_positive = errors > 0
    if is_positive.sum() < 2:
        return nan
    log_sizes = np.log(np.asarray(sizes, float)[is_positive])
    slope = np.polyfit(log_sizes, np.log(errors[is_positive]), 1)[0]
    return float(-slope)


@dataclass(frozen=True)
class MissingRuns:
    """What failed runs leave out of a family's average, for one method at its largest n."""

    n: int
    planned_seeds: int  # how many the study has
    seeds: int  # those that finished in every problem with finished runs
    problems: int  # how many the study has in this family
    missing_problems: tuple[str, ...]  # those of them without finished runs

    @property
    def note(self) -> str:
        """All of it as text; empty when nothing is missing."""
        if len(self.missing_problems) == self.problems:
            return f"no finished runs at n = {self.n:,}" if self.n else "no finished runs"
        if not self.seeds:
            return "no seed finished in every problem"
        parts = []
        if self.seeds < self.planned_seeds:
            parts.append(f"{self.seeds} of {self.planned_seeds} seeds")
        if self.missing_problems:
            parts.append(f"without {', '.join(self.missing_problems)}")
        return ", ".join(parts)


def find_missing_runs(results: PaperResults, family: str, method: str) -> MissingRuns:
    final = results.final_frame
    planned = results.planned_runs[method]
    members = results.problems_of(family)
    problems_with_runs = set(final[final["method"] == method]["problem"])
    missing_problems = tuple(label for label in members if label not in problems_with_runs)
    seeds = values_by_seed(final, family, method, "policy_error").shape[1]
    return MissingRuns(planned.n, planned.seeds, seeds, len(members), missing_problems)


def method_title(method: str) -> str:
    return find_method(method).title


def error_curves(results: PaperResults, method: str, label: str) -> Any:
    """Frame of policy errors, by n (rows) and seed (columns)."""
    frame = results.frame
    rows = frame[(frame["method"] == method) & (frame["problem"] == label)]
    return rows.pivot(index="n", columns="seed", values="policy_error")


def error_decays(results: PaperResults) -> dict[str, float]:
    """Power of n with which each method's mean error falls, on the representative problem.

    nan where too few sizes have errors; a method that lacks one of its sizes there is left out.
    """
    decay_by_method = {}
    for method in results.finished_methods("boundary", "value"):
        errors = error_curves(results, method, results.representative).mean(axis=1)
        sizes = {spec.n for spec in results.study.specs if spec.method == method}
        if set(errors.index) == sizes:
            decay_by_method[method] = fit_decay(errors.index.to_numpy(), errors.to_numpy())
    return decay_by_method


def final_runs(results: PaperResults) -> dict[str, NDArray[np.float64]]:
    """(seeds,) policy error at the largest n on the representative problem, by method.

    Methods without finished runs there are left out.
    """
    final = results.final_frame[results.final_frame["problem"] == results.representative]
    final = final.sort_values("seed")
    errors_by_method = {
        method: final[final["method"] == method]["policy_error"].to_numpy(dtype=float)
        for method in results.finished_methods("boundary", "value")
    }
    return {method: runs for method, runs in errors_by_method.items() if runs.size}


def spread_over_seeds(results: PaperResults) -> dict[str, float]:
    """Standard deviation of ``final_runs``, by method; those with one run are left out."""
    return {
        method: float(runs.std(ddof=1))
        for method, runs in final_runs(results).items()
        if runs.size > 1
    }


def final_errors(results: PaperResults) -> Any:
    """Frame of mean policy errors at the largest n: methods (rows) by problems (columns).

    Problems are ordered by family; nan where nothing finished.
    """
    methods = results.planned_methods("boundary", "value")
    table = results.final_frame.pivot_table(
        index="method", columns="problem", values="policy_error"
    )
    columns = [label for family in results.families() for label in results.problems_of(family)]
    return table.reindex(index=methods, columns=columns)


def low_margin_shares(results: PaperResults) -> dict[tuple[str, str], float]:
    """(family, method) to the share of its errors in the low-margin quarter, at the largest n.

    The low-margin quarter of a problem is the quarter of its states with the smallest margins; it
    would hold a quarter of the errors if these were independent of the margin. nan for a method
    without errors; one without finished runs is left out.
    """
    shares = {}
    for family in results.families():
        for method in results.finished_methods("boundary", "value"):
            counts = [
                _count_errors(results, label, method) for label in results.problems_of(family)
            ]
            low, wrong, runs = np.sum(counts, axis=0)
            if runs:
                shares[family, method] = float(low / wrong) if wrong else nan
    return shares


def _count_errors(results: PaperResults, label: str, method: str) -> tuple[int, int, int]:
    """Errors in the low-margin quarter, all errors, and runs."""
    margin = results.solutions[label].margin.ravel()
    is_low_margin = margin <= np.quantile(margin, LOW_MARGIN_SHARE)
    wrong = results.wrong_actions(label, method)
    return int(wrong[:, is_low_margin].sum()), int(wrong.sum()), len(wrong)


def mean_costs(results: PaperResults) -> Any:
    """Frame of mean cost and loss over problems and seeds, by family, method and n.

    A method's cost is A * backups + simulator calls, in the ``COST_UNIT``.
    """
    frame = results.frame.copy()
    actions = [results.solutions[label].mdp.n_actions for label in frame["problem"]]
    frame["cost"] = actions * frame["backups"] + frame["simulator_calls"]
    grouped = frame.groupby(["family", "method", "n"])[["cost", "mean_loss"]]
    return grouped.mean().reset_index()


def sweeps_until_settled(solution: Solution) -> int:
    """Sweeps of value iteration after which the greedy action of no state changed again."""
    changing = np.flatnonzero(solution.history.changed)
    return int(changing[-1]) + 1 if changing.size else 0


def describe_effort(results: PaperResults) -> str:
    """The part of the labels' cost that pays for accuracy no label needs."""
    parts = []
    for family in results.families():
        family_solutions = [results.solutions[label] for label in results.problems_of(family)]
        settled_text = format_range([sweeps_until_settled(s) for s in family_solutions])
        sweeps_text = format_range([s.sweeps for s in family_solutions])
        parts.append(f"{FAMILY_TITLES[family]}: after {settled_text} of {sweeps_text} sweeps")
    return (
        "The labels' cost is that of a solve to twelve digits, which no label needs: the greedy "
        f"policy is optimal and stays so much earlier ({'; '.join(parts)})."
    )


def format_range(values: Sequence[float], form: str = ",") -> str:
    """``3 to 4``, or one number where all are equal."""
    low = format(min(values), form)
    high = format(max(values), form)
    return low if low == high else f"{low} to {high}"
