"""Small worlds with 1 to 4 axes and every kind of stage, and a slow scalar reading of them.

The slow reading walks through the stages one state, one action and one outcome at a time in plain
Python. It shares the stage functions with the package, and no line of its code.
"""

from __future__ import annotations

import inspect
import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace

import numpy as np
import pytest

from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Jump, Move, Noise, Pay, Shift


@dataclass(frozen=True, eq=False)
class World:
    """A staged model and the list of everything that can happen in it."""

    name: str
    axes: dict
    actions: tuple
    stages: list
    feasible: object = None
    discount: float = 0.9
    action_name: str = "action"
    outcomes: dict = field(default_factory=dict)  # (s, a) -> {(s', reward): probability}

    @cached_property
    def staged(self) -> MDP:
        return MDP.staged(
            self.axes,
            self.actions,
            self.discount,
            self.stages,
            feasible=self.feasible,
            action_name=self.action_name,
        )

    @cached_property
    def points(self) -> list[dict]:
        return [
            dict(zip(self.axes, values, strict=True))
            for values in itertools.product(*self.axes.values())
        ]

    @cached_property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """P (A, S, S), r (S, A) and feasible (S, A), by a triple loop."""
        n, n_actions = len(self.points), len(self.actions)
        P, r = np.zeros((n_actions, n, n)), np.zeros((n, n_actions))
        mask = np.zeros((n, n_actions), dtype=bool)
        for (s, a), law in self.outcomes.items():
            mask[s, a] = True
            for (to, reward), p in law.items():
                P[a, s, to] += p
                r[s, a] += p * reward
        return P, r, mask

    @cached_property
    def tabular(self) -> MDP:
        P, r, mask = self.arrays
        return MDP.from_arrays(
            P,
            r,
            self.discount,
            grid=self.axes,
            actions=self.actions,
            feasible=mask,
            action_name=self.action_name,
        )

    @cached_property
    def staged_as_table(self) -> MDP:
        """The staged model's own arrays as a tabular model."""
        pairs, mdp = self.staged.to_pairs(), self.staged
        return MDP.from_pairs(
            pairs.states,
            pairs.choices,
            pairs.transition,
            pairs.reward,
            self.discount,
            grid=mdp.grid,
            actions=mdp.actions,
            action_name=mdp.action_name,
        )

    @cached_property
    def by_outcome(self) -> MDP:
        """A tabular model that pays by outcome, from a toy-text table."""
        n, n_actions = len(self.points), len(self.actions)
        table = {s: {a: [] for a in range(n_actions)} for s in range(n)}
        for (s, a), law in self.outcomes.items():
            table[s][a] = [(p, to, reward, False) for (to, reward), p in law.items()]
        return MDP.from_gymnasium(SimpleNamespace(P=table), self.discount)


def ask(function, names: dict):
    """``function`` of those names that it has as parameters."""
    wanted = inspect.signature(function).parameters
    return function(**{name: names[name] for name in wanted})


def fold(x: int, n: int) -> int:
    """Walk ``x`` back between mirrors at 0 and n - 1, one reflection at a time."""
    while not 0 <= x < n:
        x = -x if x < 0 else 2 * (n - 1) - x
    return x


