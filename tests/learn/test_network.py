"""Neural and margin boundaries, and the training of their networks."""

from itertools import pairwise

import numpy as np
import pytest

import tessella as ts
from tessella.learn import Features, MarginBoundary, NeuralBoundary, draw, fit, fit_batch

QUICK = {"hidden": (8, 8), "min_steps": 40, "epochs": 1}


def layers_of(policy):
    return [array for layer in policy.rule.classifier.layers for array in layer]


def same(one, other):
    return all((a == b).all() for a, b in zip(layers_of(one), layers_of(other), strict=True))


@pytest.mark.parametrize("learner", [NeuralBoundary, MarginBoundary])
def test_every_state_without_noise_gives_the_exact_tessellation(stock, queue, whole, learner):
    for solution in (stock, queue):
        policy = fit(learner(min_steps=4_000), whole(solution))
        assert (policy.table == solution.policy.table).all()


def test_sizes_are_counted_as_in_the_paper(stock, queue):
    for learner in (NeuralBoundary(min_steps=1, epochs=1), MarginBoundary(min_steps=1, epochs=1)):
        assert fit(learner, draw(stock, 200)).size == 4_677
        assert fit(learner, draw(queue, 200)).size == 4_417


def slow_training(learner, X, y, w, n_outputs):
    """The same steps in NumPy, float64, with derivatives by hand."""
    rng = np.random.default_rng(learner.random_state)
    sizes = (X.shape[1], *learner.hidden, n_outputs)
    net = []
    for a, b in pairwise(sizes):
        net += [rng.uniform(-1, 1, (a, b)) * np.sqrt(6 / a), np.zeros(b)]
    n = len(X)
    steps, batch = learner._steps_for(n), learner._batch_size_for(n)
    epochs = -(-steps * batch // n)
    stream = np.concatenate([rng.permutation(n) for _ in range(epochs)])
    first, second = [np.zeros_like(p) for p in net], [np.zeros_like(p) for p in net]
    for t in range(steps):
        rows = stream[t * batch : (t + 1) * batch]
        slopes = by_hand(net, X[rows], y[rows], w[rows])
        rate = learner.learning_rate * (1 + np.cos(np.pi * t / steps)) / 2
        for i, g in enumerate(slopes):
            first[i] = 0.9 * first[i] + 0.1 * g
            second[i] = 0.999 * second[i] + 0.001 * g * g
            m, v = first[i] / (1 - 0.9 ** (t + 1)), second[i] / (1 - 0.999 ** (t + 1))
            net[i] = net[i] - rate * m / (np.sqrt(v) + 1e-8)
    return net


def by_hand(net, X, y, w):
    values = [X]
    for i in range(0, len(net) - 2, 2):
        values.append(np.maximum(values[-1] @ net[i] + net[i + 1], 0))
    scores = values[-1] @ net[-2] + net[-1]
    if scores.shape[1] == 1:
        back = 1 / (1 + np.exp(-scores)) - y[:, None]
    else:
        e = np.exp(scores - scores.max(axis=1, keepdims=True))
        back = e / e.sum(axis=1, keepdims=True) - np.eye(scores.shape[1])[y]
    back = back * (w / w.sum())[:, None]
    slopes = []
    for i in range(len(net) - 2, -1, -2):
        slopes = [values[i // 2].T @ back, back.sum(axis=0), *slopes]
        if i:
            back = (back @ net[i].T) * (values[i // 2] > 0)
    return slopes


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("n", [37, 130])
def test_training_takes_the_steps_of_the_definition(n_outputs, n):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, 3))
    labels = rng.integers(0, max(n_outputs, 2), n)
    margins = rng.uniform(0.2, 2.0, n)
    plan = {"learning_rate": 0.01, "epochs": 2, "min_steps": 12, "batch_size": 20}
    learner = MarginBoundary(
        hidden=(6, 5), eta=0.5, features=Features("none"), random_state=7, **plan
    )
    learner.fit(X, labels, margins)
    ours = [array for layer in learner.classifier_.layers for array in layer]
    expected = slow_training(learner, X, labels, 1 / (margins + 0.5), n_outputs)
    for mine, slow in zip(ours, expected, strict=True):
        assert np.allclose(mine, slow, atol=2e-4)


def test_what_a_network_becomes_does_not_depend_on_its_company(stock, queue):
    learner = NeuralBoundary(**QUICK)
    samples = [draw(stock, 150, rng=i) for i in range(18)]
    strangers = [draw(queue, 150, rng=0), draw(stock, 90, rng=0)]
    together = fit_batch(learner, [*samples, *strangers], seeds=range(20))
    for i in (0, 5, 17):
        learner.set_params(random_state=i)
        assert same(together[i], fit(learner, samples[i]))
    other_order = fit_batch(learner, samples[::-1], seeds=range(17, -1, -1))
    assert all(same(a, b) for a, b in zip(together[:18], other_order[::-1], strict=True))


def test_seeds_decide_the_start(stock):
    sample = draw(stock, 100, rng=0)
    one, again, other = fit_batch(NeuralBoundary(**QUICK), [sample] * 3, seeds=[4, 4, 5])
    assert same(one, again)
    assert not same(one, other)


def test_the_callers_precision_makes_no_difference(stock):
    import jax

    sample = draw(stock, 100, rng=0)
    plain = fit(NeuralBoundary(**QUICK), sample)
    with jax.enable_x64(True):
        assert same(plain, fit(NeuralBoundary(**QUICK), sample))


def test_margin_weights_are_one_over_margin_plus_eta(queue):
    sample = draw(queue, 60, rng=0)
    seen = {}

    class Spy(MarginBoundary):
        def _compute_weights(self, task):
            seen["weights"] = super()._compute_weights(task)
            return seen["weights"]

    fit(Spy(eta=0.25, **QUICK), sample)
    assert np.allclose(seen["weights"] * (sample.margins + 0.25), 1.0)


def test_equal_margins_give_the_neural_learner_back(stock):
    sample = draw(stock, 120, rng=0)
    flat = type(sample)(
        sample.points,
        sample.labels,
        np.full(120, 0.5),
        sample.states,
        sample.grid,
        sample.actions,
    )
    margin, neural = fit(MarginBoundary(eta=0.5, **QUICK), flat), fit(NeuralBoundary(**QUICK), flat)
    assert same(margin, neural)


def test_states_without_a_choice_weigh_nothing(gated):
    alone = np.isinf(gated.margin).ravel()
    assert alone.any()
    assert np.isfinite(
        fit(MarginBoundary(**QUICK), draw(gated, 80)).rule.classifier.layers[0][0]
    ).all()
    sample = draw(gated, 80)
    only = type(sample)(
        sample.points,
        sample.labels,
        np.full(80, np.inf),
        sample.states,
        sample.grid,
        sample.actions,
        feasible=sample.feasible,
    )
    assert same(fit(MarginBoundary(**QUICK), only), fit(NeuralBoundary(**QUICK), only))


def test_heavier_observations_win_a_contradiction():
    X = np.repeat([[0.0], [1.0]], 50, axis=0)
    X = np.concatenate([X, X])
    y = np.repeat([0, 1], 100)
    margins = np.where(y == 0, 0.0, 9.0)
    learner = MarginBoundary(eta=1.0, min_steps=200, features=Features("none"))
    assert learner.fit(X, y, margins).predict([[0.0], [1.0]]).tolist() == [0, 0]
    assert learner.fit(X, y, 9 - margins).predict([[0.0], [1.0]]).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("n", "batch", "steps"),
    [(10, 50, 960), (1_600, 100, 960), (3_200, 200, 960), (12_800, 200, 1920)],
)
def test_small_samples_get_smaller_batches_and_enough_steps(n, batch, steps):
    learner = NeuralBoundary()
    assert (learner._batch_size_for(n), learner._steps_for(n)) == (batch, steps)


@pytest.mark.parametrize(
    "wrong", [{"epochs": 0}, {"hidden": (64, 0)}, {"learning_rate": -1.0}, {"batch_size": 0}]
)
def test_a_plan_has_positive_numbers(stock, wrong):
    with pytest.raises(ts.ArgumentError, match="must be positive"):
        fit(NeuralBoundary(**wrong), draw(stock, 10))


def test_eta_must_be_positive(stock):
    with pytest.raises(ts.ArgumentError, match="eta must be positive; got 0"):
        fit(MarginBoundary(eta=0), draw(stock, 10))
