"""Checks for user-defined dynamics, policies, methods and problems.

Each check takes one object, returns nothing if it meets all requirements, and raises an
AssertionError that names the first requirement that is broken, and where.

`check_dynamics`: all forms of dynamics agree. The same law is given as matrices, as a backend, and
as samples; solvers use the second, files and certificates the first, simulation the third. Each is
compared with the matrices:

    backup(w)[s, a] = r(s, a) + sum_s' P(s' | s, a) w(s').

`check_policy`: a policy answers every point with a feasible action, and with the same one for every
query: of one point or several, in any order, now or later, in this process or another.

`check_method`: the loop encloses the optimum around whatever point a method names, so a poor method
cannot make a wrong bound; but it can fail to converge, break on models of another kind, or not
compile. Eight small models are solved, at least one for each criterion, and their optima are
computed again by policy iteration in dense linear algebra, which shares no code with the loop.
Models that the method does not support are left out.

`check_problem`: every setting within its range builds a model, the same settings always the same
one, also after a round trip through JSON (a stored spec) and a pickle (a worker). Every parameter
and axis is explained, and every explained axis exists. The optimal policy has the structure that
theory states.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from tessella.criteria.average import Average
from tessella.criteria.criterion import Criterion
from tessella.criteria.finite_horizon import FiniteHorizon
from tessella.criteria.total import Total
from tessella.errors import ArgumentError, NotConverged, TessellaError
from tessella.mdp.compilation import in_float64, to_backend
from tessella.mdp.dynamics import BackendModel, Dynamics
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.stages import Decide, Noise, Shift
from tessella.problems.problem import Integer, Problem
from tessella.rounding import EPS
from tessella.solvers.method import Method
from tessella.solvers.solution import Solution
from tessella.solvers.solve import solve
from tessella.tessellation import examine, tessellate

__all__ = ["check_dynamics", "check_method", "check_policy", "check_problem"]

SAMPLES_PER_PAIR = 2_000  # samples from each state and action
MAX_SAMPLED_PAIRS = 12  # states and actions that samples are taken of
MAX_STANDARD_ERRORS = 6.0  # by which a mean may be off; a correct one is off by more once in 5e8
DENSE_RELATIVE_TOLERANCE = 1e-9  # of the largest value: error of the dense solution, at most


def check_dynamics(dynamics: Dynamics) -> None:
    """Raise an AssertionError that names the first requirement ``dynamics`` do not meet."""
    assert isinstance(dynamics, Dynamics), f"dynamics are a Dynamics, not {dynamics!r}"
    rows, reward = _read_matrices(dynamics)
    _check_sums(dynamics, rows, reward)
    # The first two are often the same object; small models of stages run as rows.
    forms = [dynamics.backend_model, dynamics.compile()]
    as_rows = dynamics.as_rows()
    if as_rows is not None and as_rows is not dynamics:
        forms += [as_rows.backend_model]
    for backend_model in forms:
        _check_backend(dynamics, backend_model, rows, reward)
    _check_samples(dynamics, rows, reward)
    restored = cloudpickle.loads(cloudpickle.dumps(dynamics))
    is_same = np.array_equal(restored.expected_reward(), reward)
    assert is_same, "dynamics sent to another process pay other rewards"


def _read_matrices(dynamics: Dynamics) -> tuple[NDArray, NDArray]:
    """((A, S, S) dense rows, (S, A) rewards), with the shapes they must have."""
    n = int(np.prod(dynamics.shape))
    n_actions = dynamics.n_actions
    sparse = dynamics.to_sparse()
    shapes = [matrix.shape for matrix in sparse]
    assert shapes == [(n, n)] * n_actions, (
        f"to_sparse must give {n_actions} matrices of shape {(n, n)}, one for each action; "
        f"got shapes {shapes}"
    )
    reward = dynamics.expected_reward()
    assert reward.shape == (n, n_actions), (
        f"expected_reward must have shape {(n, n_actions)}; got {reward.shape}"
    )
    rows = np.stack([matrix.toarray() for matrix in sparse])
    table = np.arange(n) % n_actions
    is_same = np.array_equal(dynamics.policy_matrix(table).toarray(), rows[table, np.arange(n)])
    assert is_same, "policy_matrix must give the rows of to_sparse that the policy chooses"
    return rows, reward


def _check_sums(dynamics: Dynamics, rows: NDArray, reward: NDArray) -> None:
    row_sum_bounds = dynamics.row_sums
    eps = EPS * (rows.shape[-1] + 8)
    sums = rows.sum(axis=-1)
    assert (rows >= 0).all(), f"probabilities must not be negative; the smallest is {rows.min()}"
    are_within = (sums >= row_sum_bounds.low - eps).all() and (
        sums <= row_sum_bounds.high + eps
    ).all()
    assert are_within, (
        f"row_sums states that rows sum to {row_sum_bounds.low}..{row_sum_bounds.high}; "
        f"they sum to {sums.min()}..{sums.max()}"
    )
    largest = float(np.abs(reward).max())
    assert largest <= dynamics.reward_scale * (1 + eps), (
        f"reward_scale {dynamics.reward_scale} must not be less than the largest reward {largest}"
    )
    max_entries = int((rows > 0).sum(axis=-1).max())
    assert dynamics.longest_row >= max_entries, (
        f"longest_row {dynamics.longest_row} must not be less than the {max_entries} next states "
        "of a pair"
    )


@in_float64
def _check_backend(
    dynamics: Dynamics, backend_model: BackendModel, rows: NDArray, reward: NDArray
) -> None:
    rng = np.random.default_rng(0)
    backend = backend_model.backend
    arrays = backend_model.arrays
    w = rng.normal(size=dynamics.shape)
    largest = np.abs(w).max()
    rounding = EPS * (dynamics.rounding.backup_terms + 8) * (dynamics.reward_scale + largest)
    in_file = dynamics.rounding.in_file
    tolerance = rounding + in_file.reward_error + in_file.row_error * largest
    expected = reward + np.einsum("ast,t->sa", rows, w.ravel())
    w_S = to_backend(backend, w)
    shared = backend.shared_backup(arrays, w_S, True)
    for action in range(dynamics.n_actions):
        backup = backend.action_backup(arrays, shared, action, True)
        subject = f"the backend's backup under action {action}"
        _assert_near(backup, expected[:, action], tolerance, subject)
    table = rng.integers(0, dynamics.n_actions, dynamics.shape).astype(np.int32)
    chosen = np.arange(table.size), table.ravel()
    policy = to_backend(backend, table)
    backup = backend.policy_backup(arrays, w_S, policy, True)
    _assert_near(backup, expected[chosen], tolerance, "the backend's backup under a policy")
    expectation = backend.policy_backup(arrays, w_S, policy, False)
    subject = "the backend's expectation under a policy, without reward"
    _assert_near(expectation, (expected - reward)[chosen], 2 * tolerance, subject)
    flow = backend.policy_adjoint(arrays, policy, w_S)(w_S)
    expected_flow = np.einsum("st,s->t", rows[chosen[::-1]], w.ravel())
    relative_tolerance = EPS * (dynamics.adjoint_rounding_terms + 8) + in_file.row_error
    tolerance = relative_tolerance * float(np.abs(w).sum())
    _assert_near(flow, expected_flow, tolerance, "what the backend moves forward under a policy")


def _assert_near(array: Any, expected: NDArray, tolerance: float, subject: str) -> None:
    result = np.asarray(array).ravel()
    worst = int(np.abs(result - expected).argmax())
    assert abs(result[worst] - expected[worst]) <= tolerance, (
        f"{subject} is {result[worst]} in state {worst} where the matrices give {expected[worst]}"
    )


def _check_samples(dynamics: Dynamics, rows: NDArray, reward: NDArray) -> None:
    rng = np.random.default_rng(1)
    feature = rng.normal(size=rows.shape[-1])
    for state, action in zip(*_choose_pairs(rows, rng), strict=True):
        states = np.full(SAMPLES_PER_PAIR, state)
        actions = np.full(SAMPLES_PER_PAIR, action)
        outcomes = dynamics.step(states, actions, rng)
        row = rows[action, state]
        location = f"samples from state {state} under action {action}"
        reached = outcomes.next_states[~outcomes.ended]
        assert (row[reached] > 0).all(), f"{location} reach states that have probability 0"
        features_seen = np.where(outcomes.ended, 0.0, feature[outcomes.next_states])
        _assert_mean(features_seen, float(row @ feature), f"{location}, next states")
        _assert_mean(outcomes.rewards, float(reward[state, action]), f"{location}, rewards")


def _choose_pairs(rows: NDArray, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    """States and actions to sample, without infeasible pairs, whose rows are empty."""
    action, state = np.nonzero(rows.sum(axis=-1) > 0)
    selected = rng.permutation(state.size)[:MAX_SAMPLED_PAIRS]
    return state[selected], action[selected]


def _assert_mean(values: NDArray, expected: float, subject: str) -> None:
    standard_error = float(values.std()) / np.sqrt(len(values))
    rounding = 1e-9 * (1 + abs(expected))
    assert abs(values.mean() - expected) <= MAX_STANDARD_ERRORS * standard_error + rounding, (
        f"{subject}: the mean {values.mean():.6g} of {len(values):,} is not the expected "
        f"{expected:.6g}"
    )


MAX_SINGLE_QUERIES = 64  # states that are queried one by one


def check_policy(mdp: MDP, policy: Any) -> None:
    """Raise an AssertionError that names the first requirement ``policy`` of ``mdp`` breaks."""
    assert isinstance(mdp, MDP), f"check_policy needs the model that it is for, not {mdp!r}"
    try:
        checked_policy = mdp.policy(policy)
        table = checked_policy.table
    except TessellaError as error:
        raise AssertionError(
            f"it is not a policy of {mdp.name or 'this model'}: {error}"
        ) from error
    _check_size(checked_policy)
    try:
        _check_answers(mdp, checked_policy)
    except TessellaError as error:
        raise AssertionError(f"queried about some states alone, it fails: {error}") from error
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.json"
        checked_policy.save(path)
        is_same = np.array_equal(Policy.load(path).table, table)
        assert is_same, "saved and loaded, it decides otherwise"


def _check_size(policy: Policy) -> None:
    size = policy.size
    is_valid = isinstance(size, int | np.integer) and not isinstance(size, bool) and size >= 0
    assert is_valid, (
        f"size must be the count of the numbers that it stores, a whole number; got {size!r}"
    )


def _check_answers(mdp: MDP, policy: Policy) -> None:
    rng = np.random.default_rng(0)
    states = rng.permutation(mdp.n_states)[:MAX_SINGLE_QUERIES]
    points = mdp.grid.points_of(states)
    expected = policy.table.ravel()[states]
    _assert_same_actions(
        policy.act(points), expected, mdp, states, "queried about some states in another order"
    )
    single_answers = np.concatenate([policy.act(point) for point in points])
    _assert_same_actions(single_answers, expected, mdp, states, "queried about one state at a time")
    restored = cloudpickle.loads(cloudpickle.dumps(policy))
    _assert_same_actions(restored.act(points), expected, mdp, states, "sent to another process")


def _assert_same_actions(actions, expected, mdp: MDP, states, circumstance: str) -> None:
    differing = np.flatnonzero(actions != expected)
    if differing.size:
        s = int(states[differing[0]])
        raise AssertionError(
            f"{circumstance}, it decides otherwise: {mdp.describe(s, int(actions[differing[0]]))}, "
            f"and {mdp.describe(s, int(expected[differing[0]]))} before"
        )


def check_method(method: Method) -> None:
    """Raise an AssertionError that names the first requirement ``method`` does not meet."""
    assert isinstance(method, Method), f"a method is a tessella.Method, not {method!r}"
    assert hash(method) == hash(replace(method, tol=1e-3)), (
        f"{method.name}: two methods that differ in tol alone must be equal: it is a number, and "
        "compiling for each would be slow"
    )
    supported = [mdp for mdp in make_models() if method.supports(mdp)]
    assert supported, f"{method.name} supports none of the models that it is tried on"
    for mdp in supported:
        _check_solves(method, mdp)
    _check_stops(method, supported[0])


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
    yield _make_staged_model(0.95, "of stages")
    yield _make_staged_model(FiniteHorizon(4, 0.95), "of stages over four periods")


def _make_staged_model(criterion: Criterion | float, name: str) -> MDP:
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


def solve_densely(mdp: MDP) -> tuple[NDArray[np.float64], float]:
    """((S,) V*, gain) by policy iteration with dense matrices; of an average, h* with h*[0] = 0.

    Averages and totals have singular systems. There the value of state 0 is 0, and its column holds
    the gain, which is 0 of a total that state 0 ends.
    """
    dense = mdp.to_arrays("SAS")
    rows = dense.transition
    reward = dense.reward
    singular = mdp.criterion.has_gain or mdp.criterion.requires_absorption
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
            return np.asarray(value, dtype=float), gain
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
    deviation = _compute_error(solution, mdp)
    assert solution.converged, f"{context} returns without having converged: {solution.reason}"
    assert deviation <= solution.error_bound, (
        f"{context} is off by {deviation:.3g} under a bound of {solution.error_bound:.3g}"
    )


def _check_stops(method: Method, mdp: MDP) -> None:
    """A callback must stop the method, and the bound of the result must hold."""
    reports = []
    solution = solve(mdp, method, callback=lambda progress: reports.append(progress) or True)
    assert len(reports) == 1, (
        f"{method.name} goes on after {len(reports)} calls of a callback that stops"
    )
    assert _compute_error(solution, mdp) <= solution.error_bound, (
        f"{method.name}, stopped early, is wrong"
    )


def _compute_error(solution: Solution, mdp: MDP) -> float:
    """A lower bound on the error of a solution: of its gain if it has one, else of its values."""
    value, gain = solve_densely(mdp)
    if solution.gain is not None:
        deviation = abs(solution.gain - gain)
    else:
        deviation = float(np.abs(solution.value.ravel() - value).max())
    scale = max(float(np.abs(value).max()), 1.0)
    return max(deviation - DENSE_RELATIVE_TOLERANCE * scale, 0.0)


def check_problem(problem: Problem, *, theory: bool = True) -> None:
    """Raise an AssertionError that names the first requirement ``problem`` does not meet.

    Args:
        theory: also solve the default model and check what theory says; False where that
            takes too long.
    """
    assert isinstance(problem, Problem), f"a problem is a tessella.Problem, not {problem!r}"
    _check_descriptions(problem)
    mdp = _build(problem)
    _check_same_model(problem, mdp, "built again", problem)
    settings = json.loads(json.dumps(problem.settings()))
    _check_same_model(problem, mdp, "built from its settings as JSON", problem, **settings)
    restored = cloudpickle.loads(cloudpickle.dumps(problem))
    _check_same_model(problem, mdp, "sent to another process", restored)
    axes = set(mdp.grid.axes)
    for parameter in problem.settable:
        for value in parameter.extremes():
            axes |= set(_build(problem, **{parameter.name: value}).grid.axes)
    _check_axes(problem, axes)
    if theory and problem.theory:
        _check_theory(problem, mdp)


def _check_descriptions(problem: Problem) -> None:
    missing = [p.name for p in problem.parameters if not p.about]
    missing += [f"the axis {axis}" for axis, about in problem.axes.items() if not about.strip()]
    assert problem.title, f"{problem.name} has no title"
    assert not missing, f"{problem.name}: {missing[0]} has no line of explanation"


def _build(problem: Problem, **settings: Any) -> MDP:
    settings_text = (
        ", ".join(f"{name}={value!r}" for name, value in settings.items()) or "its defaults"
    )
    try:
        return problem.build(**settings)
    except Exception as error:
        raise AssertionError(
            f"{problem.name} with {settings_text}, within range, is not built: {error}"
        ) from error


def _check_axes(problem: Problem, axes: set[str]) -> None:
    """Every explained axis must exist in a model: at the defaults, or at an end of a range.

    For a family (``due#``), also in a model a little larger than the defaults.
    """
    if any(axis.endswith("#") for axis in _find_unknown_axes(problem, axes)):
        axes = axes | _find_larger_axes(problem)
    unknown = _find_unknown_axes(problem, axes)
    assert not unknown, (
        f"{problem.name}: axes explains {unknown[0]!r}, which no model that was built has; "
        f"there are {', '.join(sorted(axes))}"
    )


def _find_unknown_axes(problem: Problem, axes: set[str]) -> list[str]:
    explained = {problem.axis_entry(axis) for axis in axes}
    return [axis for axis in problem.axes if axis not in explained]


def _find_larger_axes(problem: Problem) -> set[str]:
    """Axes of models with an integer parameter one above its default, where a family may begin."""
    axes: set[str] = set()
    for parameter in problem.parameters:
        if isinstance(parameter, Integer) and _accepts(parameter, parameter.default + 1):
            axes |= set(_build(problem, **{parameter.name: parameter.default + 1}).grid.axes)
    return axes


def _accepts(parameter: Integer, value: int) -> bool:
    try:
        parameter.check(value, "")
    except ArgumentError:
        return False
    return True


def _check_same_model(
    problem: Problem, mdp: MDP, circumstance: str, other: Problem, **settings: Any
) -> None:
    rebuilt = _build(other, **settings)
    is_same = rebuilt.fingerprint == mdp.fingerprint
    assert is_same, (
        f"{problem.name} {circumstance} is another model: the same settings must give the same one"
    )


def _check_theory(problem: Problem, mdp: MDP) -> None:
    evidence_by_test = examine(tessellate(solve(mdp))).evidence
    for theory in problem.theory:
        assert theory.structure in evidence_by_test, (
            f"{problem.name}: examine has no test {theory.structure!r} for it; "
            f"there are {', '.join(evidence_by_test)}"
        )
        evidence = evidence_by_test[theory.structure]
        assert evidence, f"{problem.name}: theory is not borne out: {evidence.describe()}"
