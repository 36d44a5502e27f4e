"""Scratch axes exist only between the events of a period."""

from __future__ import annotations

from functools import cache
from itertools import product
from math import comb

import numpy as np
import pytest

import tessella as ts
from tessella.errors import ModelError
from tessella.mdp.simulate import simulate
from tessella.solvers.policy_evaluation import occupancy

ORDERS, DEMAND, LARGEST = range(4), (0.2, 0.5, 0.3), 6


def arrives(order):
    """(..., 4) of the items ordered, each arrives with probability 0.8."""
    k = np.arange(4)
    ways = np.array([[comb(n, i) for i in range(4)] for n in range(4)], dtype=float)
    order = np.asarray(order)[..., 0, None]
    return ways[order, k] * 0.8**k * 0.2 ** np.maximum(order - k, 0)


def shop(**options):
    """What was ordered arrives in part, before the demand."""
    return ts.MDP.staged(
        {"stock": range(LARGEST + 1)},
        ORDERS,
        0.9,
        [
            ts.Pay(lambda order: -0.5 * (order > 0)),
            ts.Shift("delivery", ts.Noise("part", ORDERS, lambda order: arrives(order))),
            ts.Decide(
                "stock",
                to=lambda stock, delivery: np.minimum(stock + delivery, LARGEST),
                pays=lambda delivery: -1.0 * delivery,
            ),
            ts.Shift(
                "stock",
                ts.Noise("demand", range(3), DEMAND),
                by=lambda demand: -demand,
                pays=lambda stock, demand: 3.0 * np.minimum(stock, demand) - 0.1 * stock,
            ),
        ],
        scratch={"delivery": ORDERS},
        action_name="order",
        **options,
    )


@cache
def dense():
    """(A, S, S) and (S, A) by enumeration of everything that can happen."""
    P, r = np.zeros((4, LARGEST + 1, LARGEST + 1)), np.zeros((LARGEST + 1, 4))
    for order, stock in product(ORDERS, range(LARGEST + 1)):
        r[stock, order] -= 0.5 * (order > 0)
        for part, demand in product(range(order + 1), range(3)):
            p = comb(order, part) * 0.8**part * 0.2 ** (order - part) * DEMAND[demand]
            after = min(stock + part, LARGEST)
            P[order, stock, max(after - demand, 0)] += p
            r[stock, order] += p * (3.0 * min(after, demand) - 0.1 * after - part)
    return P, r


def test_a_delivery_between_order_and_demand_leaves_no_trace():
    mdp, (P, r) = shop(), dense()
    assert repr(mdp) == "MDP(stock 7; 4 order actions, discount 0.9, staged)"
    got = mdp.to_arrays()
    np.testing.assert_allclose(got.transition, P, atol=1e-15)
    np.testing.assert_allclose(got.reward, r, atol=1e-14)
    solution = ts.solve(mdp)
    value = np.zeros(LARGEST + 1)
    for _ in range(400):
        q = r + 0.9 * np.moveaxis(P, 0, 1) @ value
        value = q.max(axis=1)
    np.testing.assert_allclose(solution.value, value, rtol=1e-12)
    np.testing.assert_array_equal(solution.policy.table, q.argmax(axis=1))
    assert solution.policy.grid.axes == ts.tessellate(solution).grid.axes == ("stock",)


def test_occupancies_simulations_and_files_know_no_scratch_axis(tmp_path):
    mdp, (P, _) = shop(), dense()
    policy, at = np.array([3, 2, 2, 1, 0, 0, 0]), np.arange(LARGEST + 1)
    P_pi = P[policy, at]
    share = 0.1 * np.linalg.solve(np.eye(7) - 0.9 * P_pi.T, np.full(7, 1 / 7))
    np.testing.assert_allclose(occupancy(mdp, policy).share, share, rtol=1e-9)
    paths = simulate(mdp, policy, 3, rng=0, paths=4000)
    seen = np.bincount(paths.states[:, 1], minlength=7) / 4000
    np.testing.assert_allclose(seen, np.full(7, 1 / 7) @ P_pi, atol=0.04)
    exact = np.array([dense()[1][s, policy[s]] for s in range(7)]).mean()
    assert abs(paths.rewards[:, 0].mean() - exact) < 0.15
    mdp.save(tmp_path / "model.nc")
    np.testing.assert_allclose(
        ts.MDP.load(tmp_path / "model.nc").to_arrays().transition, P, atol=1e-15
    )


def test_only_stages_that_need_scratch_axes_work_on_them():
    shapes = [stage.operation.shape for stage in shop().dynamics.stages]
    assert shapes == [(7,), (7,), (7, 4), (7, 4), (7, 4), (7,)]  # one opens, one forgets


