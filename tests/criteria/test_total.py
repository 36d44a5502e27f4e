"""Total reward until the end, against fractions, a linear program, simulation and known paths."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import linprog
from support import criteria
from support.routes import ROUTES, plan_by

import tessella as ts
from tessella.solvers.absorbing import find_absorbing_states
from tessella.solvers.execution_plan import make_plan
from tessella.solvers.prepared_model import PreparedModel

TWO = np.array([[[1.0, 0], [0, 1]], [[0, 1], [0, 1]]])  # stay, or go to the end


def two(stay: float, go: float) -> ts.MDP:
    return ts.MDP.from_arrays(TWO, np.array([[stay, go], [0, 0]]), ts.Total())


@pytest.mark.parametrize("seed", range(16))
def test_what_is_said_is_so_in_rational_arithmetic(seed):
    assert (
        criteria.find_contradictions(criteria.build_ending(seed), np.random.default_rng(seed)) == []
    )


@pytest.mark.parametrize(
    "method", [ts.ValueIteration(), ts.ModifiedPolicyIteration(), ts.PolicyIteration()]
)
def test_every_method_finds_what_the_linear_program_finds(method):
    for seed in range(4):
        mdp = criteria.build_ending(seed)
        dense = mdp.to_arrays("SAS")
        going_on = dense.transition[:-1, :, :-1]  # the end has value 0
        rows = going_on - np.eye(criteria.N_STATES - 1)[:, None]
        left = rows.reshape(-1, criteria.N_STATES - 1)
        right = -dense.reward[:-1].ravel()
        best = linprog(np.ones(criteria.N_STATES - 1), left, right, bounds=(None, None)).x
        found = ts.solve(mdp, method)
        assert np.abs(found.value[:-1] - best).max() <= found.error_bound + 1e-7
        assert found.value[-1] == 0


def test_the_shortest_way_is_as_long_as_it_is():
    gym = pytest.importorskip("gymnasium")
    cliff = ts.MDP.from_gymnasium(gym.make("CliffWalking-v1"), ts.Total())
    found = ts.solve(cliff)
    assert found.value.ravel()[36] == pytest.approx(-13, abs=found.error_bound)
    worth = ts.evaluate(cliff, found.policy, 36)
    assert worth.mean == pytest.approx(-13, abs=worth.error_bound)
    paths = ts.simulate(cliff, found.policy, 20, 0, paths=3, start=36)
    assert paths.returns.tolist() == [-13, -13, -13]


def test_a_policy_earns_what_its_paths_earn():
    mdp = criteria.build_ending(2)
    found = ts.solve(mdp)
    paths = ts.simulate(mdp, found.policy, 3000, 1, paths=4000, start=0)
    off = paths.returns.mean() - found.value[0]
    assert abs(off) <= 6 * paths.returns.std() / np.sqrt(4000)


def test_an_end_that_cannot_be_reached_is_named_with_the_state():
    rows = np.array([[[1.0, 0, 0], [0, 0, 1], [0, 0, 1]]])
    mdp = ts.MDP.from_arrays(rows, np.array([[-1.0], [-1], [0]]), ts.Total())
    words = r"reached from everywhere; state=0 cannot reach it \(1 of 3 states\)"
    with pytest.raises(ts.ModelError, match=words):
        ts.solve(mdp)


def test_a_reward_that_can_be_had_for_ever_has_no_total():
    with pytest.raises(ts.ModelError, match="stays forever among 1 states, one of which is sta"):
        ts.solve(two(1.0, 0.0))


def test_staying_for_nothing_is_not_told_from_leaving_at_a_cost():
    with pytest.raises(ts.ModelError, match="not proven to end"):
        ts.solve(two(0.0, -1.0))


def test_a_way_that_never_ends_is_no_obstacle_where_it_costs():
    found = ts.solve(two(-0.125, -1.0))
    assert found.value.tolist() == pytest.approx([-1, 0], abs=found.error_bound)
    with pytest.raises(ts.ModelError, match="this policy stays forever among 1 states"):
        ts.evaluate(found.mdp, [0, 0])


def test_a_tolerance_is_kept_and_an_impossible_one_is_refused():
    mdp = criteria.build_ending(0)
    assert ts.solve(mdp, tol=1e-3).error_bound <= 1e-3
    with pytest.raises(ts.NotConverged, match="float64 cannot certify"):
        ts.solve(mdp, tol=1e-18)


def test_a_verb_that_cannot_serve_it_says_so():
    solution = ts.solve(two(-0.125, -1.0))
    with pytest.raises(ts.ArgumentError, match="occupancy serves models with the criterion"):
        ts.occupancy(solution.mdp, solution.policy)


def test_a_file_keeps_the_criterion(tmp_path):
    mdp = two(-0.125, -1.0)
    mdp.save(tmp_path / "m.nc")
    assert ts.MDP.load(tmp_path / "m.nc").criterion == ts.Total()


def test_a_guess_is_0_where_the_process_has_ended():
    """Any constant at the end has no residual; only 0 is right."""
    rows = np.array([[[0.0, 1, 0], [0, 0, 1], [0, 0, 1]]])
    mdp = ts.MDP.from_arrays(rows, np.array([[1.0], [2], [0]]), ts.Total())
    found = ts.evaluate(mdp, [0, 0, 0], guess=np.full(3, 5.0))
    assert found.value.tolist() == pytest.approx([3, 2, 0], abs=found.error_bound)


def test_a_state_that_is_hardly_ever_left_is_no_end():
    rows = np.array([[[1 - 1e-15, 1e-15, 0], [0, 0, 1], [0, 0, 1]]])
    mdp = ts.MDP.from_arrays(rows, np.array([[0.0], [1], [0]]), ts.Total())
    with pytest.raises(ts.TessellaError):
        ts.solve(mdp)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_an_end_is_a_state_that_no_action_leaves(backend):
    """However small the chance to leave; an infeasible action may lead anywhere, and pay."""
    stay = np.eye(6)
    move = np.eye(6)[[0, 1, 2, 0, 0, 0]]
    move[2, [1, 2]] = 1e-20, 1 - 1e-20
    feasible = np.ones((6, 2), bool)
    feasible[4] = [False, True]
    feasible[5] = [True, False]
    reward = np.zeros((6, 2))
    reward[5, 1] = 5.0
    mdp = ts.MDP.from_arrays([stay, move], reward, ts.Total(), feasible=feasible)
    absorbing = find_absorbing_states(PreparedModel(make_plan(mdp, backend=backend)))
    assert np.flatnonzero(absorbing).tolist() == [0, 1, 5]


def test_progress_tells_of_no_bound_before_there_is_one():
    seen = []
    found = ts.solve(criteria.build_ending(0), callback=lambda p: seen.append(p.bound))
    assert seen[0] == np.inf
    assert seen[-1] == found.error_bound
    assert len(seen) == found.sweeps == len(found.history)


@pytest.mark.parametrize("route", ROUTES)
def test_a_policy_that_never_ends_has_no_values_to_go_on_from(route):
    """The action that pays best at first stays for ever; its linear system has no solution."""
    rows = np.array(
        [
            [[3, 1, 0, 0, 4], [5, 0, 0, 3, 0], [3, 0, 2, 3, 0]],
            [[0, 0, 1, 2, 5], [2, 0, 2, 4, 0], [2, 1, 2, 2, 1]],
            [[0, 1, 1, 3, 3], [4, 0, 0, 4, 0], [3, 0, 1, 4, 0]],
            [[2, 1, 1, 0, 4], [3, 0, 3, 2, 0], [3, 0, 1, 4, 0]],
            [[0, 0, 0, 0, 8], [0, 0, 0, 0, 8], [0, 0, 0, 0, 8]],
        ]
    )
    reward = np.array([[-5, -1, -6], [-7, -2, -5], [-4, -2, -7], [-8, -3, -3], [0, 0, 0]])
    chances = ts.Noise("to", range(5), lambda x, action: rows[x, action][..., 0, :] / 8)
    jump = ts.Jump(chances, to=lambda to: {"x": to}, pays=lambda x, action: 1.0 * reward[x, action])
    mdp = ts.MDP.staged({"x": range(5)}, range(3), ts.Total(), [jump])
    found = ts.solve(mdp, plan=plan_by(mdp, route))
    assert found.converged
    assert found.error_bound < 1e-9
    q = reward + rows / 8 @ found.value
    np.testing.assert_allclose(q.max(axis=1), found.value, atol=1e-9)
    assert found.policy.table[0] == 0


LINE = 2500  # states: more steps to the end than the sweeps that look for the time to it


def line(two_steps: float) -> ts.MDP:
    """One step on costs 1, two at once cost ``two_steps``."""

    def step(x, action):
        cost = np.where(action == 1, 1.0, two_steps)
        return {"x": np.minimum(x + action, LINE - 1)}, np.where(x == LINE - 1, 0.0, cost)

    return ts.MDP.from_step(step, {"x": range(LINE)}, (1, 2), ts.Total(), minimise=True)


def test_a_way_of_thousands_of_steps_is_solved_evaluated_and_certified():
    mdp, left = line(1.9), np.arange(LINE)[::-1]
    found, slow = ts.solve(mdp), np.zeros(LINE, int)
    best = left // 2 * 1.9 + left % 2
    assert np.abs(found.cost - best).max() <= found.error_bound < 1e-6
    worth = ts.evaluate(mdp, slow)
    assert np.abs(worth.cost - left).max() <= worth.error_bound < 1e-6
    lost = ts.certify(found, slow).worst_loss
    assert lost.lower <= (left - best).max() <= lost.upper <= lost.lower + 1e-6


@pytest.mark.parametrize("two_steps", [2.0, 2.1])
def test_a_rule_whose_way_takes_thousands_of_steps_is_certified(two_steps):
    """With 2.0 every way is as good as any other, and the longest bounds the time."""
    rule = ts.compress(ts.solve(line(two_steps)), loss=0.05, classes=[ts.OneAction()])
    assert rule.certificate is not None
    assert rule.certificate.relative_loss.upper < 0.05


THREE = np.array([np.eye(3), [[0, 1, 0], [0, 0, 1], [0, 0, 1]]])  # stay, or go on to the end


@pytest.mark.parametrize("dear", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("digits", range(6, 16))
def test_waiting_that_costs_next_to_nothing_is_not_taken_for_staying_for_ever(digits, dear):
    reward = np.array([[-(10.0**-digits), -dear], [-(10.0**-digits), -5 * dear], [0, 0]])
    found = ts.solve(ts.MDP.from_arrays(THREE, reward, ts.Total()))
    assert found.policy.table[:2].tolist() == [1, 1]
    assert found.value.tolist() == pytest.approx([-6 * dear, -5 * dear, 0], abs=found.error_bound)
    assert found.error_bound <= 1e-12 * dear


@pytest.mark.parametrize("digits", range(6, 16))
def test_waiting_that_pays_next_to_nothing_stays_for_ever(digits):
    reward = np.array([[10.0**-digits, -1], [10.0**-digits, -5], [0, 0]])
    with pytest.raises(ts.ModelError, match="stays forever among 1 states"):
        ts.solve(ts.MDP.from_arrays(THREE, reward, ts.Total()))


def stopping(waiting: float) -> ts.MDP:
    """No state for the end: half of the time, going ends the process."""
    table = {
        s: {
            0: [(1.0, s, waiting, False)],
            1: [(0.5, 1 - s, cost, False), (0.5, s, cost, True)],
        }
        for s, cost in enumerate((-1.0, -4.0))
    }
    return ts.MDP.from_gymnasium(SimpleNamespace(P=table), ts.Total())


@pytest.mark.parametrize("digits", range(6, 13))
def test_cheap_waiting_in_a_process_without_a_state_for_the_end_is_not_chosen(digits):
    found = ts.solve(stopping(-(10.0**-digits)))
    assert found.value.tolist() == pytest.approx([-4, -6], abs=found.error_bound)
    assert found.error_bound <= 1e-12


def test_waiting_that_rounding_hides_is_reported_as_such():
    """The rewards of outcomes are known to 4e-15."""
    with pytest.raises(ts.ModelError, match="as far as float64 can resolve, are not proven to end"):
        ts.solve(stopping(-1e-16))


@pytest.mark.parametrize("seed", range(20))
def test_a_policy_that_never_ends_has_no_value_whatever_its_rows(seed):
    """Of a system that is singular but for rounding, a direct solve gives numbers of any sign."""
    rng = np.random.default_rng(seed)
    rows = np.zeros((2, 5, 5))
    rows[0, :, 4] = 1.0
    rows[1, :4, :4] = rng.multinomial(8, [0.25] * 4, size=4) / 8
    rows[1, 4, 4] = 1.0
    reward = np.where(np.arange(5)[:, None] < 4, -rng.integers(1, 9, (5, 2)), 0)
    mdp = ts.MDP.from_arrays(rows, reward, ts.Total())
    with pytest.raises(ts.ModelError, match="needs policies that end"):
        ts.evaluate(mdp, np.ones(5, dtype=int))
