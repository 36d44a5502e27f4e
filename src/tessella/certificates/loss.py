"""The loss of a policy: `loss` evaluates it, `estimate` simulates it for very large models.

    loss(s) = V*(s) - V_pi(s),    known within the error bounds of both together;

for the average criterion it is the difference of the gains, from every state.

A certificate says much more, and proves it to anyone with the model's file; this is the figure to
compare many policies by.

n paths of T periods give returns G_i = sum_{t<T} discount^t r_t. Their mean estimates J up to what
comes after T, at most ``discount^T R / (1 - discount)`` for each policy, R the reward scale. Two
policies are compared path by path on common random numbers: both draw the same uniforms for the
same path, period and stage, so that what is luck to both cancels in the differences G'_i - G_i.
With a horizon, or to the end of a total, nothing comes after T. For an average, after w periods of
warm-up,

    G_i = (1/T) sum_{w <= t < w+T} r_t,

one number for each path, so that the standard error of their mean needs no model of how periods of
a path depend on one another. The start still biases the mean, by an amount that no bound covers.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.summary import wrap
from tessella.criteria.criterion import require_criterion
from tessella.errors import (
    ArgumentError,
    ModelError,
    PolicyError,
    is_count,
    is_positive,
    is_whole,
    require_type,
)
from tessella.mdp.as_policy import as_policy
from tessella.mdp.dynamics import as_generator
from tessella.mdp.measures import CONSTANT
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.simulate import MeasureEstimate, Rng, estimate_measure
from tessella.mdp.stages.events import average_unit
from tessella.mdp.start import Start, draw_start_states, start_distribution
from tessella.rounding import round_down, round_up
from tessella.solvers.absorbing import find_absorbing_states
from tessella.solvers.execution_plan import plan_for_policies
from tessella.solvers.policy_evaluation import (
    Evaluation,
    evaluate,
    evaluate_prepared,
    find_sum_scale,
)
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.solution import Solution
from tessella.support.text import format_money, format_percent

PATHS_PER_BATCH = 10_000  # paths that walk at once, to keep memory small
TRUNCATION_RELATIVE_TOLERANCE = 1e-6  # of R / (1 - discount): what the default horizon leaves out
AVERAGE_PERIODS = 1_000  # of a path of an average, after the warm-up
WARM_UP_SHARE = 0.5  # of the periods of a path of an average: how many come before them
TOTAL_MAX_PERIODS = 10_000  # by which every path of a total must have ended


@dataclass(frozen=True, eq=False)
class Loss:
    """What a policy loses against the optimum.

    Attributes:
        policy: the policy.
        by_state: (grid) V* - V_pi; 0 where it is no more than both errors could make.
        error_bound: by how much it may be off, in any state.
        start: (grid) distribution of the first state.
        converged: whether both values are known well enough to be of use.
    """

    policy: Policy
    by_state: NDArray[np.float64]
    error_bound: float
    start: NDArray[np.float64]
    converged: bool = True

    @property
    def mean(self) -> float:
        """Expected over the first state."""
        return float((self.start * self.by_state).sum())

    @property
    def worst(self) -> float:
        return float(self.by_state.max())

    def __str__(self) -> str:
        subject = f"Loss of {self.policy.name or 'a policy'}"
        if not self.converged:
            low = max(self.mean - self.error_bound, 0.0)
            high = self.mean + self.error_bound
            most = self.worst + self.error_bound
            ends = f"{round_down(low, 6)} and {round_up(high, 6)}"
            return f"{subject}: mean between {ends}, worst at most {round_up(most, 6)}"
        return (
            f"{subject}: mean {self.mean:.6g}, worst {self.worst:.6g}, "
            f"off by at most {round_up(self.error_bound, 2)}"
        )


def get_finite_value(solution: Solution) -> NDArray[np.float64]:
    """The solution's value (grid), rejected where it is not finite."""
    value = np.asarray(solution.value, dtype=float)
    shape = solution.mdp.grid.shape
    if value.shape != shape or not np.isfinite(value).all():
        raise ArgumentError(f"a solution's value must be finite, of shape {shape}")
    return value


def prepare_for_certificate(
    solution: Solution, absorption_time: float | None = None
) -> PreparedModel:
    """A model that evaluates policies as accurately as the optimum is known."""
    return PreparedModel(solution.policy_plan, solution.error_bound or None, absorption_time)


