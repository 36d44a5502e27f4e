"""Random models with, without and nearly with exogenous axes, checked in rational arithmetic.

States are (x, z). The law of z' is K(z, .) for every x and action (*exogenous*), differs by a tiny
share of itself (*nearly*), or is another for each x and action (*without*). Of each model, in
fractions: the optimum, every comparison of actions at some points against its bound, all actions
that are called decided, and the values of a solution against its error bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

import numpy as np

import tessella as ts
from support.exact import World, read_stages
from support.models import Exact
from support.routes import ROUTES, plan_by
from tessella.mdp.compilation import in_float64
from tessella.solvers.prepared_model import PreparedModel
from tessella.solvers.slices import Slices, measure_slices

KINDS = "exogenous", "nearly", "without"
DISCOUNTS = 0.5, 0.9, 0.99, 0.999, 0.9999, 0.999999
LAW_DIFFERENCE_MIN = 1e-12  # a difference of laws beyond rounding
SHAPES = (2, 2, 2), (3, 2, 2), (2, 3, 3), (3, 3, 2)  # x, z, actions


@dataclass(frozen=True)
class SlicedModel:
    mdp: ts.MDP
    exact: Exact
    kind: str
    off: float  # by what share of itself the law of z' differs

    def __str__(self) -> str:
        return f"{self.mdp.dynamics.kind}, {self.kind}, off by {self.off:g}, {self.mdp.criterion}"


def draw_model(seed: int) -> SlicedModel:
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % 3]
    build = _draw_stages if rng.random() < 0.3 else _draw_table
    off = {"exogenous": 0.0, "nearly": 10.0 ** rng.uniform(-11, -2), "without": 1.0}[kind]
    discount = float(rng.choice(DISCOUNTS))
    if kind == "without" and rng.random() < 0.3:
        build = _draw_ending
    mdp, exact = build(rng, SHAPES[seed // 3 % len(SHAPES)], discount, off)
    return SlicedModel(mdp, exact, kind, off)


def _draw_rewards(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Often with ties, which decide nothing."""
    rewards = rng.integers(-3, 4, shape) if rng.random() < 0.4 else rng.normal(size=shape)
    return rewards * float(rng.choice([1.0, 100.0]))


def _mix(rng: np.random.Generator, law: np.ndarray, off: float, shape: tuple[int, ...]):
    """(*shape, z, z') the law, moved towards another one by ``off`` for all indices but 0."""
    other = rng.dirichlet(np.ones(law.shape[-1]), (*shape, len(law)))
    share = off * (np.arange(np.prod(shape)).reshape(*shape, 1, 1) > 0)
    return (1 - share) * law + share * other


def _draw_table(rng, shape, discount, off):
    nx, nz, na = shape
    law = _mix(rng, rng.dirichlet(np.full(nz, 0.5), nz), off, (na, nx))
    moves = rng.dirichlet(np.full(nx, 0.4), (na, nx, nz, nz))  # of x', given a, x, z and z'
    transition = np.einsum("axzw,axzwy->axzyw", law, moves).reshape(na, nx * nz, nx * nz)
    reward = _draw_rewards(rng, (nx * nz, na))
    feasible = rng.random((nx * nz, na)) < 0.8
    feasible[np.arange(nx * nz), rng.integers(0, na, nx * nz)] = True
    # An infeasible action may do anything.
    transition = np.where(feasible.T[..., None], transition, np.eye(nx * nz)[::-1])
    grid = {"x": range(nx), "z": range(nz)}
    mdp = ts.MDP.from_arrays(transition, reward, discount, grid=grid, feasible=feasible)
    return mdp, Exact(transition, reward, discount, feasible)


def _draw_ending(rng, shape, discount, off):
    """A process that may end, by chances of its own in each state and action."""
    nx, nz, na = shape
    n = nx * nz
    chances = rng.dirichlet(np.full(n + 1, 0.4), (na, n))  # the last one ends it
    reward = _draw_rewards(rng, (n, na))
    table = {
        s: {
            a: [(p, min(to, n - 1), reward[s, a], to == n) for to, p in enumerate(chances[a, s])]
            for a in range(na)
        }
        for s in range(n)
    }
    mdp = ts.MDP.from_gymnasium(SimpleNamespace(P=table), discount)
    transition = chances[..., :n]
    # What is paid is paid on each outcome.
    reward_given_end = [
        [sum(map(Fraction, chances[a, s])) * Fraction(reward[s, a]) for a in range(na)]
        for s in range(n)
    ]
    return mdp, Exact(transition, np.array(reward_given_end, dtype=object), discount)


def _draw_stages(rng, shape, discount, off):
    nx, nz, na = shape
    law = _mix(rng, rng.dirichlet(np.full(nz, 0.7), nz), off, (nx,))
    demand = rng.dirichlet(np.ones(nx), nz)
    reward = _draw_rewards(rng, (nx, nz, na))

    def look_up(table, index):
        """Arrays carry trailing axes of length one; plain numbers, as fractions read, none."""
        index = np.asarray(index)
        return table[index.reshape(index.shape[: max(index.ndim + 1 - table.ndim, 0)])]

    stages = [
        ts.Pay(pays=lambda x, z, action: reward[x, z, action]),
        ts.Decide("x", to=lambda x, action: np.minimum(x + action, nx - 1)),
        ts.Shift("x", ts.Noise("d", range(nx), lambda z: look_up(demand, z)), by=lambda d: -d),
        ts.Move("z", law[0] if off == 0 else lambda x: look_up(law, x)),
    ]
    axes = {"x": range(nx), "z": range(nz)}
    mdp = ts.MDP.staged(axes, range(na), discount, stages)
    return mdp, read_stages(World(axes, range(na)), stages).to_exact(discount)


