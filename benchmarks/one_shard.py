"""What being cut costs: a sweep of the program for several devices, on one, beside the usual."""

from __future__ import annotations

import sys
import time

import jax
import jax.numpy as jnp
from billion import build

from tessella.mdp.compilation import in_float64
from tessella.mdp.stages.partition import Partition
from tessella.mdp.stages.sharded import build_sharded_backend
from tessella.solvers.execution_plan import make_plan
from tessella.solvers.operators import Operators
from tessella.solvers.prepared_model import PreparedModel

SWEEPS = 20


@in_float64
def main() -> None:
    mdp = build(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000_000)
    plan = make_plan(mdp, representation="stages")
    prepared = PreparedModel(plan)
    shape = mdp.grid.shape
    reach = mdp.dynamics.max_displacement(0)  # type: ignore[attr-defined]
    cut = Partition(0, shape[0], 1, *reach)
    tiles = plan.choose_block_tiles(cut)
    shard = build_sharded_backend(mdp.dynamics, cut, jax.devices()[:1], tiles)  # type: ignore[arg-type]
    found = []
    for model in (prepared.backend_model, shard):
        data = prepared.build_data(model.arrays, None)
        work = jax.jit(
            lambda data, v, program=model.backend: Operators(program, data).iterate_bellman(
                v, SWEEPS
            )
        )
        v = jnp.ones(shape)
        out = jax.block_until_ready(work(data, v))
        began = time.perf_counter()
        jax.block_until_ready(work(data, v))
        found.append(((time.perf_counter() - began) / SWEEPS, out))
    apart = float(jnp.abs(found[0][1] - found[1][1]).max())
    print(
        f"{mdp.n_states:,} states: {1e3 * found[0][0]:.2f} ms a sweep, {1e3 * found[1][0]:.2f} ms "
        f"as one shard; values differ by {apart:.1e}"
    )


if __name__ == "__main__":
    main()
