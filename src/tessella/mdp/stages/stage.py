"""A stage: what the user writes, and the numbers computed from it; ``Pay``, the simplest one.

Its functions are called once, on the grid, and their results are checked and kept. A stage that
pays r on a noise with probabilities p keeps the expected reward ``sum_k p_k r_k``, given the state
at its moment, as an array that is open over the axes on which it depends. For a very large grid it
keeps the factors p and r instead, which are small, and computes the sum where it is needed: on the
device.

Scratch axes are coordinates that exist only inside a period, which opens them at their first values
and forgets them at its end. With s the state that is decided upon and x the position on them,

    open    E[w](s) = w(s, first)           forget    E[w](s, x) = w(s)

They come last in the wide grid of (s, x). Only the stages from the first to the last that move
along them or depend on them work on it; all others stay on the grid of s.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ModelError, format_value, require_whole
from tessella.grid import StateGrid, require_ordered, to_plain_values
from tessella.mdp.checks import ROW_SUM_TOLERANCE, FunctionChecks, as_numbers, check_probabilities
from tessella.mdp.dynamics import REWARD, Payment, combine_payments
from tessella.mdp.measures import check_measure_name
from tessella.mdp.stages.operation import Operation, Reshape, drop_trailing_axes, take_range
from tessella.mdp.state_action_space import (
    NoiseTable,
    NoiseVariable,
    StateActionSpace,
    call_if_function,
    make_state_action_space,
    names_time,
)
from tessella.rounding import EPS, bound_expectation_error, portable_exp

Function = Callable[..., ArrayLike]
EXPECTED_REWARD_MAX_ENTRIES = 1 << 26  # numbers; larger expected rewards are kept as factors


@dataclass(frozen=True, eq=False)
class ExpectedReward:
    """``sum_k probs[..., k] reward[..., k]``, kept as its factors.

    Both are open meshes (A | 1, *broadcast, K). To NumPy it is the array of the sums.
    """

    probs: NDArray[np.float64]
    reward: NDArray[np.float64]

    @property
    def shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(self.probs.shape[:-1], self.reward.shape[:-1])

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """Of the array of the sums."""
        return 8 * math.prod(self.shape)

    @property
    def bound(self) -> float:
        """No sum is larger than this: probabilities sum to 1, up to rounding."""
        most = float(np.abs(self.reward).max())
        return most * (1 + ROW_SUM_TOLERANCE) * (1 + EPS * (2 + self.reward.shape[-1]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return compute_expectation(self.probs, self.reward).astype(dtype or float, copy=False)

    def block(self, axis: int, first: int, count: int) -> ExpectedReward:
        """On ``count`` positions of one axis, from ``first`` on; past its ends the nearest one."""
        return ExpectedReward(
            *(take_range(a, axis + 1, first, count) for a in (self.probs, self.reward))
        )

    def on_device(self) -> Any:
        """The array of the sums, made on the device."""
        from tessella.mdp.compilation import einsum_on_device

        return einsum_on_device(*einsum_subscripts(self.probs, self.reward)).reshape(self.shape)


Reward = NDArray[np.float64] | ExpectedReward


def bound_reward(reward: Reward) -> float:
    """The largest size of a reward, or a bound on it."""
    return reward.bound if isinstance(reward, ExpectedReward) else float(np.abs(reward).max())


def compute_expectation(probs: NDArray, reward: NDArray) -> NDArray[np.float64]:
    """``sum_k probs[..., k] reward[..., k]`` over open meshes.

    Not by BLAS, whose last digits depend on the processor: a fingerprint must not.
    """
    out = np.broadcast_shapes(probs.shape[:-1], reward.shape[:-1])
    subscripts, *factors = einsum_subscripts(probs, reward)
    return np.einsum(subscripts, *factors).reshape(out)


def einsum_subscripts(probs: NDArray, reward: NDArray) -> tuple[str, NDArray, NDArray]:
    """How ``einsum`` reads the sum, and its factors without axes of length one."""
    rank = probs.ndim - 1
    letters = [chr(ord("a") + i) for i in range(rank)]
    out = np.broadcast_shapes(probs.shape[:-1], reward.shape[:-1])

    def varying(array: NDArray) -> tuple[str, NDArray]:
        kept = [i for i in range(rank) if array.shape[i] > 1]
        shape = [array.shape[i] for i in kept] + [array.shape[-1]]
        return "".join(letters[i] for i in kept) + "z", array.reshape(shape)

    (left, p), (right, r) = varying(probs), varying(reward)
    result = "".join(letters[i] for i in range(rank) if out[i] > 1)
    return f"{left},{right}->{result}", p, r


class Stage(ABC):
    """One event of a period, as the user writes it; it may have a ``noise``."""

    subject_template: ClassVar[str]  # its name in messages, with fields of its own in braces
    pays: Function | None = None
    costs: Function | None = None
    counts: Mapping[str, float | Function] | None = None

    @property
    def subject(self) -> str:
        """Its name in messages."""
        return self.subject_template.format(**vars(self))

    @abstractmethod
    def build_operation(self, checks: FunctionChecks) -> Operation:
        """The transition of the stage, as arrays over the grid."""

    @property
    def net_reward(self) -> Function | None:
        """What it pays less what it costs."""
        return subtract_costs(self.pays, self.costs, self.subject)

    @cached_property
    def names_time(self) -> bool:
        """Whether one of its functions names the time of a period."""
        parts = [*vars(self).values(), *(self.counts or {}).values()]
        laws = [part.probabilities for part in parts if isinstance(part, Noise)]
        return any(map(names_time, [*parts, *laws]))

    def build(self, space: StateActionSpace) -> BuiltStage:
        """The stage as arrays over the grid of ``space``."""
        given = getattr(self, "noise", None)
        noise = None if given is None else tabulate_noise(space, given, self.subject)
        checks = FunctionChecks(space, self.subject, noise)
        operation = self.build_operation(checks)
        payments = {}
        for name, amount in check_counts(self.counts, self.subject).items():
            count_checks = replace(checks, subject=f"the count {name!r} of {self.subject}")
            function = amount if callable(amount) else make_constant(amount)
            payments[name] = compute_payment(count_checks, function, max_entries=0)
        if self.net_reward is not None:
            reward_checks = replace(checks, subject=f"the reward of {self.subject}")
            payments[REWARD] = compute_payment(reward_checks, self.net_reward)
        return BuiltStage(operation, payments, checks.variable)


NO_PAYMENT = Payment(None)


def make_constant(number: Any) -> Function:
    return lambda: number


@dataclass(frozen=True, eq=False)
class BuiltStage:
    """A stage as arrays: its operation on the state, and what it pays and counts."""

    operation: Operation
    payments: Mapping[str, Payment]  # of each count, and last that of the reward, if it has one
    noise: NoiseVariable | None = None

    def fingerprint_key(self) -> tuple:
        """What decides values: measures are no part of it."""
        paid = self.paid
        return self.operation, paid.expected, paid.function, self.noise, paid.error

    @property
    def paid(self) -> Payment:
        """The payment of the reward; its expectation is None where there is none."""
        return self.payments.get(REWARD, NO_PAYMENT)

    @property
    def reward(self) -> Reward | None:
        """(A | 1, *broadcast) expected over the stage's noise."""
        return self.paid.expected

    @property
    def counts(self) -> set[str]:
        """The names of what it counts."""
        return set(self.payments) - {REWARD}

    def with_reward(self, weights: Mapping[str, float]) -> BuiltStage:
        """The stage with a weighted sum of its reward and counts as its reward."""
        if not self.payments:
            return self
        terms = {n: (weights.get(n, 0.0), paid.function) for n, paid in self.payments.items()}
        total = replace(combine_payments(self.payments, weights), function=WeightedSum(terms))
        return replace(self, payments={**self.payments, REWARD: total})

    @property
    def depends_on_action(self) -> bool:
        return self.operation.depends_on_action or (
            self.reward is not None and len(self.reward) > 1
        )

    def block(self, axis: int, first: int, count: int) -> BuiltStage:
        """The same on ``count`` positions of one axis, from ``first`` on, without its counts."""
        reward = self.reward
        if isinstance(reward, ExpectedReward):
            reward = reward.block(axis, first, count)
        elif reward is not None:
            reward = take_range(reward, axis + 1, first, count)
        payments = {} if reward is None else {REWARD: replace(self.paid, expected=reward)}
        operation = self.operation.block(axis, first, count)
        return replace(self, operation=operation, payments=payments)

    def arrays(self) -> dict[str, Any]:
        reward = {} if self.reward is None else {"reward": self.reward}
        return self.operation.arrays() | reward