def find_faults(seed: int) -> list[str]:
    """What is wrong with the case of a seed, in words."""
    model = draw_model(seed)
    rng = np.random.default_rng(seed + 1)
    value = model.exact.solve()
    messages = check_axes(model) + check_comparisons(model, value, rng)
    plan = plan_by(model.mdp, ROUTES[seed % 20 == 0])
    for name, solution in {
        "solve": ts.solve(model.mdp),
        "loosely": ts.solve(model.mdp, tol=float(rng.choice([1.0, 1e-3])), partial=True),
        "until policy": ts.solve(model.mdp, until="policy", plan=plan),
    }.items():
        messages += [f"{name}: {fault}" for fault in check_solution(model, solution, value)]
    return [f"{model}: {fault}" for fault in messages]


def check_axes(model: SlicedModel) -> list[str]:
    """Axes that are called exogenous are, up to the error that is stated and to rounding."""
    exogenous = model.mdp.exogenous
    names = () if exogenous is None else exogenous.names
    messages = []
    if model.kind == "exogenous" and "z" not in names:
        messages.append("z is exogenous, and is not said to be")
    if exogenous is None:
        return messages
    off = max(_find_deviations(model.exact, model.mdp.grid.shape, exogenous))
    if off > Fraction(exogenous.error):
        messages.append(f"the law of {names} is off by {float(off):g}, not {exogenous.error:g}")
    if off > LAW_DIFFERENCE_MIN:
        messages.append(f"{names} are called exogenous, off by {float(off):g}")
    return messages


def _find_deviations(exact: Exact, shape: tuple[int, ...], exogenous) -> Iterator[Fraction]:
    """sum |marginal - K| over the places of these axes, of each state and feasible action."""
    places = np.unravel_index(np.arange(exact.n), shape)
    slice_of = np.ravel_multi_index([places[axis] for axis in exogenous.axes], exogenous.shape)
    matrix = exogenous.matrix.toarray()
    for s, a in zip(*np.nonzero(exact.feasible), strict=True):
        law = [Fraction(-p) for p in matrix[slice_of[s]].tolist()]
        for to, p in enumerate(exact.P[a][s]):
            law[slice_of[to]] += p
        yield sum(map(abs, law), Fraction(0))


def _compare(exact: Exact, value, s: int) -> list[Fraction]:
    """Action values of the feasible actions, less the first."""
    q = [exact.q(value, s, a) for a in np.flatnonzero(exact.feasible[s])]
    return [x - q[0] for x in q]


def _back_up(mdp: ts.MDP, value: np.ndarray) -> np.ndarray:
    """T v, and a constant that brings it nearer."""
    expected = np.stack([p @ value.ravel() for p in mdp.to_sparse().transition], axis=1)
    q = np.where(mdp.feasible_mask, mdp.reward + mdp.discount * expected, -np.inf)
    backup = q.max(axis=1).reshape(value.shape)
    return backup + (backup - value).mean() * mdp.discount / (1 - mdp.discount)


@in_float64
def check_comparisons(model: SlicedModel, optimum, rng: np.random.Generator) -> list[str]:
    """Comparisons at some points, against the bound of their slices."""
    mdp, exact = model.mdp, model.exact
    prepared = PreparedModel(plan_by(mdp, "rows"))
    slices = Slices.build(prepared)
    point = rng.normal(size=mdp.grid.shape) * float(rng.choice([0.0, 1.0, 1000.0]))
    messages = []
    for _ in range(3):
        for _ in range(int(rng.integers(0, 6))):
            point = _back_up(mdp, point)
        measured = measure_slices(slices.axes, prepared.make_operators(), point)
        bound = np.broadcast_to(slices.bound_point(measured), mdp.grid.shape).ravel()
        at_point = [Fraction(x) for x in point.ravel().tolist()]
        # The point is rounded once more where its middle is taken out.
        slack = 4 * Fraction(float(np.abs(point).max())) * Fraction(1, 2**52)
        for s in range(exact.n):
            pairs = zip(_compare(exact, optimum, s), _compare(exact, at_point, s), strict=True)
            off = [x - y for x, y in pairs]
            if np.isfinite(bound[s]) and max(off) - min(off) > Fraction(bound[s]) + slack:
                messages.append(f"a comparison is off by {float(max(off)):g}, not {bound[s]:g}")
    return messages


def check_solution(model: SlicedModel, solution: ts.Solution, optimum) -> list[str]:
    exact = model.exact
    messages = []
    policy = solution.policy.table.ravel()
    tolerance = np.broadcast_to(solution.slice_tolerance, solution.value.shape).ravel()
    for s in range(exact.n):
        q = {a: exact.q(optimum, s, a) for a in np.flatnonzero(exact.feasible[s])}
        rivals = [value for a, value in q.items() if a != policy[s]]
        if solution.decided.ravel()[s] and rivals and max(rivals) >= q[policy[s]]:
            messages.append(f"state {s} is decided, and wrong")
        if max(q.values()) - q[policy[s]] > 2 * Fraction(tolerance[s]):
            messages.append(f"the action of state {s} loses more than 2 tolerances")
        if abs(Fraction(solution.value.flat[s]) - optimum[s]) > Fraction(solution.error_bound):
            messages.append(f"the value of state {s} is off by more than its bound")
    return messages
