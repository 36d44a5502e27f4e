"""Jumps over whole states: ``sum_k p_k(s) w(target_k(s))``, each target looked up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tessella.grid import index_type
from tessella.mdp.stages.operation import (
    Displacement,
    RandomOperation,
    action_slice,
    compiled_action_slice,
    drop_trailing_axes,
    gather_policy_entries,
    relative_to_block,
    take_range,
    with_length,
)


@dataclass(frozen=True, eq=False)
class Scatter(RandomOperation):
    """Any map: ``target`` (A | 1, K, *grid) flat states, ``probs`` (A | 1, K, *broadcast)."""

    target: NDArray[np.integer]
    probs: NDArray[np.float64]

    def restrict_to_leading_axes(self, axes: int) -> Scatter | None:
        probs = drop_trailing_axes(self.probs, axes + 2)
        short = self.shape[:axes]
        to = self.target.reshape(*self.target.shape[: axes + 2], -1)
        others = to.shape[-1]
        stays = probs is not None and (to % others == np.arange(others)).all()
        if probs is None or not stays or (to // others != to[..., :1] // others).any():
            return None
        target = (to[..., 0] // others).astype(index_type(math.prod(short)))
        return Scatter(short, target, probs)

    def max_displacement(self, axis: int) -> Displacement:
        along = self.target // math.prod(self.shape[axis + 1 :]) % self.shape[axis]
        own = with_length((1,) * self.target.ndim, axis + 2, -1)
        return Displacement.covering(
            along.astype(np.int64) - np.arange(self.shape[axis]).reshape(own)
        )

    def block(self, axis: int, first: int, count: int) -> Scatter:
        shape = with_length(self.shape, axis, count)
        where = list(np.unravel_index(take_range(self.target, axis + 2, first, count), self.shape))
        where[axis] = relative_to_block(where[axis], first, count)
        target = np.ravel_multi_index(tuple(where), shape).astype(self.target.dtype)
        probs = take_range(self.probs, axis + 2, first, count)
        return replace(self, shape=shape, target=target, probs=probs)

    @property
    def depends_on_action(self) -> bool:
        return len(self.target) > 1 or len(self.probs) > 1

    def arrays(self) -> dict[str, NDArray]:
        return {"target": self.target, "probs": self.probs}

    def compile(self, depends_on_action: bool) -> CompiledScatter:
        return CompiledScatter(depends_on_action)

    def outcomes(self, action: int) -> Iterator[tuple[NDArray, NDArray]]:
        for to, p in zip(
            action_slice(self.target, action), action_slice(self.probs, action), strict=True
        ):
            yield to, np.broadcast_to(p, self.shape)

    @property
    def rounding_terms(self) -> int:
        return self.target.shape[1]

    @property
    def adjoint_rounding_terms(self) -> int:
        return self.target.shape[1] + int(np.bincount(self.target.ravel()).max())

    def sample(self, states, actions, rng):
        where, k = self.draw(states, actions, rng)
        a = actions if len(self.target) > 1 else 0
        return self.target[(a, k, *where)].astype(np.int64), k


@dataclass(frozen=True)
class CompiledScatter:
    """The compiled side of ``Scatter``."""

    depends_on_action: bool

    is_identity = False
    accepts_broadcast_input = False

    def supports_policy_arrays(self, arrays) -> bool:
        return True

    def apply(self, arrays, w, action):
        import jax.numpy as jnp
        from jax import lax

        flat = w.ravel()
        target = arrays["target"]
        probs = arrays["probs"]

        def add(total, term):
            to, p = term
            return total + p * jnp.take(flat, to, mode="clip"), None

        def add_own(total, k):
            return add(
                total,
                (gather_policy_entries(target, action, k), gather_policy_entries(probs, action, k)),
            )

        if jnp.ndim(action):
            return lax.scan(add_own, jnp.zeros_like(w), jnp.arange(target.shape[1]))[0]
        terms = compiled_action_slice(target, action), compiled_action_slice(probs, action)
        return lax.scan(add, jnp.zeros_like(w), terms)[0]
