"""One period of a model in fractions, read from what its author wrote and from nothing else.

Functions are called with plain numbers, one state, action and outcome at a time; each float that
they return counts as the rational number that it is, and every sum and product is exact:

    P(s' | s, a) = sum of p over the outcomes that lead to s',      r(s, a) = sum p r.

No array and no line of the package is used, so what the package rounds while it builds a model
shows as a difference. Rows need not sum to 1: what the author wrote is not mended.
"""

from __future__ import annotations

import inspect
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from support.models import Exact
from tessella.mdp.stages import Decide, Jump, Move, Noise, Pay, Shift

Pair = tuple[int, int]  # state, action
Row = dict[int, Fraction]
ZERO, ONE = Fraction(0), Fraction(1)


@dataclass(frozen=True)
class Period:
    """What happens in one period, for the feasible pairs.

    Attributes:
        scale: largest sum of p |r| over the outcomes of a pair; of stages, the sum of the largest.
        terms: most numbers that are added up for one pair.
    """

    n_states: int
    n_actions: int
    rows: dict[Pair, Row]
    reward: dict[Pair, Fraction]
    scale: Fraction
    terms: int

    @cached_property
    def feasible(self) -> np.ndarray:
        mask = np.zeros((self.n_states, self.n_actions), bool)
        mask[tuple(zip(*self.rows, strict=True))] = True
        return mask

    def to_exact(self, discount: float) -> Exact:
        """Rational policy iteration on it."""
        P = np.full((self.n_actions, self.n_states, self.n_states), ZERO)
        r = np.full((self.n_states, self.n_actions), ZERO)
        for (s, a), row in self.rows.items():
            r[s, a] = self.reward[s, a]
            for to, p in row.items():
                P[a, s, to] = p
        return Exact(P, r, discount, self.feasible)


@dataclass(frozen=True)
class Outcome:
    """One of the things that can happen in a pair; ``to`` is None where the process ends.

    ``size`` is the sum of sizes of what makes up the reward, where that was a sum.
    """

    p: Fraction
    to: int | None
    reward: Fraction
    size: Fraction | None = None

    @property
    def weight(self) -> Fraction:
        return self.p * (abs(self.reward) if self.size is None else self.size)


def build_period(
    n_states: int, n_actions: int, outcomes_by_pair: Mapping[Pair, Sequence[Outcome]]
) -> Period:
    """The period in which these outcomes happen; pairs without any are infeasible."""
    rows, reward, sizes = {}, {}, [ZERO]
    for pair, outcomes in outcomes_by_pair.items():
        if not outcomes:
            continue
        row: Row = defaultdict(Fraction)
        for outcome in outcomes:
            if outcome.to is not None and outcome.p:
                row[outcome.to] += outcome.p
        rows[pair] = dict(row)
        reward[pair] = sum((outcome.p * outcome.reward for outcome in outcomes), ZERO)
        sizes.append(sum((outcome.weight for outcome in outcomes), ZERO))
    terms = max(map(len, outcomes_by_pair.values()))
    return Period(n_states, n_actions, rows, reward, max(sizes), terms)


def replace_rewards(moves: Period, reward: Mapping[Pair, float]) -> Period:
    """The same moves, with rewards given by pair."""
    rewards = {pair: Fraction(float(reward[pair])) for pair in moves.rows}
    scale = max(map(abs, rewards.values()))
    return Period(moves.n_states, moves.n_actions, moves.rows, rewards, scale, moves.terms)


def call_with(function: Callable, names: Mapping[str, object]):
    """``function`` of those names that it has as parameters."""
    return function(**{name: names[name] for name in inspect.signature(function).parameters})


def to_fraction(x) -> Fraction:
    return Fraction(float(np.asarray(x).item()))


