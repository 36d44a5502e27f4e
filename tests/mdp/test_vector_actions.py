"""Actions of several components: every combination is an action, known by the names of its parts.

The second route numbers the combinations 0, 1, 2, ... and takes them apart by hand.
"""

from __future__ import annotations

import json
import pickle
from functools import cache

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import tessella as ts
from tessella.checker import main as check
from tessella.errors import ArgumentError, FileError, ModelError, PolicyError
from tessella.mdp.simulate import simulate
from tessella.plot import policy_map
from tessella.tessellation import examine, switching_curves

FAST, SLOW = (0, 1, 2), (0, 2)
DEMAND = ts.Noise("demand", range(4), [0.1, 0.4, 0.3, 0.2])


def pays(stock, fast, slow, demand):
    return 4.0 * np.minimum(stock, demand) - 0.3 * stock - 1.3 * fast - 1.0 * slow


def told(actions=None, **options):
    """Two suppliers: the fast one delivers at once, the slow one after demand."""
    return ts.MDP.staged(
        {"stock": range(9)},
        actions or {"fast": FAST, "slow": SLOW},
        0.9,
        [
            ts.Pay(lambda order: -0.25 * (order["fast"] > 0)),
            ts.Decide("stock", to=lambda stock, fast: np.minimum(stock + fast, 8)),
            ts.Shift("stock", DEMAND, by=lambda demand: -demand, pays=pays),
            ts.Shift("stock", ts.Noise("none", [0], [1.0]), by=lambda none, slow: none + slow),
        ],
        action_name="order",
        **options,
    )


