"""A model from a step function of named coordinates and finite noise.

``step`` is called once, on arrays over actions x states x noises; its outcomes become rows,

    P(s' | s, a) = sum over noise w of p(w | s, a) 1{step(s, a, w) = s'}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from tessella.errors import ModelError
from tessella.mdp.arrays import Pairs, _model
from tessella.mdp.model import MDP, Feasible, _mask
from tessella.mdp.scope import Scope, call, probabilities, rewards
from tessella.mdp.staged import targets
from tessella.mdp.stages import Noise
from tessella.mdp.tabular import Outcomes


def from_step(
    step: Callable[..., tuple[Mapping[str, Any], Any]],
    scope: Scope,
    discount: float,
    noise: Sequence[Noise] | Noise,
    feasible: Feasible,
    name: str,
    parameters: Mapping[str, Any] | None,
) -> MDP:
    """See ``MDP.from_step``."""
    names, probs = _joint(scope, [noise] if isinstance(noise, Noise) else list(noise))
    result = call(step, scope.mesh() | names, "the step function")
    if not (isinstance(result, tuple) and len(result) == 2):
        raise ModelError("the step function must return (next coordinates by name, reward)")
    n, n_actions = scope.grid.size, len(scope.actions)
    full = (n_actions, *scope.grid.shape, probs.shape[-1])
    mask = np.ones((n, n_actions), bool) if feasible is None else _mask(scope, feasible)
    coordinates = _kept_on_grid(scope, result[0], mask, full)
    to = targets(scope, coordinates, "the step function")
    paid = rewards(scope, result[1], "the reward of the step function")

    def flat(array: NDArray) -> NDArray:
        """(S, A, K), pairs in the order s * A + a."""
        return np.moveaxis(np.broadcast_to(array, full).reshape(n_actions, n, -1), 0, 1)

    to, paid, p = flat(to), flat(paid), flat(probs)
    states, choices = np.nonzero(mask)
    k = p.shape[-1]
    start = np.arange(len(states) + 1) * k
    arrays = (p[mask].ravel(), to[mask].ravel().astype(np.int64), start)
    rows = sp.csr_array(arrays, shape=(len(states), n))
    rows.sum_duplicates()
    rows.eliminate_zeros()
    expected = (p[mask] * paid[mask]).sum(axis=1)
    outcomes = Outcomes(
        np.concatenate([[0], np.cumsum(mask.ravel() * k)]),
        to[mask].ravel().astype(np.int64),
        p[mask].ravel(),
        paid[mask].ravel(),
        np.zeros(mask.sum() * k, dtype=bool),
    )
    pairs = Pairs(scope, states, choices, rows)
    return _model(pairs, expected, outcomes, discount, name, parameters)


def _joint(scope: Scope, noises: list[Noise]) -> tuple[dict[str, NDArray], NDArray]:
    """Name to (K,) values, and open-mesh probabilities (..., K), of all combinations."""
    names: dict[str, NDArray] = {}
    joint = np.ones((1,) * scope.rank)
    for noise in noises:
        values = np.asarray(noise.values)
        what = f"the probabilities of {noise.name}"
        if noise.name in scope.mesh() or noise.name in names:
            raise ModelError(f"a noise cannot be called {noise.name!r}: that name is taken")
        given = noise.probabilities
        result = call(given, scope.mesh(), what) if callable(given) else given
        p = probabilities(scope, result, len(values), what)
        count = joint.shape[-1]
        joint = (joint[..., :, None] * p[..., None, :]).reshape(
            *np.broadcast_shapes(joint.shape[:-1], p.shape[:-1]), -1
        )
        names = {n: np.repeat(v, len(values)) for n, v in names.items()}
        names[noise.name] = np.tile(values, count)
    return names, joint


def _kept_on_grid(
    scope: Scope, coordinates: Any, mask: NDArray, full: tuple[int, ...]
) -> dict[str, NDArray]:
    """Where an action is infeasible the step function may say anything: stay there instead."""
    if not hasattr(coordinates, "items"):
        raise ModelError(f"the step function must map axis names to values; got {coordinates!r}")
    if mask.all():
        return dict(coordinates)
    allowed = np.moveaxis(mask, 1, 0).reshape(full[0], *scope.grid.shape, 1)
    here = scope.mesh()
    return {
        name: np.where(allowed, value, here[name]) if name in here else value
        for name, value in coordinates.items()
    }
