"""Local boundaries."""

import numpy as np
import pytest

import tessella as ts
from tessella.learn import Features, LocalBoundary, Sample, draw, fit


@pytest.mark.parametrize("k", [None, 1, 5, 40])
def test_a_sample_that_covers_the_grid_gives_the_exact_tessellation(stock, queue, whole, k):
    for solution in (stock, queue):
        policy = fit(LocalBoundary(k=k), whole(solution))
        assert (policy.table == solution.policy.table).all()


def slow_probabilities(X, y, queries, k, n_classes):
    """Distances to all, by definition."""
    rows = []
    for x in queries:
        distance = np.sqrt(((X - x) ** 2).sum(axis=1))
        near = np.argsort(distance, kind="stable")[:k]
        if (distance[near] == 0).any():
            weight = (distance[near] == 0).astype(float)
        else:
            weight = 1 / distance[near]
        votes = [weight[y[near] == c].sum() for c in range(n_classes)]
        rows.append(np.array(votes) / weight.sum())
    return np.array(rows)


@pytest.mark.parametrize("k", [1, 4, 11])
def test_votes_follow_the_definition(k):
    rng = np.random.default_rng(k)
    X, queries = rng.normal(size=(80, 3)), rng.normal(size=(30, 3))
    y = rng.integers(0, 4, 80)
    queries[:5] = X[:5]
    learner = LocalBoundary(k=k, features=Features("none")).fit(X, y)
    assert np.allclose(learner.predict_proba(queries), slow_probabilities(X, y, queries, k, 4))


def test_ties_go_to_the_lowest_action():
    X = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    learner = LocalBoundary(k=4, features=Features("none"))
    for labels, wins in [([3, 3, 1, 1], 1), ([2, 0, 2, 0], 0), ([4, 3, 2, 1], 1)]:
        assert learner.fit(X, labels).predict([[0.0, 0.0]]).tolist() == [wins]


def test_sums_that_differ_by_rounding_alone_are_ties():
    # 1/2 = 1/4 + 1/6 + 1/12, but not in floating point.
    X = np.array([[2.0], [-4.0], [6.0], [-12.0]])
    learner = LocalBoundary(k=4, features=Features("none")).fit(X, [1, 0, 0, 0])
    votes = learner.predict_proba([[0.0]])[0]
    assert votes[1] > votes[0]
    assert learner.predict([[0.0]]).tolist() == [0]


def test_tiny_distances_do_not_overflow():
    X = np.array([[0.0], [1.0], [2.0]])
    learner = LocalBoundary(k=3, features=Features("none")).fit(X, [0, 1, 1])
    assert learner.predict_proba([[1e-310]])[0, 0] > 0.999


# Coordinates taken as they are must stay below 2^500, the features' own limit.
UNITS = {
    "none": (-1000, -700, 400),
    "range": (-1000, -700, 400, 1000),
    "standard": (-1000, -700, 400, 1000),
}


@pytest.mark.parametrize(("scaling", "unit"), [(s, u) for s, of in UNITS.items() for u in of])
def test_votes_know_no_unit(scaling, unit):
    rng = np.random.default_rng(0)
    X, queries, y = rng.uniform(-1, 1, (40, 2)), rng.uniform(-2, 2, (30, 2)), rng.integers(0, 3, 40)
    learner = LocalBoundary(k=3, features=Features(scaling))
    plain = learner.fit(X, y).predict_proba(queries)
    far = np.ldexp(1.0, unit)
    assert (learner.fit(X * far, y).predict_proba(queries * far) == plain).all()


@pytest.mark.parametrize("scaling", ["none", "range", "standard"])
@pytest.mark.parametrize("unit", [1e-310, 1e-300, 1e-170, 1e170, 1e308])
def test_a_point_however_far_from_the_sample_gets_a_vote(scaling, unit):
    X = np.array([[0.0, 0.0], [1.0, 0.5], [0.5, -1.0]]) * unit
    learner = LocalBoundary(k=2, features=Features(scaling)).fit(X, [0, 1, 2])
    votes = learner.predict_proba([[1.0, -1.0], [-1e308, 1e308], [0.0, 1e-320]])
    assert np.allclose(votes.sum(axis=1), 1)


def test_unless_given_k_grows_with_the_root_of_n(stock):
    ks = [fit(LocalBoundary(), draw(stock, n)).rule.classifier.k for n in (2, 100, 1_600, 6_400)]
    assert ks == [1, 2, 10, 20]


def test_a_sample_smaller_than_k_votes_as_a_whole(stock):
    policy = fit(LocalBoundary(k=50), draw(stock, 7, rng=0))
    assert policy.rule.classifier.k == 7
    assert policy.size == 7


def test_its_size_is_its_sample(stock):
    assert fit(LocalBoundary(), draw(stock, 6_400)).size == 6_400


def test_k_must_be_positive(stock):
    with pytest.raises(ts.ArgumentError, match="k must be a whole number, at least 1; got 0"):
        fit(LocalBoundary(k=0), draw(stock, 10))


def test_one_observation_decides_everything(stock):
    grid, actions = stock.mdp.grid, stock.mdp.actions
    sample = Sample(np.zeros((1, 2)), np.array([3]), np.zeros(1), np.zeros(1, int), grid, actions)
    assert (fit(LocalBoundary(), sample).table == 3).all()
