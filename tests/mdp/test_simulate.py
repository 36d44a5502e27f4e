"""Simulation of a model under a policy."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from modelfiles.test_measures import build_queue, build_shop

import tessella as ts
from tessella.errors import ArgumentError, ModelError, PolicyError
from tessella.grid import StateGrid
from tessella.mdp.dynamics import draw_indices
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.simulate import simulate
from tessella.mdp.stages import Noise, Pay, Shift
from tessella.mdp.start import start_distribution
from tessella.problems.registry import benchmark


def drift() -> MDP:
    """x climbs by one in each period and pays x."""
    return MDP.staged(
        {"x": range(4)}, ("wait", "go"), 0.5, [Pay(lambda x: x), Shift("x", Noise("w", [1], [1.0]))]
    )


def test_a_certain_path_is_played_as_it_must_be():
    paths = simulate(drift(), [0, 1, 0, 1], 5, 0, paths=2, start=0)
    assert paths.states.tolist() == [[0, 1, 2, 3, 3, 3]] * 2
    assert paths.actions.tolist() == [[0, 1, 0, 1, 1]] * 2
    assert paths.rewards.tolist() == [[0, 1, 2, 3, 3]] * 2
    assert paths.returns.tolist() == [1 / 2 + 2 / 4 + 3 / 8 + 3 / 16] * 2


def test_a_seed_and_its_generator_give_the_same_paths_and_seeds_differ(world):
    policy = world.staged.feasible_mask.argmax(axis=1)
    runs = [
        simulate(world.staged, policy, 20, rng, paths=10).states
        for rng in (1, np.random.default_rng(1), 2)
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert (runs[0] != runs[2]).any()


def test_paths_start_where_they_are_told():
    mdp = drift()
    assert simulate(mdp, [0] * 4, 1, 0, paths=3, start=2).states[:, 0].tolist() == [2, 2, 2]
    assert simulate(mdp, [0] * 4, 1, 0, paths=3, start=[0, 3, 1]).states[:, 0].tolist() == [0, 3, 1]
    certain = [0.0, 0.0, 0.0, 1.0]
    assert simulate(mdp, [0] * 4, 1, 0, paths=3, start=certain).states[:, 0].tolist() == [3] * 3
    own = mdp.with_start(certain)
    assert simulate(own, [0] * 4, 1, 0, paths=3).states[:, 0].tolist() == [3] * 3
    assert simulate(own, [0] * 4, 1, 0, paths=3, start=1).states[:, 0].tolist() == [1] * 3
    assert own.with_start(None).start is None
    with pytest.raises(ArgumentError, match="one state, or one for each of 3 paths; got 2"):
        simulate(mdp, [0] * 4, 1, 0, paths=3, start=[0, 1])


def test_paths_that_start_at_some_coordinates_are_spread_over_the_states_that_have_them():
    mdp = benchmark("QUE-Lin")
    starts = simulate(mdp, lambda queue: 0 * queue, 1, 0, paths=500, start={"queue": 3}).states[
        :, 0
    ]
    assert set(starts) == {i for i, point in enumerate(mdp.grid.points) if point[0] == 3}


def test_a_start_is_uniform_unless_the_model_says_otherwise():
    mdp = drift()
    assert start_distribution(mdp, None).tolist() == [0.25] * 4
    assert start_distribution(mdp, 2).tolist() == [0, 0, 1, 0]
    assert start_distribution(mdp.with_start(2), None).tolist() == [0, 0, 1, 0]
    given = np.array([0.1, 0.2, 0.3, 0.4])
    started = mdp.with_start(given)
    given[:] = 0
    assert start_distribution(started, None).tolist() == [0.1, 0.2, 0.3, 0.4]
    off = start_distribution(mdp, [0.25, 0.25, 0.25, 0.25 + 1e-10])
    assert off.sum() == pytest.approx(1, abs=1e-15)


def test_outcomes_of_probability_zero_are_never_drawn():
    """Even when rounding brings the sum of the row below 1 and the draw up to it."""

    class Last:
        def random(self, n):
            return np.full(n, np.nextafter(1.0, 0))

    class First:
        def random(self, n):
            return np.zeros(n)

    cumulative = np.cumsum([[0.0, 0.1, 0.2, 0.4 - 1e-12, 0.3, 0.0]], axis=-1)
    assert draw_indices(cumulative, Last()).tolist() == [4]  # type: ignore[arg-type]
    assert draw_indices(cumulative, First()).tolist() == [1]  # type: ignore[arg-type]


def test_a_reward_that_is_not_elementwise_is_refused_when_it_is_played():
    costs = np.arange(4.0).reshape(1, 4, 1)
    mdp = MDP.staged({"x": range(4)}, (0,), 0.5, [Pay(lambda x: costs + 0 * x)])
    assert mdp.reward.ravel().tolist() == [0, 1, 2, 3]
    with pytest.raises(ModelError, match="a reward must be worked out elementwise"):
        simulate(mdp, [0] * 4, 1, 0, paths=2)


@dataclass(frozen=True)
class Above:
    """Go where x is above a level: one number."""

    level: float
    size: int = 1

    def __call__(self, points):
        return points[:, 0] > self.level


def test_a_policy_gives_grid_points_their_action_and_others_that_of_the_nearest():
    mdp = drift()
    policy = mdp.policy([0, 1, 1, 0], name="mine")
    assert policy.act([[0], [1], [1.4], [2.6], [99]]).tolist() == [0, 1, 1, 0, 0]
    assert (policy.size, repr(policy)) == (4, "Policy(mine: 4 states, 2 actions, size 4)")
    with pytest.raises(ValueError, match="read-only"):
        policy.table[0] = 1
    ruled = Policy(mdp.grid, mdp.actions, Above(1.5))
    assert ruled.act([[1.4], [1.6]]).tolist() == [0, 1]
    assert ruled.size == 1
    paths = simulate(mdp, policy, 2, 0, start=0)
    assert paths.actions.tolist() == [[0, 1]]


def test_a_model_says_what_it_is():
    assert repr(drift()) == "MDP(x 4; 2 actions, discount 0.5, staged)"
    assert drift().describe(2, 1) == "x=2, action=go"


def test_a_policy_is_taken_as_it_is():
    mdp = drift()
    ruled = Policy(mdp.grid, mdp.actions, Above(-1.0), name="mine")
    assert mdp.policy(ruled) is ruled
    renamed = mdp.policy(ruled, name="yours")
    assert (renamed.name, renamed.rule) == ("yours", ruled.rule)
    assert simulate(mdp, ruled, 2, 0, start=0).actions.tolist() == [[1, 1]]


def test_a_policy_of_another_model_is_refused():
    mdp = drift()
    other = Policy.from_table(StateGrid(x=range(1, 5)), mdp.actions, np.zeros(4, dtype=np.int32))
    swapped = Policy.from_table(mdp.grid, ("go", "wait"), np.zeros(4, dtype=np.int32))
    for use in (mdp.policy, lambda policy: simulate(mdp, policy, 1, 0)):
        with pytest.raises(PolicyError, match=r"policy is for StateGrid\(x: 1\.\.4; 4 states\)"):
            use(other)
        with pytest.raises(PolicyError, match=r"policy has actions \('go', 'wait'\), the model"):
            use(swapped)


def test_a_policy_of_this_grid_must_be_feasible_too():
    mdp = MDP.staged(
        {"x": [0, 1]}, (0, 1), 0.5, [Pay(lambda x: x)], feasible=lambda action: action < 1
    )
    with pytest.raises(PolicyError, match="a policy must take feasible actions; x=0, action=1"):
        mdp.policy(Policy.from_table(mdp.grid, mdp.actions, np.array([1, 0], dtype=np.int32)))


def test_randomness_must_be_given():
    with pytest.raises(ArgumentError, match="rng must be a generator or an integer seed; got None"):
        simulate(drift(), [0] * 4, 1, None)  # type: ignore[arg-type]


COUNTED = {
    "stages": (lambda: build_shop(), 150, 1000, None),
    "rates": (lambda: build_queue(), 500, 200, "stationary"),
    "a horizon": (lambda: build_shop().with_criterion(ts.FiniteHorizon(5)), 5, 1000, None),
}


@pytest.mark.parametrize("name", COUNTED)
def test_simulated_measures_agree_with_evaluated_ones(name):
    """Within 4 standard errors; seed 1 was the first tried, and no other was.

    150 periods leave out less than 1e-6 of a discounted sum. An average starts in the long run.
    """
    build, periods, paths, start = COUNTED[name]
    mdp = build()
    policy = np.ones(mdp.n_states, dtype=int)
    simulated = ts.simulate(mdp, policy, periods, 1, paths=paths, start=start)
    evaluated = ts.evaluate(mdp, policy).measures
    assert set(simulated.measures) == set(mdp.measures)
    for measure, found in simulated.measures.items():
        exact = evaluated[measure]
        assert found is not None
        assert exact is not None
        assert abs(found.value - exact.value) <= 4 * found.standard_error + 1e-5
        assert found.standard_error < 0.05 * max(1.0, abs(exact.value))


def test_the_paths_that_count_are_those_that_pay():
    mdp = build_shop().with_measures(paid="reward", share="lost / lost")
    simulated = ts.simulate(mdp, np.zeros(7, dtype=int), 20, np.random.default_rng(2), paths=3)
    assert simulated.measures["paid"].value == pytest.approx(simulated.returns.mean())
    assert simulated.measures["share"].standard_error == 0.0
    # Demand that is not lost is what stock fell by: nothing is ordered.
    plain = replace(mdp, criterion=ts.Total())
    again = ts.simulate(plain, np.zeros(7, dtype=int), 2, np.random.default_rng(2), paths=30)
    fallen = (again.states[:, 0] - again.states[:, -1]).mean()
    sold = again.measures["demand"].value - again.measures["lost"].value
    assert sold == pytest.approx(fallen)


def test_a_ratio_by_nothing_has_no_estimate_and_one_path_no_error():
    mdp = build_shop().with_measures(size="lost / orders")
    simulated = ts.simulate(mdp, np.zeros(7, dtype=int), 5, 1)
    assert simulated.measures["size"] is None
    assert np.isnan(simulated.measures["lost"].standard_error)
