"""The long-run distribution of a policy.

It is the limit of d <- (d + P_pi' d) / 2, the lazy chain, which periodic chains have too, from the
model's own start; a chain with several recurrent classes is divided among them from there. It has
no error bound: it is used as a start distribution, and bounds hold for the computed one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, NotConverged
from tessella.mdp.compilation import compile_per_shape, in_float64, to_backend
from tessella.numerics import array_namespace

if TYPE_CHECKING:
    from tessella.mdp.model import MDP
    from tessella.mdp.policy import Policy
    from tessella.mdp.start import HasBackendModel

CONVERGED_CHANGE = 1e-13  # change in one period, in sum, at which a distribution has settled
PERIODS_PER_CALL = 1_000  # periods in one compiled call
MAX_PERIODS = 1_000_000  # periods, at most


@in_float64
def long_run_distribution(
    mdp: MDP, policy: Policy, plan: HasBackendModel | None = None
) -> NDArray[np.float64]:
    """(S,) share of time in each state under ``policy``, in the long run.

    Products are those of the backend of ``plan``; without one, of the dynamics as given.
    """
    model = (mdp.dynamics if plan is None else plan).backend_model
    table = to_backend(model.backend, policy.table)
    start = np.full(mdp.n_states, 1 / mdp.n_states) if mdp.start is None else mdp.start
    distribution = to_backend(model.backend, start.reshape(mdp.grid.shape))
    change = np.inf
    for _ in range(MAX_PERIODS // PERIODS_PER_CALL):
        distribution, change = _advance(model.backend, model.arrays, table, distribution)
        if float(change) <= CONVERGED_CHANGE:
            if not distribution.sum() > 0.5:
                raise ArgumentError("a process that ends has no long run; give another start")
            shares = np.maximum(np.asarray(distribution).ravel(), 0.0)
            return shares / shares.sum()
    raise NotConverged(
        f"the long-run distribution still changes by {float(change):.3g} in a period after "
        f"{MAX_PERIODS:,}; give another start"
    )


@compile_per_shape("backend")
def _advance(backend, arrays, table, distribution):
    """The distribution ``PERIODS_PER_CALL`` periods later, and the change in the last of them."""
    forward = backend.policy_adjoint(arrays, table, distribution)
    xp = array_namespace(distribution)

    def step(carry):
        before, _ = carry
        after = (before + forward(before)) / 2
        return after, abs(after - before).sum()

    return xp.iterate(PERIODS_PER_CALL, step, (distribution, xp.zeros(())))
