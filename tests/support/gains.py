"""Averages of small random models in rational arithmetic, from every state, whatever their chains.

A row is read as divided by its sum, as the checker reads it. The best gain from a state is that of
the best of all deterministic policies, one after the other.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from math import inf, nextafter

import numpy as np

import tessella as ts
from support.criteria import Row, read_fractions, solve_linear_system
from support.models import draw_feasible
from tessella.certificates.certificate import Certificate, RelativeValues
from tessella.certificates.certify_undiscounted import _enclose_loss
from tessella.certificates.interval import Interval

N_STATES, N_ACTIONS = 4, 3


def draw_arrays(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(rows, reward, feasible): one class or several, periodic or not, rows off 1 by rounding."""
    rng = np.random.default_rng(seed)
    reached = rng.random((N_ACTIONS, N_STATES, N_STATES)) < rng.choice([0.2, 0.5, 1.0])
    reached[
        np.arange(N_ACTIONS)[:, None],
        np.arange(N_STATES),
        rng.integers(N_STATES, size=(N_ACTIONS, N_STATES)),
    ] = True
    weights = reached * rng.dirichlet(np.ones(N_STATES), size=(N_ACTIONS, N_STATES))
    rows = weights / weights.sum(axis=-1, keepdims=True)
    if rng.random() < 0.2:
        rows *= 1 + rng.uniform(-9e-10, 9e-10, (N_ACTIONS, N_STATES, 1))
    reward = rng.normal(size=(N_STATES, N_ACTIONS)) * 10.0 ** rng.integers(-6, 7)
    if rng.random() < 0.5:
        reward = np.round(rng.normal(size=(N_STATES, N_ACTIONS)))  # ties
    return rows, reward, draw_feasible(rng)


def draw_model(seed: int) -> ts.MDP:
    rows, reward, feasible = draw_arrays(seed)
    return ts.MDP.from_arrays(rows, reward, ts.Average(), feasible=feasible)


class Truth:
    """Gains and rises of a model, in fractions."""

    def __init__(self, mdp: ts.MDP) -> None:
        rows, self.reward = read_fractions(mdp)
        self.n, self.choices = mdp.n_states, [[a for a, r in enumerate(x) if r] for x in rows]
        self.rows = [[[p / sum(row) for p in row] for row in x] for x in rows]

    def gains(self, table: Sequence[int]) -> Row:
        """What a policy earns per period from each state."""
        chain = [self.rows[s][a] for s, a in enumerate(table)]
        rewards = [self.reward[s][a] for s, a in enumerate(table)]
        gain: list[Fraction | None] = [None] * self.n
        for states in self._list_classes(chain):
            class_gain = self._compute_class_gain(chain, rewards, states)
            for s in states:
                gain[s] = class_gain
        return self._extend_to_transient(chain, gain)

    def _list_classes(self, chain: list[Row]) -> list[list[int]]:
        """The recurrent classes of a chain."""
        reaches = np.array([[p > 0 for p in row] for row in chain]) | np.eye(self.n, dtype=bool)
        for _ in range(self.n):
            reaches = reaches @ reaches
        is_recurrent = (reaches <= reaches.T).all(axis=1)  # what it reaches leads back to it
        first_states = [s for s in np.flatnonzero(is_recurrent) if reaches[s].argmax() == s]
        return [np.flatnonzero(reaches[s]).tolist() for s in first_states]

    def _compute_class_gain(self, chain: list[Row], rewards: Row, states: list[int]) -> Fraction:
        """Of a class that is never left: shares d = P' d that sum to 1, times what is paid."""
        system = [[chain[s][t] - (s == t) for s in states] for t in states]
        system[0] = [Fraction(1)] * len(states)
        right = [Fraction(int(k == 0)) for k in range(len(states))]
        shares = solve_linear_system(system, right)
        return sum((d * rewards[s] for d, s in zip(shares, states, strict=True)), Fraction(0))

    def _extend_to_transient(self, chain: list[Row], gain: list[Fraction | None]) -> Row:
        """g = P g, where it is known in the classes that are never left."""
        system, right = [], []
        for s, known in enumerate(gain):
            row = [Fraction(int(s == t)) for t in range(self.n)]
            if known is None:
                row = [x - p for x, p in zip(row, chain[s], strict=True)]
            system.append(row)
            right.append(Fraction(0) if known is None else known)
        return solve_linear_system(system, right)

    @cached_property
    def best(self) -> Row:
        """The best gain from each state."""
        every = [self.gains(table) for table in itertools.product(*self.choices)]
        return [max(gains[s] for gains in every) for s in range(self.n)]

    def compute_increases(self, value: np.ndarray) -> list[dict[int, Fraction]]:
        """r + P h - h, by state and feasible action."""
        h = [Fraction(float(x)) for x in np.ravel(value)]

        def rise(s: int, a: int) -> Fraction:
            return self.reward[s][a] - h[s] + sum(map(Fraction.__mul__, self.rows[s][a], h))

        return [{a: rise(s, a) for a in of} for s, of in enumerate(self.choices)]


