"""False certificates that are consistent in all else.

A lie changes one thing that ``certify`` relies on, by a factor; everything after it is computed as
usual, so that no two statements of the forged certificate contradict one another.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import numpy as np

import tessella as ts
from tessella.certificates import certify_values as certify_values
from tessella.certificates.interval import Interval, IntervalArray, IntervalSum


def _make_error_lie(of_optimum: bool, of_policy: bool):
    """Stated errors of V, of V_pi, or of both, are ``factor`` times what is proven."""

    def lie(factor: float):
        def prove(*args):
            value_error, policy_value_error = original_bound_value_errors(*args)
            return (
                value_error * (factor if of_optimum else 1.0),
                policy_value_error * (factor if of_policy else 1.0),
            )

        return {(certify_values, "_bound_value_errors"): prove}

    return lie


original_bound_value_errors, original_compute_tie_tolerance, original_enclose_losses = (
    certify_values._bound_value_errors,
    certify_values.compute_tie_tolerance,
    certify_values.enclose_losses,
)
original_compute_occupancy, original_enclose_sum, original_enclose_share = (
    certify_values._compute_occupancy,
    IntervalSum.enclose,
    certify_values.enclose_share,
)


def _lie_about_ties(factor: float):
    """Actions are told apart by less than can be known."""

    def contrast(*args):
        return factor * original_compute_tie_tolerance(*args)

    return {(certify_values, "compute_tie_tolerance"): contrast}


def _lie_about_losses(factor: float):
    """The enclosures of the losses are narrower than what is known."""

    def losses(*args):
        band = original_enclose_losses(*args)
        lower = band.value - factor * (band.value - band.lower)
        return IntervalArray(band.value, lower, band.value + factor * (band.upper - band.value))

    return {(certify_values, "enclose_losses"): losses}


def _lie_about_occupancy(factor: float):
    """The occupancy is said to be better than it is."""

    def visits(*args):
        occupancy = original_compute_occupancy(*args)
        return replace(occupancy, error_bound=factor * occupancy.error_bound)

    return {(certify_values, "_compute_occupancy"): visits}


def _move_occupancy(factor: float):
    """Some of the occupancy is moved to where nothing is lost, as far as the error hides it."""

    def visits(prepared, policy, start, loss, local_loss):
        occupancy = original_compute_occupancy(prepared, policy, start, loss, local_loss)
        share, at = (
            occupancy.share.copy(),
            np.unravel_index(local_loss.value.argmax(), occupancy.share.shape),
        )
        to = np.unravel_index(local_loss.value.argmin(), share.shape)
        moved = min(share[at], 1e-3)
        share[at] -= moved
        share[to] += moved
        return replace(
            occupancy, share=share, error_bound=occupancy.error_bound + factor * 2 * moved
        )

    return {(certify_values, "_compute_occupancy"): visits}


def _pull_end(end: float, value: float, factor: float) -> float:
    """An end nearer to the value; by a factor of 1 the end itself, which sums would round."""
    return end if factor == 1.0 else value + factor * (end - value)


def _lie_about_means(factor: float):
    """Means are said to be known better than they are."""

    def enclose(total):
        interval = original_enclose_sum(total)
        value = float(interval)
        lower, upper = (_pull_end(end, value, factor) for end in (interval.lower, interval.upper))
        return Interval(value, min(lower, value), max(upper, value))

    return {(IntervalSum, "enclose"): enclose}


def _lie_about_shares(factor: float):
    """Shares of states are stated as if nothing were in doubt."""

    def enclose(counts, total):
        interval = original_enclose_share(counts, total)
        value = float(interval)
        lower, upper = (_pull_end(end, value, factor) for end in (interval.lower, interval.upper))
        return Interval(value, min(lower, value), max(upper, value))

    return {(certify_values, "enclose_share"): enclose}


LIES = {
    "both errors": _make_error_lie(of_optimum=True, of_policy=True),
    "the error of the optimum": _make_error_lie(of_optimum=True, of_policy=False),
    "the error of the policy's value": _make_error_lie(of_optimum=False, of_policy=True),
    "the tie tolerance": _lie_about_ties,
    "the losses": _lie_about_losses,
    "the error of the occupancy": _lie_about_occupancy,
    "the occupancy": _move_occupancy,
    "the means": _lie_about_means,
    "the shares": _lie_about_shares,
}


@contextmanager
def patch_certify(lie: str, factor: float) -> Iterator[None]:
    """Make ``certify`` use this lie."""
    patches = [mock.patch.object(*target, new) for target, new in LIES[lie](factor).items()]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


def forge(solution: ts.Solution, policy, start, lie: str, factor: float):
    """A certificate with this lie; None where the lie contradicts itself."""
    with patch_certify(lie, factor):
        try:
            return ts.certify(solution, policy, start)
        except ArithmeticError:
            return None


def shift_values(solution: ts.Solution, off: np.ndarray) -> ts.Solution:
    """A solution whose value is off by ``off`` (grid), and says nothing of it."""
    return replace(solution, value=solution.value + off)
