"""occupancy(mdp, policy) -> Occupancy: how often each state is visited, discounted.

    d = (1 - discount) sum_t discount^t mu P_pi^t = (1 - discount) mu + discount P_pi' d,

with the adjoint of the policy's expectation. For a trial d with residual rho, the error is at most
||rho||_1 / (1 - discount) in total; the sum of d is 1, or less in a model that can end. With a
horizon, d is a share of the time that is left after the start, and sums to 1 from any of them.
Corrections of large models are in single precision, residuals never (see ``single_precision``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.average import Average
from tessella.criteria.criterion import serve
from tessella.criteria.discounted import Discounted
from tessella.criteria.finite_horizon import FiniteHorizon
from tessella.errors import NotConverged, expect
from tessella.mdp.engine import compiled, in_float64, placed
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.start import Start, start_distribution
from tessella.numerics import numerics
from tessella.rounding import EPS, round_up
from tessella.solvers.driver import Engine
from tessella.solvers.hitting import policy_time
from tessella.solvers.method import checked_tol
from tessella.solvers.operators import Data, Operators
from tessella.solvers.single_precision import in_single, pays_off, scaled_residual

HELPED = 0.5  # a correction that leaves more of the residual than this has failed
ROUGH, FINE = (1e-3, 150), (1e-8, 200)  # a correction in single and in double precision
PLAIN = 800  # steps of the process where a correction did not help


@dataclass(frozen=True, eq=False)
class Occupancy:
    """Share of time in each state; with a discount, nearer periods count more."""

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
        return "\n".join([head, *places, f"total error at most {round_up(self.error_bound, 2)}"])


def occupancy(
    mdp: MDP,
    policy: Any,
    start: Start = None,
    *,
    tol: float | None = None,
    max_rounds: int = 200,
) -> Occupancy:
    """Share of time in each state: discounted, from a start; or in the long run.

    With a horizon it is a share of the periods that are left after the start.

    Args:
        policy: whatever decides: see ``tessella.as_policy``.
        start: any start: see ``tessella.mdp.start``; None for the model's own.
        tol: bound on the total error (1e-11), raised to what rounding allows.
    """
    expect("occupancy", mdp, MDP)
    found = visits(mdp, policy, start, tol=tol, max_rounds=max_rounds)
    left = mdp.criterion.remaining(found.start)
    share, bound = found.share / left, found.error_bound / left + 4 * EPS
    return replace(found, share=share, error_bound=bound) if left != 1 else found


def visits(
    mdp: MDP,
    policy: Any,
    start: Start,
    *,
    tol: float | None,
    max_rounds: int = 200,
    guess: NDArray | None = None,
) -> Occupancy:
    """The same as shares of all periods of a horizon, also of those before the start.

    ``guess`` is where to begin, such as the shares of a policy that is much the same.
    """
    serve("occupancy", mdp.criterion, Discounted, Average, FiniteHorizon)
    checked = mdp.policy(policy)
    tol = checked_tol(tol) or 1e-11
    mu = start_distribution(mdp, start, checked).reshape(mdp.grid.shape)
    share, bound = _share(mdp, checked.table, mu, tol, max_rounds, guess)
    return Occupancy(mdp, checked, mu, share, bound)


@in_float64
def _share(
    mdp: MDP, table, mu, tol: float, max_rounds: int, guess: NDArray | None
) -> tuple[NDArray, float]:
    """(grid) the occupancy, and a bound on the sum of its errors."""
    engine, single = Engine(mdp, None), pays_off(mdp)
    factor = _factor(engine, table)
    floor = engine.adjoint_floor * engine.rest * factor
    wanted = max(tol, 2 * floor)
    policy, source = placed(engine.program, (table, mdp.criterion.source(mu)))
    system = engine.program, engine.data_for(policy), policy, source
    d = source
    if guess is not None:
        d = placed(engine.program, guess.reshape(mu.shape).astype(float))
    left = bound = np.inf
    for _ in range(max_rounds):
        before = left
        d, left = _improved(single, system, d, before)
        bound = left * factor + floor
        if bound <= wanted:
            return np.asarray(d), bound
        if left > HELPED * before:
            d = _directly(engine, np.asarray(table), source, d)
    raise NotConverged(f"occupancy: bound {bound:.3g} after {max_rounds} rounds, not {wanted:.3g}")


def _improved(single: bool, system: tuple, d, before: float) -> tuple[Any, float]:
    """d after a Krylov correction, or after steps of the process itself where that did not help."""
    program, *numbers = system
    trial, left = _correct(program, single, *numbers, d)
    if not float(left) < HELPED * before:
        trial, left = _plain(program, *numbers, d)
    return trial, float(left)


def _factor(engine: Engine, table: NDArray) -> float:
    """What the sum of a residual is multiplied by to bound the sum of the errors."""
    if isinstance(engine.mdp.criterion, Average):
        return 1 + 2 * policy_time(engine, table)  # of (I - P + mean)^-1: see ``hitting``
    return 1 / engine.rest


def _directly(engine: Engine, table: NDArray, source, d):
    """The occupancy by a direct solve, where dynamics offer one."""
    mdp = engine.mdp
    if not isinstance(mdp.criterion, Discounted):
        return d
    system = mdp.dynamics.factorised(table, mdp.discount)
    if system is None:
        return d
    found = system.solve(np.asarray(source).ravel(), trans="T")
    return placed(engine.program, found.reshape(d.shape))


@compiled("program", "single")
def _correct(program, single: bool, data: Data, policy, source, d):
    """One correction of d, and the sum of what it leaves."""
    operators, xp = Operators(program, data), numerics(source)
    exact = operators.left_adjoint(policy, source)
    residual = source - exact(d)
    if single:
        rhs, scale = scaled_residual(residual)
        rough = in_single(operators).left_adjoint(policy, rhs)
        e = xp.bicgstab(rough, rhs, tol=ROUGH[0], maxiter=ROUGH[1])
    else:
        scale = 1.0
        rough = operators.preconditioned_adjoint
        e = xp.bicgstab(exact, residual, tol=FINE[0], maxiter=FINE[1], rough=rough)
    trial = xp.maximum(d + scale * e, 0.0)
    return trial, abs(source - exact(trial)).sum()


@compiled("program")
def _plain(program, data: Data, policy, source, d):
    """Steps of the process itself, and the sum of what they leave."""
    exact, xp = Operators(program, data).left_adjoint(policy, source), numerics(source)
    d = xp.repeat(PLAIN, lambda x: x + (source - exact(x)), d)
    d = xp.maximum(d, 0.0)
    return d, abs(source - exact(d)).sum()