def find_contradictions(c: Certificate, truth: Truth) -> list[str]:
    """The statements of a certificate that the rational answer contradicts, from any state."""
    gains = truth.gains(c.policy.table.ravel().tolist())
    losses = [b - w for b, w in zip(truth.best, gains, strict=True)]
    exact_figures = {"optimal_mean": truth.best, "policy_mean": gains, "mean_loss": losses}
    if c.relative_loss is not None:
        exact_figures["relative_loss"] = [
            x / abs(b) for x, b in zip(losses, truth.best, strict=True)
        ]
    return [
        name for name, exact in exact_figures.items() if not _are_enclosed(getattr(c, name), exact)
    ]


def _are_enclosed(figure, exact: Row) -> bool:
    return all(Fraction(figure.lower) <= x <= Fraction(figure.upper) for x in exact)


# Documents that lie, and are consistent in all else.


def draw_policy(mdp: ts.MDP, seed: int) -> np.ndarray:
    draws = np.random.default_rng(seed).random((mdp.n_states, mdp.n_actions))
    return np.where(mdp.feasible_mask, draws, -1).argmax(axis=1).reshape(mdp.grid.shape)


def make_certificates(
    mdp: ts.MDP, truth: Truth, table: np.ndarray, scale: float, seed: int
) -> Iterator[tuple[Certificate, str]]:
    """(certificate, which end it lies about): honest ones of random values first, "" for these."""
    rng = np.random.default_rng(seed)
    values = scale * rng.normal(size=(2, mdp.n_states))
    best_increases = [max(d.values()) for d in truth.compute_increases(values[0])]
    policy_increases = [
        d[a] for d, a in zip(truth.compute_increases(values[1]), table, strict=True)
    ]
    slack = 1e-12 * (np.abs(mdp.reward).max(where=mdp.feasible_mask, initial=1e-9) + 4 * scale)
    gains = [widen(min(d), max(d), slack) for d in (best_increases, policy_increases)]
    yield make_certificate(mdp, table, values, gains), ""
    for k, name in enumerate(("optimal", "policy")):
        for end, extreme in ((1, min), (2, max)):
            ends = [
                move_end_inside(g, end, extreme((best_increases, policy_increases)[k]))
                if i == k
                else g
                for i, g in enumerate(gains)
            ]
            yield (
                make_certificate(mdp, table, values, ends),
                f"{name}_mean.{('lower', 'upper')[end - 1]}",
            )


def widen(low: Fraction, high: Fraction, slack: float) -> Interval:
    """An enclosure of both, further out by ``room``."""
    return Interval(float((low + high) / 2), float(low) - slack, float(high) + slack)


def move_end_inside(gain: Interval, end: int, exact: Fraction) -> Interval:
    """One end of ``gain`` pulled in to where it is just not true of the values any more."""
    ends = [gain.lower, gain.upper]
    inside = float(exact) or (1e-280 if end == 1 else -1e-280)  # a share of it stays finite
    while (Fraction(inside) <= exact) if end == 1 else (Fraction(inside) >= exact):
        inside = nextafter(inside, inf if end == 1 else -inf)
    ends[end - 1] = inside
    ends = sorted(ends)
    return Interval(min(max(float(gain), ends[0]), ends[1]), *ends)


def make_certificate(
    mdp: ts.MDP, table: np.ndarray, values: np.ndarray, gains: Sequence[Interval]
) -> Certificate:
    """A document with these values and gains, consistent in all else."""
    loss = Interval(0, 0, 0)
    if gains[0].upper >= gains[1].lower:
        loss = _enclose_loss(*gains).max()
    errors = np.zeros_like(values[0])
    return Certificate(
        relative_values=RelativeValues(values[0], errors, values[1], errors),
        optimal_mean=gains[0],
        policy_mean=gains[1],
        mean_loss=loss,
        worst_loss=loss,
        relative_loss=loss.divide(gains[0]),
        **Certificate.identify(mdp, mdp.policy(table)),
    )