def subtract_costs(pays: Any, costs: Any, subject: str = "it") -> Any:
    """What is paid less what it costs, numbers or functions; None for nothing."""
    if costs is None:
        return pays
    paid = 0.0 if pays is None else pays
    if callable(pays) or callable(costs):
        terms = {f"what {subject} pays": (1.0, paid), f"what {subject} costs": (-1.0, costs)}
        return WeightedSum(terms)
    return paid - np.asarray(costs)


class WeightedSum:
    """The weighted sum of several functions, as a function of all their parameters."""

    def __init__(self, terms: Mapping[str, tuple[float, Any]]) -> None:
        self.terms = terms  # name in messages to weight and function, or number
        functions = [part for _, part in terms.values() if callable(part)]
        parameters = [p for f in functions for p in inspect.signature(f).parameters.values()]
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):  # else it takes any names
            by_name = {p.name: p.replace(kind=p.KEYWORD_ONLY) for p in parameters}
            self.__signature__ = inspect.Signature(list(by_name.values()))

    def __call__(self, /, **names: Any) -> Any:
        amounts = [
            weight * as_numbers(call_if_function(part, names, subject), subject)
            for subject, (weight, part) in self.terms.items()
        ]
        return sum(amounts[1:], start=amounts[0])


@dataclass(frozen=True, eq=False)
class Noise:
    """A finite random quantity.

    Args:
        name: what stage functions call it.
        values: (K,) its values.
        probabilities: (K,), or a function of axes and action that returns (..., K).

    Example:
        >>> dice = ts.Noise("dice", range(1, 7), np.full(6, 1 / 6))
        >>> def by_season(season):
        ...     return ts.truncated_poisson(2 + 3 * season, 8)
        ...
        >>> demand = ts.Noise("demand", range(9), by_season)
    """

    name: str
    values: Iterable
    probabilities: ArrayLike | Function


