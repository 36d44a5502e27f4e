"""Altered files: a clear error, or the content that the file really has."""

from __future__ import annotations

import json
from typing import Any

import netCDF4
import numpy as np
import pytest
from gymnasium.envs.toy_text import FrozenLakeEnv
from support import hostile
from support.hostile import Arrays, build_model, save_honest_files, share_one_text

import tessella as ts
from tessella.checker import check
from tessella.mdp.finite_horizon import FiniteHorizonDynamics
from tessella.mdp.stages import Decide, Noise, Shift


def altered(name, index, value):
    def change(held: Arrays) -> None:
        held.arrays[name][index] = value

    return change


def stating(**attributes):
    return lambda held: held.attributes.update(attributes)


def scaled(held: Arrays) -> None:
    held.arrays["data"][: held.arrays["indptr"][1]] *= 3


FALSE = {
    "a negative probability": (altered("data", 0, -0.1), "rows must not be negative; size=low"),
    "a row that sums to 3": (scaled, "transition rows must sum to 1; size=low, x=0, .* sums to 3"),
    "a row of infinities": (altered("data", 0, np.inf), "transition rows must be finite"),
    "a reward that is no number": (altered("reward", (1, 0), np.nan), "rewards must be finite"),
    "a column beyond the states": (altered("indices", -1, 6), "must lie in 0..5; it holds 6"),
    "a row beyond the rows": (altered("row_of", (0, 0), 99), "'row_of' must lie in 0..14"),
    "a row before the first": (altered("row_of", (0, 0), -1), "it holds -1"),
    "rows that begin backwards": (altered("indptr", 1, -5), "'indptr' must ascend from 0"),
    "a state without an action": (altered("feasible", 0, 0), "infeasible action must have row 0"),
    "a discount of 7": (stating(discount=7.0), r"discount must lie in \[0, 1\); got 7"),
    "an error of rows that hides them": (stating(row_error=0.5), "row_error must lie in"),
    "actions as all combinations": (
        stating(actions=json.dumps({c: [*range(1000)] for c in "abcd"})),
        "the actions of a file must be a list",
    ),
    "a reward that may be anything": (stating(reward_error=1e300), "reward_error must be at most"),
    "axes as an object": (stating(axes='{"size": 0, "x": 1}'), "axes of a file must be a list"),
    "axes as a text": (stating(axes='"x"'), "axes of a file must be a list of names"),
    "an axis that is named twice": (stating(axes='["size", "x", "x"]'), "axes of a file must be a"),
    "a clock that runs backwards": (stating(clock='{"rate": -9}'), "a rate above 0"),
    "a clock with interest below 0": (
        stating(clock='{"rate": 45, "interest": -5}'),
        "the interest rate of .*; got",
    ),
    "a clock of another discount": (
        stating(clock='{"rate": 9, "interest": 2}'),
        "the interest rate of .*; got",
    ),
    "axes that are missing": (stating(axes='["nowhere"]'), "KeyError: 'grid/nowhere'"),
    "a criterion of its own": (stating(criterion='"best"'), "criterion must be a discount"),
}


@pytest.mark.parametrize("case", FALSE)
def test_a_model_file_with_a_new_hash_is_checked_like_a_model_from_arrays(case, tmp_path):
    change, reason = FALSE[case]
    build_model(0).save(tmp_path / "m.nc")
    held = Arrays.read(tmp_path / "m.nc")
    change(held)
    held.write(tmp_path / "m.nc")
    with pytest.raises(ts.FileError, match=rf"m\.nc cannot be read as a saved model; .*{reason}"):
        ts.MDP.load(tmp_path / "m.nc")


def lengthened(held: Arrays, share: float) -> None:
    """All rows too long by this share, as those of stages, which have no fingerprint."""
    held.arrays["data"] *= 1 + share
    held.attributes["kind"] = "staged"


@pytest.mark.parametrize("number", [0, 1, 2, 3])
def test_rows_of_a_file_miss_1_by_no_more_than_many_stages_do_together(number, tmp_path):
    build_model(number).save(tmp_path / "m.nc")
    for share in (1.1e-7, -1.1e-7):
        held = Arrays.read(tmp_path / "m.nc")
        lengthened(held, share)
        if number == 2:
            held.arrays["outcomes/probability"] *= 1 + share
        held.write(tmp_path / "altered.nc")
        with pytest.raises(ts.FileError, match="transition rows must sum to 1"):
            ts.MDP.load(tmp_path / "altered.nc")


