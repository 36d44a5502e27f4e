"""Every faulty model gives one error with the requirement, the place, the value and the count.

One model of 4 states and 2 actions is written in each way that the package reads, and broken in the
same place: stock=1, regime=low, order=5.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from tessella.errors import ArgumentError, ModelError, PolicyError
from tessella.grid import RESERVED_NAMES, StateGrid
from tessella.mdp.model import MDP
from tessella.mdp.simulate import simulate
from tessella.mdp.stages import Decide, Jump, Move, Noise, Pay, Shift

GRID = {"stock": [0, 1], "regime": ["low", "high"]}
ORDERS = (0, 5)
NAMED = {"grid": GRID, "actions": ORDERS, "action_name": "order"}
STATES, CHOICES = np.divmod(np.arange(8), 2)
PLACE = "stock=1, regime=low, order=5"


def fair() -> tuple[np.ndarray, np.ndarray]:
    """P (A, S, S) and r (S, A) without a fault."""
    P = np.tile([0.1, 0.2, 0.3, 0.4], (2, 4, 1))
    return P, np.arange(8.0).reshape(4, 2)


def index(stock, regime):
    return stock * 2 + (regime == "high")


def by_action(P, r, discount=0.9):
    return MDP.from_arrays(P, r, discount, **NAMED)


def by_state(P, r, discount=0.9):
    return MDP.from_arrays(np.moveaxis(P, 0, 1), r, discount, layout="SAS", **NAMED)


def sparse_list(P, r, discount=0.9):
    return MDP.from_arrays([sp.csr_matrix(p) for p in P], r, discount, **NAMED)


def dense_pairs(P, r, discount=0.9):
    rows, paid = P[CHOICES, STATES], np.asarray(r, dtype=object)[STATES, CHOICES]
    return MDP.from_pairs(STATES, CHOICES, rows, paid, discount, **NAMED)


def sparse_pairs(P, r, discount=0.9):
    rows, paid = sp.coo_array(P[CHOICES, STATES]), np.asarray(r, dtype=object)[STATES, CHOICES]
    return MDP.from_pairs(STATES, CHOICES, rows, paid, discount, **NAMED)


def toy_text(P, r, discount=0.9):
    table = {
        s: {a: [(P[a, s, to], to, r[s][a], False) for to in range(4)] for a in range(2)}
        for s in range(4)
    }
    return MDP.from_gymnasium(SimpleNamespace(P=table), discount)


def stepped(P, r, discount=0.9):
    def law(stock, regime, order):
        return P[(order == 5)[..., 0] * 1, index(stock, regime)[..., 0]]

    def step(stock, regime, order, lot):
        to = {"stock": lot // 2, "regime": np.where(lot % 2 == 1, "high", "low")}
        return to, np.asarray(r, dtype=object)[index(stock, regime), (order == 5) * 1]

    noise = Noise("lot", range(4), law)
    return MDP.from_step(step, GRID, ORDERS, discount, noise, action_name="order")


def staged(P, r, discount=0.9):
    def law(stock, regime, order):
        return P[(order == 5)[..., 0] * 1, index(stock, regime)[..., 0]]

    jump = Jump(
        Noise("lot", range(4), law),
        to=lambda lot: {"stock": lot // 2, "regime": np.where(lot % 2 == 1, "high", "low")},
        pays=lambda stock, regime, order: np.asarray(r, dtype=object)[
            index(stock, regime), (order == 5) * 1
        ],
    )
    return MDP.staged(GRID, ORDERS, discount, [jump], action_name="order")


TABLES = (by_action, by_state, sparse_list, dense_pairs, sparse_pairs, toy_text)
FUNCTIONS = (stepped, staged)
LAW = {stepped: "the probabilities of lot", staged: "the probabilities of the jump on lot"}
REWARD = {stepped: "the reward of the step function", staged: "the reward of the jump on lot"}


def message(build, *args, kind=ModelError, **kwargs) -> str:
    with pytest.raises(kind) as caught:
        build(*args, **kwargs)
    return str(caught.value)


def in_words(builder, text: str) -> str:
    """The expected message as the builder says it: a toy-text table has states and actions only."""
    if builder is toy_text:
        return text.replace(PLACE, "state=2, action=1").replace("stock=1, regime=high", "state=3")
    return text


@pytest.mark.parametrize("builder", TABLES + FUNCTIONS)
def test_a_fair_model_is_built_the_same_in_every_way(builder):
    P, r = fair()
    mdp = builder(P, r)
    np.testing.assert_array_equal(mdp.reward, r)
    np.testing.assert_allclose(mdp.to_arrays().transition, P, rtol=0, atol=1e-15)


@pytest.mark.parametrize("builder", TABLES)
def test_a_row_that_sums_to_less(builder):
    P, r = fair()
    P[1, 2] *= 0.9
    expected = f"transition rows must sum to 1; {PLACE} sums to 0.9 (1 of 8 rows)"
    assert message(builder, P, r) == in_words(builder, expected)
    P[:, 3] *= 0.5
    expected = f"transition rows must sum to 1; {PLACE} sums to 0.9 (3 of 8 rows)"
    assert message(builder, P, r) == in_words(builder, expected)


@pytest.mark.parametrize("builder", FUNCTIONS)
def test_a_noise_whose_probabilities_sum_to_less(builder):
    P, r = fair()
    P[1, 2:] *= 0.9
    assert message(builder, P, r) == (
        f"{LAW[builder]} must sum to 1; {PLACE} sums to 0.9 (2 of 8 rows)"
    )


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("builder", TABLES)
def test_a_probability_that_is_not_finite(builder, value):
    P, r = fair()
    P[1, 2, 3] = value
    expected = (
        f"transition rows must be finite; {PLACE} holds {value} for stock=1, regime=high "
        "(1 of 8 rows)"
    )
    assert message(builder, P, r) == in_words(builder, expected)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("builder", FUNCTIONS)
def test_a_noise_with_a_probability_that_is_not_finite(builder, value):
    P, r = fair()
    P[1, 2, 3] = value
    assert message(builder, P, r) == (
        f"{LAW[builder]} must be finite; {PLACE} holds {value} (1 of 8 rows)"
    )


@pytest.mark.parametrize("builder", TABLES)
def test_a_negative_probability(builder):
    P, r = fair()
    P[1, 2] = [0.3, 0.5, 0.7, -0.5]
    expected = (
        f"transition rows must not be negative; {PLACE} holds -0.5 for stock=1, regime=high "
        "(1 of 8 rows)"
    )
    assert message(builder, P, r) == in_words(builder, expected)


@pytest.mark.parametrize("builder", FUNCTIONS)
def test_a_noise_with_a_negative_probability(builder):
    P, r = fair()
    P[1, 2] = [0.3, 0.5, 0.7, -0.5]
    assert message(builder, P, r) == (
        f"{LAW[builder]} must not be negative; {PLACE} holds -0.5 (1 of 8 rows)"
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("builder", TABLES + FUNCTIONS)
def test_a_reward_that_is_not_finite(builder, value):
    P, r = fair()
    r[2, 1] = value
    expected = f"rewards must be finite; {PLACE} pays {value} (1 of 8 pairs)"
    if builder in FUNCTIONS:
        expected = f"{REWARD[builder]} must be finite; {PLACE} pays {value} (1 of 8 rewards)"
    elif value == -np.inf and builder is not toy_text:  # arrays say so what cannot be done
        assert builder(P, r).feasible_mask.ravel().tolist() == [True] * 5 + [False] + [True] * 2
        return
    assert message(builder, P, r) == in_words(builder, expected)


@pytest.mark.parametrize("builder", TABLES + FUNCTIONS)
def test_a_reward_that_is_not_a_number(builder):
    P, r = fair()
    r = r.tolist()
    r[2][1] = "five"
    expected = f"rewards must be numbers; {PLACE} is 'five' (1 of 8 entries)"
    if builder in FUNCTIONS:
        expected = f"{REWARD[builder]} must be numbers; {PLACE} is 'five' (1 of 8 entries)"
    elif builder is toy_text:  # each of the four outcomes pays it
        expected = f"rewards must be numbers; {PLACE} is 'five' (4 of 32 entries)"
    assert message(builder, P, r) == in_words(builder, expected)


@pytest.mark.parametrize("discount", [1.5, -0.1, np.nan, np.inf])
@pytest.mark.parametrize("builder", TABLES + FUNCTIONS)
def test_a_discount_outside_its_range(builder, discount):
    expected = f"discount must lie in [0, 1); got {discount:g}"
    assert message(builder, *fair(), discount) == expected


@pytest.mark.parametrize("builder", TABLES + FUNCTIONS)
def test_a_discount_of_1_is_rejected_with_the_criteria_that_do_without(builder):
    said = message(builder, *fair(), 1)
    assert said.startswith("discount must lie in [0, 1)")
    assert all(name in said for name in ("Total()", "Average()", "FiniteHorizon()"))
    assert said.endswith("; got 1")


def test_a_discount_that_is_no_number():
    assert message(by_action, *fair(), "high") == "discount must lie in [0, 1); got 'high'"
    needed = "a model needs a discount such as 0.95, or a criterion such as Average(); got neither"
    assert message(by_action, *fair(), None) == needed


@pytest.mark.parametrize("off", [3e-15, -3e-15, 1e-12, -1e-12])
@pytest.mark.parametrize("builder", TABLES + FUNCTIONS)
def test_rows_off_by_rounding_are_accepted(builder, off):
    P, r = fair()
    P[1, 2, 0] += off
    assert builder(P, r).n_states == 4


def test_arrays_in_the_other_layout_are_rejected_with_the_layout_that_they_have():
    P, r = fair()
    assert message(by_action, np.moveaxis(P, 0, 1), r) == (
        "with layout='ASS', transition must have shape (A, S, S); has shape (4, 2, 4), which is "
        "layout='SAS'"
    )
    assert message(by_state, np.moveaxis(P, 1, 0), r) == (
        "with layout='SAS', transition must have shape (S, A, S); has shape (2, 4, 4), which is "
        "layout='ASS'"
    )


def test_wrong_shapes():
    P, r = fair()
    assert message(by_action, P[:, :, :3], r) == (
        "with layout='ASS', transition must have shape (A, S, S); has shape (2, 4, 3)"
    )
    assert message(by_state, P[:, :, :3], r) == (
        "with layout='SAS', transition must have shape (S, A, S); has shape (4, 2, 3)"
    )
    assert message(sparse_list, P[:, :, :3], r) == (
        "transition must hold square matrices of one size; action 0 has shape (4, 3)"
    )
    assert message(by_action, P[0], r) == (
        "transition must have three axes (ASS); has shape (4, 4)"
    )
    assert message(by_action, P[:0], r) == (
        "transition must have three axes (ASS); has shape (0, 4, 4)"
    )
    assert message(by_action, P[:, :3, :3], r) == "the grid has 4 states, the arrays have 3"
    assert message(by_action, P[:1], r) == "2 actions are named, the arrays have 1"
    assert message(by_action, [P[0].tolist(), P[1, :3].tolist()], r) == (
        "transition must be a rectangular array of numbers"
    )
    assert message(by_action, sp.csr_array(P[0]), r) == (
        "transition must be a list of A sparse (S, S) matrices, not one matrix"
    )
    mixed = MDP.from_arrays
    assert message(
        mixed, [sp.csr_array(p) for p in P], r, 0.9, layout="SAS", kind=ArgumentError
    ) == ("a list of sparse matrices has layout 'ASS'; got 'SAS'")
    assert (
        message(mixed, P, r, 0.9, layout="SSA", kind=ArgumentError)
        == "layout must be 'ASS' or 'SAS'; got 'SSA'"
    )
    assert message(mixed, P.astype(complex), r, 0.9) == (
        "transition must be numbers; entry (0, 0, 0) is (0.1+0j) (32 of 32 entries)"
    )


def test_wrong_shapes_of_rewards():
    P, r = fair()
    for builder, full in ((by_action, (2, 4, 4)), (by_state, (4, 2, 4))):
        assert message(builder, P, r[:3]) == (
            f"reward must have shape (4,), (4, 2) or {full}; has shape (3, 2)"
        )
        assert message(builder, P, [[1.0], [2.0, 3.0]]) == (
            "reward must be a rectangular array of numbers"
        )
    assert message(MDP.from_arrays, P, [sp.csr_array((4, 4))], 0.9) == (
        "reward must hold 2 matrices of shape (4, 4)"
    )
    rows = P[CHOICES, STATES]
    assert message(MDP.from_pairs, STATES, CHOICES, rows, r.ravel()[:7], 0.9) == (
        "reward must have shape (8,); has shape (7,)"
    )


def test_rewards_by_transition_are_checked_where_they_can_be_paid():
    P, r = fair()
    P[0, 0] = [0, 0, 0, 1]
    paid = np.repeat(r.T[:, :, None], 4, axis=2)
    paid[0, 0, 1] = np.nan  # a transition of probability 0 is never paid
    assert np.isfinite(by_action(P, paid).reward).all()
    paid[1, 2, 3] = np.nan
    assert message(by_action, P, paid) == (
        f"rewards must be finite; {PLACE} pays nan on the way to stock=1, regime=high "
        "(1 of 8 pairs)"
    )


def test_wrong_pairs():
    P, r = fair()
    rows, paid = P[CHOICES, STATES], r[STATES, CHOICES]
    build = MDP.from_pairs
    twice = CHOICES.copy()
    twice[4] = 1
    assert message(build, STATES, twice, rows, paid, 0.9, **NAMED) == (
        f"state-action pairs must differ from one another; {PLACE} occurs 2 times (1 of 8 pairs)"
    )
    lacking = STATES != 2
    assert message(
        build, STATES[lacking], CHOICES[lacking], rows[lacking], paid[lacking], 0.9, **NAMED
    ) == ("every state needs a feasible action; stock=1, regime=low has none (1 of 4 states)")
    assert message(build, STATES, CHOICES[:7], rows, paid, 0.9) == (
        "states, choices and transition rows must be equally many; got 8, 7 and 8"
    )
    assert message(build, STATES + 1, CHOICES, rows, paid, 0.9) == (
        "state indices must lie in 0..3; pair 6 has 4 (2 of 8 pairs)"
    )
    assert message(build, STATES, CHOICES - 1, rows, paid, 0.9, actions=ORDERS) == (
        "action indices must lie in 0..1; pair 0 has -1 (4 of 8 pairs)"
    )
    assert message(build, STATES * 0.5, CHOICES, rows, paid, 0.9) == (
        "states must be a list of indices; got float64 of shape (8,)"
    )
    assert message(build, STATES, CHOICES, rows[0], paid, 0.9) == (
        "transition must be a matrix; has shape (4,)"
    )


def test_wrong_masks():
    P, r = fair()
    mask = np.ones((2, 2, 2), dtype=bool)
    mask[1, 0] = False
    text = "every state needs a feasible action; stock=1, regime=low has none (1 of 4 states)"
    jump = [Pay(lambda stock: stock)]
    for build in (
        lambda m: MDP.from_arrays(P, r, 0.9, feasible=m, **NAMED),
        lambda m: MDP.staged(GRID, ORDERS, 0.9, jump, feasible=m, action_name="order"),
        lambda m: MDP.from_step(lambda stock: ({}, stock), GRID, ORDERS, 0.9, feasible=m),
    ):
        assert message(build, mask) == text
        assert message(build, lambda stock, regime: (stock == 0) | (regime == "high")) == text
        assert message(build, mask * 1.0) == "feasible must be true or false; got float64"
        assert message(build, mask[0]) == "feasible must have shape (2, 2, 2); got (2, 2)"
        assert message(build, lambda price: price > 0).startswith(
            "feasible has an unknown argument 'price'; "
        )
    assert (
        message(
            MDP.from_gymnasium, SimpleNamespace(P={0: {0: [(1.0, 0, 0.0, False)]}, 1: {0: []}}), 0.9
        )
        == "every state needs a feasible action; state=1 has none (1 of 2 states)"
    )


def test_wrong_grids():
    assert message(StateGrid) == "a grid needs at least one axis"
    assert message(StateGrid, stock=[]) == "an axis needs at least one value; stock has none"
    assert message(StateGrid, stock=[1, 3, 2, 3, 3, 1]) == (
        "axis values must differ from one another; stock=1 occurs 2 times (2 of 3 values)"
    )
    assert message(StateGrid, stock=[0.0, np.nan, np.inf]) == (
        "axis values must lie between -1e+150 and 1e+150; stock holds nan (2 of 3 values)"
    )
    assert message(StateGrid, stock=[1, "a"]) == (
        "the values of axis 'stock' must be all numbers or all text; got [1, 'a']"
    )
    assert message(StateGrid, stock=[[1, 2], [3, 4]]) == (
        "the values of axis 'stock' must be a list of values; has shape (2, 2)"
    )
    assert message(StateGrid, stock=7) == (
        "the values of axis 'stock' must be a list of values; got 7"
    )
    assert message(StateGrid, stock="abc") == (
        "the values of axis 'stock' must be a list of values; got 'abc'"
    )
    assert (
        message(StateGrid, {"on hand": [1]}) == "an axis name must be an identifier; got 'on hand'"
    )
    assert message(MDP.staged, {"stock": []}, ORDERS, 0.9, []) == (
        "an axis needs at least one value; stock has none"
    )


def test_wrong_actions():
    def build(actions, name="order"):
        return MDP.staged(GRID, actions, 0.9, [Pay(lambda stock: stock)], action_name=name)

    assert message(build, []) == "a model needs at least one action"
    assert message(build, [1, 2, 1]) == (
        "actions must differ from one another; order=1 occurs 2 times"
    )
    assert message(build, [1, "two"]) == "actions must be all numbers or all text; got [1, 'two']"
    assert message(build, [0.0, np.nan]) == "actions must be finite; got nan"
    assert (
        message(build, [0, 1], "stock")
        == "the action cannot be called 'stock': an axis has this name"
    )


def test_a_step_function_that_leaves_the_grid():
    def build(step, noise=(), **options):
        grid = {"stock": range(4), "regime": ["low", "high"]}
        return MDP.from_step(step, grid, ORDERS, 0.9, noise, action_name="order", **options)

    demand = Noise("demand", [0, 2], [0.5, 0.5])
    assert message(build, lambda stock, order: ({"stock": stock + order}, 0.0)) == (
        "the step function leaves the grid: stock must stay on its axis; "
        "stock=0, order=5 goes to stock=5 (4 of 8 cases)"
    )
    assert message(build, lambda stock, demand: ({"stock": stock - demand}, 0.0), demand) == (
        "the step function leaves the grid: stock must stay on its axis; "
        "stock=0, demand=2 goes to stock=-2 (2 of 8 cases)"
    )
    price = Noise("price", [1, 2], [0.5, 0.5])
    assert message(
        build, lambda stock, demand, price: ({"stock": stock - demand * price}, 0), [demand, price]
    ) == (
        "the step function leaves the grid: stock must stay on its axis; "
        "stock=0, demand, price=(2, 1) goes to stock=-2 (6 of 16 cases)"
    )
    assert message(build, lambda: ({"regime": "medium"}, 0.0)) == (
        "the step function leaves the grid: regime must stay on its axis; "
        "goes to regime=medium (1 of 1 cases)"
    )
    assert message(build, lambda: ({"regime": 1}, 0.0)) == (
        "the step function leaves the grid: regime must stay on its axis; "
        "goes to regime=1 (1 of 1 cases)"
    )
    assert message(build, lambda stock: ({"stock": stock + 0.5}, 0.0)) == (
        "the step function leaves the grid: stock must stay on its axis; "
        "stock=0 goes to stock=0.5 (4 of 4 cases)"
    )
    assert message(build, lambda stock: ({"stock": stock * np.nan}, 0.0)) == (
        "the step function leaves the grid: stock must stay on its axis; "
        "stock=0 goes to stock=nan (4 of 4 cases)"
    )
    assert message(build, lambda stock: ({"price": stock}, 0.0)) == (
        "no axis is called 'price'; the axes are stock, regime"
    )
    assert message(build, lambda stock: (stock, 0.0)).startswith(
        "the step function must return a mapping of axis names to values; got "
    )
    assert message(build, lambda stock: {"stock": stock}) == (
        "the step function must return (next coordinates by name, reward), "
        "or with counts by name as the third"
    )
    assert message(build, lambda stock, price: ({}, 0.0)) == (
        "the step function has an unknown argument 'price'; "
        "the arguments may be stock, regime, order"
    )
    assert message(build, lambda stock: ({}, np.zeros(3))) == (
        "the reward of the step function must broadcast over order 2, stock 4, regime 2, noise 1; "
        "has shape (3,)"
    )
    taken = Noise("stock", [0], [1.0])
    assert message(build, lambda stock: ({}, 0.0), taken) == (
        "a noise cannot be called 'stock': that name is taken"
    )
    assert message(build, lambda demand: ({}, 0.0), [demand, demand]) == (
        "a noise cannot be called 'demand': that name is taken"
    )


def test_what_nothing_reads_may_be_anything():
    """Infeasible pairs and outcomes of probability 0 are not held against a model."""

    def step(stock, order, demand):
        with np.errstate(invalid="ignore", divide="ignore"):
            return {"stock": stock + order - demand}, np.log(4.0 - stock - order + (demand == 9))

    law = Noise("demand", [0, 9], lambda stock: np.where(stock >= 0, [1.0, 0.0], [0.0, 1.0]))
    grid, feasible = {"stock": range(4)}, (lambda stock, order: stock + order < 4)
    stepping = MDP.from_step(
        step, grid, (0, 1, 2), 0.9, law, feasible=feasible, action_name="order"
    )
    telling = MDP.staged(
        grid,
        (0, 1, 2),
        0.9,
        [
            Jump(
                law,
                to=lambda stock, order, demand: step(stock, order, demand)[0],
                pays=lambda stock, order, demand: step(stock, order, demand)[1],
            )
        ],
        feasible=feasible,
        action_name="order",
    )
    for mdp in (stepping, telling):
        mask = mdp.feasible_mask
        s, a = np.nonzero(mask)
        np.testing.assert_allclose(mdp.reward[mask], np.log(4.0 - s - a), rtol=1e-15)
        np.testing.assert_array_equal(mdp.to_pairs().transition.toarray().argmax(axis=1), s + a)


def stage_error(stage, **options) -> str:
    grid = {"stock": range(4), "regime": ["low", "high"]}
    return message(MDP.staged, grid, ORDERS, 0.9, [stage], action_name="order", **options)


def test_faulty_decisions():
    assert stage_error(Decide("stock", to=lambda stock, order: stock + order)) == (
        "deciding stock leaves the grid: stock must stay on its axis; "
        "stock=0, order=5 goes to stock=5 (4 of 8 cases)"
    )
    assert stage_error(Decide("price", to=lambda stock: stock)) == (
        "no axis is called 'price'; the axes are stock, regime"
    )
    assert stage_error(Decide("stock", to=lambda: np.zeros(3))) == (
        "deciding stock: stock must broadcast over order 2, stock 4, regime 2, noise 1; "
        "has shape (3,)"
    )
    assert stage_error(
        Decide(
            "stock",
            to=lambda stock: stock,
            pays=lambda order: np.inf * (order + 1),
        )
    ) == ("the reward of deciding stock must be finite; order=0 pays inf (2 of 2 rewards)")
    assert stage_error(Decide("stock", to=lambda price: price)) == (
        "deciding stock has an unknown argument 'price'; the arguments may be stock, regime, order"
    )


def test_faulty_shifts():
    demand = Noise("demand", [0, 1], [0.5, 0.5])
    assert stage_error(Shift("stock", demand, by=lambda demand: -demand, edge="error")) == (
        "the shift of stock by demand leaves the grid; stock=0, demand=1 moves by -1 (1 of 8 cases)"
    )
    assert stage_error(Shift("stock", demand, edge="round")) == (
        "the shift of stock by demand: edge must be 'clip', 'reflect', 'wrap' or 'error'; "
        "got 'round'"
    )
    assert stage_error(Shift("stock", demand, by=lambda demand, order: demand * order / 2)) == (
        "the shift of stock by demand must be by whole grid steps; "
        "order=5, demand=1 moves by 2.5 where neighbours are 1 apart (1 of 4 amounts)"
    )
    assert stage_error(Shift("stock", demand, by=lambda stock: stock)) == (
        "the shift of stock by demand: its amount has an unknown argument 'stock'; "
        "the arguments may be demand, order"
    )
    assert stage_error(Shift("stock", Noise("demand", [0, 1], [0.5, 0.4]))) == (
        "the probabilities of the shift of stock by demand must sum to 1; sums to 0.9 (1 of 1 rows)"
    )
    assert stage_error(Shift("stock", Noise("demand", [0, 1, 2], [0.5, 0.5]))) == (
        "the probabilities of the shift of stock by demand must broadcast over "
        "order 2, stock 4, regime 2, noise 3; has shape (2,)"
    )
    assert stage_error(Shift("stock", Noise("demand", [0, 1, 2], [1.0]))) == (
        "the probabilities of the shift of stock by demand must list 3 values; has 1"
    )
    assert stage_error(Shift("stock", Noise("demand", [], []))) == (
        "the shift of stock by demand: a noise needs at least one value"
    )
    assert stage_error(Shift("stock", Noise("order", [0], [1.0]))) == (
        "a noise cannot be called 'order': that name is taken"
    )
    bent = Noise("demand", [0, 1], lambda regime: np.where(regime == "low", 0.5, [0.2, 0.2]))
    assert stage_error(Shift("stock", bent)) == (
        "the probabilities of the shift of stock by demand must sum to 1; "
        "regime=high sums to 0.4 (1 of 2 rows)"
    )
    assert stage_error(
        Shift("stock", demand, pays=lambda stock, demand: np.where(demand == 1, np.nan, stock))
    ) == (
        "the reward of the shift of stock by demand must be finite; "
        "stock=0, demand=1 pays nan (4 of 8 rewards)"
    )
    uneven = MDP.staged
    assert message(uneven, {"stock": [0, 1, 3]}, ORDERS, 0.9, [Shift("stock", demand)]) == (
        "the shift of stock by demand: the axis must be evenly spaced; gaps are 1 to 2"
    )


def test_a_shift_may_not_leave_the_grid_only_where_it_can_happen():
    law = Noise("demand", [0, 1], lambda stock: np.where(stock == 0, [1.0, 0.0], [0.5, 0.5]))
    mdp = MDP.staged(
        {"stock": range(4)},
        ORDERS,
        0.9,
        [Shift("stock", law, by=lambda demand: -demand, edge="error")],
    )
    np.testing.assert_allclose(mdp.to_arrays().transition[0][0], [1, 0, 0, 0])


def test_faulty_moves():
    half = np.full((2, 2), 0.5)
    assert stage_error(Move("regime", np.array([[0.5, 0.4], [0.5, 0.5]]))) == (
        "the rows of the move of regime must sum to 1; regime=low sums to 0.9 (1 of 2 rows)"
    )
    assert stage_error(Move("regime", np.full((3, 3), 1 / 3))) == (
        "the move of regime must be a (2, 2) matrix; has shape (3, 3)"
    )
    assert stage_error(
        Move("regime", lambda stock, order: np.where((stock == 2) & (order == 5), -half, half))
    ) == (
        "the rows of the move of regime must not be negative; "
        "stock=2, regime=low, order=5 holds -0.5 (2 of 16 rows)"
    )
    assert stage_error(Move("regime", lambda regime: np.where(regime == "low", half, half))) == (
        "the move of regime cannot be given its own axis: the rows of the matrix are that"
    )
    assert stage_error(Move("regime", [["x", 0.5], [0.5, 0.5]])) == (
        "the move of regime must be numbers; entry (0, 0) is 'x' (1 of 4 entries)"
    )


def test_faulty_stages():
    assert stage_error("not a stage") == (
        "a stage is Pay, Decide, Shift, Move or Jump; got 'not a stage'"
    )
    assert stage_error(Pay(lambda stock: np.where(stock == 3, np.inf, 0))) == (
        "the reward of a Pay stage must be finite; stock=3 pays inf (1 of 4 rewards)"
    )
    assert stage_error(Pay(lambda: "much")) == (
        "the reward of a Pay stage must be numbers; is 'much' (1 of 1 entries)"
    )
    assert stage_error(Pay(3.0)).startswith(
        "the reward of a Pay stage must be a function of named coordinates; "
    )
    assert stage_error(Jump(Noise("w", [0], [1.0]), to=lambda stock: {"stock": stock - 1})) == (
        "the jump on w leaves the grid: stock must stay on its axis; "
        "stock=0 goes to stock=-1 (1 of 4 cases)"
    )
    assert message(MDP.staged, GRID, ORDERS, 0.9, []) == "a staged model needs at least one stage"


def test_a_toy_text_table_that_is_not_one():
    def build(table):
        return MDP.from_gymnasium(SimpleNamespace(P=table), 0.9)

    sure = [(1.0, 0, 0.0, False)]
    assert message(MDP.from_gymnasium, SimpleNamespace(), 0.9) == (
        "the environment must list its transitions; namespace() has no table P"
    )
    assert message(build, {0: {0: sure, 1: sure}, 1: {0: sure}}) == (
        "every state must list 2 actions; state=1 does not"
    )
    assert message(build, {0: {0: [(1.0, 5, 0.0, False)]}}) == (
        "next states must lie in 0..0; state=0, action=0 goes to 5 (1 of 1 pairs)"
    )
    assert message(build, {0: {0: [(1.0, 0, 0.0)]}}) == (
        "an outcome must be (probability, next state, reward, terminated)"
    )
    # Outcomes that cancel in the sum over equal next states are still negative.
    assert message(build, {0: {0: [(1.5, 0, 0.0, False), (-0.5, 0, 0.0, False)]}}) == (
        "transition rows must not be negative; state=0, action=0 holds -0.5 for state=0 "
        "(1 of 1 rows)"
    )


def test_policies_and_starts_are_checked():
    P, r = fair()
    mask = np.ones((4, 2), dtype=bool)
    mask[2, 1] = False
    mdp = MDP.from_arrays(P, r, 0.9, feasible=mask, **NAMED)
    assert message(mdp.policy, [0, 0, 1, 0], kind=PolicyError) == (
        f"a policy must take feasible actions; {PLACE} is not feasible (1 of 4 states)"
    )
    assert message(mdp.policy, [0, 0, 2, 0], kind=PolicyError) == (
        "action indices must lie in 0..1; stock=1, regime=low gets 2 (1 of 4 states)"
    )
    assert (
        message(mdp.policy, [0, 0, 0], kind=PolicyError)
        == "a policy on this grid has shape (2, 2); got (3,)"
    )
    assert message(mdp.policy, [0, 0, 0, 0.5], kind=PolicyError) == (
        "a policy holds action indices (whole numbers); got float64"
    )
    start = [0.5, -0.5, 0.5, 0.5]
    assert message(simulate, mdp, [0] * 4, 1, 0, start=start, kind=ArgumentError) == (
        "start probabilities must be finite and not negative; "
        "stock=0, regime=high has -0.5 (1 of 4 states)"
    )
    assert message(mdp.with_start, [0.5, 0.4, 0.0, 0.0], kind=ArgumentError) == (
        "start probabilities must sum to 1; they sum to 0.9"
    )
    assert (
        message(simulate, mdp, [0] * 4, 1, 0, start=4, kind=ArgumentError)
        == "states must lie in 0..3; got 4"
    )
    assert message(simulate, mdp, [0] * 4, 0, 0, kind=ArgumentError) == (
        "periods and paths must be at least 1; got 0 and 1"
    )


def test_actions_may_come_one_at_a_time():
    P, r = fair()
    stages = [Pay(lambda stock, order: stock + order)]
    step = lambda stock: ({"stock": stock}, stock)  # noqa: E731
    rows, paid = P[CHOICES, STATES], r[STATES, CHOICES]
    for build in (
        lambda a: MDP.staged(GRID, a, 0.9, stages, action_name="order"),
        lambda a: MDP.from_step(step, GRID, a, 0.9, action_name="order"),
        lambda a: MDP.from_arrays(P, r, 0.9, grid=GRID, actions=a),
        lambda a: MDP.from_pairs(STATES, CHOICES, rows, paid, 0.9, grid=GRID, actions=a),
    ):
        assert build(iter(ORDERS)).actions == ORDERS
        assert build(iter(ORDERS)).fingerprint == build(ORDERS).fingerprint


@pytest.mark.parametrize("name", RESERVED_NAMES)
def test_the_action_cannot_have_the_name_of_what_a_solution_holds(name):
    assert message(MDP.staged, GRID, ORDERS, 0.9, [Pay(lambda stock: stock)], action_name=name) == (
        f"the action cannot be called {name!r}: a solution holds {', '.join(RESERVED_NAMES)}"
    )


def test_a_function_that_fails_is_named_with_its_own_error():
    def branches(stock):
        return 1 if stock > 0 else 0

    def everything(**names):
        return {}["nothing"]

    text = message(MDP.staged, GRID, ORDERS, 0.9, [Pay(branches)])
    assert text.startswith("the reward of a Pay stage failed: ValueError: The truth value of")
    assert text.endswith("; functions must work elementwise on arrays")
    with pytest.raises(ModelError) as caught:
        MDP.staged(GRID, ORDERS, 0.9, [Pay(everything)])
    assert str(caught.value) == (
        "the reward of a Pay stage failed: KeyError: 'nothing'; "
        "functions must work elementwise on arrays"
    )
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_error_of_the_model_comes_through_as_it_is():
    def refuses(stock):
        raise ModelError("stock must be counted in boxes")

    assert (
        message(MDP.staged, GRID, ORDERS, 0.9, [Pay(refuses)]) == "stock must be counted in boxes"
    )


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("edge", ["clip", "reflect", "wrap", "error"])
def test_a_shift_by_no_finite_amount_is_refused(value, edge):
    shift = Shift("stock", Noise("demand", [0.0, value], [0.5, 0.5]), edge=edge)
    assert message(MDP.staged, GRID, ORDERS, 0.9, [shift]) == (
        "the shift of stock by demand must be by whole grid steps; "
        f"demand={value} moves by {value} where neighbours are 1 apart (1 of 2 amounts)"
    )
