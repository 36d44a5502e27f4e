"""Averages of nearly decomposable chains, compared with rational arithmetic.

Two or three sets of states, left with a chance of 1e-3 down to 1e-15 a period: relative values are
as large as 1 / leak, and their rounding may be larger than any reward.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

import tessella as ts
from support.gains import Truth, draw_policy

N_STATES, N_ACTIONS = 5, 2
BOUND_MAX_SHARE = 1e-9  # of the largest reward: what a bound on a gain may be


def draw_model(seed: int) -> ts.MDP:
    """A small model; at times some actions lead anywhere, and none of the rest leaves its set."""
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.arange(N_STATES) % rng.integers(2, 4))
    leaves_group = group[:, None] != group
    rows = rng.dirichlet(np.ones(N_STATES), (N_ACTIONS, N_STATES))
    leak = 10.0 ** rng.uniform(-15, -3, (N_ACTIONS, N_STATES, 1))
    may_leave = rng.random((N_ACTIONS, N_STATES, 1)) < rng.choice([0.0, 0.3])
    rows = np.where(leaves_group & ~may_leave, leak * rows, rows)
    rows /= rows.sum(axis=-1, keepdims=True)
    reward = rng.normal(size=(N_STATES, N_ACTIONS)) * 10.0 ** rng.integers(
        -2, 5, (N_STATES, N_ACTIONS)
    )
    grid = {"x": range(N_STATES)}
    return ts.MDP.from_arrays(rows, reward, ts.Average(), grid=grid, minimise=bool(seed % 2))


def find_faults(seed: int, rules: bool = True) -> list[str]:
    """What is stated about such a model and is false, or not narrow, in words."""
    mdp = draw_model(seed)
    truth, scale = Truth(mdp), float(np.abs(mdp.reward).max())
    best, solution = truth.best[0], ts.solve(mdp)
    messages = _check_gain("the best gain", solution, best, scale)
    if best - truth.gains(solution.policy.table.ravel().tolist())[0] > BOUND_MAX_SHARE * scale:
        messages.append("the policy is not the best")
    for number in range(3):
        table = draw_policy(mdp, 3 * seed + number)
        gain = truth.gains(table.ravel().tolist())[0]
        messages += _check_gain("a gain", ts.evaluate(mdp, table), gain, scale)
        loss = ts.loss(solution, table)
        if abs(Fraction(loss.mean) - (best - gain)) > Fraction(loss.error_bound):
            messages.append(f"a loss of {float(best - gain)} is stated as {loss}")
        certificate = ts.certify(solution, table)
        ends = Fraction(certificate.mean_loss.lower), Fraction(certificate.mean_loss.upper)
        if not ends[0] <= best - gain <= ends[1]:
            messages.append(
                f"a loss of {float(best - gain)} is certified as {certificate.mean_loss!r}"
            )
    if rules and best:
        for point in ts.frontier(solution).points:
            loss = (best - truth.gains(point.table.ravel().tolist())[0]) / abs(best)
            if abs(float(loss) - point.loss) > BOUND_MAX_SHARE * scale / abs(best):
                messages.append(f"a rule loses {float(loss)}, not {point.loss}")
        messages += _find_rule_faults(solution, truth, scale)
    return messages


def _find_rule_faults(solution: ts.Solution, truth: Truth, scale: float) -> list[str]:
    """Rules that lose more than was asked for, and least sizes that a rule contradicts."""
    messages, best = [], truth.best[0]
    for loss in (0.0, 0.01):
        rule = ts.compress(solution, loss=loss)
        rule_loss = best - truth.gains(rule.table.ravel().tolist())[0]
        if rule_loss > (abs(best) * Fraction(loss) if loss else Fraction(BOUND_MAX_SHARE * scale)):
            messages.append(f"a rule for {loss} of {float(best)} loses {float(rule_loss)}")
        if not rule.certificate.mean_loss.lower <= rule_loss <= rule.certificate.mean_loss.upper:
            messages.append(
                f"a loss of {float(rule_loss)} is certified as {rule.certificate.mean_loss!r}"
            )
        runs = ts.RunLength()
        size = ts.compress(solution, loss=loss, classes=[runs]).size
        bound = ts.least_size(solution, loss, runs)
        if bound.size_needed > size:
            messages.append(f"{size} numbers keep {loss}, and {bound} says that none does")
    return messages


def _check_gain(
    subject: str, result: ts.Solution | ts.Evaluation, exact: Fraction, scale: float
) -> list[str]:
    if not (result.converged and result.error_bound <= BOUND_MAX_SHARE * scale):
        return [f"{subject} is not narrow: {result}"]
    error = abs(Fraction(result.gain) - exact)
    return [f"{subject} is off by {float(error)}: {result}"] if error > result.error_bound else []
