"""Models from outcomes: a step function, or Gymnasium, which also gets environments back.

``step`` is a function of named coordinates and finite noise. It is called once, on arrays over
actions x states x noises; its outcomes become rows,

    P(s' | s, a) = sum over noise w of p(w | s, a) 1{step(s, a, w) = s'}.

A toy-text environment lists, for each state and action, ``(probability, next state, reward,
terminated)``. A terminated outcome pays its reward and ends the process; an action without
outcomes is infeasible.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tessella.errors import ArgumentError, ModelError, format_value, require_extra
from tessella.grid import require_ordered
from tessella.mdp.checks import FunctionChecks, as_numbers
from tessella.mdp.dynamics import ModelParts, Payment
from tessella.mdp.stages.maps import find_target_states, read_axis_updates
from tessella.mdp.stages.stage import Noise, check_counts, tabulate_noise
from tessella.mdp.start import start_distribution
from tessella.mdp.state_action_space import (
    Feasible,
    NoiseTable,
    NoiseVariable,
    StateActionSpace,
    build_feasible_mask,
    call_by_name,
    make_state_action_space,
)
from tessella.mdp.tabular.pairs import Pairs, build_tabular, check_rows, pairs_from_outcomes
from tessella.mdp.tabular.tabular import Outcomes, Tabular

if TYPE_CHECKING:
    from tessella.mdp.model import MDP
    from tessella.mdp.start import Start

ToyTextTable = dict[int, dict[int, list[tuple[float, int, float, bool]]]]
STEP_SUBJECT = "the step function"
OUTCOME_BYTES = 176  # measured peak memory for each outcome while rows are built
STEP_MAX_BYTES = 8 << 30  # memory limit of a model from a step function


def from_step(
    step: Callable[..., tuple],
    space: StateActionSpace,
    noise: Sequence[Noise] | Noise,
    feasible: Feasible,
    sign: int = 1,
) -> ModelParts:
    """See ``MDP.from_step``; ``sign`` is -1 where the step function returns costs."""
    n = space.grid.size
    n_actions = len(space.actions)
    _require_memory(space, 1)  # before the mask is made, which is as large as one outcome each
    mask = (
        np.ones((n, n_actions), bool) if feasible is None else build_feasible_mask(space, feasible)
    )
    masked_space = space.with_feasible(mask)
    noise_tables = _tabulate_noises(masked_space, [noise] if isinstance(noise, Noise) else noise)
    _require_memory(space, math.prod(len(noise_table) for noise_table in noise_tables))
    noise_values, noise_table = _combine_noises(masked_space, noise_tables)
    result = call_by_name(step, space.mesh() | noise_values, STEP_SUBJECT)
    if not (isinstance(result, tuple) and len(result) in (2, 3)):
        raise ModelError(
            f"{STEP_SUBJECT} must return (next coordinates by name, reward), "
            "or with counts by name as the third"
        )
    checks = FunctionChecks(masked_space, STEP_SUBJECT, noise_table)
    target = find_target_states(checks, read_axis_updates(checks, result[0]))
    reward = sign * checks.read_rewards(result[1], f"the reward of {STEP_SUBJECT}")
    states, choices = np.nonzero(mask)

    def select_pairs(array: NDArray) -> NDArray:
        """(L * K,) the outcomes of the feasible pairs, from an open mesh."""
        full = np.broadcast_to(array, (n_actions, *space.grid.shape, len(noise_table)))
        return np.moveaxis(full.reshape(n_actions, n, -1), 0, 1)[mask].ravel()

    possible = np.flatnonzero(select_pairs(noise_table.probs))
    state = select_pairs(target)[possible]
    probability = select_pairs(noise_table.probs)[possible]
    pair = np.repeat(np.arange(len(states)), len(noise_table))[possible]
    rows = sp.csr_array((probability, (pair, state)), shape=(len(states), n))
    pairs = Pairs(space, states, choices, rows)

    def make_outcomes(amount: NDArray) -> Outcomes:
        amounts = select_pairs(amount)[possible]
        key = pairs.pair_indices[pair]
        return Outcomes.from_list(key, n * n_actions, state, probability, amounts)

    outcomes = make_outcomes(reward)
    expected = outcomes.expected_reward[pairs.pair_indices]
    factors = max(len(noise_tables), 1)
    parts = build_tabular(pairs, expected, outcomes, outcomes.rounding(factors))
    counted = {}
    for name, given in check_counts(result[2] if len(result) == 3 else None, STEP_SUBJECT).items():
        amount = checks.read_rewards(given, f"the count {name!r} of {STEP_SUBJECT}")
        paying = make_outcomes(amount)
        error = paying.rounding(factors).reward_error
        counted[name] = Payment(paying.expected_reward.reshape(n, n_actions), error)
    return replace(parts, dynamics=replace(cast(Tabular, parts.dynamics), counted=counted))


def _require_memory(space: StateActionSpace, outcomes: int) -> None:
    """Raise an error for a model that would take too much memory, before it is computed."""
    pairs = f"{len(space.actions):,} actions x {space.grid.size:,} states"
    needed = OUTCOME_BYTES * len(space.actions) * space.grid.size * outcomes
    if needed > STEP_MAX_BYTES:
        raise ModelError(
            f"from_step writes out every outcome, in at most {STEP_MAX_BYTES:,} bytes; "
            "larger models are given as MDP.staged, whose Jump takes such a function",
            value=f"{pairs} x {outcomes:,} values of the noise need {needed:,}",
        )


def _tabulate_noises(space: StateActionSpace, noises: Sequence[Noise]) -> list[NoiseTable]:
    require_ordered(noises, "noises")
    names = [noise.name for noise in noises]
    for name in names:
        if names.count(name) > 1:
            raise ModelError(f"a noise cannot be called {name!r}: that name is taken")
    return [tabulate_noise(space, noise, noise.name) for noise in noises]


def _combine_noises(
    space: StateActionSpace, noise_tables: list[NoiseTable]
) -> tuple[dict[str, NDArray], NoiseTable]:
    """Name to (K,) values of all K combinations of the noises, and their joint law."""
    values_by_name: dict[str, NDArray] = {}
    probs = np.ones((1,) * space.rank)
    for noise_table in noise_tables:
        name, values = noise_table.variable
        shape = np.broadcast_shapes(probs.shape[:-1], noise_table.probs.shape[:-1])
        values_by_name = {n: np.repeat(v, len(values)) for n, v in values_by_name.items()}
        values_by_name[name] = np.tile(values, probs.shape[-1])
        probs = (probs[..., :, None] * noise_table.probs[..., None, :]).reshape(*shape, -1)
    return values_by_name, NoiseTable(_label_combinations(values_by_name), probs)


def _label_combinations(values_by_name: dict[str, NDArray]) -> NoiseVariable:
    """The combinations as one noise, for messages: ``demand=3`` or ``demand, price=(3, 1)``."""
    if len(values_by_name) == 1:
        return NoiseVariable(*next(iter(values_by_name.items())))
    rows = zip(*(v.tolist() for v in values_by_name.values()), strict=True)
    texts = [f"({', '.join(map(str, row))})" for row in rows]
    return NoiseVariable(", ".join(values_by_name), np.array(texts or [""]))


def from_gymnasium(env: Any) -> tuple[ModelParts, str, NDArray[np.float64] | None]:
    """The model, the environment's name and its start, where it states them."""
    name = getattr(getattr(env, "spec", None), "id", "")
    unwrapped = getattr(env, "unwrapped", env)
    table = getattr(unwrapped, "P", None)
    if table is None:
        requirement = "the environment must list its transitions"
        raise ModelError(requirement, location=str(env), value="has no table P")
    space = make_state_action_space({"state": range(len(table))}, range(len(table[0])), "action")
    outcomes = _read_outcomes(space, table)
    pairs = pairs_from_outcomes(space, outcomes, outcomes.probability * ~outcomes.ended)
    expected = outcomes.expected_reward[np.flatnonzero(np.diff(outcomes.pair_starts))]
    start = getattr(unwrapped, "initial_state_distrib", None)
    start = None if start is None else as_numbers(start, "initial_state_distrib")
    return build_tabular(pairs, expected, outcomes, outcomes.rounding()), name, start


