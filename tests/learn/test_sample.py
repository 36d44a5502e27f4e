"""Drawing labelled samples."""

import numpy as np
import pytest

import tessella as ts
from tessella.learn import ByOccupancy, Sample, Stratified, Uniform, draw


def test_labels_and_margins_are_those_of_the_state_behind_each_point(stock):
    sample = draw(stock, 500, rng=3)
    assert (sample.labels == stock.policy.table.ravel()[sample.states]).all()
    assert (sample.margins == stock.margin.ravel()[sample.states]).all()
    assert len(sample) == sample.exact_labels == 500


def test_without_noise_the_points_are_the_states_themselves(stock):
    sample = draw(stock, 500, noise=0, rng=3)
    assert (sample.points == stock.mdp.grid.points[sample.states]).all()


def test_unless_said_the_noise_is_the_models_own(stock):
    own = stock.mdp.observation_noise
    assert own > 0
    assert (draw(stock, 50, rng=1).points == draw(stock, 50, noise=own, rng=1).points).all()


@pytest.mark.parametrize("seed", range(3))
def test_noise_has_the_given_spread_in_grid_steps_along_each_axis(seed):
    grid = {"coarse": [0, 10, 20], "fine": [0.0, 0.5, 1.0, 1.5]}
    identity = np.eye(12)[None].repeat(2, axis=0)
    reward = np.tile([1.0, 0.0], (12, 1))
    solution = ts.solve(ts.MDP.from_arrays(identity, reward, 0.5, grid=grid))
    n, noise = 20_000, np.array([0.3, 0.7])
    sample = draw(solution, n, noise=noise, rng=seed)
    shift = (sample.points - solution.mdp.grid.points[sample.states]) / [10, 0.5]
    assert np.abs(shift.mean(axis=0)).max() < 5 * 0.7 / np.sqrt(n)
    assert np.abs(shift.std(axis=0) / noise - 1).max() < 5 / np.sqrt(2 * n)


def test_the_seed_decides_the_sample(stock):
    first, again, other = draw(stock, 40, rng=1), draw(stock, 40, rng=1), draw(stock, 40, rng=2)
    assert (first.points == again.points).all()
    assert (first.states != other.states).any()
    generator = np.random.default_rng(1)
    assert (draw(stock, 40, rng=generator).points == first.points).all()


@pytest.mark.parametrize("seed", range(3))
def test_uniform_draws_fall_on_every_part_of_the_grid_alike(stock, seed):
    n, size = 33_000, stock.mdp.n_states
    counts = np.bincount(draw(stock, n, rng=seed).states, minlength=size)
    chi = ((counts - n / size) ** 2 / (n / size)).sum()
    assert abs(chi - (size - 1)) < 6 * np.sqrt(2 * (size - 1))


def test_without_replacement_no_state_comes_twice(stock):
    size = stock.mdp.n_states
    sample = draw(stock, size, scheme=Uniform(replace=False))
    assert sample.distinct_states == size
    with pytest.raises(ts.ArgumentError, match="at most 825 states; got 826"):
        draw(stock, size + 1, scheme=Uniform(replace=False))


def test_occupancy_draws_follow_the_weights(stock):
    weights = np.zeros(stock.mdp.grid.shape)
    weights[0, 0], weights[3, 4] = 1.0, 3.0
    n = 4_000
    sample = draw(stock, n, scheme=ByOccupancy(weights), rng=0)
    heavy = stock.mdp.grid.state(stock=3, regime=4)
    assert set(sample.states) == {0, heavy}
    assert abs((sample.states == heavy).mean() - 0.75) < 5 * np.sqrt(0.75 * 0.25 / n)


@pytest.mark.parametrize("bad", [-1.0, np.nan, 0.0])
def test_weights_that_are_no_distribution_are_refused(stock, bad):
    weights = np.zeros(stock.mdp.n_states)
    weights[7] = bad
    with pytest.raises(ts.ArgumentError, match="occupancy weights must be finite, non-negative"):
        draw(stock, 10, scheme=ByOccupancy(weights))


def test_weights_of_the_wrong_length_are_refused(stock):
    with pytest.raises(ts.ArgumentError, match="need 825 entries; got 3"):
        draw(stock, 10, scheme=ByOccupancy([1, 2, 3]))


def test_stratified_draws_share_evenly_between_the_regions_and_own_up_to_the_labels(stock):
    sample = draw(stock, 103, scheme=Stratified(), rng=0)
    assert np.bincount(sample.labels).tolist() == [21, 21, 21, 20, 20]
    assert (sample.labels == stock.policy.table.ravel()[sample.states]).all()
    assert sample.exact_labels == stock.mdp.n_states


def test_a_sample_knows_which_actions_are_feasible(gated):
    sample = draw(gated, 30)
    assert sample.feasible is not None
    assert (sample.feasible == gated.mdp.feasible_mask).all()


@pytest.mark.parametrize("n", [0, -3, 2.5])
def test_a_sample_has_at_least_one_observation(stock, n):
    with pytest.raises(ts.ArgumentError, match="at least 1 state"):
        draw(stock, n)


@pytest.mark.parametrize(
    "noise", [-0.1, np.nan, [0.1, 0.2, 0.3], "a", "0.5", ["a", "b"], [[1], [1, 2]], object(), 1j]
)
def test_noise_is_a_spread(stock, noise):
    with pytest.raises(ts.ArgumentError, match=r"noise must be one number, .* not negative; got"):
        draw(stock, 5, noise=noise)


def test_weights_are_numbers(stock):
    with pytest.raises(ts.ArgumentError, match="weights must be numbers; the value is 'a'"):
        draw(stock, 5, scheme=ByOccupancy("a"))


GOOD = {
    "points": [[0.0, 1.0], [2.0, 3.0]],
    "labels": [0, 1],
    "margins": [0, np.inf],
    "states": [0, 4],
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (
            {"points": [[0.0, 1.0], [2.0, np.nan]]},
            r"points must be finite; row 1 .*\(1 of 2 rows\)",
        ),
        ({"points": [["a", "b"], ["c", "d"]]}, "points must be numbers; entry"),
        ({"margins": ["a", "b"]}, "margins must be numbers; entry"),
        ({"points": [[0.0], [2.0]]}, r"points must have shape \(n, 2\)"),
        ({"labels": [0, 5]}, r"labels must be action indices 0\.\.4; row 1 is 5 \(1 of 2 rows\)"),
        ({"labels": [-1, 0]}, "labels must be action indices"),
        ({"labels": [0.5, 0]}, "labels must be action indices"),
        ({"labels": [0, 1, 2]}, "labels must have shape"),
        ({"margins": [0, -1]}, "margins must not be negative"),
        ({"margins": [0, np.nan]}, "margins must not be negative"),
        ({"states": [0, 825]}, r"states must lie in 0\.\.824"),
    ],
)
def test_a_sample_that_cannot_be_right_is_refused(stock, change, says):
    Sample(**GOOD, grid=stock.mdp.grid, actions=stock.mdp.actions)
    with pytest.raises(ts.ArgumentError, match=says):
        Sample(**GOOD | change, grid=stock.mdp.grid, actions=stock.mdp.actions)
