"""Random models of every way of building, with awkward numbers, each beside its exact period.

    case("step", 7)     the seventh model of that kind, always the same

The kinds of ``BUILDINGS`` keep to few array shapes, since each shape compiles for seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import scipy.sparse as sp

import tessella as ts
from support.draws import Draws, depends, signed
from support.exact import Outcome, Period, World, paying, period, read_stages, read_step
from support.models import Exact
from tessella.mdp.stages import Decide, Jump, Move, Pay, Shift

STATES, ACTIONS = 4, 2  # of the kinds that end as tables


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
STAGED = "shop", "walk", "leap"


def case(kind: str, seed: int) -> Case:
    """The model of this kind with this seed."""
    return Case(kind, seed, *BUILDINGS[kind](Draws(np.random.default_rng(seed))))


def numbered(number: int) -> Case:
    """All kinds in turn, for ``make soak``: its seed ``number``."""
    seed, kind = divmod(number, len(BUILDINGS))
    return case(list(BUILDINGS)[kind], seed)