def _read_outcomes(space: StateActionSpace, table: Any) -> Outcomes:
    """The outcomes of a toy-text table, checked."""
    n = space.grid.size
    n_actions = len(space.actions)
    for s in range(n):
        if s not in table or len(table[s]) != n_actions:
            requirement = f"every state must list {n_actions} actions"
            raise ModelError(requirement, location=f"state={s}", value="does not")
    lists = [table[s][a] for s in range(n) for a in range(n_actions)]
    columns = list(zip(*(outcome for outcomes in lists for outcome in outcomes), strict=True))
    if len(columns) != 4:
        raise ModelError("an outcome must be (probability, next state, reward, terminated)")
    pair = np.repeat(np.arange(len(lists)), [len(outcomes) for outcomes in lists])
    # One column for each outcome, so that the checks apply to each of them, not to sums.
    entries = (np.ones(len(pair)), (pair, np.arange(len(pair))))
    separate = sp.csr_array(entries, shape=(len(lists), len(pair)))
    all_pairs = Pairs(space, *np.divmod(np.arange(len(lists)), n_actions), separate)
    numbers = _check_columns(all_pairs, pair, columns)
    outcomes = Outcomes.from_list(pair, len(lists), *numbers, np.asarray(columns[3], dtype=bool))
    check_rows(pairs_from_outcomes(space, outcomes, outcomes.probability))
    return outcomes


