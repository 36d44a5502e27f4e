"""Inputs of users: sparse formats, masks, sets, -inf, long integers.

Each is read as it was meant, or refused with a sentence; nothing is read as something else.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from tessella.criteria.finite_horizon import FiniteHorizon
from tessella.errors import ModelError, TessellaError
from tessella.grid import StateGrid
from tessella.mdp.model import MDP
from tessella.mdp.policy import Policy
from tessella.mdp.simulate import simulate
from tessella.mdp.stages import Decide, Event, Jump, Move, Noise, Pay, Shift
from tessella.mdp.start import start_distribution
from tessella.solvers.solve import solve

FORMATS = [
    getattr(sp, f"{name}_{kind}")
    for name, kind in product(
        ("bsr", "coo", "csc", "csr", "dia", "dok", "lil"), ("array", "matrix")
    )
]
P = np.array([[[0.5, 0.5, 0], [0, 1, 0], [0.25, 0, 0.75]], [[0, 0, 1], [1, 0, 0], [0, 0.5, 0.5]]])
R = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, -4.0]])
PAID = np.arange(18.0).reshape(2, 3, 3) * (P > 0)
STATES, CHOICES = np.divmod(np.arange(6), 2)
MASK = np.array([[True, False], [True, True], [False, True]])
HIDDEN = np.where(MASK, R, -np.inf)
GRID = {"stock": [0, 1, 2]}


def message(build, *args, **kwargs) -> str:
    with pytest.raises(TessellaError) as caught:
        build(*args, **kwargs)
    return str(caught.value)


def same(*models: MDP) -> bool:
    return len({mdp.fingerprint for mdp in models}) == 1


@pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.__name__)
def test_every_sparse_format_is_read_like_the_dense_array(kind):
    matrices = [kind(p) for p in P]
    assert same(
        MDP.from_arrays(P, R, 0.9),
        MDP.from_arrays(matrices, R, 0.9),
        MDP.from_arrays(matrices, kind(R), 0.9),
        MDP.from_pairs(STATES, CHOICES, kind(P[CHOICES, STATES]), R.ravel(), 0.9),
    )
    by_transition = [kind(paid) for paid in PAID]
    assert same(MDP.from_arrays(P, PAID, 0.9), MDP.from_arrays(matrices, by_transition, 0.9))
    move = [Move("stock", P[0]), Move("stock", kind(P[0]))]
    assert same(*(MDP.staged(GRID, (0,), 0.9, [one]) for one in move))


@pytest.mark.parametrize("kind", FORMATS, ids=lambda kind: kind.__name__)
def test_a_sparse_matrix_that_is_no_matrix_of_numbers_is_refused_with_its_place(kind):
    wrong = kind(P[0].astype(complex))
    assert message(MDP.from_arrays, [wrong, wrong], R, 0.9).startswith(
        "the transition of action 0 must be numbers; entry (0, 0) is (0.5+0j) ("
    )
    assert message(MDP.from_pairs, STATES, CHOICES, wrong, R.ravel(), 0.9).startswith(
        "transition must be numbers; entry (0, 0) is (0.5+0j) ("
    )


def test_a_sparse_vector_is_no_matrix():
    assert message(MDP.from_pairs, STATES, CHOICES, sp.coo_array(np.ones(6)), R.ravel(), 0.9) == (
        "transition must be a matrix; has shape (6,)"
    )


def test_pairs_may_pay_a_sparse_vector():
    rows = P[CHOICES, STATES]
    sparse = MDP.from_pairs(STATES, CHOICES, rows, sp.coo_array(R.ravel()), 0.9)
    assert same(sparse, MDP.from_pairs(STATES, CHOICES, rows, R.ravel(), 0.9))


def hide(array, *place):
    """``array`` with one entry masked, which under the mask is as good as any."""
    masked = np.ma.array(array, copy=True)
    masked[place] = np.ma.masked
    return masked


def staged(*stages, **options) -> MDP:
    return MDP.staged(GRID, (0, 1), 0.9, list(stages), **options)


def drawn(values, probabilities) -> MDP:
    return staged(Shift("stock", Noise("w", values, probabilities)))


def stepped(to, pays) -> MDP:
    return MDP.from_step(lambda stock: ({"stock": to(stock)}, pays(stock)), GRID, (0, 1), 0.9)


def toy(**parts):
    """A toy-text environment that stays in state 0."""
    return SimpleNamespace(P={0: {0: [(1.0, 0, 0.0, False)]}}, **parts)


def policy() -> Policy:
    mdp = MDP.from_arrays(P, R, 0.9)

    class Rule:
        size = 1

        def __call__(self, points):
            return hide(points[:, 0], 1)

    return Policy(mdp.grid, mdp.actions, Rule())


MASKED = {
    "transition": (lambda: MDP.from_arrays(hide(P, 1, 2, 0), R, 0.9), "entry (1, 2, 0)", 18),
    "transition by state": (
        lambda: MDP.from_arrays(hide(np.moveaxis(P, 0, 1), 2, 1, 0), R, 0.9, layout="SAS"),
        "entry (2, 1, 0)",
        18,
    ),
    "transition in a list": (
        lambda: MDP.from_arrays([P[0], hide(P[1], 2, 0)], R, 0.9),
        "entry (1, 2, 0)",
        18,
    ),
    "transition in lists": (
        lambda: MDP.from_arrays([[[1.0, np.ma.masked], [0.0, 1.0]]], [1.0, 2.0], 0.9),
        "entry (0, 0, 1)",
        4,
    ),
    "the transition of action 1": (
        lambda: MDP.from_arrays([sp.csr_array(P[0]), hide(P[1], 2, 0)], R, 0.9),
        "entry (2, 0)",
        9,
    ),
    "rewards": (lambda: MDP.from_arrays(P, hide(R, 1, 1), 0.9), "state=1, action=1", 6),
    "rewards by state": (lambda: MDP.from_arrays(P, hide(R[:, 0], 1), 0.9), "state=1", 3),
    "rewards by transition": (
        lambda: MDP.from_arrays(P, hide(PAID, 1, 2, 0), 0.9),
        "state=2, action=1",
        18,
    ),
    "reward in lists": (
        lambda: MDP.from_arrays(P, [[1, 2], [3, np.ma.masked], [5, 6]], 0.9),
        "entry (1, 1)",
        6,
    ),
    "feasible": (lambda: MDP.from_arrays(P, R, 0.9, feasible=hide(MASK, 2, 1)), "entry (2, 1)", 6),
    "feasible of a function": (
        lambda: staged(Pay(lambda: 0), feasible=lambda stock: np.ma.masked_equal(stock >= 0, True)),
        "stock=0",
        3,
    ),
    "states": (
        lambda: MDP.from_pairs(hide(STATES, 3), CHOICES, P[CHOICES, STATES], R.ravel(), 0.9),
        "entry 3",
        6,
    ),
    "choices": (
        lambda: MDP.from_pairs(STATES, hide(CHOICES, 3), P[CHOICES, STATES], R.ravel(), 0.9),
        "entry 3",
        6,
    ),
    "transition of pairs": (
        lambda: MDP.from_pairs(STATES, CHOICES, hide(P[CHOICES, STATES], 3, 1), R.ravel(), 0.9),
        "entry (3, 1)",
        18,
    ),
    "rewards of pairs": (
        lambda: MDP.from_pairs(STATES, CHOICES, P[CHOICES, STATES], hide(R.ravel(), 3), 0.9),
        "state=1, action=1",
        6,
    ),
    "the values of axis 'stock'": (lambda: StateGrid(stock=hide([0, 1, 2], 1)), "entry 1", 3),
    "actions": (
        lambda: MDP.staged(GRID, hide([0, 1], 1), 0.9, [Pay(lambda: 0)]),
        "entry 1",
        2,
    ),
    "the shift of stock by w: its values": (
        lambda: drawn(hide([0, 1], 1), [0.5, 0.5]),
        "entry 1",
        2,
    ),
    "the probabilities of the shift of stock by w": (
        lambda: drawn([0, 1], hide([0.5, 0.5], 1)),
        "",
        2,
    ),
    "the probabilities of the shift of stock by w, of a function": (
        lambda: drawn([0, 1], lambda stock: hide(np.full((3, 2), 0.5), 2, 1)),
        "stock=2",
        6,
    ),
    "the shift of stock by w: its amount": (
        lambda: staged(Shift("stock", Noise("w", [0], [1.0]), by=lambda w: hide([0], 0))),
        "entry 0",
        1,
    ),
    "deciding stock: stock": (
        lambda: staged(Decide("stock", to=lambda stock: hide(stock, 0, 1, 0))),
        "stock=1",
        3,
    ),
    "the reward of deciding stock": (
        lambda: staged(Decide("stock", lambda stock: stock, lambda stock: hide(stock, 0, 1, 0))),
        "stock=1",
        3,
    ),
    "the move of stock": (lambda: staged(Move("stock", hide(P[0], 0, 1))), "entry (0, 1)", 9),
    "the jump on w: stock": (
        lambda: staged(Jump(Noise("w", [0], [1.0]), lambda stock: {"stock": hide(stock, 0, 2, 0)})),
        "stock=2",
        3,
    ),
    "the step function: stock": (
        lambda: stepped(lambda stock: hide(stock, 0, 1, 0), lambda stock: stock),
        "stock=1",
        3,
    ),
    "the reward of the step function": (
        lambda: stepped(lambda stock: stock, lambda stock: hide(stock, 0, 1, 0)),
        "stock=1",
        3,
    ),
    "initial_state_distrib": (
        lambda: MDP.from_gymnasium(toy(initial_state_distrib=hide([1.0], 0)), 0.9),
        "entry 0",
        1,
    ),
    "start": (
        lambda: MDP.from_arrays(P, R, 0.9).with_start(hide([0.5, 0.5, 0.0], 2)),
        "entry 2",
        3,
    ),
    "start of paths": (
        lambda: simulate(MDP.from_arrays(P, R, 0.9), [0] * 3, 1, 0, start=hide([2], 0)),
        "entry 0",
        1,
    ),
    "a policy": (lambda: MDP.from_arrays(P, R, 0.9).policy(hide([0, 1, 0], 1)), "entry 1", 3),
    "the actions of a rule": (lambda: policy().act([[0], [1]]), "entry 1", 2),
    "points": (lambda: policy().grid.nearest(hide([[0.0], [1.0]], 1, 0)), "entry (1, 0)", 2),
    "values to look up": (lambda: policy().grid.locate(0, hide([0, 1], 1)), "entry 1", 2),
}
NAMES = {
    "transition by state": "transition",
    "transition in a list": "transition",
    "transition in lists": "transition",
    "transition of pairs": "transition",
    "rewards by state": "rewards",
    "rewards by transition": "rewards",
    "rewards of pairs": "rewards",
    "reward in lists": "reward",
    "feasible of a function": "feasible",
    "start of paths": "start",
    "the probabilities of the shift of stock by w, of a function": (
        "the probabilities of the shift of stock by w"
    ),
}


@pytest.mark.parametrize("what", MASKED)
def test_a_mask_is_never_ignored(what):
    build, place, total = MASKED[what]
    count = 3 if what == "feasible of a function" else 1
    found = f"{place} is masked" if place else "is masked"
    assert message(build) == (
        f"{NAMES.get(what, what)} must not be masked; {found} ({count} of {total} entries)"
    )


def test_an_array_with_a_mask_that_hides_nothing_is_an_array():
    masked = MDP.from_arrays(np.ma.array(P), np.ma.array(R, mask=False), 0.9)
    assert same(masked, MDP.from_arrays(P, R, 0.9))
    assert StateGrid(x=np.ma.array([3, 1])) == StateGrid(x=[3, 1])


@pytest.mark.parametrize("unordered", [set, frozenset])
def test_a_set_is_refused_where_the_order_means_something(unordered):
    rule = "must have an order, which a set does not keep; give a list"
    stay, sure = Pay(lambda: 0), Noise("w", [0], [1.0])
    assert message(StateGrid, stock=unordered([0, 1])) == f"the values of axis 'stock' {rule}"
    for build in (
        lambda a: MDP.staged(GRID, a, 0.9, [stay]),
        lambda a: MDP.from_step(lambda stock: ({}, stock), GRID, a, 0.9),
        lambda a: MDP.from_arrays(P, R, 0.9, actions=a),
        lambda a: MDP.from_pairs(STATES, CHOICES, P[CHOICES, STATES], R.ravel(), 0.9, actions=a),
    ):
        assert message(build, unordered(["a", "b"])) == f"actions {rule}"
    assert message(drawn, unordered([0, 1]), [0.5, 0.5]) == (
        f"the shift of stock by w: its values {rule}"
    )
    assert message(MDP.staged, GRID, (0,), 0.9, unordered([stay])) == f"stages {rule}"
    step = lambda stock, w: ({}, stock)  # noqa: E731
    assert message(MDP.from_step, step, GRID, (0,), 0.9, unordered([sure])) == f"noises {rule}"


def test_the_keys_and_values_of_a_dictionary_are_in_order():
    named = {"low": 0, "high": 1}
    grid = StateGrid(mood=named.keys(), level=named.values(), price=named)
    assert [v.tolist() for v in grid.values] == [["low", "high"], [0, 1], ["low", "high"]]
    assert MDP.staged(GRID, named.keys(), 0.9, [Pay(lambda: 0)]).actions == ("low", "high")


def infeasible_in_every_way():
    """The model of MASK, told by -inf."""
    paid = np.where(MASK.T[:, :, None], PAID, -np.inf)
    rows = P[CHOICES, STATES]
    yield "pairs", R, lambda r: MDP.from_arrays(P, r, 0.9), HIDDEN
    yield (
        "by state",
        R,
        lambda r: MDP.from_arrays(np.moveaxis(P, 0, 1), r, 0.9, layout="SAS"),
        HIDDEN,
    )
    yield "list", R, lambda r: MDP.from_arrays([sp.lil_matrix(p) for p in P], r, 0.9), HIDDEN
    yield "listed", R, lambda r: MDP.from_pairs(STATES, CHOICES, rows, r.ravel(), 0.9), HIDDEN
    yield "transition", PAID, lambda r: MDP.from_arrays(P, r, 0.9), paid
    swapped = np.moveaxis(P, 0, 1)
    yield (
        "transition by state",
        PAID,
        lambda r: MDP.from_arrays(swapped, np.moveaxis(r, 0, 1), 0.9, layout="SAS"),
        paid,
    )
    yield (
        "sparse transition",
        PAID,
        lambda r: MDP.from_arrays([sp.csr_array(p) for p in P], [sp.csr_array(x) for x in r], 0.9),
        paid,
    )


INFEASIBLE = list(infeasible_in_every_way())


@pytest.mark.parametrize(("finite", "build", "hidden"), [case[1:] for case in INFEASIBLE])
def test_a_reward_of_minus_infinity_says_that_an_action_is_infeasible(finite, build, hidden):
    assert same(build(hidden), MDP.from_arrays(P, finite, 0.9, feasible=MASK))
    assert build(finite).feasible is None


@pytest.mark.parametrize(("build", "hidden"), [case[2:] for case in INFEASIBLE])
def test_a_state_that_pays_minus_infinity_for_everything_is_stuck(build, hidden):
    stuck = np.array(hidden)
    if stuck.ndim == 2:
        stuck[1] = -np.inf
    else:
        stuck[:, 1] = -np.inf
    rule = "every state needs a feasible action; state="
    assert message(build, stuck) == f"{rule}1 has none (1 of 3 states)"
    assert message(build, np.full_like(stuck, -np.inf)) == f"{rule}0 has none (3 of 3 states)"


def test_a_state_of_its_own_reward_cannot_be_infeasible():
    assert message(MDP.from_arrays, P, [1.0, -np.inf, 2.0], 0.9) == (
        "every state needs a feasible action; state=1 has none (1 of 3 states)"
    )


def test_minus_infinity_on_some_ways_only_is_refused():
    paid = np.array(PAID)
    paid[0, 0, 0] = -np.inf
    said = (
        "rewards must be finite; state=0, action=0 pays -inf on the way to state=0; "
        "what cannot be done pays -inf on every way (1 of 6 pairs)"
    )
    sparse = [sp.csr_array(x) for x in paid]
    for reward in (paid, sparse):
        assert message(MDP.from_arrays, P, reward, 0.9) == said
    paid[0, 0, 2] = -np.inf  # a way that it cannot go
    assert message(MDP.from_arrays, P, paid, 0.9) == said
    paid[0, 0, 1] = -np.inf
    assert not MDP.from_arrays(P, paid, 0.9).feasible_mask[0, 0]


def test_an_empty_row_is_infeasible_only_if_all_that_it_pays_is_minus_infinity():
    rows, paid = np.array(P), np.array(PAID)
    rows[0, 0] = 0
    assert message(MDP.from_arrays, rows, paid, 0.9) == (
        "transition rows must sum to 1; state=0, action=0 sums to 0 (1 of 6 rows)"
    )
    paid[0, 0, :2] = -np.inf
    assert message(MDP.from_arrays, rows, paid, 0.9).startswith("transition rows must sum to 1; ")
    paid[0, 0] = -np.inf
    for reward in (paid, [sp.lil_matrix(x) for x in paid]):
        assert not MDP.from_arrays(rows, reward, 0.9).feasible_mask[0, 0]


def test_minus_infinity_where_feasible_says_otherwise_is_refused():
    everything = np.ones((3, 2), dtype=bool)
    assert message(MDP.from_arrays, P, HIDDEN, 0.9, feasible=everything) == (
        "rewards must be finite; state=0, action=1 pays -inf, "
        "though feasible= says that it can be done (2 of 6 pairs)"
    )
    assert same(
        MDP.from_arrays(P, HIDDEN, 0.9, feasible=MASK), MDP.from_arrays(P, R, 0.9, feasible=MASK)
    )


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_other_rewards_that_are_not_finite_stay_refused_beside_infeasible_ones(value):
    reward = np.array(HIDDEN)
    reward[1, 1] = value
    rows = P[CHOICES, STATES]
    for build in (
        lambda: MDP.from_arrays(P, reward, 0.9),
        lambda: MDP.from_pairs(STATES, CHOICES, rows, reward.ravel(), 0.9),
    ):
        assert message(build) == (
            f"rewards must be finite; state=1, action=1 pays {value} (1 of 4 pairs)"
        )


def test_arrays_that_went_out_come_back_without_a_mask(world):
    mdp = world.staged
    named = {"grid": mdp.grid, "actions": mdp.actions, "action_name": mdp.action_name}
    by_action, by_state, sparse = mdp.to_arrays(), mdp.to_arrays("SAS"), mdp.to_sparse()
    back = [
        MDP.from_arrays(by_action.transition, by_action.reward, mdp.discount, **named),
        MDP.from_arrays(by_state.transition, by_state.reward, mdp.discount, layout="SAS", **named),
        MDP.from_arrays(sparse.transition, sparse.reward, mdp.discount, **named),
    ]
    assert same(*back)
    np.testing.assert_array_equal(back[0].feasible_mask, mdp.feasible_mask)
    np.testing.assert_array_equal(back[0].to_arrays().transition, by_action.transition)
    np.testing.assert_array_equal(back[0].to_arrays().reward, by_action.reward)


def test_a_decision_means_the_value_it_names_however_far_the_axis_reaches():
    def build(to):
        return MDP.staged({"x": [1e17, 1, 2]}, (0,), 0.9, [Decide("x", to=lambda: to)])

    assert build(2.0).to_arrays().transition[0].argmax(axis=1).tolist() == [2, 2, 2]
    assert message(build, 50.0) == (
        "deciding x leaves the grid: x must stay on its axis; action=0 goes to x=50 (1 of 1 cases)"
    )


def test_integers_beyond_two_to_the_53rd_are_decided_and_shifted_exactly():
    base = 2**53
    axis = [base, base + 1, base + 2]
    up = Decide("x", to=lambda x: np.minimum(x + 1, base + 2))
    shift = Shift("x", Noise("w", [1], [1.0]))
    for stage in (up, shift):
        mdp = MDP.staged({"x": axis}, (0,), 0.9, [stage])
        assert mdp.to_arrays().transition[0].argmax(axis=1).tolist() == [1, 2, 2]
    assert message(MDP.staged, {"x": [base, base + 1, base + 3]}, (0,), 0.9, [shift]) == (
        "the shift of x by w: the axis must be evenly spaced; gaps are 1 to 2"
    )
    assert message(MDP.staged, {"x": [1e17, 1e17 + 16, 1e17 + 48]}, (0,), 0.9, [shift]) == (
        "the shift of x by w: the axis must be evenly spaced; gaps are 16 to 32"
    )


@pytest.mark.parametrize(
    "long",
    [
        np.array([2**64 - 1], dtype=np.uint64),
        [2**63],
        [2**63, -1],
        [-(2**63) - 1],
        [2**70, 1],
        (0.5, 2**63),
    ],
    ids=str,
)
def test_integers_beyond_64_bits_are_refused(long):
    value = next(int(x) for x in long if int(x) == x and abs(int(x)) >= 2**63)
    assert message(StateGrid, x=long) == (
        f"integers in the values of axis 'x' must lie in -2^63..2^63 - 1; got {value}"
    )
    assert message(MDP.staged, GRID, long, 0.9, [Pay(lambda: 0)]) == (
        f"integers in actions must lie in -2^63..2^63 - 1; got {value}"
    )
    assert message(drawn, long, [1.0]).startswith("integers in the shift of stock by w: its values")


def test_short_indices_of_pairs_do_not_wrap_around():
    states, choices = np.divmod(np.arange(400), 2)
    rows, reward = np.eye(200)[states], np.arange(400.0)
    short = (states.astype(np.uint8), choices.astype(np.int8))
    assert same(
        MDP.from_pairs(states, choices, rows, reward, 0.9),
        MDP.from_pairs(*short, rows, reward, 0.9),
    )


def test_a_place_beyond_64_bits_is_off_the_grid():
    stay = Decide("x", to=lambda: np.uint64(2**64 - 1))
    assert message(MDP.staged, {"x": [-1, 0]}, (0,), 0.9, [stay]) == (
        "deciding x leaves the grid: x must stay on its axis; "
        "action=0 goes to x=18446744073709551615 (1 of 1 cases)"
    )
    far = np.array([0, 2**64 - 1], dtype=np.uint64)
    row = np.ones((2, 1))
    assert message(MDP.from_pairs, far, [0, 0], row, [0, 0], 0.9) == (
        "state indices must lie in 0..0; pair 1 has 18446744073709551615 (1 of 2 pairs)"
    )
    assert message(MDP.from_pairs, [0, 0], far, row, [0, 0], 0.9) == (
        "action indices must lie in 0..1048575; pair 1 has 18446744073709551615 (1 of 2 pairs)"
    )


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=8))
def test_a_list_of_states_is_a_start_in_which_each_entry_is_as_likely(states):
    mdp = MDP.from_arrays(np.tile(np.eye(5), (1, 1, 1)), np.zeros(5), 0.9)
    if len(states) == 5 and max(states) == 1:
        return  # could be meant as a distribution: refused, see below
    expected = [states.count(s) / len(states) for s in range(5)]
    np.testing.assert_allclose(start_distribution(mdp, states), expected, rtol=1e-15)
    played = simulate(mdp, [0] * 5, 1, 0, paths=len(states), start=states)
    assert played.states[:, 0].tolist() == states


@pytest.mark.parametrize("kind", [np.int64, np.uint8, list])
def test_zeros_and_ones_for_all_states_could_mean_either_and_are_refused(kind):
    mdp = MDP.from_arrays(P, R, 0.9)
    rule = (
        "a start is a state index, a list of them, coordinates by name, a distribution written as "
        "floats, or 'stationary'"
    )
    for ones in ([0, 1, 0], [1, 0, 0], [1, 1, 0]):
        start = ones if kind is list else np.array(ones, dtype=kind)
        for use in (
            mdp.with_start,
            lambda start: simulate(mdp, [0] * 3, 1, 0, paths=3, start=start),
        ):
            assert message(use, start) == f"{rule}; 0 and 1 for each of 3 states could mean either"
    assert start_distribution(mdp, [0, 0, 0]).tolist() == [1, 0, 0]  # no distribution at all
    assert start_distribution(mdp, [0.0, 1, 0]).tolist() == [0, 1, 0]
    for start, got in (
        ([True, False, False], "bool of shape (3,)"),
        (np.zeros((3, 1), int), "int64 of shape (3, 1)"),
        (np.zeros(0, int), "int64 of shape (0,)"),
    ):
        assert message(mdp.with_start, start) == f"{rule}; got {got}"
    assert message(mdp.with_start, ["a"]) == (
        "start probabilities must be numbers; entry (0,) is 'a' (1 of 1 entries)"
    )
    assert (
        message(mdp.with_start, [[0.5], [0.5, 0]]) == "start must be a rectangular array of numbers"
    )


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.float64])
def test_entries_at_one_place_of_a_sparse_matrix_are_added_as_float64(dtype):
    """Short integers would wrap around, and short floats round far more than the bounds know."""
    numbers = [0.1, 0.2, 0.7] if np.dtype(dtype).kind == "f" else [100, 100, 56]
    given = np.array(numbers, dtype=dtype)
    reward = sp.coo_array((given, (np.zeros(3, int), np.zeros(3, int))), shape=(1, 1))
    mdp = MDP.from_arrays([sp.csr_array([[1.0]])], [reward], 0.5)
    exact = sum(Fraction(float(x)) for x in given)
    assert abs(Fraction(float(mdp.reward[0, 0])) - exact) <= Fraction(
        mdp.dynamics.rounding.in_memory.reward_error
    )
    assert mdp.dynamics.rounding.in_memory.reward_error <= 1e-14 * max(abs(float(exact)), 1.0)
    solution = solve(mdp)
    assert abs(Fraction(float(solution.value[0])) - 2 * exact) <= Fraction(solution.error_bound)


HUGE = 10**400
COIN = Noise("coin", [0, 1], [0.5, 0.5])


def of_stage(stage, criterion=0.9):
    return lambda: MDP.staged({"x": [0, 1]}, [0], criterion, [stage])


def in_time(rate=1.0, interest=0.1, pays=None, **options):
    event = Event("arrival", rate, to=lambda x: {"x": x}, pays=pays)
    return lambda: MDP.from_rates({"x": [0, 1]}, [0], [event], interest, **options)


TOO_LARGE = {
    "rewards": lambda: MDP.from_arrays(P, [[HUGE, 0], [0, 0], [0, 0]], 0.9),
    "costs": lambda: MDP.from_arrays(P, [[-HUGE, 0], [0, 0], [0, 0]], 0.9, minimise=True),
    "rewards of pairs": lambda: MDP.from_pairs([0, 1], [0, 0], np.eye(2), [HUGE, 0], 0.9),
    "transition": lambda: MDP.from_arrays([[[HUGE, 0], [0, 1]]], np.zeros((2, 1)), 0.9),
    "step": lambda: MDP.from_step(lambda x: ({"x": x}, HUGE), {"x": [0, 1]}, [0], 0.9),
    "toy text": lambda: MDP.from_gymnasium(
        SimpleNamespace(P={0: {0: [(1.0, 0, HUGE, True)]}}), 0.9
    ),
    "pay": of_stage(Pay(lambda x: HUGE)),
    "pay costs": of_stage(Pay(costs=lambda x: HUGE)),
    "decide": of_stage(Decide("x", to=lambda x: x, pays=lambda x: HUGE)),
    "shift": of_stage(Shift("x", COIN, pays=lambda coin: HUGE)),
    "amount of a shift": of_stage(Shift("x", COIN, by=lambda coin: HUGE)),
    "chances": of_stage(Shift("x", Noise("coin", [0, 1], [HUGE, 0]))),
    "values of a noise": of_stage(Shift("x", Noise("coin", [0, HUGE], [1, 0]))),
    "move": of_stage(Move("x", [[HUGE, 0], [0, 1]])),
    "jump": of_stage(Jump(COIN, to=lambda coin: {"x": coin}, pays=lambda coin: HUGE)),
    "target": of_stage(Jump(COIN, to=lambda coin: {"x": HUGE})),
    "rate": in_time(HUGE),
    "reward of an event": in_time(pays=lambda x: HUGE),
    "reward per time": in_time(pays_rate=HUGE),
    "interest": in_time(interest=HUGE),
    "clock": in_time(clock=HUGE),
    "discount": lambda: MDP.from_arrays(P, R, HUGE),
    "discount of a horizon": lambda: FiniteHorizon(3, HUGE),
    "final": of_stage(Pay(lambda x: x), FiniteHorizon(3, final=HUGE)),
    "axis": lambda: StateGrid(x=[0, HUGE]),
    "actions": lambda: MDP.staged({"x": [0]}, [HUGE], 0.9, [Pay(lambda x: x)]),
}


@pytest.mark.parametrize("build", TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_number_beyond_float64_is_rejected_by_rule_and_size_wherever_it_is_given(build):
    with pytest.raises(ModelError, match=r"about -?10\^400"):
        build()


def test_a_reward_beyond_float64_is_named_with_its_state_and_action():
    said = message(MDP.from_arrays, P, [[0, 0], [0, -HUGE], [0, 0]], 0.9)
    assert said == (
        "rewards must be numbers that float64 can hold; state=1, action=1 is about -10^400 "
        "(1 of 6 entries)"
    )


@pytest.mark.parametrize("values", [[-1.7e308, 1.7e308], [0.0, 1e151], [-np.inf, 0.0]], ids=str)
def test_an_axis_with_values_whose_squares_overflow_is_rejected(values):
    bad = [value for value in values if value]
    assert message(StateGrid, x=values) == (
        "axis values must lie between -1e+150 and 1e+150; "
        f"x holds {bad[0]} ({len(bad)} of 2 values)"
    )


def test_an_axis_with_the_largest_values_can_be_interpolated():
    halved = Decide("x", to=lambda x: x / 2, between="interpolate")
    mdp = MDP.staged({"x": [0.0, 1e150]}, [0], 0.9, [halved])
    assert np.array_equal(mdp.to_arrays("SAS").transition[:, 0], [[1.0, 0.0], [0.5, 0.5]])
