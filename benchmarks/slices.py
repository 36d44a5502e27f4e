"""Sweeps until every action is proven: by the whole span, and by slices of exogenous axes.

    python benchmarks/slices.py                      # the paper's problems, and others
    python benchmarks/slices.py --states 100000000 1000000000
    python benchmarks/slices.py --platelets 6 7

The first form sweeps v <- T v from 0 with NumPy and counts sweeps until each bound proves all
actions that ``solve`` decides. It compares the policies of ``solve``, of ``until="policy"`` and of
QuantEcon's policy iteration, and prints the processor seconds of the first two.

The others are for an accelerator. ``--states`` takes the inventory model of benchmarks/billion.py;
the second of two solves is timed. ``--platelets`` takes shelf lives in days, with the lives of new
units as in benchmarks/platelets.py, those beyond five days as likely as five. One weekday at a time
is backed up by matrices on pairs of axes, from Sunday to Monday, so that in a point v = (v_Mon,
..., v_Sun) only d_Sun = T v_Mon - v_Sun differs from 0. With osc its span, two action values of a
day that is j days before a Sunday, 1 to 7, are compared within discount^j osc / (1 - discount^7).
What rounding does is not included here.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

import tessella as ts
from tessella.mdp.compilation import in_float64
from tessella.solvers.execution_plan import make_plan
from tessella.solvers.policy_proof import ExogenousSlices, measure_slices
from tessella.solvers.prepared_model import PreparedModel

PUBLISHED_PROBLEMS = (
    *("platelets", "hydro_reservoir", "maintenance", "battery_arbitrage", "perishable"),
    *("two_class_server", "parallel_queues", "traffic_intersection", "system_administrator"),
    *("navigation", "frozen_lake"),
)
DISCOUNTS = 0.99, 0.999, 0.9999  # of INV-Mix and QUE-Mix, besides their own
MAX_SWEEPS = 20_000  # sweeps
DAYS = 7


def make_whole_slice(slices: ExogenousSlices, ndim: int, deviation: float) -> ExogenousSlices:
    """All states as one slice."""
    matrix = sparse.csr_array([[float(slices.matrix.sum(axis=1).max())]])
    shape = (1,) * ndim
    return ExogenousSlices(
        (), shape, matrix, deviation, slices.gap, slices.includes_end, is_dense=True
    )


@in_float64
def count_sweeps(mdp: ts.MDP, decided: np.ndarray) -> tuple[Any, Any]:
    """Sweeps until all ``decided`` actions are proven, by (the whole span, slices)."""
    prepared = PreparedModel(make_plan(mdp, representation="rows", backend="numpy"))
    slices = ExogenousSlices.build(prepared)
    whole = make_whole_slice(slices, mdp.grid.ndim, prepared.row_sum_bounds.deviation)
    matrices = mdp.to_sparse().transition
    feasible = mdp.feasible_mask
    value, sweeps = np.zeros(mdp.grid.shape), {}
    for sweep in range(1, MAX_SWEEPS + 1):
        expected = np.stack([p @ value.ravel() for p in matrices], axis=1)
        q = np.where(feasible, mdp.reward + mdp.discount * expected, -np.inf)
        margin = (q.max(axis=1) - np.partition(q, -2, axis=1)[:, -2]).reshape(mdp.grid.shape)
        for name, slices_used in (("whole", whole), ("slices", slices)):
            if name not in sweeps:
                point = measure_slices(prepared.backend, slices_used.axes, prepared.data, value)
                bound = slices_used.bound_point(point) + 2 * float(point.eta)
                if (margin > bound)[decided].all():
                    sweeps[name] = sweep
        if len(sweeps) == 2:
            break
        value = q.max(axis=1).reshape(mdp.grid.shape)
    return sweeps.get("whole", f"over {MAX_SWEEPS}"), sweeps.get("slices", f"over {MAX_SWEEPS}")


def solve_by_quantecon(mdp: ts.MDP) -> np.ndarray:
    """The policy of QuantEcon's policy iteration."""
    from quantecon.markov import DiscreteDP

    state, action = np.nonzero(mdp.feasible_mask)
    stacked = sparse.vstack(mdp.to_sparse().transition, format="csr")
    rows = stacked[action * mdp.n_states + state]
    model = DiscreteDP(mdp.reward[state, action], rows, mdp.discount, state, action)
    return np.asarray(model.solve(method="policy_iteration").sigma).reshape(mdp.grid.shape)


