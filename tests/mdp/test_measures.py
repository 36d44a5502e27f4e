"""Measures: counts in every kind of model, formulas, and their values under a policy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import poisson

import tessella as ts
from tessella.mdp.measures import read_measure

DEMAND = ts.Noise("demand", range(4), [0.1, 0.3, 0.4, 0.2])
LEVELS = range(9)


def lost(stock, demand):
    return np.maximum(demand - stock, 0)


def staged(criterion) -> ts.MDP:
    stages = [
        ts.Decide(
            "stock",
            lambda stock, order: np.minimum(stock + order, 8),
            costs=lambda order: 1.0 * order,
            counts={"orders": lambda order: order > 0},
        ),
        ts.Shift(
            "stock",
            DEMAND,
            by=lambda demand: -demand,
            costs=lambda stock, demand: 0.1 * np.maximum(stock - demand, 0),
            counts={"lost": lost, "demand": lambda demand: demand},
        ),
    ]
    mdp = ts.MDP.staged({"stock": LEVELS}, range(4), criterion, stages, action_name="order")
    return mdp.with_measures(fill_rate="1 - lost / demand", orders_per_unit="orders / (2 * demand)")


def by_steps(criterion) -> ts.MDP:
    def step(stock, order, demand):
        after = np.minimum(stock + order, 8)
        left = np.maximum(after - demand, 0)
        cost = 1.0 * order + 0.1 * left
        counts = {"lost": lost(after, demand), "demand": demand, "orders": order > 0}
        return {"stock": left}, cost, counts

    mdp = ts.MDP.from_step(
        step, {"stock": LEVELS}, range(4), criterion, DEMAND, minimise=True, action_name="order"
    )
    return mdp.with_measures(fill_rate="1 - lost / demand", orders_per_unit="orders / (2 * demand)")


def by_arrays(criterion) -> ts.MDP:
    model = by_steps(0.9)
    arrays = model.to_arrays()
    counts = {name: model.with_objective({name: 1.0}).reward for name in model.dynamics.counts}
    mdp = ts.MDP.from_arrays(arrays.transition, arrays.reward, 0.5).with_measures(**counts)
    formulas = {"fill_rate": "1 - lost / demand", "orders_per_unit": "orders / (2 * demand)"}
    return mdp.with_measures(**formulas).with_criterion(criterion)


ROUTES = (staged, by_steps, by_arrays)
POLICY = [3, 3, 2, 1, 1, 0, 0, 0, 0]
CRITERIA = (0.9, ts.Average(), ts.FiniteHorizon(5))


def expected_sums(criterion) -> dict[str, float]:
    """Expected sums of the counts under the policy, by dense linear algebra."""
    p = np.array([0.1, 0.3, 0.4, 0.2])
    after = np.minimum(np.arange(9) + POLICY, 8)
    chain = np.zeros((9, 9))
    amounts = {
        "lost": np.zeros(9),
        "demand": np.full(9, 1.7),
        "orders": 1.0 * (np.array(POLICY) > 0),
    }
    for s in range(9):
        for d in range(4):
            chain[s, max(after[s] - d, 0)] += p[d]
            amounts["lost"][s] += p[d] * max(d - after[s], 0)
    if isinstance(criterion, float):
        weights = np.linalg.solve(np.eye(9) - criterion * chain.T, np.full(9, 1 / 9))
    elif isinstance(criterion, ts.Average):
        weights = np.linalg.matrix_power(chain, 4000)[0]
    else:
        weights = sum(np.full(9, 1 / 9) @ np.linalg.matrix_power(chain, t) for t in range(5))
    return {name: float(weights @ amount) for name, amount in amounts.items()}


@pytest.mark.parametrize("criterion", CRITERIA, ids=str)
@pytest.mark.parametrize("build", ROUTES)
def test_measures_are_the_expected_sums_and_their_ratios(build, criterion):
    mdp = build(criterion)
    policy = POLICY if mdp.dynamics.n_periods is None else np.tile(POLICY, (5, 1))
    measures = ts.evaluate(mdp, policy).measures
    sums = expected_sums(criterion)
    expected = sums | {
        "fill_rate": 1 - sums["lost"] / sums["demand"],
        "orders_per_unit": sums["orders"] / (2 * sums["demand"]),
    }
    assert measures.keys() == expected.keys()
    for name, measure in measures.items():
        assert measure.value == pytest.approx(expected[name], rel=1e-11, abs=1e-12)
        assert measure.low <= measure.value <= measure.high
        assert measure.error_bound <= 1e-9


@pytest.mark.parametrize("build", ROUTES)
def test_paths_of_a_count_agree_with_its_expected_sum(build):
    mdp = build(0.9).with_objective({"lost": 1.0})
    paths = ts.simulate(mdp, POLICY, 150, 11, paths=4000)
    spread = paths.returns.std() / np.sqrt(4000)
    # What is left after 150 periods is below 0.9^150 * 30 < 1e-5.
    assert abs(paths.returns.mean() - expected_sums(0.9)["lost"]) < 4 * spread + 1e-5


def test_an_objective_is_a_weighted_sum_of_reward_and_counts():
    mdp = staged(0.9)
    reward = mdp.with_objective({"reward": 1.0, "lost": -2.0}).reward
    parts = mdp.reward, mdp.with_objective({"lost": 1.0}).reward
    np.testing.assert_allclose(reward, parts[0] - 2 * parts[1], atol=1e-14)
    assert np.array_equal(mdp.with_objective({"reward": 1.0}).reward, mdp.reward)


def test_counts_are_no_part_of_the_fingerprint():
    plain = ts.MDP.from_arrays(np.full((2, 3, 3), 1 / 3), np.zeros((3, 2)), 0.9)
    assert plain.with_measures(c=np.ones(3)).fingerprint == plain.fingerprint


def test_scratch_axes_may_be_counted():
    drawn = ts.Noise("draw", (0, 1, 2), [0.5, 0.25, 0.25])
    stages = [
        ts.Jump(drawn, lambda draw: {"extra": draw}),
        ts.Pay(pays=lambda order: order, counts={"extra": lambda extra: extra}),
    ]
    mdp = ts.MDP.staged(
        {"stock": range(3)}, (0, 1), 0.5, stages, scratch={"extra": range(3)}, action_name="order"
    )
    assert ts.evaluate(mdp, [0, 0, 0]).measures["extra"].value == pytest.approx(1.5)


def test_the_fill_rate_of_a_base_stock_policy_has_a_closed_form():
    """With immediate delivery, base stock S serves E min(D, S) of E D."""
    mean, base = 6.0, 7
    mdp = ts.MDP.from_step(
        lambda stock, order, demand: (
            {"stock": np.maximum(np.minimum(stock + order, 30) - demand, 0)},
            0.0 * order,
            {"lost": lost(np.minimum(stock + order, 30), demand), "demand": demand},
        ),
        {"stock": range(31)},
        range(31),
        ts.Average(),
        ts.Noise("demand", range(41), ts.truncated_poisson(mean, 40)),
        action_name="order",
    ).with_measures(fill_rate="1 - lost / demand")
    measures = ts.evaluate(mdp, lambda stock: np.maximum(base - stock, 0)).measures
    d = np.arange(200)
    served = (np.minimum(d, base) * poisson.pmf(d, mean)).sum()
    assert measures["fill_rate"].value == pytest.approx(served / mean, abs=1e-9)


def queue(capacity: int = 6) -> ts.MDP:
    events = [
        ts.Event(
            "arrival",
            0.9,
            to=lambda queue, admit: {"queue": np.minimum(queue + admit, capacity)},
            counts={
                "arrivals": 1.0,
                "rejected": lambda queue, admit: (queue == capacity) | (admit == 0),
            },
        ),
        ts.Event("service", lambda queue: 1.0 * (queue > 0), to=lambda queue: {"queue": queue - 1}),
    ]
    return ts.MDP.from_rates(
        {"queue": range(capacity + 1)},
        (0, 1),
        events,
        ts.Average(),
        costs_rate=lambda queue: queue,
        counts_rate={"waiting": lambda queue: queue},
        action_name="admit",
    ).with_measures(rejection="rejected / arrivals", wait="waiting / (arrivals - rejected)")


def test_a_finite_queue_rejects_and_waits_as_its_formulas_say():
    measures = ts.evaluate(queue(), [1] * 7).measures
    law = 0.9 ** np.arange(7)
    law /= law.sum()
    assert measures["rejection"].value == pytest.approx(law[-1], rel=1e-10)
    assert measures["arrivals"].value == pytest.approx(0.9, rel=1e-10)  # per unit of time
    assert measures["waiting"].value == pytest.approx(law @ np.arange(7), rel=1e-10)
    little = law @ np.arange(7) / (0.9 * (1 - law[-1]))
    assert measures["wait"].value == pytest.approx(little, rel=1e-10)


@pytest.mark.parametrize("build", [staged, by_steps])
@pytest.mark.parametrize("criterion", [ts.Discounted(0.9), ts.Average(), ts.FiniteHorizon(3)])
def test_a_share_is_a_ratio_between_0_and_1_in_every_state(build, criterion):
    mdp = build(criterion).with_measures(
        served="(demand - lost) / demand",
        lost_share="lost / demand",
        more="(demand + lost) / demand",  # above 1 where something is lost
        gap="(lost - 0.1 * demand) / demand",  # below 0 where nothing is
        constant="(lost + 1) / (demand + 1)",
    )
    shares = {name for name in mdp.measures if mdp.is_share(name)}
    assert shares == {"fill_rate", "served", "lost_share", "orders_per_unit"}


def test_a_ratio_whose_denominator_is_zero_has_no_value():
    assert ts.evaluate(queue(), [0] * 7).measures["wait"] is None


@pytest.mark.parametrize(
    ("text", "numerator", "denominator"),
    [
        ("lost", {"lost": 1.0}, {"": 1.0}),
        ("1 - lost / demand", {"demand": 1.0, "lost": -1.0}, {"demand": 1.0}),
        ("(demand - lost) / demand", {"demand": 1.0, "lost": -1.0}, {"demand": 1.0}),
        ("2 * lost + cost / 4", {"lost": 2.0, "reward": -0.25}, {"": 1.0}),
        (
            "-lost / (demand + 1) + 0.5",
            {"demand": 0.5, "": 0.5, "lost": -1.0},
            {"demand": 1.0, "": 1.0},
        ),
        ("lost * 2 - reward", {"lost": 2.0, "reward": -1.0}, {"": 1.0}),
        ("lost / demand / 2", {"lost": 1.0}, {"demand": 2.0}),
    ],
)
def test_formulas_are_weighted_sums_or_ratios_of_them(text, numerator, denominator):
    formula = read_measure("ratio", text, {"lost", "demand"})
    assert (dict(formula.numerator), dict(formula.denominator)) == (numerator, denominator)


COUNTS = (
    "a measure is written with counts (demand, lost), reward, cost, numbers, + - * / and brackets"
)
FINITE = "the weights of a measure must be finite numbers"
NEITHER = "a measure is a weighted sum of counts or a ratio of two such sums"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 - los / demand", f"{COUNTS}; 1 - los / demand got 'los'"),
        ("lost ** 2", f"{COUNTS}; lost ** 2 got 'lost ** 2'"),
        ("lost * demand", f"{NEITHER}; lost * demand is neither"),
        ("lost / demand / demand", f"{NEITHER}; lost / demand / demand is neither"),
        ("lost / 0", f"{NEITHER}; lost / 0 is neither"),
        ("lost +", "a measure is an expression such as 1 - lost / demand; got 'lost +'"),
        ("3", "a measure needs a count; got '3'"),
        ("lost / 1e-320", f"{FINITE}; 'lost / 1e-320' has one of inf"),
        (
            "demand / (1e200 * 1e200 * lost)",
            f"{FINITE}; 'demand / (1e200 * 1e200 * lost)' has one of inf",
        ),
    ],
)
def test_what_is_no_measure_is_explained(text, message):
    with pytest.raises(ts.ModelError) as caught:
        read_measure("ratio", text, {"lost", "demand"})
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda mdp: mdp.with_measures(lost="demand"),
            "a measure needs a name of its own; 'lost' is a count",
        ),
        (
            lambda mdp: mdp.with_measures(cost="lost"),
            "a measure needs a name like 'lost', other than 'reward' and 'cost'; got 'cost'",
        ),
        (
            lambda mdp: mdp.with_measures(more=np.ones(9)),
            "with_measures takes new counts for a table without a horizon; "
            "'more': the model is made of stages, which count with counts={...}",
        ),
        (
            lambda mdp: by_steps(ts.FiniteHorizon(3)).with_measures(more=np.ones(9)),
            "with_measures takes new counts for a table without a horizon; "
            "'more': the model has a horizon; count before with_criterion",
        ),
        (
            lambda mdp: by_steps(0.9).with_measures(more=np.ones(4)),
            "the count 'more' must have shape (9, 4); has (4, 1)",
        ),
        (
            lambda mdp: by_steps(0.9).with_measures(more=np.full(9, np.nan)),
            "the count 'more' must be finite; stock=0, order=0 is nan (36 of 36 pairs)",
        ),
        (
            lambda mdp: ts.Pay(counts=3).build(mdp.dynamics.space),
            "the counts of a Pay stage must have names, as in counts={'lost': ...}; got 3",
        ),
    ],
)
def test_counts_and_measures_are_checked(build, message):
    with pytest.raises(ts.ModelError) as caught:
        build(staged(0.9))
    assert str(caught.value) == message
