"""Entropic risk over a horizon, as a criterion of one's own: ``python examples/entropic_risk.py``.

A careful owner maximises the certainty equivalent of the sum R of rewards over n periods,

    CE = -(1 / theta) log E[ exp(-theta R) ],

where a larger theta gives bad luck more weight. The utility W = -exp(-theta R)
multiplies over periods: with f the smallest reward,

    W_t(s) = max_a exp(-theta (r(s, a) - f)) sum_s' P(s' | s, a) W_(t+1)(s'),
    W_n(s) = -exp(-theta final(s)),

so it is a finite horizon without rewards, whose rows are shortened by a factor of at most 1. The
criterion rewrites a model into that one (``transform``). Whatever serves a finite horizon then
serves it with proven bounds: solving, certificates, rules, files. A period's reward counts by its
mean, given state and action. ``certainty_equivalent`` converts utilities.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

import tessella as ts
from tessella.mdp.dynamics import ModelParts
from tessella.mdp.tabular.pairs import build_tabular, pairs_from_outcomes
from tessella.mdp.tabular.tabular import Outcomes
from tessella.rounding import EPS, ModelRounding


@dataclass(frozen=True)
class EntropicRisk(ts.FiniteHorizon):
    """The certainty equivalent of the rewards of ``periods``; ``risk_aversion`` is theta."""

    risk_aversion: float = field(kw_only=True)
    smallest_reward: float = field(default=0.0, kw_only=True)  # f; ``transform`` sets it

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.discount == 1 and self.risk_aversion > 0):
            requirement = "entropic risk needs a risk aversion above 0 and no discount"
            raise ts.ModelError(requirement, value=f"got {self.risk_aversion} and {self.discount}")

    def __str__(self) -> str:
        return f"entropic risk {self.risk_aversion:g} over {self.periods} periods"

    def transform(self, parts: ModelParts, minimise: bool) -> tuple[ModelParts, EntropicRisk]:
        if "time" in parts.space.grid.axes or callable(self.final):
            raise ts.ModelError("entropic risk needs equal periods and a final value in numbers")
        reward = parts.dynamics.expected_reward()  # (S, A)
        feasible = np.ones(reward.shape, bool) if parts.feasible is None else parts.feasible
        smallest = float(reward[feasible].min())
        exponent = np.where(feasible, self.risk_aversion * (reward - smallest), 0.0)
        outcomes = _shorten_rows(parts.dynamics.to_sparse(), np.exp(-exponent), feasible)
        pairs = pairs_from_outcomes(
            parts.space, outcomes, np.where(outcomes.ended, 0, outcomes.probability)
        )
        final = self.risk_aversion * np.asarray(self.final, dtype=float)
        # In costs a final value is a cost, and so is the opposite of a utility.
        utility = np.exp(final) if minimise else -np.exp(-final)
        # A factor is off by the rounding of its exponent, and by the error of its reward there.
        given = parts.dynamics.rounding.in_file
        row_error = given.row_error + 2 * self.risk_aversion * given.reward_error
        rounding = ModelRounding(
            row_error + 4 * EPS * (2 + float(exponent.max())),
            float((4 * EPS * (1 + np.abs(final)) * np.abs(utility)).max()),
        )
        table = build_tabular(pairs, np.zeros(len(pairs.states)), outcomes, rounding)
        criterion = replace(self, final=utility, smallest_reward=smallest)
        return replace(table, start=parts.start), criterion

    def certainty_equivalent(self, utility: np.ndarray) -> np.ndarray:
        """(periods, ...) from the values of a solution, of every time and state."""
        remaining = np.arange(self.periods, 0, -1).reshape(-1, *[1] * (utility.ndim - 1))
        return -np.log(-utility) / self.risk_aversion + remaining * self.smallest_reward


def _shorten_rows(matrices: list, factor: np.ndarray, feasible: np.ndarray) -> Outcomes:
    """Rows times ``factor`` (S, A), and what is missing of 1: the end of the process."""
    n_actions = len(matrices)
    by_action = [matrix.tocoo() for matrix in matrices]
    action = np.repeat(np.arange(n_actions), [matrix.nnz for matrix in by_action])
    state = np.concatenate([matrix.row for matrix in by_action])
    reached = np.concatenate([matrix.col for matrix in by_action])
    probability = np.concatenate([matrix.data for matrix in by_action]) * factor[state, action]
    kept = feasible[state, action]
    ending = np.argwhere(feasible & (factor < 1))
    pair = np.concatenate([(state * n_actions + action)[kept], ending @ [n_actions, 1]])
    return Outcomes.from_list(
        pair,
        factor.size,
        np.concatenate([reached[kept], ending[:, 0]]),
        np.concatenate([probability[kept], 1 - factor[tuple(ending.T)]]),
        np.zeros(len(pair)),
        np.arange(len(pair)) >= kept.sum(),
    )


def main() -> None:
    """A fund that may be invested or kept: the more careful its owner, the more is kept."""
    wealth = np.arange(6)
    rows = np.zeros((2, 6, 6))
    rows[0, wealth, wealth] = 1.0  # kept
    rows[1, wealth, np.minimum(wealth + 1, 5)] += 0.6  # invested
    rows[1, wealth, np.maximum(wealth - 1, 0)] += 0.4
    reward = np.repeat(wealth[:, None], 2, axis=1).astype(float)  # a period pays what there is
    fund = ts.MDP.from_arrays(rows, reward, 0.9, actions=["keep", "invest"])
    print("theta   certain value   amounts that are invested at first")
    for risk_aversion in (0.001, 0.05, 0.1, 0.2):
        mdp = fund.with_criterion(EntropicRisk(8, risk_aversion=risk_aversion))
        solution = ts.solve(mdp)
        value = mdp.criterion.certainty_equivalent(solution.value)[0, 3]  # type: ignore[attr-defined]
        invested = np.flatnonzero(solution.policy.table[0])
        print(f"{risk_aversion:5.3f} {value:15.4f}   {', '.join(map(str, invested)) or 'none'}")


if __name__ == "__main__":
    main()
