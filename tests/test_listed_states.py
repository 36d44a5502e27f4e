"""States that are only some combinations of the values of their variables."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.listed import find_faults

import tessella as ts
from tessella.errors import ArgumentError, FileError, ModelError
from tessella.grid import StateGrid

# An L of five states on a 3 x 3 grid, listed in no order.
L_STATES = {"x": [0, 2, 0, 1, 0], "y": [2, 0, 1, 0, 0]}


@st.composite
def listed_grids(draw):
    d = draw(st.integers(2, 4))
    points = st.tuples(*[st.integers(-2, 2)] * d)
    rows = draw(st.lists(points, min_size=1, max_size=9, unique=True))
    return StateGrid.from_states({f"v{k}": [row[k] for row in rows] for k in range(d)}), rows


def make_model(grid: StateGrid | None, seed: int = 0, n: int = 5) -> ts.MDP:
    rng = np.random.default_rng(seed)
    rows = rng.dirichlet(np.full(n, 0.5), size=(3, n))
    return ts.MDP.from_arrays(rows, rng.random((n, 3)), 0.9, grid=grid)


@given(listed_grids())
def test_states_keep_the_order_of_the_list_and_others_do_not_exist(drawn):
    grid, rows = drawn
    assert grid.shape == (len(rows),)
    assert grid.size == len(rows)
    np.testing.assert_array_equal(grid.points, rows)
    np.testing.assert_array_equal(grid.nearest(grid.points), np.arange(len(rows)))
    for place in np.ndindex(*grid.lengths):
        values = tuple(int(axis[i]) for axis, i in zip(grid.values, place, strict=True))
        found = int(grid.find_states([np.asarray(i) for i in place]))
        assert found == (rows.index(values) if values in rows else -1)


@given(listed_grids(), st.integers(0, 3))
def test_the_nearest_state_of_a_place_is_the_fewest_steps_away(drawn, seed):
    grid, _ = drawn
    place = [np.array([np.random.default_rng(seed).integers(n)]) for n in grid.lengths]
    steps = np.abs(np.array(grid.positions_of(np.arange(grid.size))) - np.stack(place)).sum(axis=0)
    assert steps[grid.find_nearest(place)[0]] == steps.min()


def test_keys_of_states_stay_small_however_many_axes_there_are():
    columns = {f"v{k}": range(9) for k in range(60)}  # a product of 9^60 places
    grid = StateGrid.from_states(columns)
    assert [grid.state(**dict.fromkeys(columns, i)) for i in range(9)] == [*range(9)]
    with pytest.raises(ArgumentError, match="a state must exist"):
        grid.state(**{name: int(name == "v0") for name in columns})


def test_the_numbers_of_a_model_do_not_depend_on_what_does_not_exist():
    listed = make_model(StateGrid.from_states(L_STATES))
    plain = make_model(None)
    on_list, on_line = ts.solve(listed), ts.solve(plain)
    np.testing.assert_array_equal(on_list.value, on_line.value)
    np.testing.assert_array_equal(on_list.policy.table, on_line.policy.table)
    first = [ts.certify(solution, np.zeros(5, dtype=int)) for solution in (on_list, on_line)]
    assert first[0].mean_loss == first[1].mean_loss
    assert first[0].policy_error == first[1].policy_error
    assert listed.fingerprint != plain.fingerprint
    moved = StateGrid.from_states(x=[0, 2, 0, 1, 1], y=[2, 0, 1, 0, 1])
    assert make_model(moved).fingerprint != listed.fingerprint


def test_a_step_function_leads_to_states_that_exist():
    grid = StateGrid.from_states(L_STATES)

    def step(x, y, action):
        nearer = np.maximum(x + y - 1, 0)
        return {"x": np.where(x > 0, nearer, 0), "y": np.where(x > 0, 0, nearer)}, -1.0 * (x + y)

    mdp = ts.MDP.from_step(step, grid, (0,), 0.5)
    values = dict(zip(zip(*L_STATES.values(), strict=True), ts.solve(mdp).value, strict=True))
    assert values == pytest.approx({(0, 0): 0, (0, 1): -1, (1, 0): -1, (0, 2): -2.5, (2, 0): -2.5})
    with pytest.raises(ModelError, match=r"states that exist; x=0, y=2, .* goes to x=1, y=2"):
        ts.MDP.from_step(lambda x, y: ({"x": np.minimum(x + 1, 2)}, 0.0), grid, (0,), 0.5)


def test_a_start_by_coordinates_means_the_states_that_have_them():
    mdp = make_model(StateGrid.from_states(L_STATES))
    assert mdp.with_start({"y": 0}).start.tolist() == pytest.approx([0, 1 / 3, 0, 1 / 3, 1 / 3])
    with pytest.raises(ArgumentError, match="x=1, y=2 does not exist"):
        mdp.with_start({"x": 1, "y": 2})


def test_a_rule_need_only_fit_the_states_that_exist():
    """Two actions on opposite corners of a square need four leaves; without a corner, three."""
    wanted = np.array([0, 1, 1, 0])

    def find_smallest(n: int) -> ts.Rule:
        grid = StateGrid.from_states(x=[0, 0, 1, 1][:n], y=[0, 1, 0, 1][:n])
        rows = np.full((2, n, n), 1 / n)
        mdp = ts.MDP.from_arrays(rows, np.eye(2)[wanted[:n]], 0.5, grid=grid)
        return ts.compress(ts.solve(mdp), loss=0.0, classes=[ts.AxisTree()])

    assert [(rule.size, rule.size_needed) for rule in map(find_smallest, (4, 3))] == [
        (10, 10),
        (7, 7),
    ]


@settings(max_examples=6)
@given(st.integers(0, 10_000))
def test_values_and_smallest_trees_are_those_of_the_existing_states(seed):
    assert find_faults(seed) == []


def test_too_many_combinations_leave_trees_to_be_searched_among_the_states():
    rng = np.random.default_rng(1)
    columns = {f"v{k}": rng.permutation(60) for k in range(6)}  # 60^6 places
    labels = (columns["v2"] > 20).astype(int) + (columns["v4"] > 30)
    rows = np.full((3, 60, 60), 1 / 60)
    mdp = ts.MDP.from_arrays(rows, np.eye(3)[labels], 0.5, grid=StateGrid.from_states(columns))
    rule = ts.compress(ts.solve(mdp), loss=0.0, time_limit=10)
    np.testing.assert_array_equal(rule.table, labels)
    assert rule.size <= 3 * 4 - 2
    assert any("combinations of values are too many" in o.explanation for o in rule.outcomes)


@pytest.mark.parametrize("ending", ["json", "csv", "py", "sql", "dtcontrol.csv"])
def test_what_is_exported_decides_as_the_rule_in_every_state(tmp_path, ending):
    solution = ts.solve(make_model(StateGrid.from_states(L_STATES), 3))
    rule = ts.compress(solution, loss=0.0, classes=[ts.AxisTree()])
    for policy, name in ((rule, "rule"), (solution.policy, "table")):
        exported = ts.export(policy, tmp_path / f"{name}.{ending}")
        assert exported.states == 5


def test_cells_and_edges_are_those_between_states():
    grid = StateGrid.from_states(L_STATES)
    mdp = make_model(grid)
    # (0,2) and (2,0) act alike; the corner of the L and its neighbours otherwise.
    table = [0, 0, 1, 1, 1]
    tessellation = ts.tessellate(mdp, table)
    assert tessellation.cells.tolist() == [[0, 0, 1], [0, -1, -1], [2, -1, -1]]
    assert tessellation.cell_sizes.tolist() == [3, 1, 1]
    geometry = ts.measure(tessellation)
    assert geometry.edges_per_axis == {"x": 2, "y": 2}
    assert geometry.faces_per_axis == {"x": 1, "y": 1}
    assert geometry.boundary_length == 0.5
    assert geometry.boundary_fraction == 0.8
    assert ts.tessellation.section(tessellation, y=2).cell_sizes.tolist() == [1]


def test_files_keep_which_states_exist(tmp_path):
    mdp = make_model(StateGrid.from_states(L_STATES))
    solution = ts.solve(mdp)
    mdp.save(tmp_path / "model.nc")
    assert ts.MDP.load(tmp_path / "model.nc").fingerprint == mdp.fingerprint
    solution.save(tmp_path / "solution.nc", with_model=True)
    loaded = ts.Solution.load(tmp_path / "solution.nc")
    np.testing.assert_array_equal(loaded.value, solution.value)
    assert solution.dataset.value.dims == ("state",)
    assert solution.dataset.x.values.tolist() == L_STATES["x"]
    for policy in (solution.policy, ts.compress(solution, loss=0.0, classes=[ts.AxisTree()])):
        policy.save(tmp_path / "policy.json")
        again = type(policy).load(tmp_path / "policy.json")
        assert again.grid == mdp.grid
        np.testing.assert_array_equal(again.table, policy.table)
    solution.policy.to_csv(tmp_path / "policy.csv")
    np.testing.assert_array_equal(mdp.policy(tmp_path / "policy.csv").table, solution.policy.table)


def test_the_checker_confirms_a_certificate_and_notices_another_list(tmp_path):
    mdp = make_model(StateGrid.from_states(L_STATES))
    mdp.save(tmp_path / "model.nc")
    certificate = ts.certify(ts.solve(mdp), np.zeros(5, dtype=int))
    certificate.save(tmp_path / "certificate.json")
    assert ts.Certificate.load(tmp_path / "certificate.json").grid == mdp.grid
    check = [sys.executable, "-m", "tessella.checker"]
    files = [tmp_path / "model.nc", tmp_path / "certificate.json"]
    told = subprocess.run([*check, *files], capture_output=True, text=True)
    assert (told.returncode, "HOLDS" in told.stdout) == (0, True), told.stdout + told.stderr
    moved = StateGrid.from_states(x=[0, 2, 0, 1, 1], y=[2, 0, 1, 0, 1])
    make_model(moved).save(tmp_path / "model.nc")
    assert subprocess.run([*check, *files], capture_output=True).returncode == 1


def test_a_table_of_a_place_without_a_state_is_rejected(tmp_path):
    mdp = make_model(StateGrid.from_states(L_STATES))
    ts.solve(mdp).policy.to_csv(tmp_path / "policy.csv")
    text = (tmp_path / "policy.csv").read_text().replace("0,2,", "1,2,")
    (tmp_path / "policy.csv").write_text(text)
    with pytest.raises(FileError, match=r"must hold states of the grid; line \d has 1, 2"):
        mdp.policy(tmp_path / "policy.csv")


def test_what_needs_every_combination_says_so():
    grid = StateGrid.from_states(L_STATES)
    with pytest.raises(ModelError, match=r"a model of stages needs .*; 5 of 9 are"):
        ts.MDP.staged(grid, (0,), 0.9, [ts.Decide("x", to=lambda x: x)])
    with pytest.raises(ModelError, match="a finite horizon needs"):
        make_model(grid).with_criterion(ts.FiniteHorizon(3))
    with pytest.raises(ModelError, match="a model from rates needs"):
        ts.MDP.from_rates(grid, (0,), [ts.Event("tick", 1.0)], 0.1)
    with pytest.raises(ArgumentError, match="examine needs"):
        ts.examine(ts.tessellate(ts.solve(make_model(grid))))


def test_bad_lists_are_rejected():
    with pytest.raises(ModelError, match=r"differ from one another; x=1, y=2 is listed before"):
        StateGrid.from_states(x=[1, 0, 1], y=[2, 2, 2])
    with pytest.raises(ModelError, match="one value of each axis"):
        StateGrid.from_states(x=[1, 0], y=[2, 2, 2])
    with pytest.raises(ModelError, match="at least one axis"):
        StateGrid.from_states()
