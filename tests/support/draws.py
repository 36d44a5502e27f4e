"""Awkward numbers, and functions that look them up.

Payments that cancel, rewards of 1e15, probabilities like 0.1, rows that miss 1 by up to 1e-9,
discounts from 0 to 0.99999.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tessella.mdp.stages import Noise

DISCOUNTS = (0.0, 0.3, 0.9, 0.95, 0.99, 0.999, 0.9999, 0.99999)
ROW_SUM_MAX_ERROR = 0.9e-9  # how far a row may miss 1
REWARD_STYLES = ("plain", "whole", "tenths", "huge", "mixed", "cancel", "cancel", "cancel")


def make_lookup(names: Sequence[str], table: np.ndarray) -> Callable:
    """A function of ``names`` that looks its result up: names have values 0, 1, 2, ..."""

    def look_up(**values):
        where = np.broadcast_arrays(*(np.asarray(values[name]) for name in names))
        return table[tuple(where)] if names else table

    return set_parameters(look_up, names)


def set_parameters(function: Callable, names: Iterable[str]) -> Callable:
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
        self.style = str(rng.choice(REWARD_STYLES))
        self.chances = str(rng.choice(["any", "tenths", "thirds", "off", "sparse"]))
        self.unit = 10.0 ** int(rng.choice([-9, 0, 0, 15]))

    def draw_row(self, count: int) -> np.ndarray:
        """(count,) probabilities."""
        if count == 1:
            return np.ones(1)
        rng, chances = self.rng, self.chances
        if chances == "tenths":
            parts = rng.multinomial(10, np.full(count, 1 / count)) / 10
            return parts if abs(parts.sum() - 1) < ROW_SUM_MAX_ERROR else np.full(count, 1 / count)
        if chances == "thirds":
            return rng.permutation(np.where(np.arange(count) % 2, 1.0, 2.0)) / (
                count + -(-count // 2)
            )
        row = rng.dirichlet(np.ones(count))
        if chances == "sparse" and count > 2:
            row[rng.integers(count)] = 0.0
            row /= row.sum()
        return (
            row * (1 + rng.uniform(-ROW_SUM_MAX_ERROR, ROW_SUM_MAX_ERROR))
            if chances == "off"
            else row
        )

    def draw_rows(self, lengths: Sequence[int], count: int) -> np.ndarray:
        rows = [self.draw_row(count) for _ in range(int(np.prod(lengths, dtype=int)))]
        return np.array(rows).reshape(*lengths, count)

    def draw_rewards(self, shape: Sequence[int], chances: np.ndarray | None = None) -> np.ndarray:
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
            is_possible = chances > 0
            parts = table - table[..., is_possible].mean(axis=-1, keepdims=True)
            # Each pays its part of p r, and the parts sum to nothing.
            table = np.where(is_possible, parts / np.where(is_possible, chances, 1), 0.0)
        return table if self.style == "huge" else self.unit * table

    def draw_law(self, name: str, count: int, sizes: dict[str, int]) -> tuple[Noise, np.ndarray]:
        """A noise 0..count-1 whose probabilities depend on ``sizes``, and its first row."""
        lengths = list(sizes.values())
        table = self.draw_rows(lengths, count)
        first = table.reshape(-1, count)[0]
        if self.style == "cancel":
            table = np.broadcast_to(first, table.shape)
        if not sizes:
            return Noise(name, range(count), table), first
        look_up = make_lookup(list(sizes), table)

        def probabilities(**values):
            return look_up(**{n: np.asarray(v)[..., 0] for n, v in values.items()})

        return Noise(name, range(count), set_parameters(probabilities, sizes)), first

    def draw_mask(self, n: int, n_actions: int) -> np.ndarray | None:
        """(S, A) what is feasible; None for everything."""
        if self.rng.random() < 0.5:
            return None
        mask = self.rng.random((n, n_actions)) < 0.7
        mask[np.arange(n), self.rng.integers(n_actions, size=n)] = True
        return mask
