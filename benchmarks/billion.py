"""A billion states on one accelerator: the inventory model by ``ts.solve``, beside memory's speed.

    python benchmarks/billion.py [100000000 1000000000]

Each size is built and solved twice to a bound of 1e-6: the first time compiles, the second builds
a new model of the same shape. A sweep is timed by itself in both precisions; its floor is one read
and one write of the values, timed on the same device. At sampled states the Bellman residual is
worked out again in plain NumPy, from values read back in small windows.
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

TOL = 1e-6
SIZES = {  # about as many states: stock and regimes, both multiples of 128
    1_000_000: (1024, 1024),
    10_000_000: (3200, 3200),
    100_000_000: (10_240, 10_240),
    1_000_000_000: (31_744, 31_744),
}
PEAK = {"NVIDIA H200": 4.8e12}  # bytes a second, as the vendor states it
REPEATED = 20


def build(size: int) -> ts.MDP:
    stock, regimes = SIZES[size]
    slope = 0.36 * 24 / (regimes - 1)  # the same range of demand at every size
    return ts.problem("inventory").build(
        max_stock=stock - 1, max_regime=regimes - 1, demand_slope=slope
    )


def timed(work, *args) -> tuple[float, Any]:
    began = time.perf_counter()
    done = jax.block_until_ready(work(*args))
    return time.perf_counter() - began, done


def sweep_seconds(mdp: ts.MDP) -> dict[str, float]:
    """Seconds of one sweep of each kind, and of its floor."""
    prepared = PreparedModel(make_plan(mdp, devices=1), TOL)
    program, data, shape = prepared.backend, prepared.data, mdp.grid.shape

    def best(operators, v, _):
        return operators.iterate_bellman(v, REPEATED)

    def followed(operators, v, policy):
        return operators.sum_neumann_series(policy, v, REPEATED - 2)[2]

    def copied(operators, v, _):
        return lax.fori_loop(0, REPEATED, lambda _, v: -v, v)

    found = {}
    works = {"T": best, "P_pi": followed, "floor": copied}
    for precision, dtype in (("double", jnp.float64), ("single", jnp.float32)):
        v, policy = jnp.ones(shape, dtype), jnp.zeros(shape, jnp.int32)
        for name, work in works.items():

            def run(data, v, policy, work=work, precision=precision):
                operators = Operators(program, data)
                operators = to_single_precision(operators) if precision == "single" else operators
                return work(operators, v, policy)

            whole = jax.jit(run)
            timed(whole, data, v, policy)
            best_of = min(timed(whole, data, v, policy)[0] for _ in range(2))
            found[f"{name} {precision}"] = best_of / REPEATED
    return found


def residual(mdp: ts.MDP, solution: ts.Solution, windows: int = 40) -> float:
    """The largest Bellman residual at sampled states, in plain NumPy."""
    from scipy.stats import poisson

    p = mdp.parameters
    n_stock, n_regimes = mdp.grid.shape
    rng, worst, demand = np.random.default_rng(0), 0.0, np.arange(p["max_demand"] + 1)
    corners = [(0, 0), (0, n_regimes - 1), (n_stock - 1, 0), (n_stock - 1, n_regimes - 1)]
    drawn = np.stack([rng.integers(0, n_stock, windows), rng.integers(0, n_regimes, windows)], 1)
    low = np.stack([rng.integers(0, 64, windows), rng.integers(0, n_regimes, windows)], 1)
    for x, z in [*corners, *drawn.tolist(), *low.tolist()]:
        x0, x1 = max(x - len(demand), 0), min(x + max(p["orders"]), n_stock - 1) + 1
        z0, z1 = max(z - 1, 0), min(z + 1, n_regimes - 1) + 1
        value = solution.part("value", np.s_[x0:x1, z0:z1])
        # the regime stays with 1/2 and steps either way with 1/4, stopping at the ends
        walked = value[:, z - z0] / 2 + value[:, max(z - 1, 0) - z0] / 4 + value[:, z1 - 1 - z0] / 4
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
            paid = -p["unit_cost"] * order - p["fixed_cost"] * (order > 0)
            best = max(best, paid + law @ (p["discount"] * walked[left - x0] - cost))
        worst = max(worst, abs(best - value[x - x0, z - z0]))
    return float(worst)


@in_float64
def measure(size: int) -> tuple[str, list[str]]:
    """A row of the table of solves, and rows of that of sweeps."""
    device = jax.devices()[0]
    mdp = build(size)
    first, solution = timed(lambda: ts.solve(mdp, tol=TOL))
    del solution, mdp
    built, mdp = timed(build, size)
    plan = make_plan(mdp, tol=TOL)
    method = plan.method
    seconds, solution = timed(lambda: ts.solve(mdp, plan=plan))
    peak = (device.memory_stats() or {}).get("peak_bytes_in_use", 0) / 1e9
    found, allowed = residual(mdp, solution), (1 + mdp.discount) * solution.error_bound + 1e-9
    if found > allowed:
        raise SystemExit(f"a residual of {found:.2e} at a sampled state; {allowed:.2e} at most")
    print(solution, np.array2string(solution.history.bound, precision=1), flush=True)
    n, rounds = mdp.n_states, solution.sweeps
    swept = rounds
    if isinstance(method, ts.MixedPrecision):
        swept += method.first_sweeps + (rounds - 1) * (method.correction_terms + 1)
    row = (
        f"| {n:,} | {swept} | {solution.error_bound:.1e} | {built:.2f} | {first:.1f} | "
        f"{seconds:.2f} | {peak:.1f} | {found:.1e} |"
    )
    del solution
    return row, sweeps_of(mdp, device)


def sweeps_of(mdp: ts.MDP, device: Any) -> list[str]:
    found, rows = sweep_seconds(mdp), []
    for name, s in found.items():
        kind, precision = name.split()
        moved = 2 * mdp.n_states * (8 if precision == "double" else 4)
        floor, peak = found[f"floor {precision}"], PEAK.get(device.device_kind, np.nan)
        rows.append(
            f"| {mdp.n_states:,} | {kind} | {precision} | {1e3 * s:.2f} | {s / floor:.1f} | "
            f"{moved / s / 1e12:.2f} | {moved / s / peak:.0%} |"
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
        "\n| states | sweeps | bound | build s | first s | solve s | peak GB | sampled residual |"
    )
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    print("\n".join(rows))
    print("\n| states | sweep | precision | ms | floors | TB/s | of peak |")
    print("| ---: | --- | --- | ---: | ---: | ---: | ---: |")
    print("\n".join(sweeps))


if __name__ == "__main__":
    main()