def require_list(given: Any, model: str, noun: str) -> tuple:
    """``given`` as a tuple; an error unless it is a list of at least one ``noun``."""
    require_ordered(given, f"{noun}s")
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise ModelError(f"{model} needs a list of {noun}s", value=f"got {given!r}")
    parts = tuple(given)
    if not parts:
        raise ModelError(f"{model} needs at least one {noun}")
    return parts


def require_noise(noise: object, subject: str) -> None:
    """Raise an error for anything but a ``Noise``."""
    if not isinstance(noise, Noise):
        requirement = f"{subject} needs a noise, Noise(name, values, probabilities)"
        raise ModelError(requirement, value=f"got {noise!r}")


def tabulate_noise(space: StateActionSpace, noise: Noise, subject: str) -> NoiseTable:
    """``noise`` as checked numbers."""
    values = to_plain_values(noise.values, f"{subject}: its values")
    if not values.size:
        raise ModelError(f"{subject}: a noise needs at least one value")
    variable = NoiseVariable(noise.name, values)
    space.mesh(variable)  # raises an error for a name that is taken
    n = len(values)
    result = call_if_function(noise.probabilities, space.mesh(), subject, values_per_point=n)
    probs = check_probabilities(space, result, n, f"the probabilities of {subject}")
    return NoiseTable(variable, probs)


def compute_payment(
    checks: FunctionChecks, function: Function, max_entries: int = EXPECTED_REWARD_MAX_ENTRIES
) -> Payment:
    """The expected amount (A | 1, *broadcast), sum_k p_k r_k, and a bound on its rounding.

    With more than ``max_entries`` it is kept as its factors, where these are much smaller.
    """
    amount = checks.read_rewards(checks.call(function), checks.subject)
    if amount.shape[-1] == 1:  # independent of the noise
        return Payment(amount[..., 0], 0.0, function)
    factors = ExpectedReward(checks.probs, amount)
    if math.prod(factors.shape) > max(max_entries, 2 * (checks.probs.size + amount.size)):
        error = bound_expectation_error(amount.shape[-1], factors.bound)
        return Payment(factors, error, function)
    expected = compute_expectation(checks.probs, amount)
    if (amount >= 0).all() or (amount <= 0).all():  # no second array over states is needed
        sizes = max(expected.max(), -expected.min())
    else:
        sizes = compute_expectation(checks.probs, np.abs(amount))
    return Payment(expected, bound_expectation_error(amount.shape[-1], sizes), function)


def check_counts(counts: Any, subject: str) -> Mapping[str, float | Function]:
    """The counts of a stage or event; their names must be words other than ``reward``."""
    counts = {} if counts is None else counts
    if not isinstance(counts, Mapping):
        requirement = f"the counts of {subject} must have names, as in counts={{'lost': ...}}"
        raise ModelError(requirement, value=f"got {counts!r:.60}")
    for name in counts:
        check_measure_name(name)
    return counts


