"""check_method(method): whether a method of one's own solves what it is given.

The loop encloses the optimum around whatever point a method names, so a poor method cannot make a
wrong bound; but it can fail to get there, break on models of another kind, or not compile. Each of
four small models is solved, and its optimum found again by policy iteration in dense linear
algebra, which shares nothing with the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tessella.errors import NotConverged
from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Noise, Shift
from tessella.solvers.method import Method
from tessella.solvers.solve import solve

DENSE = 1e-9  # of the largest value: how right the dense solution surely is


def check_method(method: Method) -> None:
    """Raise an AssertionError that names the first promise ``method`` does not keep."""
    assert isinstance(method, Method), f"a method is a tessella.Method, not {method!r}"
    assert hash(method) == hash(replace(method, tol=1e-3)), (
        f"{method.name}: two methods that differ in tol alone must be equal: it is a number, and "
        "compiling for each would be slow"
    )
    for mdp in models():
        _check_solves(method, mdp)
    _check_stops(method)


def models() -> Iterator[MDP]:
    """Small models: plain, with infeasible actions, at discount 0, told as stages."""
    rng = np.random.default_rng(0)
    rows, reward = rng.dirichlet(np.ones(6), size=(3, 6)), rng.normal(size=(6, 3))
    yield MDP.from_arrays(rows, reward, 0.9, name="plain")
    allowed = np.ones((6, 3), dtype=bool)
    allowed[::2, 0] = allowed[1, 1:] = False
    yield MDP.from_arrays(rows, reward, 0.9, feasible=allowed, name="with infeasible actions")
    yield MDP.from_arrays(rows, reward, 0.0, name="at discount 0")
    demand = Noise("demand", range(3), [0.3, 0.4, 0.3])
    yield MDP.staged(
        {"stock": range(5), "price": range(2)},
        (0, 1, 2),
        0.95,
        [
            Decide("stock", to=lambda stock, action: np.minimum(stock + action, 4)),
            Shift("stock", demand, by=lambda demand: -demand, pays=lambda stock: -(stock**2)),
            Shift("price", Noise("drift", [-1, 0, 1], [0.2, 0.6, 0.2]), edge="reflect"),
        ],
        name="told as stages",
    )


def optimum(mdp: MDP) -> NDArray[np.float64]:
    """(S,) V* by policy iteration with dense matrices."""
    dense = mdp.to_arrays("SAS")
    rows, reward = dense.transition, dense.reward
    n, policy = mdp.n_states, np.asarray(reward).argmax(axis=1)
    for _ in range(1000):
        chosen = np.arange(n), policy
        value = np.linalg.solve(np.eye(n) - mdp.discount * rows[chosen], reward[chosen])
        q = reward + mdp.discount * rows @ value
        better = np.where(q[chosen] >= q.max(axis=1) - 1e-11, policy, q.argmax(axis=1))
        if (better == policy).all():
            return np.asarray(value, dtype=float)
        policy = better
    raise ArithmeticError(f"the model {mdp.name} was not solved")


def _check_solves(method: Method, mdp: MDP) -> None:
    where = f"{method.name} on the model {mdp.name}"
    try:
        found = solve(mdp, method)
    except NotConverged as error:
        raise AssertionError(f"{where} does not reach its tolerance: {error}") from error
    except Exception as error:
        raise AssertionError(f"{where} breaks: {type(error).__name__}: {error}") from error
    exact = optimum(mdp)
    off = float(np.abs(found.value.ravel() - exact).max())
    slack = DENSE * max(float(np.abs(exact).max()), 1.0)
    assert found.converged, f"{where} returns without having converged: {found.reason}"
    assert off <= found.error_bound + slack, (
        f"{where} is off by {off:.3g} under a bound of {found.error_bound:.3g}"
    )


def _check_stops(method: Method) -> None:
    """A callback can stop it, and what there is comes back with an honest bound."""
    mdp = next(models())
    seen = []
    found = solve(mdp, method, callback=lambda progress: seen.append(progress) or True)
    off = float(np.abs(found.value.ravel() - optimum(mdp)).max())
    assert len(seen) == 1, f"{method.name} goes on after {len(seen)} calls of a callback that stops"
    assert off <= found.error_bound + DENSE * 10, f"{method.name}, stopped early, is wrong"
