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
from typing import Any

import numpy as np
from scipy import sparse

import tessella as ts
from tessella.mdp.compilation import in_float64
from tessella.solvers.execution_plan import make_plan
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.slices import Slices, measure_slices

ZOO = (
    *("platelets", "hydro_reservoir", "maintenance", "battery_arbitrage", "perishable"),
    *("two_class_server", "parallel_queues", "traffic_intersection", "system_administrator"),
    *("navigation", "frozen_lake"),
)
DISCOUNTS = 0.99, 0.999, 0.9999  # of INV-Mix and QUE-Mix, besides their own
MOST = 20_000  # sweeps
WEEK = 7


def whole_span(slices: Slices, ndim: int, deviation: float) -> Slices:
    """All states as one slice."""
    matrix = sparse.csr_array([[float(slices.matrix.sum(axis=1).max())]])
    shape = (1,) * ndim
    return Slices((), shape, matrix, deviation, slices.gap, slices.includes_end)


@in_float64
def count_sweeps(mdp: ts.MDP, decided: np.ndarray) -> tuple[Any, Any]:
    """Sweeps until all ``decided`` actions are proven, by (the whole span, slices)."""
    prepared = PreparedModel(make_plan(mdp, representation="rows", backend="numpy"))
    slices = Slices.build(prepared)
    others = whole_span(slices, mdp.grid.ndim, prepared.row_sum_bounds.deviation)
    matrices = mdp.to_sparse().transition
    feasible = mdp.feasible_mask
    value, found = np.zeros(mdp.grid.shape), {}
    for sweep in range(1, MOST + 1):
        expected = np.stack([p @ value.ravel() for p in matrices], axis=1)
        q = np.where(feasible, mdp.reward + mdp.discount * expected, -np.inf)
        margin = (q.max(axis=1) - np.partition(q, -2, axis=1)[:, -2]).reshape(mdp.grid.shape)
        for name, by in (("whole", others), ("slices", slices)):
            if name not in found:
                measured = measure_slices(prepared.backend, by.axes, prepared.data, value)
                bound = by.bound_point(measured) + 2 * float(measured.eta)
                if (margin > bound)[decided].all():
                    found[name] = sweep
        if len(found) == 2:
            break
        value = q.max(axis=1).reshape(mdp.grid.shape)
    return found.get("whole", f"over {MOST}"), found.get("slices", f"over {MOST}")


def by_quantecon(mdp: ts.MDP) -> np.ndarray:
    """The policy of QuantEcon's policy iteration."""
    from quantecon.markov import DiscreteDP

    state, action = np.nonzero(mdp.feasible_mask)
    stacked = sparse.vstack(mdp.to_sparse().transition, format="csr")
    rows = stacked[action * mdp.n_states + state]
    model = DiscreteDP(mdp.reward[state, action], rows, mdp.discount, state, action)
    return np.asarray(model.solve(method="policy_iteration").sigma).reshape(mdp.grid.shape)


def timed(work) -> tuple[float, Any]:
    began = time.process_time()
    done = work()
    return time.process_time() - began, done


def compare(label: str, mdp: ts.MDP) -> str:
    ts.solve(mdp)  # compiles, where something is compiled
    seconds, solution = timed(lambda: ts.solve(mdp))
    ts.solve(mdp, until="policy")
    proof_seconds, proven = timed(lambda: ts.solve(mdp, until="policy"))
    decided = solution.decided
    whole, slices = count_sweeps(mdp, decided)
    table = solution.policy.table
    differing = int((proven.policy.table != table).sum())
    rivals = int((by_quantecon(mdp) != table)[decided].sum())
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
    for name in ZOO:
        print(compare(name, ts.problem(name).build()), flush=True)


