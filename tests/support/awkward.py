"""Random models of every way of building, with awkward numbers, each beside its exact period.

    case("step", 7)     the seventh model of that kind, always the same

Payments that cancel, rewards of 1e15, probabilities like 0.1 and rows that miss 1 by up to 1e-9.
The kinds of ``BUILDINGS`` keep to few array shapes, since each shape compiles for seconds.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp

import tessella as ts
from support.exact import Outcome, Period, World, paying, period, read_stages, read_step
from support.models import Exact
from tessella.mdp.stages import Decide, Jump, Move, Noise, Pay, Shift

DISCOUNTS = (0.0, 0.3, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999)
STATES, ACTIONS = 4, 2  # of the kinds that end as tables
OFF = 0.9e-9  # how far a row may miss 1
STYLES = ("plain", "whole", "tenths", "huge", "mixed", "cancel", "cancel", "cancel")


@dataclass(frozen=True)
class Case:
    """A model as the package builds it, and the same model in fractions."""

    kind: str
    seed: int
    mdp: ts.MDP
    period: Period

    @property
    def exact(self) -> Exact:
        return self.period.exact(self.mdp.discount)

    @property
    def limit(self) -> float:
        """What a bound on a value may be: 11 digits of scale / (1 - discount), or the rounding
        of the values' own backups, at most K eps of the largest value, summed over all periods."""
        left = 1 - self.mdp.discount
        rounding = 8 * (self.period.terms + 16) * np.finfo(float).eps / left
        return float(self.period.scale) / left * max(1e-11, rounding)

    def __str__(self) -> str:
        return f"{self.kind} {self.seed}"


def depends(names: Sequence[str], table: np.ndarray) -> Callable:
    """A function of ``names`` that looks its result up: names have values 0, 1, 2, ..."""

    def look_up(**given):
        where = np.broadcast_arrays(*(np.asarray(given[name]) for name in names))
        return table[tuple(where)] if names else table

    return signed(look_up, names)


def signed(function: Callable, names: Iterable[str]) -> Callable:
    """``function`` as one that takes ``names``."""
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(name, kind) for name in names]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