def _check_columns(pairs: Pairs, pair: NDArray, columns: list) -> tuple[NDArray, NDArray, NDArray]:
    """Next states, probabilities and rewards of the outcomes, each checked by itself."""

    def numbers(column: int, subject: str) -> NDArray:
        return as_numbers(columns[column], subject, lambda i, _: pairs.describe(int(pair[i[0]])))

    p = numbers(0, "probabilities")
    state = numbers(1, "next states")
    reward = numbers(2, "rewards")
    n = pairs.space.grid.size
    pairs.raise_for_entries(
        f"next states must lie in 0..{n - 1}",
        ~((state >= 0) & (state < n) & (state == np.rint(state))),
        lambda i: f"goes to {format_value(columns[1][i])}",
    )
    pairs.raise_for_entries(
        "transition rows must not be negative",
        p < 0,
        lambda i: f"holds {format_value(float(p[i]))} for state={columns[1][i]}",
        "rows",
    )
    pairs.raise_for_entries(
        "rewards must be finite", ~np.isfinite(reward), lambda i: f"pays {reward[i]}"
    )
    return state, p, reward


def build_transition_table(mdp: MDP) -> ToyTextTable:
    """The toy-text table ``P`` of any model; infeasible actions have no outcomes."""
    outcomes = _list_outcomes(mdp)
    columns = outcomes.probability, outcomes.state, outcomes.reward, outcomes.ended
    tuples = list(zip(*(column.tolist() for column in columns), strict=True))
    lists = [tuples[low:high] for low, high in pairwise(outcomes.pair_starts.tolist())]
    n = mdp.n_actions
    return {s: {a: lists[s * n + a] for a in range(n)} for s in range(mdp.n_states)}


def _list_outcomes(mdp: MDP) -> Outcomes:
    """The outcomes of a model; if it has none, one for each entry of its rows."""
    if isinstance(mdp.dynamics, Tabular) and mdp.dynamics.outcomes is not None:
        return mdp.dynamics.outcomes
    pairs = mdp.to_pairs()
    keys = pairs.states * mdp.n_actions + pairs.choices
    lengths = np.diff(pairs.transition.indptr)
    return Outcomes.from_list(
        np.repeat(keys, lengths),
        mdp.n_states * mdp.n_actions,
        pairs.transition.indices,
        np.asarray(pairs.transition.data),
        np.repeat(pairs.reward, lengths),
    )


def to_gymnasium(mdp: MDP, start: Start) -> Any:
    """See ``MDP.to_gymnasium``."""
    with require_extra("to_gymnasium", "gym"):
        import gymnasium
    weights = start_distribution(mdp, start)
    mask = mdp.feasible_mask

    class Environment(gymnasium.Env):
        """A tessella model as an environment; observations are flat state indices."""

        metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own convention)

        def __init__(self) -> None:
            self.mdp = mdp
            self.observation_space = gymnasium.spaces.Discrete(mdp.n_states)
            self.action_space = gymnasium.spaces.Discrete(mdp.n_actions)
            self.initial_state_distrib = weights
            self._state = 0
            self._table: ToyTextTable | None = None

        @property
        def P(self) -> ToyTextTable:
            if self._table is None:
                self._table = build_transition_table(mdp)
            return self._table

        def reset(self, *, seed: int | None = None, options: dict | None = None):
            super().reset(seed=seed)
            self._state = int(self.np_random.choice(mdp.n_states, p=weights))
            return self._state, self._info()

        def step(self, action):
            if not mask[self._state, action]:
                location = mdp.describe(self._state, int(action))
                requirement = "the action must be feasible"
                raise ArgumentError(requirement, location=location, value="is not")
            state = np.array([self._state])
            taken = mdp.dynamics.step(state, np.array([int(action)]), self.np_random)
            self._state = int(taken.next_states[0])
            return self._state, float(taken.rewards[0]), bool(taken.ended[0]), False, self._info()

        def _info(self) -> dict:
            return {"action_mask": mask[self._state].astype(np.int8)}

    return Environment()
