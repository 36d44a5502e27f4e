"""From samples to policies, and the scikit-learn contract."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import SkipTestWarning
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR, LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
from sklearn.utils.estimator_checks import check_estimator

import tessella as ts
from tessella.learn import (
    LinearBoundary,
    LocalBoundary,
    MarginBoundary,
    NeuralBoundary,
    Sample,
    draw,
    fit,
    fit_batch,
)

QUICK = {"hidden": (8,), "min_steps": 60, "epochs": 1}
LEARNERS = [
    LinearBoundary(),
    LocalBoundary(),
    NeuralBoundary(**QUICK),
    MarginBoundary(**QUICK),
]
named = pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)


@pytest.mark.parametrize(
    "learner",
    [
        LinearBoundary(),
        LocalBoundary(),
        NeuralBoundary(hidden=(16,), min_steps=300),
        MarginBoundary(hidden=(16,), min_steps=300),
    ],
    ids=lambda learner: type(learner).__name__,
)
def test_scikit_learns_own_checks_pass(learner):
    with warnings.catch_warnings():
        # One check wants an environment variable set before the interpreter starts.
        warnings.simplefilter("ignore", SkipTestWarning)
        check_estimator(learner)


@named
def test_learners_work_in_scikit_learns_tools(learner, stock):
    sample = draw(stock, 240, noise=0, rng=0)
    X, y = sample.points, sample.labels > 0
    assert cross_val_score(learner, X, y, cv=3).mean() > 0.8
    name, values = {
        "LinearBoundary": ("C", [0.1, 10.0]),
        "LocalBoundary": ("k", [1, 9]),
    }.get(type(learner).__name__, ("learning_rate", [1e-2, 3e-2]))
    search = GridSearchCV(learner, {name: values}, cv=2).fit(X, y)
    assert search.best_params_[name] in values
    fitted = clone(learner).fit(X, y)
    revived = pickle.loads(pickle.dumps(fitted))
    assert (revived.predict_proba(X) == fitted.predict_proba(X)).all()


@named
def test_fitting_a_sample_is_fitting_its_points_and_labels(learner, stock):
    sample = draw(stock, 600, rng=1)
    assert len(np.unique(sample.labels)) == 5
    policy = fit(learner, sample)
    extra = [sample.margins] if isinstance(learner, MarginBoundary) else []
    estimator = clone(learner).fit(sample.points, sample.labels, *extra)
    assert (policy.table.ravel() == estimator.predict(stock.mdp.grid.points)).all()
    assert policy.size == estimator.size_
    assert policy.name == learner.title


@named
def test_the_rule_and_the_table_agree_on_the_grid(learner, stock):
    policy = fit(learner, draw(stock, 300, rng=1))
    assert (policy.act(stock.mdp.grid.points) == policy.table.ravel()).all()


@named
def test_fitting_leaves_the_learner_as_it_was(learner, stock):
    before = learner.get_params()
    fit(learner, draw(stock, 50))
    assert not hasattr(learner, "classes_")
    assert learner.get_params() == before


@named
def test_a_batch_gives_what_single_fits_give(learner, stock, queue):
    samples = [draw(stock, 80, rng=0), draw(queue, 80, rng=0), draw(stock, 40, rng=2)]
    together = fit_batch(learner, samples)
    for policy, sample in zip(together, samples, strict=True):
        alone = fit(learner, sample)
        points = sample.grid.points
        assert (policy.table == alone.table).all()
        assert (policy.rule.classifier.proba(points) == alone.rule.classifier.proba(points)).all()


@named
def test_policies_take_feasible_actions_only(learner, gated):
    policy = fit(learner, draw(gated, 60, rng=0))
    gated.mdp.check_feasible(policy)
    near = gated.mdp.grid.points + 0.3
    taken = policy.act(near)
    states = gated.mdp.grid.nearest(near)
    assert gated.mdp.feasible_mask[states, taken].all()


@named
def test_one_label_only_gives_the_constant_policy(learner, stock):
    sample = draw(stock, 40, rng=0)
    single = Sample(
        sample.points,
        np.full(40, 3),
        sample.margins,
        sample.states,
        sample.grid,
        sample.actions,
    )
    assert (fit(learner, single).table == 3).all()
    assert (clone(learner).fit(sample.points, ["x"] * 40).predict(sample.points) == "x").all()


@named
def test_missing_coordinates_are_refused(learner):
    X = np.array([[0.0, 1.0], [np.nan, 0.0], [1.0, 1.0]])
    with pytest.raises(ValueError, match="NaN"):
        clone(learner).fit(X, [0, 1, 0])


@named
def test_policies_travel_between_processes(learner, stock):
    policy = fit(learner, draw(stock, 60, rng=0))
    revived = pickle.loads(pickle.dumps(policy))
    points = np.random.default_rng(0).uniform(0, 24, (50, 2))
    assert (revived.act(points) == policy.act(points)).all()


@named
def test_three_axes_are_as_good_as_two(learner):
    grid = {"x": range(6), "y": range(5), "z": range(4)}
    identity = np.eye(120)[None].repeat(2, axis=0)
    points = ts.StateGrid(grid).points
    reward = np.column_stack([points @ [1.0, 1.0, 1.0] - 5.6, np.zeros(120)])
    solution = ts.solve(ts.MDP.from_arrays(identity, reward, 0.5, grid=grid))
    policy = fit(clone(learner), draw(solution, 2_000, noise=0, rng=0))
    assert (policy.table != solution.policy.table).mean() < 0.1


def test_any_scikit_learn_classifier_can_be_fitted(stock, whole):
    tree = fit(DecisionTreeClassifier(random_state=0), whole(stock))
    assert (tree.table == stock.policy.table).all()
    assert tree.name == "DecisionTreeClassifier"
    lines = fit(LinearSVC(C=10.0, max_iter=10_000), whole(stock))
    assert (lines.table != stock.policy.table).mean() < 0.2


FOREIGN = {
    "alone": (ExtraTreeClassifier(), ExtraTreeClassifier),
    "step of a pipeline": (
        make_pipeline(StandardScaler(), ExtraTreeClassifier()),
        lambda random_state: make_pipeline(
            StandardScaler(), ExtraTreeClassifier(random_state=random_state)
        ),
    ),
    "inside a step": (
        make_pipeline(BaggingClassifier(ExtraTreeClassifier(), n_estimators=2)),
        lambda random_state: make_pipeline(
            BaggingClassifier(
                ExtraTreeClassifier(random_state=random_state), 2, random_state=random_state
            )
        ),
    ),
    "our own in a pipeline": (
        make_pipeline(StandardScaler(), NeuralBoundary(**QUICK)),
        lambda random_state: make_pipeline(
            StandardScaler(), NeuralBoundary(**QUICK, random_state=random_state)
        ),
    ),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_seeds_reach_every_step_of_a_scikit_learn_classifier(stock, case):
    learner, seeded = FOREIGN[case]
    sample = draw(stock, 100, rng=0)
    one, two, again = fit_batch(learner, [sample] * 3, seeds=[1, 2, 1])
    assert (one.table == again.table).all()
    assert (one.table != two.table).any()
    assert (one.table == fit(seeded(random_state=1), sample).table).all()


def test_without_seeds_the_steps_of_a_pipeline_keep_their_own(stock):
    sample = draw(stock, 100, rng=0)
    learner = make_pipeline(StandardScaler(), ExtraTreeClassifier(random_state=5))
    first, second = fit_batch(learner, [sample, sample])
    (told,) = fit_batch(learner, [sample], seeds=[5])
    assert (first.table == second.table).all()
    assert (first.table == told.table).all()


@pytest.mark.parametrize("seed", [2**63 - 1, np.random.SeedSequence(3), [1, 2]])
def test_seeds_too_long_for_scikit_learn_decide_all_the_same(stock, seed):
    sample = draw(stock, 100, rng=0)
    one, again, other = fit_batch(ExtraTreeClassifier(), [sample] * 3, seeds=[seed, seed, 0])
    assert (one.table == again.table).all()
    assert (one.table != other.table).any()


@pytest.mark.parametrize(
    ("learner", "got"),
    [
        (SVR(), "got SVR"),
        (make_pipeline(StandardScaler(), SVR()), "got Pipeline"),
        (KMeans(2), "got KMeans"),
        (StandardScaler(), "got StandardScaler"),
        (DecisionTreeClassifier, "got the class DecisionTreeClassifier, not one of its objects"),
        (LinearBoundary, "got the class LinearBoundary, not one of its objects"),
        ("linear", "got str"),
        (None, "got NoneType"),
    ],
    ids=repr,
)
def test_what_is_no_classifier_is_refused(stock, learner, got):
    with pytest.raises(ts.ArgumentError, match=f"or a scikit-learn classifier; {got}"):
        fit(learner, draw(stock, 20))


def test_what_is_no_seed_is_refused(stock):
    with pytest.raises(ts.ArgumentError, match=r"a seed must be what np.random takes; got 'a'"):
        fit_batch(ExtraTreeClassifier(), [draw(stock, 20)], seeds=["a"])


def test_every_sample_needs_its_seed(stock):
    with pytest.raises(ts.ArgumentError, match="2 samples need as many seeds; got 3"):
        fit_batch(NeuralBoundary(), [draw(stock, 5)] * 2, seeds=[1, 2, 3])


def test_nothing_to_fit_is_no_work():
    assert fit_batch(NeuralBoundary(), []) == []
