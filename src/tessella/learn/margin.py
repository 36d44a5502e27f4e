"""Margin boundaries: the neural learner with weights that look at the boundary.

    w_i = 1 / (margin_i + eta),    eta > 0

States where two actions are nearly as good count most. With noisy observations a small eta
amplifies the noise of just those labels.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.errors import ArgumentError, is_positive
from tessella.learn.features import Features
from tessella.learn.learner import Task
from tessella.learn.neural import NeuralBoundary


class MarginBoundary(NeuralBoundary):
    """``NeuralBoundary`` with observations weighted by 1 / (margin + eta).

    Args:
        eta: in the model's units of reward; large values bring the plain learner back.

    The rest is as in ``NeuralBoundary``.
    """

    title = "Margin Boundary"

    def __init__(
        self,
        eta: float = 1.0,
        hidden: tuple[int, ...] = (64, 64),
        learning_rate: float = 2e-2,
        epochs: int = 30,
        min_steps: int = 960,
        batch_size: int = 200,
        features: Features | None = None,
        random_state: Any = 0,
    ):
        super().__init__(
            hidden, learning_rate, epochs, min_steps, batch_size, features, random_state
        )
        self.eta = eta

    def fit(self, X: Any, y: Any, margins: ArrayLike | None = None) -> Self:
        """``margins`` (n,) of the observations; without them all weigh the same."""
        return self._fit(X, y, margins)

    def _compute_weights(self, task: Task) -> NDArray[np.float64]:
        if not is_positive(self.eta):
            raise ArgumentError("eta must be positive", value=f"got {self.eta!r}")
        if task.margins is None:
            return super()._compute_weights(task)
        weights = 1.0 / (task.margins + self.eta)
        # Where only one action is feasible the margin is infinite; a sample of such states alone
        # has no boundary to look at.
        return weights if weights.any() else super()._compute_weights(task)
