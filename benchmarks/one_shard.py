"""The cost of sharding: a sweep of the program for several devices, run on one device."""

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
    partition = Partition(0, shape[0], 1, *reach)
    tiles = plan.choose_block_tiles(partition)
    shard = build_sharded_backend(mdp.dynamics, partition, jax.devices()[:1], tiles)  # type: ignore[arg-type]
    results = []
    for model in (prepared.backend_model, shard):
        data = prepared.build_data(model.arrays, None)
        sweep = jax.jit(
            lambda data, v, program=model.backend: Operators(program, data).iterate_bellman(
                v, SWEEPS
            )
        )
        v = jnp.ones(shape)
        out = jax.block_until_ready(sweep(data, v))
        start = time.perf_counter()
        jax.block_until_ready(sweep(data, v))
        results.append(((time.perf_counter() - start) / SWEEPS, out))
    difference = float(jnp.abs(results[0][1] - results[1][1]).max())
    print(
        f"{mdp.n_states:,} states: {1e3 * results[0][0]:.2f} ms a sweep, "
        f"{1e3 * results[1][0]:.2f} ms "
        f"as one shard; values differ by {difference:.1e}"
    )


if __name__ == "__main__":
    main()
