"""Gauss-Seidel value iteration, as a method of one's own in one file.

The states are divided into blocks of consecutive states, in the order of the grid. A round backs up
one block after the other, and each block uses the new values of those before it:

    v_k <- (T v)_k    for k = 1, ..., blocks.

With as many blocks as states, this is the textbook method. A step knows the shape of the grid and
not the names of its axes, so blocks follow the order of the states: they cut along the first axis,
for tables and stages alike. With ``reverse`` a round starts at the last states. Over a horizon,
whose first axis is time, a round with a block for each period is then backward induction.

T works on all states at once, so a round costs as many backups as there are blocks; ``ts.InPlace``
backs up only the block at hand. Many blocks bring the largest error down in fewer rounds. Plain
sweeps have another advantage: the bounds of the loop remove an error that all states share, and
only plain sweeps keep it shared. To 1e-8, INV-Mix takes 387 rounds with 1 block and 243 with 33;
``ts.inventory(max_stock=11, max_regime=4)``, which mixes faster, takes 129 with 1 and 220 with 60.

    import tessella as ts
    from gauss_seidel import GaussSeidel

    solution = ts.solve(ts.benchmark("INV-Mix"), GaussSeidel(tol=1e-8, blocks=33))
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

import tessella as ts


@dataclass(frozen=True)
class GaussSeidel(ts.Method):
    """Value iteration by blocks of states; each uses the new values of the blocks before it.

    Args:
        blocks: the number of blocks; 1 is plain value iteration.
        reverse: whether a round goes from the last states of the grid to the first.
    """

    blocks: int = 2
    reverse: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.blocks, int) or self.blocks < 1:
            raise ts.ArgumentError(
                "blocks must be a whole number of at least 1", value=f"got {self.blocks}"
            )

    def check_supports(self, mdp: ts.MDP) -> None:
        """Refuse averages: backups add the gain to all states, and later blocks would get more."""
        if mdp.criterion.has_gain:
            raise ts.ArgumentError(
                "Gauss-Seidel sweeps need a discount or an end", value=f"got {mdp.criterion}"
            )

    def step(self, operators, state):
        """The point after one round; the first block takes the backup that the loop computed."""
        count = state.value.size
        position = jnp.arange(count).reshape(state.value.shape)
        if self.reverse:
            position = count - 1 - position
        states_per_block = -(-count // self.blocks)  # rounded up
        block_of_state = position // states_per_block

        def update_block(block, value):
            backup, _ = operators.bellman(value)
            return jnp.where(block_of_state == block, backup, value)

        first = jnp.where(block_of_state == 0, state.backup, state.value)
        return jax.lax.fori_loop(1, self.blocks, update_block, first)
