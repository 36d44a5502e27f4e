"""certify(solution, policy) -> Certificate.

The errors of V and V_pi are those that their own residuals prove, whatever the solution says of
itself: e = r / (1 - c), with r widened by all rounding, that of writing the model to a file
included. So whoever has the file can find them again. The loss L = V* - V_pi is then enclosed in
two ways, which must agree. From the errors, |L - (V - V_pi)| <= e + e' in every state. From the
policy-loss decomposition, L solves ``L = l + discount P_pi L`` with the local losses l >= 0, so

    l <= L <= max l / (1 - c),     sum_s mu(s) L(s) = sum_s d(s) l(s) / (1 - discount);

in particular L = 0 exactly when every choice is surely optimal, however coarse the solution.

An average and a total have certificates of their own kinds: see ``gain_certificate`` and
``total_certificate``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.certificates.bounds import bound
from tessella.certificates.certificate import Certificate
from tessella.certificates.decomposition import decompose
from tessella.certificates.enclosure import EPS, Band, Enclosed, down, mean, up
from tessella.certificates.gain_certificate import GainCertificate
from tessella.certificates.gains import certify_gains
from tessella.certificates.local import decisions_of
from tessella.certificates.total_certificate import TotalCertificate
from tessella.certificates.totals import certify_totals
from tessella.criteria.average import Average
from tessella.criteria.discounted import Discounted
from tessella.criteria.finite_horizon import FiniteHorizon
from tessella.errors import ArgumentError, ModelError, PolicyError, expect, is_number
from tessella.mdp.as_policy import Labels, as_policy
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.start import Start, start_distribution
from tessella.solvers.driver import Engine, prove
from tessella.solvers.evaluate import evaluate
from tessella.solvers.occupancy import Occupancy, visits
from tessella.solvers.solution import Solution

# On the sum of the occupancy's errors; it carries the decomposition and the bounds, not the loss.
FINEST, COARSEST = 1e-9, 1e-6
PARTS = 1e-4  # of the mean loss: so right should its parts be ...
SMALL = 10_000  # ... in models of more states than this; of others the finest costs nothing


def certify(
    solution: Solution,
    policy: Any,
    start: Start = None,
    *,
    eps: float | None = None,
    tol: float | None = None,
    labels: Labels | None = None,
) -> Certificate | GainCertificate | TotalCertificate:
    """What ``policy`` loses against the optimum of the solution's model.

    Of an average it is the loss per period, which is the same from every start.

    Args:
        policy: whatever decides: see ``as_policy``.
        start: any start: see ``tessella.mdp.start``; None for the model's own.
        eps: margin for the localisation bound; None for the smallest at which it applies.
        tol: an action within this of the best is no costly error; None for the tie tolerance.
        labels: whether the policy answers in action indices or values, where that is not clear.
    """
    expect("certify", solution, Solution)
    mdp = solution.mdp
    _check_number("eps", eps)
    _check_number("tol", tol)
    taken = as_policy(mdp, policy, labels)
    first = start_distribution(mdp, start, taken).reshape(mdp.grid.shape)
    if isinstance(mdp.criterion, Discounted | FiniteHorizon):
        return _certify_values(solution, taken, first, eps, tol)
    if eps is not None or tol is not None:
        rule = f"eps and tol ask about single decisions; a certificate of {mdp.criterion} has none"
        raise ArgumentError(rule, value=f"got eps={eps!r}, tol={tol!r}")
    if isinstance(mdp.criterion, Average):
        return certify_gains(solution, taken)
    return certify_totals(solution, taken, first)


def _certify_values(
    solution: Solution, taken: Policy, start: NDArray, eps: float | None, tol: float | None
) -> Certificate:
    """What a checked policy loses, where values are sums of rewards."""
    mdp, engine = solution.mdp, Engine(solution.mdp, None)
    if not engine.written_rest > 0:
        raise ModelError(f"{mdp.criterion} is too near 1 for a certificate of this model")
    best, worth = _optimum(solution), _worth(solution, taken)
    decisions = decisions_of(engine, solution, best.error, taken.table)
    losses = _losses(mdp, best, worth, decisions.loss)
    visited = _visits(mdp, taken, start, mean(start, losses), decisions.loss)
    tolerance = decisions.tie if tol is None else float(tol)
    return Certificate(
        model=mdp.name,
        fingerprint=mdp.fingerprint,
        discount=mdp.discount,
        periods=getattr(mdp.criterion, "periods", None),
        minimise=mdp.minimise,
        action_name=mdp.action_name,
        policy=taken,
        optimal=decisions.optimal,
        start=start,
        tolerance=tolerance,
        optimal_value=best.value,
        optimal_value_error=best.error,
        policy_value=worth.value,
        policy_value_error=worth.error,
        margin=decisions.margin.value,
        margin_slack=decisions.tie,
        local_losses=decisions.loss,
        losses=losses,
        occupancy=visited.share,
        occupancy_error=visited.error_bound,
        policy_error=_share(decisions.differs, decisions.wrong, decisions.perhaps_wrong),
        costly_error=_share(*(part > tolerance for part in _parts(decisions.loss))),
        decomposition=decompose(
            decisions.optimal, taken.table, mdp.n_actions, decisions.loss, visited
        ),
        bounds=bound(decisions, visited, _reward_bound(mdp), engine.written_rest, eps),
        mdp=mdp,
        **_totals(start, best, worth, losses, decisions.loss, visited),
    )


def _totals(
    start: NDArray, best: Known, worth: Known, losses: Band, local: Band, visits: Occupancy
) -> dict[str, Any]:
    """The single figures of a certificate."""
    forever = visits.mdp.criterion.forever(1)
    everywhere = np.full(start.shape, 1 / start.size)
    optimal_mean = _mean_value(start, best)
    by_occupancy = _by_occupancy(local, visits, visits.mdp)
    mean_loss = mean(start, losses).within(by_occupancy, "the mean loss")
    return {
        "value_gap": mean(everywhere, local).times(forever),
        "optimal_mean": optimal_mean,
        "policy_mean": _mean_value(start, worth),
        "mean_loss": mean_loss,
        "relative_loss": mean_loss.over(optimal_mean),
        "worst_loss": losses.max(),
    }


def _check_number(name: str, number: float | None) -> None:
    if number is not None and not (is_number(number) and number >= 0):
        rule = f"{name} must be a number, finite and not negative"
        raise ArgumentError(rule, value=f"got {number!r}")


@dataclass(frozen=True, eq=False)
class Known:
    """A value (grid), and what its residual proves about its error in every state."""

    value: NDArray[np.float64]
    error: float


def _optimum(solution: Solution) -> Known:
    """The solution's value; of its own bound nothing is believed."""
    value = np.asarray(solution.value, dtype=float)
    if value.shape != solution.mdp.grid.shape or not np.isfinite(value).all():
        raise ArgumentError(
            f"a solution's value must be finite, of shape {solution.mdp.grid.shape}"
        )
    return _known(Engine(solution.mdp, None), value)