def happen(stage, axes: dict, names: dict):
    """(probability, reward, changed coordinates) of each outcome of one stage, from one state."""

    def paid(extra=None) -> float:
        if stage.pays is None:
            return 0.0
        return float(ask(stage.pays, names | (extra or {})))

    def law(noise: Noise):
        arrays = {key: np.array([value]) for key, value in names.items()}
        given = noise.probabilities
        p = np.ravel(ask(given, arrays) if callable(given) else given)
        return list(zip(list(noise.values), p, strict=True))

    if isinstance(stage, Pay):
        yield 1.0, paid(), {}
    elif isinstance(stage, Decide):
        yield 1.0, paid(), {stage.axis: ask(stage.to, names)}
    elif isinstance(stage, Shift):
        values = list(axes[stage.axis])
        gap = values[1] - values[0] if len(values) > 1 else 1
        for value, p in law(stage.noise):
            extra = {stage.noise.name: value}
            by = value if stage.by is None else ask(stage.by, names | extra)
            at = values.index(names[stage.axis]) + round(by / gap)
            if stage.edge == "reflect":
                at = fold(at, len(values)) if len(values) > 1 else 0
            elif stage.edge == "wrap":
                at %= len(values)
            elif stage.edge == "clip":
                at = min(max(at, 0), len(values) - 1)
            if p > 0:
                yield p, paid(extra), {stage.axis: values[at]}
    elif isinstance(stage, Move):
        values = list(axes[stage.axis])
        matrix = stage.matrix
        if callable(matrix):
            arrays = {key: np.array([[value]]) for key, value in names.items()}
            matrix = np.reshape(ask(matrix, arrays), (len(values), len(values)))
        for value, p in zip(values, matrix[values.index(names[stage.axis])], strict=True):
            yield p, paid(), {stage.axis: value}
    elif isinstance(stage, Jump):
        for value, p in law(stage.noise):
            extra = {stage.noise.name: value}
            yield p, paid(extra), dict(ask(stage.to, names | extra)) if p > 0 else {}


def play(world: World) -> World:
    """The world with its outcomes filled in."""
    index = {tuple(point.values()): s for s, point in enumerate(world.points)}
    for s, point in enumerate(world.points):
        for a, action in enumerate(world.actions):
            chosen = {world.action_name: action}
            if world.feasible is not None and not ask(world.feasible, point | chosen):
                continue
            branches = [(1.0, 0.0, dict(point))]
            for stage in world.stages:
                branches = [
                    (q * p, total + reward, here | _listed(world.axes, changed))
                    for q, total, here in branches
                    for p, reward, changed in happen(stage, world.axes, here | chosen)
                    if p > 0
                ]
            law = defaultdict(float)
            for p, reward, here in branches:
                law[index[tuple(here.values())], reward] += p
            world.outcomes[s, a] = dict(law)
    return world


def _listed(axes: dict, changed: dict) -> dict:
    """New values as the axis lists them: 0.1 + 0.2 is the 0.3 of the axis."""
    changed = {name: np.asarray(value).item() for name, value in changed.items()}
    return {
        name: value if isinstance(value, str) else min(axes[name], key=lambda x: abs(x - value))
        for name, value in changed.items()
    }


def one_axis() -> World:
    """Text actions, a decision, a mirrored shift given its own place, a chain given the action."""
    rng = np.random.default_rng(1)
    chains = {"hold": rng.dirichlet(np.ones(6), 6), "push": rng.dirichlet(np.ones(6), 6)}
    return World(
        "one",
        {"level": [0, 1, 2, 3, 4, 5]},
        ("hold", "push"),
        [
            Pay(lambda level, action: np.where(action == "push", -1.5, 0.25) * level),
            Decide("level", to=lambda level, action: np.where(action == "push", 5 - level, level)),
            Shift(
                "level",
                Noise("gust", [-8, -1, 0, 2], lambda level: _softmax(level, [0.1, 0.2, 0.0, -0.3])),
                edge="reflect",
                pays=lambda level, gust: level * gust - 0.5,
            ),
            Move(
                "level",
                matrix=lambda action: np.where(action == "push", chains["push"], chains["hold"]),
                pays=lambda level: 0.1 * level**2,
            ),
        ],
    )