def measure_time(function) -> tuple[float, Any]:
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def compare(label: str, mdp: ts.MDP) -> str:
    ts.solve(mdp)  # compiles, where something is compiled
    seconds, solution = measure_time(lambda: ts.solve(mdp))
    ts.solve(mdp, until="policy")
    proof_seconds, proven = measure_time(lambda: ts.solve(mdp, until="policy"))
    decided = solution.decided
    whole, slices = count_sweeps(mdp, decided)
    table = solution.policy.table
    differing = int((proven.policy.table != table).sum())
    rivals = int((solve_by_quantecon(mdp) != table)[decided].sum())
    axes = "-" if mdp.exogenous is None else ", ".join(mdp.exogenous.names)
    used = f"{proven.method} {proven.sweeps}"
    return (
        f"| {label} | {mdp.discount:g} | {mdp.n_states:,} | {axes} | {whole} | {slices} | "
        f"{used} | {seconds:.3f} | {proof_seconds:.3f} | {int((~decided).sum())} | {differing} | "
        f"{rivals} |"
    )


def compare_all() -> None:
    print(
        "| model | discount | states | exogenous | sweeps, whole span | sweeps, slices | "
        'until="policy" | solve s | until s | ties | differ | QuantEcon differs |'
    )
    print("| --- | ---: | ---: | --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |")
    for name in ts.BENCHMARKS:
        print(compare(name, ts.benchmark(name)), flush=True)
    for discount in DISCOUNTS:
        for name in ("INV-Mix", "QUE-Mix"):
            print(compare(name, ts.benchmark(name).with_discount(discount)), flush=True)
    for name in PUBLISHED_PROBLEMS:
        print(compare(name, ts.problem(name).build()), flush=True)


@in_float64
def prove_large(size: int) -> str:
    """Prove the policy of the inventory model of this size on the present device."""
    import jax
    from billion import build

    mdp = build(size)
    proven = None
    for _ in range(2):
        del proven  # a billion states leave no memory for two solutions
        start = time.perf_counter()
        proven = ts.solve(mdp, until="policy")
        jax.block_until_ready(proven.get_raw("value"))
        seconds = time.perf_counter() - start
    device = jax.devices()[0]
    peak = (device.memory_stats() or {}).get("peak_bytes_in_use", 0) / 1e9
    margin, tolerance = proven.get_raw("margin"), proven.slice_tolerance
    open_states = int((margin <= tolerance).sum())
    return (
        f"{device.device_kind}: {mdp.n_states:,} states, {seconds:.2f} s, {proven.method} "
        f"{proven.sweeps}, has_values {proven.has_values}, |V - V*| <= {proven.error_bound:.2g}, "
        f"{open_states:,} states undecided, tolerance at most {proven.tie_tolerance:.2g}, "
        f"peak {peak:.1f} GB"
    )


@in_float64
def prove_platelets(life: int, passes: int = 40) -> str:
    """Weeks until all orders of platelets with this shelf life are proven."""
    import jax
    import jax.numpy as jnp
    from platelets import DISCOUNT, LOGITS, N_VALUES

    from tessella.problems.perishables import _platelet_demand

    base, slopes = LOGITS.get((life, 1)) or LOGITS[5, 1]
    base = (base + base[-1:] * life)[: life - 1]
    LOGITS[life, 1] = base, slopes[:1] * (life - 1)
    back_up_day = make_day_backup(life)
    laws = jnp.asarray(_platelet_demand(N_VALUES - 1))
    values = [jnp.zeros((N_VALUES,) * (life - 1)) for _ in range(DAYS)]
    carried = DISCOUNT ** np.array([*range(DAYS - 1, 0, -1), DAYS]) / (1 - DISCOUNT**DAYS)
    proven_at, seconds, span, margins = sweep_weeks(back_up_day, values, laws, carried, passes)
    device = jax.devices()[0]
    peak = (device.memory_stats() or {}).get("peak_bytes_in_use", 0) / 1e9
    answer = f"proven after {proven_at} sweeps" if proven_at else f"not proven in {passes} weeks"
    line = (
        f"{device.device_kind}: platelets of {life} days, "
        f"{DAYS * N_VALUES ** (life - 1):,} states: "
        f"{answer}, {seconds:.2f} s after the first week, span {float(span):.2g}, "
        f"least margin {margins.min():.2g}, peak {peak:.1f} GB"
    )
    return line + compare_with_package(values[0]) if life == 3 else line


