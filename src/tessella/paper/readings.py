"""Numbers read off the results, for figures and conclusions alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.paper.published import FAMILIES
from tessella.paper.results import Results
from tessella.paper.statistics import decay
from tessella.runner.methods import by_name
from tessella.solvers.solution import Solution


def title(method: str) -> str:
    return by_name(method).title


def curves(results: Results, method: str, label: str) -> Any:
    """Frame of policy errors, by n (rows) and seed (columns)."""
    frame = results.frame
    of = frame[(frame["method"] == method) & (frame["environment"] == label)]
    return of.pivot(index="n", columns="seed", values="policy_error")


def decays(results: Results) -> dict[str, float]:
    """Power of n with which each method's mean error falls, on the representative problem.

    nan where too few sizes have errors; a method that lacks one of its sizes there is left out.
    """
    found = {}
    for method in results.group("boundary", "value"):
        errors = curves(results, method, results.representative).mean(axis=1)
        sizes = {spec.n for spec in results.study.specs if spec.method == method}
        if set(errors.index) == sizes:
            found[method] = decay(errors.index.to_numpy(), errors.to_numpy())
    return found


def final_runs(results: Results) -> dict[str, NDArray[np.float64]]:
    """(seeds,) policy error at the largest n on the representative problem, by method.

    Methods without finished runs there are left out.
    """
    final = results.final[results.final["environment"] == results.representative]
    final = final.sort_values("seed")
    found = {
        method: final[final["method"] == method]["policy_error"].to_numpy(dtype=float)
        for method in results.group("boundary", "value")
    }
    return {method: runs for method, runs in found.items() if runs.size}


def final_errors(results: Results) -> Any:
    """Frame of mean policy errors at the largest n: methods (rows) by problems (columns).

    Environments are ordered by family; nan where nothing finished.
    """
    methods = results.planned("boundary", "value")
    table = results.final.pivot_table(index="method", columns="environment", values="policy_error")
    columns = [label for family in results.families() for label in results.members(family)]
    return table.reindex(index=methods, columns=columns)


UNIT = (
    "One evaluation is one action weighed in one state, by the exact expectation over all that may "
    "follow or by one sampled transition. Either counts 1, although an expectation tells more than "
    "a sample and takes longer; a full backup of a state counts as many as there are actions."
)


def costs(results: Results) -> Any:
    """Frame of mean cost and loss over problems and seeds, by family, method and n.

    A method's cost is A * backups + simulator calls, in the ``UNIT``.
    """
    frame = results.frame.copy()
    actions = [results.solutions[label].mdp.n_actions for label in frame["environment"]]
    frame["cost"] = actions * frame["backups"] + frame["simulator_calls"]
    grouped = frame.groupby(["family", "method", "n"])[["cost", "mean_loss"]]
    return grouped.mean().reset_index()


def settled(solution: Solution) -> int:
    """Sweeps of value iteration after which the greedy action of no state changed again."""
    changing = np.flatnonzero(solution.history.changed)
    return int(changing[-1]) + 1 if changing.size else 0


def effort(results: Results) -> str:
    """What of the labels' cost is accuracy that no label needs."""
    parts = []
    for family in results.families():
        of = [results.solutions[label] for label in results.members(family)]
        last, all_of = between([settled(s) for s in of]), between([s.sweeps for s in of])
        parts.append(f"{FAMILIES[family]}: after {last} of {all_of} sweeps")
    return (
        "The labels' cost is that of a solve to twelve digits, which no label needs: the greedy "
        f"policy is optimal and stays so much earlier ({'; '.join(parts)})."
    )


def between(values: Sequence[float], form: str = ",") -> str:
    """``3 to 4``, or one number where all are equal."""
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low} to {high}"