def two_axes() -> World:
    """Infeasible orders that leave the grid, a shift that must not, a banded chain, floats."""
    band = np.zeros((12, 12))
    for x in range(12):
        for to, p in ((max(x - 1, 0), 0.2), (x, 0.5), (min(x + 1, 11), 0.3)):
            band[x, to] += p
    return World(
        "two",
        {"stock": [0, 1, 2, 3, 4], "price": [0.1 * (12 - k) for k in range(12)]},
        (0, 1, 3),
        [
            Decide(
                "stock",
                to=lambda stock, order: stock + order,
                pays=lambda order, price: -order * price,
            ),
            Shift(
                "stock",
                Noise("demand", [0, 1, 2], lambda stock: _truncated(stock)),
                by=lambda demand: -demand,
                edge="error",
                pays=lambda demand, price: 2 * price * demand,
            ),
            Shift("price", Noise("drift", [-0.2, 0.1], [0.5, 0.5])),
            Move("price", band),
        ],
        feasible=lambda stock, order: stock + order <= 4,
        action_name="order",
    )


def three_axes() -> World:
    """Nine actions, a text axis, an axis of one value, a chain given an axis and the action."""
    rng = np.random.default_rng(3)
    chains = rng.dirichlet(np.ones(3), (9, 4, 3))
    return World(
        "three",
        {"mood": ["calm", "tense", "wild"], "x": [3, 2, 1, 0], "alone": [7]},
        tuple(range(9)),
        [
            Shift(
                "x",
                Noise("kick", [-1, 0, 1], lambda mood, action: _lean(mood, action)),
                by=lambda kick, action: kick * (action - 4),
                pays=lambda x, kick, mood, action: (
                    (x - kick) * np.where(mood == "calm", 1, -action)
                ),
            ),
            Move("mood", lambda x, action: chains[action[..., 0, 0], x[..., 0, 0]]),
            Pay(lambda alone, x: 0.01 * alone * x),
            Shift("alone", Noise("nothing", [5, -3], [0.25, 0.75]), pays=lambda nothing: nothing),
        ],
    )


def four_axes() -> World:
    """One noise moves three coordinates at once, then decisions and shifts given the others."""
    return World(
        "four",
        {"a": [0, 1, 2], "b": [0, 1], "c": [-1, 0, 1], "d": [0.0, 0.5]},
        (0, 1),
        [
            Jump(
                Noise("swap", [0, 1, 2], lambda d, go: _softmax(d + go, [0.5, -1, 1])),
                to=lambda a, b, c, swap, go: {
                    "a": np.where(swap == 1, (a + go) % 3, a),
                    "c": np.where(swap == 2, -c, c),
                    "b": (b + swap * go) % 2,
                },
                pays=lambda a, c, swap: a * swap + c,
            ),
            Decide("c", to=lambda a, c, go: np.where(go == 1, np.minimum(c + a, 1), c)),
            Shift(
                "a",
                Noise("step", [-3, 1, 5], lambda c, d: _softmax(c * d, [0.3, 0.1, -0.4])),
                edge="reflect",
                pays=lambda b, step: b * step,
            ),
            Move("d", lambda b: np.where(b == 1, np.eye(2)[::-1], np.full((2, 2), 0.5))),
            Pay(lambda d, go: d - go),
        ],
        action_name="go",
    )


def _softmax(x, weights) -> np.ndarray:
    """(..., K) positive probabilities that lean with x, which has a trailing axis of length 1."""
    raw = np.exp(np.asarray(x, dtype=float) * np.asarray(weights))
    return raw / raw.sum(axis=-1, keepdims=True)


def _lean(mood, action) -> np.ndarray:
    return _softmax((mood == "wild") * 1.0 - 0.1 * action, [1, 0, 2])


def _truncated(stock) -> np.ndarray:
    """(..., 3) probabilities of 0, 1, 2 that never take more than there is."""
    raw = np.where(np.arange(3) <= stock, [0.5, 0.3, 0.2], 0.0)
    return raw / raw.sum(axis=-1, keepdims=True)


MAKERS = (one_axis, two_axes, three_axes, four_axes)


@pytest.fixture(scope="session", params=MAKERS, ids=[maker.__name__ for maker in MAKERS])
def world(request) -> World:
    return play(request.param())


@pytest.fixture(scope="session")
def make_world():
    """Any world, with its outcomes filled in by the slow reading."""
    return lambda *args, **kwargs: play(World(*args, **kwargs))
