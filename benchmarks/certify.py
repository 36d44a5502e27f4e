"""Time and memory of a certificate, compared with the solve that it is based on.

    python benchmarks/certify.py [--stock 1000] [--regime 500]

The defaults make an inventory model of 501,501 states. Each policy is certified in its own
process, with its own peak memory. The model is solved once to compile and once to be timed, and
the certificate likewise. "solve" is such a process that certifies nothing.
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


def compute_base_stock(stock, regime):
    """Order up to what may be sold in two periods, in steps of 4."""
    level = 2 * np.minimum(1.8 + 0.36 * regime, 55)
    return np.clip(np.ceil((level - stock) / 4), 0, 4).astype(int)


def perturb_policy(solution):
    """One state in fifty decided at random."""
    rng = np.random.default_rng(0)
    table = solution.policy.table.copy()
    is_changed = rng.random(table.shape) < 0.02
    table[is_changed] = rng.integers(0, solution.mdp.n_actions, is_changed.sum())
    return table


POLICIES = {
    "optimal": lambda solution: solution.policy,
    "base stock": lambda solution: solution.mdp.policy(compute_base_stock(*_make_mesh(solution))),
    "spoiled": perturb_policy,
}


def _make_mesh(solution):
    return np.meshgrid(*solution.mdp.grid.values, indexing="ij")


def measure_time(function, *arguments):
    wall, cpu = time.perf_counter(), time.process_time()
    result = function(*arguments)
    return result, time.perf_counter() - wall, time.process_time() - cpu


def read_peak() -> float:
    """Gigabytes."""
    scale = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 1e9


def run(kind: str, stock: int, regime: int) -> None:
    mdp = inventory(max_stock=stock, max_regime=regime)
    first = measure_time(solve, mdp)[1]
    solution, wall, cpu = measure_time(solve, mdp)
    if kind == "solve":
        print(
            f"{kind:12}{first:7.2f} s first{wall:7.2f} s wall{cpu:7.2f} s processor"
            f"{read_peak():7.2f} GB"
        )
        return
    policy = POLICIES[kind](solution)
    first = measure_time(certify, solution, policy)[1]
    certificate, certify_wall, certify_cpu = measure_time(certify, solution, policy)
    print(
        f"{kind:12}{first:7.2f} s first{certify_wall:7.2f} s wall"
        f"{certify_cpu:7.2f} s processor{read_peak():7.2f} GB"
        f"   {certify_wall / wall:5.2f} of the solve ({wall:.2f} s wall, {cpu:.2f} s processor)"
        f"   loss {certificate.mean_loss!r}, policy error {certificate.policy_error:.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--stock", type=int, default=1000)
    parser.add_argument("--regime", type=int, default=500)
    options = parser.parse_args()
    print(f"{(options.stock + 1) * (options.regime + 1):,} states", flush=True)
    for kind in ("solve", *POLICIES):
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=run, args=(kind, options.stock, options.regime))
        process.start()
        process.join()
        if process.exitcode:
            sys.exit(f"{kind} failed")


if __name__ == "__main__":
    main()
