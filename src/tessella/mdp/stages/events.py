"""Events in continuous time, and the model of periods that has the same values.

In state s under action a, event e happens at rate q_e(s, a), pays R_e and leads to s_e; meanwhile
c(s, a) is paid per unit of time, and a reward at time t counts exp(-beta t). A clock that ticks at
a constant rate L >= sum_e q_e makes periods of it (uniformisation): each tick is event e with
probability q_e / L, and otherwise nothing happens. As E exp(-beta tick) = L / (L + beta) and the
time until a tick pays c / (L + beta),

    V(s) = max_a  (c + sum_e q_e R_e) / (L + beta)
                  + L / (L + beta) * ( sum_e (q_e / L) V(s_e) + (1 - sum_e q_e / L) V(s) ),

which times L + beta is  beta V = max_a c + sum_e q_e (R_e + V(s_e) - V(s)):  this does not depend
on L, so V is the value in continuous time for any clock. With a criterion instead of an interest
rate, beta = 0 and a period lasts 1 / L on average. Numbers are rounded once: the stored
probabilities are those of rates that are off by at most a unit in the last place, and bounds hold
for the stored model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.criteria.criterion import Criterion, NumberOrArray
from tessella.criteria.discounted import Discounted
from tessella.errors import ModelError, format_value, is_number, raise_for_first
from tessella.grid import index_type, require_product
from tessella.mdp.checks import FunctionChecks
from tessella.mdp.dynamics import REWARD, ModelParts, Payment
from tessella.mdp.stages.maps import find_target_states, read_axis_updates
from tessella.mdp.stages.scatter import Scatter
from tessella.mdp.stages.stage import (
    BuiltStage,
    Function,
    check_counts,
    require_list,
    subtract_costs,
)
from tessella.mdp.stages.staged import Staged
from tessella.mdp.state_action_space import (
    NoiseTable,
    NoiseVariable,
    StateActionSpace,
    call_by_name,
    call_if_function,
)
from tessella.rounding import EPS, bound_expectation_error

# The name of the noise of a tick in messages and simulations, and its value if no event happens.
EVENT = "event"
NOTHING = "nothing"


@dataclass(frozen=True, eq=False)
class Event:
    """Something that happens at a rate.

    Args:
        name: its name.
        rate: events per unit of time: a number, or a function of axes and action.
        to: maps axis names to the values that they take then; without it nothing moves.
        pays: what is paid each time, a number or a function of axes and action, which see the
            coordinates before the move.
        costs: what it costs each time, likewise.
        counts: what measures count each time, likewise, by name.

    Example:
        >>> arrival = ts.Event("arrival", lambda queue: 2.0 * (queue < 10),
        ...                    to=lambda queue: {"queue": queue + 1}, pays=5.0)
    """

    name: str
    rate: float | Function
    to: Callable[..., Mapping[str, ArrayLike]] | None = None
    pays: float | Function | None = None
    costs: float | Function | None = None
    counts: Mapping[str, float | Function] | None = None

    @property
    def net_reward(self) -> float | Function | None:
        """What it pays less what it costs."""
        return subtract_costs(self.pays, self.costs, f"the event {self.name}")


@dataclass(frozen=True)
class Clock:
    """The relation of periods of a model to time.

    Attributes:
        rate: ticks per unit of time, the constant of uniformisation.
        interest: per unit of time; 0 under a criterion of its own.

    Example:
        >>> mdp = ts.problem("naor_admission").build()
        >>> round(mdp.clock.per_time(ts.solve(mdp).gain), 3)   # reward per unit of time
        5.768
    """

    rate: float
    interest: float = 0.0

    def per_time(self, reward: NumberOrArray) -> NumberOrArray:
        """A reward per period, such as an average, as a reward per unit of time."""
        return (self.rate + self.interest) * reward  # type: ignore[operator]

    def __str__(self) -> str:
        return f"{self.rate:g} periods per unit of time"


def average_unit(clock: Clock | None) -> tuple[float, str]:
    """How an average is written: what a reward per period is multiplied by, and its unit."""
    return (1.0, "per period") if clock is None else (clock.per_time(1.0), "per unit of time")


def uniformise(
    space: StateActionSpace,
    events: Sequence[Event],
    interest: float | Criterion,
    pays_rate: float | Function | None,
    counts_rate: Mapping[str, float | Function] | None,
    clock_rate: float | None,
    feasible: NDArray[np.bool_] | None,
) -> tuple[ModelParts, Criterion, Clock]:
    """A model in continuous time as one of periods: see ``MDP.from_rates``."""
    events = _check_events(space, events)
    require_product(space.grid, "a model from rates", error=ModelError)
    masked = space.with_feasible(feasible)
    rates = [_read_rate(masked, event) for event in events]
    total = sum(rates[1:], start=rates[0])
    clock = Clock(_choose_clock_rate(masked, total, clock_rate), _read_interest_rate(interest))
    # Infeasible pairs may have any rates; those above the rate of the clock are set to 0.
    exceeds_clock = total > clock.rate
    rates = [np.where(exceeds_clock, 0.0, rate) for rate in rates] if exceeds_clock.any() else rates
    targets = _find_event_targets(masked, events, rates)
    probs = _compute_probabilities(rates, clock)
    tick = BuiltStage(
        Scatter(space.grid.shape, tuple(range(space.grid.ndim)), targets, probs),
        _compute_payments(masked, events, rates, pays_rate, counts_rate, clock),
        NoiseVariable(EVENT, np.array([NOTHING, *(event.name for event in events)])),
    )
    criterion = interest if isinstance(interest, Criterion) else _make_discount(clock)
    return ModelParts(space, Staged(space, (tick,)), feasible), criterion, clock


def _check_events(space: StateActionSpace, events: Sequence[Event]) -> tuple[Event, ...]:
    events = require_list(events, "a model in continuous time", "event")
    for event in events:
        if not isinstance(event, Event):
            raise ModelError("events must be Event(name, rate, ...)", value=f"got {event!r}")
        if not isinstance(event.name, str) or event.name in ("", NOTHING):
            requirement = f"an event needs a name of its own, other than {NOTHING!r}"
            raise ModelError(requirement, value=f"got {event.name!r}")
    names = [event.name for event in events]
    for name in names:
        if names.count(name) > 1:
            requirement = "events must have different names"
            raise ModelError(requirement, location=name, value=f"occurs {names.count(name)} times")
    if EVENT in (*space.grid.axes, space.action_name):
        raise ModelError(f"where there are events, neither axis nor action can be called {EVENT!r}")
    return events


def _read_interest_rate(given: float | Criterion) -> float:
    """The interest rate, 0 under a criterion of its own."""
    if isinstance(given, Discounted):
        requirement = "a model in continuous time has an interest rate, not a discount per period"
        raise ModelError(requirement, value=f"got {given}")
    if isinstance(given, Criterion):
        return 0.0
    if not (is_number(given) and given > 0):
        requirement = "an interest rate must be finite and above 0; without one, give a criterion"
        raise ModelError(requirement, value=f"got {format_value(given)}")
    return float(given)


def _make_discount(clock: Clock) -> Discounted:
    discount = clock.rate / (clock.rate + clock.interest)
    if discount == 1.0:
        raise ModelError(
            "an interest rate must not be negligible against the rate of the clock",
            value=f"{format_value(clock.interest)} against {clock}",
        )
    return Discounted(discount)


def _read_rate(space: StateActionSpace, event: Event) -> NDArray[np.float64]:
    """(A | 1, *broadcast, 1) the rate of an event, checked."""
    subject = f"the rate of {event.name}"
    checks = FunctionChecks(space, subject)
    array = checks.read_numbers(call_if_function(event.rate, space.mesh(), subject), subject)
    is_invalid = ~(np.isfinite(array) & (array >= 0))
    requirement = f"{subject} must be finite and not negative"
    checks.raise_for_first(
        requirement, is_invalid, lambda p: f"is {format_value(array[p])}", "rates"
    )
    return np.where(is_invalid, 0.0, array) if is_invalid.any() else array


def _choose_clock_rate(
    space: StateActionSpace, total: NDArray[np.float64], given: float | None
) -> float:
    """The rate of the clock: the largest total rate of a pair that can occur, or one given."""
    feasible_total = total if space.feasible is None else np.where(space.feasible, total, 0.0)
    largest = float(feasible_total.max())
    if not (np.isfinite(largest) and largest > 0):
        requirement = "some event must have a positive rate, and the sum of all a finite one"
        raise ModelError(requirement, value=f"the largest sum is {format_value(largest)}")
    if given is None:
        return largest
    requirement = "the clock must tick at least as fast as all events together"
    if not is_number(given):
        got = format_value(given) if isinstance(given, Real) else repr(given)
        raise ModelError(requirement, value=f"got {got}")
    raise_for_first(
        requirement,
        feasible_total > float(given) * (1 + 64 * EPS),  # the sum may be rounded differently
        lambda p: space.describe(p, feasible_total.shape),
        lambda p: (
            f"has rates of {format_value(float(feasible_total[p]))} together, "
            f"the clock {format_value(given)}"
        ),
        "pairs",
    )
    return max(float(given), largest)


def _compute_payments(
    space: StateActionSpace,
    events: tuple[Event, ...],
    rates: list[NDArray[np.float64]],
    pays_rate: float | Function | None,
    counts_rate: Mapping[str, float | Function] | None,
    clock: Clock,
) -> dict[str, Payment]:
    """The amounts of each count and of the reward in a tick: of events, and per unit of time."""
    counts = {event.name: check_counts(event.counts, event.name) for event in events}
    over_time = check_counts(counts_rate, "the time")
    paid = {}
    for name in dict.fromkeys(chain(over_time, *counts.values())):
        amounts = {event: given[name] for event, given in counts.items() if name in given}
        paid[name] = PeriodReward(amounts, over_time.get(name), clock)
    rewards = {event.name: event.net_reward for event in events if event.net_reward is not None}
    if rewards or pays_rate is not None:
        paid[REWARD] = PeriodReward(rewards, pays_rate, clock)
    rate_of = dict(zip(counts, rates, strict=True))
    return {name: _compute_payment(space, name, paid[name], rate_of) for name in paid}


def _check_event_functions(
    space: StateActionSpace, subject: str, name: str, rate: NDArray[np.float64]
) -> FunctionChecks:
    """Checks of the functions of an event, which may return anything where its rate is 0."""
    return FunctionChecks(space, subject, NoiseTable(NoiseVariable(EVENT, np.array([name])), rate))


def _find_event_targets(
    space: StateActionSpace, events: tuple[Event, ...], rates: list[NDArray[np.float64]]
) -> NDArray[np.integer]:
    """(A | 1, 1 + K, *grid) the state after each event; first that after no event."""
    n = space.grid.size
    current_states = np.arange(n, dtype=index_type(n)).reshape(1, *space.grid.shape)
    targets: list[NDArray[np.integer]] = [current_states]
    for event, rate in zip(events, rates, strict=True):
        checks = _check_event_functions(space, f"the event {event.name}", event.name, rate)
        moved = {} if event.to is None else call_by_name(event.to, space.mesh(), checks.subject)
        targets.append(find_target_states(checks, read_axis_updates(checks, moved))[..., 0])
    return np.stack(np.broadcast_arrays(*targets), axis=1)


def _compute_probabilities(rates: list[NDArray[np.float64]], clock: Clock) -> NDArray[np.float64]:
    """(A | 1, 1 + K, *broadcast) of each event; first that of no event, at least 0."""
    shares = [rate[..., 0] / clock.rate for rate in rates]
    nothing = np.maximum(1.0 - sum(shares[1:], start=shares[0]), 0.0)
    return np.stack(np.broadcast_arrays(nothing, *shares), axis=1)


def _compute_payment(
    space: StateActionSpace, name: str, pays: PeriodReward, rates: dict[str, NDArray[np.float64]]
) -> Payment:
    """The expected amount of a period (A | 1, *broadcast), and a bound on its rounding."""
    noun = "the reward" if name == REWARD else f"the count {name!r}"
    terms = []
    if pays.reward_rate is not None:
        subject = f"{noun} per unit of time"
        given = call_if_function(pays.reward_rate, space.mesh(), subject)
        terms.append(FunctionChecks(space, subject).read_rewards(given, subject))
    for event, given in pays.event_rewards.items():
        subject = f"{noun} of the event {event}"
        checks = _check_event_functions(space, subject, event, rates[event])
        amount = checks.read_rewards(call_if_function(given, space.mesh(), subject), subject)
        with np.errstate(over="ignore"):
            terms.append(rates[event] * amount)
    per_period = 1 / (pays.clock.rate + pays.clock.interest)
    with np.errstate(over="ignore", invalid="ignore"):  # checked below
        sizes = sum(float(np.abs(term).max()) for term in terms) * per_period
        total = sum(terms[1:], start=terms[0])[..., 0] * per_period
    raise_for_first(
        "the expected reward of a period must be finite",
        ~np.isfinite(total),
        lambda p: space.describe((*p, 0), (*total.shape, 1)),
        lambda p: f"is {total[p]}",
        "rewards",
    )
    return Payment(total, bound_expectation_error(len(terms) + 2, sizes), pays)


@dataclass(frozen=True, eq=False)
class PeriodReward:
    """The payment of a period in a simulation, given the event; its mean is the reward."""

    event_rewards: dict[str, float | Function]
    reward_rate: float | Function | None
    clock: Clock

    def __call__(self, /, **names: Any) -> NDArray[np.float64]:
        drawn = np.asarray(names.pop(EVENT))
        payment = np.zeros(drawn.shape)
        if self.reward_rate is not None:
            payment = payment + call_if_function(self.reward_rate, names)
        for name, given in self.event_rewards.items():
            happens = drawn == name
            if happens.any():
                amount = np.broadcast_to(call_if_function(given, names), drawn.shape)
                payment = payment + np.where(happens, self.clock.rate * amount, 0.0)
        return payment / (self.clock.rate + self.clock.interest)
