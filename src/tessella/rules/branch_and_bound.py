"""Lower bounds on the size of a rule: what every rule within a loss target must fulfil.

Some visits are unavoidable. With A(s) the actions that a rule may take,

    m(s') = mu(s') + discount sum_s m(s) min_{a in A(s)} P(s' | s, a)

bounds its visits d from below. With l(s, a) = V*(s) - Q*(s, a), a rule whose mean loss is
sum_s d(s) l(s, rule(s)) <= limit takes no action with m(s) l(s, a) > limit: A(s) shrinks, m grows,
and again. From the worst state, every action must have l(s, a) <= limit. The long-run shares
d = d P^n of an average are at least

    m(s') = max_n min_s K^n(s, s'),    K(s, s') = min_{a in A(s)} P(s' | s, a),

and the loss is the same from every state.

Branch and bound decides whether a class has a rule of some size that meets a loss target. A node
allows actions A(s) in each state. With the least losses of any policy within A,

    L(s) = min_{a in A(s)} l(s, a) + discount sum P(s' | s, a) L(s'),
    excess(s, a) = l(s, a) + discount sum P(s' | s, a) L(s') - L(s) >= 0,

a rule within A loses mu L + sum_s d(s) excess(s, rule(s)) from the start, and at least
L(s) + excess(s, rule(s)) from every state s. With m <= d for all rules of the node that meet the
loss target, no rule of a size meets it if

    mu L + (min over rules of that size of sum_s m(s) excess(s, rule(s)))  >  limit,

which the exact solver of the class decides; from the worst state, if no rule takes only actions
that lose the limit at most. Else the cheapest rule is evaluated; if it misses the target, the node
is divided at the state where the bound misses most, (d - m) excess: the rule takes that action
there, or another. Next to the m above, for every price >= 0

    m(s) >= min over policies of (d(s) + price x loss) - price x limit,

since a policy that loses no more than the limit cannot avoid many visits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from tessella.rules.evaluator import PolicyEvaluator, PolicyLoss
from tessella.rules.loss_target import LossTarget
from tessella.rules.rule_class import Candidate, Costs, RuleClass

VISIT_TIGHTENING_MAX_ROUNDS = 12  # rounds: visits, and the actions that they forbid
MATRIX_SQUARINGS = 8  # squarings of the rows of an average: K^n up to n = 2^8
ROUNDING_SAFETY_FACTOR = 1 - 1e-9  # covers the rounding of visits
NODE_BUDGET_STATE_ACTIONS = 100_000  # states x actions x nodes
MAX_NODES = 1_000  # nodes
LOSS_PRICE_SHARES = (0.1, 0.3, 0.6)  # price x limit, as shares of the optimal policy's visits
VISIT_BOUND_MAX_STATE_PAIRS = 40_000  # states x states whose least visits are computed
VISIT_BOUND_MAX_STATES = 100  # states whose least visits are computed
NODE_TIGHTENING_MAX_ROUNDS = 4  # rounds for a node: least losses, and what they forbid
POLICY_ITERATION_MAX_STEPS = 50  # steps of policy iteration
IMPROVEMENT_RELATIVE_TOLERANCE = 1e-12  # of the largest cost: smaller improvements are ignored


@dataclass(frozen=True, eq=False)
class NecessaryCondition:
    """Additive costs that are at most ``cost_limit`` for every rule that meets a loss target."""

    costs: NDArray[np.float64]  # (S, A) finite
    cost_limit: float  # the bound
    is_zero_one: bool = False  # whether the costs are 0 for allowed actions and 1 for all others


def derive_necessary_conditions(
    evaluator: PolicyEvaluator, loss_target: LossTarget
) -> list[NecessaryCondition]:
    """What every rule that meets the loss target fulfils; the worst state has two conditions."""
    limit = loss_target.effective_limit
    loss_lower_bounds = evaluator.action_loss_below
    conditions = []
    if evaluator.is_worst_case and not evaluator.is_average:
        conditions.append(NecessaryCondition((loss_lower_bounds > limit).astype(float), 0.5, True))
    visits = bound_unavoidable_visits(evaluator, loss_lower_bounds, limit)
    costs = _multiply_visits(visits, loss_lower_bounds)
    costs[~evaluator.feasible] = np.inf
    if loss_target.is_zero:
        conditions.append(NecessaryCondition((costs > limit).astype(float), 0.5, True))
    else:
        conditions.append(NecessaryCondition(np.minimum(costs, 2 * limit), limit * (1 + 1e-9)))
    return conditions


def bound_unavoidable_visits(
    evaluator: PolicyEvaluator, loss_lower_bounds: NDArray, limit: float
) -> NDArray[np.float64]:
    """(S,) m of the smallest sets A; of a large model only the start itself."""
    visits = np.zeros_like(evaluator.start)
    if not evaluator.is_average:
        visits = evaluator.start * ROUNDING_SAFETY_FACTOR
    if not evaluator.is_small:
        return visits
    allowed = evaluator.feasible & ~(_multiply_visits(visits, loss_lower_bounds) > limit)
    for _ in range(VISIT_TIGHTENING_MAX_ROUNDS):
        visits = bound_visits_below(evaluator, allowed)
        remaining = allowed & ~(_multiply_visits(visits, loss_lower_bounds) > limit)
        if (remaining == allowed).all() or not remaining.any(axis=1).all():
            break
        allowed = remaining
    return visits


def bound_visits_below(evaluator: PolicyEvaluator, allowed: NDArray) -> NDArray[np.float64]:
    """(S,) m of sets A, (S, A)."""
    rows = np.where(allowed.T[:, :, None], evaluator.transition, np.inf).min(axis=0)
    rows[~np.isfinite(rows)] = 0.0
    if evaluator.is_average:
        return _bound_shares_below(rows)
    system = np.eye(len(rows)) - evaluator.mdp.discount * rows
    visits = np.linalg.solve(system.T, evaluator.start)
    return np.maximum(visits, 0.0) * ROUNDING_SAFETY_FACTOR


def _bound_shares_below(rows: NDArray) -> NDArray[np.float64]:
    """(S,) the largest column minima of the powers 1, 2, 4, ... of the rows."""
    shares = rows.min(axis=0)
    for _ in range(MATRIX_SQUARINGS):
        rows = rows @ rows
        shares = np.maximum(shares, rows.min(axis=0))
    return shares * ROUNDING_SAFETY_FACTOR


@dataclass(frozen=True, eq=False)
class MinimumLoss:
    """The least losses within some actions."""

    table: NDArray[np.int64]  # (S,) a policy that has them
    loss: NDArray[np.float64]  # (S,) bounded from below, rounding included
    excess: NDArray[np.float64]  # (S, A) what an action loses beyond; infinite where not allowed


@dataclass(frozen=True, eq=False)
class BranchNode:
    """A node that may hold a rule: what its rules must cost at most, by additive costs (S, A)."""

    allowed: NDArray[np.bool_]
    minimum: MinimumLoss
    min_visits: NDArray[np.float64]
    costs: NDArray[np.float64]
    cost_limit: float


class BranchAndBound:
    """Proves that no small rule of a class meets a loss target, in a small discounted model.

    Args:
        losses: where the losses of the rules that ``branches`` yields are found.
    """

    def __init__(
        self,
        evaluator: PolicyEvaluator,
        loss_target: LossTarget,
        losses: Mapping[Candidate, PolicyLoss],
        size_needed: int = 0,
        deadline: float = math.inf,
        max_nodes: float = math.inf,
    ) -> None:
        self.evaluator = evaluator
        self.loss_target = loss_target
        self.losses = losses
        self.size_needed = size_needed  # no smaller rule meets the loss target
        self.deadline = deadline
        self.nodes_left = max_nodes  # how many nodes may still be examined
        self._action_loss = evaluator.action_loss_below

    @staticmethod
    def compute_node_budget(evaluator: PolicyEvaluator) -> int:
        """How many nodes take no longer than the search itself, about."""
        state_actions = evaluator.mdp.n_states * evaluator.mdp.n_actions
        return min(NODE_BUDGET_STATE_ACTIONS // state_actions, MAX_NODES)

    @staticmethod
    def is_applicable(evaluator: PolicyEvaluator, loss_target: LossTarget) -> bool:
        """Whether there is something to gain: with a loss target of 0, the first bound is exact."""
        is_discounted = evaluator.mdp.criterion.is_discounted
        return evaluator.is_small and is_discounted and not loss_target.is_zero

    def generate_candidates(self, rule_class: RuleClass, max_size: int) -> Iterator[Candidate]:
        """The cheapest rules of nodes, while sizes are ruled out one after the other.

        It ends with ``max_size``, with the first size of which a rule meets the target, or when no
        nodes or no time are left.
        """
        size = max(self.size_needed, 1)
        node = self._root
        if node is not None and not self._is_time_up():
            size = max(size, self._fit_node(rule_class, max_size, node)[1])
        if self._is_time_up():
            return
        while size <= max_size:
            self._raise_size_needed(size)
            is_ruled_out = yield from self._rule_out_size(rule_class, size)
            if not is_ruled_out:
                return
            size += rule_class.step
        self._raise_size_needed(size)

    def _raise_size_needed(self, size: int) -> None:
        if size > 1:
            self.size_needed = max(self.size_needed, size)

    def _rule_out_size(self, rule_class: RuleClass, size: int) -> Generator[Candidate, None, bool]:
        """Whether it is certain that no rule of at most that many numbers meets the loss target."""
        stack: list[BranchNode | None] = [self._root]
        while stack:
            node = stack.pop()
            fits: list[Candidate] = []
            needed = size + 1
            if node is not None:
                fits, needed = self._fit_node(rule_class, size, node)
            if self._is_time_up() or self.nodes_left <= 0:
                return False
            self.nodes_left -= 1
            if node is None or needed > size:
                continue
            if not fits:
                return False
            cheapest = min(fits, key=attrgetter("cost"))
            yield cheapest
            branches = self._branch(node, self.losses.get(cheapest))
            if not branches:
                return False
            stack += [self._tighten(*branch) for branch in branches]
        return True

    def _is_time_up(self) -> bool:
        return time.perf_counter() > self.deadline

    @cached_property
    def _root(self) -> BranchNode | None:
        table = self.evaluator.solution.policy.table.ravel()
        return self._tighten(self.evaluator.feasible, table.astype(np.int64))

    def _fit_node(
        self, rule_class: RuleClass, max_size: int, node: BranchNode
    ) -> tuple[list[Candidate], int]:
        """Rules of at most that many numbers in a node, and a lower bound on the numbers there.

        A class may be exact for the costs of some nodes only, as run-length tables are.
        """
        costs = Costs.for_model(self.evaluator.mdp, node.costs, self.deadline)
        candidates = rule_class.fit(costs, max_size, node.cost_limit)
        if rule_class.why_not_exact(costs):
            return candidates, 1
        return candidates, rule_class.size_lower_bound(costs, node.cost_limit, max_size, candidates)

    def _tighten(self, allowed: NDArray, table: NDArray) -> BranchNode | None:
        """A node without the actions that its bounds rule out; None if no action is left."""
        limit = self.loss_target.limit * (1 + 1e-9)
        minimum = self._solve_restricted(np.where(allowed, self._action_loss, np.inf), table)
        min_visits = self._unavoidable_visits
        for _ in range(NODE_TIGHTENING_MAX_ROUNDS):
            if self.evaluator.is_worst_case:
                loss_lower_bounds = minimum.loss[:, None] + minimum.excess
            else:
                visits = bound_visits_below(self.evaluator, allowed)
                min_visits = np.maximum(self._unavoidable_visits, visits)
                excess = _multiply_visits(min_visits, minimum.excess)
                loss_lower_bounds = self.evaluator.start @ minimum.loss + excess
            remaining = allowed & (loss_lower_bounds <= limit)
            if not remaining.any(axis=1).all():
                return None
            if (remaining == allowed).all():
                break
            allowed = remaining
            losses = np.where(allowed, self._action_loss, np.inf)
            minimum = self._solve_restricted(losses, minimum.table)
        return self._make_node(allowed, minimum, min_visits, limit)

    def _make_node(
        self, allowed: NDArray, minimum: MinimumLoss, min_visits: NDArray, limit: float
    ) -> BranchNode | None:
        if self.evaluator.is_worst_case:
            return BranchNode(allowed, minimum, min_visits, (~allowed).astype(float), 0.5)
        loss_budget = limit - float(self.evaluator.start @ minimum.loss)
        if loss_budget < 0:
            return None
        loss_budget = max(loss_budget, IMPROVEMENT_RELATIVE_TOLERANCE * limit)
        costs = np.minimum(_multiply_visits(min_visits, minimum.excess), 2 * loss_budget)
        costs[~allowed] = 2 * loss_budget
        return BranchNode(allowed, minimum, min_visits, costs, loss_budget)

    def _branch(
        self, node: BranchNode, policy_loss: PolicyLoss | None
    ) -> list[tuple[NDArray, NDArray]]:
        """Two nodes, the second to be examined first.

        None where the rule was not evaluated or meets the loss target, and where no state separates
        the nodes.
        """
        if policy_loss is None or self.loss_target.is_met_by(policy_loss):
            return []
        all_states = np.arange(len(policy_loss.table))
        excess = np.where(node.allowed, node.minimum.excess, 0.0)[all_states, policy_loss.table]
        shortfall = np.maximum(policy_loss.visits - node.min_visits, 0.0) * excess
        s = int(shortfall.argmax())
        if shortfall[s] <= 0:
            return []
        forbidden = node.allowed.copy()
        fixed = node.allowed.copy()
        forbidden[s, policy_loss.table[s]] = False
        fixed[s] = False
        fixed[s, policy_loss.table[s]] = True
        fixed_table = node.minimum.table.copy()
        fixed_table[s] = policy_loss.table[s]
        return [(forbidden, node.minimum.table), (fixed, fixed_table)]

    def _solve_restricted(self, costs: NDArray, table: NDArray) -> MinimumLoss:
        """Policy iteration for least discounted costs (S, A), infinite for what is not allowed."""
        all_states = np.arange(len(costs))
        discount = self.evaluator.mdp.discount
        largest = float(costs[np.isfinite(costs)].max(initial=1e-300))
        tolerance = IMPROVEMENT_RELATIVE_TOLERANCE * largest
        table = np.where(np.isfinite(costs[all_states, table]), table, costs.argmin(axis=1))
        loss, q = self._evaluate_table(costs, table)
        for _ in range(POLICY_ITERATION_MAX_STEPS):
            best = q.argmin(axis=1)
            improves = q[all_states, best] < q[all_states, table] - tolerance
            if not improves.any():
                break
            table = np.where(improves, best, table)
            loss, q = self._evaluate_table(costs, table)
        residual = max(float((loss - q.min(axis=1)).max()), 0.0) / (1 - discount)
        loss = np.maximum(loss - 2 * residual - tolerance, 0.0)
        excess = np.maximum(q - loss[:, None] - 4 * residual - 2 * tolerance, 0.0)
        return MinimumLoss(table, loss, excess)

    def _evaluate_table(self, costs: NDArray, table: NDArray) -> tuple[NDArray, NDArray]:
        """(S,) discounted costs of a table, and (S, A) those of another action for once."""
        evaluator = self.evaluator
        loss = evaluator.compute_discounted_sums(table, costs[np.arange(len(costs)), table])
        return loss, costs + evaluator.mdp.discount * evaluator.compute_expected_next(loss)

    @cached_property
    def _unavoidable_visits(self) -> NDArray[np.float64]:
        """(S,) lower bounds on the visits of every policy that meets the loss target on average."""
        visits = np.zeros(len(self._action_loss))
        if self.evaluator.is_worst_case:
            return visits
        optimal_visits = self.evaluator.optimal.visits
        finite_loss = np.where(np.isfinite(self._action_loss), self._action_loss, 0.0)
        weighted_losses = optimal_visits * finite_loss.max(axis=1)
        count = min(VISIT_BOUND_MAX_STATE_PAIRS // len(visits), VISIT_BOUND_MAX_STATES)
        for s in np.argsort(-weighted_losses)[:count]:
            if weighted_losses[s] > 0:
                visits[s] = max(
                    self._bound_visits(int(s), price_share, float(optimal_visits[s]))
                    for price_share in LOSS_PRICE_SHARES
                )
        return np.maximum(visits, 0.0) * ROUNDING_SAFETY_FACTOR

    def _bound_visits(self, s: int, price_share: float, optimal_visits: float) -> float:
        """The bound on the visits of one state by one price."""
        limit = self.loss_target.limit
        price = price_share * optimal_visits / limit
        costs = price * self._action_loss
        costs[s] += 1.0
        table = self.evaluator.solution.policy.table.ravel().astype(np.int64)
        minimum = self._solve_restricted(costs, table)
        return float(self.evaluator.start @ minimum.loss) - price * limit * (1 + 1e-9)


def _multiply_visits(visits: NDArray, excess: NDArray) -> NDArray[np.float64]:
    """(S, A) visits x excess, 0 in states that are never visited."""
    with np.errstate(invalid="ignore"):
        return np.where(visits[:, None] > 0, visits[:, None] * excess, 0.0)
