"""Branch and bound: whether a class has a rule of some size that keeps a promise at all.

A node allows actions A(s) in each state. With the least losses of any policy within A,

    L(s) = min_{a in A(s)} gap(s, a) + discount sum P(s' | s, a) L(s'),
    own(s, a) = gap(s, a) + discount sum P(s' | s, a) L(s') - L(s) >= 0,

a rule within A loses mu L + sum_s d(s) own(s, rule(s)) from the start, d its visits, and at least
L(s) + own(s, rule(s)) from every state s. With m <= d for all rules of the node that keep the
promise, no rule of a size does so if

    mu L + (min over rules of that size of sum_s m(s) own(s, rule(s)))  >  promise,

which the exact solver of the class says; of the worst state, if none takes only actions that lose
the promise at most. Else the cheapest rule is judged; if it breaks the promise, the node is divided
at the state where the bound misses most, (d - m) own: the rule takes that action there, or another.
For m there are the actions that are left (see ``visits``), and for every price >= 0

    m(s) >= min over policies of (d(s) + price x loss) - price x promise,

for who loses no more than the promise cannot avoid much.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.discounted import Discounted
from tessella.rules.judge import Judge, Judged
from tessella.rules.promise import Promise
from tessella.rules.rule_class import Costs, Fitted, RuleClass
from tessella.rules.visits import SURE, known_gap, least_visits

WORK, MOST = 100_000, 1_000  # nodes: states x actions x nodes, and nodes
PRICES = (0.1, 0.3, 0.6)  # x promise, as shares of the visits of the optimal policy
SOLVED, TARGETS = 40_000, 100  # states whose least visits are found: states x these, and these
TURNS = 4  # of a node: least losses, and what they forbid
STEPS = 50  # of policy iteration
CLOSE = 1e-12  # of the largest gap: what is not worth a step


@dataclass(frozen=True, eq=False)
class Least:
    """The least losses within some actions.

    Attributes:
        table: (S,) a policy that has them.
        loss: (S,) bounded from below, rounding included.
        own: (S, A) what an action loses beyond; infinite for what is not allowed.
    """

    table: NDArray[np.int64]
    loss: NDArray[np.float64]
    own: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Open:
    """A node that may hold a rule: what its rules must cost at most, by additive costs (S, A)."""

    allowed: NDArray[np.bool_]
    least: Least
    visits: NDArray[np.float64]
    costs: NDArray[np.float64]
    target: float


class Branching:
    """Rules of one class that keep a promise of a small discounted model.

    Attributes:
        nodes: how many may be looked at yet.
    """

    def __init__(
        self,
        judge: Judge,
        promise: Promise,
        costs: Callable[[NDArray], Costs],
        enter: Callable[[RuleClass, Fitted], Judged | None],
        late: Callable[[], bool],
        nodes: float = math.inf,
    ) -> None:
        self.judge, self.promise = judge, promise
        self._costs, self._enter, self._late = costs, enter, late
        self._gap, self.nodes = known_gap(judge), nodes

    @staticmethod
    def usual_nodes(judge: Judge) -> int:
        """How many nodes take no longer than the search itself, about."""
        return min(WORK // (judge.mdp.n_states * judge.mdp.n_actions), MOST)

    @staticmethod
    def serves(judge: Judge, promise: Promise) -> bool:
        """Whether there is something to gain: with a promise of 0, the first bound is exact."""
        return judge.small and isinstance(judge.mdp.criterion, Discounted) and not promise.nothing

    def sizes(self, kind: RuleClass, least: int, most: int) -> int:
        """No rule of fewer numbers keeps the promise: at least ``least``, at most ``most + 1``.

        It ends with the first size of which a rule is found that does, and when there are no nodes
        or no time left.
        """
        size, node = max(least, 1), self._first
        if node is not None and not self._late():
            size = max(size, self._fits(kind, most, node)[1])
        if self._late():
            return least
        while size <= most and self._none_has(kind, size):
            size += kind.step
        return size if size > max(least, 1) else least

    def _none_has(self, kind: RuleClass, size: int) -> bool:
        """Whether it is certain that no rule of at most so many numbers keeps the promise."""
        waiting: list[Open | None] = [self._first]
        while waiting:
            node = waiting.pop()
            fits, needed = ([], size + 1) if node is None else self._fits(kind, size, node)
            if self._late() or self.nodes <= 0:
                return False
            self.nodes -= 1
            if node is None or needed > size:
                continue
            cheapest = min(fits, key=lambda fitted: fitted.cost, default=None)
            judged = None if cheapest is None else self._enter(kind, cheapest)
            if judged is None or self.promise.kept_by(judged):
                return False
            parts = self._divided(node, judged)
            if not parts:
                return False
            waiting += [self._bounded(*part) for part in parts]
        return True

    @cached_property
    def _first(self) -> Open | None:
        table = self.judge.solution.policy.table.ravel()
        return self._bounded(self.judge.feasible, table.astype(np.int64))

    def _fits(self, kind: RuleClass, most: int, node: Open) -> tuple[list[Fitted], int]:
        """Rules of at most so many numbers in a node, and how many numbers are needed there.

        A class may be exact for the costs of some nodes only, as run-length tables are.
        """
        costs = self._costs(node.costs)
        fits = kind.fit(costs, most, node.target)
        exact = not kind.heuristic(costs)
        return fits, kind.needed(costs, node.target, most, fits) if exact else 1

    def _bounded(self, allowed: NDArray, table: NDArray) -> Open | None:
        """A node with all that its bounds forbid; None if nothing is left of it."""
        most = self.promise.most * (1 + 1e-9)
        least, visits = self._least(allowed, table), self._surely
        for _ in range(TURNS):
            if self.promise.worst:
                lost = least.loss[:, None] + least.own
            else:
                visits = np.maximum(self._surely, least_visits(self.judge, allowed))
                lost = self.judge.start @ least.loss + _product(visits, least.own)
            fewer = allowed & (lost <= most)
            if not fewer.any(axis=1).all():
                return None
            if (fewer == allowed).all():
                break
            allowed, least = fewer, self._least(fewer, least.table)
        return self._open(allowed, least, visits, most)

    def _open(self, allowed: NDArray, least: Least, visits: NDArray, most: float) -> Open | None:
        if self.promise.worst:
            return Open(allowed, least, visits, (~allowed).astype(float), 0.5)
        room = most - float(self.judge.start @ least.loss)
        if room < 0:
            return None
        room = max(room, CLOSE * most)
        costs = np.where(allowed, np.minimum(_product(visits, least.own), 2 * room), 2 * room)
        return Open(allowed, least, visits, costs, room)

    def _divided(self, node: Open, judged: Judged) -> list[tuple[NDArray, NDArray]]:
        """Two nodes, of which the second is looked at first; none where no state tells."""
        everyone = np.arange(len(judged.table))
        own = np.where(node.allowed, node.least.own, 0.0)[everyone, judged.table]
        missed = np.maximum(judged.visits - node.visits, 0.0) * own
        s = int(missed.argmax())
        if missed[s] <= 0:
            return []
        without, taken = node.allowed.copy(), node.allowed.copy()
        without[s, judged.table[s]] = False
        taken[s] = False
        taken[s, judged.table[s]] = True
        begin = node.least.table.copy()
        begin[s] = judged.table[s]
        return [(without, node.least.table), (taken, begin)]

    def _least(self, allowed: NDArray, table: NDArray) -> Least:
        return self._solved(np.where(allowed, self._gap, np.inf), table)

    def _solved(self, costs: NDArray, table: NDArray) -> Least:
        """Policy iteration for least discounted costs (S, A), infinite for what is not allowed."""
        everyone, discount = np.arange(len(costs)), self.judge.mdp.discount
        close = CLOSE * float(costs[np.isfinite(costs)].max(initial=1e-300))
        table = np.where(np.isfinite(costs[everyone, table]), table, costs.argmin(axis=1))
        loss, q = self._worth(costs, table)
        for _ in range(STEPS):
            best = q.argmin(axis=1)
            better = q[everyone, best] < q[everyone, table] - close
            if not better.any():
                break
            table = np.where(better, best, table)
            loss, q = self._worth(costs, table)
        short = max(float((loss - q.min(axis=1)).max()), 0.0) / (1 - discount)
        loss = np.maximum(loss - 2 * short - close, 0.0)
        return Least(table, loss, np.maximum(q - loss[:, None] - 4 * short - 2 * close, 0.0))

    def _worth(self, costs: NDArray, table: NDArray) -> tuple[NDArray, NDArray]:
        """(S,) discounted costs of a table, and (S, A) those of another action for once."""
        loss = self.judge.sums(table, costs[np.arange(len(costs)), table])
        return loss, costs + self.judge.mdp.discount * self.judge.after(loss)

    @cached_property
    def _surely(self) -> NDArray[np.float64]:
        """(S,) visits of every policy that keeps the promise on average, from below."""
        found = np.zeros(len(self._gap))
        if self.promise.worst:
            return found
        usual = self.judge.optimal.visits
        stakes = usual * np.where(np.isfinite(self._gap), self._gap, 0.0).max(axis=1)
        for s in np.argsort(-stakes)[: min(SOLVED // len(stakes), TARGETS)]:
            if stakes[s] > 0:
                found[s] = max(self._visited(int(s), share, float(usual[s])) for share in PRICES)
        return np.maximum(found, 0.0) * SURE

    def _visited(self, s: int, share: float, usual: float) -> float:
        """The bound on the visits of one state by one price."""
        price = share * usual / self.promise.most
        costs = price * self._gap
        costs[s] += 1.0
        least = self._solved(costs, self.judge.solution.policy.table.ravel().astype(np.int64))
        return float(self.judge.start @ least.loss) - price * self.promise.most * (1 + 1e-9)


def _product(visits: NDArray, own: NDArray) -> NDArray[np.float64]:
    """(S, A) visits x own, 0 where nobody comes."""
    with np.errstate(invalid="ignore"):
        return np.where(visits[:, None] > 0, visits[:, None] * own, 0.0)
