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
from tessella.mdp.dynamics import Parts
from tessella.mdp.scope import Feasible, NamedValues, Scope, call, feasible_mask
from tessella.mdp.stages.jump import targets
from tessella.mdp.stages.noise import Law, Noise, make_law
from tessella.mdp.tabular.pairs import Pairs, tabular_parts
from tessella.mdp.tabular.tabular import Outcomes

WHAT = "the step function"
OUTCOME = 176  # bytes held at once for each outcome while rows are made of them, as measured
LARGEST = 8 << 30  # bytes beyond which no model is written out


def from_step(
    step: Callable[..., tuple[Mapping[str, Any], Any]],
    scope: Scope,
    noise: Sequence[Noise] | Noise,
    feasible: Feasible,
    sign: int = 1,
) -> Parts:
    """See ``MDP.from_step``; ``sign`` makes rewards of what the step pays."""
    n, n_actions = scope.grid.size, len(scope.actions)
    _refuse_large(scope, 1)  # however few the outcomes, before anything as large is made
    mask = np.ones((n, n_actions), bool) if feasible is None else feasible_mask(scope, feasible)
    reading = replace(scope, allowed=mask.T.reshape(n_actions, *scope.grid.shape, 1))
    laws = _laws(reading, [noise] if isinstance(noise, Noise) else noise)
    _refuse_large(scope, math.prod(len(law.named[1]) for law in laws))
    named, law = _joint(reading, laws)
    result = call(step, scope.mesh() | named, WHAT)
    if not (isinstance(result, tuple) and len(result) == 2):
        raise ModelError(f"{WHAT} must return (next coordinates by name, reward)")
    to = targets(reading, result[0], WHAT, law)
    said = checks.rewards(reading, result[1], f"the reward of {WHAT}", law.named, law.probs)
    paid = sign * said
    states, choices = np.nonzero(mask)

    def of_pairs(array: NDArray) -> NDArray:
        """(L * K,) the outcomes of the feasible pairs, from an open mesh."""
        full = np.broadcast_to(array, (n_actions, *scope.grid.shape, law.probs.shape[-1]))
        return np.moveaxis(full.reshape(n_actions, n, -1), 0, 1)[mask].ravel()

    state, p, reward = of_pairs(to), of_pairs(law.probs), of_pairs(paid)
    pair = np.repeat(np.arange(len(states)), law.probs.shape[-1])
    happens = np.flatnonzero(p)
    state, p, reward, pair = state[happens], p[happens], reward[happens], pair[happens]
    rows = sp.csr_array((p, (pair, state)), shape=(len(states), n))
    pairs = Pairs(scope, states, choices, rows)
    outcomes = Outcomes.of(pairs.keys[pair], n * n_actions, state, p, reward)
    expected = outcomes.expected_reward[pairs.keys]
    built = outcomes.built(factors=max(len(laws), 1))
    return tabular_parts(pairs, expected, outcomes, built)


def _refuse_large(scope: Scope, outcomes: int) -> None:
    """Refuse a model that would take too much memory, before anything of it is computed."""
    pairs = f"{len(scope.actions):,} actions x {scope.grid.size:,} states"
    needed = OUTCOME * len(scope.actions) * scope.grid.size * outcomes
    if needed > LARGEST:
        raise ModelError(
            f"from_step writes out every outcome, in at most {LARGEST:,} bytes; larger models are "
            "told as MDP.staged, whose Jump takes such a function",
            value=f"{pairs} x {outcomes:,} values of the noise need {needed:,}",
        )


def _laws(scope: Scope, noises: Sequence[Noise]) -> list[Law]:
    refuse_unordered(noises, "noises")
    names = [noise.name for noise in noises]
    for name in names:
        if names.count(name) > 1:
            raise ModelError(f"a noise cannot be called {name!r}: that name is taken")
    return [make_law(scope, noise, noise.name) for noise in noises]


def _joint(scope: Scope, laws: list[Law]) -> tuple[dict[str, NDArray], Law]:
    """Name to (K,) values of all K combinations of the noises, and their joint law."""
    named: dict[str, NDArray] = {}
    probs = np.ones((1,) * scope.rank)
    for law in laws:
        name, values = law.named
        shape = np.broadcast_shapes(probs.shape[:-1], law.probs.shape[:-1])
        named = {n: np.repeat(v, len(values)) for n, v in named.items()}
        named[name] = np.tile(values, probs.shape[-1])
        probs = (probs[..., :, None] * law.probs[..., None, :]).reshape(*shape, -1)
    return named, Law(_label(named), probs)


def _label(named: dict[str, NDArray]) -> NamedValues:
    """The combinations as one noise, for messages: ``demand=3`` or ``demand, price=(3, 1)``."""
    if len(named) == 1:
        return next(iter(named.items()))
    rows = zip(*(v.tolist() for v in named.values()), strict=True)
    texts = [f"({', '.join(map(str, row))})" for row in rows]
    return ", ".join(named), np.array(texts or [""])
