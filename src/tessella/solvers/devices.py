"""Which devices a solve is cut among."""

from __future__ import annotations

from typing import Any

from tessella.criteria.discounted import Discounted
from tessella.errors import ArgumentError, is_count
from tessella.mdp.model import MDP
from tessella.mdp.stages.partition import find_partition
from tessella.mdp.stages.staged import Staged
from tessella.solvers.mixed_precision import ACCELERATOR_MIN_STATES


def choose_devices(mdp: MDP, count: int | None) -> list[Any]:
    """The devices that share a model; none where one does all of it.

    Without a ``count`` it is all accelerators, for a large model that can be cut among them.
    """
    if count is None:
        return _find_accelerators(mdp) if mdp.n_states >= ACCELERATOR_MIN_STATES else []
    if not is_count(count):
        raise ArgumentError("devices must be a whole number, at least 1", value=f"got {count!r}")
    if count == 1:
        return []
    if not _supports_sharding(mdp):
        raise ArgumentError(
            "several devices serve models of stages with discounted rewards",
            value=f"this is {type(mdp.dynamics).__name__.lower()}, {mdp.criterion}",
        )
    return _take_devices(count)


def _supports_sharding(mdp: MDP) -> bool:
    return isinstance(mdp.dynamics, Staged) and isinstance(mdp.criterion, Discounted)


def _take_devices(count: int) -> list[Any]:
    import jax

    devices = jax.devices()
    if count > len(devices):
        raise ArgumentError(
            "there must be as many devices as a model is cut among",
            value=f"got {count}, and JAX sees {len(devices)} ({devices[0].platform})",
        )
    return devices[:count]


def _find_accelerators(mdp: MDP) -> list[Any]:
    from tessella.mdp.compilation import results_stay_on_device

    if not (_supports_sharding(mdp) and results_stay_on_device()):
        return []
    import jax

    devices = jax.devices()
    return (
        devices
        if len(devices) > 1 and find_partition(mdp.dynamics, len(devices)) is not None
        else []
    )