@pytest.mark.parametrize("criterion", [0.95, ts.Average(), ts.FiniteHorizon(3)], ids=str)
def test_stages_that_together_miss_1_by_more_than_one_may_are_saved_and_certified(
    criterion, tmp_path
):
    drift = Noise("drift", [-1, 0, 1], [0.3333333331] * 3)  # each stage misses 1 by 7e-10
    pay = Decide("x", lambda x, a: np.maximum(x - a, 0), pays=lambda x, a: 10.0 * x - 3.0 * a)
    stages = [pay, *[Shift("x", drift, edge="clip")] * 4]
    mdp = ts.MDP.staged({"x": range(6)}, [0, 1], criterion, stages, action_name="a")
    solution = ts.solve(mdp)
    assert solution.error_bound < 1e-6
    mdp.save(tmp_path / "m.nc")
    back = ts.solve(ts.MDP.load(tmp_path / "m.nc"))
    apart = np.abs(back.value - solution.value).max()
    assert apart <= back.error_bound + solution.error_bound
    ts.certify(solution, np.ones(mdp.grid.shape, int)).save(tmp_path / "c.json")
    assert check.main([str(tmp_path / "m.nc"), str(tmp_path / "c.json")]) == 0


def test_a_model_with_a_clock_is_the_same_model_after_a_reload(tmp_path):
    for name in ("parallel_queues", "naor_admission"):
        mdp = ts.problem(name).build()
        mdp.save(tmp_path / "m.nc")
        assert ts.MDP.load(tmp_path / "m.nc").clock == mdp.clock


def test_an_error_of_the_rewards_of_a_period_is_bounded_by_the_rewards(tmp_path):
    build_model(1).save(tmp_path / "m.nc")
    for name in ("reward_error", "period_reward_error"):
        held = Arrays.read(tmp_path / "m.nc")
        held.attributes[name] = 1.0
        held.write(tmp_path / "altered.nc")
        with pytest.raises(ts.FileError, match=f" {name} must be at most"):
            ts.MDP.load(tmp_path / "altered.nc")


def test_outcomes_of_other_expectations_than_the_rows_are_rejected(tmp_path):
    build_model(2).save(tmp_path / "m.nc")
    held = Arrays.read(tmp_path / "m.nc")
    held.arrays["outcomes/reward"][0] += 1
    held.write(tmp_path / "m.nc")
    with pytest.raises(ts.FileError, match="must be the expectations of their outcomes"):
        ts.MDP.load(tmp_path / "m.nc")


@pytest.mark.parametrize("name", ["end/final", "end/reward", "reward"])
def test_a_last_period_that_contradicts_the_last_time_is_rejected(name, tmp_path):
    build_model(1).save(tmp_path / "m.nc")
    held = Arrays.read(tmp_path / "m.nc")
    held.arrays[name].flat[-3] += 1e-6
    held.write(tmp_path / "m.nc")
    with pytest.raises(ts.FileError, match="at the last time"):
        ts.MDP.load(tmp_path / "m.nc")


def horizons():
    rng = np.random.default_rng(0)
    P, r = rng.dirichlet(np.ones(5), (3, 5)), rng.normal(size=(5, 3))
    by_outcome = rng.normal(size=(3, 5, 5))
    for periods in (1, 2, 5):
        final = np.arange(5.0) if periods > 1 else 0.0
        yield ts.MDP.from_arrays(P, r, ts.FiniteHorizon(periods, 0.9, final))
    yield ts.MDP.from_arrays(P, by_outcome, ts.FiniteHorizon(3, 1.0, 2.0), minimise=True)
    yield ts.MDP.from_gymnasium(FrozenLakeEnv(), ts.FiniteHorizon(6))
    yield build_model(1)


@pytest.mark.parametrize("mdp", [*horizons()], ids=str)
def test_a_model_with_a_horizon_is_the_same_model_after_a_reload(mdp, tmp_path):
    mdp.save(tmp_path / "m.nc")
    back = ts.MDP.load(tmp_path / "m.nc")
    assert back.fingerprint == mdp.fingerprint
    assert back.content_hash == mdp.content_hash
    found, before = ts.solve(back, ts.BackwardInduction()), ts.solve(mdp, ts.BackwardInduction())
    np.testing.assert_array_equal(found.value, before.value)
    assert found.error_bound == before.error_bound
    paths = [ts.simulate(one, found.policy.table, 4, 0, paths=50).returns for one in (mdp, back)]
    np.testing.assert_array_equal(*paths)


def test_stages_over_a_horizon_come_back_as_periods_of_the_same_expectations(tmp_path):
    mdp = ts.problem("seat_revenue").build(periods=5)
    mdp.save(tmp_path / "m.nc")
    back = ts.MDP.load(tmp_path / "m.nc")
    assert isinstance(back.dynamics, FiniteHorizonDynamics)
    found, before = ts.solve(back, ts.BackwardInduction()), ts.solve(mdp, ts.BackwardInduction())
    apart = np.abs(found.value - before.value).max()
    assert apart <= found.error_bound + before.error_bound < 1e-8
    back.save(tmp_path / "again.nc")
    assert ts.MDP.load(tmp_path / "again.nc").fingerprint == back.fingerprint


