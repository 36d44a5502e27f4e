"""Totals of small random models in rational arithmetic, and certificates of them that are false.

Each model has a best policy that ends: every period costs and the end can be reached, or every
action may end. Rows are read as they are stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np

import tessella as ts
from support.criteria import (
    N_ACTIONS,
    N_STATES,
    Row,
    build_ending,
    compute_optimum,
    compute_policy_value,
    draw_eighths,
)

VECTORS = ("optimal_lower", "optimal_upper", "policy_lower", "policy_upper")


def build_uneven(seed: int) -> ts.MDP:
    """Rows that floats do not hold exactly, infeasible actions, rewards of any size."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(N_STATES, rng.choice([0.2, 1.0])), size=(N_ACTIONS, N_STATES))
    chance = float(rng.choice([0.5, 0.05, 1e-3]))  # to end, with every action
    rows *= 1 - chance
    rows[..., -1] += chance
    rows[:, -1] = np.eye(N_STATES)[-1]
    reward = rng.normal(size=(N_STATES, N_ACTIONS)) * 10.0 ** rng.integers(-6, 7)
    reward[-1] = 0.0
    feasible = rng.random((N_STATES, N_ACTIONS)) < 0.8
    feasible[:, 0] = True
    return ts.MDP.from_arrays(rows, reward, ts.Total(), feasible=feasible)


def build_waiting(seed: int) -> ts.MDP:
    """One action waits at next to no cost, the others lead on to the end, at a cost."""
    rng = np.random.default_rng(seed)
    rows = np.stack([np.eye(N_STATES), *(np.eye(N_STATES, k=step) for step in range(1, N_ACTIONS))])
    rows[..., -1] += 1 - rows.sum(axis=-1)  # beyond the end is the end
    reward = -rng.integers(1, 9, size=(N_STATES, N_ACTIONS)) * float(rng.choice([1.0, 1e3]))
    reward[:, 0] = -(10.0 ** -rng.integers(2, 15, size=N_STATES))
    reward[-1] = 0.0
    return ts.MDP.from_arrays(rows, reward, ts.Total())


def build_stopping(seed: int) -> ts.MDP:
    """No state for the end: an outcome ends the process, with every action."""
    rng = np.random.default_rng(seed)
    chances = draw_eighths(rng, (N_STATES, N_ACTIONS), N_STATES) / 2

    def outcomes(s: int, a: int) -> list[tuple[float, int, float, bool]]:
        reward = float(rng.integers(-8, 9))
        going_on = [(float(p), to, reward, False) for to, p in enumerate(chances[s, a]) if p]
        return [*going_on, (0.5, 0, reward, True)]

    table = {s: {a: outcomes(s, a) for a in range(N_ACTIONS)} for s in range(N_STATES)}
    return ts.MDP.from_gymnasium(SimpleNamespace(P=table), ts.Total())


BUILDERS = (build_ending, build_uneven, build_waiting, build_stopping)


def draw_model(seed: int) -> ts.MDP:
    return BUILDERS[seed % len(BUILDERS)](seed // len(BUILDERS))


def draw_policy(mdp: ts.MDP, rng: np.random.Generator) -> np.ndarray:
    """Feasible actions at random."""
    return np.where(mdp.feasible_mask, rng.random(mdp.feasible_mask.shape), -1).argmax(axis=1)


class Truth:
    """The best total, and those of policies."""

    def __init__(self, solution: ts.Solution) -> None:
        self.mdp = solution.mdp
        self.best = compute_optimum(self.mdp, solution.policy.table)

    def evaluate(self, table: np.ndarray) -> Row | None:
        """What a policy earns until the end; None where it never ends."""
        dense, states = self.mdp.to_arrays("SAS"), np.arange(self.mdp.n_states)
        pairs = states, np.ravel(table)
        if ((dense.transition[(*pairs, states)] == 1) & (dense.reward[pairs] != 0)).any():
            return None  # it waits
        try:
            return compute_policy_value(self.mdp, table)
        except StopIteration:  # its linear system is singular
            return None

    def check_evaluation(self, table: np.ndarray) -> list[str]:
        """What is wrong with ``evaluate``: a false value, or an error about a policy that ends."""
        exact_value = self.evaluate(table)
        try:
            evaluation = ts.evaluate(self.mdp, table)
        except ts.ModelError as error:
            return [] if exact_value is None else [f"a policy that ends is rejected: {error}"]
        if exact_value is None:
            return ["a policy that never ends has a value"]
        pairs = zip(evaluation.value.ravel(), exact_value, strict=True)
        error = max(abs(Fraction(float(v)) - x) for v, x in pairs)
        bound = Fraction(evaluation.error_bound)
        return [] if error <= bound else [f"a policy is off by {float(error)}, not {float(bound)}"]

    def find_contradictions(self, c: ts.Certificate) -> list[str]:
        """The statements of a certificate that are false."""
        exact_value = self.evaluate(c.policy.table)
        bounds = c.value_bounds
        if exact_value is None:
            return ["policy"]
        assert bounds is not None
        assert c.start is not None
        losses = [b - w for b, w in zip(self.best, exact_value, strict=True)]
        start = [Fraction(float(p)) for p in c.start.ravel()]

        def compute_mean(numbers: Row) -> Fraction:
            return sum((p * x for p, x in zip(start, numbers, strict=True)), Fraction(0))

        exact_figures = {
            "optimal": (bounds.optimal_lower, self.best, bounds.optimal_upper),
            "policy": (bounds.policy_lower, exact_value, bounds.policy_upper),
        }
        figures = {
            "optimal_mean": compute_mean(self.best),
            "policy_mean": compute_mean(exact_value),
            "mean_loss": compute_mean(losses),
            "worst_loss": max(losses),
        }
        if c.relative_loss is not None:
            figures["relative_loss"] = compute_mean(losses) / abs(compute_mean(self.best))
        for name, exact in figures.items():
            figure = getattr(c, name)
            exact_figures[name] = (figure.lower, [exact], figure.upper)
        return [name for name, ends in exact_figures.items() if not _are_enclosed(*ends)]


def _are_enclosed(lower, exact: Row, upper) -> bool:
    ends = zip(np.ravel(lower), exact, np.ravel(upper), strict=True)
    return all(Fraction(float(low)) <= x <= Fraction(float(high)) for low, x, high in ends)


def forge_certificates(c: ts.Certificate, rng: np.random.Generator) -> Iterator[ts.Certificate]:
    """Each vector moved inward, in one state or in all, by little or much."""
    bounds = c.value_bounds
    assert bounds is not None
    scale = max(1.0, float(np.abs(bounds.optimal_lower).max()))
    for part in VECTORS:
        vector = getattr(bounds, part)
        is_moved = rng.random(vector.shape) < rng.choice([0.3, 1.0])
        change = scale * 10.0 ** rng.uniform(-15, 0) * (-1 if part.endswith("upper") else 1)
        altered = replace(bounds, **{part: vector + change * (is_moved & (vector != 0))})
        yield replace(c, value_bounds=altered)
