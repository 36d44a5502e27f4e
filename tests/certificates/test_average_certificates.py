"""Certificates of averages: true from every state, and a checker that is not fooled."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import netCDF4
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import criteria
from support.alterations import list_changes, list_leaves, map_field_types
from support.gains import (
    Truth,
    draw_model,
    draw_policy,
    find_contradictions,
    make_certificate,
    make_certificates,
)

import tessella as ts
from tessella.certificates.interval import Interval
from tessella.checker import check
from tessella.checker.claim import AverageClaim

FREE = {("policy", "name"), ("policy", "size")}  # they describe, and the verdict says so


def said_of(content, model) -> str:
    with np.errstate(all="ignore"):
        try:
            return f"HOLDS: {check.check_certificate(content, model)}"
        except check.Rejected as reason:
            return f"REJECTED: {reason}"


def read(folder):
    return (
        check.read_certificate(folder / "certificate.json"),
        check.read_saved_model(folder / "model.nc"),
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with an honest certificate and its model."""
    folder = tmp_path_factory.mktemp("gains")
    solution = ts.solve(criteria.build_unichain(4))
    made = ts.certify(solution, draw_policy(solution.mdp, 4))
    made.save(folder / "certificate.json")
    solution.mdp.save(folder / "model.nc")
    return folder


# What is stated is so.


@pytest.mark.parametrize("seed", range(9))
def test_exact_gains_and_their_difference_lie_inside_narrow_enclosures(seed, tmp_path):
    mdp = criteria.build_unichain(seed)
    solution, policy = ts.solve(mdp), draw_policy(mdp, seed)
    made = ts.certify(solution, policy)
    assert find_contradictions(made, Truth(mdp)) == []
    assert max(made.optimal_mean.width, made.policy_mean.width, made.mean_loss.width) <= 1e-10
    made.save(tmp_path / "certificate.json")
    mdp.save(tmp_path / "model.nc")
    assert said_of(*read(tmp_path)).startswith("HOLDS")


@pytest.mark.parametrize("seed", [975581002217, 975581002936])
def test_rows_that_sum_to_nearly_one_leave_honest_certificates_that_hold(seed, tmp_path):
    """Row sums off by 7e-10, and gains near 0: the square of that is larger than all rounding."""
    mdp = draw_model(seed)
    ts.certify(ts.solve(mdp), draw_policy(mdp, seed)).save(tmp_path / "certificate.json")
    mdp.save(tmp_path / "model.nc")
    assert said_of(*read(tmp_path)).startswith("HOLDS")


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([0.0, 1e-6, 1.0, 1e6]))
def test_what_holds_is_true_from_every_state_whatever_the_chains_and_the_values(
    tmp_path_factory, seed, scale
):
    """Ends just outside of what the values prove, or one just inside of it, in rational numbers."""
    mdp, folder = draw_model(seed), tmp_path_factory.mktemp("edge")
    mdp.save(folder / "model.nc")
    model, truth = check.read_saved_model(folder / "model.nc"), Truth(mdp)
    for made, lie in make_certificates(mdp, truth, draw_policy(mdp, seed), scale, seed):
        made.save(folder / "certificate.json")
        said = said_of(check.read_certificate(folder / "certificate.json"), model)
        assert said.startswith(f"REJECTED: {lie}" if lie else "HOLDS"), said
        if not lie:
            loaded = ts.Certificate.load(folder / "certificate.json")
            assert find_contradictions(loaded, truth) == []


def test_nothing_that_a_solution_says_of_itself_is_believed():
    mdp = criteria.build_unichain(2)
    solution, policy = ts.solve(mdp), draw_policy(mdp, 2)
    noise = np.random.default_rng(0).normal(size=mdp.n_states)
    wrong = replace(
        solution, value=solution.value + noise, gain=solution.gain + 5, policy=mdp.policy(policy)
    )
    made = ts.certify(wrong, policy)
    assert find_contradictions(made, Truth(mdp)) == []
    assert made.optimal_mean.width > 0.1


