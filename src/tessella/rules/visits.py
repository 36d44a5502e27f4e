"""Visits that no admissible rule can avoid, and so what every rule of a promise must keep to.

    m(s') = mu(s') + discount sum_s m(s) min_{a in A(s)} P(s' | s, a)

A rule with mean loss sum_s d(s) gap(s, rule(s)) <= most has d >= m, so it takes no action with
m(s) gap(s, a) > most: A(s) shrinks, m grows, and again. From the worst state, every action must
have gap(s, a) <= most. The long-run shares d = d P^n of an average are at least

    m(s') = max_n min_s K^n(s, s'),    K(s, s') = min_{a in A(s)} P(s' | s, a),

and the loss is the same from every state.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tessella.rules.judge import Judge
from tessella.rules.promise import Promise

ROUNDS = 12
POWERS = 8  # of the rows of an average, 2 to each
SURE = 1 - 1e-9  # covers the rounding of visits


@dataclass(frozen=True, eq=False)
class Necessary:
    """Additive costs that are at most ``target`` for every rule that keeps a promise.

    Attributes:
        costs: (S, A) finite.
        target: the bound.
        sets: whether the costs are 0 for what is allowed and 1 for what is not, and nothing else.
    """

    costs: NDArray[np.float64]
    target: float
    sets: bool = False


def necessary(judge: Judge, promise: Promise) -> list[Necessary]:
    """What every rule that keeps the promise fulfils; the worst state has two such conditions."""
    known = known_gap(judge)
    if promise.worst and not judge.lasting:
        most = max(promise.most, promise.resolution)
        return [
            Necessary((known > most).astype(float), 0.5, True),
            _on_average(judge, promise, known),
        ]
    return [_on_average(judge, promise, known)]


def known_gap(judge: Judge) -> NDArray[np.float64]:
    """(S, A) what every action surely loses, infinite where infeasible."""
    known = np.where(judge.feasible, 0.0, np.inf)
    if np.isfinite(judge.solution.tie_tolerance):  # else nothing is known of any gap
        known = np.maximum(judge.gap - judge.solution.tie_tolerance, 0.0)
    return known


def _on_average(judge: Judge, promise: Promise, known: NDArray) -> Necessary:
    most = max(promise.most, promise.resolution)
    visits = unavoidable(judge, known, most)
    with np.errstate(invalid="ignore"):
        costs = np.where(visits[:, None] > 0, visits[:, None] * known, 0.0)
    costs[~judge.feasible] = np.inf
    if promise.nothing:
        return Necessary((costs > most).astype(float), 0.5, True)
    return Necessary(np.minimum(costs, 2 * most), most * (1 + 1e-9))


def unavoidable(judge: Judge, known: NDArray, most: float) -> NDArray[np.float64]:
    """(S,) m of the smallest sets A; of a large model only the start itself."""
    visits = np.zeros_like(judge.start) if judge.lasting else judge.start * SURE
    if not judge.small:
        return visits
    allowed = judge.feasible & ~(visits[:, None] * np.where(visits[:, None] > 0, known, 0) > most)
    for _ in range(ROUNDS):
        visits = least_visits(judge, allowed)
        with np.errstate(invalid="ignore"):
            paid = np.where(visits[:, None] > 0, visits[:, None] * known, 0.0)
        fewer = allowed & ~(paid > most)
        if (fewer == allowed).all() or not fewer.any(axis=1).all():
            break
        allowed = fewer
    return visits


def least_visits(judge: Judge, allowed: NDArray) -> NDArray[np.float64]:
    """(S,) m of sets A, (S, A)."""
    rows = np.where(allowed.T[:, :, None], judge.rows, np.inf).min(axis=0)
    rows[~np.isfinite(rows)] = 0.0
    if judge.lasting:
        return _least_shares(rows)
    system = np.eye(len(rows)) - judge.mdp.discount * rows
    visits = np.linalg.solve(system.T, judge.start)
    return np.maximum(visits, 0.0) * SURE


def _least_shares(rows: NDArray) -> NDArray[np.float64]:
    """(S,) the largest column minima of the powers 1, 2, 4, ... of the rows."""
    found = rows.min(axis=0)
    for _ in range(POWERS):
        rows = rows @ rows
        found = np.maximum(found, rows.min(axis=0))
    return found * SURE
