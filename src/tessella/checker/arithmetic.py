"""Arithmetic in twice the precision: a number is a pair (rounded, what rounding cut off)."""

from decimal import ROUND_CEILING, ROUND_FLOOR, Context

import numpy as np

EPS = float(np.finfo(float).eps)
MAX_FLOAT = float(np.finfo(float).max)


def two_sum(x, y):
    """(s, t) with s the rounded sum and x + y = s + t."""
    s = x + y
    z = s - x
    return s, (x - (s - z)) + (y - z)


def two_product(x, y):
    """(p, t) with p the rounded product and x y = p + t (Dekker 1971)."""
    p = x * y
    a, b = split_float(x)
    c, d = split_float(y)
    return p, ((a * c - p) + a * d + b * c) + b * d


def split_float(x):
    """x as the sum of two numbers of half its digits."""
    high = 134217729.0 * x
    high = high - (high - x)
    return high, x - high


def sum_products(
    group: np.ndarray, count: int, *factors: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(count,) pairs: for each group, the sum of the products of the two or three factors.

    Neighbours of a group are added in pairs, again and again, until one number is left of each.
    """
    order = np.argsort(group, kind="stable")
    group = group[order]
    x, y, *more = (np.broadcast_to(factor, order.shape)[order] for factor in factors)
    high, low = two_product(x, y)
    for z in more:
        high, error = two_product(high, z)
        low = low * z + error
    while group.size:
        first = np.concatenate([[True], group[1:] != group[:-1]])
        start = np.flatnonzero(first)
        position = np.arange(group.size) - np.repeat(start, np.diff(np.append(start, group.size)))
        first_of_pair = np.flatnonzero(position % 2 == 0)
        if first_of_pair.size == group.size:
            break
        has_partner = np.append(position, 0)[first_of_pair + 1] == position[first_of_pair] + 1
        partner = np.minimum(first_of_pair + 1, group.size - 1)
        total, error = two_sum(high[first_of_pair], np.where(has_partner, high[partner], 0.0))
        high = total
        low = low[first_of_pair] + np.where(has_partner, low[partner], 0.0) + error
        group = group[first_of_pair]
    result = np.zeros((2, count))
    result[:, group] = high, low
    return result[0], result[1]


def dot(x, y) -> float:
    """Sum of products, right to its last digit."""
    x, y = np.broadcast_arrays(x, y)
    high, low = sum_products(np.zeros(x.size, int), 1, x.ravel(), y.ravel())
    return float(high[0] + low[0])


def next_down(x: np.ndarray) -> np.ndarray:
    return np.nextafter(x, -np.inf)


def next_up(x: np.ndarray) -> np.ndarray:
    return np.nextafter(x, np.inf)


def max_abs(x: np.ndarray | list) -> float:
    return float(np.abs(x).max())


def is_close(stated: np.ndarray, derived: np.ndarray, tolerance: float) -> np.ndarray:
    """Whether they are equal, or apart by no more than ``tolerance``, rounding included."""
    rounding = 4 * EPS * (np.abs(stated) + np.abs(derived))
    return (stated == derived) | (np.abs(stated - derived) + rounding <= tolerance)


def divide_interval(number: np.ndarray, other: np.ndarray) -> list | None:
    """``number / |other|``; None where that may be 0 or is not finite."""
    if other[1] <= 0 <= other[2]:
        return None
    ends = number[1:, None] / np.abs(other[1:])
    if not np.isfinite(ends).all():
        return None
    return [number[0] / abs(other[0]), ends.min(), ends.max()]


def write_bounds(lower: float, upper: float) -> tuple[str, str]:
    """Both bounds in at most 12 digits, rounded outward: read back, they are no tighter."""
    low, high = (
        Context(prec=12, rounding=way).create_decimal(repr(float(bound)))
        for way, bound in ((ROUND_FLOOR, lower), (ROUND_CEILING, upper))
    )
    return f"{low:g}", f"{high:g}"
