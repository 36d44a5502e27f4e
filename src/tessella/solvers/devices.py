"""Which devices a solve is cut among."""

from __future__ import annotations

from typing import Any

from tessella.criteria.discounted import Discounted
from tessella.errors import ArgumentError, is_count
from tessella.mdp.model import MDP
from tessella.mdp.stages.staged import Staged
from tessella.mdp.stages.windows import cut
from tessella.solvers.mixed_precision import LARGE


def devices_for(mdp: MDP, count: int | None) -> list[Any]:
    """The devices that share a model; none where one does all of it.

    Without a ``count`` it is all accelerators, for a large model that can be cut among them.
    """
    if count is None:
        return _at_hand(mdp) if mdp.n_states >= LARGE else []
    if not is_count(count):
        raise ArgumentError("devices must be a whole number, at least 1", value=f"got {count!r}")
    if count == 1:
        return []
    if not _served(mdp):
        raise ArgumentError(
            "several devices serve models of stages with discounted rewards",
            value=f"this is {type(mdp.dynamics).__name__.lower()}, {mdp.criterion}",
        )
    return _first(count)


def _served(mdp: MDP) -> bool:
    return isinstance(mdp.dynamics, Staged) and isinstance(mdp.criterion, Discounted)


def _first(count: int) -> list[Any]:
    import jax

    there = jax.devices()
    if count > len(there):
        raise ArgumentError(
            "there must be as many devices as a model is cut among",
            value=f"got {count}, and JAX sees {len(there)} ({there[0].platform})",
        )
    return there[:count]


def _at_hand(mdp: MDP) -> list[Any]:
    from tessella.mdp.engine import held

    if not (_served(mdp) and held()):
        return []
    import jax

    there = jax.devices()
    return there if len(there) > 1 and cut(mdp.dynamics, len(there)) is not None else []
