"""check_method(method): whether a method of one's own solves what it is given.

The loop encloses the optimum around whatever point a method names, so a poor method cannot make a
wrong bound; but it can fail to get there, break on models of another kind, or not compile. Each of
eight small models is solved, one for each criterion at least, and its optimum computed again by
policy iteration in dense linear algebra, which shares nothing with the loop. Models that the method
does not support, by its own ``check_supports``, are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tessella.criteria.average import Average
from tessella.criteria.criterion import Criterion
from tessella.criteria.finite_horizon import FiniteHorizon
from tessella.criteria.total import Total
from tessella.errors import ArgumentError, NotConverged
from tessella.mdp.model import MDP
from tessella.mdp.stages import Decide, Noise, Shift
from tessella.solvers.method import Method
from tessella.solvers.solution import Solution
from tessella.solvers.solve import solve

DENSE_RELATIVE_TOLERANCE = 1e-9  # of the largest value: error of the dense solution, at most


def check_method(method: Method) -> None:
    """Raise an AssertionError that names the first requirement ``method`` does not meet."""
    assert isinstance(method, Method), f"a method is a tessella.Method, not {method!r}"
    assert hash(method) == hash(replace(method, tol=1e-3)), (
        f"{method.name}: two methods that differ in tol alone must be equal: it is a number, and "
        "compiling for each would be slow"
    )
    supported = [mdp for mdp in make_models() if _supports(method, mdp)]
    assert supported, f"{method.name} supports none of the models that it is tried on"
    for mdp in supported:
        _check_solves(method, mdp)
    _check_stops(method, supported[0])


def _supports(method: Method, mdp: MDP) -> bool:
    try:
        method.check_supports(mdp)
    except ArgumentError:
        return False
    return True


def make_models() -> Iterator[MDP]:
    """Small models: plain, with infeasible actions, at discount 0, of stages, other criteria."""
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(6), size=(3, 6))
    reward = rng.normal(size=(6, 3))
    yield MDP.from_arrays(rows, reward, 0.9, name="plain")
    feasible = np.ones((6, 3), dtype=bool)
    feasible[::2, 0] = feasible[1, 1:] = False
    yield MDP.from_arrays(rows, reward, 0.9, feasible=feasible, name="with infeasible actions")
    yield MDP.from_arrays(rows, reward, 0.0, name="at discount 0")
    yield MDP.from_arrays(
        rows, reward, FiniteHorizon(4), feasible=feasible, name="over four periods"
    )
    yield MDP.from_arrays(rows, reward, Average(), name="on average")
    ending = rows.copy()
    cost = -np.abs(reward)
    ending[:, 0] = np.eye(6)[0]
    cost[0] = 0.0
    yield MDP.from_arrays(ending, cost, Total(), name="until state 0 ends it")
    yield _of_stages(0.95, "of stages")
    yield _of_stages(FiniteHorizon(4, 0.95), "of stages over four periods")


def _of_stages(criterion: Criterion | float, name: str) -> MDP:
    demand = Noise("demand", range(3), [0.3, 0.4, 0.3])
    return MDP.staged(
        {"stock": range(5), "price": range(2)},
        (0, 1, 2),
        criterion,
        [
            Decide("stock", to=lambda stock, action: np.minimum(stock + action, 4)),
            Shift("stock", demand, by=lambda demand: -demand, pays=lambda stock: -(stock**2)),
            Shift("price", Noise("drift", [-1, 0, 1], [0.2, 0.6, 0.2]), edge="reflect"),
        ],
        name=name,
    )


class Optimum(NamedTuple):
    value: NDArray[np.float64]  # (S,) V*, or of an average h* with h*[0] = 0
    gain: float


def solve_densely(mdp: MDP) -> Optimum:
    """The optimum by policy iteration with dense matrices.

    Averages and totals have singular systems. There the value of state 0 is 0, and its column holds
    the gain, which is 0 of a total that state 0 ends.
    """
    dense = mdp.to_arrays("SAS")
    rows = dense.transition
    reward = dense.reward
    singular = isinstance(mdp.criterion, Average | Total)
    n = mdp.n_states
    policy = np.asarray(reward).argmax(axis=1)
    for _ in range(1000):
        chosen = np.arange(n), policy
        system = np.eye(n) - mdp.discount * rows[chosen]
        if singular:
            system[:, 0] = 1.0
        value = np.linalg.solve(system, reward[chosen])
        gain = 0.0
        if singular:
            gain = float(value[0])
            value[0] = 0.0
        q = reward - gain + mdp.discount * rows @ value
        improved = np.where(q[chosen] >= q.max(axis=1) - 1e-11, policy, q.argmax(axis=1))
        if (improved == policy).all():
            return Optimum(np.asarray(value, dtype=float), gain)
        policy = improved
    raise ArithmeticError(f"the model {mdp.name} was not solved")


def _check_solves(method: Method, mdp: MDP) -> None:
    context = f"{method.name} on the model {mdp.name}"
    try:
        solution = solve(mdp, method)
    except NotConverged as error:
        raise AssertionError(f"{context} does not reach its tolerance: {error}") from error
    except Exception as error:
        raise AssertionError(f"{context} breaks: {type(error).__name__}: {error}") from error
    deviation = _distance(solution, mdp)
    assert solution.converged, f"{context} returns without having converged: {solution.reason}"
    assert deviation <= solution.error_bound, (
        f"{context} is off by {deviation:.3g} under a bound of {solution.error_bound:.3g}"
    )


def _check_stops(method: Method, mdp: MDP) -> None:
    """A callback can stop it, and what there is comes back with an honest bound."""
    reports = []
    solution = solve(mdp, method, callback=lambda progress: reports.append(progress) or True)
    assert len(reports) == 1, (
        f"{method.name} goes on after {len(reports)} calls of a callback that stops"
    )
    assert _distance(solution, mdp) <= solution.error_bound, (
        f"{method.name}, stopped early, is wrong"
    )


def _distance(solution: Solution, mdp: MDP) -> float:
    """How far a solution is off at least: its gain where there is one, else its values."""
    exact = solve_densely(mdp)
    if solution.gain is not None:
        deviation = abs(solution.gain - exact.gain)
    else:
        deviation = float(np.abs(solution.value.ravel() - exact.value).max())
    scale = max(float(np.abs(exact.value).max()), 1.0)
    return max(deviation - DENSE_RELATIVE_TOLERANCE * scale, 0.0)