@pytest.mark.parametrize("leak", [1e-8, 1e-14])
def test_a_chain_that_hardly_leaves_a_state_has_a_narrow_certificate_that_holds(tmp_path, leak):
    rows = np.array([[[1 - leak, leak], [leak, 1 - leak]]] * 2)
    rows[1, 0] = [1 - 2 * leak, 2 * leak]
    mdp = ts.MDP.from_arrays(rows, np.array([[100.0, 60.0], [-30.0, -31.0]]), ts.Average())
    made = ts.certify(ts.solve(mdp), np.array([1, 0]))
    assert find_contradictions(made, Truth(mdp)) == []
    assert made.mean_loss.width < 1e-9
    made.save(tmp_path / "certificate.json")
    mdp.save(tmp_path / "model.nc")
    content, model = read(tmp_path)
    assert said_of(content, model).startswith("HOLDS")
    content["relative_values"]["optimal_value_rest"][1] += 1e-8 / leak
    assert said_of(content, model).startswith("REJECTED")


def test_a_gain_of_zero_holds_beside_rewards_that_decide_nothing(tmp_path):
    rows = np.array([np.eye(2)[::-1], np.eye(2)[::-1]])
    mdp = ts.MDP.from_arrays(rows, np.array([[0.0, -1e6], [0.0, -3.0]]), ts.Average())
    ts.certify(ts.solve(mdp), np.array([0, 0])).save(tmp_path / "certificate.json")
    mdp.save(tmp_path / "model.nc")
    assert said_of(*read(tmp_path)).startswith("HOLDS")


# Documents.


def test_it_reads_back_and_travels_between_processes(files, tmp_path):
    import pickle

    made = ts.Certificate.load(files / "certificate.json")
    assert made.mean_loss == made.worst_loss
    again = pickle.loads(pickle.dumps(made))
    assert (again.content, again.mean_loss) == (made.content, made.mean_loss)
    for other in ({"format": "tessella rule"}, {"version": 1}):
        content = json.loads((files / "certificate.json").read_text())
        (tmp_path / "other.json").write_text(json.dumps(content | other))
        with pytest.raises(ts.FileError, match="have format 'tessella certificate', version 5"):
            ts.Certificate.load(tmp_path / "other.json")


def test_a_figure_that_an_average_does_not_state_is_an_error_that_says_so(files):
    made = ts.Certificate.load(files / "certificate.json")
    assert (made.figures, made.values, made.start, made.blocks) == (None, None, None, None)
    with pytest.raises(ts.TessellaError, match="of average reward does not state 'policy_error'"):
        _ = made.policy_error
    assert getattr(made, "worst_state", None) is None


def test_a_file_without_its_part_or_with_one_of_another_criterion_is_rejected(files, tmp_path):
    content = json.loads((files / "certificate.json").read_text())
    without = {name: part for name, part in content.items() if name != "relative_values"}
    for altered, got in ((without, "none"), (content | {"blocks": 3}, "blocks, relative_values")):
        (tmp_path / "c.json").write_text(json.dumps(altered))
        reason = f"certificate of average reward.* has the parts relative_values; got {got}"
        with pytest.raises(ts.FileError, match=reason):
            ts.Certificate.load(tmp_path / "c.json")


def test_every_leaf_of_an_honest_certificate_counts(files):
    content, model = read(files)
    passed = []
    for path in list_leaves(content):
        owner = content
        for name in path[:-1]:
            owner = owner[name]
        told = owner[path[-1]]
        for other in list_changes(told):
            owner[path[-1]] = other
            if said_of(content, model).startswith("HOLDS") != (path in FREE):
                passed.append((path, told, other))
        owner[path[-1]] = told
    assert passed == []
    assert said_of(content, model).startswith("HOLDS")


@pytest.mark.parametrize("name", sorted({p.split(".")[0] for p in map_field_types(AverageClaim)}))
def test_a_field_that_is_missing_malformed_or_unknown_is_rejected(files, name):
    content, model = read(files)
    assert set(content) == {path.split(".")[0] for path in map_field_types(AverageClaim)}
    without = {key: part for key, part in content.items() if key != name}
    assert said_of(without, model).startswith("REJECTED")
    for other in ([], {}, [None], [1.0, float("nan"), 2.0], 1e308, "x", [10**30] * 3):
        assert said_of(content | {name: other}, model).startswith("REJECTED"), other
    said = said_of(content | {f"{name}s": 1}, model)
    assert said == f"REJECTED: '{name}s' is not a field of a certificate"


@pytest.mark.parametrize(
    "name", ["optimal_mean", "policy_mean", "mean_loss", "worst_loss", "relative_loss"]
)
@pytest.mark.parametrize("end", [1, 2])
def test_an_end_that_is_pulled_in_to_the_value_is_rejected(files, name, end):
    content, model = read(files)
    content[name][end] = content[name][0]
    assert said_of(content, model).startswith("REJECTED")


