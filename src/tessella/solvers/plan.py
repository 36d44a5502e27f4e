"""plan(mdp) -> ExecutionPlan: how a model will be solved, and what that needs.

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
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

from tessella.errors import ArgumentError, counted, is_positive
from tessella.mdp.describe import count_largest_intermediate, count_model_bytes
from tessella.mdp.model import MDP
from tessella.mdp.stages.partition import Partition, partition_among_devices, partition_by_size
from tessella.mdp.stages.stage import ExpectedReward
from tessella.mdp.stages.staged import Staged
from tessella.solvers.execution_plan import ExecutionPlan, make_plan
from tessella.solvers.method import Method
from tessella.solvers.multigrid import count_correction_bytes, count_factorising_bytes
from tessella.solvers.operators import DEFAULT_RELATIVE_TOLERANCE
from tessella.support.text import format_bytes

TIMED_SWEEPS = 3  # sweeps that are timed


@dataclass(frozen=True)
class CostEstimate:
    """What a solve of a model will need.

    Attributes:
        states: of the model.
        arrays: bytes by what they hold, all at once at the worst moment; of each device.
        available: bytes that there are, on the device or on the host.
        sweeps: plain sweeps at most; None where that is not known before.
        sweep_seconds: of one of them; None where none was timed.
        compiled: whether code is compiled first, for a new shape.
        devices: that share the model.
    """

    states: int
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
    def max_states(self) -> int:
        """States of a model like this that would fit, about."""
        return int(self.states * self.available / self.memory)

    @property
    def seconds(self) -> float | None:
        """At most about this, compiling not counted; None where nothing is known."""
        if self.sweeps is None or self.sweep_seconds is None:
            return None
        return self.sweeps * self.sweep_seconds

    @property
    def sentence(self) -> str:
        """In a sentence, about a solve."""
        needed, available = format_bytes(self.memory), format_bytes(self.available)
        memory_text = f"takes {needed} of {available} of memory"
        memory_text += f" on each of {self.devices} devices" if self.devices > 1 else ""
        if not self.fits:
            memory_text += f" and does not fit (about {self.max_states:,} states would)"
        sweeps_text = "how many sweeps it takes depends on how fast the model mixes"
        if self.sweeps is not None:
            sweeps_text = f"at most about {counted(self.sweeps, 'sweep')}"
        return f"A solve {memory_text}; {sweeps_text}."

    @property
    def summary(self) -> str:
        """Memory and sweeps in a line, and where sweeps were timed the time in another."""
        if self.sweep_seconds is None:
            return self.sentence
        time_text = f"A sweep takes {self.sweep_seconds:.2g} s."
        if self.seconds is not None:
            compile_text = ", and compiling some more" if self.compiled else ""
            time_text += f" All of it takes at most about {self.seconds:.2g} s{compile_text}."
        return f"{self.sentence}\n{time_text}"

    def __str__(self) -> str:
        width = max(map(len, self.arrays))
        lines = [
            f"  {name:<{width}}  {format_bytes(size):>8}" for name, size in self.arrays.items()
        ]
        return "\n".join([*lines, self.summary])


def plan(
    mdp: MDP,
    method: Method | None = None,
    *,
    tol: float | None = None,
    devices: int | None = None,
    calibrate: bool = True,
    memory: int | None = None,
) -> ExecutionPlan:
    """The plan that ``solve`` would follow for the same arguments, and what it needs.

    Args:
        mdp: the model.
        method, tol, devices: as in ``solve``.
        calibrate: compile and time a few sweeps, where the model fits.
        memory: available bytes; by default what is free on the device or the host.

    Returns:
        The plan; ``print`` shows each choice with its reason, and ``cost`` what a solve needs.

    Raises:
        ArgumentError: the method or the devices do not fit the model.

    Example:
        >>> plan = ts.plan(ts.benchmark("INV-Mix"), calibrate=False)
        >>> plan.representation, plan.backend
        ('rows', 'numpy')
    """
    chosen = make_plan(mdp, method, tol=tol, devices=devices)
    return replace(chosen, cost=estimate_cost(chosen, calibrate, memory))


def estimate_cost(
    plan: ExecutionPlan, calibrate: bool = True, memory: int | None = None
) -> CostEstimate:
    """Memory by array, sweeps and time of a solve by this plan."""
    mdp = plan.mdp
    block_states = plan.method.states_per_block
    partition = None if block_states is None else partition_by_size(mdp.dynamics, block_states)
    arrays = _count_array_bytes(plan) if partition is None else _count_block_bytes(mdp, partition)
    if memory is not None and not is_positive(memory):
        raise ArgumentError("memory must be a number of bytes", value=f"got {memory!r:.60}")
    if memory is None:
        memory = find_available_memory(plan)
    estimate = CostEstimate(
        mdp.n_states,
        arrays,
        memory,
        _bound_sweeps(mdp, plan.method.tolerance(mdp)),
        compiled=partition is not None or plan.backend == "jax",
        devices=max(len(plan.devices), 1),
    )
    if not calibrate or not estimate.fits or mdp.dynamics.n_periods is not None:
        return estimate
    return replace(estimate, sweep_seconds=measure_sweep_seconds(plan, partition))


def _count_block_bytes(mdp: MDP, partition: Partition) -> dict[str, int]:
    """Bytes by what they hold where values are swept in place."""
    dynamics = cast(Staged, mdp.dynamics)
    slice_states = math.prod(mdp.grid.shape) // partition.length  # states of one place of the axis
    n_blocks = len(partition.blocks)
    window_bytes = _count_window_bytes(dynamics, partition, keeps_factors=True)
    window_states = slice_states * partition.block_with_halo
    value_length = partition.padded_length + partition.halo_below + partition.halo_above
    arrays = {"the model's own, in blocks": n_blocks * window_bytes}
    if mdp.feasible is not None:
        arrays["feasible actions"] = n_blocks * window_states * mdp.n_actions
    return arrays | {
        "values": 8 * slice_states * value_length,
        "a block, its backup and its policy": 20 * window_states,
        "in between": 16 * _scale_to_window(count_largest_intermediate(dynamics), partition),
    }


def _scale_to_window(count: int, partition: Partition) -> int:
    """The share of that many numbers over the grid that a block has with its halo, rounded up."""
    return -(-count * partition.block_with_halo // partition.length)


def _count_window_bytes(dynamics: Staged, partition: Partition, keeps_factors: bool = False) -> int:
    """Bytes of the arrays of a block and its halo, with rewards as factors or as their sums."""
    total = 0
    for stage in partition.blocks[0].stages(dynamics):
        for array in stage.arrays().values():
            as_factors = keeps_factors and isinstance(array, ExpectedReward)
            total += array.probs.nbytes + array.reward.nbytes if as_factors else array.nbytes
    return total


def _count_array_bytes(plan: ExecutionPlan) -> dict[str, int]:
    """Bytes by what they hold on each device."""
    mdp = plan.mdp
    n = mdp.n_states
    widest_array = max(n, count_largest_intermediate(mdp.dynamics))
    model_array_bytes = count_model_bytes(mdp.dynamics)
    if plan.devices:  # a model that cannot be cut among them is rejected
        partition = partition_among_devices(mdp.dynamics, len(plan.devices))
        model_array_bytes = _count_window_bytes(cast(Staged, mdp.dynamics), partition)
        n = n * partition.block_length // partition.length
        widest_array = _scale_to_window(widest_array, partition)
    arrays = {"the model's own": model_array_bytes}
    if plan.dynamics is not mdp.dynamics:
        arrays["its rows"] = count_model_bytes(plan.dynamics)
        widest_array = mdp.n_states
    if mdp.feasible is not None:
        arrays["feasible actions"] = n * mdp.n_actions
    arrays |= {
        "a point and its backup": 16 * n,
        "the next point and its backup": 16 * n,
        "their policies": 8 * n,
        "in between": 16 * widest_array,
    }
    if plan.method.uses_single_precision:
        arrays["in single precision"] = 4 * n * 3 + model_array_bytes // 2
    uses_coarse_grid = plan.preconditioner == "coarse" and (
        plan.method.solves_linear_systems or plan.method.uses_single_precision
    )
    if plan.method.solves_linear_systems:
        arrays["linear systems"] = 24 * n
    elif uses_coarse_grid:
        arrays["linear systems"] = 40 * n  # ten arrays in single precision
    if uses_coarse_grid:
        arrays |= _count_coarse_bytes(plan)
    return arrays


def _count_coarse_bytes(plan: ExecutionPlan) -> dict[str, int]:
    """Bytes of a coarse correction, and of what an accelerator needs to factorise it."""
    from tessella.solvers.prepared_model import PreparedModel

    prepared = PreparedModel(plan)
    axes = prepared.coarse_axes
    inverse_rows = prepared.coarse_limits.inverse_rows
    arrays = {
        "coarse nodes": count_correction_bytes(axes, plan.mdp.criterion.has_gain, inverse_rows)
    }
    if prepared.stays_on_device:
        arrays["to factorise them"] = count_factorising_bytes(axes)
    return arrays


def _bound_sweeps(mdp: MDP, tol: float | None) -> int | None:
    if mdp.dynamics.n_periods is not None:
        return mdp.dynamics.n_periods
    if not mdp.criterion.is_discounted:
        return None
    scale = mdp.dynamics.reward_scale
    discount = mdp.discount
    if scale == 0 or discount == 0:
        return 1
    target = tol or DEFAULT_RELATIVE_TOLERANCE * mdp.criterion.value_of_constant_reward(scale)
    # By logarithms: of a huge scale and a tiny tolerance the quotient would vanish.
    log_gap = math.log(mdp.criterion.equivalent_constant_reward(1.0))
    log_ratio = math.log(target) + 2 * log_gap - math.log(scale)
    return max(math.ceil(log_ratio / math.log(discount)), 1)


def find_available_memory(plan: ExecutionPlan) -> int:
    """Bytes of memory that each device has: an accelerator that JAX runs on, or the host.

    Devices that a processor was made into share its memory.
    """
    if plan.backend == "jax":
        import jax

        device = jax.devices()[0]
        stats = {} if device.platform == "cpu" else device.memory_stats() or {}
        if "bytes_limit" in stats:
            return int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0))
    n_sharing = len([device for device in plan.devices if device.platform == "cpu"])
    return _find_host_memory() // max(n_sharing, 1)


def _find_host_memory() -> int:
    """Bytes that are free, or where the system does not say that, all there are."""
    meminfo = Path("/proc/meminfo")
    lines = meminfo.read_text().splitlines() if meminfo.exists() else []
    free = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    return 1024 * free[0] if free else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def measure_sweep_seconds(plan: ExecutionPlan, partition: Partition | None = None) -> float:
    """Seconds of one plain sweep by this plan, after compiling; in blocks of a partition."""
    import jax

    from tessella.mdp.compilation import in_float64
    from tessella.solvers.blocks import InPlaceSweeper
    from tessella.solvers.iteration import run_sweeps
    from tessella.solvers.prepared_model import PreparedModel

    prepared = PreparedModel(plan)
    sweep = partial(run_sweeps, prepared)
    if partition is not None:
        sweep = in_float64(InPlaceSweeper)(prepared, partition).sweep
    jax.block_until_ready(sweep(1))
    started = time.perf_counter()
    jax.block_until_ready(sweep(TIMED_SWEEPS))
    return (time.perf_counter() - started) / TIMED_SWEEPS
