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
    own = np.full(mdp.n_states, 1 / mdp.n_states) if mdp.start is None else mdp.start
    d = to_backend(model.backend, own.reshape(mdp.grid.shape))
    change = np.inf
    for _ in range(MAX_PERIODS // PERIODS_PER_CALL):
        d, change = _advance(model.backend, model.arrays, table, d)
        if float(change) <= CONVERGED_CHANGE:
            return _normalise(np.asarray(d).ravel())
    raise NotConverged(
        f"the long-run distribution still changes by {float(change):.3g} in a period after "
        f"{MAX_PERIODS:,}; give another start"
    )


def _normalise(d: NDArray[np.float64]) -> NDArray[np.float64]:
    if not d.sum() > 0.5:
        raise ArgumentError("a process that ends has no long run; give another start")
    shares = np.maximum(d, 0.0)
    return shares / shares.sum()


@compile_per_shape("backend")
def _advance(backend, arrays, table, d):
    """d after ``PERIODS_PER_CALL`` periods of the lazy chain, and its last change."""
    forward = backend.policy_adjoint(arrays, table, d)
    xp = array_namespace(d)

    def period(pair):
        after = (pair[0] + forward(pair[0])) / 2
        return after, abs(after - pair[0]).sum()

    return xp.iterate(PERIODS_PER_CALL, period, (d, xp.zeros(())))
