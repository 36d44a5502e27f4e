"""plan(mdp) -> Plan: what a solve will need, before it starts.

Memory is counted array by array, from the sizes of the grid and of the model's own arrays. Plain
sweeps from zero are k at most, where

    discount^k scale / (1 - discount)^2 <= tol,

with ``scale`` the size of a reward: the residual of 0 is at most that, and every sweep cuts it. The
methods of ``solve`` take fewer, or sweeps of a policy, which cost less. Seconds are those of a few
sweeps, run once, times that number. Counted and timed is the solve that would run: on the table of
a small model, in slabs where values are swept in place, and on several devices what each of them
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
from tessella.errors import expect
from tessella.mdp.dynamics import Plain
from tessella.mdp.model import MDP
from tessella.mdp.stages.reward import ExpectedReward
from tessella.mdp.stages.staged import Staged
from tessella.mdp.stages.windows import Cut, stages_of
from tessella.mdp.tabular.tabular import Tabular
from tessella.mdp.timed import Timed
from tessella.mdp.told import bytes_of, widest
from tessella.solvers.coarse import bytes_of_correction
from tessella.solvers.devices import devices_for
from tessella.solvers.method import Method, checked_tol, refuse_other
from tessella.solvers.mixed_precision import LARGE, pays_off

if TYPE_CHECKING:
    from tessella.solvers.driver import Engine

RELATIVE = 1e-12  # of the largest value: what a solve aims at without a tolerance
TRIED = 3  # sweeps that are timed


@dataclass(frozen=True)
class Plan:
    """What a solve of a model will need.

    Attributes:
        states: of the model.
        method: the one that was given, or that ``solve`` takes by itself.
        arrays: bytes by what they hold, all at once at the worst moment; of each device.
        available: bytes that there are, on the device or on the host.
        sweeps: plain sweeps at most; None where none can be told before.
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
        held = f"takes {in_bytes(self.memory)} of {in_bytes(self.available)} of memory"
        held += f" on each of {self.devices} devices" if self.devices > 1 else ""
        if not self.fits:
            held = f"{held} and does not fit (about {self.largest:,} states would)"
        return f"A solve {held}; {self._sweeps}."

    @property
    def _sweeps(self) -> str:
        if self.sweeps is None:
            return "how many sweeps it takes depends on how fast the model mixes"
        return f"at most about {self.sweeps:,} sweeps"

    def __str__(self) -> str:
        width = max(map(len, self.arrays))
        lines = [f"{self.states:,} states, by {self.method}"]
        lines += [f"  {name:<{width}}  {in_bytes(size):>8}" for name, size in self.arrays.items()]
        lines += [self.short]
        if self.sweep_seconds is not None:
            lines += [f"A sweep takes {self.sweep_seconds:.2g} s."]
        if self.seconds is not None:
            more = ", and compiling some more" if self.compiled else ""
            lines += [f"All of it takes at most about {self.seconds:.2g} s{more}."]
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
    expect("plan", mdp, MDP)
    if method is not None:
        refuse_other(method, tol)
        method.check_supports(mdp)
    tol = checked_tol(tol) if method is None else method.tolerance(mdp)
    shared, cut = devices_for(mdp, devices), _cut(mdp, method)
    count = max(len(shared), 1)
    name = _method(mdp) if method is None else method.name
    arrays = _in_slabs(mdp, cut) if cut else _arrays(mdp, name, method, count)
    there = available(mdp.n_states) // _sharing(shared)
    made = Plan(mdp.n_states, name, arrays, there, _sweeps(mdp, tol), devices=count)
    if not calibrate or not made.fits or isinstance(mdp.dynamics, Timed):
        return made
    traced = method is not None and method.traced
    compiled = bool(shared or cut or traced) or not isinstance(mdp.dynamics.lowered.program, Plain)
    return replace(made, sweep_seconds=sweep_seconds(mdp, shared, cut, traced), compiled=compiled)


def _method(mdp: MDP) -> str:
    """The name of the method that ``solve`` takes, found without loading JAX for small models."""
    if isinstance(mdp.dynamics, Timed):
        return "BackwardInduction"
    return "MixedPrecision" if pays_off(mdp) else "InexactPolicyIteration"


def _cut(mdp: MDP, method: Method | None) -> Cut | None:
    """How a model that is swept in place is cut into slabs; None where it is not."""
    if method is None:
        return None
    from tessella.solvers.in_place import InPlace
    from tessella.solvers.slabs import cut_into_slabs

    if not isinstance(method, InPlace):
        return None
    return cut_into_slabs(mdp, method.states)


def _sharing(shared: Sequence[Any]) -> int:
    """How many devices have one memory: those that a processor was made into, all of them."""
    return len(shared) if shared and shared[0].platform == "cpu" else 1