def test_a_jump_and_a_chain_that_leave_scratch_axes_alone_stay_off_them():
    noise = ts.Noise("w", [0, 1], [0.5, 0.5])
    matrix = np.full((3, 3), 1 / 3)
    stages = [
        ts.Decide("extra", to=lambda action: action),
        ts.Shift("y", noise, by=lambda w: w, pays=lambda extra: 1.0 * extra),
        ts.Jump(noise, to=lambda x, y, w: {"x": (x + w) % 3, "y": y}),
        ts.Move("x", lambda y: np.where(y > 0, matrix, np.eye(3))),
        ts.Move("x", matrix),
    ]
    mdp = ts.MDP.staged(
        {"x": range(3), "y": range(2)}, (0, 1), 0.9, stages, scratch={"extra": range(2)}
    )
    shapes = [stage.operation.shape for stage in mdp.dynamics.stages]
    assert shapes == [(3, 2), (3, 2, 2), (3, 2, 2), (3, 2, 2), (3, 2), (3, 2), (3, 2)]
    np.testing.assert_allclose(mdp.to_arrays().transition.sum(axis=-1), 1, rtol=1e-14)
    assert mdp.reward.tolist() == [[0.0, 1.0]] * 6


def test_jumps_move_scratch_axes_and_follow_them():
    noise = ts.Noise("w", [0, 1], [0.25, 0.75])
    stages = [
        ts.Jump(noise, to=lambda w, action: {"extra": w * action}),
        ts.Jump(noise, to=lambda x, extra, w: {"x": (x + extra * w) % 5}),
    ]
    mdp = ts.MDP.staged({"x": range(5)}, (0, 1, 2), 0.9, stages, scratch={"extra": range(3)})
    P = mdp.to_arrays().transition
    for x, action in product(range(5), range(3)):
        expected = np.zeros(5)
        expected[(x + action) % 5] += 0.75 * 0.75
        expected[x] += 1 - 0.75 * 0.75
        np.testing.assert_allclose(P[action, x], expected, rtol=1e-15)


def test_scratch_axes_that_nothing_uses_change_nothing():
    def model(**options):
        shift = ts.Shift("x", ts.Noise("w", [0, 1], [0.5, 0.5]))
        return ts.MDP.staged({"x": range(3)}, (0, 1), 0.9, [shift], **options)

    assert model(scratch={"y": range(5)}).fingerprint == model().fingerprint
    assert model(scratch={}).fingerprint == model().fingerprint


def test_feasible_speaks_of_the_state_at_the_start():
    stages = [
        ts.Decide("sold", to=lambda stock, action: np.where(action <= stock, action, -1)),
        ts.Decide("stock", to=lambda stock, sold: np.maximum(stock - sold, 0)),
    ]
    mdp = ts.MDP.staged(
        {"stock": range(4)},
        range(3),
        0.9,
        stages,
        scratch={"sold": range(3)},
        feasible=lambda stock, action: action <= stock,
    )
    P = mdp.to_arrays().transition
    for stock, action in product(range(4), range(3)):
        if action <= stock:
            assert P[action, stock, stock - action] == 1


def test_a_jump_between_cut_points_is_the_same_beside_a_scratch_axis():
    jump = ts.Jump(
        ts.Noise("gain", (0, 1, 2), (0.2, 0.3, 0.5)),
        to=lambda x, y, gain: {"x": 0.9 * x, "y": 0.7 * y + 0.1 * gain},
        pays=lambda gain, x: gain + x,
        between="interpolate",
    )
    decide = ts.Decide("x", to=lambda x, u: np.minimum(x + u, 5))
    opened = ts.Decide("u", to=lambda action: action)
    direct = ts.Decide("x", to=lambda x, action: np.minimum(x + action, 5))
    axes = {"x": range(6), "y": (0.0, 1.0, 2.5, 4.0)}
    scratch = ts.MDP.staged(axes, range(3), 0.9, [jump, opened, decide], scratch={"u": range(3)})
    plain = ts.MDP.staged(axes, range(3), 0.9, [jump, direct])
    assert scratch.dynamics.is_interpolated
    assert (
        scratch.dynamics.rounding.in_memory.row_error
        >= plain.dynamics.rounding.in_memory.row_error
        > 0
    )
    policy = np.ones(24, dtype=int)
    paths = [simulate(mdp, policy, 30, 1, paths=20) for mdp in (scratch, plain)]
    np.testing.assert_array_equal(paths[0].states, paths[1].states)
    np.testing.assert_array_equal(paths[0].rewards, paths[1].rewards)


def test_faulty_scratch_axes():
    def wrong(scratch, stages=None, **options):
        with pytest.raises(ModelError) as caught:
            ts.MDP.staged(
                {"x": range(3)},
                (0, 1),
                0.9,
                stages or [ts.Pay(lambda x: 1.0 * x)],
                scratch=scratch,
                **options,
            )
        return str(caught.value)

    assert wrong({"x": range(2)}) == "a scratch axis cannot be called 'x': an axis has this name"
    assert (
        wrong({"action": range(2)}) == "the action cannot be called 'action': an axis has this name"
    )
    assert wrong({"y": []}) == "an axis needs at least one value; y has none"
    assert wrong(["y"]) == (
        "scratch axes need names and values, as in {'delivery': range(5)}; got ['y']"
    )
    decide = ts.Decide("y", to=lambda y, action: y + 2 * action)
    assert wrong({"y": range(3)}, [decide]) == (
        "deciding y leaves the grid: y must stay on its axis; y=1, action=1 goes to y=3 "
        "(2 of 6 cases)"
    )
    assert wrong({"y": range(2)}, feasible=lambda y: y == 0) == (
        "feasible has an unknown argument 'y'; the arguments may be x, action"
    )
