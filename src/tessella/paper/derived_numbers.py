"""Numbers read off the results, for figures and conclusions alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.paper.published import FAMILY_TITLES
from tessella.paper.results import PaperResults
from tessella.paper.statistics import fit_decay
from tessella.runner.methods import find_method
from tessella.solvers.solution import Solution


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


COST_UNIT = (
    "One evaluation is one action weighed in one state, by the exact expectation over all that may "
    "follow or by one sampled transition. Either counts 1, although an expectation tells more than "
    "a sample and takes longer; a full backup of a state counts as many as there are actions."
)


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
    """What of the labels' cost is accuracy that no label needs."""
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
