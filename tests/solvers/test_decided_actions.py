"""An action that is called decided is optimal: on models that are nearly tied, in fractions.

Let |v - V*| <= e. Action a leads where v is too high by e, action b where it is too low by e, so
that a looks better by 2 discount e more than it is. Where b is better by a hair, a margin between 1
and 2 times discount e speaks for the wrong action: only 2 (discount e + rounding) decides.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from support.models import Exact

import tessella as ts
from tessella.solvers.bounds import decide
from tessella.solvers.execution_plan import make_plan
from tessella.solvers.prepared_model import PreparedModel

HAIRS = [0.0, 2.0**-20, 2.0**-10, 0.125, 0.5, 0.875, 1.0, 1.5, 3.0]  # shares of discount e


class Pull:
    """A model whose optimum ``best`` is known exactly, and a value that errs by e where it hurts.

    In state 0, action 0 leads to states 1 and 2, action 1 to 3 and 4; elsewhere both lead anywhere.
    Action 1 is better there by ``hair``. All numbers have few binary digits, so that rewards
    ``V - discount P V`` are floats without rounding.
    """

    def __init__(self, rng: np.random.Generator, discount: float, e: float, hair: float) -> None:
        n = 5
        best = [Fraction(int(k), 4) for k in rng.integers(-4000, 4000, n)]
        P = rng.multinomial(16, np.full(n, 1 / n), (2, n)) / 16
        P[0, 0] = [0, 0.25, 0.75, 0, 0]
        P[1, 0] = [0, 0, 0, 0.625, 0.375]
        behind = np.zeros((n, 2))  # by how much an action is worse than the best
        behind[0, 0] = hair
        behind[1:, 1] = rng.integers(0, 3, n - 1) * 64.0
        self.reward = np.array(
            [
                [self._paid(best, discount, P[a, s], s, behind[s, a]) for a in (0, 1)]
                for s in range(n)
            ]
        )
        self.exact = Exact(P, self.reward, discount)
        assert self.exact.solve() == best
        self.best, self.behind = best, behind
        self.mdp = ts.MDP.from_arrays(P, self.reward, discount)
        self.bound = e
        self.value = np.array([float(v) for v in best]) + e * np.array([1, 1, 1, -1, -1])

    @staticmethod
    def _paid(best, discount: float, row, s: int, behind: float) -> float:
        later = sum(Fraction(p) * v for p, v in zip(row.tolist(), best, strict=True))
        paid = best[s] - Fraction(discount) * later - Fraction(behind)
        assert Fraction(float(paid)) == paid, "has too many digits for a float"
        return float(paid)

    def decided_wrongly(self) -> list[int]:
        """States whose decided action is not the only optimal one."""
        found = decide(PreparedModel(make_plan(self.mdp)), self.value, self.bound)
        decided = found.margin > found.tie_tolerance
        return [s for s in np.flatnonzero(decided).tolist() if not self._only(s, found.policy[s])]

    def _only(self, s: int, action: int) -> bool:
        q = [self.exact.q(self.best, s, a) for a in (0, 1)]
        return q[action] > q[1 - action]


@pytest.mark.parametrize("hair", HAIRS)
@pytest.mark.parametrize("discount", [0.5, 0.75, 0.96875])
def test_no_error_within_the_bound_makes_a_wrong_action_decided(discount, hair):
    for seed in range(5):
        for e in (2.0**-12, 2.0**-6, 1.0, 16.0):
            pull = Pull(np.random.default_rng(seed), discount, e, hair * e * discount)
            assert max(map(abs, errors(pull))) == Fraction(pull.bound)
            assert pull.decided_wrongly() == []


def errors(pull: Pull) -> list[Fraction]:
    return [Fraction(v) - x for v, x in zip(pull.value.tolist(), pull.best, strict=True)]


@pytest.mark.parametrize("discount", [0.5, 0.75, 0.96875])
def test_a_margin_that_no_error_within_the_bound_can_make_is_decided(discount):
    """The value errs against the better action as far as it may, and it is still ahead."""
    for seed in range(5):
        ahead = 4.001 * discount  # of which the error hides two parts
        pull = Pull(np.random.default_rng(seed), discount, 2.0**-8, round(ahead * 2**12) / 2**20)
        found = decide(PreparedModel(make_plan(pull.mdp)), pull.value, pull.bound)
        assert found.policy[0] == 1
        assert found.margin[0] > found.tie_tolerance
        assert pull.decided_wrongly() == []


class Blur:
    """Action values of a few last bits, left over from large numbers that cancel.

    States 1 to 5 have large values V, exact in floats. State 0, which nothing leads to, is paid
    what nearly makes up for what comes later, so its action values are all rounding; its own value
    is known to the last bit. The bound is then next to nothing, and only the rounding of the
    comparison stands between a guess and a decision.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        n, self.discount = 6, 0.75
        best = [Fraction(0)] + [Fraction(int(k)) for k in rng.integers(-(2**30), 2**30, n - 1)]
        P = np.zeros((2, n, n))
        P[:, np.arange(1, n), np.arange(1, n)] = 1.0  # they stay where they are
        P[:, 0, 1:] = rng.dirichlet(np.ones(n - 1), 2)
        reward = np.array([[float(v / 4) for v in best]] * 2).T
        later = [
            0.75 * sum(Fraction(p) * v for p, v in zip(row, best, strict=True)) for row in P[:, 0]
        ]
        reward[0] = [-float(x) + 2.0**-24 * rng.integers(-1, 2) for x in later]
        self.exact = Exact(P, reward, self.discount)
        self.best = self.exact.solve()
        assert self.best[1:] == best[1:]
        self.mdp = ts.MDP.from_arrays(P, reward, self.discount)
        self.value = np.array([float(v) for v in self.best])
        off = abs(Fraction(self.value[0]) - self.best[0])
        self.bound = math.nextafter(float(off), math.inf)

    decided_wrongly = Pull.decided_wrongly
    _only = Pull._only