def numbered(**options):
    """The same with actions 0..5, a step at a time."""

    def step(stock, order, demand):
        fast, slow = np.asarray(FAST)[order // 2], np.asarray(SLOW)[order % 2]
        after = np.minimum(stock + fast, 8)
        left = np.minimum(np.maximum(after - demand, 0) + slow, 8)
        return {"stock": left}, pays(after, fast, slow, demand) - 0.25 * (fast > 0)

    return ts.MDP.from_step(
        step, {"stock": range(9)}, range(6), 0.9, DEMAND, action_name="order", **options
    )


@cache
def solved():
    return ts.solve(told())


def action_values(mdp):
    """(S, A) by plain sweeps over dense arrays, -inf where infeasible."""
    dense = mdp.to_arrays()
    penalty = np.where(mdp.feasible_mask, 0, -np.inf)
    value = np.zeros(mdp.n_states)
    for _ in range(400):
        q = dense.reward + 0.9 * np.moveaxis(dense.transition, 0, 1) @ value + penalty
        value = q.max(axis=1)
    return q


def message(function, *args, **options) -> str:
    with pytest.raises((ModelError, PolicyError, ArgumentError, FileError)) as caught:
        function(*args, **options)
    return str(caught.value)


def test_every_combination_is_an_action_and_the_model_is_that_of_its_numbers():
    one, two = told(), numbered()
    assert [tuple(a) for a in one.actions] == [(f, s) for f in FAST for s in SLOW]
    a, b = one.to_arrays(), two.to_arrays()
    np.testing.assert_allclose(a.transition, b.transition, atol=1e-15)
    np.testing.assert_allclose(a.reward, b.reward, atol=1e-14)
    q = action_values(two)
    np.testing.assert_allclose(solved().value, q.max(axis=1), rtol=1e-12)
    np.testing.assert_array_equal(solved().policy.table, q.argmax(axis=1))


@settings(max_examples=20, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    seed=st.integers(0, 2**32 - 1),
)
def test_whatever_the_components_their_combinations_are_those_of_nested_loops(sizes, seed):
    rng = np.random.default_rng(seed)
    names = [f"c{i}" for i in range(len(sizes))]
    weights = dict(zip(names, rng.integers(1, 9, len(sizes)), strict=True))
    actions = {n: [10 * k for k in range(size)] for n, size in zip(names, sizes, strict=True)}
    mdp = ts.MDP.staged(
        {"x": range(4)},
        actions,
        0.5,
        [
            ts.Decide(
                "x",
                to=lambda x, **given: (x + sum(given[n] // 10 for n in names)) % 4,
                pays=lambda x, **given: x + sum(w * given[n] for n, w in weights.items()),
            )
        ],
        feasible=lambda x, **given: (given["c0"] == 0) | (x > 0),
    )
    a, arrays = 0, mdp.to_arrays()
    for combination in np.ndindex(*sizes):
        assert mdp.actions[a].record == {n: 10 * k for n, k in zip(names, combination, strict=True)}
        for x in range(4):
            assert mdp.feasible_mask[x, a] == (combination[0] == 0 or x > 0)
            if mdp.feasible_mask[x, a]:
                assert arrays.transition[a, x, (x + sum(combination)) % 4] == 1
                assert arrays.reward[x, a] == x + 10 * np.dot([*weights.values()], combination)
        a += 1
    assert a == mdp.n_actions


def test_actions_are_shown_by_the_names_of_their_components():
    mdp = told()
    assert repr(mdp) == ("MDP(stock 9; 6 order actions (fast, slow), discount 0.9, staged)")
    assert mdp.describe(3, 5) == "stock=3, fast=2, slow=2"
    assert mdp.actions[5]["slow"] == mdp.actions[5][1] == 2
    assert pickle.loads(pickle.dumps(mdp.actions)) == mdp.actions
    assert pickle.loads(pickle.dumps(mdp.actions[5])).names == ("fast", "slow")
    assert (
        mdp.actions[5]
        != ts.MDP.staged(
            {"x": [0]}, {"slow": [2], "fast": [2]}, 0.9, [ts.Pay(lambda: 0.0)]
        ).actions[0]
    )


def test_decisions_are_records():
    policy, table = solved().policy, action_values(numbered()).argmax(axis=1)
    np.testing.assert_array_equal(policy.decisions["fast"], np.asarray(FAST)[table // 2])
    np.testing.assert_array_equal(policy.decisions["slow"], np.asarray(SLOW)[table % 2])
    asked = policy.decide([[0], [8]])
    assert asked.tolist() == [tuple(policy.decisions[0]), tuple(policy.decisions[8])]
    assert asked["fast"].tolist() == policy.decisions["fast"][[0, 8]].tolist()


def test_a_policy_may_be_told_by_component():
    mdp, dense = told(), numbered().to_arrays()
    table = np.where(np.arange(9) < 3, 2 * 2 + 1, 1)  # fast=2, slow=2 below 3, else slow=2
    at = np.arange(9)
    expected = np.linalg.solve(
        np.eye(9) - 0.9 * dense.transition[table, at], dense.reward[at, table]
    )

    def rule(stock):
        return {"slow": 2, "fast": np.where(stock < 3, 2, 0)}

    def flat(points):
        return {"fast": np.where(points[:, 0] < 3, 2, 0), "slow": np.full(9, 2)}

    records = mdp.policy(rule).decisions
    turned = records[["slow", "fast"]]
    for source in (rule, flat, rule(np.arange(9)), records, turned, lambda stock: turned, table):
        np.testing.assert_array_equal(mdp.policy(source).table, table)
    np.testing.assert_allclose(ts.evaluate(mdp, rule).value, expected, rtol=1e-12)


def test_files_keep_combinations(tmp_path):
    solution = solved()
    mdp = solution.mdp
    mdp.save(tmp_path / "model.nc")
    again = ts.MDP.load(tmp_path / "model.nc")
    assert again.actions == mdp.actions
    assert again.actions[0].names == ("fast", "slow")
    assert again.content_hash == ts.MDP.load(tmp_path / "model.nc").content_hash
    again.save(tmp_path / "again.nc")
    assert ts.MDP.load(tmp_path / "again.nc").fingerprint == again.fingerprint
    solution.save(tmp_path / "solution.nc")
    np.testing.assert_array_equal(
        ts.Solution.load(tmp_path / "solution.nc", mdp).policy.table, solution.policy.table
    )
    with xr.open_dataset(tmp_path / "solution.nc") as file:
        assert {"fast", "slow", "order"} <= set(file.coords)
    chosen = solution.dataset.sel(order="fast=2, slow=0")
    assert (int(chosen["fast"]), int(chosen["slow"])) == (2, 0)
    solution.policy.save(tmp_path / "policy.json")
    for policy in (ts.Policy.load(tmp_path / "policy.json"), solution.policy):
        policy.to_csv(tmp_path / "policy.csv")
        assert (tmp_path / "policy.csv").read_text().splitlines()[0] == "stock,fast,slow"
        for path in ("policy.csv", "policy.json"):
            read = mdp.policy(tmp_path / path)
            np.testing.assert_array_equal(read.table, solution.policy.table)


def test_certificates_speak_of_components_and_are_checked(tmp_path):
    mdp = solved().mdp
    certificate = ts.certify(solved(), lambda stock: {"fast": 0, "slow": 0 * stock})
    assert "order fast=0, slow=0 where fast=" in certificate.summary()
    mdp.save(tmp_path / "model.nc")
    certificate.save(tmp_path / "certificate.json")
    written = json.loads((tmp_path / "certificate.json").read_text())
    assert written["actions"][3] == {"fast": 1, "slow": 2}
    again = ts.Certificate.load(tmp_path / "certificate.json")
    assert again.summary() == certificate.summary()
    assert check([str(tmp_path / "model.nc"), str(tmp_path / "certificate.json")]) == 0


def test_maps_and_structure_tests_go_by_component():
    solution = solved()
    mdp = solution.mdp
    whole = ts.tessellate(solution)
    assert whole.action_of(0) == str(mdp.actions[solution.policy.table[0]])
    assert "monotone in stock" not in examine(whole).evidence  # combinations have no order
    assert str(whole.actions[-1]) in str(
        switching_curves(ts.tessellate(mdp, np.full(9, 5)), "stock")
    )
    for name, values in (("fast", FAST), ("slow", SLOW)):
        part = ts.tessellate(solution, component=name)
        assert (part.actions, part.action_name) == (values, name)
        np.testing.assert_array_equal(
            np.asarray(values)[part.table], solution.policy.decisions[name]
        )
        assert examine(part).evidence["monotone in stock"].claim == f"{name} falls in stock"


def test_a_legend_names_the_components():
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    policy_map(axes, ts.tessellate(solved()))
    legend = next(a for a in axes.artists if hasattr(a, "get_texts"))
    assert [t.get_text() for t in legend.get_texts()] == [str(a) for a in told().actions][::-1]


def test_a_simulation_pays_by_component():
    one, two = told(), numbered()
    table = np.full(9, 3)
    mine, theirs = (simulate(m, table, 5, rng=1, paths=2000).returns for m in (one, two))
    assert abs(mine.mean() - theirs.mean()) < 0.1 * abs(theirs.mean())


def test_learners_and_arrays_take_combinations():
    mdp = solved().mdp
    sample = ts.draw(solved(), 40, rng=0)
    assert "fast=" in str(sample)
    fitted = ts.fit(ts.LocalBoundary(), sample)
    assert fitted.decisions.dtype.names == ("fast", "slow")
    dense = mdp.to_arrays()
    again = ts.MDP.from_arrays(
        dense.transition,
        dense.reward,
        0.9,
        grid=mdp.grid,
        actions={"fast": FAST, "slow": SLOW},
        action_name="order",
    )
    assert again.actions == mdp.actions
    np.testing.assert_array_equal(again.to_arrays().transition, dense.transition)


def test_some_of_the_combinations_are_given_as_records():
    few = [{"fast": 0, "slow": 2}, {"fast": 2, "slow": 0}]
    mdp, whole = told(few), told(feasible=lambda fast, slow: fast + slow == 2)
    assert [a.record for a in mdp.actions] == few
    few_q, whole_q = action_values(mdp), action_values(whole)
    np.testing.assert_allclose(few_q, whole_q[:, [1, 4]], rtol=1e-12)
    assert whole.feasible_mask[0].tolist() == [False, True, False, False, True, False]


def test_the_order_and_the_names_of_components_are_part_of_a_model():
    def model(actions):
        return ts.MDP.staged({"x": [0]}, actions, 0.9, [ts.Pay(lambda: 1.0)]).fingerprint

    prints = [
        model(actions)
        for actions in ({"a": [0, 1]}, {"b": [0, 1]}, {"a": [0], "b": [0, 1]}, [0, 1])
    ]
    assert len(set(prints)) == 4


def test_faulty_combinations():
    def wrong(actions, **options):
        grid, stages = {"x": range(2)}, [ts.Pay(lambda: 0.0)]
        return message(ts.MDP.staged, grid, actions, 0.9, stages, **options)

    assert wrong({"a": range(2), "b": []}) == (
        "a component of the actions needs at least one value; b has none"
    )
    assert wrong({}) == "a model needs at least one action"
    assert wrong({"a": [0, "low"]}) == (
        "component 'a' of the actions must be all numbers or all text; got [0, 'low']"
    )
    assert wrong({"a": 3}) == "component 'a' of the actions must be a list of values; got 3"
    assert wrong({"a": "low"}) == "component 'a' of the actions must be a list of values; got 'low'"
    assert wrong({"a": [0.0, np.nan]}) == "component 'a' of the actions must be finite; got nan"
    assert wrong({"a": {0, 1}}) == (
        "component 'a' of the actions must have an order, which a set does not keep; give a list"
    )
    assert wrong({"a": [0, 1, 0], "b": [5]}) == (
        "actions must differ from one another; a=0, b=5 occurs 2 times"
    )
    assert (
        wrong({"x": range(2)})
        == "a component of the actions cannot be called 'x': an axis has this name"
    )
    assert wrong({"action": range(2)}) == (
        "a component of the actions cannot be called 'action': the action has this name"
    )
    assert wrong({"value": range(2)}).startswith(
        "a component of the actions cannot be called 'value': a solution holds"
    )
    assert wrong({"a b": range(2)}) == "the name of a component must be an identifier; got 'a b'"
    assert wrong([(0, 1), (1, "low")]) == (
        "actions of several parts must name them, as in {'a': range(3), 'b': range(3)}; got (0, 1)"
    )
    assert wrong([0, (1, 2)]).startswith("actions of several parts must name them")
    assert wrong([{"a": 0, "b": 1}, {"a": 0}]) == (
        "all actions must have the same components, a, b; got (a=0)"
    )
    assert wrong([{"a": 0}, 1]) == "all actions must have the same components, a; got 1"
    assert wrong([1, {"a": 0}]) == "all actions must have the same components, or none; got (a=0)"
    assert wrong([{"a": 0}, {"a": "low"}]) == (
        "component 'a' of the actions must be all numbers or all text; got [0, 'low']"
    )


def test_faults_of_a_model_name_the_components():
    assert message(
        ts.MDP.staged,
        {"x": range(2)},
        {"a": range(2), "b": range(2)},
        0.9,
        [ts.Decide("x", to=lambda x, a, b: x + a * b)],
    ) == (
        "deciding x leaves the grid: x must stay on its axis; x=1, a=1, b=1 goes to x=2 "
        "(1 of 8 cases)"
    )
    noise = ts.Noise("a", [0, 1], [0.5, 0.5])
    stages = [ts.Shift("x", noise)]
    assert message(ts.MDP.staged, {"x": range(2)}, {"a": range(2)}, 0.9, stages) == (
        "a noise cannot be called 'a': that name is taken"
    )
    dense = told().to_arrays()
    dense.transition[3, 2, 0] += 0.5
    assert "stock=2, fast=1, slow=2 sums to 1.5" in message(
        ts.MDP.from_arrays,
        dense.transition,
        dense.reward,
        0.9,
        grid={"stock": range(9)},
        actions={"fast": FAST, "slow": SLOW},
    )


def test_faulty_policies_by_component(tmp_path):
    mdp = told()
    assert message(mdp.policy, lambda stock: {"fast": 0 * stock}) == (
        "a policy must give each of fast, slow; got fast"
    )
    assert message(mdp.policy, {"fast": 0, "slow": np.where(np.arange(9) < 8, 0, 7)}) == (
        "order must be one of (fast=0, slow=0), (fast=0, slow=2), (fast=1, slow=0), "
        "(fast=1, slow=2), (fast=2, slow=0), (fast=2, slow=2); "
        "stock=8 gets fast=0, slow=7 (1 of 9 states)"
    )
    assert message(mdp.policy, {"fast": np.zeros(3), "slow": np.zeros(4)}) == (
        "the components of a policy must broadcast to one another; got shapes fast (3,), slow (4,)"
    )
    assert message(mdp.policy, np.zeros(9, [("fast", int), ("other", int)])) == (
        "a policy must give each of fast, slow; got fast, other"
    )
    (tmp_path / "short.csv").write_text("stock,fast\n0,1\n")
    assert message(mdp.policy, tmp_path / "short.csv") == (
        "short.csv must have a column 'slow'; its columns are stock, fast"
    )
    assert message(ts.tessellate, solved(), component="medium") == (
        "no component is called 'medium'; the components are fast, slow"
    )
    plain = numbered()
    assert message(ts.tessellate, plain, np.zeros(9, int), component="fast") == (
        "no component is called 'fast'; actions have no components"
    )
