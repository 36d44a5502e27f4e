"""Finite random quantities: as the user writes them, and as checked numbers.

A stage that pays r on a noise with probabilities p keeps ``sum_k p_k r_k``, given the state at its
moment.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError, format_value
from tessella.grid import to_plain_values
from tessella.mdp import checks
from tessella.mdp.context import EvaluationContext, NamedValues, call_by_name
from tessella.mdp.stages.reward import Reward, expectation, factor_reward
from tessella.mdp.stages.stage import Function
from tessella.rounding import bound_expectation_error


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
class NoiseTable:
    """A noise made of numbers."""

    variable: NamedValues
    probs: NDArray[np.float64]  # open mesh (A | 1, *broadcast, K)


def require_noise(noise: object, subject: str) -> None:
    """Refuse what stands in the place of a noise."""
    if not isinstance(noise, Noise):
        requirement = f"{subject} needs a noise, Noise(name, values, probabilities)"
        raise ModelError(requirement, value=f"got {noise!r}")


def tabulate_noise(context: EvaluationContext, noise: Noise, subject: str) -> NoiseTable:
    """``noise`` as checked numbers."""
    values = to_plain_values(noise.values, f"{subject}: its values")
    if not values.size:
        raise ModelError(f"{subject}: a noise needs at least one value")
    context.mesh((noise.name, values))
    given = noise.probabilities
    many = len(values)
    result = call_by_name(given, context.mesh(), subject, each=many) if callable(given) else given
    probs = checks.check_probabilities(context, result, many, f"the probabilities of {subject}")
    return NoiseTable((noise.name, values), probs)


def expected_stage_reward(
    context: EvaluationContext, pays: Function | None, subject: str, noise_table: NoiseTable
) -> tuple[Reward | None, float]:
    """(A | 1, *broadcast) expected reward, sum_k p_k r_k, and a bound on its rounding."""
    if pays is None:
        return None, 0.0
    result = call_by_name(pays, context.mesh(noise_table.variable), subject)
    reward = checks.check_rewards(context, result, subject, noise_table.variable, noise_table.probs)
    if reward.shape[-1] == 1:  # paid whatever the noise
        return reward[..., 0], 0.0
    factors = factor_reward(noise_table.probs, reward)
    if factors is not None:
        return factors, bound_expectation_error(reward.shape[-1], factors.bound)
    expected = expectation(noise_table.probs, reward)
    if (reward >= 0).all() or (reward <= 0).all():  # sizes without a second array over states
        sizes = max(expected.max(), -expected.min())
    else:
        sizes = expectation(noise_table.probs, np.abs(reward))
    return expected, bound_expectation_error(reward.shape[-1], sizes)


def truncated_poisson(mean: ArrayLike, largest: int) -> NDArray[np.float64]:
    """(..., largest + 1) Poisson probabilities, the tail mass put on ``largest``.

    ``mean`` has shape (..., 1) or is a number; P(D = k) = m^k e^-m / k!.
    """
    from scipy.special import gammainc, gammaln, xlogy

    if not isinstance(largest, int | np.integer) or isinstance(largest, bool) or largest < 0:
        requirement = "a truncated Poisson ends at a whole number, at least 0"
        raise ModelError(requirement, value=f"got {largest!r}")
    m = checks.as_numbers(mean, "the mean of a Poisson")
    if not (np.isfinite(m) & (m >= 0)).all():
        bad = m.ravel()[np.argmin((np.isfinite(m) & (m >= 0)).ravel())]
        requirement = "the mean of a Poisson must be finite and not negative"
        raise ModelError(requirement, value=f"got {format_value(float(bad))}")
    if m.ndim == 0 or m.shape[-1] != 1:
        m = m[..., None]
    k = np.arange(largest + 1)
    pmf = np.exp(xlogy(k, m) - m - gammaln(k + 1.0))
    if largest > 0:
        pmf[..., -1] = gammainc(float(largest), m[..., 0])  # P(D >= largest)
    else:
        pmf[..., -1] = 1.0
    return pmf
