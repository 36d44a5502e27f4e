"""solve(mdp, subject_to=...): the best of all policies that satisfy constraints on measures.

Let R(pi) be what a policy earns from the start, and G_j(pi) >= 0 the constraints: for a ratio
N / D >= b this is G = N - b D. The pairs (R, G) of all policies, randomised ones included, are the
mixtures of those of deterministic policies (Altman 1999). So the optimum is a linear program over
mixtures w of deterministic policies, solved by column generation (Dantzig and Wolfe 1960):

    master    maximise  sum_k w_k R_k   subject to   sum_k w_k G_jk >= 0,  sum_k w_k = 1,  w >= 0
    pricing   maximise  R(pi) + sum_j y_j G_j(pi),    y the prices of the constraints in the master.

The pricing problem is the same model with another reward. For any prices y >= 0 its optimum bounds
what any policy earns that satisfies the constraints; the master's value is attained. The run ends
when the two meet. A first phase finds a mixture that satisfies the constraints, or prices for which
even the best policy has sum_j y_j G_j < 0, which proves that there is none.

All policies in the optimal mixture are optimal at the final prices, and so is every policy that
takes each state's action from one of them. With one constraint, a path from the one policy to the
other, a state at a time, has two neighbours on either side of the constraint: they differ in one
state, and the optimum randomises there alone. With d the occupancy of that state under each,

    P(second action) = w d_2 / ((1 - w) d_1 + w d_2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, ModelError, NotConverged
from tessella.mdp.dynamics import REWARD
from tessella.mdp.measures import (
    CONSTANT,
    Constraint,
    MeasureValue,
    Weights,
    add_weights,
    describe_constraints,
    scale_weights,
)
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.rounding import round_up
from tessella.solvers.method import validate_tol
from tessella.solvers.policy_evaluation import (
    evaluate,
    evaluate_sum,
    occupancy,
    state_sum,
)
from tessella.solvers.solution import Solution
from tessella.support.text import format_percent

GAP_TOLERANCE = 1e-8  # of the size of the optimum: where the run ends
MAX_POLICIES = 500  # generated before a run is given up
ROUGH_SHARE = 1e-3  # of the gap: the accuracy of solves that look for the price
BRACKET_STEP = 1.5  # factor, as a logarithm, between prices that are tried for an interval
BRACKET_MAX_STEPS = 20  # prices that are tried for an interval
PRICE_ACCURACY = 2e-3  # relative, of the price that rough solves find
PHASE_TOLERANCE = 1e-9  # what may be missing of constraints, scaled to 1, in the first phase
WEIGHT_TOLERANCE = 1e-9  # smaller weights of policies are those of the program's rounding
SCALE_RATIO = 1e-9  # of the largest excess: the least scale of a constraint in the program
MASTER_TOLERANCES = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


@dataclass(frozen=True, eq=False)
class EvaluatedPolicy:
    """A policy, what it earns, and by how much it exceeds each constraint."""

    policy: Policy
    reward: MeasureValue
    excess: tuple[MeasureValue, ...]

    @property
    def is_feasible(self) -> bool:
        """Whether every constraint is proven to hold."""
        return all(excess.low >= 0 for excess in self.excess)


@dataclass(frozen=True)
class ConstraintResult:
    """A constraint at the optimum.

    Attributes:
        name: of its measure.
        constraint: what was asked for.
        value: of the measure in the optimal mixture.
        price: what the objective loses for one more unit of the level: the shadow price.
    """

    name: str
    constraint: Constraint
    value: float
    price: float

    @property
    def is_binding(self) -> bool:
        return self.price > 0


@dataclass(frozen=True)
class RandomisedState:
    """The one state in which the optimal policy draws its action."""

    state: int
    actions: tuple[int, int]
    probability: float  # of the second action


@dataclass(frozen=True, eq=False)
class ConstrainedSolution:
    """The optimum subject to constraints.

    Attributes:
        low, high: the optimum of all policies lies between them, as a reward.
        mixture: policies and their weights; one of them is drawn at the start.
        randomised: the state in which the same optimum is reached by drawing its action each time;
            None where nothing is drawn, or where the policies differ in more states.
        best: the best policy found that draws nothing, with its reward; None where none was found.
        constraints: each constraint, with its value and shadow price.
        lagrangian: the solution of the model whose reward includes the constraints at their prices:
            it proves ``high``.
        excess: of each constraint, the weighted sum of counts that must not be negative.
        multipliers: the prices of these sums in ``lagrangian``.
    """

    mdp: MDP
    low: float
    high: float
    mixture: tuple[tuple[float, Policy], ...]
    randomised: RandomisedState | None
    best: EvaluatedPolicy | None
    constraints: tuple[ConstraintResult, ...]
    lagrangian: Solution
    excess: tuple[Weights, ...]
    multipliers: tuple[float, ...]

    @property
    def policy(self) -> Policy | None:
        return None if self.best is None else self.best.policy

    @cached_property
    def measures(self) -> dict[str, MeasureValue | None]:
        """All measures of ``policy``."""
        return {} if self.policy is None else evaluate(self.mdp, self.policy).measures

    @property
    def terms(self) -> str:
        """The constraints in words."""
        return describe_constraints({one.name: one.constraint for one in self.constraints})

    def __str__(self) -> str:
        sense = self.mdp.sense
        low, high = sense.display_interval(self.low, self.high)
        width = round_up(max(high - low, 0.0), 2)
        lines = [
            f"{sense.goal.capitalize()} of {self.mdp.name or 'the model'} with {self.terms}: "
            f"{low:.6g}, known within {width}",
            *(_describe_constraint(self.mdp, one) for one in self.constraints),
            *self._describe_mixture(),
        ]
        if self.best is not None:
            shown = sense.display(self.best.reward.value)
            loss = max(self.high - self.best.reward.value, 0.0)
            share = (
                f"{loss:.3g}" if abs(self.high) <= loss else format_percent(loss / abs(self.high))
            )
            lines.append(f"best policy found that draws nothing: {shown + 0.0:.6g}, {share} worse")
        return "\n".join(lines)

    def _describe_mixture(self) -> list[str]:
        if self.randomised is not None:
            where = self.randomised
            first, second = (self.mdp.describe(where.state, a) for a in where.actions)
            share = format_percent(where.probability)
            return [f"the optimum draws one action: {second} with {share}, else {first}"]
        if len(self.mixture) == 1:
            return ["the optimum draws nothing"]
        shares = " and ".join(format_percent(weight) for weight, _ in self.mixture)
        return [f"the optimum draws one of {len(self.mixture)} policies at the start: {shares}"]


def _describe_constraint(mdp: MDP, one: ConstraintResult) -> str:
    text = f"  {one.name} {one.constraint}: "
    if not one.is_binding:
        return f"{text}not binding, reaches {one.value:.6g}"
    step = 0.01 if mdp.measures[one.name].is_ratio else 1
    change = "raising" if one.constraint.sign > 0 else "lowering"
    verb = "costs" if mdp.sense.is_cost else "forgoes"
    return f"{text}binding; {change} it by {step} {verb} {step * one.price:.4g}"


@dataclass(frozen=True)
class Master:
    """The solution of the master program: the best mixture of the policies so far."""

    weights: NDArray[np.float64]  # of policies
    prices: NDArray[np.float64]  # of constraints
    value: float  # what the mixture earns; in the first phase by how much it falls short, negated


class ColumnGeneration:
    """Generates policies until the best mixture of them is proven to be optimal.

    Args:
        solve_model: how a model without constraints is solved: ``solve``, with its options.
    """

    def __init__(
        self,
        mdp: MDP,
        constraints: Mapping[str, Constraint],
        solve_model: Callable[..., Solution],
        tol: float | None = None,
    ) -> None:
        self.mdp = mdp
        self.solve_model = solve_model
        self.tol = validate_tol(tol)
        self.constraints = constraints
        # Of each constraint: the weighted sum of counts that must not be negative.
        self.excess = [mdp.measures[n].excess(c.level, c.sign) for n, c in constraints.items()]
        self.columns: list[EvaluatedPolicy] = []
        self.found: list[EvaluatedPolicy] = []  # all policies that were evaluated
        self.guesses: dict[tuple, NDArray | None] = {}
        self.guess: NDArray | None = None  # where the next solve begins
        self.high = np.inf  # no policy that satisfies the constraints earns more
        self.lagrangian: Solution | None = None  # proves it
        self.multipliers: NDArray = np.zeros(len(constraints))  # its prices

    def run(self) -> ConstrainedSolution:
        """The optimum."""
        for name in self.constraints:
            self._require_positive_denominator(name)
        self._add_best_policy(1.0, np.zeros(len(self.excess)))
        self._find_feasible_mixture()
        self._maximise_reward()
        self._find_neighbours(self._solve_master())
        return self._make_solution(self._solve_master())

    def _require_positive_denominator(self, name: str) -> None:
        """A ratio N / D >= b is N - b D >= 0 only where D is not negative: in every period."""
        formula = self.mdp.measures[name]
        if not formula.is_ratio:
            return
        dynamics = self.mdp.with_objective(formula.denominator).dynamics
        least = min(float(dynamics.action_reward(a).min()) for a in range(self.mdp.n_actions))
        least = min(least, formula.denominator.get(CONSTANT, 0.0))
        if least < -dynamics.rounding.in_memory.reward_error:
            requirement = f"a constraint on {name} needs a denominator that is never negative"
            raise ModelError(requirement, location=formula.text, value=f"has {least:g} in a period")

    def _find_feasible_mixture(self) -> None:
        """Add policies until a mixture satisfies the constraints; raise where none can."""
        while True:
            master = self._solve_master(is_first_phase=True)
            if master.value >= 0:
                return
            best = self._add_best_policy(0.0, master.prices)
            if best.high < 0 or self._repeats_policy():
                self._raise_unattainable()

    def _maximise_reward(self) -> None:
        """Add policies until none improves the mixture."""
        if len(self.excess) == 1 and not self.columns[0].is_feasible:
            self._approach_price()
        while True:
            master = self._solve_master()
            if self.high - master.value <= self._choose_tolerance(master.value):
                return
            self._add_best_policy(1.0, master.prices)
            if self._repeats_policy():
                return

    def _repeats_policy(self) -> bool:
        """Whether the last policy was there before."""
        *others, last = (column.policy.table for column in self.columns)
        return any(np.array_equal(table, last) for table in others)

    def _choose_tolerance(self, value: float) -> float:
        """How far apart the bounds of the optimum may be."""
        return GAP_TOLERANCE * max(abs(value), abs(self.high)) if self.tol is None else self.tol

    def _approach_price(self) -> None:
        """With one constraint, add the best policies at prices on either side of the optimal one.

        The excess of the best policy grows with the price. Rough solves find where it changes sign;
        prices of the master would halve the interval with every policy.
        """
        from scipy.optimize import brentq

        master = self._solve_master()
        tol = ROUGH_SHARE * (self.high - master.value)

        @cache
        def compute_excess(log_price: float) -> float:
            weights = weigh_counts(1.0, np.exp([log_price]), self.excess)
            policy = self._maximise(weights, tol=tol)[0].policy
            return self._evaluate_excess(policy, tol)[0].value

        if master.prices[0] <= 0 or tol <= 0:
            return
        first = float(np.log(master.prices[0]))
        side = 1 if compute_excess(first) < 0 else -1
        tried = (first + side * BRACKET_STEP * np.arange(BRACKET_MAX_STEPS)).tolist()
        pairs = ((one, two) for one, two in pairwise(tried) if side * compute_excess(two) >= 0)
        interval = next(pairs, None)
        if interval is None:
            return
        low, high = sorted(interval)
        root: Any = brentq(compute_excess, low, high, xtol=PRICE_ACCURACY)
        for log_price in (root - PRICE_ACCURACY, root + PRICE_ACCURACY):
            self._add_best_policy(1.0, np.exp([log_price]))

    def _find_neighbours(self, master: Master) -> None:
        """With one constraint, mix two policies that differ in one state, if they are as good."""
        mixed = np.flatnonzero(master.weights)
        if len(self.excess) > 1 or len(mixed) != 2:
            return
        columns = sorted((self.columns[k] for k in mixed), key=lambda c: c.excess[0].value)
        first, second = (column.policy for column in columns)
        differing = np.flatnonzero(first.table != second.table)
        low = 0  # the first so many of these states take the second policy's action
        high = len(differing)
        while high - low > 1:
            middle = (low + high) // 2
            table = first.table.copy()
            switched = differing[:middle]
            table.flat[switched] = second.table.flat[switched]
            policy = self.mdp.policy(table)
            if self._evaluate_excess(policy)[0].low >= 0:
                high = middle
                second = policy
            else:
                low = middle
                first = policy
        before = self.columns
        self.columns = [self._evaluate_policy(policy) for policy in (first, second)]
        if self._solve_master().value < master.value - self._choose_tolerance(master.value):
            self.columns += before

    def _add_best_policy(self, objective: float, prices: NDArray) -> MeasureValue:
        """Solve the pricing problem and add its policy; its value bounds that of every policy."""
        if len(self.columns) >= MAX_POLICIES:
            raise NotConverged(f"{MAX_POLICIES} policies were not enough for these constraints")
        solution, value = self._maximise(weigh_counts(objective, prices, self.excess))
        self.columns.append(self._evaluate_policy(solution.policy))
        if objective and value.high < self.high:
            self.high = value.high
            self.lagrangian = solution
            self.multipliers = prices
        return value

    def _maximise(self, weights: Weights, **options: Any) -> tuple[Solution, MeasureValue]:
        found = maximise_sum(self.mdp, weights, self.solve_model, guess=self.guess, **options)
        self.guess = found[0].value
        return found

    def _evaluate(self, policy: Policy, weights: Weights, tol: float | None = None) -> MeasureValue:
        """A weighted sum of counts; the values of the last policy are where to begin."""
        key = tuple(weights.items())
        options = {"tol": tol, "guess": self.guesses.get(key)}
        value, self.guesses[key] = evaluate_sum(self.mdp, policy, weights, **options)
        return value

    def _evaluate_excess(self, policy: Policy, tol: float | None = None) -> list[MeasureValue]:
        return [self._evaluate(policy, weights, tol) for weights in self.excess]

    def _evaluate_policy(self, policy: Policy) -> EvaluatedPolicy:
        """What a policy earns itself: that of a pricing problem may be short of its optimum."""
        reward = self._evaluate(policy, {REWARD: 1.0})
        self.found.append(EvaluatedPolicy(policy, reward, tuple(self._evaluate_excess(policy))))
        return self.found[-1]

    def _solve_master(self, is_first_phase: bool = False) -> Master:
        """The best mixture, by HiGHS; numbers are scaled to sizes near 1.

        In the first phase, slack variables take up what is missing, and their sum is minimised.
        """
        from scipy.optimize import linprog

        excess = np.array([[one.low for one in column.excess] for column in self.columns]).T
        n_rows, n_columns = excess.shape
        earned = np.zeros(n_columns)
        if not is_first_phase:
            earned = np.array([column.reward.low for column in self.columns])
        scale = float(np.abs(earned).max()) or 1.0
        largest = np.maximum(np.abs(excess).max(axis=1), np.finfo(float).tiny)
        # The program may miss a constraint by a share of its scale: of what policies exceed it by.
        row_scale = np.maximum(excess.max(axis=1), SCALE_RATIO * largest)
        scaled_excess = excess / row_scale[:, None]
        result = linprog(
            np.concatenate([-earned / scale, np.ones(n_rows)]),
            A_ub=np.hstack([-scaled_excess, -np.eye(n_rows)]),
            b_ub=np.zeros(n_rows),
            A_eq=np.concatenate([np.ones(n_columns), np.zeros(n_rows)])[None],
            b_eq=[1.0],
            bounds=[(0, None)] * n_columns + [(0, None if is_first_phase else 0)] * n_rows,
            method="highs-ds",
            options=MASTER_TOLERANCES,
        )
        if not result.success:
            raise NotConverged(f"the best mixture of policies was not found: {result.message}")
        prices = np.maximum(-result.ineqlin.marginals, 0.0) * scale / row_scale
        weights = _polish_weights(result.x[:n_columns], scaled_excess, prices)
        missing = float(result.x[n_columns:].sum())
        value = float(earned @ weights) - (missing if missing > PHASE_TOLERANCE else 0.0)
        return Master(weights, prices, value)

    def _make_solution(self, master: Master) -> ConstrainedSolution:
        assert self.lagrangian is not None
        mixed = np.flatnonzero(master.weights)
        mixture = [(float(master.weights[k]), self.columns[k]) for k in mixed]
        feasible = [column for column in self.found if column.is_feasible]
        return ConstrainedSolution(
            mdp=self.mdp,
            low=master.value,
            high=self.high,
            mixture=tuple((weight, column.policy) for weight, column in mixture),
            randomised=self._find_randomised_state(mixture),
            best=max(feasible, key=lambda column: column.reward.low, default=None),
            constraints=tuple(
                self._describe(j, name, mixture, float(master.prices[j]))
                for j, name in enumerate(self.constraints)
            ),
            lagrangian=self.lagrangian,
            excess=tuple(self.excess),
            multipliers=tuple(map(float, self.multipliers)),
        )

    def _describe(
        self, index: int, name: str, mixture: list[tuple[float, EvaluatedPolicy]], price: float
    ) -> ConstraintResult:
        constraint = self.constraints[name]
        measure = self.mdp.measures[name]
        below = sum(w * self._evaluate(c.policy, measure.denominator).value for w, c in mixture)
        if below <= 0:
            requirement = f"the denominator of {name} must be positive at the optimum"
            raise ModelError(requirement, location=measure.text, value=f"is {below:g}")
        excess = sum(weight * column.excess[index].value for weight, column in mixture)
        value = constraint.level + constraint.sign * excess / below
        return ConstraintResult(name, constraint, value, price * below)

    def _find_randomised_state(
        self, mixture: list[tuple[float, EvaluatedPolicy]]
    ) -> RandomisedState | None:
        if len(mixture) != 2 or self.mdp.criterion.requires_absorption:
            return None
        (_, first), (weight, second) = mixture
        tables = first.policy.table, second.policy.table
        differing = np.flatnonzero(tables[0] != tables[1])
        if len(differing) != 1:
            return None
        state = int(differing[0])
        visits = [occupancy(self.mdp, one.policy).share.flat[state] for one in (first, second)]
        often = weight * visits[1]
        seldom = (1 - weight) * visits[0]
        actions = (int(tables[0].flat[state]), int(tables[1].flat[state]))
        return RandomisedState(state, actions, float(often / (often + seldom)))

    def _raise_unattainable(self) -> None:
        """Raise with the best level that each constraint could have by itself."""
        limits = {name: self.find_limit(name) for name in self.constraints}
        for name, one in self.constraints.items():
            limit = limits[name]
            if one.sign * (limit.value - one.level) <= 2 * limit.error_bound:
                extreme = "most" if one.sign > 0 else "least"
                requirement = (
                    f"{name} is at {extreme} {limit.value:.8g} in this model, up to rounding"
                )
                raise ArgumentError(requirement, value=f"got {one}")
        reach = ", ".join(f"{name} alone reaches {limit}" for name, limit in limits.items())
        requirement = f"no policy satisfies {describe_constraints(self.constraints)}"
        raise ArgumentError(requirement, value=reach)

    def find_limit(self, name: str) -> MeasureValue:
        """The best value of a measure over all policies, a ratio by Dinkelbach's method (1967)."""
        one = self.constraints[name]
        level = one.level
        reached = -np.inf  # by a policy: a better one has a larger excess at this level
        while True:
            solution, _ = self._maximise(self.mdp.measures[name].excess(level, one.sign))
            value = evaluate_measure(self.mdp, name, solution.policy)
            tolerance = 2 * value.error_bound + GAP_TOLERANCE * abs(value.value)
            if one.sign * value.value <= reached + tolerance:
                return value
            level = value.value
            reached = one.sign * level