def declaring(old: Any, new: Any, longer: str) -> None:
    """A copy whose arrays along one dimension have 200 million entries that were never written."""
    old.set_auto_maskandscale(False)
    new.setncatts({name: old.getncattr(name) for name in old.ncattrs()})
    for name, size in old.dimensions.items():
        new.createDimension(name, 200_000_000 if name == longer else len(size))
    for name, array in old.variables.items():
        options: dict[str, Any] = {} if array.dtype is str else {"zlib": True}
        made = new.createVariable(name, array.dtype, array.dimensions, **options)
        if longer not in array.dimensions:
            made[:] = array[:]
    for name, group in old.groups.items():
        declaring(group, new.createGroup(name), longer)


@pytest.mark.parametrize(("kind", "longer"), [("model", "entry"), ("solution", "sweep")])
def test_a_small_file_that_declares_large_arrays_is_rejected_before_they_are_read(
    kind, longer, tmp_path
):
    files = save_honest_files(0)
    with netCDF4.Dataset(files.path(kind)) as old, netCDF4.Dataset(tmp_path / "b.nc", "w") as new:
        declaring(old, new, longer)
    assert (tmp_path / "b.nc").stat().st_size < 50_000
    load = ts.MDP.load if kind == "model" else lambda path: ts.Solution.load(path, build_model(0))
    with pytest.raises(ts.FileError, match=r"may declare arrays of .*; it declares [34],"):
        load(tmp_path / "b.nc")


def test_labels_that_all_point_at_one_long_text_are_rejected_after_the_second(tmp_path, capsys):
    files, path = save_honest_files(0), tmp_path / "m.nc"
    build_model(0).save(path)
    share_one_text(path, "size", 400, 1 << 20)
    with netCDF4.Dataset(path) as file:  # it is what it should be
        assert len(file["grid"]["size"][399]) == 1 << 20
    with pytest.raises(ts.FileError, match="label 2 is one too many"):
        ts.MDP.load(path)
    assert check.main([str(path), str(files.path("certificate"))]) == 1
    assert "its labels do not fit into a file of its size" in capsys.readouterr().out


def test_one_long_label_among_many_short_ones_is_rejected(tmp_path):
    build_model(0).save(tmp_path / "m.nc")
    held = Arrays.read(tmp_path / "m.nc")
    labels = [f"{i}" for i in range(2000)]
    held.arrays["grid/size"] = np.array([*labels, "x" * 20_000])
    held.write(tmp_path / "m.nc")
    with pytest.raises(ts.FileError, match="must be of about one length; one of 2,001 has 20,000"):
        ts.MDP.load(tmp_path / "m.nc")


def test_a_solution_file_whose_arrays_were_changed_is_rejected(tmp_path):
    files = save_honest_files(0)
    path = tmp_path / "s.nc"
    path.write_bytes(files.path("solution").read_bytes())
    with netCDF4.Dataset(path, "a") as file:
        file["value"][0] += 1e-9
    with pytest.raises(ts.FileError, match="its arrays are not those that were saved"):
        ts.Solution.load(path, build_model(0))


@pytest.mark.parametrize("name", ["value", "q", "policy", "margin", "decided"])
@pytest.mark.parametrize("number", range(hostile.N_MODELS))
def test_a_solution_file_with_a_new_hash_must_agree_with_itself(name, number, tmp_path):
    files = save_honest_files(number)
    held = Arrays.read(files.path("solution"))
    place = int(held.arrays["margin"].ravel().argmax())  # where no other action is nearly as good
    at = 3 * place + int(held.arrays["policy"].flat[place]) if name == "q" else place
    other = {"policy": 1 - min(held.arrays["policy"].flat[place], 1), "decided": 0}
    old = held.arrays[name].flat[at]
    new = old + 1e-3 if np.isfinite(old) else 1.0
    held.arrays[name].flat[at] = other.get(name, new)
    assert held.arrays[name].flat[at] != old
    held.write(tmp_path / "s.nc")
    with pytest.raises(ts.FileError, match=r"must agree with 'q'|must take feasible actions"):
        ts.Solution.load(tmp_path / "s.nc", build_model(number))


@pytest.mark.parametrize("number", range(hostile.N_MODELS))
def test_an_honest_solution_agrees_with_itself(number):
    assert ts.Solution.load(
        save_honest_files(number).path("solution"), build_model(number)
    ).converged


ACTIONS = ["0", None, [0], 0.5, 2**40, -1, True, {"a": 0}]


