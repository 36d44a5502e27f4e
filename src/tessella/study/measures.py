"""Numbers read off the results, for figures and conclusions alike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.study.methods import by_name
from tessella.study.results import Results
from tessella.study.statistics import decay


def title(method: str) -> str:
    return by_name(method).title


def curves(results: Results, method: str, environment: str) -> Any:
    """Frame of policy errors, by n (rows) and seed (columns)."""
    frame = results.frame
    of = frame[(frame["method"] == method) & (frame["environment"] == environment)]
    return of.pivot(index="n", columns="seed", values="policy_error")


def decays(results: Results) -> dict[str, float]:
    """Power of n with which each method's mean error falls, on the representative environment."""
    found = {}
    for method in results.group("boundary", "value"):
        errors = curves(results, method, results.representative).mean(axis=1)
        found[method] = decay(errors.index.to_numpy(), errors.to_numpy())
    return found


def final_runs(results: Results) -> dict[str, NDArray[np.float64]]:
    """(seeds,) policy error at the largest n on the representative environment, by method."""
    found = {}
    for method in results.group("boundary", "value"):
        runs = curves(results, method, results.representative)
        found[method] = runs.loc[runs.index.max()].dropna().to_numpy(dtype=float)
    return found


def final_errors(results: Results) -> Any:
    """Frame of mean policy errors at the largest n: methods (rows) by environments (columns)."""
    methods = results.group("boundary", "value")
    frame = results.frame[results.frame["method"].isin(methods)]
    frame = frame[frame["n"] == frame["n"].max()]
    table = frame.pivot_table(index="method", columns="environment", values="policy_error")
    return table.reindex(index=methods, columns=list(results.study.environments))


def costs(results: Results) -> Any:
    """Frame of mean cost and loss over environments and seeds, by family, method and n.

    A method's cost is A * backups + simulator calls: evaluations of one action in one state, by
    exact expectation or by one sample.
    """
    frame = results.frame.copy()
    actions = [results.solutions[label].mdp.n_actions for label in frame["environment"]]
    frame["cost"] = actions * frame["backups"] + frame["simulator_calls"]
    grouped = frame.groupby(["family", "method", "n"])[["cost", "mean_loss"]]
    return grouped.mean().reset_index()