def evaluate_measure(mdp: MDP, name: str, policy: Policy) -> MeasureValue:
    """A measure under a policy, with a denominator that is not 0."""
    value = evaluate(mdp, policy).measures[name]
    if value is None:
        requirement = f"the denominator of measure {mdp.measures[name].text!r} must not be 0"
        raise ModelError(requirement, value="a policy makes it 0")
    return value


def maximise_sum(
    mdp: MDP, weights: Weights, solve_model: Callable[..., Solution], **options: Any
) -> tuple[Solution, MeasureValue]:
    """The policy with the largest weighted sum of counts, and that sum."""
    solution = solve_model(mdp.with_objective(weights, minimise=mdp.minimise), **options)
    return solution, state_sum(solution, weights)


def weigh_counts(
    objective: float, prices: Iterable[float], excess: Iterable[Weights]
) -> dict[str, float]:
    """Weights of the pricing problem."""
    weights = scale_weights({REWARD: 1.0}, objective)
    for price, one in zip(prices, excess, strict=True):
        weights = add_weights(weights, scale_weights(one, float(price)))
    return weights


def _polish_weights(weights: NDArray, excess: NDArray, prices: NDArray) -> NDArray[np.float64]:
    """The weights of a vertex to full accuracy: constraints with a price hold with equality."""
    mixed = np.flatnonzero(weights > WEIGHT_TOLERANCE)
    active = np.flatnonzero(prices > 0)
    system = np.vstack([excess[np.ix_(active, mixed)], np.ones(len(mixed))])
    exact = np.linalg.lstsq(system, np.append(np.zeros(len(active)), 1.0), rcond=None)[0]
    polished = np.zeros(len(weights))
    polished[mixed] = np.maximum(exact, 0.0)
    return polished / polished.sum()
