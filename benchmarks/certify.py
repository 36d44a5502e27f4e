"""What a certificate costs beside the solve that it is based on: time, and memory.

    python benchmarks/certify.py [--stock 1000] [--regime 500]

The defaults make an inventory model of 501,501 states. Each policy is certified in a process of its
own, so that its peak memory is its own: the model is solved once to compile and once for the clock,
and so it is certified. "solve" is such a process that certifies nothing.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import time

import numpy as np

from tessella.certificates.certify import certify
from tessella.problems.inventory import inventory
from tessella.solvers.solve import solve


def base_stock(stock, regime):
    """Order up to what may be sold in two periods, in steps of 4."""
    level = 2 * np.minimum(1.8 + 0.36 * regime, 55)
    return np.clip(np.ceil((level - stock) / 4), 0, 4).astype(int)


def spoiled(solution):
    """One state in fifty decided at random."""
    rng = np.random.default_rng(0)
    table = solution.policy.table.copy()
    spoil = rng.random(table.shape) < 0.02
    table[spoil] = rng.integers(0, solution.mdp.n_actions, spoil.sum())
    return table


POLICIES = {
    "optimal": lambda solution: solution.policy,
    "base stock": lambda solution: solution.mdp.policy(base_stock(*_mesh(solution))),
    "spoiled": spoiled,
}


def _mesh(solution):
    return np.meshgrid(*solution.mdp.grid.values, indexing="ij")


def timed(function, *arguments):
    wall, cpu = time.perf_counter(), time.process_time()
    result = function(*arguments)
    return result, time.perf_counter() - wall, time.process_time() - cpu


def peak() -> float:
    """Gigabytes."""
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 1e9


def run(kind: str, stock: int, regime: int) -> None:
    mdp = inventory(max_stock=stock, max_regime=regime)
    first = timed(solve, mdp)[1]
    solution, wall, cpu = timed(solve, mdp)
    if kind == "solve":
        print(
            f"{kind:12}{first:7.2f} s first{wall:7.2f} s wall{cpu:7.2f} s processor{peak():7.2f} GB"
        )
        return
    policy = POLICIES[kind](solution)
    first = timed(certify, solution, policy)[1]
    c, taken, used = timed(certify, solution, policy)
    print(
        f"{kind:12}{first:7.2f} s first{taken:7.2f} s wall{used:7.2f} s processor{peak():7.2f} GB"
        f"   {taken / wall:5.2f} of the solve ({wall:.2f} s wall, {cpu:.2f} s processor)"
        f"   loss {c.mean_loss!r}, policy error {c.policy_error:.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--stock", type=int, default=1000)
    parser.add_argument("--regime", type=int, default=500)
    given = parser.parse_args()
    print(f"{(given.stock + 1) * (given.regime + 1):,} states", flush=True)
    for kind in ("solve", *POLICIES):
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=run, args=(kind, given.stock, given.regime))
        process.start()
        process.join()
        if process.exitcode:
            sys.exit(f"{kind} failed")


if __name__ == "__main__":
    main()
