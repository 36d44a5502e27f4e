"""Certificates that lie, and are consistent in all else.

A lie changes one thing that ``certify`` relies on, by a factor; everything after it is computed as
usual, so that no two statements of the forged certificate contradict one another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import numpy as np

import tessella as ts
from tessella.certificates import certify_values as making
from tessella.certificates import decisions
from tessella.certificates.interval import Interval, IntervalArray, IntervalSum


def _errors(which: Callable[[object], bool]):
    """Stated errors of V, of V_pi, or of both, are ``factor`` times what is proven."""

    def lie(factor: float):
        def prove(prepared, value, policy=None):
            true = true_prove(prepared, value, policy)
            return true * factor if which(policy) else true

        return {(making, "bound_error"): prove}

    return lie


true_prove, true_contrast, true_losses = (
    making.bound_error,
    decisions.compare_policy,
    making.enclose_losses,
)
true_visits, true_sum, true_share = (
    making._compute_occupancy,
    IntervalSum.enclose,
    making.enclose_share,
)


def _tie(factor: float):
    """Actions are told apart by less than can be known."""

    def contrast(*args):
        margin, local_loss, tie_tolerance = true_contrast(*args)
        return margin, local_loss, factor * tie_tolerance

    return {(decisions, "compare_policy"): contrast}


def _losses(factor: float):
    """The enclosures of the losses are narrower than what is known."""

    def losses(*args):
        band = true_losses(*args)
        lower = band.value - factor * (band.value - band.lower)
        return IntervalArray(band.value, lower, band.value + factor * (band.upper - band.value))

    return {(making, "enclose_losses"): losses}


def _visits(factor: float):
    """The occupancy is said to be better than it is."""

    def visits(*args):
        found = true_visits(*args)
        return replace(found, error_bound=factor * found.error_bound)

    return {(making, "_compute_occupancy"): visits}


def _moved(factor: float):
    """Some of the occupancy is moved to where nothing is lost, as far as the error hides it."""

    def visits(prepared, policy, start, loss, local_loss):
        found = true_visits(prepared, policy, start, loss, local_loss)
        share, at = (
            found.share.copy(),
            np.unravel_index(local_loss.value.argmax(), found.share.shape),
        )
        to = np.unravel_index(local_loss.value.argmin(), share.shape)
        moved = min(share[at], 1e-3)
        share[at] -= moved
        share[to] += moved
        return replace(found, share=share, error_bound=found.error_bound + factor * 2 * moved)

    return {(making, "_compute_occupancy"): visits}


def _pull(end: float, value: float, factor: float) -> float:
    """An end nearer to the value; by a factor of 1 the end itself, which sums would round."""
    return end if factor == 1.0 else value + factor * (end - value)


def _means(factor: float):
    """Means are said to be known better than they are."""

    def mean(total):
        found = true_sum(total)
        value = float(found)
        lower, upper = (_pull(end, value, factor) for end in (found.lower, found.upper))
        return Interval(value, min(lower, value), max(upper, value))

    return {(IntervalSum, "enclose"): mean}


def _shares(factor: float):
    """Shares of states are stated as if nothing were in doubt."""

    def share(counts, total):
        found = true_share(counts, total)
        value = float(found)
        lower, upper = (_pull(end, value, factor) for end in (found.lower, found.upper))
        return Interval(value, min(lower, value), max(upper, value))

    return {(making, "enclose_share"): share}


LIES = {
    "both errors": _errors(lambda policy: True),
    "the error of the optimum": _errors(lambda policy: policy is None),
    "the error of the policy's value": _errors(lambda policy: policy is not None),
    "the tie tolerance": _tie,
    "the losses": _losses,
    "the error of the occupancy": _visits,
    "the occupancy": _moved,
    "the means": _means,
    "the shares": _shares,
}


@contextmanager
def told(lie: str, factor: float) -> Iterator[None]:
    """``certify`` tells this lie."""
    patches = [mock.patch.object(*at, new) for at, new in LIES[lie](factor).items()]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


def forge(solution: ts.Solution, policy, start, lie: str, factor: float):
    """A certificate with this lie; None where the lie contradicts itself."""
    with told(lie, factor):
        try:
            return ts.certify(solution, policy, start)
        except ArithmeticError:
            return None


def shifted(solution: ts.Solution, off: np.ndarray) -> ts.Solution:
    """A solution whose value is off by ``off`` (grid), and says nothing of it."""
    return replace(solution, value=solution.value + off)
