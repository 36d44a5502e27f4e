"""What a rule says in words is what it does: sentences are read back, state by state."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.sentences import decide

import tessella as ts
from tessella.mdp.actions import format_action
from tessella.rules.rule import describe_tree
from tessella.rules.rule_class import Costs

CLASSES = (
    ts.OrderUpTo(),
    ts.OneAction(),
    ts.RunLength(),
    ts.AxisTree(),
    ts.LinearCuts(),
    ts.MonotoneSurface(),
    ts.WithExceptions((ts.OrderUpTo(), ts.OneAction(), ts.LinearCuts())),
)
ACTIONS = ([0, 1], [0, 3], [0, 1, 2, 3, 4], [-2, -1, 0, 1, 2], [1, 2, 4, 6], [0.5, 1.0, 2.5])
STEP = st.sampled_from([0.1, 0.5, 1.0, 3.0])


@st.composite
def costs(draw) -> Costs:
    """Costs near those of a rule that orders up to a level, on a grid of one or two axes."""
    lengths = draw(st.sampled_from([(7,), (5, 3), (4, 2), (4, 1)]))
    starts = draw(st.lists(st.integers(-3, 3), min_size=2, max_size=2))
    axes = {
        name: np.round(start + draw(STEP) * np.arange(n), 9)
        for name, start, n in zip(("stock", "due"), starts, lengths, strict=False)
    }
    grid, actions = ts.StateGrid(axes), tuple(draw(st.sampled_from(ACTIONS)))
    level = grid.points @ np.array([1.0, draw(st.sampled_from([1.0, 0.5, -0.7]))])[: grid.ndim]
    wanted = draw(st.floats(-5, 10)) - level
    by_state = np.abs(wanted[:, None] - np.array(actions, dtype=float))
    name = draw(st.sampled_from(["order", "release", "action"]))
    return Costs(grid, actions, by_state, action_name=name)


@given(costs(), st.sampled_from(CLASSES))
def test_the_sentences_of_a_rule_say_what_it_does_in_every_state(costs, rule_class):
    read_back(costs, rule_class)


@pytest.mark.parametrize("actions", ACTIONS)
def test_an_order_up_to_sentence_says_what_to_do_where_no_order_fits(actions):
    grid, orders = ts.StateGrid(stock=range(5)), np.array(actions, dtype=float)
    for level in np.arange(-4, 9, 0.5):
        reached = grid.points + orders
        least = np.where(reached >= level, orders, orders[-1]).min(axis=1)
        most = np.where(reached <= level, orders, orders[0]).max(axis=1)
        for wanted in (least, most):
            by_state = (orders != wanted[:, None]).astype(float)
            read_back(Costs(grid, tuple(actions), by_state, action_name="order"), ts.OrderUpTo())


def read_back(costs: Costs, rule_class: ts.RuleClass) -> None:
    """Compare each rule's sentence with its actions, in every state."""
    for fitted in [] if rule_class.why_not_applicable(costs) else rule_class.fit(costs, 8, 0.0):
        tree = fitted.build_tree(costs.grid)
        text = fitted.sentence or describe_tree(tree, costs.actions, costs.action_name)
        for point, action in zip(costs.grid.points, tree(costs.grid.points), strict=True):
            state = dict(zip(costs.grid.axes, point.tolist(), strict=True))
            said = decide(text, state, sorted(map(float, costs.actions)))
            assert said == format_action(costs.action_name, costs.actions[action]), (text, state)


def test_where_there_are_two_actions_to_order_up_to_is_a_threshold():
    grid = ts.StateGrid(queue=range(30))
    by_state = np.abs((grid.points <= 25) - np.array([[0, 1]])).astype(float)
    for actions, name, sentence in (
        ((0, 1), "admit", "Admit while queue is at most 25; otherwise do not."),
        ((0, 7), "order", "Order 7 while queue is at most 25; otherwise order 0."),
    ):
        (fitted,) = ts.OrderUpTo().fit(Costs(grid, actions, by_state, action_name=name), 1, 0.0)
        assert fitted.sentence == sentence


@pytest.mark.parametrize(
    ("actions", "name", "sentence"),
    [((0, 3), "order", "Always order 3."), (("left", "up"), "move", "Always move up.")],
)
def test_one_action_everywhere_is_said_in_three_words(actions, name, sentence):
    grid = ts.StateGrid(stock=range(3))
    costs = Costs(grid, actions, np.array([[1.0, 0.0]] * 3), action_name=name)
    (fitted,) = ts.OneAction().fit(costs, 1, 0.0)
    assert describe_tree(fitted.build_tree(grid), actions, name) == sentence


def test_every_exception_to_a_rule_is_listed():
    grid = ts.StateGrid(stock=range(9))
    best = np.maximum(6 - np.arange(9), 0)
    best[3] = 0
    by_state = 1.0 * (best[:, None] != np.arange(7))
    costs = Costs(grid, tuple(range(7)), by_state, action_name="order")
    fitted = ts.WithExceptions((ts.OrderUpTo(),)).fit(costs, 8, 0.0)[-1]
    assert fitted.sentence.splitlines()[1:] == ["Except:", "order=0 where stock is 3"]