@pytest.mark.parametrize("action", ACTIONS)
def test_a_rule_file_with_an_action_that_is_none_is_rejected_with_a_file_error(action, tmp_path):
    for load in (ts.Rule.load, ts.Policy.load):
        content = json.loads(save_honest_files(0).path("rule").read_text())
        content["program"] = {"Choose": {"action": action}}
        (tmp_path / "r.json").write_text(json.dumps(content))
        with pytest.raises(ts.FileError, match=r"r\.json cannot be read as a saved"):
            load(tmp_path / "r.json")
    content = json.loads(save_honest_files(0).path("policy").read_text())
    content["table"][0] = action
    (tmp_path / "p.json").write_text(json.dumps(content))
    if action is not True:  # NumPy reads true among whole numbers as 1
        with pytest.raises(ts.FileError, match=r"p\.json cannot be read as a saved policy"):
            ts.Policy.load(tmp_path / "p.json")


@pytest.mark.parametrize(
    "name", ["mean_loss", "worst_loss", "relative_loss", "loss_limit", "periods_per_time"]
)
def test_a_rule_file_with_a_loss_that_is_text_is_rejected_with_a_file_error(name, tmp_path):
    content = json.loads(save_honest_files(0).path("rule").read_text())
    content["facts"][name] = "nothing"
    (tmp_path / "r.json").write_text(json.dumps(content))
    with pytest.raises(ts.FileError, match=f"'{name}' must be a number.*; got 'nothing'"):
        ts.Rule.load(tmp_path / "r.json")


@pytest.mark.parametrize("kind", ["rule", "policy", "certificate"])
def test_an_axis_that_is_no_list_is_rejected(kind, tmp_path):
    content = json.loads(save_honest_files(0).path(kind).read_text())
    axes = content["grid"] if kind == "certificate" else content["axes"]
    axes["size"] = {"low": 1, "mid": 2, "high": 3}
    (tmp_path / "f.json").write_text(json.dumps(content))
    load = {"rule": ts.Rule, "policy": ts.Policy, "certificate": ts.Certificate}[kind].load
    with pytest.raises(ts.FileError, match="'size' must be a list"):
        load(tmp_path / "f.json")


def test_the_checker_rejects_probabilities_that_leave_no_bound(tmp_path, capsys):
    files, path = save_honest_files(1), tmp_path / "m.nc"
    build_model(1).save(path)
    held = Arrays.read(path)
    held.arrays["data"][-1] = 1e300
    held.write(path)
    assert check.main([str(path), str(files.path("certificate"))]) == 1
    assert capsys.readouterr().out.startswith("REJECTED: ")


NODES = [
    {
        "Split": {
            "weights": [["x", 1]],
            "cuts": [2**70],
            "branches": [{"Choose": {"action": 0}}] * 2,
        }
    },
    {"Split": {"weights": [["size", 1.0]], "cuts": [], "branches": [{"Choose": {"action": 0}}]}},
    {"Split": {"weights": [], "cuts": [], "branches": [{"Choose": {"action": 0}}]}},
    {"Split": {"weights": [["x", 1]], "cuts": [2, 1], "branches": [{"Choose": {"action": 0}}] * 3}},
    {"Split": {"weights": [["x", 1]], "cuts": [2], "branches": [{"Choose": {"action": 0}}]}},
    {"Among": {"axis": "x", "labels": ["low"], "inside": {"Choose": {"action": 0}}, "outside": 1}},
    {"Except": {"places": [["low", 9]], "actions": [0], "otherwise": {"Choose": {"action": 0}}}},
    {"Lookup": {"axes": ["x"], "starts": [0, 0], "actions": [0, 1]}},
    {"Lookup": {"axes": ["x"], "starts": [0, 9], "actions": [0, 1]}},
    {"Lookup": {"axes": ["x", "x"], "starts": [0], "actions": [0]}},
]


@pytest.mark.parametrize("node", NODES, ids=str)
def test_a_rule_file_with_a_node_that_cannot_be_asked_is_rejected(node, tmp_path):
    content = json.loads(save_honest_files(0).path("rule").read_text())
    (tmp_path / "r.json").write_text(json.dumps(content | {"program": node}))
    with pytest.raises(ts.FileError, match=rf"{next(iter(node))} in a program"):
        ts.Rule.load(tmp_path / "r.json")


def test_text_that_ends_in_nul_is_no_label():
    with pytest.raises(ts.ModelError, match="must not end in the character NUL"):
        ts.StateGrid({"size": ["low\0", "low"]})


@pytest.mark.parametrize("number", range(hostile.N_MODELS))
def test_files_with_any_part_altered_end_in_our_errors_or_load_what_they_say(number):
    """The quick form of the soak kind ``hostile files``."""
    seeds = range(number, 4 * hostile.N_MODELS, hostile.N_MODELS)
    assert [fault for seed in seeds for fault in hostile.find_faults(seed)] == []
