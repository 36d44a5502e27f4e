"""Gymnasium both ways: toy-text transition tables in, environments out.

A toy-text environment lists, for each state and action, ``(probability, next state, reward,
terminated)``. A terminated outcome pays its reward and then nothing more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError
from tessella.mdp.arrays import Pairs, check_rows
from tessella.mdp.tabular import Outcomes, Tabular

if TYPE_CHECKING:
    from tessella.mdp.model import MDP


def from_gymnasium(env: Any, discount: float, name: str) -> MDP:
    """See ``MDP.from_gymnasium``."""
    from tessella.mdp.model import assemble, make_scope

    table = getattr(getattr(env, "unwrapped", env), "P", None)
    if table is None:
        raise ModelError(f"the environment lists no transitions: {env} has no table P")
    n, n_actions = len(table), len(table[0])
    spec = getattr(env, "spec", None)
    scope = make_scope({"state": range(n)}, range(n_actions), "action")
    outcomes = _read(table, n, n_actions)
    owner = np.repeat(np.arange(n * n_actions), np.diff(outcomes.start))
    shape = (n * n_actions, n)
    pair = np.arange(n * n_actions)
    complete = sp.csr_array((outcomes.probability, (owner, outcomes.state)), shape=shape)
    check_rows(Pairs(scope, pair // n_actions, pair % n_actions, complete))
    going_on = outcomes.probability * ~outcomes.ended
    rows = sp.csr_array((going_on, (owner, outcomes.state)), shape=shape)
    rows.eliminate_zeros()
    reward = np.bincount(owner, outcomes.probability * outcomes.reward, minlength=n * n_actions)
    dynamics = Tabular.build(
        scope, rows, pair.reshape(n, n_actions), reward.reshape(n, n_actions), outcomes
    )
    return assemble(scope, discount, dynamics, None, name or getattr(spec, "id", ""), None)


def _read(table: Any, n: int, n_actions: int) -> Outcomes:
    if any(len(table[s]) != n_actions for s in range(n)):
        raise ModelError(f"every state must list {n_actions} actions")
    lists = [table[s][a] for s in range(n) for a in range(n_actions)]
    flat = [outcome for outcomes in lists for outcome in outcomes]
    columns = list(zip(*flat, strict=True))
    state = np.asarray(columns[1], dtype=np.int64)
    reward = np.asarray(columns[2], dtype=float)
    if ((state < 0) | (state >= n)).any():
        raise ModelError(f"next states must lie in 0..{n - 1}; got {state.min()}..{state.max()}")
    if not np.isfinite(reward).all():
        raise ModelError(f"rewards must be finite; got {reward[~np.isfinite(reward)][0]}")
    start = np.concatenate([[0], np.cumsum([len(outcomes) for outcomes in lists])])
    return Outcomes(
        start.astype(np.int64),
        state,
        np.asarray(columns[0], dtype=float),
        reward,
        np.asarray(columns[3], dtype=bool),
    )


def transition_table(mdp: MDP) -> dict[int, dict[int, list[tuple[float, int, float, bool]]]]:
    """The toy-text table ``P`` of any model; infeasible actions have no outcomes."""
    dynamics = mdp.dynamics
    outcomes = getattr(dynamics, "outcomes", None) or _outcomes(mdp)
    table: dict[int, dict[int, list]] = {}
    for s in range(mdp.n_states):
        table[s] = {}
        for a in range(mdp.n_actions):
            pair = s * mdp.n_actions + a
            span = range(outcomes.start[pair], outcomes.start[pair + 1])
            table[s][a] = [
                (
                    float(outcomes.probability[i]),
                    int(outcomes.state[i]),
                    float(outcomes.reward[i]),
                    bool(outcomes.ended[i]),
                )
                for i in span
            ]
    return table


def _outcomes(mdp: MDP) -> Outcomes:
    """Outcomes of a model that pays by state and action only."""
    mask, reward = mdp.feasible_mask, mdp.reward
    stacked = sp.vstack(mdp.dynamics.to_sparse(), format="csr")
    s, a = np.divmod(np.arange(mask.size), mdp.n_actions)
    rows = sp.csr_array(stacked[a * mdp.n_states + s])
    lengths = np.diff(rows.indptr)
    keep = np.repeat(mask.ravel(), lengths)
    lengths = lengths * mask.ravel()
    return Outcomes(
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        rows.indices[keep].astype(np.int64),
        rows.data[keep],
        np.repeat(reward.ravel(), lengths),
        np.zeros(int(lengths.sum()), dtype=bool),
    )


def to_gymnasium(mdp: MDP, start: ArrayLike | None) -> Any:
    """See ``MDP.to_gymnasium``."""
    try:
        import gymnasium
    except ImportError as error:
        raise ImportError("to_gymnasium needs the extra 'gym': pip install tessella[gym]") from error
    weights = _start(mdp, start)

    class Environment(gymnasium.Env):
        """A tessella model as an environment; observations are flat state indices."""

        metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own convention)

        def __init__(self) -> None:
            self.mdp = mdp
            self.observation_space = gymnasium.spaces.Discrete(mdp.n_states)
            self.action_space = gymnasium.spaces.Discrete(mdp.n_actions)
            self._state = 0
            self._table: dict | None = None

        @property
        def P(self) -> dict:
            if self._table is None:
                self._table = transition_table(mdp)
            return self._table

        def reset(self, *, seed: int | None = None, options: dict | None = None):
            super().reset(seed=seed)
            self._state = int(self.np_random.choice(mdp.n_states, p=weights))
            return self._state, self._info()

        def step(self, action):
            if not mdp.feasible_mask[self._state, action]:
                place = mdp.describe(self._state, int(action))
                raise ModelError("the action must be feasible", place, "is not")
            taken = mdp.dynamics.step(
                np.array([self._state]), np.array([int(action)]), self.np_random
            )
            self._state = int(taken.states[0])
            return self._state, float(taken.rewards[0]), bool(taken.ended[0]), False, self._info()

        def _info(self) -> dict:
            return {"action_mask": mdp.feasible_mask[self._state].astype(np.int8)}

    return Environment()


def _start(mdp: MDP, start: ArrayLike | None) -> NDArray[np.float64]:
    from tessella.mdp.simulate import start_distribution

    return start_distribution(mdp, start)
