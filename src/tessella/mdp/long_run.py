"""The long-run distribution of a policy: what will be seen once the start is forgotten.

It is the limit of d <- (d + P_pi' d) / 2, the lazy chain, which periodic chains have too, from the
model's own start; a chain with several recurrent classes divides itself among them from there. No
bound comes with it: it is a start like any other, and what is said about a start holds of the
numbers that were found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from tessella.errors import ArgumentError, NotConverged
from tessella.mdp.dynamics import under_policy
from tessella.mdp.engine import compiled, in_float64, on_device

if TYPE_CHECKING:
    from tessella.mdp.model import MDP
    from tessella.mdp.policy import Policy

SETTLED = 1e-13  # change in one period, in sum, at which a distribution has settled
CHUNK, PERIODS = 1_000, 1_000_000  # periods in one compiled call, and at most


@in_float64
def long_run(mdp: MDP, policy: Policy) -> NDArray[np.float64]:
    """(S,) share of time in each state under ``policy``, in the long run."""
    lowered, table = mdp.dynamics.lowered, on_device(policy.table)
    own = np.full(mdp.n_states, 1 / mdp.n_states) if mdp.start is None else mdp.start
    d, change = on_device(own.reshape(mdp.grid.shape)), np.inf
    for _ in range(PERIODS // CHUNK):
        d, change = _periods(lowered.program, lowered.arrays, table, d)
        if float(change) <= SETTLED:
            return _settled(np.asarray(d).ravel())
    raise NotConverged(
        f"the long-run distribution still changes by {float(change):.3g} in a period after "
        f"{PERIODS:,}; give another start"
    )


def _settled(d: NDArray[np.float64]) -> NDArray[np.float64]:
    if not d.sum() > 0.5:
        raise ArgumentError("a process that ends has no long run; give another start")
    found = np.maximum(d, 0.0)
    return found / found.sum()


@compiled("program")
def _periods(program, arrays, table, d):
    """d after CHUNK periods of the lazy chain, and its last change."""

    def expect(v):
        return under_policy(program, arrays, table, v, False)

    forward = jax.linear_transpose(expect, d)

    def period(_, pair):
        after = (pair[0] + forward(pair[0])[0]) / 2
        return after, jnp.abs(after - pair[0]).sum()

    return lax.fori_loop(0, CHUNK, period, (d, jnp.zeros(())))