def evaluate_to_optimum_accuracy(
    prepared: PreparedModel, guess: NDArray, policy: Policy, noun: str = "value"
) -> Evaluation:
    """The policy's value, as accurate as the optimum's or as rounding allows."""
    evaluation = evaluate_prepared(prepared, policy, guess, partial=True)
    if not np.isfinite(evaluation.error_bound):
        raise PolicyError(f"the policy's {noun} must be finite", value=evaluation.reason)
    return evaluation


def loss(solution: Solution, policy: Any, start: Start = None) -> Loss:
    """What ``policy`` loses against the optimum of the solution's model.

    Args:
        solution: of the model.
        policy: a policy in any form: see ``tessella.as_policy``.
        start: any start: see ``tessella.mdp.start``; None for the model's own.

    Returns:
        ``mean``, ``worst`` and ``by_state``, and a bound on their error.

    Raises:
        PolicyError: the policy takes an infeasible or unknown action.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> print(f"{ts.loss(solution, lambda queue: 1 * (queue < 20)).mean:.3f}")
        2.026
    """
    require_type("loss", solution, Solution)
    solution.require_values("loss")
    mdp = solution.mdp
    checked_policy = mdp.policy(policy)
    plan = solution.policy_plan
    start_weights = start_distribution(mdp, start, checked_policy, plan).reshape(mdp.grid.shape)
    evaluation = evaluate(mdp, checked_policy, guess=solution.value, partial=True, plan=plan)
    error_bound = solution.error_bound + evaluation.error_bound
    by_state = solution.value - evaluation.value
    if solution.gain is not None and evaluation.gain is not None:
        by_state = np.full(mdp.grid.shape, solution.gain - evaluation.gain)
    is_within_error = by_state <= error_bound
    omitted_loss = float(np.max(np.abs(by_state), where=is_within_error, initial=0.0))
    by_state[is_within_error] = 0.0
    return Loss(
        checked_policy,
        by_state,
        error_bound + omitted_loss,
        start_weights,
        solution.converged and evaluation.converged,
    )


@dataclass(frozen=True)
class Estimate:
    """A simulated figure: an estimate with a confidence interval, not a certificate.

    Attributes:
        mean: of J(policy); with another policy, of J(other) - J(policy), what the policy loses.
            An average is per period.
        standard_error: of the mean.
        truncation: bound on what was cut off after the last period; 0 for averages, where what the
            start still does after the warm-up is not bounded.
        confidence: of the interval ``lower..upper``, which includes the truncation.
        paths, periods: how much was simulated; for totals ``periods`` is the limit.
        names: of the policy, and of the other.
        pairing: how many times as many unpaired paths would have been as good; None for one policy.
        warm_up: periods before those that count.
        replay: simulates the policy's paths again, and returns the sum of a count on each.
        mdp: the model.
    """

    mean: float
    standard_error: float
    truncation: float
    lower: float
    upper: float
    confidence: float
    paths: int
    periods: int
    names: tuple[str, ...]
    pairing: float | None
    warm_up: int
    replay: Callable[[str], NDArray[np.float64]] = field(repr=False, compare=False)
    mdp: MDP = field(repr=False, compare=False)

    @cached_property
    def measures(self) -> dict[str, MeasureEstimate | None]:
        """Estimates of the policy's measures, from the same paths; None for a ratio by 0."""
        formulas = self.mdp.measures
        names = set().union(*(formula.names for formula in formulas.values()))
        sums = {name: self.replay(name) for name in names}
        sums[CONSTANT] = np.ones(self.paths)
        return {name: estimate_measure(formula, sums) for name, formula in formulas.items()}

    def __str__(self) -> str:
        return self.summary()

    def summary(self) -> str:
        """The finding in words, clearly called an estimate."""
        name, *other = (f'"{n}"' if n else "the policy" for n in self.names)
        sense = self.mdp.sense
        criterion = self.mdp.criterion
        scale = find_sum_scale(self.mdp)
        subject = f"{_describe_value(self.mdp)} of {name}"
        mean, lower, upper = scale * self.mean, scale * self.lower, scale * self.upper
        if other:
            subject = f"{sense.loss} of {name} against {other[0]}"
        else:
            mean = sense.display(mean)
            lower, upper = sense.display_interval(lower, upper)
        unit = f" {average_unit(self.mdp.clock)[1]}" if criterion.has_gain else ""
        length = "to the end" if criterion.requires_absorption else f"of {self.periods:,} periods"
        if criterion.has_gain:
            length += f" after a warm-up of {self.warm_up:,}; its bias is not included"
        return wrap(
            f"Simulated estimate, not a certificate: the {subject} is {format_money(mean)}{unit}, "
            f"between {round_down(lower, 4)} and {round_up(upper, 4)} "
            f"with {format_percent(self.confidence)} confidence "
            f"({self.paths:,} paths {length})."
        )


