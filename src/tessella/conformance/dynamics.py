"""check_dynamics(dynamics): whether dynamics of one's own say one thing in all their forms.

The same law is told as matrices, as a compiled program, and as samples; solvers use the second,
files and certificates the first, simulation the third. Each is compared with the matrices:

    backup(w)[s, a] = r(s, a) + sum_s' P(s' | s, a) w(s').
"""

from __future__ import annotations

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from tessella.mdp.dynamics import Dynamics, Lowered, adjoint_under, under_policy
from tessella.mdp.engine import in_float64, placed

WALKERS = 2_000  # from each state and action that samples are taken of
PAIRS = 12  # such states and actions
SIGMAS = 6.0  # by which a mean of samples may be off: one in 5e8 is, by chance


def check_dynamics(dynamics: Dynamics) -> None:
    """Raise an AssertionError that names the first promise ``dynamics`` do not keep."""
    assert isinstance(dynamics, Dynamics), f"dynamics are a Dynamics, not {dynamics!r}"
    rows, reward = _matrices(dynamics)
    _check_sums(dynamics, rows, reward)
    for lowered in (dynamics.lowered, dynamics.compiled):  # often one and the same
        _check_program(dynamics, lowered, rows, reward)
    _check_samples(dynamics, rows, reward)
    again = cloudpickle.loads(cloudpickle.dumps(dynamics))
    same = np.array_equal(again.expected_reward(), reward)
    assert same, "dynamics sent to another process pay other rewards"


def _matrices(dynamics: Dynamics) -> tuple[NDArray, NDArray]:
    """((A, S, S) dense rows, (S, A) rewards), with the shapes they must have."""
    n, n_actions = int(np.prod(dynamics.shape)), dynamics.n_actions
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
    mass, eps = dynamics.mass, np.finfo(float).eps * (rows.shape[-1] + 8)
    sums = rows.sum(axis=-1)
    assert (rows >= 0).all(), f"probabilities must not be negative; the smallest is {rows.min()}"
    inside = (sums >= mass.low - eps).all() and (sums <= mass.high + eps).all()
    assert inside, (
        f"row_mass says that rows sum to {mass.low}..{mass.high}; "
        f"they sum to {sums.min()}..{sums.max()}"
    )
    largest = float(np.abs(reward).max())
    assert largest <= dynamics.reward_scale * (1 + eps), (
        f"reward_scale {dynamics.reward_scale} must not be less than the largest reward {largest}"
    )
    most = int((rows > 0).sum(axis=-1).max())
    assert dynamics.longest_row >= most, (
        f"longest_row {dynamics.longest_row} must not be less than the {most} next states of a pair"
    )


@in_float64
def _check_program(dynamics: Dynamics, lowered: Lowered, rows: NDArray, reward: NDArray) -> None:
    rng = np.random.default_rng(0)
    program, arrays = lowered.program, lowered.arrays
    w = rng.normal(size=dynamics.shape)
    # What a backup may be off by, in units of what goes in.
    off = np.finfo(float).eps * (dynamics.terms + 8) * (dynamics.reward_scale + np.abs(w).max())
    off += dynamics.written.reward + dynamics.written.rows * np.abs(w).max()
    expected = reward + np.einsum("ast,t->sa", rows, w.ravel())
    w_S = placed(program, w)
    tail = program.tail(arrays, w_S, True)
    for action in range(dynamics.n_actions):
        found = np.asarray(program.head(arrays, tail, action, True)).ravel()
        _near(found, expected[:, action], off, f"the program's backup under action {action}")
    table = rng.integers(0, dynamics.n_actions, dynamics.shape).astype(np.int32)
    chosen = np.arange(table.size), table.ravel()
    taken = placed(program, table)
    under = under_policy(program, arrays, taken, w_S, True)
    _near(np.asarray(under).ravel(), expected[chosen], off, "the program's backup under a policy")
    free = under_policy(program, arrays, taken, w_S, False)
    _near(
        np.asarray(free).ravel(),
        (expected - reward)[chosen],
        2 * off,
        "the program's expectation under a policy, without pay",
    )
    moved = adjoint_under(program, arrays, taken, w_S)(w_S)
    own = np.einsum("st,s->t", rows[table.ravel(), np.arange(table.size)], w.ravel())
    reach = np.finfo(float).eps * (dynamics.adjoint_terms + 8) + dynamics.written.rows
    off = reach * float(np.abs(w).sum())
    _near(np.asarray(moved).ravel(), own, off, "what the program moves forward under a policy")


def _near(found: NDArray, expected: NDArray, off: float, what: str) -> None:
    worst = int(np.abs(found - expected).argmax())
    assert abs(found[worst] - expected[worst]) <= off, (
        f"{what} is {found[worst]} in state {worst} where the matrices give {expected[worst]}"
    )


def _check_samples(dynamics: Dynamics, rows: NDArray, reward: NDArray) -> None:
    rng = np.random.default_rng(1)
    feature = rng.normal(size=rows.shape[-1])
    for state, action in zip(*_pairs(rows, rng), strict=True):
        states, actions = np.full(WALKERS, state), np.full(WALKERS, action)
        steps = dynamics.step(states, actions, rng)
        row, where = rows[action, state], f"samples from state {state} under action {action}"
        reached = steps.states[~steps.ended]
        assert (row[reached] > 0).all(), f"{where} reach states that have probability 0"
        seen = np.where(steps.ended, 0.0, feature[steps.states])
        _same_mean(seen, float(row @ feature), f"{where}, next states")
        _same_mean(steps.rewards, float(reward[state, action]), f"{where}, rewards")


def _pairs(rows: NDArray, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    """States and actions to sample; those that go nowhere at all are infeasible."""
    action, state = np.nonzero(rows.sum(axis=-1) > 0)
    some = rng.permutation(state.size)[:PAIRS]
    return state[some], action[some]


def _same_mean(seen: NDArray, expected: float, what: str) -> None:
    error = float(seen.std()) / np.sqrt(len(seen))
    rounding = 1e-9 * (1 + abs(expected))
    assert abs(seen.mean() - expected) <= SIGMAS * error + rounding, (
        f"{what}: the mean {seen.mean():.6g} of {len(seen):,} is not the expected {expected:.6g}"
    )
