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
takes each state's action from one of them. The program over occupation measures of these has a
vertex: a mixture of policies that differ in at most one action for each constraint. It is found by
exchanging policies of the mixture for such combinations. With d_k(s) the visits to a state under
policy k, drawing the action at each visit does the same:

    P(a | s) = sum_k w_k d_k(s) [pi_k(s) = a] / sum_k w_k d_k(s).

A policy's sums R and G are evaluated by values; in large models with a discount they follow from
its visits, which are quickly found from those of a similar policy. There solves are only as exact
as the gap between the bounds requires.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from operator import itemgetter

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, ModelError, NotConverged
from tessella.mdp.dynamics import REWARD, Dynamics
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
from tessella.rounding import round_down, round_up
from tessella.solvers.constraints.constrained_solution import (
    ConstrainedSolution,
    ConstraintResult,
    EvaluatedPolicy,
    RandomisedState,
)
from tessella.solvers.constraints.master_program import (
    SMALLEST_FLOAT,
    Master,
    exchange_policy,
    solve_master,
)
from tessella.solvers.constraints.switch_search import SwitchSearch
from tessella.solvers.method import validate_tol
from tessella.solvers.policy_evaluation import (
    Occupancy,
    bound_sum_rounding,
    compute_occupancy,
    evaluate_formula,
    evaluate_sum,
    find_sum_scale,
    occupancy,
    report_sum,
)
from tessella.solvers.solution import Solution

GAP_TOLERANCE = 1e-8  # gap between the bounds at which a run ends, as a share of the optimum
MAX_SOLVES = 500  # pricing problems that are solved before a run is given up
# States from which on sums follow from occupancies, and pricing problems may be solved roughly.
OCCUPANCY_MIN_STATES = 10_000
FIRST_TOLERANCE = 1e-4  # of the first pricing problems, as a share of the largest sum
ROUGH_TOLERANCE = 1e-2  # of later ones, as a share of the gap between the bounds
FINE_TOLERANCE = 0.1  # of the last ones, as a share of the gap at which a run ends
# Smaller gaps, as shares of the one at which a run ends: tried where mixed policies differ much.
RETRY_GAP_SHARES = (1e-2, 0.0)
# The optimal price is interpolated between two prices of at most this ratio ...
SECANT_MAX_RATIO = 2.0
SECANT_MIN_SHARE = 0.25  # ... and a step nearer to one of them than this share is doubled.
# After an interpolated price that leaves more of the gap than this, the master's price follows.
SECANT_MAX_GAP_LEFT = 0.25
MERGE_MAX_STEPS = 200  # policies that are tried so that mixed policies differ in fewer states
# The optimum's loss, as a share of its bound, from which a better policy without draws is sought.
SEARCH_MIN_LOSS = 1e-3
SEARCH_CANDIDATES = 3  # policies of that search that are evaluated exactly, the best first
PENALTY_FACTOR = 2  # multiples of its price that a search charges for missing a constraint

Mixture = list[tuple[float, EvaluatedPolicy]]


