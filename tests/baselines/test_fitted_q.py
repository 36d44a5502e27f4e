"""Fitted Q iteration."""

import numpy as np
import pytest
from sklearn.tree import ExtraTreeRegressor

import tessella as ts
from tessella.baselines import FittedQ, train, train_batch
from tessella.baselines.fitted_q import WeightedRows, grow_tree, predict_with_forest
from tessella.baselines.training import draw_uniform_transitions, select_greedy


def cloud(m=150, seed=0):
    rng = np.random.default_rng(seed)
    inputs = np.unique(rng.integers(0, 9, (m, 3)), axis=0).astype(np.float32)
    return WeightedRows(inputs, rng.integers(1, 4, len(inputs)).astype(float)), rng.normal(
        size=len(inputs)
    )


@pytest.mark.parametrize("leaf", [1, 2, 5])
def test_a_tree_is_scikit_learns_extra_tree(leaf):
    rows, targets = cloud()
    public = ExtraTreeRegressor(
        min_weight_fraction_leaf=(leaf - 0.5) / rows.weights.sum(),
        max_features=1.0,
        random_state=np.random.RandomState(4),
    ).fit(rows.inputs, targets, sample_weight=rows.weights)
    ours = grow_tree(rows, targets, leaf, np.random.RandomState(4))
    assert (ours.predict(rows.inputs) == public.predict(rows.inputs)).all()
    assert ours.tree_.node_count == public.tree_.node_count


def test_fewer_observations_than_two_leaves_need_make_one_leaf():
    rows, targets = WeightedRows(np.float32([[0], [1]]), np.ones(2)), np.array([1.0, 3.0])
    tree = grow_tree(rows, targets, 2, np.random.RandomState(0))
    assert tree.predict(rows.inputs).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("leaf", [1, 2, 5])
def test_leaves_hold_at_least_so_many_observations(leaf):
    rows, targets = cloud()
    tree = grow_tree(rows, targets, leaf, np.random.RandomState(0)).tree_
    leaves = tree.children_left == -1
    assert tree.weighted_n_node_samples[leaves].min() >= leaf


def test_equal_inputs_as_one_weighted_row_give_the_same_forest_in_law():
    rows, targets = cloud(80)
    which = np.repeat(np.arange(len(targets)), rows.weights.astype(int))
    plain = WeightedRows(rows.inputs[which], np.ones(len(which)))
    queries = rows.inputs[:20]
    one, other = (
        predict_with_forest(r, t, queries, 4_000, 2, np.random.RandomState(k))
        for k, (r, t) in enumerate([(rows, targets), (plain, targets[which])])
    )
    # The spread of one tree's prediction is about 0.7; 4,000 trees make it 0.011.
    assert np.abs(one - other).max() < 0.08


def test_with_full_trees_on_every_pair_it_is_value_iteration(certain):
    sparse = certain.to_sparse()
    for k in (1, 3, 8):
        q = np.zeros((8, 2))
        for _ in range(k):
            best = q.max(axis=1)
            future = np.column_stack([matrix @ best for matrix in sparse.transition])
            q = sparse.reward + 0.9 * future
        rival = train(FittedQ(trees=3, leaf=1, iterations=k), certain, 400, 0)
        assert (rival.table == select_greedy(q, certain)).all()


def slow_policy(method, mdp, n, seed):
    """The plain loop: public trees, one row per transition and action."""
    seen = draw_uniform_transitions(mdp, n, seed)
    rng = np.random.RandomState(np.random.PCG64([seed, n]))
    pair = seen.states * mdp.n_actions + seen.actions
    kept = np.unique(pair)
    rows = lambda s, a: np.column_stack([mdp.grid.points[s], a]).astype(np.float32)  # noqa: E731
    weights = np.array([(pair == p).sum() for p in kept], dtype=float)
    future = np.zeros(n)
    for _ in range(method.iterations):
        targets = np.array([(seen.rewards + future)[pair == p].mean() for p in kept])
        forest = [
            ExtraTreeRegressor(
                min_weight_fraction_leaf=(method.leaf - 0.5) / n,
                max_features=1.0,
                random_state=rng,
            ).fit(rows(kept // mdp.n_actions, kept % mdp.n_actions), targets, weights)
            for _ in range(method.trees)
        ]

        def value(s, forest=forest):
            columns = [
                np.mean([t.predict(rows(s, np.full(len(s), a))) for t in forest], axis=0)
                for a in range(mdp.n_actions)
            ]
            return np.where(mdp.feasible_mask[s], np.column_stack(columns), -np.inf)

        future = np.where(seen.ended, 0.0, mdp.discount * value(seen.nexts).max(axis=1))
    return value(np.arange(mdp.n_states)).argmax(axis=1)


@pytest.mark.parametrize("n", [30, 200])
def test_the_table_of_all_pairs_gives_what_the_plain_loop_gives(small, n):
    method = FittedQ(trees=5, leaf=2, iterations=4)
    rival = train_batch(method, small, [n], [3])[3, n]
    assert (rival.table.ravel() == slow_policy(method, small, n, 3)).all()
    assert (train(method, small, n, 3).table == rival.table).all()


def test_enough_transitions_give_the_exact_policy(small):
    rival = train(FittedQ(leaf=1, iterations=25, trees=5), small, 60_000, 0)
    assert (rival.table == ts.solve(small).policy.table).all()


def test_nothing_follows_an_end(ending):
    rival = train(FittedQ(trees=2, leaf=1, iterations=40), ending, 50)
    assert (rival.table == 1).all()
    assert (train(FittedQ(trees=2, leaf=1, iterations=1), ending, 50).table == 0).all()


def test_a_batch_gives_what_single_runs_give(small):
    method = FittedQ(trees=4, iterations=3)
    found = train_batch(method, small, [200, 40], [5, 1])
    assert set(found) == {(s, n) for s in (5, 1) for n in (40, 200)}
    for (seed, budget), policy in found.items():
        assert (policy.table == train(method, small, budget, seed).table).all()
        assert policy.simulator_calls == budget


def test_policies_take_feasible_actions_only(small):
    small.check_feasible(train(FittedQ(trees=2, iterations=2), small, 5))


def test_size_name_and_curve(small):
    rival = train(FittedQ(iterations=12), small, 500, 0)
    assert rival.size == 60
    assert rival.name == "Fitted Q iteration"
    assert rival.curve.unit == "iterations"
    assert rival.curve.at.tolist() == list(range(1, 13))
    assert rival.curve.residual[-1] < rival.curve.residual[0] / 10
    assert (rival.curve.tables[-1] == rival.table).all()


@pytest.mark.parametrize("wrong", [{"trees": 0}, {"leaf": 0}, {"iterations": 0}])
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(ts.ArgumentError, match="must be a whole number, at least 1"):
        FittedQ(**wrong)


def test_zero_updates_are_refused(small):
    with pytest.raises(ts.ArgumentError, match="at least 1 update; got 0"):
        train(FittedQ(), small, 0)