def truncated_poisson(mean: ArrayLike, largest: int) -> NDArray[np.float64]:
    """(..., largest + 1) Poisson probabilities, the tail mass put on ``largest``.

    ``mean`` has shape (..., 1) or is a number; P(D = k) = m^k e^-m / k!.

    Args:
        mean: a number, or an array whose last axis has length one.
        largest: the largest value.

    Returns:
        Probabilities that sum to 1 along the last axis.

    Raises:
        ModelError: the mean is negative or not finite.

    Example:
        >>> ts.truncated_poisson(1.0, 2).round(3)
        array([0.368, 0.368, 0.264])
    """
    from scipy.special import gammainc, gammaln, xlogy

    require_whole("the end of a truncated Poisson", largest, error=ModelError)
    m = as_numbers(mean, "the mean of a Poisson")
    bad = m[~(np.isfinite(m) & (m >= 0))]
    if bad.size:
        requirement = "the mean of a Poisson must be finite and not negative"
        raise ModelError(requirement, value=f"got {format_value(float(bad[0]))}")
    if m.ndim == 0 or m.shape[-1] != 1:
        m = m[..., None]
    k = np.arange(largest + 1)
    pmf = portable_exp(xlogy(k, m) - m - gammaln(k + 1.0))
    if largest > 0:
        pmf[..., -1] = gammainc(float(largest), m[..., 0])  # P(D >= largest)
    else:
        pmf[..., -1] = 1.0
    return pmf


@dataclass(frozen=True, eq=False)
class Pay(Stage):
    """Pay or count something; the state stays.

    Args:
        pays, costs: a function of axes and action, whose result is earned or paid.
        counts: names of counts, each with a number or such a function.

    Example:
        >>> rent = ts.Pay(costs=lambda rooms: 3.0 * rooms)
        >>> ts.MDP.staged({"rooms": range(3)}, ("stay",), 0.9, [rent]).reward.ravel()
        array([ 0., -3., -6.])
    """

    pays: Function | None = None
    costs: Function | None = None
    counts: Mapping[str, float | Function] | None = None

    subject_template = "a Pay stage"

    def __post_init__(self) -> None:
        if self.pays is None and self.costs is None and self.counts is None:
            raise ModelError("a Pay stage needs what it pays, what it costs, or what it counts")

    def build_operation(self, checks: FunctionChecks) -> Operation:
        return Reshape(checks.space.grid.shape, ())


def add_scratch_axes(space: StateActionSpace, scratch: Mapping[str, Sequence]) -> StateActionSpace:
    """The state-action space with scratch axes, for the functions of stages."""
    if not isinstance(scratch, Mapping):
        requirement = "scratch axes need names and values, as in {'delivery': range(5)}"
        raise ModelError(requirement, value=f"got {scratch!r}")
    grid = space.grid
    for name in scratch:
        if name in grid.axes:
            raise ModelError(f"a scratch axis cannot be called {name!r}: an axis has this name")
    axes = dict(zip(grid.axes, grid.values, strict=True)) | dict(scratch)
    wide = make_state_action_space(StateGrid(axes), space.actions, space.action_name)
    return replace(wide, time=space.time)


def restrict_scratch_axes(
    wide: StateGrid, grid: StateGrid, stages: Sequence[BuiltStage]
) -> tuple[BuiltStage, ...]:
    """Stages on the ``wide`` grid as stages that begin and end on ``grid``."""
    restricted = [_restrict_stage(stage, grid.ndim) for stage in stages]
    wide_indices = [i for i, stage in enumerate(restricted) if stage is None]
    if wide_indices:
        first = wide_indices[0]
        last = wide_indices[-1] + 1
        open_axes = BuiltStage(Reshape(grid.shape, (), wide), {})
        forget_axes = BuiltStage(Reshape(wide.shape, (), grid), {})
        restricted[first:last] = [open_axes, *stages[first:last], forget_axes]
    return tuple(stage for stage in restricted if stage is not None)


def _restrict_stage(stage: BuiltStage, axes: int) -> BuiltStage | None:
    """The stage on the first ``axes`` alone; None where it needs the others."""
    operation = stage.operation.restrict_to_leading_axes(axes)
    payments = {
        name: replace(paid, expected=drop_trailing_axes(np.asarray(paid.expected), axes + 1))
        for name, paid in stage.payments.items()
    }
    if operation is None or any(paid.expected is None for paid in payments.values()):
        return None
    return replace(stage, operation=operation, payments=payments)