class Draws:
    """Awkward numbers from one generator; the style is drawn once for each model."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.discount = float(rng.choice(DISCOUNTS))
        self.style = str(rng.choice(STYLES))
        self.chances = str(rng.choice(["any", "tenths", "thirds", "off", "sparse"]))
        self.unit = 10.0 ** int(rng.choice([-9, 0, 0, 15]))

    def row(self, count: int) -> np.ndarray:
        """(count,) probabilities."""
        if count == 1:
            return np.ones(1)
        rng, chances = self.rng, self.chances
        if chances == "tenths":
            parts = rng.multinomial(10, np.full(count, 1 / count)) / 10
            return parts if abs(parts.sum() - 1) < OFF else np.full(count, 1 / count)
        if chances == "thirds":
            return rng.permutation(np.where(np.arange(count) % 2, 1.0, 2.0)) / (
                count + -(-count // 2)
            )
        row = rng.dirichlet(np.ones(count))
        if chances == "sparse" and count > 2:
            row[rng.integers(count)] = 0.0
            row /= row.sum()
        return row * (1 + rng.uniform(-OFF, OFF)) if chances == "off" else row

    def rows(self, lengths: Sequence[int], count: int) -> np.ndarray:
        rows = [self.row(count) for _ in range(int(np.prod(lengths, dtype=int)))]
        return np.array(rows).reshape(*lengths, count)

    def rewards(self, shape: Sequence[int], chances: np.ndarray | None = None) -> np.ndarray:
        """Rewards of this shape; ``chances`` (K,) of the last axis, to cancel against.

        Where payments cancel, those that are certain are 0, so as not to hide what is left.
        """
        rng = self.rng
        table = rng.normal(size=shape)
        if self.style == "whole":
            table = np.round(2 * table)
        elif self.style == "tenths":
            table = np.round(table, 1)
        elif self.style == "huge":
            table = np.where(rng.random(shape) < 0.5, 1e15, -1e15) + table
        elif self.style == "mixed":
            table = table * 10.0 ** rng.integers(-12, 13, size=shape)
        elif self.style == "cancel" and chances is None:
            table = np.zeros(shape)
        elif self.style == "cancel":
            happens = chances > 0
            parts = table - table[..., happens].mean(axis=-1, keepdims=True)
            # Each pays its part of p r, and the parts sum to nothing.
            table = np.where(happens, parts / np.where(happens, chances, 1), 0.0)
        return table if self.style == "huge" else self.unit * table

    def law(self, name: str, count: int, sizes: dict[str, int]) -> tuple[Noise, np.ndarray]:
        """A noise 0..count-1 whose probabilities depend on ``sizes``, and its first row."""
        lengths = list(sizes.values())
        table = self.rows(lengths, count)
        first = table.reshape(-1, count)[0]
        if self.style == "cancel":
            table = np.broadcast_to(first, table.shape)
        if not sizes:
            return Noise(name, range(count), table), first
        look_up = depends(list(sizes), table)

        def probabilities(**given):
            return look_up(**{n: np.asarray(v)[..., 0] for n, v in given.items()})

        return Noise(name, range(count), signed(probabilities, sizes)), first

    def mask(self, n: int, n_actions: int) -> np.ndarray | None:
        """(S, A) what is feasible; None for everything."""
        if self.rng.random() < 0.5:
            return None
        mask = self.rng.random((n, n_actions)) < 0.7
        mask[np.arange(n), self.rng.integers(n_actions, size=n)] = True
        return mask


# Tables.


def from_step(d: Draws, noises: Sequence[tuple[int, tuple[str, ...]]], merge: bool = False):
    """Noises of so many values given these names; with ``merge`` the last moves nothing."""
    sizes = {"x": STATES, "action": ACTIONS}
    world = World({"x": range(STATES)}, range(ACTIONS), d.mask(STATES, ACTIONS))
    laws = [
        d.law(f"w{i}", count, {n: sizes[n] for n in names})
        for i, (count, names) in enumerate(noises)
    ]
    counts = [count for count, _ in noises]
    joint = np.ones(1)
    for _, first in laws:
        joint = np.multiply.outer(joint, first).ravel()
    to = d.rng.integers(STATES, size=(STATES, ACTIONS, *counts))
    to[:, :, 1] = (to[:, :, 0] + 1) % STATES  # never all in one place
    if merge:
        to = np.broadcast_to(to[..., :1], to.shape)
    names = ["x", "action", *(noise.name for noise, _ in laws)]
    goes = depends(names, to)
    pays = depends(names, d.rewards((STATES, ACTIONS, joint.size), joint).reshape(to.shape))
    step = signed(lambda **given: ({"x": goes(**given)}, pays(**given)), names)
    used = [noise for noise, _ in laws]
    mdp = ts.MDP.from_step(
        step, world.axes, world.actions, d.discount, used, feasible=world.feasible
    )
    return mdp, read_step(world, step, used)


def one_noise(d: Draws):
    return from_step(d, [(3, ("x", "action"))])


def two_noises(d: Draws):
    return from_step(d, [(2, ("action",)), (3, ())])


def merged(d: Draws):
    return from_step(d, [(3, ()), (5, ("x",))], merge=True)


def dense(d: Draws):
    """Rewards by transition, in either layout."""
    P = d.rows((ACTIONS, STATES), STATES)
    R = np.array([[d.rewards((STATES,), row) for row in matrix] for matrix in P])
    happens = {
        (s, a): [Outcome(Fraction(P[a, s, to]), to, Fraction(R[a, s, to])) for to in range(STATES)]
        for s in range(STATES)
        for a in range(ACTIONS)
    }
    layout = "ASS" if d.rng.random() < 0.5 else "SAS"
    if layout == "SAS":
        P, R = np.moveaxis(P, 1, 0), np.moveaxis(R, 1, 0)
    mdp = ts.MDP.from_arrays(P, R, d.discount, layout=layout)
    return mdp, period(STATES, ACTIONS, happens)


def entries(d: Draws) -> tuple[np.ndarray, np.ndarray]:
    """(columns, probabilities) of the four entries of one row, the first column listed twice."""
    columns = d.rng.permutation(STATES)
    columns[-1] = columns[0]
    return columns, d.row(STATES)


def parted(d: Draws, columns: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Rewards of such entries; those of one place add up, and nearly cancel."""
    chances = np.bincount(columns, row, minlength=STATES)
    rewards = d.rewards((STATES,), chances)[columns]
    more = d.rng.normal() * np.abs(rewards).max()
    rewards[0] += more
    rewards[-1] = -more
    return rewards


