"""Two perishable products with substitution, as Hendrix et al. (2019) state them, at any size.

    python benchmarks/two_products.py [--life 2] [--order 15] [--order-b 15] [--demand 5 5]
                                      [--max-demand 24] [--tol 1e-4] [--sweep]

With m days of life and orders up to Q there are (Q + 1)^(2 m) states and (Q + 1)^2 actions: life 2
and orders up to 10 is the case with a published gain, life 3 and orders up to 15 the largest that
was published (16,777,216 states, 256 actions; viso_jax). Plain value iteration, through ``solve``:
a policy's own sweep costs as much here as one over all actions, since the order arrives last. It
stops when the gain lies in an interval of half width ``tol``, from the least to the largest change
of a sweep, rounding included. Seconds are those of the wall; --sweep also solves a second time,
with everything compiled, and prints the seconds of a sweep.
"""

from __future__ import annotations

import argparse
import resource
import time

import tessella as ts

PUBLISHED = {  # life, largest orders, mean demands: gain, as viso_jax's tests have it
    (2, 10, 10, 5.0, 5.0): 4.503,
    (2, 14, 6, 7.0, 3.0): 4.523,
}


def describe_peak_memory() -> str:
    """Peak memory so far, of the device if there is one."""
    import jax

    stats = jax.devices()[0].memory_stats() or {}
    if "peak_bytes_in_use" in stats:
        return f"{stats['peak_bytes_in_use'] / 2**30:.2f} GiB of the device"
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB of the host"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--life", type=int, default=2)
    parser.add_argument("--order", type=int, default=15)
    parser.add_argument("--order-b", type=int, default=None, help="as --order by default")
    parser.add_argument("--demand", nargs=2, type=float, default=[5.0, 5.0], metavar=("A", "B"))
    parser.add_argument("--max-demand", type=int, default=24)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--sweep", action="store_true")
    options = parser.parse_args()
    order_b = options.order if options.order_b is None else options.order_b
    start = time.perf_counter()
    mdp = ts.problem("two_products").build(
        life=options.life,
        max_order_a=options.order,
        max_order_b=order_b,
        demand_a=options.demand[0],
        demand_b=options.demand[1],
        max_demand=options.max_demand,
    )
    build_seconds = time.perf_counter() - start
    method = ts.ValueIteration(options.tol)
    start = time.perf_counter()
    solution = ts.solve(mdp, method)
    seconds = time.perf_counter() - start
    sweeps = len(solution.history)
    print(f"states {mdp.n_states:,}, actions {mdp.n_actions}, sweeps {sweeps}")
    print(f"built in {build_seconds:.2f} s, solved in {seconds:.2f} s, compiling included")
    print(
        f"gain {solution.gain:.9f}, bound {solution.error_bound:.2g}, "
        f"memory {describe_peak_memory()}"
    )
    published = PUBLISHED.get((options.life, options.order, order_b, *options.demand))
    if published is not None:
        print(f"published {published}; ours rounds to {solution.gain:.3f}")
    if options.sweep:
        start = time.perf_counter()
        ts.solve(mdp, method)
        second_seconds = time.perf_counter() - start
        print(
            f"solved again in {second_seconds:.2f} s, "
            f"{second_seconds / (sweeps + 2):.3f} s a pass over all orders"
        )


if __name__ == "__main__":
    main()
