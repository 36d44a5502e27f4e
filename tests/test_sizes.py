"""The size of a policy is what its method counts, and is called no more than that."""

from __future__ import annotations

import pytest

import tessella as ts

MODEL = ts.benchmark("QUE-Lin")
SOLUTION = ts.solve(MODEL)
PAIRS = MODEL.n_states * MODEL.n_actions
AXES = MODEL.grid.ndim
WEIGHTS = (AXES + 1) * 8 + (8 + 1)  # one hidden layer of 8, one output for two actions


@pytest.mark.parametrize(
    ("learner", "size"),
    [
        (ts.LinearBoundary(), AXES + 1),  # weights and a bias: one row for two actions
        (ts.NeuralBoundary(hidden=(8,), min_steps=1, epochs=1), WEIGHTS),
        (ts.MarginBoundary(hidden=(8,), min_steps=1, epochs=1), WEIGHTS),
        (ts.LocalBoundary(), 50),  # observations
    ],
)
def test_a_learned_policy_counts_weights_or_observations(learner, size):
    policy = ts.fit(learner, ts.draw(SOLUTION, 50, rng=1))
    assert policy.size == size
    assert repr(policy).endswith(f"size {size:,})")


@pytest.mark.parametrize(
    ("baseline", "size"),
    [
        (ts.TabularQ(), PAIRS),
        (ts.DoubleQ(), 2 * PAIRS),
        (ts.FittedQ(trees=3, iterations=1), 3),  # trees
    ],
)
def test_a_trained_policy_counts_entries_or_trees(baseline, size):
    assert ts.train(baseline, MODEL, 10).size == size


def test_a_table_counts_states_unless_it_stands_for_a_smaller_rule(tmp_path):
    assert SOLUTION.policy.size == MODEL.n_states
    policy = ts.fit(ts.LinearBoundary(), ts.draw(SOLUTION, 50, rng=1))
    policy.save(tmp_path / "rule.json")
    assert ts.Policy.load(tmp_path / "rule.json").size == policy.size
