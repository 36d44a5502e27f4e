"""Jumps over whole states: ``sum_k p_k(s) w(target_k(s))``, each target looked up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tessella.grid import index_type
from tessella.mdp.stages.operation import (
    RandomOperation,
    Reach,
    at,
    of_action,
    own,
    places,
    trimmed,
    with_length,
    within,
)


@dataclass(frozen=True, eq=False)
class Scatter(RandomOperation):
    """Any map: ``target`` (A | 1, K, *grid) flat states, ``probs`` (A | 1, K, *broadcast)."""

    target: NDArray[np.integer]
    probs: NDArray[np.float64]

    def without(self, axes: int) -> Scatter | None:
        probs, short = trimmed(self.probs, axes + 2), self.shape[:axes]
        to = self.target.reshape(*self.target.shape[: axes + 2], -1)
        others = to.shape[-1]
        stays = probs is not None and (to % others == np.arange(others)).all()
        if probs is None or not stays or (to // others != to[..., :1] // others).any():
            return None
        target = (to[..., 0] // others).astype(index_type(math.prod(short)))
        return Scatter(short, target, probs)

    def reach(self, axis: int) -> Reach:
        along = self.target // math.prod(self.shape[axis + 1 :]) % self.shape[axis]
        own = with_length((1,) * self.target.ndim, axis + 2, -1)
        return Reach.of(along.astype(np.int64) - np.arange(self.shape[axis]).reshape(own))

    def window(self, axis: int, first: int, count: int) -> Scatter:
        shape = with_length(self.shape, axis, count)
        where = list(np.unravel_index(places(self.target, axis + 2, first, count), self.shape))
        where[axis] = within(where[axis], first, count)
        target = np.ravel_multi_index(tuple(where), shape).astype(self.target.dtype)
        probs = places(self.probs, axis + 2, first, count)
        return replace(self, shape=shape, target=target, probs=probs)

    @property
    def acts(self) -> bool:
        return len(self.target) > 1 or len(self.probs) > 1

    def arrays(self) -> dict[str, NDArray]:
        return {"target": self.target, "probs": self.probs}

    def compiled(self, acts: bool) -> CompiledScatter:
        return CompiledScatter(acts)

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        for to, p in zip(at(self.target, action), at(self.probs, action), strict=True):
            yield to, np.broadcast_to(p, self.shape)

    @property
    def terms(self) -> int:
        return self.target.shape[1]

    @property
    def adjoint_terms(self) -> int:
        return self.target.shape[1] + int(np.bincount(self.target.ravel()).max())

    def sample(self, states, actions, rng):
        where, k = self.draw(states, actions, rng)
        a = actions if len(self.target) > 1 else 0
        return self.target[(a, k, *where)].astype(np.int64), k


@dataclass(frozen=True)
class CompiledScatter:
    """The compiled side of ``Scatter``."""

    acts: bool

    stays = False
    takes_open = False

    def follows(self, arrays) -> bool:
        return True

    def apply(self, arrays, w, action):
        import jax.numpy as jnp
        from jax import lax

        flat, target, probs = w.ravel(), arrays["target"], arrays["probs"]

        def add(total, term):
            to, p = term
            return total + p * jnp.take(flat, to, mode="clip"), None

        def add_own(total, k):
            return add(total, (own(target, action, k), own(probs, action, k)))

        if jnp.ndim(action):
            return lax.scan(add_own, jnp.zeros_like(w), jnp.arange(target.shape[1]))[0]
        terms = of_action(target, action), of_action(probs, action)
        return lax.scan(add, jnp.zeros_like(w), terms)[0]
