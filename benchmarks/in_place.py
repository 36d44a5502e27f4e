"""More states than a device holds six arrays of: value iteration in place, block by block.

    python benchmarks/in_place.py STOCK REGIMES [STATES OF A SLAB]

Values, residuals and bounds are in double precision. At sampled states the Bellman residual is
worked out again in plain NumPy.
"""

from __future__ import annotations

import sys
import time

import jax
from billion import TOL, residual

import tessella as ts


def main() -> None:
    stock, regimes, *states = map(int, sys.argv[1:])
    began = time.perf_counter()
    slope = 0.36 * 24 / (regimes - 1)
    mdp = ts.inventory(max_stock=stock - 1, max_regime=regimes - 1, demand_slope=slope)
    built = time.perf_counter()
    print(f"{mdp.n_states:,} states, built in {built - began:.1f} s", flush=True)
    solution = ts.solve(mdp, ts.InPlace(TOL, block_states=states[0] if states else 1 << 26))
    spent = time.perf_counter() - built
    peak = (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0) / 1e9
    print(solution)
    print(f"{spent:.1f} s, {1e3 * spent / solution.sweeps:.0f} ms a sweep, peak {peak:.1f} GB")
    print(f"sampled residual {residual(mdp, solution):.1e}")


if __name__ == "__main__":
    main()