def _in_slabs(mdp: MDP, cut: Cut) -> dict[str, int]:
    """Bytes by what they hold where values are swept in place."""
    assert isinstance(mdp.dynamics, Staged)
    along = math.prod(mdp.grid.shape) // cut.length  # states of one place of the axis
    slabs = -(-cut.length // cut.rows)
    arrays = {"the model's own, in slabs": slabs * _of_window(mdp.dynamics, cut, factors=True)}
    if mdp.feasible is not None:
        arrays["feasible actions"] = slabs * cut.window * along * mdp.n_actions
    wide = -(-widest(mdp.dynamics) * cut.window // cut.length)
    return arrays | {
        "values": 8 * along * (cut.padded + cut.below + cut.above),
        "a slab, its backup and its policy": 20 * along * cut.window,
        "in between": 16 * wide,
    }


def _of_window(dynamics: Staged, cut: Cut, factors: bool = False) -> int:
    """Bytes of the arrays of one window, with expected rewards as factors or as their sums."""
    total = 0
    for stage in stages_of(dynamics, cut, 0):
        for array in stage.arrays().values():
            kept = factors and isinstance(array, ExpectedReward)
            total += array.probs.nbytes + array.reward.nbytes if kept else array.nbytes
    return total


def _arrays(mdp: MDP, name: str, method: Method | None, count: int) -> dict[str, int]:
    """Bytes by what they hold on each of ``count`` devices."""
    n, wide, own = mdp.n_states, max(mdp.n_states, widest(mdp.dynamics)), bytes_of(mdp.dynamics)
    table, parts = _table(mdp, method, count), _parts(mdp, count)
    if parts is not None:
        assert isinstance(mdp.dynamics, Staged)
        own, n = _of_window(mdp.dynamics, parts), n * parts.rows // parts.length
        wide = -(-wide * parts.window // parts.length)
    arrays = {"the model's own": own}
    if table is not None:
        arrays["its table"], wide = bytes_of(table), mdp.n_states
    if mdp.feasible is not None:
        arrays["feasible actions"] = n * mdp.n_actions
    arrays |= {
        "a point and its backup": 16 * n,
        "the next point and its backup": 16 * n,
        "their policies": 8 * n,
        "in between": 16 * wide,
    }
    single = {"in single precision": 4 * n * 3 + own // 2}
    if name == "MixedPrecision":
        return arrays | single
    if method is not None and not method.linear:
        return arrays
    arrays["linear systems"] = 24 * n
    engine = _engine_of_average(mdp)
    if engine is None:
        return arrays
    arrays["coarse nodes"] = bytes_of_correction(engine.cuts)
    return arrays if engine.plain else arrays | single


def _engine_of_average(mdp: MDP) -> Engine | None:
    """The engine of a large average, whose linear systems get a coarse correction; else None."""
    if not isinstance(mdp.criterion, Average):  # and no JAX is loaded
        return None
    from tessella.solvers.driver import Engine

    engine = Engine(mdp, None)
    return engine if engine.widely_averaged else None


def _parts(mdp: MDP, count: int) -> Cut | None:
    """How a model is cut among devices; None on one. One that cannot be cut is refused."""
    if count == 1:
        return None
    from tessella.mdp.stages.sharded import parts_of

    return parts_of(mdp.dynamics, count)


def _table(mdp: MDP, method: Method | None, count: int) -> Tabular | None:
    """The table that a small model of stages is solved as, by NumPy; None where it is not."""
    traced = method is not None and method.traced
    if traced or count > 1 or not isinstance(mdp.dynamics, Staged) or not mdp.dynamics.small:
        return None
    return mdp.dynamics.table


def _sweeps(mdp: MDP, tol: float | None) -> int | None:
    if isinstance(mdp.dynamics, Timed):
        return len(mdp.dynamics.periods)
    if not isinstance(mdp.criterion, Discounted):
        return None
    scale, discount = mdp.dynamics.reward_scale, mdp.discount
    if scale == 0 or discount == 0:
        return 1
    wanted = tol or RELATIVE * mdp.criterion.forever(scale)
    # By logarithms: of a huge scale and a tiny tolerance the quotient would vanish.
    left = math.log(wanted) + 2 * math.log(mdp.criterion.per_period(1.0)) - math.log(scale)
    return max(math.ceil(left / math.log(discount)), 1)


def available(states: int) -> int:
    """Bytes of memory that there are: of the accelerator for so many states, or of the host."""
    stats = _device_memory() if states >= LARGE else {}
    if "bytes_limit" in stats:
        return int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0))
    told = Path("/proc/meminfo")
    if told.exists():
        lines = (line.split() for line in told.read_text().splitlines())
        free = next((int(kilo) for name, kilo, *_ in lines if name == "MemAvailable:"), None)
        if free is not None:
            return 1024 * free
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _device_memory() -> Mapping[str, int]:
    import jax

    device = jax.devices()[0]
    return {} if device.platform == "cpu" else device.memory_stats() or {}


def sweep_seconds(
    mdp: MDP, shared: Sequence[Any] = (), cut: Cut | None = None, traced: bool = False
) -> float:
    """Seconds of one plain sweep of this model, after compiling, on these devices or in slabs."""
    from tessella.solvers.driver import Engine, swept
    from tessella.solvers.in_place import swept_in_place

    engine = Engine(mdp, None, traced=traced, devices=() if cut else shared)
    sweep = partial(swept, engine) if cut is None else swept_in_place(engine, cut)
    sweep(1)
    began = time.perf_counter()
    sweep(TRIED)
    return (time.perf_counter() - began) / TRIED


def in_bytes(count: float) -> str:
    """``1.2 GB``."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"
