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
from support.criteria import K, N, Row, eighths, ending, optimum, policy_value

VECTORS = ("optimal_lower", "optimal_upper", "policy_lower", "policy_upper")


def uneven(seed: int) -> ts.MDP:
    """Rows that floats do not hold exactly, infeasible actions, rewards of any size."""
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(N, rng.choice([0.2, 1.0])), size=(K, N))
    chance = float(rng.choice([0.5, 0.05, 1e-3]))  # to end, with every action
    rows *= 1 - chance
    rows[..., -1] += chance
    rows[:, -1] = np.eye(N)[-1]
    reward = rng.normal(size=(N, K)) * 10.0 ** rng.integers(-6, 7)
    reward[-1] = 0.0
    feasible = rng.random((N, K)) < 0.8
    feasible[:, 0] = True
    return ts.MDP.from_arrays(rows, reward, ts.Total(), feasible=feasible)


def waiting(seed: int) -> ts.MDP:
    """One action waits at next to no cost, the others lead on to the end, at a cost."""
    rng = np.random.default_rng(seed)
    rows = np.stack([np.eye(N), *(np.eye(N, k=step) for step in range(1, K))])
    rows[..., -1] += 1 - rows.sum(axis=-1)  # beyond the end is the end
    reward = -rng.integers(1, 9, size=(N, K)) * float(rng.choice([1.0, 1e3]))
    reward[:, 0] = -(10.0 ** -rng.integers(2, 15, size=N))
    reward[-1] = 0.0
    return ts.MDP.from_arrays(rows, reward, ts.Total())


def stopping(seed: int) -> ts.MDP:
    """No state for the end: an outcome ends the process, with every action."""
    rng = np.random.default_rng(seed)
    chances = eighths(rng, (N, K), N) / 2

    def outcomes(s: int, a: int) -> list[tuple[float, int, float, bool]]:
        reward = float(rng.integers(-8, 9))
        going_on = [(float(p), to, reward, False) for to, p in enumerate(chances[s, a]) if p]
        return [*going_on, (0.5, 0, reward, True)]

    table = {s: {a: outcomes(s, a) for a in range(K)} for s in range(N)}
    return ts.MDP.from_gymnasium(SimpleNamespace(P=table), ts.Total())


MODELS = (ending, uneven, waiting, stopping)


def drawn(seed: int) -> ts.MDP:
    return MODELS[seed % len(MODELS)](seed // len(MODELS))


def some_policy(mdp: ts.MDP, rng: np.random.Generator) -> np.ndarray:
    """Feasible actions at random."""
    return np.where(mdp.feasible_mask, rng.random(mdp.feasible_mask.shape), -1).argmax(axis=1)


class Truth:
    """The best total, and those of policies."""

    def __init__(self, solution: ts.Solution) -> None:
        self.mdp = solution.mdp
        self.best = optimum(self.mdp, solution.policy.table)

    def worth(self, table: np.ndarray) -> Row | None:
        """What a policy earns until the end; None where it never ends."""
        dense, here = self.mdp.to_arrays("SAS"), np.arange(self.mdp.n_states)
        taken = here, np.ravel(table)
        if ((dense.transition[(*taken, here)] == 1) & (dense.reward[taken] != 0)).any():
            return None  # it waits
        try:
            return policy_value(self.mdp, table)
        except StopIteration:  # its linear system is singular
            return None

    def faults_of_evaluation(self, table: np.ndarray) -> list[str]:
        """What is wrong with ``evaluate``: a false value, or an error about a policy that ends."""
        own = self.worth(table)
        try:
            found = ts.evaluate(self.mdp, table)
        except ts.ModelError as error:
            return [] if own is None else [f"a policy that ends is rejected: {error}"]
        if own is None:
            return ["a policy that never ends has a value"]
        exact = zip(found.value.ravel(), own, strict=True)
        off = max(abs(Fraction(float(v)) - x) for v, x in exact)
        bound = Fraction(found.error_bound)
        return [] if off <= bound else [f"a policy is off by {float(off)}, not {float(bound)}"]

    def contradictions(self, c: ts.Certificate) -> list[str]:
        """The statements of a certificate that are false."""
        own = self.worth(c.policy.table)
        bounds = c.value_bounds
        if own is None:
            return ["policy"]
        assert bounds is not None
        assert c.start is not None
        lost = [b - w for b, w in zip(self.best, own, strict=True)]
        start = [Fraction(float(p)) for p in c.start.ravel()]

        def mean(numbers: Row) -> Fraction:
            return sum((p * x for p, x in zip(start, numbers, strict=True)), Fraction(0))

        stated = {
            "optimal": (bounds.optimal_lower, self.best, bounds.optimal_upper),
            "policy": (bounds.policy_lower, own, bounds.policy_upper),
        }
        figures = {
            "optimal_mean": mean(self.best),
            "policy_mean": mean(own),
            "mean_loss": mean(lost),
            "worst_loss": max(lost),
        }
        if c.relative_loss is not None:
            figures["relative_loss"] = mean(lost) / abs(mean(self.best))
        for name, exact in figures.items():
            figure = getattr(c, name)
            stated[name] = (figure.lower, [exact], figure.upper)
        return [name for name, ends in stated.items() if not _hold(*ends)]


def _hold(lower, exact: Row, upper) -> bool:
    ends = zip(np.ravel(lower), exact, np.ravel(upper), strict=True)
    return all(Fraction(float(low)) <= x <= Fraction(float(high)) for low, x, high in ends)


def forged(c: ts.Certificate, rng: np.random.Generator) -> Iterator[ts.Certificate]:
    """Each vector moved inward, in one state or in all, by little or much."""
    bounds = c.value_bounds
    assert bounds is not None
    scale = max(1.0, float(np.abs(bounds.optimal_lower).max()))
    for part in VECTORS:
        vector = getattr(bounds, part)
        moved = rng.random(vector.shape) < rng.choice([0.3, 1.0])
        by = scale * 10.0 ** rng.uniform(-15, 0) * (-1 if part.endswith("upper") else 1)
        changed = replace(bounds, **{part: vector + by * (moved & (vector != 0))})
        yield replace(c, value_bounds=changed)
