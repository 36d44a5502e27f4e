"""Averages of chains that nearly fall apart, held against rational arithmetic.

Two or three sets of states, left with a chance of 1e-3 down to 1e-15 a period: relative values are
as large as 1 / leak, and their rounding may be larger than any reward.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import tessella as ts
from support.gains import Truth, some_policy

STATES, ACTIONS = 5, 2
NARROW = 1e-9  # of the largest reward: what a bound on a gain may be


def drawn(seed: int) -> ts.MDP:
    """A small model; at times some actions lead anywhere, and none of the rest leaves its set."""
    rng = np.random.default_rng(seed)
    of = rng.permutation(np.arange(STATES) % rng.integers(2, 4))
    apart = of[:, None] != of
    rows = rng.dirichlet(np.ones(STATES), (ACTIONS, STATES))
    leak = 10.0 ** rng.uniform(-15, -3, (ACTIONS, STATES, 1))
    leads_anywhere = rng.random((ACTIONS, STATES, 1)) < rng.choice([0.0, 0.3])
    rows = np.where(apart & ~leads_anywhere, leak * rows, rows)
    rows /= rows.sum(axis=-1, keepdims=True)
    reward = rng.normal(size=(STATES, ACTIONS)) * 10.0 ** rng.integers(-2, 5, (STATES, ACTIONS))
    grid = {"x": range(STATES)}
    return ts.MDP.from_arrays(rows, reward, ts.Average(), grid=grid, minimise=bool(seed % 2))


def faults(seed: int, rules: bool = True) -> list[str]:
    """What is stated about such a model and is false, or not narrow, in words."""
    mdp = drawn(seed)
    truth, scale = Truth(mdp), float(np.abs(mdp.reward).max())
    best, solution = truth.best[0], ts.solve(mdp)
    found = _outside("the best gain", solution, best, scale)
    if best - truth.gains(solution.policy.table.ravel().tolist())[0] > NARROW * scale:
        found.append("the policy is not the best")
    for number in range(3):
        table = some_policy(mdp, 3 * seed + number)
        worth = truth.gains(table.ravel().tolist())[0]
        found += _outside("a gain", ts.evaluate(mdp, table), worth, scale)
        lost = ts.loss(solution, table)
        if abs(Fraction(lost.mean) - (best - worth)) > Fraction(lost.error_bound):
            found.append(f"a loss of {float(best - worth)} is stated as {lost}")
        certificate = ts.certify(solution, table)
        ends = Fraction(certificate.mean_loss.lower), Fraction(certificate.mean_loss.upper)
        if not ends[0] <= best - worth <= ends[1]:
            found.append(
                f"a loss of {float(best - worth)} is certified as {certificate.mean_loss!r}"
            )
    if rules and best:
        for point in ts.frontier(solution).points:
            lost = (best - truth.gains(point.table.ravel().tolist())[0]) / abs(best)
            if abs(float(lost) - point.loss) > NARROW * scale / abs(best):
                found.append(f"a rule loses {float(lost)}, not {point.loss}")
        found += _unkept(solution, truth, scale)
    return found


def _unkept(solution: ts.Solution, truth: Truth, scale: float) -> list[str]:
    """Rules that lose more than was asked for, and least sizes that a rule contradicts."""
    found, best = [], truth.best[0]
    for loss in (0.0, 0.01):
        rule = ts.compress(solution, loss=loss)
        lost = best - truth.gains(rule.table.ravel().tolist())[0]
        if lost > (abs(best) * Fraction(loss) if loss else Fraction(NARROW * scale)):
            found.append(f"a rule for {loss} of {float(best)} loses {float(lost)}")
        if not rule.certificate.mean_loss.lower <= lost <= rule.certificate.mean_loss.upper:
            found.append(f"a loss of {float(lost)} is certified as {rule.certificate.mean_loss!r}")
        runs = ts.RunLength()
        size = ts.compress(solution, loss=loss, classes=[runs]).size
        least = ts.least_size(solution, loss, runs)
        if least.size_needed > size:
            found.append(f"{size} numbers keep {loss}, and {least} says that none does")
    return found


def _outside(
    what: str, stated: ts.Solution | ts.Evaluation, exact: Fraction, scale: float
) -> list[str]:
    if not (stated.converged and stated.error_bound <= NARROW * scale):
        return [f"{what} is not narrow: {stated}"]
    off = abs(Fraction(stated.gain) - exact)
    return [f"{what} is off by {float(off)}: {stated}"] if off > stated.error_bound else []
