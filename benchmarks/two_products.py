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


def memory() -> str:
    """The most that was held so far, on the device where there is one."""
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
    asked = parser.parse_args()
    order_b = asked.order if asked.order_b is None else asked.order_b
    began = time.perf_counter()
    mdp = ts.problem("two_products").build(
        life=asked.life,
        max_order_a=asked.order,
        max_order_b=order_b,
        demand_a=asked.demand[0],
        demand_b=asked.demand[1],
        max_demand=asked.max_demand,
    )
    built = time.perf_counter() - began
    method = ts.ValueIteration(asked.tol)
    began = time.perf_counter()
    solution = ts.solve(mdp, method)
    spent = time.perf_counter() - began
    sweeps = len(solution.history)
    print(f"states {mdp.n_states:,}, actions {mdp.n_actions}, sweeps {sweeps}")
    print(f"built in {built:.2f} s, solved in {spent:.2f} s, compiling included")
    print(f"gain {solution.gain:.9f}, bound {solution.error_bound:.2g}, memory {memory()}")
    known = PUBLISHED.get((asked.life, asked.order, order_b, *asked.demand))
    if known is not None:
        print(f"published {known}; ours rounds to {solution.gain:.3f}")
    if asked.sweep:
        began = time.perf_counter()
        ts.solve(mdp, method)
        again = time.perf_counter() - began
        print(f"solved again in {again:.2f} s, {again / (sweeps + 2):.3f} s a pass over all orders")


if __name__ == "__main__":
    main()