@dataclass(frozen=True)
class World:
    """Axes and actions, with a plain reading of what functions of them say."""

    axes: Mapping[str, Sequence]
    actions: Sequence
    feasible: np.ndarray | None = None  # (S, A)
    action_name: str = "action"

    @cached_property
    def points(self) -> list[dict]:
        return [
            dict(zip(self.axes, values, strict=True))
            for values in itertools.product(*self.axes.values())
        ]

    @cached_property
    def index(self) -> dict[tuple, int]:
        return {tuple(point.values()): s for s, point in enumerate(self.points)}

    def pairs(self) -> Iterable[tuple[Pair, dict]]:
        """Each feasible pair, with what its functions may name."""
        for s, a in itertools.product(range(len(self.points)), range(len(self.actions))):
            if self.feasible is None or self.feasible[s, a]:
                yield (s, a), self.name_values(s, a)

    def name_values(self, s: int, a: int) -> dict:
        return self.points[s] | {self.action_name: self.actions[a]}

    def find_state(self, point: Mapping, changes: Mapping) -> int:
        new_values = {name: np.asarray(value).item() for name, value in changes.items()}
        return self.index[tuple((dict(point) | new_values)[name] for name in self.axes)]

    def list_outcomes(self, noise: Noise, names: Mapping) -> list[tuple[object, Fraction]]:
        """Values of a noise and their probabilities, where ``names`` stand."""
        probabilities = noise.probabilities
        if callable(probabilities):
            probabilities = call_with(
                probabilities, {name: np.array([value]) for name, value in names.items()}
            )
        return list(zip(list(noise.values), map(to_fraction, np.ravel(probabilities)), strict=True))


def read_step(world: World, step: Callable, noises: Sequence[Noise]) -> Period:
    """The period of ``MDP.from_step``: noises are independent given state and action."""

    def outcomes(s: int, names: Mapping) -> Iterable[Outcome]:
        for combination in itertools.product(
            *(world.list_outcomes(noise, names) for noise in noises)
        ):
            p = ONE
            for _, q in combination:
                p *= q
            if not p:
                continue
            extra = {n.name: value for n, (value, _) in zip(noises, combination, strict=True)}
            to, reward = call_with(step, {**names, **extra})
            yield Outcome(p, world.find_state(world.points[s], to), to_fraction(reward))

    outcomes_by_pair = {(s, a): list(outcomes(s, names)) for (s, a), names in world.pairs()}
    return build_period(len(world.points), len(world.actions), outcomes_by_pair)


def read_stages(world: World, stages: Sequence) -> Period:
    """The period of ``MDP.staged``, from the last stage back to the first:

    rows <- E_i rows,      rewards <- r_i + E_i rewards.
    """
    n, n_actions = len(world.points), len(world.actions)
    pairs = list(itertools.product(range(n), range(n_actions)))
    feasible = [pair for pair, _ in world.pairs()]
    rows: dict[Pair, Row] = {(s, a): {s: ONE} for s, a in pairs}
    rewards = dict.fromkeys(pairs, ZERO)
    scale, terms = ZERO, 0
    first_move = _find_first_move(stages)
    for i, stage in reversed(list(enumerate(stages))):
        events = {pair: _read_event(world, stage, *pair) for pair in pairs}
        rows, rewards = _fold_events(events, rows, rewards)
        # Up to the first move, what an infeasible action pays has no effect.
        scale += max(events[pair].size for pair in (feasible if i <= first_move else pairs))
        terms += max(len(event.moves) for event in events.values()) + 2
    rows = {pair: rows[pair] for pair in feasible}
    return Period(n, n_actions, rows, {pair: rewards[pair] for pair in feasible}, scale, terms)


def _find_first_move(stages: Sequence) -> int:
    """The first stage that may move the state, or their number."""
    moving = [i for i, stage in enumerate(stages) if not isinstance(stage, Pay)]
    return min(moving, default=len(stages))


