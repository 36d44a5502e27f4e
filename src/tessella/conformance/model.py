"""check_dynamics(dynamics) and check_policy(mdp, policy): parts of a model of one's own.

All forms of dynamics agree. The same law is given as matrices, as a backend, and as
samples; solvers use the second, files and certificates the first, simulation the third. Each is
compared with the matrices:

    backup(w)[s, a] = r(s, a) + sum_s' P(s' | s, a) w(s').

A policy answers every point with a feasible action, and with the same one for every query: of one
point or several, in any order, now or later, in this process or another.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from tessella.errors import TessellaError
from tessella.mdp.compilation import in_float64, to_backend
from tessella.mdp.dynamics import BackendModel, Dynamics
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy

SAMPLES_PER_PAIR = 2_000  # samples from each state and action
MAX_SAMPLED_PAIRS = 12  # states and actions that samples are taken of
MAX_STANDARD_ERRORS = 6.0  # standard errors by which a mean may be off: one in 5e8 is, by chance


def check_dynamics(dynamics: Dynamics) -> None:
    """Raise an AssertionError that names the first requirement ``dynamics`` do not meet."""
    assert isinstance(dynamics, Dynamics), f"dynamics are a Dynamics, not {dynamics!r}"
    rows, reward = _read_matrices(dynamics)
    _check_sums(dynamics, rows, reward)
    # The first two are often one and the same; small models of stages are run as rows.
    forms = [dynamics.backend_model, dynamics.compiled_model]
    as_rows = dynamics.as_rows()
    if as_rows is not None and as_rows is not dynamics:
        forms += [as_rows.backend_model]
    for backend_model in forms:
        _check_backend(dynamics, backend_model, rows, reward)
    _check_samples(dynamics, rows, reward)
    again = cloudpickle.loads(cloudpickle.dumps(dynamics))
    same = np.array_equal(again.expected_reward(), reward)
    assert same, "dynamics sent to another process pay other rewards"


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
    return np.stack([matrix.toarray() for matrix in sparse]), reward


def _check_sums(dynamics: Dynamics, rows: NDArray, reward: NDArray) -> None:
    row_sum_bounds = dynamics.row_sums
    eps = np.finfo(float).eps * (rows.shape[-1] + 8)
    sums = rows.sum(axis=-1)
    assert (rows >= 0).all(), f"probabilities must not be negative; the smallest is {rows.min()}"
    inside = (sums >= row_sum_bounds.low - eps).all() and (sums <= row_sum_bounds.high + eps).all()
    assert inside, (
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
    # What a backup may be off by, in units of what goes in.
    tolerance = (
        np.finfo(float).eps
        * (dynamics.rounding_terms + 8)
        * (dynamics.reward_scale + np.abs(w).max())
    )
    tolerance += (
        dynamics.rounding_as_saved.reward + dynamics.rounding_as_saved.rows * np.abs(w).max()
    )
    expected = reward + np.einsum("ast,t->sa", rows, w.ravel())
    w_S = to_backend(backend, w)
    shared = backend.shared_backup(arrays, w_S, True)
    for action in range(dynamics.n_actions):
        result = np.asarray(backend.action_backup(arrays, shared, action, True)).ravel()
        _assert_near(
            result, expected[:, action], tolerance, f"the backend's backup under action {action}"
        )
    table = rng.integers(0, dynamics.n_actions, dynamics.shape).astype(np.int32)
    chosen = np.arange(table.size), table.ravel()
    placed_table = to_backend(backend, table)
    policy_backup_result = backend.policy_pass(arrays, w_S, placed_table, True)
    _assert_near(
        np.asarray(policy_backup_result).ravel(),
        expected[chosen],
        tolerance,
        "the backend's backup under a policy",
    )
    policy_expectation = backend.policy_pass(arrays, w_S, placed_table, False)
    _assert_near(
        np.asarray(policy_expectation).ravel(),
        (expected - reward)[chosen],
        2 * tolerance,
        "the backend's expectation under a policy, without pay",
    )
    adjoint_result = backend.policy_adjoint(arrays, placed_table, w_S)(w_S)
    expected_adjoint = np.einsum("st,s->t", rows[table.ravel(), np.arange(table.size)], w.ravel())
    relative_tolerance = (
        np.finfo(float).eps * (dynamics.adjoint_rounding_terms + 8)
        + dynamics.rounding_as_saved.rows
    )
    tolerance = relative_tolerance * float(np.abs(w).sum())
    _assert_near(
        np.asarray(adjoint_result).ravel(),
        expected_adjoint,
        tolerance,
        "what the backend moves forward under a policy",
    )


def _assert_near(result: NDArray, expected: NDArray, tolerance: float, subject: str) -> None:
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
        reached = outcomes.states[~outcomes.ended]
        assert (row[reached] > 0).all(), f"{location} reach states that have probability 0"
        features_seen = np.where(outcomes.ended, 0.0, feature[outcomes.states])
        _assert_mean(features_seen, float(row @ feature), f"{location}, next states")
        _assert_mean(outcomes.rewards, float(reward[state, action]), f"{location}, rewards")


def _choose_pairs(rows: NDArray, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    """States and actions to sample; those that go nowhere at all are infeasible."""
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
        same = np.array_equal(Policy.load(path).table, table)
        assert same, "saved and loaded, it decides otherwise"


def _check_size(policy: Policy) -> None:
    size = policy.size
    whole = isinstance(size, int | np.integer) and not isinstance(size, bool) and size >= 0
    assert whole, (
        f"size must be the count of the numbers that it stores, a whole number; got {size!r}"
    )


def _check_answers(mdp: MDP, policy: Policy) -> None:
    rng = np.random.default_rng(0)
    states = rng.permutation(mdp.n_states)[:MAX_SINGLE_QUERIES]
    points = mdp.grid.points_of(states)
    expected = policy.table.ravel()[states]
    _assert_same(
        policy.act(points), expected, mdp, states, "queried about some states in another order"
    )
    alone = np.concatenate([policy.act(point) for point in points])
    _assert_same(alone, expected, mdp, states, "queried about one state at a time")
    restored = cloudpickle.loads(cloudpickle.dumps(policy))
    _assert_same(restored.act(points), expected, mdp, states, "sent to another process")


def _assert_same(actions, expected, mdp: MDP, states, circumstance: str) -> None:
    differing = np.flatnonzero(actions != expected)
    if differing.size:
        s = int(states[differing[0]])
        raise AssertionError(
            f"{circumstance}, it decides otherwise: {mdp.describe(s, int(actions[differing[0]]))}, "
            f"and {mdp.describe(s, int(expected[differing[0]]))} before"
        )