def _describe_value(mdp: MDP) -> str:
    if mdp.criterion.has_gain:
        return mdp.sense.gain
    if mdp.criterion.requires_absorption:
        return f"total {mdp.sense.reward}"
    if mdp.criterion.has_horizon:
        return f"{mdp.sense.value} of {mdp.criterion.periods} periods"
    return f"long-run {mdp.sense.value}"


@dataclass(frozen=True)
class PathLength:
    """How many periods of a path count, at most, after how many of warm-up."""

    periods: int
    warm_up: int = 0


def estimate(
    mdp: MDP,
    policy: Any,
    other: Any = None,
    *,
    rng: Rng,
    paths: int = 10_000,
    periods: int | None = None,
    warm_up: int | None = None,
    start: Start = None,
    confidence: float = 0.95,
) -> Estimate:
    """Estimate by simulation what ``policy`` is worth, or what it loses against ``other``.

    Args:
        mdp: the model.
        paths: how many are simulated.
        confidence: of the interval, between 0 and 1.
        policy, other: a policy in any form (see ``as_policy``); a solution means its optimum.
        rng: a generator or an integer seed.
        periods: T; None for as many as leave ``1e-6 R / (1 - discount)`` after them, for a model's
            horizon, or for 1,000 of an average. Paths of a total run until they end: T is then a
            limit, by default 10,000.
        warm_up: periods of an average before those that count; None for half as many. A start that
            is remembered for longer leaves a bias, which the interval does not include.
        start: any start (see ``tessella.mdp.start``); a stationary one is that of ``policy``.

    Returns:
        An estimate with a 95 % confidence interval; it is no certificate.

    Raises:
        PolicyError: a policy takes an infeasible or unknown action.
        ModelError: the paths of a total do not end, or the process of an average may end.
        ArgumentError: there are too few paths or periods, or a warm-up without an average.

    Example:
        >>> solution = ts.solve(ts.benchmark("QUE-Lin"))
        >>> decide = lambda queue: 1 * (queue < 20)
        >>> rough = ts.estimate(solution.mdp, decide, solution, rng=1, paths=500)
        >>> rough.lower < rough.mean < rough.upper
        True
    """
    from scipy.special import stdtrit

    require_type("estimate", mdp, MDP)
    flags = ("is_discounted", "has_horizon", "has_gain", "requires_absorption")
    require_criterion("estimate", mdp.criterion, *flags)
    has_enough = is_count(paths) and paths >= 2 and (periods is None or is_count(periods))
    if not (has_enough and is_positive(confidence) and confidence < 1):
        requirement = (
            "there must be 2 paths and 1 period at least, and a confidence between 0 and 1"
        )
        raise ArgumentError(requirement, value=f"got {paths!r}, {periods!r} and {confidence!r}")
    generator = as_generator(rng)
    policies = [as_policy(mdp, p) for p in (policy, other) if p is not None]
    length = _choose_length(mdp, periods, warm_up)
    first_state = copy.deepcopy(generator)
    path_returns = _simulate_returns(mdp, policies, paths, length, start, generator)

    def replay(name: str) -> NDArray[np.float64]:
        model = mdp.with_objective({name: 1.0})
        same_draws = copy.deepcopy(first_state)
        sums = _simulate_returns(model, policies[:1], paths, length, start, same_draws)[0]
        return find_sum_scale(mdp) * sums

    sample = path_returns[0]
    pairing = None
    if other is not None:
        sample = path_returns[1] - path_returns[0]
        paired = float(sample.var(ddof=1))
        pairing = float(path_returns.var(axis=1, ddof=1).sum()) / paired if paired else math.inf
    truncation = _bound_truncation(mdp, length.periods) * len(policies)
    standard_error = float(sample.std(ddof=1)) / math.sqrt(paths)
    quantile = float(stdtrit(paths - 1, (1 + confidence) / 2))  # of Student's t, two-sided
    half_width = quantile * standard_error + truncation
    mean = float(sample.mean())
    return Estimate(
        mean,
        standard_error,
        truncation,
        mean - half_width,
        mean + half_width,
        confidence,
        paths,
        length.periods,
        tuple(p.name for p in policies),
        pairing,
        length.warm_up,
        replay,
        mdp,
    )