def _fold_events(
    events: Mapping[Pair, Event], rows: dict[Pair, Row], rewards: dict[Pair, Fraction]
) -> tuple[dict[Pair, Row], dict[Pair, Fraction]]:
    """Rows and rewards from before one stage, given those from after it."""
    return (
        {(s, a): _mix_rows(event.moves, rows, a) for (s, a), event in events.items()},
        {(s, a): _add_reward(event, rewards, a) for (s, a), event in events.items()},
    )


@dataclass(frozen=True)
class Event:
    """One stage in one pair: where it leads, what it pays on average, and sum p |r|."""

    moves: list[tuple[Fraction, int]]
    reward: Fraction
    size: Fraction


def _mix_rows(moves: list[tuple[Fraction, int]], rows: dict[Pair, Row], a: int) -> Row:
    total: Row = defaultdict(Fraction)
    for p, between in moves:
        for to, q in rows[between, a].items():
            total[to] += p * q
    return {to: p for to, p in total.items() if p}


def _add_reward(event: Event, rewards: Mapping[Pair, Fraction], a: int) -> Fraction:
    """What an event pays, and what later events pay on average."""
    return event.reward + sum((p * rewards[to, a] for p, to in event.moves), ZERO)


def _read_event(world: World, stage, s: int, a: int) -> Event:
    names = world.name_values(s, a)
    if not isinstance(stage, Shift | Jump):
        return _make_event(stage, names, _list_moves(world, stage, s, names))
    noise = stage.noise
    law = [(value, p) for value, p in world.list_outcomes(noise, names) if p]
    outcomes = [(p, {**names, noise.name: value}) for value, p in law]
    moves = [(p, _find_target(world, stage, s, extra)) for p, extra in outcomes]
    if stage.pays is None or noise.name not in inspect.signature(stage.pays).parameters:
        return _make_event(stage, names, moves)
    parts = [p * to_fraction(call_with(stage.pays, extra)) for p, extra in outcomes]
    return Event(moves, sum(parts, ZERO), sum(map(abs, parts), ZERO))


def _make_event(stage, names: Mapping, moves: list[tuple[Fraction, int]]) -> Event:
    """An event whose reward does not depend on a noise."""
    reward = ZERO if stage.pays is None else to_fraction(call_with(stage.pays, names))
    return Event(moves, reward, abs(reward))


def _list_moves(world: World, stage, s: int, names: Mapping) -> list[tuple[Fraction, int]]:
    if isinstance(stage, Pay):
        return [(ONE, s)]
    if isinstance(stage, Decide):
        return [(ONE, world.find_state(world.points[s], {stage.axis: call_with(stage.to, names)}))]
    assert isinstance(stage, Move)
    values, matrix = list(world.axes[stage.axis]), stage.matrix
    if callable(matrix):
        arrays = {name: np.array([[value]]) for name, value in names.items()}
        matrix = np.reshape(call_with(matrix, arrays), (len(values), len(values)))
    chances = map(to_fraction, np.asarray(matrix)[values.index(names[stage.axis])])
    return [
        (p, world.find_state(world.points[s], {stage.axis: value}))
        for p, value in zip(chances, values, strict=True)
        if p
    ]


def _find_target(world: World, stage: Shift | Jump, s: int, names: Mapping) -> int:
    if isinstance(stage, Jump):
        return world.find_state(world.points[s], call_with(stage.to, names))
    values = list(world.axes[stage.axis])
    by = (
        names[stage.noise.name]
        if stage.by is None
        else np.asarray(call_with(stage.by, names)).item()
    )
    gap = values[1] - values[0] if len(values) > 1 else 1
    at = values.index(names[stage.axis]) + round(by / gap)
    if len(values) == 1:
        at = 0
    if stage.edge == "wrap":
        at %= len(values)
    while stage.edge == "reflect" and not 0 <= at < len(values):
        at = -at if at < 0 else 2 * (len(values) - 1) - at
    at = min(max(at, 0), len(values) - 1)
    return world.find_state(world.points[s], {stage.axis: values[at]})
