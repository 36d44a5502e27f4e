"""A policy is a rule first; one conversion for policies and one for starts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import tessella as ts
from tessella.errors import ArgumentError, FileError, PolicyError


@dataclass(frozen=True)
class BaseStock:
    """Order up to a level, in lots: two numbers."""

    level: float
    lot: float
    name: str = "base stock"
    size: int = 2

    def __call__(self, points):
        return np.clip(np.ceil((self.level - points[:, 0]) / self.lot), 0, 4).astype(int)


@pytest.fixture(scope="module")
def inventory():
    return ts.solve(ts.benchmark("INV-Mix"))


def test_a_rule_for_a_billion_states_holds_its_own_numbers_and_no_table():
    grid = ts.StateGrid(stock=range(1000), transit=range(1000), age=range(1000))
    policy = ts.Policy(grid, (0, 4, 8, 12, 16), BaseStock(9.0, 4.0), "base stock", "order")
    assert policy.size == 2
    assert policy.act([[3, 7, 1], [900, 1, 1]]).tolist() == [2, 0]
    assert policy.decide([[3, 7, 1], [900, 1, 1]]).tolist() == [8, 0]
    assert "table" not in policy.__dict__


def test_a_table_is_computed_when_asked_for_a_slab_at_a_time():
    asked = []

    class Counting(BaseStock):
        def __call__(self, points):
            asked.append(len(points))
            return super().__call__(points)

    mdp = ts.benchmark("INV-Mix")
    policy = ts.Policy(mdp.grid, mdp.actions, Counting(9.0, 4.0), chunk_states=100)
    assert asked == []
    whole = BaseStock(9.0, 4.0)(mdp.grid.points).reshape(mdp.grid.shape)
    assert np.array_equal(policy.table, whole)
    assert max(asked) == 100 < mdp.n_states
    assert sum(asked) == mdp.n_states
    assert np.array_equal(policy.decisions, np.array(mdp.actions)[whole])


def test_off_the_grid_a_table_takes_the_nearest_state_and_a_rule_the_point_itself():
    mdp = ts.benchmark("INV-Mix")
    rule = ts.Policy(mdp.grid, mdp.actions, BaseStock(9.0, 4.0))
    table = ts.Policy.from_table(mdp.grid, mdp.actions, rule.table)
    point = [[4.9, 0.0]]
    assert rule.act(point).tolist() == [2]  # ceil(4.1 / 4)
    assert table.act(point).tolist() == [1]  # as at 5


def sources(solution, folder):
    """The same policy in every form that can decide."""
    mdp, rule = solution.mdp, BaseStock(9.0, 4.0)
    policy = mdp.policy(rule)
    policy.to_csv(folder / "policy.csv")
    policy.save(folder / "policy.json")

    class Estimator:
        def predict(self, points):
            return np.array(mdp.actions)[rule(points)]

    class Carrier:
        pass

    carrier = Carrier()
    carrier.policy = policy
    return {
        "rule": rule,
        "policy": policy,
        "carrier": carrier,
        "table": policy.table,
        "list": policy.table.tolist(),
        "function": lambda stock, regime: 4 * np.clip(np.ceil((9 - stock) / 4), 0, 4) + 0 * regime,
        "estimator": Estimator(),
        "csv": folder / "policy.csv",
        "json": str(folder / "policy.json"),
    }


FORMS = ["rule", "policy", "carrier", "table", "list", "function", "estimator", "csv", "json"]


@pytest.mark.parametrize("form", FORMS)
def test_every_verb_takes_every_form_of_a_policy(inventory, tmp_path, form):
    source = sources(inventory, tmp_path)[form]
    mdp = inventory.mdp
    plain = mdp.policy(BaseStock(9.0, 4.0)).table
    assert np.array_equal(mdp.policy(source).table, plain)
    assert np.array_equal(ts.evaluate(mdp, source).policy.table, plain)
    assert np.array_equal(ts.occupancy(mdp, source, start=0).policy.table, plain)
    assert np.array_equal(ts.tessellate(mdp, source).table, plain)
    first = ts.simulate(mdp, source, 3, 1, start={"stock": 2, "regime": 0}).actions[0, 0]
    assert first == plain[2, 0]
    assert np.array_equal(ts.certify(inventory, source).policy.table, plain)
    assert np.isfinite(ts.estimate(mdp, source, rng=1, paths=4, periods=2).mean)
    assert ts.compare(inventory, source).b.table is not None


def test_a_solution_stands_for_its_policy_in_every_verb(inventory):
    mdp = inventory.mdp
    assert ts.evaluate(mdp, inventory).value == pytest.approx(inventory.value, abs=1e-8)
    assert ts.simulate(mdp, inventory, 2, 1, start=0).actions.shape == (1, 2)
    assert ts.compare(inventory, inventory).disagreement == 0


def test_an_infeasible_policy_is_refused_by_every_verb():
    feasible = np.array([[True, False], [True, True], [True, False]])
    mdp = ts.MDP.from_arrays(np.full((2, 3, 3), 1 / 3), np.zeros((3, 2)), 0.9, feasible=feasible)
    solution = ts.solve(mdp)
    verbs = (
        lambda: mdp.policy([1, 1, 1]),
        lambda: ts.evaluate(mdp, [1, 1, 1]),
        lambda: ts.occupancy(mdp, [1, 1, 1]),
        lambda: ts.simulate(mdp, [1, 1, 1], 1, 0),
        lambda: ts.tessellate(mdp, [1, 1, 1]),
        lambda: ts.compare(solution, [1, 1, 1]),
        lambda: ts.certify(solution, [1, 1, 1]),
    )
    for verb in verbs:
        with pytest.raises(PolicyError, match="a policy must take feasible actions; state=0"):
            verb()


def test_a_policy_that_is_saved_keeps_name_size_and_actions(inventory, tmp_path):
    policy = inventory.mdp.policy(BaseStock(9.0, 4.0))
    policy.save(tmp_path / "p.json")
    back = ts.Policy.load(tmp_path / "p.json")
    assert (back.name, back.size, back.actions) == ("base stock", 2, policy.actions)
    assert (back.grid, back.action_name) == (policy.grid, "order")
    assert np.array_equal(back.table, policy.table)


def test_text_axes_and_names_survive_csv(tmp_path):
    grid = {"mood": ["low", "a,b", 'quo"te'], "x": [0.1, 0.30000000000000004]}
    mdp = ts.MDP.from_arrays(
        np.full((2, 6, 6), 1 / 6), np.zeros((6, 2)), 0.9, grid=grid, actions=("wait", "go, now")
    )
    policy = mdp.policy([0, 1, 1, 0, 0, 1])
    policy.to_csv(tmp_path / "p.csv")
    assert np.array_equal(mdp.policy(tmp_path / "p.csv").table, policy.table)


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": "tessella policy", "version": 9}'])
def test_a_file_that_is_no_policy_is_refused(tmp_path, text):
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(FileError, match=r"p\.json cannot be read as a saved policy; "):
        ts.Policy.load(tmp_path / "p.json")


# Starts.


def test_a_start_by_coordinates_is_that_state_and_some_coordinates_are_all_that_have_them():
    mdp = ts.benchmark("INV-Mix")
    at = mdp.with_start({"stock": 3, "regime": 7}).start
    assert np.flatnonzero(at).tolist() == [mdp.grid.state(stock=3, regime=7)]
    some = mdp.with_start({"stock": 3}).start.reshape(mdp.grid.shape)
    assert some[3] == pytest.approx(1 / 25)
    assert some.sum() == pytest.approx(1)


def chain(p, q):
    """0 <-> 1 with these probabilities, one action."""
    return ts.MDP.from_arrays(np.array([[[1 - p, p], [q, 1 - q]]]), np.array([1.0, 0.0]), 0.9)


@pytest.mark.parametrize(("p", "q"), [(0.2, 0.6), (1.0, 1.0), (1e-3, 2e-3)])
def test_a_stationary_start_is_the_long_run_distribution_even_of_a_periodic_chain(p, q):
    mdp = chain(p, q)
    found = ts.occupancy(mdp, [0, 0], start="stationary")
    assert found.start == pytest.approx([q / (p + q), p / (p + q)], abs=1e-9)
    # Started there, the discounted share of time is the same.
    assert found.share == pytest.approx(found.start, abs=1e-8)


def test_a_stationary_start_is_of_the_policy_in_question(inventory):
    mdp = inventory.mdp
    lazy, optimal = np.zeros(mdp.grid.shape, int), inventory.policy
    never = ts.certify(inventory, lazy, start="stationary").start
    best = ts.certify(inventory, optimal, start="stationary").start
    assert never[0].sum() > 0.99  # without orders the shelf is empty
    assert best[0].sum() < 0.9
    paths = ts.simulate(mdp, optimal, 1, 1, paths=4000, start="stationary")
    seen = np.bincount(paths.states[:, 0], minlength=mdp.n_states)
    assert np.abs(seen / 4000 - best.ravel()).sum() < 0.5


@pytest.mark.parametrize(
    ("start", "found"),
    [
        ("x=0", "got the text 'x=0'"),
        ({"y": 0}, "no axis is called 'y'"),
        ({"state": 9}, "a start must lie on the grid; state=9"),
        ({"state": [0, 1]}, "a start must lie on the grid"),
        ("stationary", "a stationary start needs a policy"),
    ],
)
def test_a_start_that_makes_no_sense_is_refused_in_words(start, found):
    with pytest.raises(ArgumentError, match=found):
        chain(0.5, 0.5).with_start(start)


def test_a_process_that_ends_has_no_long_run():
    table = {0: {0: [(0.5, 0, 1.0, False), (0.5, 0, 0.0, True)]}}
    env = type("Env", (), {"P": table})()
    mdp = ts.MDP.from_gymnasium(env, 0.9)
    with pytest.raises(ArgumentError, match="a process that ends has no long run"):
        ts.occupancy(mdp, [0], start="stationary")
