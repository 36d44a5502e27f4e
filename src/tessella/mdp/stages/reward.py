"""Expected rewards of a stage, ``sum_k p_k r_k`` over its noise.

They are an array, open over the axes that they depend on. Of a very large grid the factors p and r
are kept instead, small beside it, and the sum is made where it is needed: on the device.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.mdp.checks import SUM_TOLERANCE
from tessella.mdp.stages.operation import take_range
from tessella.rounding import EPS

FACTORED_REWARD_MIN_STATES = 1 << 26  # expected rewards of more states are kept as their factors


@dataclass(frozen=True, eq=False)
class ExpectedReward:
    """``sum_k probs[..., k] reward[..., k]``, kept as its factors.

    Both are open meshes (A | 1, *broadcast, K). To NumPy it is the array of the sums.
    """

    probs: NDArray[np.float64]
    reward: NDArray[np.float64]

    @property
    def shape(self) -> tuple[int, ...]:
        return np.broadcast_shapes(self.probs.shape[:-1], self.reward.shape[:-1])

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nbytes(self) -> int:
        """Of the array of the sums."""
        return 8 * math.prod(self.shape)

    @property
    def bound(self) -> float:
        """No sum is larger than this: probabilities sum to 1, up to rounding."""
        most = float(np.abs(self.reward).max())
        return most * (1 + SUM_TOLERANCE) * (1 + EPS * (2 + self.reward.shape[-1]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray:
        return expectation(self.probs, self.reward).astype(dtype or float, copy=False)

    def block(self, axis: int, first: int, count: int) -> ExpectedReward:
        """On ``count`` places of one axis, from ``first`` on; off its ends the nearest place."""
        return ExpectedReward(
            *(take_range(a, axis + 1, first, count) for a in (self.probs, self.reward))
        )

    def on_device(self) -> Any:
        """The array of the sums, made on the device."""
        from tessella.mdp.compilation import einsum_on_device

        return einsum_on_device(*_subscripts(self.probs, self.reward)).reshape(self.shape)


Reward = NDArray[np.float64] | ExpectedReward


def reward_bound(reward: Reward) -> float:
    """The largest size of a reward, or a bound on it."""
    return reward.bound if isinstance(reward, ExpectedReward) else float(np.abs(reward).max())


def factor_reward(probs: NDArray, reward: NDArray) -> ExpectedReward | None:
    """The factors, where they are much smaller than the sums, and those many; else None."""
    factors = ExpectedReward(probs, reward)
    many = max(FACTORED_REWARD_MIN_STATES, 2 * (probs.size + reward.size))
    return factors if math.prod(factors.shape) > many else None


def expectation(probs: NDArray, reward: NDArray) -> NDArray[np.float64]:
    """``sum_k probs[..., k] reward[..., k]`` over open meshes, as a matrix product if it can be."""
    out = np.broadcast_shapes(probs.shape[:-1], reward.shape[:-1])
    subscripts, *factors = _subscripts(probs, reward)
    return np.einsum(subscripts, *factors, optimize=True).reshape(out)


def _subscripts(probs: NDArray, reward: NDArray) -> tuple[str, NDArray, NDArray]:
    """How ``einsum`` reads the sum, and its factors without axes of length one."""
    rank = probs.ndim - 1
    letters = [chr(ord("a") + i) for i in range(rank)]
    out = np.broadcast_shapes(probs.shape[:-1], reward.shape[:-1])

    def varying(array: NDArray) -> tuple[str, NDArray]:
        kept = [i for i in range(rank) if array.shape[i] > 1]
        shape = [array.shape[i] for i in kept] + [array.shape[-1]]
        return "".join(letters[i] for i in kept) + "z", array.reshape(shape)

    (left, p), (right, r) = varying(probs), varying(reward)
    result = "".join(letters[i] for i in range(rank) if out[i] > 1)
    return f"{left},{right}->{result}", p, r