class ColumnGeneration:
    """Generates policies until the best mixture of them is proven to be optimal.

    Args:
        solve_model: ``solve`` with its options, which solves models without constraints.
        columns: policies to begin with, such as those of another level; others are added.
    """

    def __init__(
        self,
        mdp: MDP,
        constraints: Mapping[str, Constraint],
        solve_model: Callable[..., Solution],
        tol: float | None = None,
        columns: list[EvaluatedPolicy] | None = None,
    ) -> None:
        self.mdp = mdp
        self.solve_model = solve_model
        self.tol = validate_tol(tol)
        self.constraints = constraints
        formulas = {name: mdp.measures[name] for name in constraints}
        # Of each constraint: the weighted sum of counts that must not be negative.
        self.excess = [
            formulas[name].excess(constraint) for name, constraint in constraints.items()
        ]
        self.count_names = {REWARD}.union(*(formula.names for formula in formulas.values()))
        self.columns = [] if columns is None else columns
        # The occupancy of a policy is quickly found from that of a similar one.
        has_occupancies = mdp.criterion.is_discounted and mdp.dynamics.n_periods is None
        self.uses_occupancies = has_occupancies and mdp.n_states >= OCCUPANCY_MIN_STATES
        self.n_solved = 0  # models without constraints
        self.high = np.inf  # no policy that satisfies the constraints earns more
        self.lagrangian: Solution | None = None  # proves it
        self.multipliers: NDArray = np.zeros(len(constraints))  # its prices

    def run(self) -> ConstrainedSolution:
        """The optimum."""
        for name in self.constraints:
            self._require_positive_denominator(name)
        if not self.columns:
            self._add_best_policy(1.0, self.multipliers, is_rough=self.uses_occupancies)
        self._find_feasible_mixture()
        master = self._maximise_reward(1.0)
        mixture = self._merge_policies(master)
        for gap_share in RETRY_GAP_SHARES:
            if mixture is None:
                master = self._maximise_reward(gap_share)
                mixture = self._merge_policies(master)
        return self._make_solution(master, mixture or self._mix_policies(master))

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
        is_rough = self.uses_occupancies
        while True:
            master = self._solve_master(is_first_phase=True)
            if master.value >= 0:
                return
            best, is_new = self._add_best_policy(0.0, master.prices, is_rough=is_rough)
            if best.high < 0 or not (is_new or is_rough):
                self._raise_unattainable()
            is_rough = is_rough and is_new

    def _maximise_reward(self, gap_share: float) -> Master:
        """Add policies until none improves the mixture, or until the gap is small enough.

        That is a share ``gap_share`` of the gap at which a run may end.
        """
        last_gap = np.inf  # at the last price, if that was interpolated
        is_stuck = False  # whether the last policy was known before
        while True:
            master = self._solve_master()
            gap = self.high - master.value
            target = gap_share * self._choose_tolerance(master.value)
            if gap <= target < np.inf:
                return master
            price = None
            if not is_stuck and gap <= SECANT_MAX_GAP_LEFT * last_gap:
                price = self._interpolate_price()
            prices = master.prices if price is None else np.array([price])
            last_gap = np.inf if price is None else gap
            tol = self._choose_solve_tolerance(gap, target, is_stuck)
            is_rough = self.uses_occupancies and gap == np.inf
            _, is_new = self._add_best_policy(1.0, prices, tol, is_rough)
            if is_stuck and not is_new and not is_rough:
                return master
            is_stuck = not is_new

    def _choose_solve_tolerance(self, gap: float, target: float, is_stuck: bool) -> float | None:
        """How exactly the next problem is solved: None for as exactly as possible."""
        if not self.uses_occupancies:
            return None
        finest = FINE_TOLERANCE * target
        return finest or None if is_stuck else max(ROUGH_TOLERANCE * gap, finest)

    def _choose_tolerance(self, value: float) -> float:
        """How far apart the bounds of the optimum may be."""
        return GAP_TOLERANCE * max(abs(value), abs(self.high)) if self.tol is None else self.tol

    def _interpolate_price(self) -> float | None:
        """A guess of where the only excess changes sign; None without an interval around it.

        The excess of the best policy grows with the price. Where it grows by leaps, the master's
        price is the leap between two policies, and where it is smooth, it halves the interval; then
        a secant comes closer. If that is near one end, a step of twice the distance leaves an
        interval with the root in its middle.
        """
        if len(self.excess) > 1:
            return None
        points = [(c.price, c.weigh(self.excess[0]).value) for c in self.columns if c.price > 0]
        low, low_excess = max((point for point in points if point[1] < 0), default=(np.inf, 0.0))
        high, high_excess = min((point for point in points if point[1] >= 0), default=(0.0, 0.0))
        if not 1 < high / low < SECANT_MAX_RATIO:
            return None
        share = low_excess / (low_excess - high_excess)
        if min(share, 1 - share) < SECANT_MIN_SHARE:
            share = 2 * share if share < SECANT_MIN_SHARE else 2 * share - 1
        return low * (high / low) ** share

    def _add_best_policy(
        self, objective: float, prices: NDArray, tol: float | None = None, is_rough: bool = False
    ) -> tuple[MeasureValue, bool]:
        """Solve the pricing problem, roughly where it only shows the way, and add its policy.

        Its value, which bounds that of every policy, is returned, and whether the policy is new.
        """
        weights = weigh_counts(objective, prices, self.excess)
        price = float(prices[0])
        if not objective:
            weights = _normalise(weights)
            price = np.inf
        if is_rough:
            tol = FIRST_TOLERANCE * self._bound_sum(weights)
        solution, _, is_new = self._find_best_policy(weights, price, tol)
        value = report_sum(solution, weights)
        if objective and value.high < self.high:
            self.high = value.high
            self.lagrangian = solution
            self.multipliers = prices
        return value, is_new

    def _find_best_policy(
        self, weights: Weights, price: float, tol: float | None = None
    ) -> tuple[Solution, EvaluatedPolicy, bool]:
        """The policy with the largest weighted sum, and whether it is new: it is added."""
        if self.n_solved >= MAX_SOLVES:
            raise NotConverged(f"{MAX_SOLVES} policies were not enough for these constraints")
        self.n_solved += 1
        guess = self._guess_value(price)
        model = self.mdp.with_objective(weights, minimise=self.mdp.minimise)
        solution = self.solve_model(model, guess=guess, tol=tol)
        column = self._evaluate_policy(solution.policy, weights, tol)
        column = replace(column, price=price, value=solution.value)
        return solution, column, self._add_column(column)

    def _guess_value(self, price: float) -> NDArray[np.float64] | None:
        """The value at a price: between those of two prices, or that of the last policy."""
        known = [(c.price, c.value) for c in self.columns if c.value is not None]
        if not known:
            return None
        low, low_value = max(
            (k for k in known if k[0] <= price), key=itemgetter(0), default=known[-1]
        )
        high, high_value = min(
            (k for k in known if k[0] > price), key=itemgetter(0), default=known[-1]
        )
        if len(self.excess) > 1 or not low <= price < high < np.inf:
            return known[-1][1]
        share = (price - low) / (high - low)
        return (1 - share) * low_value + share * high_value

    def _add_column(self, column: EvaluatedPolicy) -> bool:
        """Add a policy; return whether it is new, or known better than before."""
        for k, other in enumerate(self.columns):
            if np.array_equal(other.policy.table, column.policy.table):
                is_sharper = column.error_bound < other.error_bound / 2
                if is_sharper:
                    self.columns[k] = column
                return is_sharper
        self.columns.append(column)
        return True

    def _evaluate_policy(
        self, policy: Policy, weights: Weights, tol: float | None = None
    ) -> EvaluatedPolicy:
        """The expected sums of a policy, so exactly that weighted ones are off by ``tol``."""
        sums = {CONSTANT: MeasureValue.from_sum(1.0, 0.0)}
        visits = self._compute_occupancy(policy, weights, tol) if self.uses_occupancies else None
        if visits is None:
            sums |= {name: evaluate_sum(self.mdp, policy, {name: 1.0}) for name in self.count_names}
            return EvaluatedPolicy(policy, sums)
        sums |= {name: self._sum_up(*paid, visits) for name, paid in self.payments.items()}
        return EvaluatedPolicy(policy, sums, visits.share)

    def _compute_occupancy(
        self, policy: Policy, weights: Weights, tol: float | None
    ) -> Occupancy | None:
        """The occupancy, for weighted sums that are off by ``tol``; None if that is slow."""
        accuracy = None if tol is None else tol / self._bound_sum(weights)
        known = (c.occupancy for c in reversed(self.columns) if c.occupancy is not None)
        options = {"tol": accuracy, "guess": next(known, None), "only_quickly": True}
        try:
            return compute_occupancy(self.mdp, policy, None, **options)
        except NotConverged:
            return None

    @cached_property
    def payments(self) -> dict[str, tuple[Dynamics, NDArray[np.float64]]]:
        """For each sum the dynamics that pay it, and what they pay in a period, (S, A)."""
        each = ((name, self.mdp.with_objective({name: 1.0}).dynamics) for name in self.count_names)
        return {name: (dynamics, dynamics.expected_reward()) for name, dynamics in each}

    def _bound_sum(self, weights: Weights) -> float:
        """No policy has a larger weighted sum, but for the number that is added."""
        counts = [name for name in weights if name != CONSTANT]
        largest = sum(abs(weights[n]) * self.payments[n][0].reward_scale for n in counts)
        return self.mdp.criterion.value_of_constant_reward(largest)

    def _sum_up(self, dynamics: Dynamics, amounts: NDArray, visits: Occupancy) -> MeasureValue:
        """An expected sum, from the shares of time in all states."""
        paid = np.take_along_axis(amounts, visits.policy.table.reshape(-1, 1), axis=1).ravel()
        shares = visits.share.ravel()
        error = bound_sum_rounding(paid.size) * float((shares * np.abs(paid)).sum())
        error += visits.error_bound * dynamics.reward_scale
        error += dynamics.rounding.in_memory.reward_error
        scale = self.mdp.criterion.value_of_constant_reward
        return MeasureValue.from_sum(scale(float((shares * paid).sum())), scale(error))

    def _solve_master(self, is_first_phase: bool = False) -> Master:
        """The best mixture of the policies so far."""
        earned = np.array([column.reward.low for column in self.columns])
        return solve_master(earned, self._bound_excess(self.columns), is_first_phase)

    def _bound_excess(self, columns: Iterable[EvaluatedPolicy]) -> NDArray[np.float64]:
        """(constraints, policies) what policies surely exceed each constraint by."""
        return np.array([[c.weigh(weights).low for c in columns] for weights in self.excess])

    def _mix_policies(self, master: Master) -> Mixture:
        mixed = np.flatnonzero(master.weights)
        return [(float(master.weights[k]), self.columns[k]) for k in mixed]

    def _merge_policies(self, master: Master) -> Mixture | None:
        """A mixture as good as this one whose policies differ in one action per constraint.

        A policy that takes each state's action from one of those that are mixed is as good as they
        are. Drawn as often as the mixture draws them, its actions are likely to bring it near the
        constraints. It takes the place of one of the others, whichever leaves a mixture, as long as
        no more actions differ than before. None where such a mixture is not found: policies are
        the more alike the better they are.
        """
        rng = np.random.default_rng(0)
        merged = self._mix_policies(master)
        for step in range(MERGE_MAX_STEPS):
            tables = _stack_tables(merged)
            n_drawn = _count_drawn_actions(tables)
            if n_drawn <= len(self.excess):
                break
            chances = np.array([weight for weight, _ in merged])
            if step % 2:
                chances = np.full(len(merged), 1 / len(merged))
            chosen = rng.choice(len(merged), size=tables.shape[1], p=chances / chances.sum())
            table = np.take_along_axis(tables, chosen[None], axis=0)
            if (tables == table).all(axis=1).any():
                continue
            column = self._add_table(table)
            if column is None:
                continue
            columns = [*(mixed for _, mixed in merged), column]
            weights = np.array([weight for weight, _ in merged])
            exchanged_weights = exchange_policy(
                weights, self._bound_excess(columns), master.prices > 0
            )
            if exchanged_weights is None:
                continue
            mixed = np.flatnonzero(exchanged_weights)
            exchanged = [(float(exchanged_weights[k]), columns[k]) for k in mixed]
            if _count_drawn_actions(_stack_tables(exchanged)) <= n_drawn:
                merged = exchanged
        else:
            return None
        earned = sum(weight * column.reward.low for weight, column in merged)
        allowed = max(self.high - master.value, self._choose_tolerance(master.value))
        return merged if self.high - earned <= allowed else None

    def _add_table(self, table: NDArray) -> EvaluatedPolicy | None:
        """Add a table of actions, with its exact sums; None where it has none.

        An average needs one recurrent class, and a total an end.
        """
        tol = None
        if self.uses_occupancies:
            tol = FINE_TOLERANCE * self._choose_tolerance(self.high)
        weights = weigh_counts(1.0, self.multipliers, self.excess)
        policy = self.mdp.policy(table.reshape(self.mdp.grid.shape))
        try:
            column = self._evaluate_policy(policy, weights, tol)
        except (ModelError, NotConverged):
            return None
        self._add_column(column)
        return column

    def _make_solution(self, master: Master, mixture: Mixture) -> ConstrainedSolution:
        assert self.lagrangian is not None
        best = self._find_best_feasible()
        if best is None or self.high - best.reward.low > SEARCH_MIN_LOSS * abs(self.high):
            self._search_feasible_policies(mixture)
        return ConstrainedSolution(
            mdp=self.mdp,
            low=float(sum(weight * column.reward.low for weight, column in mixture)),
            high=self.high,
            mixture=tuple((weight, column.policy) for weight, column in mixture),
            randomised=self._find_randomised_states(mixture),
            best=self._find_best_feasible(),
            constraints=tuple(
                self._make_constraint_result(j, name, mixture, float(master.prices[j]))
                for j, name in enumerate(self.constraints)
            ),
            lagrangian=self.lagrangian,
            excess=tuple(self.excess),
            multipliers=tuple(map(float, self.multipliers)),
        )

    def _find_best_feasible(self) -> EvaluatedPolicy | None:
        """The best policy found that satisfies the constraints by itself."""
        is_feasible = (self._bound_excess(self.columns) >= 0).all(axis=0)
        feasible = (self.columns[k] for k in np.flatnonzero(is_feasible))
        return max(feasible, key=lambda column: column.reward.low, default=None)

    def _search_feasible_policies(self, mixture: Mixture) -> None:
        """Add policies near those that are mixed which satisfy the constraints by themselves."""
        if len(mixture) == 1 or not SwitchSearch.supports(self.mdp):
            return
        sums = [{REWARD: 1.0}, *self.excess]
        amounts = [self.mdp.with_objective(weights).reward for weights in sums]
        largest = np.abs(self._bound_excess(self.columns)).max(axis=1)
        unit = max(abs(self.high), SMALLEST_FLOAT) / np.maximum(largest, SMALLEST_FLOAT)
        penalties = np.where(self.multipliers > 0, PENALTY_FACTOR * self.multipliers, unit)
        search = SwitchSearch(
            self.mdp,
            amounts=find_sum_scale(self.mdp) * np.stack(amounts),
            constants=np.array([weights.get(CONSTANT, 0.0) for weights in sums]),
            penalties=np.append(0.0, penalties),
        )
        tables = search.run([column.policy.table for _, column in mixture])
        for table in tables[:SEARCH_CANDIDATES]:
            self._add_table(table)

    def _make_constraint_result(
        self, index: int, name: str, mixture: Mixture, price: float
    ) -> ConstraintResult:
        constraint = self.constraints[name]
        measure = self.mdp.measures[name]
        denominator = sum(w * column.weigh(measure.denominator).value for w, column in mixture)
        if denominator <= 0:
            requirement = f"the denominator of {name} must be positive at the optimum"
            raise ModelError(requirement, location=measure.text, value=f"is {denominator:g}")
        unit = denominator / constraint.scale
        excess = sum(w * column.weigh(self.excess[index]).value for w, column in mixture)
        difference = constraint.sign * excess / unit
        value = constraint.level + difference
        if abs(difference) > abs(constraint.level) / 2:  # the level's digits would hide the value's
            value = sum(w * column.weigh(measure.numerator).value for w, column in mixture)
            value /= denominator
        return ConstraintResult(name, constraint, value, price * unit)

    def _find_randomised_states(self, mixture: Mixture) -> tuple[RandomisedState, ...]:
        tables = _stack_tables(mixture)
        is_drawn = 0 < _count_drawn_actions(tables) <= len(self.excess)
        if not is_drawn or self.mdp.criterion.requires_absorption:
            return ()
        visits = []  # (S,) of each policy, weighted
        for weight, column in mixture:
            share = column.occupancy
            if share is None:
                share = occupancy(self.mdp, column.policy).share
            visits.append(weight * share.ravel())
        randomised = []
        for state in np.flatnonzero((tables != tables[0]).any(axis=0)):
            actions, action_of_policy = np.unique(tables[:, state], return_inverse=True)
            action_visits = np.bincount(action_of_policy, [share[state] for share in visits])
            if action_visits.any():
                chances = tuple((action_visits / action_visits.sum()).tolist())
                randomised.append(RandomisedState(int(state), tuple(actions.tolist()), chances))
        return tuple(randomised)

    def _raise_unattainable(self) -> None:
        """Raise with the best level that each constraint could have by itself."""
        limits = {name: self.find_limit(name) for name in self.constraints}
        for name, constraint in self.constraints.items():
            sign = constraint.sign
            limit = limits[name]
            if sign * (limit.value - constraint.level) <= 2 * limit.error_bound:
                extreme = f"{limit.value:.8g}"
                if sign * (float(extreme) - constraint.level) >= 0:  # a level that can be met
                    proven = limit.value - sign * 2 * limit.error_bound
                    extreme = round_down(proven, 8) if sign > 0 else round_up(proven, 8)
                side = "most" if sign > 0 else "least"
                requirement = f"{name} is at {side} {extreme} in this model, up to rounding"
                raise ArgumentError(requirement, value=f"got {constraint}")
        reach = ", ".join(f"{name} alone reaches {limit}" for name, limit in limits.items())
        requirement = f"no policy satisfies {describe_constraints(self.constraints)}"
        raise ArgumentError(requirement, value=reach)

    def find_optimum(self, name: str) -> MeasureValue:
        """The measure under the best policy without constraints."""
        return self._measure(name, self._find_best_policy({REWARD: 1.0}, price=0.0)[1])

    def find_limit(self, name: str) -> MeasureValue:
        """The best value of a measure over all policies, a ratio by Dinkelbach's method (1967)."""
        constraint = self.constraints[name]
        level = constraint.level
        reached = -np.inf  # by a policy: a better one has a larger excess at this level
        while True:
            excess = self.mdp.measures[name].excess(type(constraint)(level))
            column = self._find_best_policy(_normalise(excess), price=np.inf)[1]
            value = self._measure(name, column)
            tolerance = 2 * value.error_bound + GAP_TOLERANCE * abs(value.value)
            if constraint.sign * value.value <= reached + tolerance:
                return value
            level = value.value
            reached = constraint.sign * level

    def _measure(self, name: str, column: EvaluatedPolicy) -> MeasureValue:
        """A measure under a policy, with a denominator that is not 0."""
        formula = self.mdp.measures[name]
        value = evaluate_formula(formula, column.sums)
        if value is None:
            requirement = f"the denominator of measure {formula.text!r} must not be 0"
            raise ModelError(requirement, value="a policy makes it 0")
        return value


def weigh_counts(
    objective: float, prices: Iterable[float], excess: Iterable[Weights]
) -> dict[str, float]:
    """Weights of the pricing problem."""
    weights = scale_weights({REWARD: 1.0}, objective)
    for price, constraint_weights in zip(prices, excess, strict=True):
        weights = add_weights(weights, scale_weights(constraint_weights, float(price)))
    return weights


def _normalise(weights: Weights) -> dict[str, float]:
    """Weights of counts up to 1: only the sign of their sum is of interest."""
    largest = max((abs(w) for name, w in weights.items() if name != CONSTANT), default=0.0)
    return {name: weight / (largest or 1.0) for name, weight in weights.items()}


def _stack_tables(mixture: Mixture) -> NDArray[np.int32]:
    """(policies, S) the actions of policies."""
    return np.stack([column.policy.table.ravel() for _, column in mixture])


def _count_drawn_actions(tables: NDArray) -> int:
    """How many actions of these tables differ, beyond one in each state."""
    ordered = np.sort(tables, axis=0)
    return int(np.count_nonzero(np.diff(ordered, axis=0)))