def sparse(d: Draws):
    """Lists of matrices with repeated entries, which count as their sum; rewards by transition."""
    rows = {}
    for pair in np.ndindex(STATES, ACTIONS):
        columns, row = entries(d)
        rows[pair] = columns, row, parted(d, columns, row)

    def matrix(a: int, part: int) -> sp.coo_array:
        source = np.repeat(np.arange(STATES), 4)
        columns = np.concatenate([rows[s, a][0] for s in range(STATES)])
        data = np.concatenate([rows[s, a][part] for s in range(STATES)])
        return sp.coo_array((data, (source, columns)), shape=(STATES, STATES))

    happens = {pair: summed_by_place(*row) for pair, row in rows.items()}
    mdp = ts.MDP.from_arrays(
        [matrix(a, 1) for a in range(ACTIONS)], [matrix(a, 2) for a in range(ACTIONS)], d.discount
    )
    return mdp, period(STATES, ACTIONS, happens)


def summed_by_place(columns, chances, rewards) -> list[Outcome]:
    """The outcomes of entries whose probabilities add up, as do their rewards."""

    def at(to: int) -> Outcome:
        here = np.flatnonzero(columns == to)
        paid = [Fraction(r) for r in rewards[here]]
        return Outcome(sum(map(Fraction, chances[here])), to, sum(paid), sum(map(abs, paid)))

    return [at(to) for to in sorted(set(columns.tolist()))]


def pairs(d: Draws):
    mask = d.mask(STATES, ACTIONS)
    mask = np.ones((STATES, ACTIONS), bool) if mask is None else mask
    states, choices = np.nonzero(mask)
    rows = [(*entries(d), np.zeros(STATES)) for _ in states]
    reward = d.rewards((len(states),))
    source = np.repeat(np.arange(len(states)), 4)
    places = source, np.concatenate([row[0] for row in rows])
    matrix = sp.coo_array(
        (np.concatenate([row[1] for row in rows]), places), shape=(len(states), STATES)
    )
    listed = list(zip(states.tolist(), choices.tolist(), strict=True))
    happens = {pair: summed_by_place(*row) for pair, row in zip(listed, rows, strict=True)}
    # With as many actions as there are, though the last may be feasible nowhere.
    mdp = ts.MDP.from_pairs(
        states, choices, matrix, reward, d.discount, actions=tuple(range(ACTIONS))
    )
    plain = period(STATES, ACTIONS, happens)
    return mdp, paying(plain, dict(zip(listed, reward, strict=True)))


def gymnasium(d: Draws):
    """A toy-text table: next states listed twice, outcomes that end, actions without outcomes."""
    mask = d.mask(STATES, ACTIONS)
    table, happens = {}, {}
    for s in range(STATES):
        table[s] = {}
        for a in range(ACTIONS):
            columns, chances = entries(d)
            rewards = d.rewards((4,), chances)
            ended = d.rng.random(4) < 0.2
            listed = [] if mask is not None and not mask[s, a] else range(4)
            table[s][a] = [
                (float(chances[k]), int(columns[k]), float(rewards[k]), bool(ended[k]))
                for k in listed
            ]
            happens[s, a] = [
                Outcome(Fraction(p), None if end else to, Fraction(r))
                for p, to, r, end in table[s][a]
            ]
    mdp = ts.MDP.from_gymnasium(SimpleNamespace(P=table), d.discount)
    return mdp, period(STATES, ACTIONS, happens)