def test_rounding_alone_never_makes_a_wrong_action_decided():
    wrong = {seed: Blur(np.random.default_rng(seed)).decided_wrongly() for seed in range(60)}
    assert {seed: states for seed, states in wrong.items() if states} == {}


def fork(discount: float, hair: float) -> ts.MDP:
    """State 0 chooses between two states that earn -1 and 1 for ever; the second, by a hair.

    After k sweeps from 0 the residuals are discount^k times -1, 1: the bounds of the first state
    are attained below, those of the second above, so v errs by +e and by -e.
    """
    P = np.zeros((2, 3, 3))
    P[0, :, 1] = P[1, :, 2] = 1.0
    P[:, 1, :], P[:, 2, :] = [0, 1, 0], [0, 0, 1]
    gap = 2 * discount / (1 - discount)
    reward = np.array([[gap - hair, 0.0], [-1.0, -1.0], [1.0, 1.0]])
    return ts.MDP.from_arrays(P, reward, discount)


@pytest.mark.parametrize("sweeps", [2, 3, 5, 9])
@pytest.mark.parametrize("discount", [0.3, 0.5, 0.9, 0.99])
def test_a_run_that_stops_early_never_decides_for_the_wrong_action(discount, sweeps):
    for hair in (0.0, 1e-12, 1e-6, 1e-3, 0.1 * discount**sweeps):
        mdp = fork(discount, hair)
        method = ts.ValueIteration(tol=1e-300, max_sweeps=sweeps)
        solution = ts.solve(mdp, method, partial=True)
        arrays = mdp.to_arrays()
        exact = Exact(arrays.transition, arrays.reward, discount)
        best = exact.solve()
        err = [Fraction(v) - x for v, x in zip(solution.value.tolist(), best, strict=True)]
        assert min(err[1], -err[2]) > 0.99 * solution.error_bound, "the bound is not attained"
        q = [exact.q(best, 0, a) for a in (0, 1)]
        chosen = int(solution.policy.table[0])
        assert not solution.decided[0] or q[chosen] > q[1 - chosen]