def _worth(solution: Solution, policy: Policy) -> Known:
    """The policy's value, as accurate as the optimum's or as rounding allows."""
    mdp = solution.mdp
    tol = solution.error_bound or None
    worth = evaluate(mdp, policy, tol=tol, guess=solution.value, partial=True)
    if not np.isfinite(worth.error_bound):
        raise PolicyError("the policy's value must be finite", value=worth.reason)
    return _known(Engine(mdp, None), worth.value, policy.table)


def _known(engine: Engine, value: NDArray, table: NDArray | None = None) -> Known:
    error = prove(engine, value, table, engine.written(value))
    return Known(value, error * engine.rest / engine.written_rest)


def _visits(
    mdp: MDP, policy: Policy, start: NDArray[np.float64], loss: float, local: Band
) -> Occupancy:
    """The occupancy; of a large model as accurate as puts the parts of the loss right to PARTS."""
    wanted = FINEST
    if mdp.n_states > SMALL:
        largest = mdp.criterion.forever(float(local.upper.max()))
        wanted = PARTS * loss / largest if largest > 0 else COARSEST
    found = visits(mdp, policy, start, tol=min(max(wanted, FINEST), COARSEST))
    engine = Engine(mdp, None)
    return replace(found, error_bound=found.error_bound * engine.rest / engine.written_rest)


def _losses(mdp: MDP, best: Known, worth: Known, local: Band) -> Band:
    """(grid) enclosures of L, from both ways."""
    x = best.value - worth.value
    size = float(np.abs(best.value).max() + np.abs(worth.value).max())
    error = (best.error + worth.error) * (1 + 4 * EPS) + 2 * EPS * size
    most = float(local.upper.max()) / Engine(mdp, None).written_rest
    lower = np.maximum(x - error, local.lower)
    upper = np.minimum(x + error, most)
    bad = np.flatnonzero(lower > upper)
    if bad.size:
        raise ArithmeticError(
            f"two ways to the loss exclude one another in {bad.size:,} states, first in "
            f"{mdp.grid.describe(int(bad[0]))}"
        )
    return Band(np.clip(x, lower, upper), lower, upper)


def _by_occupancy(local: Band, visits: Occupancy, mdp: MDP) -> Enclosed:
    """sum_s d(s) l(s) / (1 - discount)."""
    total = mean(visits.share, local)
    off = visits.error_bound * float(local.upper.max())
    total = Enclosed(total, down(max(total.lower - off, 0.0)), up(total.upper + off))
    return total.times(mdp.criterion.forever(1))


def _mean_value(start: NDArray, known: Known) -> Enclosed:
    return mean(start, Band(known.value, known.value - known.error, known.value + known.error))


def _parts(band: Band) -> tuple[NDArray, NDArray, NDArray]:
    return band.value, band.lower, band.upper


def _share(guess: NDArray, surely: NDArray, perhaps: NDArray) -> Enclosed:
    """Share of states in a set of which ``surely`` are and ``perhaps`` may be."""
    value, lower, upper = (int(part.sum()) / part.size for part in (guess, surely, perhaps))
    return Enclosed(value, down(lower), up(upper))


def _largest_reward(mdp: MDP, action: int) -> float:
    """max |r(s, a)| over the states where the action is feasible."""
    reward = np.abs(mdp.dynamics.reward_under(action))
    return float(
        reward.max() if mdp.feasible is None else reward[mdp.feasible[:, action]].max(initial=0.0)
    )


def _reward_bound(mdp: MDP) -> float:
    """R, the largest |r(s, a)| over feasible pairs, rounded up."""
    largest = max(_largest_reward(mdp, action) for action in range(mdp.n_actions))
    rounding = EPS * mdp.dynamics.terms * mdp.dynamics.reward_scale
    return up((largest + rounding + 2 * mdp.dynamics.written.reward) * (1 + 4 * EPS))
