"""Finite random quantities: as the user writes them, and as checked numbers.

A stage that pays r on a noise with probabilities p keeps ``sum_k p_k r_k``, given the state at its
moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError, shown
from tessella.grid import plain_values
from tessella.mdp import checks
from tessella.mdp.scope import NamedValues, Scope, call
from tessella.mdp.stages.reward import Reward, expectation, kept
from tessella.mdp.stages.stage import Function
from tessella.rounding import expected_error


@dataclass(frozen=True, eq=False)
class Noise:
    """A finite random quantity.

    Args:
        name: what stage functions call it.
        values: (K,) its values.
        probabilities: (K,), or a function of axes and action that returns (..., K).
    """

    name: str
    values: Iterable
    probabilities: ArrayLike | Function


@dataclass(frozen=True, eq=False)
class Law:
    """A noise made of numbers."""

    named: NamedValues
    probs: NDArray[np.float64]  # open mesh (A | 1, *broadcast, K)


def refuse_other(noise: object, what: str) -> None:
    """Refuse what stands in the place of a noise."""
    if not isinstance(noise, Noise):
        rule = f"{what} needs a noise, Noise(name, values, probabilities)"
        raise ModelError(rule, value=f"got {noise!r}")


def make_law(scope: Scope, noise: Noise, what: str) -> Law:
    """``noise`` as checked numbers."""
    values = plain_values(noise.values, f"{what}: its values")
    if not values.size:
        raise ModelError(f"{what}: a noise needs at least one value")
    scope.mesh((noise.name, values))
    given = noise.probabilities
    many = len(values)
    result = call(given, scope.mesh(), what, each=many) if callable(given) else given
    probs = checks.probabilities(scope, result, many, f"the probabilities of {what}")
    return Law((noise.name, values), probs)


def reward_on(
    scope: Scope, pays: Function | None, what: str, law: Law
) -> tuple[Reward | None, float]:
    """(A | 1, *broadcast) expected reward, sum_k p_k r_k, and a bound on its rounding."""
    if pays is None:
        return None, 0.0
    result = call(pays, scope.mesh(law.named), what)
    reward = checks.rewards(scope, result, what, law.named, law.probs)
    if reward.shape[-1] == 1:  # paid whatever the noise
        return reward[..., 0], 0.0
    factors = kept(law.probs, reward)
    if factors is not None:
        return factors, expected_error(reward.shape[-1], factors.largest)
    expected = expectation(law.probs, reward)
    if (reward >= 0).all() or (reward <= 0).all():  # sizes without a second array over states
        sizes = max(expected.max(), -expected.min())
    else:
        sizes = expectation(law.probs, np.abs(reward))
    return expected, expected_error(reward.shape[-1], sizes)


def truncated_poisson(mean: ArrayLike, largest: int) -> NDArray[np.float64]:
    """(..., largest + 1) Poisson probabilities, the tail mass put on ``largest``.

    ``mean`` has shape (..., 1) or is a number; P(D = k) = m^k e^-m / k!.
    """
    from scipy.special import gammainc, gammaln, xlogy

    if not isinstance(largest, int | np.integer) or isinstance(largest, bool) or largest < 0:
        rule = "a truncated Poisson ends at a whole number, at least 0"
        raise ModelError(rule, value=f"got {largest!r}")
    m = checks.as_numbers(mean, "the mean of a Poisson")
    if not (np.isfinite(m) & (m >= 0)).all():
        bad = m.ravel()[np.argmin((np.isfinite(m) & (m >= 0)).ravel())]
        rule = "the mean of a Poisson must be finite and not negative"
        raise ModelError(rule, value=f"got {shown(float(bad))}")
    if m.ndim == 0 or m.shape[-1] != 1:
        m = m[..., None]
    k = np.arange(largest + 1)
    pmf = np.exp(xlogy(k, m) - m - gammaln(k + 1.0))
    if largest > 0:
        pmf[..., -1] = gammainc(float(largest), m[..., 0])  # P(D >= largest)
    else:
        pmf[..., -1] = 1.0
    return pmf
