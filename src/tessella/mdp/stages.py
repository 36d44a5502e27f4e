"""The story of one period, told as stages.

A stage acts on the state as it stands at that moment. Its functions are called with NumPy arrays of
what they name: axes of the grid, the action, the stage's own noise. They must be vectorised.

    Pay(reward)                 nothing moves
    Decide(axis, to)            x -> to(x, ...)             a map to the post-decision state
    Shift(axis, noise, by)      x -> edge(x + by(noise))    moves by a random amount
    Move(axis, matrix)          x -> x' with matrix[x, x']  perhaps given other axes
    Jump(noise, to)             any map of coordinates, action and noise
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Function = Callable[..., ArrayLike]
Edge = Literal["clip", "reflect", "error"]


@dataclass(frozen=True, eq=False)
class Noise:
    """A finite random quantity.

    Args:
        name: what stage functions call it.
        values: (K,) its values.
        probabilities: (K,), or a function of axes and action that returns (..., K).
    """

    name: str
    values: Iterable
    probabilities: ArrayLike | Function


@dataclass(frozen=True, eq=False)
class Pay:
    """Pay ``reward(...)`` and stay."""

    pays: Function


@dataclass(frozen=True, eq=False)
class Decide:
    """The coordinate along ``axis`` becomes ``to(...)``, which must lie on the grid."""

    axis: str
    to: Function
    pays: Function | None = None


@dataclass(frozen=True, eq=False)
class Shift:
    """The coordinate along an evenly spaced ``axis`` moves by ``by(noise, action)``.

    ``edge`` says what happens past the ends: ``clip`` stops there, ``reflect`` turns back,
    ``error`` refuses a model that could get there. ``pays`` may depend on the noise; it sees the
    coordinate before the move.
    """

    axis: str
    noise: Noise
    by: Function | None = None
    edge: Edge = "clip"
    pays: Function | None = None


@dataclass(frozen=True, eq=False)
class Move:
    """The coordinate along ``axis`` follows the Markov chain ``matrix``, (n, n).

    A function of other axes or the action returns (..., n, n): it is called with arrays that carry
    two trailing axes of length one.
    """

    axis: str
    matrix: ArrayLike | Function
    pays: Function | None = None


@dataclass(frozen=True, eq=False)
class Jump:
    """One noise moves several coordinates at once: ``to(...)`` maps axis names to new values."""

    noise: Noise
    to: Callable[..., Mapping[str, ArrayLike]]
    pays: Function | None = None


Stage = Pay | Decide | Shift | Move | Jump


def truncated_poisson(mean: ArrayLike, largest: int) -> NDArray[np.float64]:
    """(..., largest + 1) Poisson probabilities, the tail mass put on ``largest``.

    ``mean`` has shape (..., 1) or is a number; P(D = k) = m^k e^-m / k!.
    """
    from scipy.special import gammainc, gammaln, xlogy

    m = np.asarray(mean, dtype=float)
    if m.ndim == 0 or m.shape[-1] != 1:
        m = m[..., None]
    k = np.arange(largest + 1)
    pmf = np.exp(xlogy(k, m) - m - gammaln(k + 1.0))
    if largest > 0:
        pmf[..., -1] = gammainc(float(largest), m[..., 0])  # P(D >= largest)
    else:
        pmf[..., -1] = 1.0
    return pmf
