"""Numbers and statistics of the results, for tables, figures and claims alike.

A family's figure for one seed is the mean over the family's problems; the tables give the mean and
the standard deviation (n - 1) of these over the seeds, as in the paper. They add the interquartile
mean (IQM): over the middle half of the seeds within each problem, then over the problems, so that
it leaves out unlucky seeds and never a problem. Its 95 % interval is a bootstrap's percentile
interval. The bootstrap draws whole seeds: a family's problems share the random draws of a seed, so
only seeds are independent. With few seeds such intervals are too narrow, about as much as those of
a mean that use the normal distribution instead of Student's: they contain the truth with
P(|t_{n-1}| < 1.96 sqrt((n-1)/n)), 0.75 at 3 seeds and 0.92 at 15. One seed has none.

Two methods are compared by their difference seed by seed, as both learn from the same draws, with
Student's 95 % interval for its mean. Differences of other statistics, such as powers of decay, have
the bootstrap's interval; a ratio of standard deviations has that of the F distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import floor, isnan, log10, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import f, t, trim_mean

from tessella.paper.published import FAMILY_TITLES
from tessella.paper.results import PaperResults, PlannedRuns
from tessella.runner.methods import find_method
from tessella.solvers.solution import Solution

BOOTSTRAP_DRAWS = 2000  # draws of whole seeds
INTERVAL_LEVEL = 0.95  # probability
ROUNDING_SHARE = 1e-9  # share of an effect below which the width of its interval is rounding
NARROW_INTERVAL_MAX_SEEDS = 10  # seeds; with fewer, a note says that intervals are too narrow
# All values of these methods are equal where they have learned nothing.
TABULAR_METHODS = ("tabular_q", "double_q")
COST_UNIT = (
    "One evaluation is one action in one state, evaluated by the exact expectation over the next "
    "state or by one sampled transition. Either counts 1, although an expectation contains more "
    "information and takes longer; a full backup of a state counts as many as there are actions."
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
class Effect:
    """A difference or a ratio with its 95 % interval; ``low`` and ``high`` need two seeds."""

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def is_known(self) -> bool:
        """Whether it has an interval."""
        return not (isnan(self.low) or isnan(self.high))


def select_runs(frame: Any, **values: Any) -> Any:
    """The rows of ``frame`` with these values, by column."""
    for column, value in values.items():
        frame = frame[frame[column] == value]
    return frame


def values_by_seed(runs: Any, column: str) -> Any:
    """Frame of the ``runs`` of one method: rows are problems and sizes, columns are seeds.

    It has the problems with runs, and the seeds that none of these lacks.
    """
    return runs.pivot(index=["problem", "n"], columns="seed", values=column).dropna(axis=1)


def averages_by_seed(runs: Any, column: str) -> Any:
    """Series of the means over problems and sizes, for the seeds that none of these lacks."""
    return values_by_seed(runs, column).mean()


def compare_paired(ours: Any, theirs: Any) -> Effect:
    """One method minus another, of their ``averages_by_seed``, over the seeds of both."""
    values = (ours - theirs).dropna().to_numpy(dtype=float)
    mean = float(values.mean()) if values.size else nan
    if values.size < 2:
        return Effect(mean, nan, nan, values.size)
    standard_error = float(values.std(ddof=1)) / values.size**0.5
    half_width = float(t.ppf((1 + INTERVAL_LEVEL) / 2, values.size - 1)) * standard_error
    return Effect(mean, mean - half_width, mean + half_width, values.size)


def compare_spread(ours: NDArray, theirs: NDArray) -> Effect:
    """The ratio of two standard deviations over seeds."""
    seeds = min(ours.size, theirs.size)
    if seeds < 2 or not theirs.std():
        return Effect(nan, nan, nan, seeds)
    ratio = float(ours.std(ddof=1) / theirs.std(ddof=1))
    tails = f.ppf(
        [(1 + INTERVAL_LEVEL) / 2, (1 - INTERVAL_LEVEL) / 2], ours.size - 1, theirs.size - 1
    )
    low, high = ratio / np.sqrt(tails)
    return Effect(ratio, float(low), float(high), seeds)


def bootstrap(
    statistic: Callable[[NDArray[np.int64]], NDArray],
    seeds: int,
    rng: np.random.Generator | int = 0,
) -> Effect:
    """The interval of a statistic of ``seeds`` seeds.

    Args:
        statistic: of (draws, seeds) indices of seeds, the (draws,) statistics.
    """
    if not seeds:
        return Effect(nan, nan, nan, seeds)
    mean = float(statistic(np.arange(seeds)[None])[0])
    if seeds < 2:
        return Effect(mean, nan, nan, seeds)
    drawn = np.random.default_rng(rng).integers(0, seeds, (BOOTSTRAP_DRAWS, seeds))
    tail = (1 - INTERVAL_LEVEL) / 2
    values = statistic(drawn)
    known = values[~np.isnan(values)]
    low, high = np.quantile(known, [tail, 1 - tail]) if known.size else (nan, nan)
    return Effect(mean, float(low), float(high), seeds)


def summarise(values: NDArray[np.float64], rng: np.random.Generator | int = 0) -> Summary:
    """The summary of (problems, seeds) figures."""
    if not values.size:
        return EMPTY_SUMMARY
    averages = values.mean(axis=0)

    def interquartile_mean(drawn: NDArray[np.int64]) -> NDArray[np.float64]:
        """The middle half of the seeds of each problem, then all problems."""
        return trim_mean(values[:, drawn], 0.25, axis=-1).mean(axis=0)

    iqm = bootstrap(interquartile_mean, averages.size, rng)
    return Summary(
        mean=float(averages.mean()),
        std=float(averages.std(ddof=1)) if averages.size > 1 else nan,
        iqm=iqm.mean,
        low=iqm.low,
        high=iqm.high,
        seeds=averages.size,
    )


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


def fit_decay(sizes: NDArray, errors: NDArray[np.float64]) -> NDArray[np.float64]:
    """(..., sizes) -> (...) power p of the least-squares fit ``error ~ n^-p``.

    Errors of zero are left out; nan where fewer than two are left.
    """
    weights = (errors > 0).astype(float)
    log_sizes = np.log(np.asarray(sizes, float))
    log_errors = np.log(np.where(errors > 0, errors, 1.0))
    with np.errstate(invalid="ignore"):
        mean = (weights * log_sizes).sum(axis=-1) / weights.sum(axis=-1)
        centred = weights * (log_sizes - mean[..., None])
        return -(centred * log_errors).sum(axis=-1) / (centred**2).sum(axis=-1)


@dataclass(frozen=True)
class MissingRuns:
    """What failed runs leave out of an average over problems, for one method at its largest n."""

    n: int
    planned_seeds: int  # how many the study has
    seeds: int  # those that finished in every problem with finished runs
    problems: int  # how many there should be
    missing_problems: tuple[str, ...]  # those of them without finished runs

    @property
    def note(self) -> str:
        """What is missing, as text; empty when nothing is."""
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


def find_missing_runs(results: PaperResults, labels: Sequence[str], method: str) -> MissingRuns:
    planned = results.planned_runs.get(method, PlannedRuns(0, 0))
    final = results.final_frame
    runs = select_runs(final[final["problem"].isin(labels)], method=method)
    missing_problems = tuple(label for label in labels if label not in set(runs["problem"]))
    seeds = len(averages_by_seed(runs, "policy_error"))
    return MissingRuns(planned.n, planned.seeds, seeds, len(labels), missing_problems)


def method_title(method: str) -> str:
    return find_method(method).title


def error_curves(results: PaperResults, method: str, label: str) -> Any:
    """Frame of policy errors, by n (rows) and seed (columns)."""
    runs = select_runs(results.frame, method=method, problem=label)
    return runs.pivot(index="n", columns="seed", values="policy_error")


def error_decays(results: PaperResults) -> dict[str, Effect]:
    """Power of n with which each method's mean error falls, on the representative problem.

    nan where too few sizes have errors; a method that lacks one of its sizes there is left out.
    """
    decay_by_method = {}
    for method in results.finished_methods("boundary", "value"):
        curves = error_curves(results, method, results.representative).dropna(axis=1)
        sizes = {spec.n for spec in results.study.specs if spec.method == method}
        if set(curves.index) == sizes and curves.shape[1]:
            decay_by_method[method] = bootstrap(decay_statistic(curves), curves.shape[1])
    return decay_by_method


def decay_statistic(curves: Any) -> Callable[[NDArray[np.int64]], NDArray]:
    """The power of decay of the mean over drawn seeds, of ``error_curves``."""
    values = curves.to_numpy(dtype=float)
    sizes = curves.index.to_numpy()
    return lambda drawn: fit_decay(sizes, values[:, drawn].mean(axis=-1).T)


def compare_decays(results: PaperResults, ours: str, theirs: str) -> Effect:
    """The power of one method minus that of another, on the representative problem."""
    curves = [error_curves(results, m, results.representative) for m in (ours, theirs)]
    seeds = curves[0].dropna(axis=1).columns.intersection(curves[1].dropna(axis=1).columns)
    first, second = (decay_statistic(one[seeds]) for one in curves)
    return bootstrap(lambda drawn: first(drawn) - second(drawn), len(seeds))


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


def final_errors(results: PaperResults, statistic: str = "mean") -> Any:
    """Frame of policy errors over seeds at the largest n: methods (rows) by problems (columns).

    Problems are ordered by family; nan where nothing finished.
    """
    methods = results.planned_methods("boundary", "value")
    table = results.final_frame.pivot_table(
        index="method", columns="problem", values="policy_error", aggfunc=statistic
    )
    columns = [label for family in results.families() for label in results.problems_of(family)]
    return table.reindex(index=methods, columns=columns)


def low_margin_shares(results: PaperResults) -> dict[tuple[str, str], float]:
    """(family, method) to the share of its errors in the low-margin quarter, at the largest n.

    It would be a quarter if errors were independent of the margin. nan for a method without errors;
    one without finished runs is left out.
    """
    sums = results.error_counts.groupby(["family", "method"])[["low_margin_errors", "errors"]].sum()
    return {
        (str(family), str(method)): low / wrong if wrong else nan
        for (family, method), low, wrong in sums.itertuples()
    }


def share_statistic(counts: Any) -> Callable[[NDArray[np.int64]], NDArray]:
    """The share of errors at low margins over drawn seeds, of a method's ``error_counts``."""
    columns = ["low_margin_errors", "errors"]
    by_seed = counts.groupby("seed")[columns].sum().to_numpy(dtype=float)

    def share(drawn: NDArray[np.int64]) -> NDArray:
        low, wrong = np.moveaxis(by_seed[drawn].sum(axis=1), -1, 0)
        return np.divide(low, wrong, out=np.full_like(low, nan), where=wrong > 0)

    return share


