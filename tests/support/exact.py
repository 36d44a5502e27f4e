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

    def exact(self, discount: float) -> Exact:
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


def period(n_states: int, n_actions: int, happens: Mapping[Pair, Sequence[Outcome]]) -> Period:
    """The period in which these outcomes happen; pairs without any are infeasible."""
    rows, reward, sizes = {}, {}, [ZERO]
    for pair, outcomes in happens.items():
        if not outcomes:
            continue
        row: Row = defaultdict(Fraction)
        for one in outcomes:
            if one.to is not None and one.p:
                row[one.to] += one.p
        rows[pair] = dict(row)
        reward[pair] = sum((one.p * one.reward for one in outcomes), ZERO)
        sizes.append(sum((one.weight for one in outcomes), ZERO))
    terms = max(map(len, happens.values()))
    return Period(n_states, n_actions, rows, reward, max(sizes), terms)


def paying(plain: Period, reward: Mapping[Pair, float]) -> Period:
    """The same moves, with rewards given by pair."""
    paid = {pair: Fraction(float(reward[pair])) for pair in plain.rows}
    scale = max(map(abs, paid.values()))
    return Period(plain.n_states, plain.n_actions, plain.rows, paid, scale, plain.terms)


def ask(function: Callable, names: Mapping[str, object]):
    """``function`` of those names that it has as parameters."""
    return function(**{name: names[name] for name in inspect.signature(function).parameters})


def number(x) -> Fraction:
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
                yield (s, a), self.named(s, a)

    def named(self, s: int, a: int) -> dict:
        return self.points[s] | {self.action_name: self.actions[a]}

    def state(self, point: Mapping, changed: Mapping) -> int:
        moved = {name: np.asarray(value).item() for name, value in changed.items()}
        return self.index[tuple((dict(point) | moved)[name] for name in self.axes)]

    def law(self, noise: Noise, names: Mapping) -> list[tuple[object, Fraction]]:
        """Values of a noise and their probabilities, where ``names`` stand."""
        given = noise.probabilities
        if callable(given):
            given = ask(given, {name: np.array([value]) for name, value in names.items()})
        return list(zip(list(noise.values), map(number, np.ravel(given)), strict=True))


def read_step(world: World, step: Callable, noises: Sequence[Noise]) -> Period:
    """The period of ``MDP.from_step``: noises are independent given state and action."""

    def outcomes(s: int, names: Mapping) -> Iterable[Outcome]:
        for drawn in itertools.product(*(world.law(noise, names) for noise in noises)):
            p = ONE
            for _, q in drawn:
                p *= q
            if not p:
                continue
            extra = {n.name: value for n, (value, _) in zip(noises, drawn, strict=True)}
            to, reward = ask(step, {**names, **extra})
            yield Outcome(p, world.state(world.points[s], to), number(reward))

    happens = {(s, a): list(outcomes(s, names)) for (s, a), names in world.pairs()}
    return period(len(world.points), len(world.actions), happens)


def read_stages(world: World, stages: Sequence) -> Period:
    """The period of ``MDP.staged``, from the last stage back to the first:

    rows <- E_i rows,      paid <- r_i + E_i paid.
    """
    n, n_actions = len(world.points), len(world.actions)
    pairs = list(itertools.product(range(n), range(n_actions)))
    rows = {(s, a): {s: ONE} for s, a in pairs}
    paid = dict.fromkeys(pairs, ZERO)
    scale, terms = ZERO, 0
    moves = [i for i, stage in enumerate(stages) if not isinstance(stage, Pay)]
    for i, stage in reversed(list(enumerate(stages))):
        events = {pair: _event(world, stage, *pair) for pair in pairs}
        rows = {(s, a): _mixed(events[s, a].moves, rows, a) for s, a in pairs}
        paid = {
            (s, a): events[s, a].reward + sum((p * paid[to, a] for p, to in events[s, a].moves), 0)
            for s, a in pairs
        }
        # Nothing reads what an infeasible action pays before anything has moved.
        fresh = not moves or i <= moves[0]
        read = [pair for pair, _ in world.pairs()] if fresh else pairs
        scale += max(events[pair].size for pair in read)
        terms += max(len(event.moves) for event in events.values()) + 2
    kept = [pair for pair, _ in world.pairs()]
    rows, paid = {pair: rows[pair] for pair in kept}, {pair: paid[pair] for pair in kept}
    return Period(n, n_actions, rows, paid, scale, terms)


@dataclass(frozen=True)
class Event:
    """One stage in one pair: where it leads, what it pays on average, and sum p |r|."""

    moves: list[tuple[Fraction, int]]
    reward: Fraction
    size: Fraction


def _mixed(moves: list[tuple[Fraction, int]], rows: dict[Pair, Row], a: int) -> Row:
    total: Row = defaultdict(Fraction)
    for p, between in moves:
        for to, q in rows[between, a].items():
            total[to] += p * q
    return {to: p for to, p in total.items() if p}


def _event(world: World, stage, s: int, a: int) -> Event:
    names = world.named(s, a)
    noise = stage.noise if isinstance(stage, Shift | Jump) else None
    if noise is None:
        moves = _plain_moves(world, stage, s, names)
        flat = ZERO if stage.pays is None else number(ask(stage.pays, names))
        return Event(moves, flat, abs(flat))
    law = [(value, p) for value, p in world.law(noise, names) if p]
    named = [(p, {**names, noise.name: value}) for value, p in law]
    moves = [(p, _moved(world, stage, s, extra)) for p, extra in named]
    if stage.pays is None:
        return Event(moves, ZERO, ZERO)
    if noise.name not in inspect.signature(stage.pays).parameters:
        flat = number(ask(stage.pays, names))  # paid whatever the noise is
        return Event(moves, flat, abs(flat))
    paid = [p * number(ask(stage.pays, extra)) for p, extra in named]
    return Event(moves, sum(paid, ZERO), sum(map(abs, paid), ZERO))


def _plain_moves(world: World, stage, s: int, names: Mapping) -> list[tuple[Fraction, int]]:
    if isinstance(stage, Pay):
        return [(ONE, s)]
    if isinstance(stage, Decide):
        return [(ONE, world.state(world.points[s], {stage.axis: ask(stage.to, names)}))]
    assert isinstance(stage, Move)
    values, matrix = list(world.axes[stage.axis]), stage.matrix
    if callable(matrix):
        arrays = {name: np.array([[value]]) for name, value in names.items()}
        matrix = np.reshape(ask(matrix, arrays), (len(values), len(values)))
    chances = map(number, np.asarray(matrix)[values.index(names[stage.axis])])
    return [
        (p, world.state(world.points[s], {stage.axis: value}))
        for p, value in zip(chances, values, strict=True)
        if p
    ]


def _moved(world: World, stage: Shift | Jump, s: int, names: Mapping) -> int:
    if isinstance(stage, Jump):
        return world.state(world.points[s], ask(stage.to, names))
    values = list(world.axes[stage.axis])
    by = names[stage.noise.name] if stage.by is None else np.asarray(ask(stage.by, names)).item()
    gap = values[1] - values[0] if len(values) > 1 else 1
    at = values.index(names[stage.axis]) + round(by / gap)
    if len(values) == 1:
        at = 0
    if stage.edge == "wrap":
        at %= len(values)
    while stage.edge == "reflect" and not 0 <= at < len(values):
        at = -at if at < 0 else 2 * (len(values) - 1) - at
    at = min(max(at, 0), len(values) - 1)
    return world.state(world.points[s], {stage.axis: values[at]})
