"""occupancy(mdp, policy) -> Occupancy: how often each state is visited, discounted.

    d = (1 - discount) sum_t discount^t mu P_pi^t = (1 - discount) mu + discount P_pi' d,

with the adjoint of the policy's expectation. For a trial d with residual rho, the error is at most
||rho||_1 / (1 - discount) in total; the sum of d is 1, or less in a model that can end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.sparse.linalg import bicgstab
from numpy.typing import NDArray
from scipy.sparse.linalg import splu

from tessella.errors import NotConverged, expect
from tessella.mdp.engine import compiled, in_float64, on_device
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.start import Start, start_distribution
from tessella.mdp.tabular.tabular import Tabular
from tessella.solvers import kernels
from tessella.solvers.driver import Engine, checked_tol


@dataclass(frozen=True, eq=False)
class Occupancy:
    """Discounted share of time in each state."""

    mdp: MDP
    policy: Policy
    start: NDArray[np.float64]  # (grid) distribution of the first state
    share: NDArray[np.float64]  # (grid)
    error_bound: float  # on the sum over states of |share - exact|

    def __str__(self) -> str:
        order = np.argsort(-self.share, axis=None, kind="stable")
        shares = self.share.ravel()[order]
        half = 1 + int(np.searchsorted(shares.cumsum(), shares.sum() / 2))
        places = [f"  {self.share.flat[s]:.2%} in {self.mdp.grid.describe(s)}" for s in order[:3]]
        title = f"Occupancy of {self.policy.name or 'a policy'}, {self.mdp.name or 'MDP'}"
        head = f"{title}: half of the time in {half:,} of {shares.size:,} states"
        return "\n".join([head, *places, f"total error at most {self.error_bound:.2g}"])


def occupancy(
    mdp: MDP,
    policy: Any,
    start: Start = None,
    *,
    tol: float | None = None,
    max_rounds: int = 200,
) -> Occupancy:
    """Normalised discounted occupancy of ``policy`` from a start distribution (uniform).

    Args:
        policy: whatever decides: see ``tessella.as_policy``.
        start: any start: see ``tessella.mdp.start``; None for the model's own.
        tol: bound on the total error (1e-11), raised to what rounding allows.
    """
    expect("occupancy", mdp, MDP)
    checked = mdp.policy(policy)
    tol = checked_tol(tol) or 1e-11
    mu = start_distribution(mdp, start, checked).reshape(mdp.grid.shape)
    share, bound = _flow(mdp, checked.table, mu, tol, max_rounds)
    return Occupancy(mdp, checked, mu, share, bound)


@in_float64
def _flow(mdp: MDP, table, mu, tol: float, max_rounds: int) -> tuple[NDArray, float]:
    engine = Engine(mdp, None)
    factor, floor = 1 / engine.rest, engine.adjoint_floor
    wanted = max(tol, 2 * floor)
    policy, source = on_device((table, (1 - mdp.discount) * mu))
    d, bound = source, np.inf
    for _ in range(max_rounds):
        before = bound
        d, residual = _correct(engine.program, engine.model, policy, source, d)
        bound = float(residual) * factor + floor
        if bound <= wanted:
            return np.asarray(d), bound
        if bound > 0.5 * before and isinstance(mdp.dynamics, Tabular):
            system = splu(mdp.dynamics.system(np.asarray(table), mdp.discount))
            d = on_device(system.solve(np.asarray(source).ravel(), trans="T").reshape(d.shape))
    raise NotConverged(f"occupancy: bound {bound:.3g} after {max_rounds} rounds, not {wanted:.3g}")


@compiled("program")
def _correct(program, model: kernels.Model, policy, source, d):
    """One Krylov correction, with plain steps where it does not help; and the residual's sum."""

    def expect(v):
        return kernels.policy_backup(program, model, policy, v, False)

    adjoint = jax.linear_transpose(expect, source)

    def flow(x):
        return adjoint(x)[0]

    def residual(x):
        return source + flow(x) - x

    r = residual(d)
    e, _ = bicgstab(lambda x: x - flow(x), r, tol=1e-8, maxiter=200)
    candidate = d + e
    size = jnp.abs(residual(candidate)).sum()
    helps = jnp.isfinite(candidate).all() & (size < 0.5 * jnp.abs(r).sum())
    plain = lax.cond(
        helps,
        lambda: candidate,
        lambda: lax.fori_loop(0, 800, lambda _, x: source + flow(x), d),
    )
    plain = jnp.maximum(plain, 0.0)
    return plain, jnp.abs(residual(plain)).sum()
