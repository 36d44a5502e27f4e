"""The search for the smallest rule of a class that keeps a promise: one loop for every class.

    idle axes                 are dropped, where it is only a question of what is allowed
    necessary conditions      additive costs that every rule of the promise meets: sizes that cannot
                              are ruled out, by the class's exact solver
    rounds                    fit to visits x gap; judge the rules themselves; mix the visits of the
                              rules found into the weights, and again
    neighbours                change one number of a rule at a time, as long as it loses less
    branch and bound          of the class that has the smallest rule, if its solver is exact

The visits of the first round are those of the optimal policy. Rules for the worst state are also
fitted to sets of allowed actions {gap <= bar}, for bars between (1 - discount) x promise, which
suffices, and the promise, which is necessary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tessella.errors import counted
from tessella.rules.branch import Branching
from tessella.rules.frontier import Outcome, Point
from tessella.rules.judge import Judge, Judged
from tessella.rules.promise import Promise
from tessella.rules.rule_class import Costs, Fitted, RuleClass
from tessella.rules.visits import Necessary, necessary

ROUNDS, ROUNDS_LARGE = 8, 3
SPREAD, MANY = 12, 5_000  # rules judged at a time for a frontier, in models of so many states
PATIENCE, IDLE = 3, 8  # rounds without a smaller rule, and without a new one
BARS = 6
VARIED, MOST_VARIED = 6_000, 60  # rounds about single rules: states x rounds, and rounds
CHANGED, MOST_CHANGED = 600_000, 4_000  # neighbours: states x rules that are judged, and rules
LEAST_SHARE = 1e-9  # of the mean weight of a state that an offer copies
LEAST_CHANGED, BELOW = 60, 3  # neighbours of one rule, and rules just too small for a promise
CONTRADICTED = "what seemed proven contradicts a rule that was found, so nothing is claimed"


@dataclass(eq=False)
class Search:
    """One search over classes: what is known so far.

    Attributes:
        judge: what rules lose.
        promise: what must be kept.
        deadline: when to stop, on the clock of ``time.perf_counter``.
        report: told in a line how far the search is.
        whole: whether rules that break the promise are wanted too, for a frontier.
        allotted: when to stop with the class that is being looked at; what it found is judged yet.
        points: the best rule of each class and size.
        outcomes: what became of each class.
        tried: how often a rule was written out and looked at; solvers and branch and bound may
            rule out any number of them without that.
    """

    judge: Judge
    promise: Promise
    deadline: float = float("inf")
    report: Callable[[str], None] | None = None
    whole: bool = False
    allotted: float = float("inf")
    points: dict[tuple[str, int], Point] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    tried: int = 0

    def costs(self, by_state: NDArray) -> Costs:
        mdp = self.judge.mdp
        until = min(self.deadline, self.allotted)
        return Costs(mdp.grid, mdp.actions, by_state, until, mdp.action_name)

    @cached_property
    def conditions(self) -> list[Necessary]:
        return necessary(self.judge, self.promise)

    def _asked(self, kind: RuleClass, condition: Necessary) -> Costs:
        """The costs of a condition, without axes that no rule of the class need look at."""
        costs = self.costs(condition.costs)
        fewer = costs.without_idle_axes() if condition.sets and kind.slices else costs
        return costs if kind.refusal(fewer) else fewer

    @cached_property
    def _points(self) -> NDArray[np.float64]:
        return self.judge.mdp.grid.points

    @property
    def _limit(self) -> float:
        """What a rule may lose, and what cannot be told from it."""
        return max(self.promise.most, self.promise.resolution) * (1 + 1e-9)

    @property
    def late(self) -> bool:
        return time.perf_counter() > min(self.deadline, self.allotted)

    @property
    def over(self) -> bool:
        return time.perf_counter() > self.deadline

    def best(self, kind: str | None = None) -> Point | None:
        """The smallest rule that keeps the promise, of one class or of all."""
        kept = [p for p in self.points.values() if self._keeps(p) and kind in (None, p.kind)]
        return min(kept, key=lambda p: (p.size, p.loss), default=None)

    def _keeps(self, point: Point) -> bool:
        return self.promise.kept_by(self.judge(point.table))

    def largest(self, kind: RuleClass) -> int:
        """The most numbers that a rule of a class may have; of a class that knows none, many."""
        known = kind.largest(self.costs(self.conditions[0].costs))
        return int(known) if np.isfinite(known) else 3 * self.judge.mdp.n_states

    def copy(self, kind: RuleClass) -> None:
        """Take the smallest rule of a class that does nothing but what is best, if there is one."""
        costs = self.costs((self.judge.gap > 0).astype(float))
        if not kind.refusal(costs):
            fits = kind.fit(costs, self.largest(kind), 0.5)
            self._judge(kind, [fitted for fitted in fits if fitted.cost < 0.5][:1])

    def examine(self, kind: RuleClass, most: int) -> None:
        """Look for the smallest rule of a class, with at most so many numbers."""
        first = self.costs(self.conditions[0].costs)
        refusal, before = self.refusal(kind), self.tried
        if refusal:
            self.outcomes.append(Outcome(kind.name, None, 0, refusal))
            return
        unsure = kind.heuristic(self._asked(kind, self.conditions[0]))
        if self.whole:  # rules of all sizes first, and proofs with what time is left
            self._offered(kind, most)
            self._rounds(kind, most, 0)
        said, needed = [unsure], self.needed(kind, most)
        if needed <= most and not self.whole:
            self._rounds(kind, most, needed)
        best = self.best(kind.name)
        if best is not None and needed > best.size:
            needed = 0
            said.append(CONTRADICTED)
        elif needed > most and not self.whole:
            condition = self.conditions[0]
            every = kind.largest(first) <= most or kind.impossible(
                self._asked(kind, condition), condition.target
            )
            which = (
                "no rule of this class"
                if every
                else f"none with {counted(most, 'number')} or fewer"
            )
            said.append(f"{which} keeps the promise")
        if best is None and (needed <= most or self.whole):
            said.append(self.effort(f"rules of up to {counted(most, 'number')}", before))
        said.append(
            self.ending(best is not None, "a larger `most`" if self.whole else "a larger loss")
        )
        size = None if best is None else best.size
        self.outcomes.append(Outcome(kind.name, size, needed, "; ".join(filter(None, said))))
        self._tell(kind, best)

    def refusal(self, kind: RuleClass) -> str:
        """Why a class has no rules for this model; empty where it has."""
        why = kind.refusal(self.costs(self.conditions[0].costs))
        return f"the class does not apply: {why}" if why else ""

    def effort(self, among: str, before: int = 0) -> str:
        """How many rules were tried; empty for none, which says nothing of the work done."""
        return f"{among} tried: {self.tried - before:,}" if self.tried > before else ""

    def ending(self, found: bool, more: str) -> str:
        """How a search ended, and where it found nothing, what may help: ``more`` of something."""
        stopped = "stopped by the time limit" if self.late else ""
        if found:
            return stopped
        helps = f"{more} may allow one"
        return f"{stopped}; more time or {helps}" if stopped else helps

    def _offered(self, kind: RuleClass, most: int) -> None:
        """Judge what a class offers to copy the optimal policy, however the states count.

        Alike, by their visits, or by what the second-best action loses there.
        """
        table, visits = self.judge.solution.policy.table.ravel(), self.judge.optimal.visits
        other = 1.0 - np.eye(self.judge.mdp.n_actions)[table]  # than the policy: ties count too
        for weights in (np.ones(len(table)), visits, visits * self.judge.stakes):
            if weights.any():
                shares = np.maximum(weights / weights.mean(), LEAST_SHARE)
                self._judge(kind, kind.offers(self.costs(shares[:, None] * other), most))

    def _tell(self, kind: RuleClass, best: Point | None) -> None:
        if self.report is not None:
            found = (
                "nothing yet"
                if best is None
                else f"{counted(best.size, 'number')}, loss {best.loss:.4g}"
            )
            self.report(f"{kind.name}: {found}; {self.judge.count:,} rules judged")

    def needed(self, kind: RuleClass, most: int) -> int:
        """The largest size that the necessary conditions rule out, plus one; fits are judged.

        0 once the time is up: a fit that may have been cut short rules out nothing.
        """
        found = 0
        for condition in self.conditions:
            costs = self._asked(kind, condition)
            if kind.impossible(costs, condition.target):
                return most + 1
            if kind.heuristic(costs):
                continue
            fits = kind.fit(costs, most, condition.target)
            least = kind.needed(costs, condition.target, most, fits)
            cut_short = self.late
            self._judge(kind, fits)
            if cut_short:
                return 0
            found = max(found, least)
        return found

    def branch(self, kind: RuleClass, needed: int, most: int, nodes: float) -> int:
        """The same by branch and bound: sizes from ``needed`` on, until one is not ruled out.

        A rule that is found on the way is kept, and then its size is the one that is needed.
        """
        judge, promise = self.judge, self.promise
        if kind.heuristic(self.costs(self.conditions[0].costs)):
            return needed
        if not Branching.serves(judge, promise):
            return needed
        tree = Branching(judge, promise, self.costs, self._enter, lambda: self.late, nodes)
        return tree.sizes(kind, needed, most)

    def close(self, kind: RuleClass) -> None:
        """Prove more, by branch and bound, of the class that the smallest rule is of."""
        best = self.best(kind.name)
        at = next(i for i, outcome in enumerate(self.outcomes) if outcome.kind == kind.name)
        known = self.outcomes[at]
        if best is None or not 0 < known.needed < best.size:
            return
        usual = Branching.usual_nodes(self.judge)
        needed = self.branch(kind, known.needed, best.size - 1, usual)
        smaller = self.best(kind.name) or best
        self.outcomes[at] = replace(known, size=smaller.size, needed=min(needed, smaller.size))

    def rounded(self, kind: RuleClass, point: Point) -> Iterator[Point]:
        """A rule of the class with fewer digits, where the promise is kept; the fewest first."""
        costs = self.costs(self._weighted(self.judge(point.table).visits))
        for fitted in kind.coarser(costs, point.fitted):
            table = fitted.program(self.judge.mdp.grid)(self._points)
            if self.over or not self.judge.fits(table) or self.judge.floor(table) > self._limit:
                continue
            judged = self.judge(table)
            if self.promise.kept_by(judged):
                loss = self.promise.of(judged) / self.promise.unit
                yield Point(kind.name, fitted.size, loss, fitted, judged.table)

    def _rounds(self, kind: RuleClass, most: int, needed: int) -> None:
        weights, rounds, idle = self.judge.optimal.visits, 1, 0
        limit = ROUNDS if self.judge.small else ROUNDS_LARGE
        for bar in self._bars():
            costs = (self.judge.gap > bar).astype(float)
            self._judge(kind, kind.fit(self.costs(costs), self._room(kind, most), 0.5))
        for _ in range(limit):
            first = self.whole and rounds == 1  # of which there is one, whatever the limit
            if (self.late and not first) or self._closed(kind, needed):
                return
            room, before = self._room(kind, most), self.judge.count
            target = 0.0 if self.whole else self.promise.most
            costs = self.costs(self._weighted(weights / rounds))
            judged = self._judge(kind, kind.fit(costs, room, target))
            if self.judge.small:
                self._judge(kind, kind.nearly(costs, room))
            idle = idle + 1 if self._room(kind, most) == room and not self.whole else 0
            if not judged or self.judge.count == before or idle > PATIENCE:
                break
            weights = weights + np.mean([one.visits for one in judged], axis=0)
            rounds += 1
        if kind.varied and self.judge.small and (self.whole or not self.promise.nothing):
            self._varied(kind, most, needed)
            self._changed(kind, needed)

    def _varied(self, kind: RuleClass, most: int, needed: int) -> None:
        """Rounds about single rules of the frontier, in models that are small enough for many.

        Costs are visits x gap of a rule alone, or what the rule itself would gain by another action
        for once: d_pi (max_a Q_pi - Q_pi), a step of policy iteration within the class.
        """
        rng, idle = np.random.default_rng(0), 0
        for turn in range(min(VARIED // self.judge.mdp.n_states, MOST_VARIED)):
            points = [p for p in self.points.values() if p.kind == kind.name]
            if not points or self.late or idle > IDLE or self._closed(kind, needed):
                return
            before = self.judge.count
            judged = self.judge(points[int(rng.integers(len(points)))].table)
            visits = judged.visits
            other = self.judge.optimal.visits if turn % 3 else rng.permutation(visits)
            mixed = rng.dirichlet((4.0, 1.0)) @ np.stack([visits, other])
            own = self.judge.own_gaps(judged) if turn % 2 else self.judge.gap
            self._judge(kind, kind.fit(self.costs(self._weighted(mixed, own)), most, 0.0))
            idle = 0 if self.judge.count > before else idle + 1

    def _changed(self, kind: RuleClass, needed: int) -> None:
        """Change one number at a time of the rules that could matter, the small ones first.

        For a promise these are rules a little too small to keep it.
        """
        left = min(CHANGED // self.judge.mdp.n_states, MOST_CHANGED)
        best = self.best(kind.name)
        mine = sorted((p for p in self.points.values() if p.kind == kind.name), key=_by_size)
        if not self.whole and best is not None:
            mine = [p for p in mine if needed <= p.size < best.size][: -BELOW - 1 : -1]
        share = max(left // max(len(mine), 1), LEAST_CHANGED)
        for point in mine:
            before = self.judge.count
            while self.judge.count - before < share and left > 0 and not self.late:
                known = self.judge.count
                better = self._better(kind, point)
                left -= self.judge.count - known
                if better is None:
                    break
                point = better

    def _better(self, kind: RuleClass, point: Point) -> Point | None:
        """The first neighbour of a rule that loses less."""
        costs = self.costs(self.conditions[0].costs)
        for root in kind.neighbours(costs, point.fitted.root):
            if self.late:
                return None
            self._enter(kind, Fitted(root, point.size, 0.0))
            found = self.points[kind.name, point.size]
            if found.loss < point.loss:
                return found
        return None

    def _room(self, kind: RuleClass, most: int) -> int:
        """How many numbers a rule may have to be of interest."""
        best = self.best(kind.name)
        return most if best is None or self.whole else min(most, best.size)

    def _closed(self, kind: RuleClass, needed: int) -> bool:
        best = self.best(kind.name)
        return not self.whole and best is not None and best.size <= needed

    def _bars(self) -> Iterator[float]:
        """Local losses up to which actions are allowed, for promises about the worst state."""
        if self.promise.worst and not self.promise.nothing:
            low = self.promise.most / self.judge.longest()
            yield from np.geomspace(low, self.promise.most, BARS)

    def _weighted(self, visits: NDArray, gap: NDArray | None = None) -> NDArray[np.float64]:
        """(S, A) visits x gap, with infeasible actions dearer than everything else together."""
        gap, feasible = self.judge.gap if gap is None else gap, self.judge.feasible
        costs = visits[:, None] * np.where(feasible, gap, 0.0)
        if not feasible.all():
            costs[~feasible] = 10 * max(float(costs.max(axis=1).sum()), 1.0)
        return costs

    def _judge(self, kind: RuleClass, fits: list[Fitted]) -> list[Judged]:
        """Judge rules and keep the best of each size; in a large model only some of them."""
        if not self.judge.small and not self.whole and len(fits) > 1:
            return self._bisect(kind, fits)
        if not self.judge.small and len(fits) > SPREAD and self.judge.mdp.n_states > MANY:
            fits = [fits[i] for i in np.unique(np.linspace(0, len(fits) - 1, SPREAD).astype(int))]
        found = []
        for fitted in fits:
            if self.over and self.best() is not None:
                break
            judged = self._enter(kind, fitted)
            if judged is not None:
                found.append(judged)
        return found

    def _bisect(self, kind: RuleClass, fits: list[Fitted]) -> list[Judged]:
        """Judge about log2 of the rules, for the smallest that keeps the promise."""
        low, high, found = 0, len(fits), []
        while low < high and not (self.over and self.best() is not None):
            middle = (low + high) // 2
            judged = self._enter(kind, fits[middle])
            if judged is not None:
                found.append(judged)
            kept = judged is not None and self.promise.kept_by(judged)
            low, high = (low, middle) if kept else (middle + 1, high)
        return found

    def _enter(self, kind: RuleClass, fitted: Fitted) -> Judged | None:
        """What a rule loses, kept where it is the best of its size; None if it is infeasible.

        In a large model also if it surely breaks the promise, and nobody wants such rules.
        """
        self.tried += 1
        table = fitted.program(self.judge.mdp.grid)(self._points)
        if not self.judge.fits(table):
            return None
        if not (self.judge.small or self.whole or self.judge.floor(table) <= self._limit):
            return None
        judged = self.judge(table)
        loss, key = self.promise.of(judged) / self.promise.unit, (kind.name, fitted.size)
        if key not in self.points or loss < self.points[key].loss:
            self.points[key] = Point(kind.name, fitted.size, loss, fitted, judged.table)
        return judged


def _by_size(point: Point) -> tuple[int, float]:
    return point.size, point.loss
