"""Tables in NumPy: every layout gives the products of the original rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import tessella as ts
from tessella.mdp.tabular import rows as table_rows
from tessella.numerics import NUMPY
from tessella.solvers.bounds import decide
from tessella.solvers.execution_plan import ExecutionPlan, Thresholds, make_plan
from tessella.solvers.loop import iterate
from tessella.solvers.operators import Operators
from tessella.solvers.policy_iteration import iterate_policy, solve_small_system
from tessella.solvers.prepared_model import PreparedModel

STATES, ACTIONS = 40, 3


def rows(shared: bool) -> np.ndarray:
    """(S, A, S) sparse rows; where they are shared, an action leads somewhere from everywhere."""
    rng = np.random.default_rng(1)
    given = rng.random((STATES, ACTIONS, STATES)) * (rng.random((STATES, ACTIONS, STATES)) < 0.1)
    given[..., 0] += 0.01
    if shared:
        given[:] = given[:5].repeat(8, axis=0)
    return given / given.sum(axis=2, keepdims=True)


def by_state(P):
    s, a = np.divmod(np.arange(STATES * ACTIONS), ACTIONS)
    return s, a, P.reshape(-1, STATES)


def by_action(P):
    a, s = np.divmod(np.arange(STATES * ACTIONS), STATES)
    return s, a, np.moveaxis(P, 1, 0).reshape(-1, STATES)


def in_part(P):
    s, a, listed = by_state(P)
    kept = (s + a) % 4 != 3
    return s[kept], a[kept], listed[kept]


@pytest.fixture(params=[0, Thresholds().dense_rows_max_entries], ids=["sparse", "dense"])
def form(request) -> int:
    """Entries up to which rows are held as dense."""
    return request.param


def plan_of(mdp: ts.MDP, form: int, **limits: int) -> ExecutionPlan:
    return make_plan(mdp, thresholds=Thresholds(dense_rows_max_entries=form, **limits))


@pytest.mark.parametrize("listed", [by_state, by_action, in_part])
@pytest.mark.parametrize("shared", [False, True])
def test_products_are_those_of_the_rows_in_whatever_order_they_stand(form, listed, shared):
    P, rng = rows(shared), np.random.default_rng(2)
    reward = rng.normal(size=(STATES, ACTIONS))
    s, a, given = listed(P)
    mdp = ts.MDP.from_pairs(s, a, given, reward[s, a], 0.9)
    model = plan_of(mdp, form).backend_model
    program, table = model.backend, model.arrays
    assert isinstance(table.rows, np.ndarray) is (form > 0)
    w, x = rng.normal(size=STATES), rng.random(STATES)
    tail = program.shared_backup(table, w, True)
    for action in range(ACTIONS):
        mine = a == action
        got = program.action_backup(table, tail, action, True)[s[mine]]
        assert np.allclose(got, (reward[:, action] + P[:, action] @ w)[s[mine]], atol=1e-13)
    for _ in range(2):  # the rows of the first policy must not answer for the second
        choices = mdp.feasible_mask * rng.random((STATES, ACTIONS))
        policy, everyone = choices.argmax(axis=1), np.arange(STATES)
        own = P[everyone, policy]
        after = program.policy_backup(table, w, policy, True)
        assert np.allclose(after, reward[everyone, policy] + own @ w, atol=1e-13)
        assert np.allclose(program.policy_adjoint(table, policy, x)(x), own.T @ x, atol=1e-13)
        solved = program.solve_policy_system(table, x, policy, 0.9)
        assert np.allclose(solved - 0.9 * own @ solved, x, atol=1e-12)


@pytest.mark.parametrize("listed", [by_state, in_part])
@pytest.mark.parametrize("shared", [False, True])
def test_a_sweep_of_one_policy_holds_no_more_rows_than_states(form, listed, shared):
    s, a, given = listed(rows(shared))
    mdp = ts.MDP.from_pairs(s, a, given, np.zeros(len(s)), 0.9)
    table = plan_of(mdp, form).backend_model.arrays
    assert isinstance(table.rows, np.ndarray) is (form > 0)
    one = table.policy_rows(mdp.feasible_mask.argmax(axis=1))
    assert one.rows.shape[0] <= STATES
    assert (one.row_index is not None) is shared


def test_the_rows_of_a_policy_that_stays_are_taken_out_once_and_no_rows_are_needed_at_zero():
    s, a, given = by_state(rows(False))
    mdp = ts.MDP.from_pairs(s, a, given, np.zeros(len(s)), 0.9)
    model = make_plan(mdp).backend_model
    program, table = model.backend, model.arrays
    policy = np.arange(STATES) % ACTIONS
    first = table.policy_rows(policy)
    assert table.policy_rows(policy.copy()) is first
    assert table.policy_rows(policy[::-1].copy()) is not first
    assert not program.shared_backup(table, np.zeros(STATES), True).any()
    table.rows = np.full(table.rows.shape, np.nan)  # so that a product would show
    assert not program.shared_backup(table, np.zeros(STATES), True).any()


@pytest.mark.parametrize("criterion", [0.9, 0.9999, ts.Average()], ids=str)
def test_numpy_and_compiled_code_enclose_one_optimum(form, criterion):
    P = rows(False)
    reward = np.random.default_rng(3).normal(size=(STATES, ACTIONS))
    mdp = ts.MDP.from_arrays(P, reward, criterion, layout="SAS")
    plan = plan_of(mdp, form)
    found = [
        iterate(PreparedModel(plan.using(backend=backend)), ts.InexactPolicyIteration())
        for backend in ("numpy", "jax")
    ]
    apart = np.abs(found[0].value - found[1].value).max() if found[0].gain is None else 0.0
    gains = abs((found[0].gain or 0.0) - (found[1].gain or 0.0))
    assert max(apart, gains) <= found[0].error_bound + found[1].error_bound


def test_a_line_that_no_krylov_method_gets_along_is_solved_directly():
    """A machine that wears out: a state further every period, so the best policy is a threshold."""
    n, where = 3_000, np.arange(3_000)
    keep, renew = (
        sp.csr_array((np.ones(n), (where, to)), shape=(n, n))
        for to in (np.minimum(where + 1, n - 1), np.zeros(n, int))
    )
    cost = np.stack([where / 50, np.full(n, 40.0)], axis=1)
    found = ts.solve(ts.MDP.from_arrays([keep, renew], cost, 0.999, minimise=True), tol=1e-6)
    renews = found.policy.table == 1
    first = int(renews.argmax())
    assert renews[first:].all()
    # The cost of renewing at age m for ever, from a new machine; the best m is where it is least.
    ages = 0.999 ** np.arange(200)
    spent = np.cumsum(ages * where[:200] / 50)
    cycle = (spent[:-1] + 40 * ages[1:]) / (1 - ages[1:] * 0.999)
    assert first == 1 + int(cycle.argmin())
    assert abs(-found.value[0] - cycle.min()) <= found.error_bound
    assert found.sweeps < 60


def test_a_method_written_with_jax_solves_tables_too():
    from jax import lax

    class Doubled(ts.Method):
        def step(self, operators, state):
            return lax.fori_loop(
                0, 2, lambda _, v: operators.policy_bellman(state.policy, v), state.backup
            )

    P = rows(True)
    mdp = ts.MDP.from_arrays(P, P[..., 0], 0.9, layout="SAS")
    mine, ours = ts.solve(mdp, Doubled(tol=1e-8)), ts.solve(mdp)
    assert np.abs(mine.value - ours.value).max() <= mine.error_bound + ours.error_bound


@pytest.mark.parametrize("listed", [by_state, in_part])
@pytest.mark.parametrize("actions", [1, ACTIONS])
def test_actions_compared_at_once_and_one_after_the_other_give_the_same_to_the_last_bit(
    form, listed, actions
):
    s, a, given = listed(rows(False))
    kept = (a < actions) | (a == a[np.searchsorted(s, s)])
    reward = np.random.default_rng(4).normal(size=len(s))
    mdp = ts.MDP.from_pairs(s[kept], a[kept], given[kept], reward[kept], 0.9)
    at_once, in_turn = plan_of(mdp, form), plan_of(mdp, form, all_actions_max_pairs=0)
    assert at_once.backend_model.arrays.layout.sweeps_are_cheap
    assert not in_turn.backend_model.arrays.layout.sweeps_are_cheap
    value, bound = np.random.default_rng(5).normal(size=STATES), 1e-3
    for plan in (at_once, in_turn):
        prepared = PreparedModel(plan)
        operators = Operators(prepared.backend, prepared.data, reward_offset=0.3)
        looked = *operators.bellman(value), operators.iterate_bellman(value, 3)
        decided = decide(prepared, value, bound)
        found = [*looked, decided.margin, decided.policy, decided.tie_tolerance]
        if plan is at_once:
            first = found
    assert all(np.array_equal(x, y) for x, y in zip(first, found, strict=True))


def test_sweeps_of_a_policy_in_one_call_are_its_sweeps_one_by_one(form):
    P = rows(False)
    mdp = ts.MDP.from_arrays(P, P[..., 0], 0.9, layout="SAS")
    prepared = PreparedModel(plan_of(mdp, form))
    operators = Operators(prepared.backend, prepared.data, reward_offset=0.3)
    policy, value = np.arange(STATES) % ACTIONS, np.random.default_rng(6).normal(size=STATES)
    together, one_by_one = iterate_policy(operators, policy, value, 5), value
    for _ in range(5):
        one_by_one = operators.policy_bellman(policy, one_by_one)
    assert np.allclose(together, one_by_one, atol=1e-14)


@pytest.fixture(params=[False, True], ids=["own rows", "shared rows"])
def long_rows(request, monkeypatch):
    """discount -> (operators of a table with long rows, a policy, its rows as a dense matrix)."""

    def build(discount: float) -> tuple[Operators, np.ndarray, np.ndarray]:
        mdp = ts.benchmark("INV-Mix").with_criterion(ts.Discounted(discount))
        prepared = PreparedModel(make_plan(mdp))
        table = prepared.backend_model.arrays
        assert table.layout.has_long_rows
        policy = np.resize([0, 3, 1, 2], mdp.grid.shape)
        own = table.row_of[policy.ravel(), np.arange(mdp.n_states)]
        rows = (table.rows, own) if request.param else (table.rows[own], None)
        one = table_rows.PolicyRows(*rows, np.zeros(mdp.n_states), table.layout)
        monkeypatch.setattr(table_rows.RowArrays, "policy_rows", lambda table, policy: one)
        return prepared.make_operators(), policy, table.rows[own].toarray()

    return build


@pytest.mark.parametrize("discount", [0.9, 0.95])
@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_systems_of_long_rows_are_solved_by_iterations_to_the_tolerance(long_rows, discount, scale):
    operators, policy, moves = long_rows(discount)
    rhs = np.cos(np.arange(len(moves))).reshape(policy.shape)
    exact = operators.solve_policy_system(policy, scale * rhs) / scale
    dense = np.eye(len(moves)) - discount * moves
    assert np.abs(dense @ exact.ravel() - rhs.ravel()).max() <= 1e-12
    for tol in (1e-2, 1e-6, 1e-10):
        found = solve_small_system(operators, policy, scale * rhs, tol) / scale
        left = np.linalg.norm(dense @ found.ravel() - rhs.ravel())
        assert 0 < left <= 2 * tol * np.linalg.norm(rhs) + 1e-12
        assert (found != exact).any()
    assert not solve_small_system(operators, policy, 0 * rhs, 1e-6).any()


def test_a_system_on_which_iterations_get_nowhere_is_solved_directly(long_rows, monkeypatch):
    operators, policy, moves = long_rows(0.99)
    rhs = np.cos(np.arange(len(moves))).reshape(policy.shape)
    exact = operators.solve_policy_system(policy, rhs)
    for steps in range(1, 25, 3):
        found = solve_small_system(operators, policy, rhs, 1e-12, max_steps=steps)
        assert np.array_equal(found, exact)
    monkeypatch.setattr(NUMPY, "bicgstab", lambda *_, **__: np.full(rhs.shape, np.nan))
    assert np.array_equal(solve_small_system(operators, policy, rhs, 1e-10), exact)


@pytest.mark.parametrize("name", ["INV-Mix", "INV-Hard"])
@pytest.mark.parametrize("tol", [None, 1e-6, 1e-3])
def test_one_linear_system_brings_a_settled_policy_to_the_target(name, tol):
    assert ts.solve(ts.benchmark(name), tol=tol).sweeps == 2  # a look, and the round of the system


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
@pytest.mark.parametrize("discount", [0.9, 0.99, 0.9999])
def test_long_rows_that_mix_or_do_not_take_few_rounds_at_any_scale(scale, discount):
    n, width, rng = 300, 15, np.random.default_rng(7)
    near = abs(np.subtract.outer(np.arange(n), np.arange(n))) <= width // 2
    banded = near * rng.random((3, n, n))
    banded /= banded.sum(axis=2, keepdims=True)
    reward = scale * rng.normal(size=(n, 3))
    mdp = ts.MDP.from_arrays([sp.csr_array(each) for each in banded], reward, discount)
    assert make_plan(mdp).backend_model.arrays.layout.has_long_rows
    for tol in (None, 1e-4 * scale / (1 - discount)):
        assert ts.solve(mdp, tol=tol).sweeps <= 12


def walled(side: int) -> ts.MDP:
    """A square to cross to its last place, where each move fails now and then; holes end it."""
    y, x = np.divmod(np.arange(side * side), side)
    hole = ((3 * x + 5 * y) % 11 == 0) & (x + y > 0)
    ends = hole | (x + y == 2 * side - 2)
    staying = sp.eye_array(side * side, format="csr")
    moves = []
    for dy, dx in ((0, -1), (1, 0), (0, 1), (-1, 0)):
        there = np.clip(y + dy, 0, side - 1) * side + np.clip(x + dx, 0, side - 1)
        there = np.where(ends, y * side + x, there)
        moves.append(0.8 * staying[there] + 0.2 * staying)
    arriving = np.stack([np.where(ends, 0.0, move[:, [-1]].toarray()[:, 0]) for move in moves], 1)
    return ts.MDP.from_arrays(moves, arriving, 0.99)


def test_policies_that_sweeps_would_change_are_not_evaluated(monkeypatch):
    """News of the goal travels a place a period: policies on its way are not worth a solve."""
    systems, solve = [], table_rows.PolicyRows.solve_system
    monkeypatch.setattr(
        table_rows.PolicyRows,
        "solve_system",
        lambda one, *told: systems.append(told) or solve(one, *told),
    )
    mdp = walled(20)
    found = ts.solve(mdp, tol=1e-6)
    exact = ts.solve(mdp, ts.PolicyIteration(tol=1e-9))
    assert np.abs(found.value - exact.value).max() <= found.error_bound + exact.error_bound
    assert found.sweeps < exact.sweeps / 2
    assert len(systems) < exact.sweeps / 2


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("discount", [0.99, 0.999999])
def test_a_start_that_is_off_by_the_same_everywhere_costs_no_rounds(n, discount):
    class Far(ts.InexactPolicyIteration):
        def init(self, mdp):
            return np.full(n, 1e12)

    mdp = ts.MDP.from_arrays(np.full((1, n, n), 1 / n), 1.0 + np.arange(n)[:, None], discount)
    near, far = ts.solve(mdp), ts.solve(mdp, Far())
    assert far.sweeps <= 10
    assert far.error_bound <= 2 * near.error_bound
    assert np.abs(far.value - near.value).max() <= far.error_bound + near.error_bound


@pytest.mark.parametrize("guess", [None, 1.0])
def test_a_model_that_pays_nothing_is_worth_nothing(guess):
    class Guessed(ts.InexactPolicyIteration):
        def init(self, mdp):
            return None if guess is None else np.full(STATES, guess)

    mdp = ts.MDP.from_arrays(rows(False), np.zeros((STATES, ACTIONS)), 0.9, layout="SAS")
    found = ts.solve(mdp, Guessed())
    assert np.abs(found.value).max() <= found.error_bound  # also of numbers near the least
    assert found.error_bound <= 1e-9