def _bound_truncation(mdp: MDP, periods: int) -> float:
    """What may come after that many periods, at most."""
    if mdp.criterion.has_gain or mdp.criterion.requires_absorption:
        return 0.0
    if mdp.criterion.periods is not None and periods >= mdp.criterion.periods:
        return 0.0
    return mdp.criterion.value_of_constant_reward(mdp.discount**periods * mdp.dynamics.reward_scale)


def _choose_length(mdp: MDP, periods: int | None, warm_up: int | None) -> PathLength:
    criterion = mdp.criterion
    if criterion.has_gain:
        row_sums = mdp.dynamics.row_sums
        if not criterion.contraction_gap(row_sums) > 0:
            raise ModelError(criterion.explain_unbounded(row_sums))
        periods = periods or AVERAGE_PERIODS
        length = PathLength(periods, int(WARM_UP_SHARE * periods) if warm_up is None else warm_up)
        if not is_whole(length.warm_up):
            requirement = "a warm-up is a whole number of periods, at least 0"
            raise ArgumentError(requirement, value=f"got {warm_up!r}")
        return length
    if warm_up is not None:
        raise ArgumentError(f"a warm-up is for averages, not for {criterion}")
    if criterion.requires_absorption:
        default = TOTAL_MAX_PERIODS
    elif criterion.periods is not None:
        default = criterion.periods
    else:
        discount = max(mdp.discount, TRUNCATION_RELATIVE_TOLERANCE)
        default = math.ceil(math.log(TRUNCATION_RELATIVE_TOLERANCE) / math.log(discount))
    return PathLength(periods or default)


def _simulate_returns(
    mdp: MDP,
    policies: list[Policy],
    paths: int,
    length: PathLength,
    start: Start,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """(policies, paths) returns as the criterion has them; column i is a path under each policy."""
    ends = None
    if mdp.criterion.requires_absorption:
        ends = find_absorbing_states(PreparedModel(plan_for_policies(mdp, None))).ravel()
    if isinstance(start, str):
        start = start_distribution(mdp, start, policies[0], plan_for_policies(mdp, None))
    columns = []
    for first in range(0, paths, PATHS_PER_BATCH):
        states = draw_start_states(
            mdp, start, policies[0], min(PATHS_PER_BATCH, paths - first), rng
        )
        seed = int(rng.integers(2**63))
        columns.append(
            [
                _simulate_paths(mdp, p, states, length, ends, np.random.default_rng(seed))
                for p in policies
            ]
        )
    return np.concatenate([np.array(c) for c in columns], axis=1)


def _simulate_paths(
    mdp: MDP,
    policy: Policy,
    states: NDArray,
    length: PathLength,
    ends: NDArray[np.bool_] | None,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """(n,) returns from ``states``; with ``ends`` (S,), every path must reach one of these.

    A path that has ended keeps drawing, unpaid, so that every path draws as often as every other.
    """
    returns = np.zeros(len(states))
    is_alive = np.ones(len(states), dtype=bool)
    discount_factor = 1.0
    for period in range(-length.warm_up, length.periods):
        if not is_alive.any():
            break
        transitions = mdp.dynamics.step(states, policy.at(states).astype(np.int64), rng)
        if period >= 0:
            returns += np.where(is_alive, discount_factor * transitions.rewards, 0.0)
        states = transitions.next_states
        is_alive = is_alive & ~transitions.ended
        if ends is not None:
            is_alive = is_alive & ~ends[states]
        discount_factor = discount_factor * mdp.discount
    if ends is not None and is_alive.any():
        name = f'"{policy.name}"' if policy.name else "the policy"
        value = f"{is_alive.sum():,} of {len(is_alive):,} paths of {name} had not ended"
        raise ModelError(
            "the total reward needs paths that end",
            location=f"after {length.periods:,} periods (periods= sets the limit)",
            value=value,
        )
    return returns / length.periods if mdp.criterion.has_gain else returns
