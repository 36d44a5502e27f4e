"""The master program of column generation: the best mixture of policies whose sums are known.

    maximise  sum_k w_k R_k   subject to   sum_k w_k G_jk >= 0,  sum_k w_k = 1,  w >= 0,

with R_k what policy k earns and G_jk its excess over constraint j. Its dual variables are the
prices of the constraints. Numbers are scaled to sizes near 1, and weights are computed again from
the equations that hold at the vertex, to full accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.errors import NotConverged

FEASIBILITY_TOLERANCE = 1e-9  # missing amounts of scaled constraints that count as none
WEIGHT_TOLERANCE = 1e-9  # weights up to this are rounding errors of the program
MIN_ROW_SCALE = 1e-9  # least scale of a constraint, as a share of its largest excess in size
SMALLEST_FLOAT = float(np.finfo(float).tiny)
SOLVER_TOLERANCES = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True)
class Master:
    """The solution of the master program."""

    weights: NDArray[np.float64]  # of policies
    prices: NDArray[np.float64]  # of constraints
    value: float  # what the mixture earns; in the first phase minus what it misses in all


def solve_master(earned: NDArray, excess: NDArray, is_first_phase: bool) -> Master:
    """The best mixture of policies that earn ``earned`` (n,), with ``excess`` (constraints, n).

    In the first phase nothing is earned; slack variables take up what is missing of constraints,
    and their sum is minimised.
    """
    from scipy.optimize import linprog

    n_rows, n_columns = excess.shape
    if is_first_phase:
        earned = np.zeros(n_columns)
    scale = float(np.abs(earned).max()) or 1.0
    row_scale = _find_row_scale(excess)
    scaled_excess = excess / row_scale[:, None]
    result = linprog(
        np.concatenate([-earned / scale, np.ones(n_rows)]),
        A_ub=np.hstack([-scaled_excess, -np.eye(n_rows)]),
        b_ub=np.zeros(n_rows),
        A_eq=np.concatenate([np.ones(n_columns), np.zeros(n_rows)])[None],
        b_eq=[1.0],
        bounds=[(0, None)] * n_columns + [(0, None if is_first_phase else 0)] * n_rows,
        method="highs-ds",
        options=SOLVER_TOLERANCES,
    )
    if not result.success:
        raise NotConverged(f"the best mixture of policies was not found: {result.message}")
    prices = np.maximum(-result.ineqlin.marginals, 0.0) * scale / row_scale
    # A constraint may bind without a price: where policies differ in it, and earn the same.
    is_binding = (prices > 0) | (result.slack <= FEASIBILITY_TOLERANCE)
    weights = _polish_weights(result.x[:n_columns], scaled_excess[is_binding])
    missing = float(result.x[n_columns:].sum())
    value = float(earned @ weights) - (missing if missing > FEASIBILITY_TOLERANCE else 0.0)
    return Master(weights, prices, value)


def exchange_policy(
    weights: NDArray, excess: NDArray, is_binding: NDArray[np.bool_]
) -> NDArray[np.float64] | None:
    """(n + 1,) weights of a mixture in which a further policy takes the place of one of ``n``.

    ``excess`` (constraints, n + 1) has the further policy last. The binding constraints stay as
    they are. None where no exchange leaves a mixture that satisfies the others.
    """
    scaled_excess = excess / _find_row_scale(excess)[:, None]
    system = np.vstack([scaled_excess[is_binding], np.ones(len(weights) + 1)])
    change = np.linalg.lstsq(system[:, :-1], system[:, -1], rcond=None)[0]
    missing = np.abs(system[:, :-1] @ change - system[:, -1]).max()
    if missing > WEIGHT_TOLERANCE or not (change > WEIGHT_TOLERANCE).any():
        return None
    steps = np.where(change > WEIGHT_TOLERANCE, weights / change, np.inf)
    exchanged = np.append(weights - steps.min() * change, steps.min())
    exchanged[steps.argmin()] = 0.0
    exchanged = _polish_weights(exchanged, scaled_excess[is_binding])
    return None if (scaled_excess[~is_binding] @ exchanged < 0).any() else exchanged


def _find_row_scale(excess: NDArray) -> NDArray[np.float64]:
    """(constraints,) by how much policies exceed each constraint at most: its scale.

    The program may miss a constraint by a share of its scale.
    """
    largest = np.maximum(np.abs(excess).max(axis=1), SMALLEST_FLOAT)
    return np.maximum(excess.max(axis=1), MIN_ROW_SCALE * largest)


def _polish_weights(weights: NDArray, excess: NDArray) -> NDArray[np.float64]:
    """The weights of a vertex to full accuracy: binding constraints hold with equality."""
    mixed = np.flatnonzero(weights > WEIGHT_TOLERANCE)
    system = np.vstack([excess[:, mixed], np.ones(len(mixed))])
    polished = np.zeros(len(weights))
    exact = np.linalg.lstsq(system, np.append(np.zeros(len(excess)), 1.0), rcond=None)[0]
    polished[mixed] = np.maximum(exact, 0.0)
    return polished / polished.sum()
