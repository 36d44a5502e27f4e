"""Linear boundaries."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from tessella import ArgumentError
from tessella.learn import Features, LinearBoundary, draw, fit


def problem(n_classes, n=300, d=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    scores = X @ rng.normal(size=(d, n_classes)) * 2 + rng.gumbel(size=(n, n_classes))
    return X, scores.argmax(axis=1)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_the_optimum_is_scikit_learns(n_classes, C):
    X, y = problem(n_classes)
    ours = LinearBoundary(C=C, features=Features("none")).fit(X, y)
    theirs = LogisticRegression(C=C, tol=1e-10, max_iter=10_000).fit(X, y)
    assert np.allclose(ours.classifier_.regression.coef_, theirs.coef_, atol=1e-4)
    assert np.allclose(ours.classifier_.regression.intercept_, theirs.intercept_, atol=1e-4)
    assert np.allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_at_the_optimum_no_direction_lowers_the_objective(n_classes):
    X, y = problem(n_classes)
    learner = LinearBoundary(C=0.7, features=Features("none")).fit(X, y)
    regression = learner.classifier_.regression
    W = np.column_stack([regression.coef_, regression.intercept_])

    def objective(W):
        scores = X @ W[:, :-1].T + W[:, -1]
        scores = np.column_stack([np.zeros(len(X)), scores]) if len(W) == 1 else scores
        fit = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(y)), y]
        return fit.sum() + (W[:, :-1] ** 2).sum() / (2 * 0.7)

    rng = np.random.default_rng(1)
    for _ in range(50):
        step = 1e-3 * rng.normal(size=W.shape)
        assert objective(W + step) > objective(W) - 1e-9


def test_straight_boundaries_are_reproduced_exactly(stock, whole):
    policy = fit(LinearBoundary(C=1e4), whole(stock))
    assert (policy.table == stock.policy.table).all()


def test_squares_of_the_coordinates_bend_the_boundary(queue, whole):
    errors = [
        (fit(LinearBoundary(C=1e4, features=f), whole(queue)).table != queue.policy.table).mean()
        for f in (Features(degree=1), Features(degree=3))
    ]
    assert errors[1] < errors[0] / 2


def test_sizes_are_counted_as_in_the_paper(stock, queue):
    assert fit(LinearBoundary(), draw(stock, 2_000)).size == 15
    assert fit(LinearBoundary(), draw(queue, 2_000)).size == 3


def test_an_action_that_no_label_shows_is_never_taken(stock):
    sample = draw(stock, 2_000, rng=0)
    kept = sample.labels != 2
    few = type(sample)(
        sample.points[kept],
        sample.labels[kept],
        sample.margins[kept],
        sample.states[kept],
        sample.grid,
        sample.actions,
    )
    policy = fit(LinearBoundary(), few)
    assert 2 not in policy.table
    assert policy.size == 12


def test_repeated_and_constant_features_do_no_harm():
    X, y = problem(3)
    twice = np.column_stack([X, X[:, 0], np.ones(len(X))])
    plain = LinearBoundary(C=1e6).fit(X, y).predict_proba(X)
    assert np.allclose(LinearBoundary(C=1e6).fit(twice, y).predict_proba(twice), plain, atol=1e-4)


def test_stopping_short_of_the_optimum_is_reported():
    X, y = problem(3)
    learner = LinearBoundary()
    learner.newton_max_steps = 2
    with pytest.warns(ConvergenceWarning, match="within 2 Newton steps"):
        learner.fit(X, y)


def test_a_singular_curvature_is_reported():
    X, y = problem(3)
    with pytest.warns(ConvergenceWarning, match="no optimum within 100 Newton steps"):
        LinearBoundary(C=1e8, features=Features("none")).fit(1e6 * X, y)


def test_separable_samples_converge_without_complaint():
    X = np.linspace(-1, 1, 40)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner = LinearBoundary(C=1e4).fit(X, X[:, 0] > 0)
    assert learner.score(X, X[:, 0] > 0) == 1.0


def test_c_must_be_positive():
    with pytest.raises(ArgumentError, match="C must be positive; got 0"):
        LinearBoundary(C=0).fit(*problem(2))
