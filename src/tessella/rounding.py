"""Rounding errors: compensated sums, error bounds of a model's numbers, and directed rounding of
bounds to text.

A float sum is x + y = s + t without error, where s is the rounded sum and t its rounding error.
Adding up all t as well makes a sum of K terms accurate to a few units in its last place, up to
(K eps)^2 of the sum of absolute values (Ogita, Rump and Oishi 2005).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import scipy.sparse as sp

EPS = float(np.finfo(float).eps)
OUTWARD_FACTOR = 1 + 32 * EPS  # covers rounding in the computation of a bound
DEKKER_SPLIT_FACTOR = 2.0**27 + 1  # splits the 53 bits of a float in two halves
# Powers of ten of numbers that are written without an exponent.
FIXED_POINT_EXPONENTS = range(-4, 15)
PERCENT_MIN_SHARE = 1e-5  # smaller shares are written as less than this


def portable_exp(x: ArrayLike) -> NDArray[np.float64]:
    """e^x by the C library: the last digits of NumPy's depend on the processor.

    Models whose numbers are the same everywhere have the same fingerprint everywhere.
    """
    from scipy.special import inv_boxcox

    return np.asarray(inv_boxcox(x, 0.0))


def portable_sin(x: ArrayLike) -> NDArray[np.float64]:
    """sin x by the C library, as ``portable_exp``."""
    return np.vectorize(math.sin, otypes=[float])(x)


@dataclass(frozen=True)
class RowSumBounds:
    """Bounds on the probability to continue: ``1 - deficit <= sum_s' P(s'|s,a) <= 1 + excess``.

    Both are of the order of rounding, except that a model that can end has a large ``deficit``.
    They are kept as distances from 1, where floats are fine, not as sums, where they are coarse.
    """

    deficit: float
    excess: float

    @property
    def low(self) -> float:
        return max(1.0 - self.deficit * (1 + EPS) - EPS, 0.0)

    @property
    def high(self) -> float:
        return 1.0 + self.excess * (1 + EPS) + EPS

    @property
    def deviation(self) -> float:
        """The largest distance of a sum from 1."""
        return max(abs(self.deficit), abs(self.excess))

    def widen(self, error: float) -> RowSumBounds:
        """The bounds where each probability has a relative error of up to ``error``."""
        return RowSumBounds(self.deficit + error, self.excess + error * (1 + max(self.excess, 0.0)))

    def compose(self, other: RowSumBounds) -> RowSumBounds:
        """Bounds for the product of two matrices: one stage after another."""

        def add(x: float, y: float) -> float:
            return x + y + 4 * EPS * (abs(x) + abs(y))

        # (1 - a)(1 - b) >= 1 - a - b where a b >= 0, and (1 + a)(1 + b) = 1 + a + b + a b.
        deficit = add(self.deficit, other.deficit) + max(-self.deficit * other.deficit, 0.0)
        return RowSumBounds(
            deficit, add(self.excess, other.excess) + max(self.excess * other.excess, 0.0)
        )


@dataclass(frozen=True)
class ModelRounding:
    """Bounds on the error of a model's stored numbers.

    Attributes:
        row_error: bound on |P - exact P| / exact P, for each stored probability.
        reward_error: bound on |r - exact r|, for each stored expected reward.
    """

    row_error: float = 0.0
    reward_error: float = 0.0

    @staticmethod
    def worst_of(roundings: Sequence[ModelRounding]) -> ModelRounding:
        """The smallest bounds that hold for all of ``roundings``."""
        return ModelRounding(
            max(rounding.row_error for rounding in roundings),
            max(rounding.reward_error for rounding in roundings),
        )


NO_ROUNDING = ModelRounding()


@dataclass(frozen=True)
class RoundingBounds:
    """Bounds on the rounding of one representation of a model: rows, stages, or periods of these.

    Attributes:
        in_memory: error of the stored numbers, against those that the model was built from.
        in_file: error of the rows and rewards that a file of this model holds.
        backup_terms: most floating-point additions and products behind one number of a backup.
    """

    in_memory: ModelRounding
    in_file: ModelRounding
    backup_terms: int


def bound_expectation_error(terms: int, sizes: NDArray | float) -> float:
    """Bound on the rounding of ``sum_k p_k r_k`` over ``terms`` of them, given ``sum_k p_k |r_k|``.

    The sum is off by at most (terms + 1) eps / 2 of the sum of sizes, in whatever order it is added
    up; the rest covers the rounding of the sizes themselves.
    """
    return (terms + 2) * EPS * float(np.max(sizes, initial=0.0))


def bound_sums(probs: NDArray[np.float64], axis: int) -> RowSumBounds:
    """Bounds on the sums of ``probs`` along ``axis``."""
    terms = np.moveaxis(probs, axis, 0)
    excess = np.full(terms.shape[1:], -1.0)
    correction = np.zeros(terms.shape[1:])
    for term in terms:
        excess, lost = two_sum(excess, term)
        correction += lost
    return _bounds_from_distances(excess + correction, len(terms))


def bound_row_sums(rows: sp.csr_array) -> RowSumBounds:
    """Bounds on the row sums of a sparse matrix, all rows side by side."""
    excess, correction, longest = sum_rows(rows.indptr, rows.data, -1.0)
    return _bounds_from_distances(excess + correction, longest)


def sum_rows(
    indptr: NDArray, data: NDArray, first: float = 0.0
) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """(``first`` plus the entries of each row, the rounding errors of these sums, longest row)."""
    lengths = np.diff(indptr)
    order = np.argsort(-lengths, kind="stable")
    row_starts = indptr[:-1][order]
    lengths = lengths[order]
    sums = np.full(len(order), first)
    correction = np.zeros(len(order))
    longest = int(lengths.max(initial=0))
    for k in range(longest):
        active = slice(0, int(np.searchsorted(-lengths, -k)))  # rows with more than k entries
        sums[active], lost = two_sum(sums[active], data[row_starts[active] + k])
        correction[active] += lost
    original_order = np.argsort(order)
    return sums[original_order], correction[original_order], longest


def two_sum(x: NDArray, y: NDArray) -> tuple[NDArray, NDArray]:
    """(s, t) with s the rounded sum and x + y = s + t exactly."""
    s = x + y
    z = s - x
    return s, (x - (s - z)) + (y - z)


def two_product(x: NDArray, y: NDArray) -> tuple[NDArray, NDArray]:
    """(p, t) with p the rounded product and x y = p + t exactly (Dekker 1971)."""
    p = x * y
    (a, b), (c, d) = _split_float(x), _split_float(y)
    return p, ((a * c - p) + a * d + b * c) + b * d


def _split_float(x: NDArray) -> tuple[NDArray, NDArray]:
    """(high, low) with x = high + low, each of half the digits."""
    scaled = DEKKER_SPLIT_FACTOR * x
    high = scaled - (scaled - x)
    return high, x - high


def _bounds_from_distances(distances: NDArray, terms: int) -> RowSumBounds:
    """Bounds on sums, given their distances from 1 as computed."""
    second_order = ((terms + 1) * EPS) ** 2

    def outward(x: float) -> float:
        return x + 2 * EPS * abs(x) + second_order

    return RowSumBounds(outward(-float(distances.min())), outward(float(distances.max())))


def round_up(bound: float | Decimal, digits: int = 3) -> str:
    """An upper bound as text of ``digits`` digits, rounded up.

    All digits before the point are written: ``1,235`` for 1234.2. A float has the value of its
    shortest text, so that 0.005 is written as ``0.005``.
    """
    return _format_rounded(bound, digits, ROUND_CEILING)


def round_down(bound: float | Decimal, digits: int = 3) -> str:
    """A lower bound as text of ``digits`` digits, rounded down."""
    return _format_rounded(bound, digits, ROUND_FLOOR)


def format_percent_bound(share: float) -> str:
    """An upper bound on a share as text: ``at most 0.64%``, or ``less than 0.001%``."""
    if 0 < share < PERCENT_MIN_SHARE:
        return f"less than {100 * PERCENT_MIN_SHARE:g}%"
    return f"at most {round_up(100 * _to_decimal(share))}%"


def format_with_error_bound(value: float, bound: float, digits: int = 12) -> tuple[str, str]:
    """``value`` as text, and a bound on the error of that text; ``value`` is off by ``bound``."""
    text = f"{value:,.{digits}g}"
    if not math.isfinite(value) or not math.isfinite(bound):
        return text, str(bound)
    with localcontext(rounding=ROUND_CEILING):
        truncation = abs(Decimal(text.replace(",", "")) - _to_decimal(value))
        total = truncation + _to_decimal(bound)
    return text, round_up(total, 2)


def _to_decimal(number: float | Decimal) -> Decimal:
    return number if isinstance(number, Decimal) else Decimal(repr(float(number)))


def _format_rounded(bound: float | Decimal, digits: int, rounding_mode: str) -> str:
    exact = _to_decimal(bound)
    if not exact or not exact.is_finite():
        return "0" if exact == 0 else str(float(bound))
    exponent = exact.adjusted()
    last_exponent = exponent - digits + 1
    if exponent not in FIXED_POINT_EXPONENTS:
        return f"{exact.quantize(Decimal(1).scaleb(last_exponent), rounding_mode).normalize():e}"
    text = f"{exact.quantize(Decimal(1).scaleb(min(last_exponent, 0)), rounding_mode):,f}"
    return text.rstrip("0").rstrip(".") if last_exponent < 0 else text