def sweep_weeks(
    back_up_day: Callable, values: list, laws: Any, carried: np.ndarray, passes: int
) -> tuple[int | None, float, float, np.ndarray]:
    """(sweeps until proven, seconds after the first week, span, margins); changes ``values``."""
    margins, span, start = np.zeros(DAYS), np.inf, time.perf_counter()
    for week in range(1, passes + 1):
        for day in reversed(range(DAYS)):
            after = values[(day + 1) % DAYS]
            values[day], margin, span = back_up_day(after, values[day], laws[day])
            margins[day] = float(margin)
            # Before the backup of Sunday: all days' margins against d of Sunday.
            is_proven = day == DAYS - 1 and week > 1 and (margins > float(span) * carried).all()
            if is_proven:
                sweeps = DAYS * (week - 1) + 1
                return sweeps, time.perf_counter() - start, float(span), margins
        if week == 1:
            start = time.perf_counter()  # the first week compiles
    return None, time.perf_counter() - start, float(span), margins


def make_day_backup(life: int) -> Callable:
    """(values after, before, demand) -> (values, least margin, span of the change) of a day."""
    import jax
    import jax.numpy as jnp
    from platelets import (
        DISCOUNT,
        FIXED_COST,
        HOLDING_COST,
        LEFT,
        N_VALUES,
        SHORTAGE_COST,
        UNMET,
        WASTE_COST,
        build_split_matrices,
    )

    n = N_VALUES
    delivered = [jnp.asarray(m.toarray()) for m in build_split_matrices(life, 1, n - 1)]
    left, unmet = jnp.asarray(LEFT), jnp.asarray(UNMET)

    def apply_to_pair(w, axis: int, matrix):
        moved = jnp.moveaxis(w, (axis, -1), (0, 1))
        flat = matrix @ moved.reshape(n * n, -1)
        return jnp.moveaxis(flat.reshape(moved.shape), (0, 1), (axis, -1))

    def back_up_demand(after, law):
        w = DISCOUNT * after[..., left] - HOLDING_COST * left - SHORTAGE_COST * unmet
        for axis in range(after.ndim - 2, -1, -1):
            pairs = jnp.moveaxis(w, (axis, -1), (0, 1))[left, unmet]
            pairs = pairs - HOLDING_COST * left.reshape(n, n, *[1] * (pairs.ndim - 2))
            w = jnp.moveaxis(pairs, (0, 1), (axis, -1))
        oldest = jnp.zeros((n, n)).at[jnp.arange(n)[:, None], unmet].add(law[None])
        return jnp.moveaxis(w @ oldest.T - (WASTE_COST + HOLDING_COST) * left @ law, -1, 0)

    @jax.jit
    def back_up_day(after, before, law):
        w = back_up_demand(after, law)
        for axis in range(w.ndim - 2, -1, -1):
            w = apply_to_pair(w, axis, delivered[axis])
        best = second = jnp.full(after.shape, -jnp.inf)
        for order in range(n):
            value = w[..., order] - FIXED_COST * (order > 0)
            second = jnp.maximum(second, jnp.minimum(best, value))
            best = jnp.maximum(best, value)
        change = best - before
        return best, (best - second).min(), change.max() - change.min()

    return back_up_day


def compare_with_package(monday: Any) -> str:
    """How far values of a shelf life of 3 days are from the package's, up to a constant."""
    from platelets import LOGITS

    logits, none = LOGITS[3, 1]
    own = ts.solve(ts.problem("platelets").build(life_logits=logits, order_logits=none))
    difference = np.ptp(np.asarray(monday) - own.value[0])
    return f"; values are apart from the package's by a constant and {difference:.1g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--states", nargs="+", type=int, default=[])
    parser.add_argument("--platelets", nargs="+", type=int, default=[])
    options = parser.parse_args()
    for size in options.states:
        print(prove_large(size), flush=True)
    for life in options.platelets:
        print(prove_platelets(life), flush=True)
    if not (options.states or options.platelets):
        compare_all()


if __name__ == "__main__":
    main()
