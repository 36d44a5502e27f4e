"""diff(mdp, a, b) -> Difference: what changes if policy b takes the place of policy a.

    time in changed states    sum of d_a(s) and of d_b(s) over states with a(s) != b(s)
    money at stake            J(b) - J(a) = sum_s d_b(s) (Q_a(s, b(s)) - V_a(s)) / (1 - discount)

so every changed state has its own part of the difference, and the parts add up. For an average,
d_b are the shares of time in the long run, J the gains, and V_a(s) = Q_a(s, a(s)). Policies that do
the same everywhere differ by exactly nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.criterion import require_criterion
from tessella.errors import counted, require_type
from tessella.mdp.actions import describe_action
from tessella.mdp.measures import MeasureValue
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.start import Start, start_distribution
from tessella.solvers.bounds import compute_q_values
from tessella.solvers.execution_plan import plan_for_policies
from tessella.solvers.policy_evaluation import evaluate, occupancy
from tessella.solvers.prepared_model import PreparedModel
from tessella.support.sense import sense_of

TEXT_MAX_PAIRS = 8  # pairs of actions in the text


@dataclass(frozen=True, eq=False)
class Difference:
    """What changes from one policy to another.

    Attributes:
        a, b: the policies.
        where: (grid) whether the action changes.
        gain: what b is worth more than a from the start; negative if less.
        by_state: (grid) each state's part of the gain.
        time_a, time_b: share of time spent in changed states, under a and under b.
        minimise: whether the model is stated in costs; then the text speaks of them.
        measures: what a and b measure; none where the policies are the same.
    """

    a: Policy
    b: Policy
    where: NDArray[np.bool_] = field(repr=False)
    gain: float
    by_state: NDArray[np.float64] = field(repr=False)
    time_a: float
    time_b: float
    minimise: bool = False
    measures: Mapping[str, tuple[MeasureValue | None, ...]] = field(default_factory=dict)

    @property
    def pairs(self) -> list[tuple[int, int, int, float]]:
        """(action of a, action of b, states, part of the gain), the largest part first."""
        changed = np.flatnonzero(self.where)
        tables = (self.a.table, self.b.table)
        action_pairs = np.stack([table.ravel()[changed] for table in tables], axis=1)
        distinct, inverse = np.unique(action_pairs, axis=0, return_inverse=True)
        states = np.bincount(inverse.ravel(), minlength=len(distinct))
        gains = np.bincount(inverse.ravel(), self.by_state.ravel()[changed], len(distinct))
        rows = [
            (int(x), int(y), int(n), float(p))
            for (x, y), n, p in zip(distinct, states, gains, strict=True)
        ]
        return sorted(rows, key=lambda row: -abs(row[3]))

    def __str__(self) -> str:
        n = int(self.where.sum())
        name = self.a.action_name
        if not n:
            return f"the same in all {self.where.size:,} states"
        sense = sense_of(self.minimise)
        more = "more" if sense.display(self.gain) >= 0 else "less"
        lines = [
            f"{n:,} of {self.where.size:,} states change from {self.a.name or 'a'} to "
            f"{self.b.name or 'b'}: {self.time_a:.2%} of the time before, {self.time_b:.2%} after",
            f"the new one {sense.worth_verb} {abs(self.gain):.6g} {more}",
            *(f"{name}: {a} before, {b} after" for name, (a, b) in self.measures.items()),
        ]
        for x, y, states, pair_gain in self.pairs[:TEXT_MAX_PAIRS]:
            old, new = (describe_action(name, self.a.actions[i]) for i in (x, y))
            change = f"{old} becomes {new} in {counted(states, 'state')}"
            lines.append(f"  {sense.display(pair_gain):+.4g}  {change}")
        if len(self.pairs) > TEXT_MAX_PAIRS:
            lines.append(f"  ... and {len(self.pairs) - TEXT_MAX_PAIRS} more kinds of change")
        return "\n".join(lines)


def diff(mdp: MDP, a: Any, b: Any, start: Start = None) -> Difference:
    """What changes if ``b`` takes the place of ``a``.

    Args:
        mdp: the model.
        a, b: a policy in any form: see ``tessella.as_policy``.
        start: any start: see ``tessella.mdp.start``; None for the model's own.

    Returns:
        What is gained or lost in total, and which states it comes from.

    Raises:
        PolicyError: a policy does not fit the model.

    Example:
        >>> mdp = ts.benchmark("QUE-Lin")
        >>> change = ts.diff(mdp, ts.solve(mdp), lambda queue: np.where(queue < 25, 1, 0))
        >>> int(change.where.sum()), round(change.gain, 2)
        (71, -0.62)
    """
    require_type("diff", mdp, MDP)
    require_criterion("diff", mdp.criterion, "is_discounted", "has_horizon", "has_gain")
    old = mdp.policy(a)
    new = mdp.policy(b)
    plan = plan_for_policies(mdp, None)
    start_weights = start_distribution(mdp, start, old, plan).reshape(mdp.grid.shape)
    where = old.table != new.table
    if not where.any():
        return Difference(old, new, where, 0.0, np.zeros(where.shape), 0.0, 0.0)
    before = evaluate(mdp, old, start_weights, plan=plan)
    after = evaluate(mdp, new, start_weights, guess=before.value, plan=plan)
    time_a = occupancy(mdp, old, start_weights, plan=plan).share
    time_b = occupancy(mdp, new, start_weights, plan=plan).share
    q = compute_q_values(PreparedModel(plan), before.value)
    new_q, old_q = (np.take_along_axis(q, p.table[..., None], axis=-1)[..., 0] for p in (new, old))
    visits = mdp.criterion.value_of_constant_reward(time_b)
    gain_by_state = np.where(where, visits * (new_q - old_q), 0.0)
    gain = float((start_weights * (after.value - before.value)).sum())
    if before.gain is not None and after.gain is not None:
        gain = after.gain - before.gain
    return Difference(
        old,
        new,
        where,
        gain,
        gain_by_state,
        float(time_a[where].sum()),
        float(time_b[where].sum()),
        mdp.minimise,
        {name: (before.measures[name], after.measures[name]) for name in mdp.measures},
    )
