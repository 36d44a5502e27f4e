"""One action everywhere: a single number."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from tessella.mdp.rule_tree import Leaf
from tessella.rules.rule_class import Costs, Fitted, RuleClass


@dataclass(frozen=True)
class OneAction(RuleClass):
    """The same action in every state."""

    name: ClassVar[str] = "one action"

    def why_not_exact(self, costs: Costs) -> str:
        return ""

    def max_size(self, costs: Costs) -> float:
        return 1

    def fit(self, costs: Costs, most: int, target: float) -> list[Fitted]:
        totals = costs.by_state.sum(axis=0)
        best = int(totals.argmin())
        return [Fitted(Leaf(best), 1, float(totals[best]))] if most >= 1 else []
