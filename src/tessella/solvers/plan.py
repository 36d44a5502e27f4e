"""plan(mdp) -> Plan: what a solve will need, before it starts.

Memory is counted array by array, from the sizes of the grid and of the model's own arrays. Plain
sweeps from zero are k at most, where

    discount^k scale / (1 - discount)^2 <= tol,

with ``scale`` the size of a reward: the residual of 0 is at most that, and every sweep cuts it. The
methods of ``solve`` take fewer, or sweeps of a policy, which cost less. Seconds are those of a few
sweeps, run once, times that number.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tessella.criteria.discounted import Discounted
from tessella.errors import expect
from tessella.mdp.dynamics import Plain
from tessella.mdp.model import MDP
from tessella.mdp.timed import Timed
from tessella.mdp.told import bytes_of, widest
from tessella.solvers.method import checked_tol
from tessella.solvers.mixed_precision import LARGE, pays_off

RELATIVE = 1e-12  # of the largest value: what a solve aims at without a tolerance
TRIED = 3  # sweeps that are timed


@dataclass(frozen=True)
class Plan:
    """What a solve of a model will need.

    Attributes:
        states: of the model.
        method: the one that ``solve`` takes by itself.
        arrays: bytes by what they hold, all at once at the worst moment.
        available: bytes that there are, on the device or on the host.
        sweeps: plain sweeps at most; None where none can be told before.
        sweep_seconds: of one of them; None where none was timed.
        compiled: whether code is compiled first, for a new shape.
    """

    states: int
    method: str
    arrays: Mapping[str, int]
    available: int
    sweeps: int | None
    sweep_seconds: float | None = None
    compiled: bool = True

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


def plan(mdp: MDP, *, tol: float | None = None, calibrate: bool = True) -> Plan:
    """What ``solve(mdp, tol=tol)`` will need: memory by array, sweeps, time.

    ``calibrate`` compiles and times a few sweeps, where the model fits.
    """
    expect("plan", mdp, MDP)
    method, sweeps = _method(mdp), _sweeps(mdp, checked_tol(tol))
    made = Plan(mdp.n_states, method, _arrays(mdp, method), available(mdp.n_states), sweeps)
    if not calibrate or not made.fits or isinstance(mdp.dynamics, Timed):
        return made
    compiled = not isinstance(mdp.dynamics.lowered.program, Plain)
    return replace(made, sweep_seconds=sweep_seconds(mdp), compiled=compiled)


def _method(mdp: MDP) -> str:
    """The name of the method that ``solve`` takes, found without loading JAX for small models."""
    if isinstance(mdp.dynamics, Timed):
        return "BackwardInduction"
    return "MixedPrecision" if pays_off(mdp) else "InexactPolicyIteration"


def _arrays(mdp: MDP, method: str) -> dict[str, int]:
    """Bytes by what they hold."""
    n, wide = mdp.n_states, widest(mdp.dynamics)
    arrays = {"the model's own": bytes_of(mdp.dynamics)}
    if mdp.feasible is not None:
        arrays["feasible actions"] = n * mdp.n_actions
    arrays |= {
        "a point and its backup": 16 * n,
        "the next point and its backup": 16 * n,
        "their policies": 8 * n,
        "in between": 16 * max(n, wide),
    }
    if method == "MixedPrecision":
        single = 4 * n * 3 + bytes_of(mdp.dynamics) // 2
        return arrays | {"in single precision": single}
    return arrays | {"linear systems": 24 * n}


def _sweeps(mdp: MDP, tol: float | None) -> int | None:
    if isinstance(mdp.dynamics, Timed):
        return len(mdp.dynamics.periods)
    if not isinstance(mdp.criterion, Discounted):
        return None
    scale, discount = mdp.dynamics.reward_scale, mdp.discount
    if scale == 0 or discount == 0:
        return 1
    wanted = tol or RELATIVE * mdp.criterion.forever(scale)
    residual = mdp.criterion.per_period(mdp.criterion.per_period(wanted)) / scale
    return max(math.ceil(math.log(residual) / math.log(discount)), 1)


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


def sweep_seconds(mdp: MDP) -> float:
    """Seconds of one plain sweep of this model, compiled."""
    from tessella.solvers.driver import Engine, swept

    engine = Engine(mdp, None)
    swept(engine, 1)
    began = time.perf_counter()
    swept(engine, TRIED)
    return (time.perf_counter() - began) / TRIED


def in_bytes(count: float) -> str:
    """``1.2 GB``."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"