def compare_shares(results: PaperResults, family: str, ours: str, theirs: str) -> Effect:
    """The low-margin share of one method minus that of another."""
    counts = select_runs(results.error_counts, family=family)
    runs = [select_runs(counts, method=method) for method in (ours, theirs)]
    seeds = set(runs[0]["seed"]) & set(runs[1]["seed"])
    first, second = (share_statistic(r[r["seed"].isin(seeds)]) for r in runs)
    return bootstrap(lambda drawn: first(drawn) - second(drawn), len(seeds))


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
    """How much earlier than it stops the solve behind the labels has the optimal policy."""
    parts = []
    for family in results.families():
        family_solutions = [results.solutions[label] for label in results.problems_of(family)]
        settled_text = format_range([sweeps_until_settled(s) for s in family_solutions])
        sweeps_text = format_range([s.sweeps for s in family_solutions])
        parts.append(f"{FAMILY_TITLES[family]}: after {settled_text} of {sweeps_text} sweeps")
    return (
        "The labels' cost is that of a solve to twelve digits, more than labels need: the greedy "
        f"policy is optimal, and stays so, much earlier ({'; '.join(parts)})."
    )


def explain_first_action(results: PaperResults) -> str:
    """The end of a sentence: why the error of a tabular method may rise with its updates."""
    share = float(np.mean(results.solutions[results.representative].policy.table == 0))
    return (
        ", probably because, where a table has learned nothing yet, all values are equal and the "
        f"tie goes to the first action, which is optimal in {share:.0%} of the states."
    )


def format_effect(effect: Effect, sign: str = "+") -> str:
    """``-0.14 [-0.15, -0.13]``, to two digits of the interval's half width."""
    if not effect.is_known:
        return f"{effect.mean:{sign}.3g} (no interval)"
    half_width = (effect.high - effect.low) / 2
    if half_width <= ROUNDING_SHARE * abs(effect.mean):
        return f"{effect.mean:{sign}.3g} in every seed"
    form = f"{sign}.{max(0, 1 - floor(log10(half_width)))}f"
    return f"{effect.mean:{form}} [{effect.low:{form}}, {effect.high:{form}}]"


def format_range(values: Sequence[float], form: str = ",") -> str:
    """``3 to 4``, or one number where all are equal."""
    low = format(min(values), form)
    high = format(max(values), form)
    return low if low == high else f"{low} to {high}"
