"""A billion states on one accelerator: solve times compared with memory bandwidth.

    python benchmarks/billion.py [100000000 1000000000]

Each size is built and solved twice to a bound of 1e-6: the first time compiles, the second builds
a new model of the same shape. A sweep is timed by itself in both precisions; its floor is one read
and one write of the values, timed on the same device. At sampled states the Bellman residual is
computed again in plain NumPy, from values read back in small windows.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import tessella as ts
from tessella.mdp.compilation import in_float64
from tessella.solvers.execution_plan import make_plan
from tessella.solvers.mixed_precision import to_single_precision
from tessella.solvers.operators import Operators
from tessella.solvers.prepared_model import PreparedModel

TOLERANCE = 1e-6
SIZES = {  # about this many states: stock and regimes, both multiples of 128
    1_000_000: (1024, 1024),
    10_000_000: (3200, 3200),
    100_000_000: (10_240, 10_240),
    1_000_000_000: (31_744, 31_744),
}
PEAK_BYTES_PER_SECOND = {"NVIDIA H200": 4.8e12}  # from the vendor
SWEEPS_PER_TIMING = 20


def build(size: int) -> ts.MDP:
    stock, regimes = SIZES[size]
    slope = 0.36 * 24 / (regimes - 1)  # the same range of demand at every size
    return ts.problem("inventory").build(
        max_stock=stock - 1, max_regime=regimes - 1, demand_slope=slope
    )


def measure_time(function, *args) -> tuple[float, Any]:
    start = time.perf_counter()
    result = jax.block_until_ready(function(*args))
    return time.perf_counter() - start, result


def time_sweeps(mdp: ts.MDP) -> dict[str, float]:
    """Seconds of one sweep of each kind, and of its floor."""
    prepared = PreparedModel(make_plan(mdp, devices=1), TOLERANCE)
    program, data, shape = prepared.backend, prepared.data, mdp.grid.shape

    def iterate(operators, v, _):
        return operators.iterate_bellman(v, SWEEPS_PER_TIMING)

    def follow(operators, v, policy):
        return operators.sum_neumann_series(policy, v, SWEEPS_PER_TIMING - 2)[2]

    def copy(operators, v, _):
        return lax.fori_loop(0, SWEEPS_PER_TIMING, lambda _, v: -v, v)

    seconds = {}
    functions = {"T": iterate, "P_pi": follow, "floor": copy}
    for precision, dtype in (("double", jnp.float64), ("single", jnp.float32)):
        v, policy = jnp.ones(shape, dtype), jnp.zeros(shape, jnp.int32)
        for name, work in functions.items():

            def run(data, v, policy, work=work, precision=precision):
                operators = Operators(program, data)
                operators = to_single_precision(operators) if precision == "single" else operators
                return work(operators, v, policy)

            compiled = jax.jit(run)
            measure_time(compiled, data, v, policy)
            least = min(measure_time(compiled, data, v, policy)[0] for _ in range(2))
            seconds[f"{name} {precision}"] = least / SWEEPS_PER_TIMING
    return seconds


def compute_residual(mdp: ts.MDP, solution: ts.Solution, windows: int = 40) -> float:
    """The largest Bellman residual at sampled states, in plain NumPy."""
    from scipy.stats import poisson

    p = mdp.parameters
    n_stock, n_regimes = mdp.grid.shape
    rng, largest_residual, demand = np.random.default_rng(0), 0.0, np.arange(p["max_demand"] + 1)
    corners = [(0, 0), (0, n_regimes - 1), (n_stock - 1, 0), (n_stock - 1, n_regimes - 1)]
    random_states = np.stack(
        [rng.integers(0, n_stock, windows), rng.integers(0, n_regimes, windows)], 1
    )
    low_stocks = np.stack([rng.integers(0, 64, windows), rng.integers(0, n_regimes, windows)], 1)
    for x, z in [*corners, *random_states.tolist(), *low_stocks.tolist()]:
        x0, x1 = max(x - len(demand), 0), min(x + max(p["orders"]), n_stock - 1) + 1
        z0, z1 = max(z - 1, 0), min(z + 1, n_regimes - 1) + 1
        value = solution.part("value", np.s_[x0:x1, z0:z1])
        # the regime stays with 1/2 and steps either way with 1/4, stopping at the ends
        expected = (
            value[:, z - z0] / 2 + value[:, max(z - 1, 0) - z0] / 4 + value[:, z1 - 1 - z0] / 4
        )
        u = z / (n_regimes - 1)
        bend = p["strength"] * (0.5 * np.sin(2 * np.pi * u) + 2 * (u - 0.5) ** 2)
        mean = max(p["demand_base"] + p["demand_slope"] * z + bend, 0.05)
        law = poisson.pmf(demand, mean)
        law[-1] = poisson.sf(demand[-1] - 1, mean)
        best = -np.inf
        for order in p["orders"]:
            y = min(x + order, n_stock - 1)
            left, short = np.maximum(y - demand, 0), np.maximum(demand - y, 0)
            cost = p["holding_cost"] * left + p["shortage_cost"] * short
            order_reward = -p["unit_cost"] * order - p["fixed_cost"] * (order > 0)
            best = max(best, order_reward + law @ (p["discount"] * expected[left - x0] - cost))
        largest_residual = max(largest_residual, abs(best - value[x - x0, z - z0]))
    return float(largest_residual)


@in_float64
def measure(size: int) -> tuple[str, list[str]]:
    """A row of the table of solves, and rows of that of sweeps."""
    device = jax.devices()[0]
    mdp = build(size)
    first_seconds, solution = measure_time(lambda: ts.solve(mdp, tol=TOLERANCE))
    del solution, mdp
    build_seconds, mdp = measure_time(build, size)
    plan = make_plan(mdp, tol=TOLERANCE)
    method = plan.method
    solve_seconds, solution = measure_time(lambda: ts.solve(mdp, plan=plan))
    peak = (device.memory_stats() or {}).get("peak_bytes_in_use", 0) / 1e9
    residual, limit = (
        compute_residual(mdp, solution),
        (1 + mdp.discount) * solution.error_bound + 1e-9,
    )
    if residual > limit:
        raise SystemExit(f"a residual of {residual:.2e} at a sampled state; {limit:.2e} at most")
    print(solution, np.array2string(solution.history.bound, precision=1), flush=True)
    n, iterations = mdp.n_states, solution.sweeps
    n_sweeps = iterations
    if isinstance(method, ts.MixedPrecision):
        n_sweeps += method.first_sweeps + (iterations - 1) * (method.correction_terms + 1)
    row = (
        f"| {n:,} | {n_sweeps} | {solution.error_bound:.1e} | "
        f"{build_seconds:.2f} | {first_seconds:.1f} | "
        f"{solve_seconds:.2f} | {peak:.1f} | {residual:.1e} |"
    )
    del solution
    return row, format_sweeps(mdp, device)


def format_sweeps(mdp: ts.MDP, device: Any) -> list[str]:
    seconds, rows = time_sweeps(mdp), []
    for name, sweep_seconds in seconds.items():
        kind, precision = name.split()
        n_bytes = 2 * mdp.n_states * (8 if precision == "double" else 4)
        floor, peak = (
            seconds[f"floor {precision}"],
            PEAK_BYTES_PER_SECOND.get(device.device_kind, np.nan),
        )
        rows.append(
            f"| {mdp.n_states:,} | {kind} | {precision} | "
            f"{1e3 * sweep_seconds:.2f} | {sweep_seconds / floor:.1f} | "
            f"{n_bytes / sweep_seconds / 1e12:.2f} | {n_bytes / sweep_seconds / peak:.0%} |"
        )
    return rows


def main() -> None:
    print(f"JAX {jax.__version__}, {jax.devices()[0].device_kind}")
    rows, sweeps = [], []
    for size in map(int, sys.argv[1:] or SIZES):
        row, of_size = measure(size)
        rows.append(row)
        sweeps += of_size
    print(
        "\n| states | sweeps, at most | bound | build s | first s | solve s "
        "| peak GB | sampled residual |"
    )
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    print("\n".join(rows))
    print("\n| states | sweep | precision | ms | floors | TB/s | of peak |")
    print("| ---: | --- | --- | ---: | ---: | ---: | ---: |")
    print("\n".join(sweeps))


if __name__ == "__main__":
    main()