def test_a_gain_outside_of_its_own_ends_is_rejected(files):
    content, model = read(files)
    content["optimal_mean"][0] = content["policy_mean"][0] = 99.0
    said = said_of(content, model)
    assert said == "REJECTED: optimal_mean does not lie between its own ends"


def test_values_so_large_that_arithmetic_breaks_down_prove_nothing(files):
    content, model = read(files)
    for name in ("optimal_value", "policy_value"):
        forged = copy.deepcopy(content)
        forged["relative_values"][name] = [1e308, -1e308, 1e308, -1e308, 1e300]
        forged["optimal_mean"][1:] = forged["policy_mean"][1:] = [-1e308, 1e308]
        assert said_of(forged, model).startswith("REJECTED")


def test_a_policy_that_takes_an_infeasible_action_is_rejected(tmp_path):
    mdp = draw_model(3)
    state, action = np.argwhere(~mdp.feasible_mask)[0]
    table = draw_policy(mdp, 0)
    gains = [Interval(0, -1e9, 1e9)] * 2
    made = make_certificate(mdp, table, np.zeros((2, mdp.n_states)), gains)
    made.save(tmp_path / "certificate.json")
    mdp.save(tmp_path / "model.nc")
    content, model = read(tmp_path)
    assert said_of(content, model).startswith("HOLDS")
    content["policy"]["table"][state] = int(action)
    assert "an action is not feasible" in said_of(content, model)


# Model files.


def test_the_certificate_of_another_criterion_is_rejected(files, tmp_path):
    content, model = read(files)
    criteria.build_unichain(4).with_discount(0.9).save(tmp_path / "model.nc")
    said = said_of(content, check.read_saved_model(tmp_path / "model.nc"))
    reason = "the model file is of another model: criterion is 0.9, not average as stated"
    assert said == f"REJECTED: {reason}"
    said = said_of(content | {"criterion": 0.9}, model)
    assert "of another model: criterion is average, not 0.9 as stated" in said


@pytest.mark.parametrize("change", ["reward", "data", "criterion"])
def test_foreign_arrays_under_the_true_hash_are_rejected(files, tmp_path, capsys, change):
    (tmp_path / "m.nc").write_bytes((files / "model.nc").read_bytes())
    with netCDF4.Dataset(str(tmp_path / "m.nc"), "a") as file:
        if change == "criterion":
            file.setncattr("criterion", json.dumps("other"))
        else:
            file[change][:] = file[change][:] * 1.5
    assert check.main([str(tmp_path / "m.nc"), str(files / "certificate.json")]) == 1
    said = capsys.readouterr().out
    named = {
        "reward": "of another model: content is",
        "data": "its rows do not sum to 1, as those of an average or a total do",
        "criterion": "must be a discount, a horizon, an average or a total",
    }
    assert named[change] in said


def test_what_the_arrays_of_a_model_may_be_off_widens_what_must_be_stated(files):
    content, model = read(files)
    assert said_of(content, replace(model, reward_error=1e-9)).startswith("REJECTED: optimal_mean")
    assert said_of(content, replace(model, row_error=1e-9)).startswith("REJECTED: optimal_mean")


# Whoever asks.


def test_its_words_say_the_loss_per_period_and_what_is_not_stated(files):
    made = ts.Certificate.load(files / "certificate.json")
    assert "per period" in str(made)
    assert "It gives away" in made.summary()
    assert "Not stated: which single decisions are optimal" in made.summary()
    solution = ts.solve(criteria.build_unichain(4))
    assert "No loss can be seen; it is at most" in str(ts.certify(solution, solution.policy))


def test_questions_about_single_decisions_are_refused():
    solution = ts.solve(criteria.build_unichain(4))
    for asked in ({"eps": 0.1}, {"tol": 0.1}):
        with pytest.raises(ts.ArgumentError, match="eps and tol ask about single decisions"):
            ts.certify(solution, solution.policy, **asked)


def test_a_policy_without_one_average_is_refused():
    still, moving = np.eye(criteria.N_STATES), np.full((criteria.N_STATES, criteria.N_STATES), 0.2)
    reward = np.array([[float(s), 9.0, 8.0] for s in range(criteria.N_STATES)])
    solution = ts.solve(
        criteria.build_stage_model(np.stack([still, moving, moving]), reward, ts.Average())
    )
    with pytest.raises(ts.ModelError, match="this policy has 5 recurrent classes"):
        ts.certify(solution, np.zeros(criteria.N_STATES, int))