# Stages.


def staged(d: Draws, world: World, stages: Sequence):
    mdp = ts.MDP.staged(world.axes, world.actions, d.discount, stages, feasible=world.feasible)
    return mdp, read_stages(world, stages)


def shop(d: Draws):
    """Sums written out, as a person writes them; demand is paid for."""
    cost, price, held = d.unit * d.rng.random(3)
    law, _ = d.law("demand", 3, {})
    stages = [
        Decide(
            "stock",
            to=lambda stock, action: np.minimum(stock + 2 * action, STATES),
            pays=lambda action: -cost * action,
        ),
        Shift(
            "stock",
            law,
            by=lambda demand: -demand,
            pays=lambda stock, demand: price * np.minimum(stock, demand) - held * stock,
        ),
    ]
    return staged(d, World({"stock": range(STATES + 1)}, range(ACTIONS)), stages)


GRID = {"x": range(3), "y": range(2)}
SIZES = {"x": 3, "y": 2, "action": 2}


def table(d: Draws, names: Sequence[str], extra: dict[str, int] | None = None, chances=None):
    """A function of ``names`` that pays."""
    lengths = [(SIZES | (extra or {}))[name] for name in names]
    return depends(names, d.rewards(lengths, chances))


def walk(d: Draws):
    """A payment, a mirrored shift whose law depends on axis and action, a chain given an axis."""
    law, first = d.law("w", 3, {"y": 2, "action": 2})
    by = depends(["w", "action"], d.rng.permutation([-4, -1, 0, 1, 2, 5]).reshape(3, 2))
    chains = depends(["x"], np.array([d.rows((2,), 2) for _ in range(3)]))
    stages = [
        Pay(table(d, ["x", "action"])),
        Shift("x", law, by, "reflect", table(d, ["x", "w"], {"w": 3}, first)),
        Move(
            "y",
            signed(lambda x: chains(x=np.asarray(x)[..., 0, 0]), ["x"]),
            table(d, ["y"]),
        ),
    ]
    mask = np.ones((6, 2), bool)
    mask[d.rng.integers(6), d.rng.integers(2)] = False
    return staged(d, World(GRID, range(2), mask), stages)


def leap(d: Draws):
    """A jump of two coordinates that pays on its noise, a decision, a clipped shift that pays."""
    law, first = d.law("w", 4, {"action": 2})
    names, shape = ["x", "y", "action", "w"], (3, 2, 2, 4)
    to_x = depends(names, d.rng.integers(3, size=shape))
    to_y = depends(names, d.rng.integers(2, size=shape))
    last, second = d.law("v", 3, {})
    stages = [
        Jump(
            law,
            signed(lambda **given: {"x": to_x(**given), "y": to_y(**given)}, names),
            table(d, ["x", "action", "w"], {"w": 4}, first),
        ),
        Decide(
            "x",
            depends(["x", "y", "action"], d.rng.integers(3, size=(3, 2, 2))),
            table(d, ["y", "action"]),
        ),
        Shift(
            "y",
            last,
            depends(["v"], np.array([-1, 0, 1])),
            "clip",
            table(d, ["y", "v"], {"v": 3}, second),
        ),
    ]
    return staged(d, World(GRID, range(2)), stages)


BUILDINGS: dict[str, Callable[[Draws], tuple[ts.MDP, Period]]] = {
    "one noise": one_noise,
    "two noises": two_noises,
    "merged outcomes": merged,
    "dense arrays": dense,
    "sparse lists": sparse,
    "pairs": pairs,
    "gymnasium": gymnasium,
    "shop": shop,
    "walk": walk,
    "leap": leap,
}


def case(kind: str, seed: int) -> Case:
    """The model of this kind with this seed."""
    return Case(kind, seed, *BUILDINGS[kind](Draws(np.random.default_rng(seed))))


def numbered(number: int) -> Case:
    """All kinds in turn, for ``make soak``: its seed ``number``."""
    seed, kind = divmod(number, len(BUILDINGS))
    return case(list(BUILDINGS)[kind], seed)
