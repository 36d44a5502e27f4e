"""The loss of a policy: `loss` evaluates it, `estimate` simulates it for very large models.

    loss(s) = V*(s) - V_pi(s),    known within the error bounds of both together;

for the average criterion it is the difference of the gains, from every state.

A certificate says much more, and proves it to whoever has the model's file; this is the figure to
compare many policies by.

n paths of T periods give returns G_i = sum_{t<T} discount^t r_t. Their mean estimates J up to what
comes after T, at most ``discount^T R / (1 - discount)`` for each policy, R the reward scale. Two
policies are compared path by path on common random numbers: both draw the same uniforms for the
same path, period and stage, so that what is luck to both cancels in the differences G'_i - G_i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.summary import wrap
from tessella.criteria.criterion import require_criterion
from tessella.errors import ArgumentError, PolicyError, is_count, is_positive, require_type
from tessella.mdp.as_policy import as_policy
from tessella.mdp.dynamics import as_generator
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.simulate import Rng
from tessella.mdp.start import Start, draw_start_states, start_distribution
from tessella.rounding import round_down, round_up
from tessella.solvers.execution_plan import plan_for_policies
from tessella.solvers.policy_evaluation import Evaluation, evaluate, evaluate_prepared
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.solution import Solution
from tessella.support.sense import sense_of
from tessella.support.text import format_money, format_percent

PATHS_PER_BATCH = 10_000  # paths that walk at once, to keep memory small
TRUNCATION_RELATIVE_TOLERANCE = 1e-6  # of R / (1 - discount): what the default horizon leaves out


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
    """The solution's value (grid), refused where it is not finite."""
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
        policy: whatever decides: see ``tessella.as_policy``.
        start: any start: see ``tessella.mdp.start``; None for the model's own.
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
        standard_error: of the mean.
        truncation: bound on what was cut off after the last period.
        confidence: of the interval ``lower..upper``, which includes the truncation.
        paths, periods: how much was simulated.
        names: of the policy, and of the other.
        pairing: how many times as many unpaired paths would have been as good; None for one policy.
        minimise: whether the model is stated in costs; then the summary speaks of them.
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
    minimise: bool = False

    def __str__(self) -> str:
        return self.summary()

    def summary(self) -> str:
        """The finding in words, clearly called an estimate."""
        name, *other = (f'"{n}"' if n else "the policy" for n in self.names)
        sense = sense_of(self.minimise)
        subject = f"long-run {sense.value} of {name}"
        mean, lower, upper = self.mean, self.lower, self.upper
        if other:
            subject = f"{sense.loss} of {name} against {other[0]}"
        else:
            mean = sense.display(self.mean)
            lower, upper = sense.display_interval(self.lower, self.upper)
        return wrap(
            f"Simulated estimate, not a certificate: the {subject} is {format_money(mean)}, "
            f"between {round_down(lower, 4)} and {round_up(upper, 4)} "
            f"with {format_percent(self.confidence)} confidence "
            f"({self.paths:,} paths of {self.periods:,} periods)."
        )


def estimate(
    mdp: MDP,
    policy: Any,
    other: Any = None,
    *,
    rng: Rng,
    paths: int = 10_000,
    periods: int | None = None,
    start: Start = None,
    confidence: float = 0.95,
) -> Estimate:
    """Estimate by simulation what ``policy`` is worth, or what it loses against ``other``.

    Args:
        policy, other: whatever decides (see ``as_policy``); a solution stands for its optimum.
        rng: a generator or an integer seed.
        periods: T; None for as many as leave ``1e-6 R / (1 - discount)`` after them, or for a
            model's horizon.
        start: any start (see ``tessella.mdp.start``); stationary under ``policy``.
    """
    from scipy.special import stdtrit

    require_type("estimate", mdp, MDP)
    require_criterion("estimate", mdp.criterion, "is_discounted", "has_horizon")
    _check_sample_sizes(paths, periods, confidence)
    draws = as_generator(rng)
    policies = [as_policy(mdp, p) for p in (policy, other) if p is not None]
    horizon = _choose_horizon(mdp) if periods is None else periods
    path_returns = _simulate_returns(mdp, policies, paths, horizon, start, draws)
    sample = path_returns[-1] - path_returns[0] if other is not None else path_returns[0]
    truncation = _bound_truncation(mdp, horizon) * len(policies)
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
        horizon,
        tuple(p.name for p in policies),
        _compute_pairing(path_returns, sample) if other is not None else None,
        mdp.minimise,
    )


def _check_sample_sizes(paths: int, periods: int | None, confidence: float) -> None:
    has_enough = is_count(paths) and paths >= 2 and (periods is None or is_count(periods))
    if not (has_enough and is_positive(confidence) and confidence < 1):
        requirement = (
            "there must be 2 paths and 1 period at least, and a confidence between 0 and 1"
        )
        raise ArgumentError(requirement, value=f"got {paths!r}, {periods!r} and {confidence!r}")


def _bound_truncation(mdp: MDP, periods: int) -> float:
    """What may come after so many periods, at most."""
    if mdp.criterion.periods is not None and periods >= mdp.criterion.periods:
        return 0.0
    return mdp.criterion.value_of_constant_reward(mdp.discount**periods * mdp.dynamics.reward_scale)


def _choose_horizon(mdp: MDP) -> int:
    if mdp.criterion.periods is not None:
        return mdp.criterion.periods
    if mdp.discount == 0:
        return 1
    return max(math.ceil(math.log(TRUNCATION_RELATIVE_TOLERANCE) / math.log(mdp.discount)), 1)


def _compute_pairing(path_returns: NDArray, sample: NDArray) -> float:
    paired = float(sample.var(ddof=1))
    unpaired = float(path_returns.var(axis=1, ddof=1).sum())
    return unpaired / paired if paired > 0 else math.inf


def _simulate_returns(
    mdp: MDP,
    policies: list[Policy],
    paths: int,
    periods: int,
    start: Start,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """(policies, paths) discounted returns; column i is one path under each policy."""
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
                _simulate_paths(mdp, p, states, periods, np.random.default_rng(seed))
                for p in policies
            ]
        )
    return np.concatenate([np.array(c) for c in columns], axis=1)


def _simulate_paths(
    mdp: MDP, policy: Policy, states: NDArray, periods: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """(n,) returns from ``states``.

    A path that has ended keeps drawing, unpaid, so that every path draws as often as every other.
    """
    returns = np.zeros(len(states))
    is_alive = np.ones(len(states), dtype=bool)
    discount_factor = 1.0
    for _ in range(periods):
        transitions = mdp.dynamics.step(states, policy.at(states).astype(np.int64), rng)
        returns += np.where(is_alive, discount_factor * transitions.rewards, 0.0)
        states = transitions.next_states
        is_alive = is_alive & ~transitions.ended
        discount_factor = discount_factor * mdp.discount
        if not is_alive.any():
            break
    return returns
