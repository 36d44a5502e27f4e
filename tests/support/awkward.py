"""Random models of every way of building, with difficult numbers, each with its exact period.

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
from support.draws import Draws, make_lookup, set_parameters
from support.exact import (
    Outcome,
    Period,
    World,
    build_period,
    read_stages,
    read_step,
    replace_rewards,
)
from support.models import Exact
from tessella.mdp.stages import Decide, Jump, Move, Pay, Shift

N_STATES, N_ACTIONS = 4, 2  # of the kinds that end as tables


@dataclass(frozen=True)
class Case:
    """A model as the package builds it, and the same model in fractions."""

    kind: str
    seed: int
    mdp: ts.MDP
    period: Period

    @property
    def exact(self) -> Exact:
        return self.period.to_exact(self.mdp.discount)

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


def build_from_step(d: Draws, noises: Sequence[tuple[int, tuple[str, ...]]], merge: bool = False):
    """Noises of so many values given these names; with ``merge`` the last moves nothing."""
    sizes = {"x": N_STATES, "action": N_ACTIONS}
    world = World({"x": range(N_STATES)}, range(N_ACTIONS), d.draw_mask(N_STATES, N_ACTIONS))
    laws = [
        d.draw_law(f"w{i}", count, {n: sizes[n] for n in names})
        for i, (count, names) in enumerate(noises)
    ]
    counts = [count for count, _ in noises]
    joint = np.ones(1)
    for _, first in laws:
        joint = np.multiply.outer(joint, first).ravel()
    to = d.rng.integers(N_STATES, size=(N_STATES, N_ACTIONS, *counts))
    to[:, :, 1] = (to[:, :, 0] + 1) % N_STATES  # never all in one place
    if merge:
        to = np.broadcast_to(to[..., :1], to.shape)
    names = ["x", "action", *(noise.name for noise, _ in laws)]
    target = make_lookup(names, to)
    payment = make_lookup(
        names, d.draw_rewards((N_STATES, N_ACTIONS, joint.size), joint).reshape(to.shape)
    )
    step = set_parameters(lambda **given: ({"x": target(**given)}, payment(**given)), names)
    noises_used = [noise for noise, _ in laws]
    mdp = ts.MDP.from_step(
        step, world.axes, world.actions, d.discount, noises_used, feasible=world.feasible
    )
    return mdp, read_step(world, step, noises_used)


def build_one_noise(d: Draws):
    return build_from_step(d, [(3, ("x", "action"))])


def build_two_noises(d: Draws):
    return build_from_step(d, [(2, ("action",)), (3, ())])


def build_merged_outcomes(d: Draws):
    return build_from_step(d, [(3, ()), (5, ("x",))], merge=True)


def build_dense(d: Draws):
    """Rewards by transition, in either layout."""
    P = d.draw_rows((N_ACTIONS, N_STATES), N_STATES)
    R = np.array([[d.draw_rewards((N_STATES,), row) for row in matrix] for matrix in P])
    outcomes = {
        (s, a): [
            Outcome(Fraction(P[a, s, to]), to, Fraction(R[a, s, to])) for to in range(N_STATES)
        ]
        for s in range(N_STATES)
        for a in range(N_ACTIONS)
    }
    layout = "ASS" if d.rng.random() < 0.5 else "SAS"
    if layout == "SAS":
        P, R = np.moveaxis(P, 1, 0), np.moveaxis(R, 1, 0)
    mdp = ts.MDP.from_arrays(P, R, d.discount, layout=layout)
    return mdp, build_period(N_STATES, N_ACTIONS, outcomes)


def draw_entries(d: Draws) -> tuple[np.ndarray, np.ndarray]:
    """(columns, probabilities) of the four entries of one row, the first column listed twice."""
    columns = d.rng.permutation(N_STATES)
    columns[-1] = columns[0]
    return columns, d.draw_row(N_STATES)


def draw_entry_rewards(d: Draws, columns: np.ndarray, row: np.ndarray) -> np.ndarray:
    """Rewards of such entries; those of one place add up, and nearly cancel."""
    chances = np.bincount(columns, row, minlength=N_STATES)
    rewards = d.draw_rewards((N_STATES,), chances)[columns]
    offset = d.rng.normal() * np.abs(rewards).max()
    rewards[0] += offset
    rewards[-1] = -offset
    return rewards


def build_sparse(d: Draws):
    """Lists of matrices with repeated entries, which count as their sum; rewards by transition."""
    rows = {}
    for pair in np.ndindex(N_STATES, N_ACTIONS):
        columns, row = draw_entries(d)
        rows[pair] = columns, row, draw_entry_rewards(d, columns, row)

    def matrix(a: int, part: int) -> sp.coo_array:
        source = np.repeat(np.arange(N_STATES), 4)
        columns = np.concatenate([rows[s, a][0] for s in range(N_STATES)])
        data = np.concatenate([rows[s, a][part] for s in range(N_STATES)])
        return sp.coo_array((data, (source, columns)), shape=(N_STATES, N_STATES))

    outcomes = {pair: sum_by_place(*row) for pair, row in rows.items()}
    mdp = ts.MDP.from_arrays(
        [matrix(a, 1) for a in range(N_ACTIONS)],
        [matrix(a, 2) for a in range(N_ACTIONS)],
        d.discount,
    )
    return mdp, build_period(N_STATES, N_ACTIONS, outcomes)


def sum_by_place(columns, chances, rewards) -> list[Outcome]:
    """The outcomes of entries whose probabilities add up, as do their rewards."""

    def sum_place(to: int) -> Outcome:
        entries = np.flatnonzero(columns == to)
        rewards_here = [Fraction(r) for r in rewards[entries]]
        return Outcome(
            sum(map(Fraction, chances[entries])), to, sum(rewards_here), sum(map(abs, rewards_here))
        )

    return [sum_place(to) for to in sorted(set(columns.tolist()))]


def build_pairs(d: Draws):
    mask = d.draw_mask(N_STATES, N_ACTIONS)
    mask = np.ones((N_STATES, N_ACTIONS), bool) if mask is None else mask
    states, choices = np.nonzero(mask)
    rows = [(*draw_entries(d), np.zeros(N_STATES)) for _ in states]
    reward = d.draw_rewards((len(states),))
    source = np.repeat(np.arange(len(states)), 4)
    places = source, np.concatenate([row[0] for row in rows])
    matrix = sp.coo_array(
        (np.concatenate([row[1] for row in rows]), places), shape=(len(states), N_STATES)
    )
    pairs = list(zip(states.tolist(), choices.tolist(), strict=True))
    outcomes = {pair: sum_by_place(*row) for pair, row in zip(pairs, rows, strict=True)}
    # With as many actions as there are, though the last may be feasible nowhere.
    mdp = ts.MDP.from_pairs(
        states, choices, matrix, reward, d.discount, actions=tuple(range(N_ACTIONS))
    )
    moves = build_period(N_STATES, N_ACTIONS, outcomes)
    return mdp, replace_rewards(moves, dict(zip(pairs, reward, strict=True)))


def build_gymnasium(d: Draws):
    """A toy-text table: next states listed twice, outcomes that end, actions without outcomes."""
    mask = d.draw_mask(N_STATES, N_ACTIONS)
    table, outcomes = {}, {}
    for s in range(N_STATES):
        table[s] = {}
        for a in range(N_ACTIONS):
            columns, chances = draw_entries(d)
            rewards = d.draw_rewards((4,), chances)
            ended = d.rng.random(4) < 0.2
            kept = [] if mask is not None and not mask[s, a] else range(4)
            table[s][a] = [
                (float(chances[k]), int(columns[k]), float(rewards[k]), bool(ended[k]))
                for k in kept
            ]
            outcomes[s, a] = [
                Outcome(Fraction(p), None if end else to, Fraction(r))
                for p, to, r, end in table[s][a]
            ]
    mdp = ts.MDP.from_gymnasium(SimpleNamespace(P=table), d.discount)
    return mdp, build_period(N_STATES, N_ACTIONS, outcomes)


# Stages.


def build_staged(d: Draws, world: World, stages: Sequence):
    mdp = ts.MDP.staged(world.axes, world.actions, d.discount, stages, feasible=world.feasible)
    return mdp, read_stages(world, stages)


def build_shop(d: Draws):
    """Sums written out, as a person writes them; demand is paid for."""
    unit_cost, price, holding_cost = d.unit * d.rng.random(3)
    demand_law, _ = d.draw_law("demand", 3, {})
    stages = [
        Decide(
            "stock",
            to=lambda stock, action: np.minimum(stock + 2 * action, N_STATES),
            pays=lambda action: -unit_cost * action,
        ),
        Shift(
            "stock",
            demand_law,
            by=lambda demand: -demand,
            pays=lambda stock, demand: price * np.minimum(stock, demand) - holding_cost * stock,
        ),
    ]
    return build_staged(d, World({"stock": range(N_STATES + 1)}, range(N_ACTIONS)), stages)


AXES = {"x": range(3), "y": range(2)}
AXIS_SIZES = {"x": 3, "y": 2, "action": 2}


def draw_payment(d: Draws, names: Sequence[str], extra: dict[str, int] | None = None, chances=None):
    """A function of ``names`` that pays."""
    lengths = [(AXIS_SIZES | (extra or {}))[name] for name in names]
    return make_lookup(names, d.draw_rewards(lengths, chances))


def build_walk(d: Draws):
    """A payment, a mirrored shift whose law depends on axis and action, a chain given an axis."""
    law, first = d.draw_law("w", 3, {"y": 2, "action": 2})
    by = make_lookup(["w", "action"], d.rng.permutation([-4, -1, 0, 1, 2, 5]).reshape(3, 2))
    chains = make_lookup(["x"], np.array([d.draw_rows((2,), 2) for _ in range(3)]))
    stages = [
        Pay(draw_payment(d, ["x", "action"])),
        Shift("x", law, by, "reflect", draw_payment(d, ["x", "w"], {"w": 3}, first)),
        Move(
            "y",
            set_parameters(lambda x: chains(x=np.asarray(x)[..., 0, 0]), ["x"]),
            draw_payment(d, ["y"]),
        ),
    ]
    mask = np.ones((6, 2), bool)
    mask[d.rng.integers(6), d.rng.integers(2)] = False
    return build_staged(d, World(AXES, range(2), mask), stages)


def build_leap(d: Draws):
    """A jump of two coordinates that pays on its noise, a decision, a clipped shift that pays."""
    law, first = d.draw_law("w", 4, {"action": 2})
    names, shape = ["x", "y", "action", "w"], (3, 2, 2, 4)
    to_x = make_lookup(names, d.rng.integers(3, size=shape))
    to_y = make_lookup(names, d.rng.integers(2, size=shape))
    last, second = d.draw_law("v", 3, {})
    stages = [
        Jump(
            law,
            set_parameters(lambda **given: {"x": to_x(**given), "y": to_y(**given)}, names),
            draw_payment(d, ["x", "action", "w"], {"w": 4}, first),
        ),
        Decide(
            "x",
            make_lookup(["x", "y", "action"], d.rng.integers(3, size=(3, 2, 2))),
            draw_payment(d, ["y", "action"]),
        ),
        Shift(
            "y",
            last,
            make_lookup(["v"], np.array([-1, 0, 1])),
            "clip",
            draw_payment(d, ["y", "v"], {"v": 3}, second),
        ),
    ]
    return build_staged(d, World(AXES, range(2)), stages)


BUILDERS: dict[str, Callable[[Draws], tuple[ts.MDP, Period]]] = {
    "one noise": build_one_noise,
    "two noises": build_two_noises,
    "merged outcomes": build_merged_outcomes,
    "dense arrays": build_dense,
    "sparse lists": build_sparse,
    "pairs": build_pairs,
    "gymnasium": build_gymnasium,
    "shop": build_shop,
    "walk": build_walk,
    "leap": build_leap,
}
STAGED_KINDS = "shop", "walk", "leap"


def make_case(kind: str, seed: int) -> Case:
    """The model of this kind with this seed."""
    return Case(kind, seed, *BUILDERS[kind](Draws(np.random.default_rng(seed))))


def make_numbered_case(number: int) -> Case:
    """All kinds in turn, for ``make soak``: its seed ``number``."""
    seed, kind = divmod(number, len(BUILDERS))
    return make_case(list(BUILDERS)[kind], seed)
