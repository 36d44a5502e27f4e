"""plan(mdp) -> Plan: what a solve will need, before it starts.

Memory is counted array by array, from the sizes of the grid and of the model's own arrays. Plain
sweeps from zero are k at most, where

    discount^k scale / (1 - discount)^2 <= tol,

with ``scale`` the size of a reward: the residual of 0 is at most that, and every sweep cuts it. The
methods of ``solve`` take fewer, or sweeps of a policy, which cost less. Seconds are those of a few
sweeps, run once, times that number. Counted and timed is the solve that would run: on the table of
a small model, in blocks where values are swept in place, and on several devices what each of them
holds.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tessella.criteria.average import Average
from tessella.criteria.discounted import Discounted
from tessella.errors import require_type
from tessella.mdp.describe import largest_intermediate, model_bytes
from tessella.mdp.dynamics import NumpyBackend
from tessella.mdp.finite_horizon import Timed
from tessella.mdp.model import MDP
from tessella.mdp.stages.partition import Partition, block_stages
from tessella.mdp.stages.reward import ExpectedReward
from tessella.mdp.stages.staged import Staged
from tessella.mdp.tabular.tabular import Tabular
from tessella.solvers.devices import choose_devices
from tessella.solvers.method import Method, require_method, validate_tol
from tessella.solvers.mixed_precision import ACCELERATOR_MIN_STATES, use_mixed_precision
from tessella.solvers.multigrid import bytes_of_correction

if TYPE_CHECKING:
    from tessella.solvers.loop import Engine

DEFAULT_RELATIVE_TOLERANCE = 1e-12  # of the largest value: what a solve aims at without a tolerance
TIMED_SWEEPS = 3  # sweeps that are timed


@dataclass(frozen=True)
class Plan:
    """What a solve of a model will need.

    Attributes:
        states: of the model.
        method: the one that was given, or that ``solve`` takes by itself.
        arrays: bytes by what they hold, all at once at the worst moment; of each device.
        available: bytes that there are, on the device or on the host.
        sweeps: plain sweeps at most; None where that is not known before.
        sweep_seconds: of one of them; None where none was timed.
        compiled: whether code is compiled first, for a new shape.
        devices: that a model is cut among.
    """

    states: int
    method: str
    arrays: Mapping[str, int]
    available: int
    sweeps: int | None
    sweep_seconds: float | None = None
    compiled: bool = True
    devices: int = 1

    @property
    def memory(self) -> int:
        """Bytes in all."""
        return sum(self.arrays.values())

    @property
    def fits(self) -> bool:
        return self.memory <= self.available

    @property
    def largest(self) -> int:
        """States of a model like this that would fit, about."""
        return int(self.states * self.available / self.memory)

    @property
    def seconds(self) -> float | None:
        """At most about this, compiling not counted; None where nothing is known."""
        if self.sweeps is None or self.sweep_seconds is None:
            return None
        return self.sweeps * self.sweep_seconds

    @property
    def short(self) -> str:
        """In a sentence, about a solve."""
        memory_text = (
            f"takes {format_bytes(self.memory)} of {format_bytes(self.available)} of memory"
        )
        memory_text += f" on each of {self.devices} devices" if self.devices > 1 else ""
        if not self.fits:
            memory_text = f"{memory_text} and does not fit (about {self.largest:,} states would)"
        return f"A solve {memory_text}; {self._sweeps_text}."

    @property
    def _sweeps_text(self) -> str:
        if self.sweeps is None:
            return "how many sweeps it takes depends on how fast the model mixes"
        return f"at most about {self.sweeps:,} sweeps"

    def __str__(self) -> str:
        width = max(map(len, self.arrays))
        lines = [f"{self.states:,} states, by {self.method}"]
        lines += [
            f"  {name:<{width}}  {format_bytes(size):>8}" for name, size in self.arrays.items()
        ]
        lines += [self.short]
        if self.sweep_seconds is not None:
            lines += [f"A sweep takes {self.sweep_seconds:.2g} s."]
        if self.seconds is not None:
            compile_text = ", and compiling some more" if self.compiled else ""
            lines += [f"All of it takes at most about {self.seconds:.2g} s{compile_text}."]
        return "\n".join(lines)


def plan(
    mdp: MDP,
    method: Method | None = None,
    *,
    tol: float | None = None,
    devices: int | None = None,
    calibrate: bool = True,
) -> Plan:
    """What ``solve`` will need, asked with the same words: memory by array, sweeps, time.

    ``calibrate`` compiles and times a few sweeps, where the model fits.
    """
    require_type("plan", mdp, MDP)
    if method is not None:
        require_method(method, tol)
        method.check_supports(mdp)
    tol = validate_tol(tol) if method is None else method.tolerance(mdp)
    device_list = choose_devices(mdp, devices)
    partition = _choose_partition(mdp, method)
    count = max(len(device_list), 1)
    name = _choose_method_name(mdp) if method is None else method.name
    arrays = (
        _count_block_bytes(mdp, partition)
        if partition
        else _count_array_bytes(mdp, name, method, count)
    )
    memory_available = find_available_memory(mdp.n_states) // _count_sharing_devices(device_list)
    result = Plan(
        mdp.n_states, name, arrays, memory_available, _bound_sweeps(mdp, tol), devices=count
    )
    if not calibrate or not result.fits or isinstance(mdp.dynamics, Timed):
        return result
    traced = method is not None and method.traced
    compiled = bool(device_list or partition or traced) or not isinstance(
        mdp.dynamics.backend_model.backend, NumpyBackend
    )
    return replace(
        result,
        sweep_seconds=measure_sweep_seconds(mdp, device_list, partition, traced),
        compiled=compiled,
    )


def _choose_method_name(mdp: MDP) -> str:
    """The name of the method that ``solve`` takes, found without loading JAX for small models."""
    if isinstance(mdp.dynamics, Timed):
        return "BackwardInduction"
    return "MixedPrecision" if use_mixed_precision(mdp) else "InexactPolicyIteration"


def _choose_partition(mdp: MDP, method: Method | None) -> Partition | None:
    """How a model that is swept in place is cut into blocks; None where it is not."""
    if method is None:
        return None
    from tessella.solvers.block_residuals import choose_partition
    from tessella.solvers.in_place import InPlace

    if not isinstance(method, InPlace):
        return None
    return choose_partition(mdp, method.states)


def _count_sharing_devices(device_list: Sequence[Any]) -> int:
    """How many devices have one memory: those that a processor was made into, all of them."""
    return len(device_list) if device_list and device_list[0].platform == "cpu" else 1


def _count_block_bytes(mdp: MDP, partition: Partition) -> dict[str, int]:
    """Bytes by what they hold where values are swept in place."""
    assert isinstance(mdp.dynamics, Staged)
    slice_states = math.prod(mdp.grid.shape) // partition.length  # states of one place of the axis
    n_blocks = -(-partition.length // partition.block_length)
    arrays = {
        "the model's own, in slabs": n_blocks
        * _count_window_bytes(mdp.dynamics, partition, factors=True)
    }
    if mdp.feasible is not None:
        arrays["feasible actions"] = (
            n_blocks * partition.block_with_halo * slice_states * mdp.n_actions
        )
    widest_array = -(
        -largest_intermediate(mdp.dynamics) * partition.block_with_halo // partition.length
    )
    return arrays | {
        "values": 8
        * slice_states
        * (partition.padded_length + partition.halo_below + partition.halo_above),
        "a slab, its backup and its policy": 20 * slice_states * partition.block_with_halo,
        "in between": 16 * widest_array,
    }


def _count_window_bytes(dynamics: Staged, partition: Partition, factors: bool = False) -> int:
    """Bytes of the arrays of a block and its halo, with rewards as factors or as their sums."""
    total = 0
    for stage in block_stages(dynamics, partition, 0):
        for array in stage.arrays().values():
            as_factors = factors and isinstance(array, ExpectedReward)
            total += array.probs.nbytes + array.reward.nbytes if as_factors else array.nbytes
    return total


def _count_array_bytes(mdp: MDP, name: str, method: Method | None, count: int) -> dict[str, int]:
    """Bytes by what they hold on each of ``count`` devices."""
    n = mdp.n_states
    widest_array = max(mdp.n_states, largest_intermediate(mdp.dynamics))
    own_bytes = model_bytes(mdp.dynamics)
    table = _find_table(mdp, method, count)
    partition = _choose_shards(mdp, count)
    if partition is not None:
        assert isinstance(mdp.dynamics, Staged)
        own_bytes = _count_window_bytes(mdp.dynamics, partition)
        n = n * partition.block_length // partition.length
        widest_array = -(-widest_array * partition.block_with_halo // partition.length)
    arrays = {"the model's own": own_bytes}
    if table is not None:
        arrays["its table"] = model_bytes(table)
        widest_array = mdp.n_states
    if mdp.feasible is not None:
        arrays["feasible actions"] = n * mdp.n_actions
    arrays |= {
        "a point and its backup": 16 * n,
        "the next point and its backup": 16 * n,
        "their policies": 8 * n,
        "in between": 16 * widest_array,
    }
    single = {"in single precision": 4 * n * 3 + own_bytes // 2}
    if name == "MixedPrecision":
        return arrays | single
    if method is not None and not method.linear:
        return arrays
    arrays["linear systems"] = 24 * n
    engine = _engine_of_average(mdp)
    if engine is None:
        return arrays
    arrays["coarse nodes"] = bytes_of_correction(engine.coarse_axes)
    return arrays if engine.is_numpy else arrays | single


def _engine_of_average(mdp: MDP) -> Engine | None:
    """The engine of a large average, whose linear systems get a coarse correction; else None."""
    if not isinstance(mdp.criterion, Average):  # and no JAX is loaded
        return None
    from tessella.solvers.loop import Engine

    engine = Engine(mdp, None)
    return engine if engine.needs_coarse_correction else None


def _choose_shards(mdp: MDP, count: int) -> Partition | None:
    """How a model is cut among devices; None on one. One that cannot be cut is refused."""
    if count == 1:
        return None
    from tessella.mdp.stages.sharded import require_partition

    return require_partition(mdp.dynamics, count)


def _find_table(mdp: MDP, method: Method | None, count: int) -> Tabular | None:
    """The table that a small model of stages is solved as, by NumPy; None where it is not."""
    traced = method is not None and method.traced
    if traced or count > 1 or not isinstance(mdp.dynamics, Staged) or not mdp.dynamics.uses_rows:
        return None
    return mdp.dynamics.rows


def _bound_sweeps(mdp: MDP, tol: float | None) -> int | None:
    if isinstance(mdp.dynamics, Timed):
        return len(mdp.dynamics.periods)
    if not isinstance(mdp.criterion, Discounted):
        return None
    scale = mdp.dynamics.reward_scale
    discount = mdp.discount
    if scale == 0 or discount == 0:
        return 1
    target = tol or DEFAULT_RELATIVE_TOLERANCE * mdp.criterion.value_of_constant_reward(scale)
    # By logarithms: of a huge scale and a tiny tolerance the quotient would vanish.
    log_ratio = (
        math.log(target)
        + 2 * math.log(mdp.criterion.equivalent_constant_reward(1.0))
        - math.log(scale)
    )
    return max(math.ceil(log_ratio / math.log(discount)), 1)


def find_available_memory(states: int) -> int:
    """Bytes of memory that there are: of the accelerator for so many states, or of the host."""
    stats = _device_memory() if states >= ACCELERATOR_MIN_STATES else {}
    if "bytes_limit" in stats:
        return int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0))
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        lines = (line.split() for line in meminfo.read_text().splitlines())
        free = next(
            (int(kilobytes) for name, kilobytes, *_ in lines if name == "MemAvailable:"), None
        )
        if free is not None:
            return 1024 * free
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _device_memory() -> Mapping[str, int]:
    import jax

    device = jax.devices()[0]
    return {} if device.platform == "cpu" else device.memory_stats() or {}


def measure_sweep_seconds(
    mdp: MDP,
    device_list: Sequence[Any] = (),
    partition: Partition | None = None,
    traced: bool = False,
) -> float:
    """Seconds of one plain sweep of this model, after compiling, on these devices or in blocks."""
    from tessella.solvers.in_place import build_in_place_sweep
    from tessella.solvers.loop import Engine, run_sweeps

    engine = Engine(mdp, None, traced=traced, devices=() if partition else device_list)
    sweep = (
        partial(run_sweeps, engine)
        if partition is None
        else build_in_place_sweep(engine, partition)
    )
    sweep(1)
    started = time.perf_counter()
    sweep(TIMED_SWEEPS)
    return (time.perf_counter() - started) / TIMED_SWEEPS


def format_bytes(count: float) -> str:
    """``1.2 GB``."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"
