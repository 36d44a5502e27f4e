"""More states than a device holds six arrays of: value iteration in place, block by block.

    python benchmarks/in_place.py STOCK REGIMES [STATES OF A SLAB]

Values, residuals and bounds are in double precision. At sampled states the Bellman residual is
computed again in plain NumPy.
"""

from __future__ import annotations

import sys
import time

import jax
from billion import TOLERANCE, compute_residual

import tessella as ts


def main() -> None:
    stock, regimes, *states = map(int, sys.argv[1:])
    start = time.perf_counter()
    slope = 0.36 * 24 / (regimes - 1)
    mdp = ts.inventory(max_stock=stock - 1, max_regime=regimes - 1, demand_slope=slope)
    build_end = time.perf_counter()
    print(f"{mdp.n_states:,} states, built in {build_end - start:.1f} s", flush=True)
    solution = ts.solve(mdp, ts.InPlace(TOLERANCE, block_states=states[0] if states else 1 << 26))
    seconds = time.perf_counter() - build_end
    peak = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0) / 1e9
    print(solution)
    print(f"{seconds:.1f} s, {1e3 * seconds / solution.sweeps:.0f} ms a sweep, peak {peak:.1f} GB")
    print(f"sampled residual {compute_residual(mdp, solution):.1e}")


if __name__ == "__main__":
    main()
