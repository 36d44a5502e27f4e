"""A model from a step function of named coordinates and finite noise.

``step`` is called once, on arrays over actions x states x noises; its outcomes become rows,

    P(s' | s, a) = sum over noise w of p(w | s, a) 1{step(s, a, w) = s'}.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tessella.errors import ModelError
from tessella.grid import refuse_unordered
from tessella.mdp import checks
from tessella.mdp.context import (
    EvaluationContext,
    Feasible,
    NamedValues,
    NoiseTable,
    call_by_name,
    feasible_mask,
)
from tessella.mdp.dynamics import ModelComponents
from tessella.mdp.stages.jump import target_states
from tessella.mdp.stages.stage import Noise, tabulate_noise
from tessella.mdp.tabular.pairs import Pairs, build_tabular
from tessella.mdp.tabular.tabular import Outcomes

STEP_CONTEXT = "the step function"
OUTCOME_BYTES = 176  # bytes held at once for each outcome while rows are made of them, as measured
STEP_MAX_BYTES = 8 << 30  # bytes beyond which no model is written out


def from_step(
    step: Callable[..., tuple[Mapping[str, Any], Any]],
    context: EvaluationContext,
    noise: Sequence[Noise] | Noise,
    feasible: Feasible,
    sign: int = 1,
) -> ModelComponents:
    """See ``MDP.from_step``; ``sign`` makes rewards of what the step pays."""
    n = context.grid.size
    n_actions = len(context.actions)
    _require_memory(context, 1)  # however few the outcomes, before anything as large is made
    mask = np.ones((n, n_actions), bool) if feasible is None else feasible_mask(context, feasible)
    context_read = replace(context, feasible=mask.T.reshape(n_actions, *context.grid.shape, 1))
    laws = _noise_tables(context_read, [noise] if isinstance(noise, Noise) else noise)
    _require_memory(context, math.prod(len(noise_table) for noise_table in laws))
    named, noise_table = _joint_noise(context_read, laws)
    result = call_by_name(step, context.mesh() | named, STEP_CONTEXT)
    if not (isinstance(result, tuple) and len(result) == 2):
        raise ModelError(f"{STEP_CONTEXT} must return (next coordinates by name, reward)")
    to = target_states(context_read, result[0], STEP_CONTEXT, noise_table)
    numbers = checks.check_rewards(
        context_read, result[1], f"the reward of {STEP_CONTEXT}", noise_table
    )
    paid = sign * numbers
    states, choices = np.nonzero(mask)

    def of_pairs(array: NDArray) -> NDArray:
        """(L * K,) the outcomes of the feasible pairs, from an open mesh."""
        full = np.broadcast_to(array, (n_actions, *context.grid.shape, len(noise_table)))
        return np.moveaxis(full.reshape(n_actions, n, -1), 0, 1)[mask].ravel()

    state = of_pairs(to)
    p = of_pairs(noise_table.probs)
    reward = of_pairs(paid)
    pair = np.repeat(np.arange(len(states)), len(noise_table))
    happens = np.flatnonzero(p)
    state = state[happens]
    p = p[happens]
    reward = reward[happens]
    pair = pair[happens]
    rows = sp.csr_array((p, (pair, state)), shape=(len(states), n))
    pairs = Pairs(context, states, choices, rows)
    outcomes = Outcomes.from_list(pairs.keys[pair], n * n_actions, state, p, reward)
    expected = outcomes.expected_reward[pairs.keys]
    built = outcomes.rounding(factors=max(len(laws), 1))
    return build_tabular(pairs, expected, outcomes, built)


def _require_memory(context: EvaluationContext, outcomes: int) -> None:
    """Refuse a model that would take too much memory, before anything of it is computed."""
    pairs = f"{len(context.actions):,} actions x {context.grid.size:,} states"
    needed = OUTCOME_BYTES * len(context.actions) * context.grid.size * outcomes
    if needed > STEP_MAX_BYTES:
        raise ModelError(
            f"from_step writes out every outcome, in at most {STEP_MAX_BYTES:,} bytes; "
            "larger models are told as MDP.staged, whose Jump takes such a function",
            value=f"{pairs} x {outcomes:,} values of the noise need {needed:,}",
        )


def _noise_tables(context: EvaluationContext, noises: Sequence[Noise]) -> list[NoiseTable]:
    refuse_unordered(noises, "noises")
    names = [noise.name for noise in noises]
    for name in names:
        if names.count(name) > 1:
            raise ModelError(f"a noise cannot be called {name!r}: that name is taken")
    return [tabulate_noise(context, noise, noise.name) for noise in noises]


def _joint_noise(
    context: EvaluationContext, laws: list[NoiseTable]
) -> tuple[dict[str, NDArray], NoiseTable]:
    """Name to (K,) values of all K combinations of the noises, and their joint law."""
    named: dict[str, NDArray] = {}
    probs = np.ones((1,) * context.rank)
    for noise_table in laws:
        name, values = noise_table.variable
        shape = np.broadcast_shapes(probs.shape[:-1], noise_table.probs.shape[:-1])
        named = {n: np.repeat(v, len(values)) for n, v in named.items()}
        named[name] = np.tile(values, probs.shape[-1])
        probs = (probs[..., :, None] * noise_table.probs[..., None, :]).reshape(*shape, -1)
    return named, NoiseTable(_combination_labels(named), probs)


def _combination_labels(named: dict[str, NDArray]) -> NamedValues:
    """The combinations as one noise, for messages: ``demand=3`` or ``demand, price=(3, 1)``."""
    if len(named) == 1:
        return next(iter(named.items()))
    rows = zip(*(v.tolist() for v in named.values()), strict=True)
    texts = [f"({', '.join(map(str, row))})" for row in rows]
    return ", ".join(named), np.array(texts or [""])
