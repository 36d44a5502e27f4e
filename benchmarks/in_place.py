"""More states than a device holds six arrays of: value iteration in place, slab by slab.

    python benchmarks/in_place.py STOCK REGIMES [STATES OF A SLAB]

Values, residuals and bounds are in double precision. At sampled states the Bellman residual is
worked out again in plain NumPy.
"""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import jax
import numpy as np

import tessella as ts
from billion import TOL, residual
from tessella.solvers.driver import Engine
from tessella.solvers.in_place import iterate_in_place
from tessella.solvers.slabs import cut_into_slabs


def main() -> None:
    stock, regimes, *states = map(int, sys.argv[1:])
    began = time.perf_counter()
    slope = 0.36 * 24 / (regimes - 1)
    mdp = ts.inventory(max_stock=stock - 1, max_regime=regimes - 1, demand_slope=slope)
    cut = cut_into_slabs(mdp, *states or [1 << 26])
    built = time.perf_counter()
    print(f"{mdp.n_states:,} states, built in {built - began:.1f} s, {cut}", flush=True)
    run, bound, sweeps = iterate_in_place(Engine(mdp, TOL), cut, TOL, 2000)
    jax.block_until_ready(run.value)
    spent = time.perf_counter() - built
    peak = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0) / 1e9
    print(f"{sweeps} sweeps, bound {bound:.1e}, {spent:.1f} s, {1e3 * spent / sweeps:.0f} ms each")

    def part(_, index):
        where = list(index)
        own = where[cut.axis]
        where[cut.axis] = slice(own.start + cut.below, own.stop + cut.below)
        return np.asarray(run.value[tuple(where)])

    found = residual(mdp, SimpleNamespace(part=part))  # type: ignore[arg-type]
    print(f"peak {peak:.1f} GB on the device, sampled residual {found:.1e}")


if __name__ == "__main__":
    main()
