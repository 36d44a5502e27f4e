"""How long and in what portions a network trains."""

from __future__ import annotations

from dataclasses import dataclass

from tessella.errors import ArgumentError, is_count, is_positive


@dataclass(frozen=True)
class TrainingPlan:
    """A training plan, valid for every sample size.

    Args:
        hidden: widths of the hidden layers.
        learning_rate: first step size; it falls to zero along a cosine.
        epochs: passes over the sample, at least.
        min_steps: steps, at least; decides for small samples.
        batch_size: observations in a batch, halved (twice at most) while an epoch has fewer than
            16 batches.
    """

    hidden: tuple[int, ...]
    learning_rate: float
    epochs: int
    min_steps: int
    batch_size: int

    def __post_init__(self) -> None:
        whole = (*self.hidden, self.epochs, self.min_steps, self.batch_size)
        if not all(map(is_count, whole)) or not is_positive(self.learning_rate):
            requirement = (
                "numbers of a training plan must be positive, all but the learning rate whole"
            )
            raise ArgumentError(requirement, value=f"got {self}")

    def batch_size_for(self, n: int) -> int:
        """Observations in a batch of a sample of n."""
        batch = self.batch_size
        for _ in range(2):
            if n < 16 * batch and batch % 2 == 0:
                batch //= 2
        return batch

    def steps_for(self, n: int) -> int:
        """Steps for a sample of n."""
        return max(self.min_steps, -(-self.epochs * n // self.batch_size_for(n)))