@in_float64
def prove_large(size: int) -> str:
    """The inventory model of so many states on the present device."""
    import jax
    from billion import build  # beside this file

    mdp = build(size)
    proven = None
    for _ in range(2):
        del proven  # a billion states leave no memory for two solutions
        began = time.perf_counter()
        proven = ts.solve(mdp, until="policy")
        jax.block_until_ready(proven.get_raw("value"))
        seconds = time.perf_counter() - began
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
    from platelets import DISCOUNT, FIXED, HOLD, LEFT, LOGITS, SHORT, UNMET, WASTE, N, parts

    from tessella.problems.perishables import _platelet_demand

    base, slopes = LOGITS.get((life, 1)) or LOGITS[5, 1]
    base = (base + base[-1:] * life)[: life - 1]
    LOGITS[life, 1] = base, slopes[:1] * (life - 1)
    delivered = [jnp.asarray(matrix.toarray()) for matrix in parts(life, 1, N - 1)]
    left, unmet = jnp.asarray(LEFT), jnp.asarray(UNMET)
    laws = jnp.asarray(_platelet_demand(N - 1))

    def on_pair(w, axis: int, matrix):
        moved = jnp.moveaxis(w, (axis, -1), (0, 1))
        flat = matrix @ moved.reshape(N * N, -1)
        return jnp.moveaxis(flat.reshape(moved.shape), (0, 1), (axis, -1))

    def after_delivery(after, law):
        w = DISCOUNT * after[..., left] - HOLD * left - SHORT * unmet  # (..., fresh, unmet)
        for axis in range(after.ndim - 2, -1, -1):
            pairs = jnp.moveaxis(w, (axis, -1), (0, 1))[left, unmet]
            pairs = pairs - HOLD * left.reshape(N, N, *[1] * (pairs.ndim - 2))
            w = jnp.moveaxis(pairs, (0, 1), (axis, -1))
        oldest = jnp.zeros((N, N)).at[jnp.arange(N)[:, None], unmet].add(law[None])
        return jnp.moveaxis(w @ oldest.T - (WASTE + HOLD) * left @ law, -1, 0)

    @jax.jit
    def back_up_day(after, before, law):
        """(values, least margin, span of what changed) of a day, from the next day's values."""
        w = after_delivery(after, law)
        for axis in range(w.ndim - 2, -1, -1):
            w = on_pair(w, axis, delivered[axis])
        best = second = jnp.full(after.shape, -jnp.inf)
        for order in range(N):
            value = w[..., order] - FIXED * (order > 0)
            second = jnp.maximum(second, jnp.minimum(best, value))
            best = jnp.maximum(best, value)
        change = best - before
        return best, (best - second).min(), change.max() - change.min()

    values = [jnp.zeros((N,) * (life - 1)) for _ in range(WEEK)]
    carried = DISCOUNT ** np.array([*range(WEEK - 1, 0, -1), WEEK]) / (1 - DISCOUNT**WEEK)
    margins, proven_at, began = np.zeros(WEEK), None, time.perf_counter()
    for week in range(1, passes + 1):
        for day in reversed(range(WEEK)):
            after = values[(day + 1) % WEEK]
            values[day], margin, span = back_up_day(after, values[day], laws[day])
            margins[day] = float(margin)
            if day == WEEK - 1:
                # At the point before this backup: all days' margins against d of Sunday.
                is_proven = week > 1 and bool((margins > float(span) * carried).all())
                if is_proven:
                    proven_at = WEEK * (week - 1) + 1
                    break
        if week == 1:
            began = time.perf_counter()  # the first week compiles
        if proven_at:
            break
    seconds = time.perf_counter() - began
    device = jax.devices()[0]
    peak = (device.memory_stats() or {}).get("peak_bytes_in_use", 0) / 1e9
    answer = f"proven after {proven_at} sweeps" if proven_at else f"not proven in {passes} weeks"
    line = (
        f"{device.device_kind}: platelets of {life} days, {WEEK * N ** (life - 1):,} states: "
        f"{answer}, {seconds:.2f} s after the first week, span {float(span):.2g}, "
        f"least margin {margins.min():.2g}, peak {peak:.1f} GB"
    )
    if life == 3:
        logits, none = LOGITS[3, 1]
        own = ts.solve(ts.problem("platelets").build(life_logits=logits, order_logits=none))
        apart = np.ptp(np.asarray(values[0]) - own.value[0])
        line += f"; values are apart from the package's by a constant and {apart:.1g}"
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--states", nargs="+", type=int, default=[])
    parser.add_argument("--platelets", nargs="+", type=int, default=[])
    asked = parser.parse_args()
    for size in asked.states:
        print(prove_large(size), flush=True)
    for life in asked.platelets:
        print(prove_platelets(life), flush=True)
    if not (asked.states or asked.platelets):
        compare_all()


if __name__ == "__main__":
    main()
