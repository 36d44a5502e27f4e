"""Platelets with any life by slabs: one weekday at a time, one pair of axes at a time.

    python benchmarks/platelets.py [--life 3 5] [--experiment 1 2] [--off 1e-6]

The stages of the problem move several coordinates at once, and the package stores the target of
every whole state for that: 12 GB at a life of 5. Here demand that is not met yet goes from age to
age, the oldest first, and the oldest itself is used up at once; so every step is a small matrix on
a pair of axes,

    w'(x, y, rest) = sum M(x, y; x', y') w(x', y', rest),

and a day's value asks for the next day's alone. A week W has W(v + c) = W v + c discount^7, so with
d = W v - v the optimum on Monday lies in W v + [min d, max d] discount^7 / (1 - discount^7); what
rounding does is not included. A life of 3 is compared with the package's own answer. Prints
processor seconds.
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np
from scipy.sparse import csr_array
from scipy.stats import binom

import tessella as ts
from tessella.problems.perishables import _platelet_demand

LOGITS = {  # by life and experiment: of 2, 3, ... days, and what an ordered unit adds
    (3, 1): ((1.0, 0.5), (0.0, 0.0)),
    (3, 2): ((1.0, 0.5), (0.4, 0.8)),
    (5, 1): ((1.6, 2.6, 2.8, 1.6), (0.0, 0.0, 0.0, 0.0)),
    (5, 2): ((1.9, 3.1, 3.1, 2.5), (-0.03, -0.06, -0.03, -0.09)),
}
N_VALUES, FIXED_COST, SHORTAGE_COST, WASTE_COST, HOLDING_COST, DISCOUNT = (
    21,
    10.0,
    20.0,
    5.0,
    1.0,
    0.95,
)
X, Y = np.indices((N_VALUES, N_VALUES))
LEFT, UNMET = np.maximum(X - Y, 0), np.maximum(Y - X, 0)


def apply_to_pair(w: np.ndarray, x: int, matrix) -> np.ndarray:
    """The matrix (pairs, pairs) on axis ``x`` and the last axis."""
    moved = np.moveaxis(w, (x, -1), (0, 1))
    flat = matrix @ moved.reshape(matrix.shape[1], -1)
    return np.moveaxis(flat.reshape(N_VALUES, -1, *moved.shape[2:]), (0, 1), (x, -1))


def build_split_matrices(life: int, experiment: int, order: int) -> list[csr_array]:
    """Of the units whose life is not known yet, up to ``order``, those with 1, 2, ... days."""
    base, slopes = LOGITS[life, experiment]
    logits = np.array([0.0, *np.add(base, np.multiply(slopes, order))])
    weights = np.exp(logits - logits.max())
    stock, fresh, part = np.meshgrid(
        range(N_VALUES), range(order + 1), range(order + 1), indexing="ij"
    )
    fits = part <= fresh
    stock, fresh, part = stock[fits], fresh[fits], part[fits]
    row = stock * (order + 1) + fresh
    column = np.minimum(stock + part, N_VALUES - 1) * (order + 1) + fresh - part
    size = (N_VALUES * (order + 1),) * 2
    return [
        csr_array((binom.pmf(part, fresh, weights[k] / weights[k:].sum()), (row, column)), size)
        for k in range(life - 1)
    ]


def back_up_demand(after: np.ndarray, law: np.ndarray) -> np.ndarray:
    """(stock by life, fresh last) from the next day's values: demand takes the oldest first."""
    w = (
        DISCOUNT * after[..., LEFT] - HOLDING_COST * LEFT - SHORTAGE_COST * UNMET
    )  # (..., fresh, unmet)
    for axis in range(after.ndim - 2, -1, -1):
        pairs = np.moveaxis(w, (axis, -1), (0, 1))[LEFT, UNMET]
        pairs -= HOLDING_COST * LEFT.reshape(N_VALUES, N_VALUES, *[1] * (pairs.ndim - 2))
        w = np.moveaxis(pairs, (0, 1), (axis, -1))
    unmet = np.zeros((N_VALUES, N_VALUES))
    np.add.at(unmet, (X, UNMET), np.broadcast_to(law, (N_VALUES, N_VALUES)))
    wasted = (WASTE_COST + HOLDING_COST) * LEFT @ law
    return np.moveaxis(w @ unmet.T - wasted, -1, 0)


def back_up_day(after: np.ndarray, law: np.ndarray, delivered: list[list[csr_array]]) -> np.ndarray:
    """Values of a day; what is delivered is the same for every order, or listed by order."""
    w, best = back_up_demand(after, law), None
    for order in range(N_VALUES):
        if order == 0 or len(delivered) > 1:
            is_known = len(delivered) == 1
            before_delivery = w if is_known else w[..., : order + 1]
            for k in range(w.ndim - 2, -1, -1):
                before_delivery = apply_to_pair(
                    before_delivery, k, delivered[0 if is_known else order][k]
                )
        value = before_delivery[..., order] - FIXED_COST * (order > 0)
        best = value if best is None else np.maximum(best, value)
    return best


def solve(life: int, experiment: int, error_limit: float) -> tuple[np.ndarray, int]:
    """(weekdays, stocks) values within ``off``, and weeks."""
    laws = _platelet_demand(N_VALUES - 1)
    orders = range(N_VALUES) if any(LOGITS[life, experiment][1]) else [N_VALUES - 1]
    delivered = [build_split_matrices(life, experiment, order) for order in orders]
    values = np.zeros((8, *[N_VALUES] * (life - 1)))
    week, start = DISCOUNT**7, time.process_time()
    for count in range(1, 1000):
        values[7] = values[0]
        for k in range(6, -1, -1):
            values[k] = back_up_day(values[k + 1], laws[k], delivered)
        change = values[0] - values[7]
        low, high = (x * week / (1 - week) for x in (change.min(), change.max()))
        spent = time.process_time() - start
        print(f"  week {count}: off by {(high - low) / 2:.2g}, {spent:.0f} s so far", flush=True)
        if high - low <= 2 * error_limit:
            ahead = DISCOUNT ** np.arange(7, 0, -1) / week  # days until Monday's shift is worth it
            return values[:7] + (low + high) / 2 * ahead.reshape(7, *[1] * (life - 1)), count
    raise AssertionError("not within 1,000 weeks")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--life", nargs="+", type=int, default=[3, 5], choices=[3, 5])
    parser.add_argument("--experiment", nargs="+", type=int, default=[1, 2], choices=[1, 2])
    parser.add_argument("--off", type=float, default=1e-6)
    options = parser.parse_args()
    for life in options.life:
        for experiment in options.experiment:
            start = time.process_time()
            value, weeks = solve(life, experiment, options.off)
            spent = time.process_time() - start
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            print(
                f"life {life}, experiment {experiment}, {value.size:,} states: {weeks} weeks",
                end="",
            )
            print(f", {spent:.0f} s, {memory:.1f} GiB, off by at most {options.off:.1g}; ", end="")
            print(f"cost of an empty Monday {-value.flat[0]:.6f}", flush=True)
            if life == 3:
                slopes = LOGITS[life, experiment][1]
                solution = ts.solve(ts.problem("platelets").build(order_logits=slopes))
                print(f"  apart from the package's by {np.abs(value - solution.value).max():.1e}")


if __name__ == "__main__":
    main()
