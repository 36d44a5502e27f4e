"""Tuning finds the best of all candidates; a difference adds up over the states that change."""

from __future__ import annotations

import numpy as np
import pytest

import tessella as ts
from tessella import plot


def shop() -> ts.MDP:
    def step(stock, order, demand):
        left = np.clip(stock + order - demand, 0, 5)
        return {"stock": left}, 3.0 * np.minimum(stock + order, demand) - 0.3 * left - 1.0 * order

    noise = ts.Noise("demand", [0, 1, 2, 3], [0.2, 0.3, 0.3, 0.2])
    return ts.MDP.from_step(
        step, {"stock": range(6)}, (0, 1, 2, 3, 4), 0.9, noise, action_name="order"
    )


@pytest.fixture(scope="module")
def solution():
    return ts.solve(shop())


def reorder(stock, s, S):
    return np.where(stock <= s, np.clip(S - stock, 0, 4), 0)


def test_tuning_finds_the_best_of_all_candidates(solution):
    found = ts.tune(solution, reorder, s=range(-1, 6), S=range(7))
    stock = np.arange(6)
    losses = {
        (s, S): ts.loss(solution, reorder(stock, s, S).astype(int)).mean
        for s in range(-1, 6)
        for S in range(7)
    }
    assert float(found.certificate.mean_loss) == pytest.approx(min(losses.values()), abs=1e-9)
    assert losses[tuple(found.parameters.values())] == pytest.approx(min(losses.values()), abs=1e-9)
    assert found.candidates == 49
    assert found.evaluated < 49
    assert "best of 49" in str(found)


def test_a_form_that_names_something_unknown_is_refused(solution):
    with pytest.raises(ts.ArgumentError, match="the form takes no 'limit'; it takes stock"):
        ts.tune(solution, lambda stock: 0 * stock, limit=[1, 2])
    with pytest.raises(ts.ArgumentError, match="'price' is neither"):
        ts.tune(solution, lambda stock, price, s: 0 * stock, s=range(3))
    with pytest.raises(
        ts.ArgumentError, match="order must be one of 0, 1, 2, 3, 4; s=0, stock=0 gets 9"
    ):
        ts.tune(solution, lambda stock, s: 0 * stock + 9, s=range(3))
    with pytest.raises(ts.ArgumentError, match="at least one parameter"):
        ts.tune(solution, lambda stock: 0 * stock)


def failing(stock, s):
    raise RuntimeError("out of paper")


@pytest.mark.parametrize(
    ("form", "ranges", "said"),
    [
        (reorder, {"s": range(3), "S": 3}, "a range of values to try.*got S=3"),
        (failing, {"s": [7]}, "failed: RuntimeError: out of paper.*s=7"),
        (
            lambda stock, s: np.zeros(4),
            {"s": [7]},
            r"a form must .* each of 6 points.*s=7.*gives shape \(4,\)",
        ),
        (lambda stock, s: np.zeros((6, 2)), {"s": [7]}, r"each of 6 points.*gives shape \(6, 2\)"),
        (lambda stock, s: None, {"s": [7]}, "must answer with numbers or text.*s=7"),
        (3, {"s": [7]}, "tune needs a function.*got 3"),
        (reorder, {"s": [1], "S": [2], "worst": "yes"}, "worst is True or False; got 'yes'"),
    ],
)
def test_what_cannot_be_tuned_is_refused_by_rule_and_value(solution, form, ranges, said):
    with pytest.raises(ts.ArgumentError, match=f"(?s){said}"):
        ts.tune(solution, form, **ranges)


@pytest.fixture(scope="module")
def two_ways():
    """Actions of two components, some of which are infeasible."""
    rng = np.random.default_rng(2)
    rows = rng.dirichlet(np.ones(4), size=(4, 4))
    feasible = np.array([[True] * 4] * 3 + [[True, True, True, False]])
    actions = {"fast": [0, 1], "slow": ["no", "yes"]}
    reward = rng.random((4, 4))
    axes = {"stock": range(4)}
    return ts.solve(
        ts.MDP.from_arrays(rows, reward, 0.9, grid=axes, actions=actions, feasible=feasible)
    )


def test_actions_of_several_components_are_tuned_and_infeasible_candidates_skipped(two_ways):
    def form(stock, s):
        return {"slow": np.where(stock <= s, "no", "yes"), "fast": 1}

    found = ts.tune(two_ways, form, s=range(4))
    assert (found.candidates, found.skipped) == (4, 3)
    assert np.array_equal(found.policy.table, np.full(4, 2))
    with pytest.raises(ts.ArgumentError, match=r"one of \(fast=0, slow=no\)"):
        ts.tune(two_ways, lambda stock, s: stock, s=range(2))
    with pytest.raises(ts.ArgumentError, match="must give each of fast, slow; s=0 got fast"):
        ts.tune(two_ways, lambda stock, s: {"fast": 1}, s=range(2))


def test_the_parts_of_a_difference_add_up_to_what_it_is_worth(solution):
    mdp = solution.mdp
    lazy = np.where(np.arange(6) == 0, 2, 0)
    found = ts.diff(mdp, lazy, solution.policy)
    assert found.gain == pytest.approx(ts.loss(solution, lazy).mean, abs=1e-9)
    assert found.by_state.sum() == pytest.approx(found.gain, abs=1e-9)
    assert sum(part for *_, part in found.pairs) == pytest.approx(found.gain, abs=1e-9)
    assert (found.by_state[~found.where] == 0).all()
    assert f"{int(found.where.sum())} of 6 states change" in str(found)
    same = ts.diff(mdp, lazy, lazy)
    assert (same.gain, same.time_a, same.time_b) == (0.0, 0.0, 0.0)
    assert str(same) == "the same in all 6 states"


@pytest.mark.parametrize("minimise", [False, True])
def test_a_difference_is_drawn_as_a_map_of_the_money_at_stake(minimise):
    rng = np.random.default_rng(4)
    rows, money = rng.dirichlet(np.ones(6), size=(2, 6)), rng.random((6, 2))
    axes = {"stock": range(3), "mode": ["dry", "wet"]}
    mdp = ts.MDP.from_arrays(rows, money, 0.9, grid=axes, minimise=minimise)
    found = ts.diff(mdp, np.zeros(6, dtype=int), np.array([0, 1, 0, 1, 1, 0]))
    plt = pytest.importorskip("matplotlib.pyplot")
    figure, left = plt.subplots()
    plot.difference_map(left, found)
    drawn = left.images[0].get_array()
    assert np.ma.count(drawn) == 3
    assert float(drawn.sum()) == pytest.approx(found.gain)
    assert left.get_title().startswith("3 of 6 states change")
    bar = figure.axes[1]
    assert bar.get_ylabel().startswith("saved" if minimise else "gained")
    plt.close(figure)


def test_a_rule_reads_as_sentences_and_is_drawn(solution):
    rule = ts.compress(solution, 0.0)
    text = rule.explain()
    assert "stock" in text
    assert f", {rule.size} parameter" in text
    assert "Requested limit" in text
    plt = pytest.importorskip("matplotlib.pyplot")
    figure, (left, right) = plt.subplots(1, 2)
    plot.rule_plot((left, right), ts.tessellate(solution), ts.tessellate(solution, rule), rule)
    assert "dashed" in left.get_title()
    assert right.get_xlabel() == "parameters"
    (ring,) = (line for line in right.lines if line.get_label() == "this rule")
    assert ring.get_xdata().tolist() == [rule.size]
    plt.close(figure)
