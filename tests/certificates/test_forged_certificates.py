"""The checker attacked: HOLDS must mean that every statement is true, whoever wrote it."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import subprocess
import sys
from fractions import Fraction

import netCDF4
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.alterations import list_changes, list_leaves
from support.forgeries import LIES, forge, shift_values
from support.hostile import Arrays
from support.models import Exact
from support.truth import draw_case, draw_cases, find_contradictions

import tessella as ts
from tessella.certificates.certify import certify
from tessella.checker import check
from tessella.checker.claim import CERTIFICATE_MAX_BYTES, INTERVAL_PARTS, check_interval


def verdict(folder, certificate, mdp) -> str:
    """What the checker says of a certificate and a model, by way of their files."""
    certificate.save(folder / "c.json")
    mdp.save(folder / "m.nc")
    content, model = (
        check.read_certificate(folder / "c.json"),
        check.read_saved_model(folder / "m.nc"),
    )
    return said_of(content, model)


def said_of(content, model) -> str:
    with np.errstate(all="ignore"):
        try:
            return f"HOLDS: {check.check_certificate(content, model)}"
        except check.Rejected as reason:
            return f"REJECTED: {reason}"


FACTORS = [1.0, 1 - 1e-9, 0.9, 0.5, 1e-3, 0.0]


@settings(max_examples=50, deadline=None)
@given(
    case=draw_cases(),
    lie=st.sampled_from(sorted(LIES)),
    factor=st.sampled_from(FACTORS),
    off=st.sampled_from([0.0, 1e-9, 1e-3, 0.5]),
    seed=st.integers(0, 1000),
)
@example(case=draw_case(64628), lie="the shares", factor=1.0, off=0.5, seed=0)
def test_what_holds_is_true_in_rational_arithmetic_whatever_lie_was_told(
    tmp_path_factory, case, lie, factor, off, seed
):
    solution, policy, start, truth = case
    noise = np.random.default_rng(seed).uniform(-1, 1, solution.value.shape)
    wrong = shift_values(solution, off * np.abs(solution.value).max() * noise)
    forged = forge(wrong, policy, start, lie, factor)
    if forged is None:
        return
    folder = tmp_path_factory.mktemp("attack")
    said = verdict(folder, forged, solution.mdp)
    if said.startswith("HOLDS"):
        assert find_contradictions(ts.Certificate.load(folder / "c.json"), truth) == []
    if factor == 1.0 and lie != "the occupancy":
        assert said.startswith("HOLDS"), said


@settings(max_examples=15, deadline=None)
@given(case=draw_cases(), off=st.sampled_from([1e-9, 1e-3, 0.5]), seed=st.integers(0, 1000))
@example(case=draw_case(5921276), off=1e-9, seed=0)  # a loss of 1e-297 over a value of 1e-310
def test_an_error_just_below_what_its_residual_proves_is_rejected(
    tmp_path_factory, case, off, seed
):
    """The edge itself, in rational arithmetic: r / (1 - c)."""
    solution, policy, start, _ = case
    mdp = solution.mdp
    size = np.abs(solution.value).max() + 1e-300
    noise = np.random.default_rng(seed).uniform(-1, 1, solution.value.shape)
    wrong = shift_values(solution, off * size * noise)
    honest = certify(wrong, policy, start)
    arrays = mdp.to_arrays()
    exact = Exact(arrays.transition, np.where(arrays.feasible, arrays.reward, 0), mdp.discount)
    value = [Fraction(float(v)) for v in wrong.value]
    options = [np.flatnonzero(row).tolist() for row in mdp.feasible_mask]
    residual = max(
        abs(max(exact.q(value, s, a) for a in options[s]) - v) for s, v in enumerate(value)
    )
    row = max(sum(exact.P[a][s]) for s in range(exact.n) for a in options[s])
    edge = residual / (1 - exact.gamma * row)
    assert Fraction(honest.optimal_value_error) >= edge
    factor = float(edge / Fraction(honest.optimal_value_error)) * (1 - 1e-9)
    forged = forge(wrong, policy, start, "the error of the optimum", factor)
    if forged is not None:
        folder = tmp_path_factory.mktemp("edge")
        assert verdict(folder, honest, mdp).startswith("HOLDS")
        said = verdict(folder, forged, mdp)
        assert said.startswith("REJECTED: the optimal value does not satisfy"), said


@pytest.mark.parametrize("lie", sorted(LIES))
def test_no_lie_of_any_kind_passes_when_it_is_large(queue, tmp_path, lie):
    rng = np.random.default_rng(1)
    table = np.where(rng.random(queue.policy.table.shape) < 0.2, 0, queue.policy.table)
    coarse = ts.solve(queue.mdp, tol=1.0)  # so that there is something to hide
    forged = forge(coarse, table, None, lie, 0.0)
    assert forged is None or verdict(tmp_path, forged, queue.mdp).startswith("REJECTED")
    assert verdict(tmp_path, certify(coarse, table), queue.mdp).startswith("HOLDS")


def test_a_value_that_satisfies_the_necessary_condition_alone_is_not_believed(tmp_path):
    """r <= (1 + c) e follows from |V - V*| <= e, and not the other way round."""
    g = 0.9999
    P = np.array([[[1.0, 0], [1, 0]], [[0, 1.0], [0, 1]]])
    R = np.array([[0.0, 0], [1, 0]])
    mdp = ts.MDP.from_arrays(P, R, g, layout="SAS")
    solution = ts.solve(mdp)
    V = np.array([0.0, 5100.0])
    e = (1 - g) * 4900 / (1 + g) * (1 + 1e-7)
    q = np.sort(R + g * np.einsum("sat,t->sa", P, V), 1)
    m = q[:, 1] - q[:, 0]
    wrong = dataclasses.replace(
        solution,
        value=V,
        error_bound=e,
        margin=m,
        accuracy=solution.accuracy._replace(error=e, tie_tolerance=2 * g * e),
    )
    honest = certify(wrong, [0, 1])
    assert 10_000 in honest.worst_loss  # certify believes the residual, not the solution
    assert verdict(tmp_path, honest, mdp).startswith("HOLDS")
    share = e / honest.optimal_value_error
    forged = forge(wrong, [0, 1], None, "the error of the optimum", share)
    assert verdict(tmp_path, forged, mdp).startswith("REJECTED: the optimal value does not")


# The document.


def small(tmp_path):
    """Content of a certificate with text, infeasible actions and ties, and its model."""
    rng = np.random.default_rng(0)
    P, R = rng.dirichlet(np.ones(6), (3, 6)), rng.normal(size=(6, 3)).round(1)
    P[1, :2], R[:2, 1] = P[0, :2], R[:2, 0]
    feasible = rng.random((6, 3)) < 0.8
    feasible[:2, :2], feasible[4] = True, [False, True, False]
    grid = ts.StateGrid(size=[0.5, 1.5], mood=["low", "fair", "good"])
    mdp = ts.MDP.from_arrays(P, R, 0.8, feasible=feasible, grid=grid)
    table = (rng.random((6, 3)) * feasible).argmax(axis=1)
    certify(ts.solve(mdp), table, eps=0.3, tol=0.1).save(tmp_path / "c.json")
    mdp.save(tmp_path / "m.nc")
    return check.read_certificate(tmp_path / "c.json"), check.read_saved_model(tmp_path / "m.nc")


# A name and a size describe; a tolerance and an eps ask and do not claim. A constant is stated on
# the safe side by so much.
FREE = {
    ("policy", "name"),
    ("policy", "size"),
    ("figures", "tolerance"),
    ("bounds", "localisation", "eps"),
}


def test_every_leaf_of_an_honest_certificate_counts(tmp_path):
    content, model = small(tmp_path)
    assert said_of(content, model).startswith("HOLDS")
    passed = []
    for path in list_leaves(content):
        if path in FREE:
            continue
        owner = content
        for name in path[:-1]:
            owner = owner[name]
        stated = owner[path[-1]]
        for other in list_changes(stated):
            owner[path[-1]] = other
            if said_of(content, model).startswith("HOLDS"):
                passed.append((path, stated, other))
        owner[path[-1]] = stated
    assert passed == []
    assert said_of(content, model).startswith("HOLDS")


@pytest.mark.parametrize(
    ("lower", "upper", "fine"),
    [
        (0.5 - 1e-13, 1.5 + 1e-13, True),
        (0.5, 1.5 + 1e-13, False),
        (0.5 + 1e-13, 1.5 + 1e-13, False),
        (0.5 - 1e-13, 1.5, False),
        (0.5 - 1e-13, 1.5 - 1e-13, False),
        (0.5 - 1e-11, 1.5 + 1e-13, False),
        (0.5 - 1e-13, 1.5 + 1e-11, False),
    ],
)
def test_an_enclosure_reaches_outward_and_by_no_more_than_rounding(lower, upper, fine):
    """Closeness to what is derived is not enough: no end may fall short of it."""
    stated = np.array([1.0, lower, upper])
    try:
        check_interval("mean_loss", stated, [1.0, 0.5, 1.5], 1e-12)
    except check.Rejected:
        assert not fine
    else:
        assert fine


def enclosures(content, path=()):
    """Owners and keys of (value, lower, upper), as lists of three and as parts of bands."""
    for name, part in content.items():
        if isinstance(part, dict) and set(part) == set(INTERVAL_PARTS):
            flat = {end: np.array(part[end], dtype=float) for end in INTERVAL_PARTS}
            yield (*path, name), part, flat
        elif isinstance(part, dict) and name != "policy":
            yield from enclosures(part, (*path, name))
        elif isinstance(part, list) and len(part) == 3 and np.ndim(part) == 1:
            yield (*path, name), None, part


def test_an_end_that_is_pulled_in_to_the_value_is_rejected(tmp_path):
    """Even where only rounding stands between them; a share of states may be an exact fraction."""
    content, model = small(tmp_path)
    tried = 0
    for path, owner, parts in list(enclosures(content)):
        if path in (("figures", "policy_error"), ("figures", "costly_error")):
            continue
        for k, end in enumerate(INTERVAL_PARTS[1:], 1):
            forged = copy.deepcopy(content)
            part = forged
            for name in path[:-1]:
                part = part[name]
            if owner is None:
                if parts[k] == parts[0]:
                    continue
                part[path[-1]][k] = parts[0]
            else:
                if (parts[end] == parts["value"]).all():
                    continue
                part[path[-1]][end] = parts["value"].tolist()
            tried += 1
            assert said_of(forged, model).startswith("REJECTED"), (path, end)
    assert tried > 20


@pytest.mark.parametrize("name", ["mean_loss", "policy", "format"])
def test_a_field_that_is_stated_twice_is_rejected(tmp_path, capsys, name):
    content, _ = small(tmp_path)
    text = (tmp_path / "c.json").read_text()
    first = json.dumps({name: copy.deepcopy(content[name])})[1:-1]
    (tmp_path / "c.json").write_text("{" + first + ", " + text.lstrip()[1:])
    assert check.main([str(tmp_path / "m.nc"), str(tmp_path / "c.json")]) == 1
    assert capsys.readouterr().out == f"REJECTED: {name!r} is stated twice\n"


def test_a_table_that_is_stated_twice_inside_the_policy_is_rejected(tmp_path, capsys):
    small(tmp_path)
    text = (tmp_path / "c.json").read_text()
    (tmp_path / "c.json").write_text(text.replace('"table":', '"table": [[0]], "table":', 1))
    assert check.main([str(tmp_path / "m.nc"), str(tmp_path / "c.json")]) == 1
    assert "'table' is stated twice" in capsys.readouterr().out


# The model file.


def foreign(tmp_path, rename: bool):
    """Arrays of another model, under the true fingerprint."""
    small(tmp_path)
    rng = np.random.default_rng(5)
    other = ts.MDP.load(tmp_path / "m.nc")
    arrays = other.to_arrays()
    changed = ts.MDP.from_arrays(
        arrays.transition,
        np.where(arrays.feasible, arrays.reward * 1.5 + rng.normal(), 0.0),
        0.8,
        feasible=arrays.feasible,
        grid=other.grid,
    )
    with netCDF4.Dataset(tmp_path / "m.nc") as file:
        true = {name: file.getncattr(name) for name in ("fingerprint", "content")}
    changed.save(tmp_path / "m.nc")
    with netCDF4.Dataset(tmp_path / "m.nc", "a") as file:
        file.setncatts(true if rename else {"fingerprint": true["fingerprint"]})


@pytest.mark.parametrize("rename", [True, False])
def test_foreign_arrays_under_the_true_fingerprint_are_rejected(tmp_path, capsys, rename):
    foreign(tmp_path, rename)
    assert check.main([str(tmp_path / "m.nc"), str(tmp_path / "c.json")]) == 1
    assert "of another model: content is" in capsys.readouterr().out


@pytest.mark.parametrize("rename", [True, False])
def test_foreign_arrays_under_the_true_fingerprint_are_not_loaded(tmp_path, rename):
    foreign(tmp_path, rename)
    with pytest.raises(ts.FileError, match=r"m\.nc .*; its arrays are not those that were saved"):
        ts.MDP.load(tmp_path / "m.nc")


def test_a_table_whose_hash_was_made_anew_for_a_foreign_fingerprint_is_not_loaded(tmp_path):
    small(tmp_path)
    held = Arrays.read(tmp_path / "m.nc")
    held.attributes["fingerprint"] = "0" * 64
    held.write(tmp_path / "m.nc")
    with pytest.raises(ts.FileError, match=r"m\.nc .*has the fingerprint of another model"):
        ts.MDP.load(tmp_path / "m.nc")


@pytest.mark.parametrize(
    ("dimension", "length"), [("entry", 500_000_000), ("entry", 2**40), ("state", 400_000_000)]
)
def test_declared_sizes_are_looked_at_before_anything_is_read(tmp_path, dimension, length):
    """A small file may declare arrays of any size; the checker keeps to a fixed memory."""
    small(tmp_path)
    with netCDF4.Dataset(tmp_path / "m.nc") as old, netCDF4.Dataset(tmp_path / "b.nc", "w") as new:
        new.setncatts({name: old.getncattr(name) for name in old.ncattrs()})
        grid = new.createGroup("grid")
        for name, axis in old["grid"].variables.items():
            grid.createDimension(name, len(axis))
            grid.createVariable(name, axis.dtype, (name,))[:] = axis[:]
        for name, size in old.dimensions.items():
            new.createDimension(name, length if name == dimension else len(size))
        for name, array in old.variables.items():
            made = new.createVariable(name, array.dtype, array.dimensions, zlib=True)
            if dimension not in array.dimensions:
                made[:] = array[:]
    assert (tmp_path / "b.nc").stat().st_size < 100_000
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30)); "
        "from tessella.checker import main; sys.exit(main(sys.argv[1:]))"
    )
    files = [str(tmp_path / "b.nc"), str(tmp_path / "c.json")]
    done = subprocess.run(
        [sys.executable, "-c", limited, *files], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert "bytes of arrays where" in done.stdout


def test_pipes_devices_and_folders_are_not_read(tmp_path, capsys):
    small(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    true = str(tmp_path / "m.nc"), str(tmp_path / "c.json")
    for odd in (str(tmp_path / "pipe"), "/dev/zero", str(tmp_path)):
        for files in ((odd, true[1]), (true[0], odd)):
            assert check.main(list(files)) == 1
            assert "it is not a regular file" in capsys.readouterr().out


def test_a_certificate_longer_than_the_ceiling_is_not_read(tmp_path, capsys):
    small(tmp_path)
    with open(tmp_path / "long.json", "wb") as file:
        file.truncate(CERTIFICATE_MAX_BYTES + 1)
    assert check.main([str(tmp_path / "m.nc"), str(tmp_path / "long.json")]) == 1
    assert "are more than the" in capsys.readouterr().out


# What a reviewer found; each of these held, or was rejected, once.


def two_states(R, g=0.9):
    """Two absorbing states."""
    P = np.zeros((2, len(R[0]), 2))
    P[0, :, 0] = P[1, :, 1] = 1
    return ts.MDP.from_arrays(P, np.array(R, dtype=float), g, layout="SAS", name="two")


def test_a_second_best_action_does_not_pass_for_the_best_within_the_slack(tmp_path, capsys):
    """Values of one rich state hide what another state loses, if the slack may hide the choice."""
    g = 1 - 2.0**-11
    mdp = two_states([[2.0**40, 0], [1.0, 0]], g)
    mdp.save(tmp_path / "m.nc")
    certify(ts.solve(mdp), [0, 1]).save(tmp_path / "c.json")
    t, m = json.loads((tmp_path / "c.json").read_text()), check.read_saved_model(tmp_path / "m.nc")
    V = [2.0**51, 2048.0]
    slack = 63 * m.discounting.relative_rounding * (2.0**40 + 2.0**51)
    tiny, e = 1e-290, 1 / m.discounting.contraction_gap * 1.0000001
    nothing, zero = {part: [0.0, 0.0] for part in INTERVAL_PARTS}, [0.0, 0.0, 0.0]
    pairs = {part: [[0.0, 0.0], [0.0, 0.0]] for part in INTERVAL_PARTS}

    def around(value, off):
        return [value, (value - off) * (1 - 1e-15), (value + off) * (1 + 1e-15)]

    mean, low = (V[0] + V[1]) / 2, 0.5
    t["values"] = {"optimal_value": V, "policy_value": V, "losses": nothing}
    t["figures"] |= {"optimal_value_error": tiny, "policy_value_error": e, "tolerance": slack}
    t["figures"] |= dict.fromkeys(("costly_error", "policy_error", "value_gap"), zero)
    t["decisions"] = {"margin_slack": slack, "optimal": [0, 1], "local_losses": nothing}
    t["decisions"] |= {"margin": [2.0**40, slack + low]}
    t |= dict.fromkeys(("mean_loss", "worst_loss", "relative_loss"), zero)
    t |= {"optimal_mean": around(mean, tiny), "policy_mean": around(mean, e)}
    visits = t["decomposition"]
    visits |= {"state": nothing, "region": nothing, "pair": pairs, "face": pairs}
    bounds, top = t["bounds"], 2.0**40 - slack
    bounds |= {"error_share": zero, "policy_error": zero}
    bounds["localisation"] = {"eps": 0.0, "holds": True, "exceptions": 0, "example": None}
    bounds["localisation"] |= {"neighbourhood": zero, "bound": zero}
    bounds["second_best"] = {"holds": True, "exceptions": 0, "loss": zero}
    constant = (visits["occupancy"][1] + visits["occupancy_error"] + 1e-15) / low * (1 + 1e-13)
    bounds["rate"] = {"constant": constant, "exponent": 1.0, "smallest": low, "largest": top}
    bounds["rate"] |= {"bound": None, "second_best_bound": None}
    (tmp_path / "c.json").write_text(json.dumps(t))
    assert check.main([str(tmp_path / "m.nc"), str(tmp_path / "c.json")]) == 1
    assert "the action of the policy is not surely the best" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["content", "model", "policy.grid", "extra"])
def test_an_array_that_no_model_has_is_refused_whatever_it_is_called(tmp_path, capsys, name):
    content, _ = small(tmp_path)
    with netCDF4.Dataset(tmp_path / "m.nc", "a") as file:
        file.createDimension("one", 1)
        file.createVariable(name, str, ("one",))[0] = content["content"]
    assert check.main([str(tmp_path / "m.nc"), str(tmp_path / "c.json")]) == 1
    assert f"it has an array {name!r}, which no model has" in capsys.readouterr().out


@pytest.mark.parametrize("start", [0, 1, [0.5, 0.5]])
def test_honest_certificates_hold_where_wrong_actions_are_never_met(tmp_path, start):
    mdp = two_states([[1, 0], [1, 0]])
    said = verdict(tmp_path, certify(ts.solve(mdp), [0, 1], start), mdp)
    assert said.startswith("HOLDS"), said


def test_the_second_best_action_is_claimed_only_where_values_can_tell_it(tmp_path):
    mdp = two_states([[0, -1, -1.59], [0, -1.05, -1.6]], 0.5)
    solution = ts.solve(mdp)
    coarse = shift_values(solution, np.full(2, 0.3))
    c = certify(coarse, [2, 2], [0.99, 0.01])
    exact = (0.99 * 1.59 + 0.01 * 1.6) / 0.5
    assert exact in c.mean_loss
    assert c.bounds.second_best.holds is None
    assert c.bounds.second_best.loss is None
    assert c.bounds.rate is None or c.bounds.rate.second_best_bound is None
    assert verdict(tmp_path, c, mdp).startswith("HOLDS")
    assert certify(solution, [1, 1]).bounds.second_best.holds


@pytest.mark.parametrize("g", [0.9, 0.9999])
def test_the_papers_bounds_hold_where_rows_sum_to_more_than_1(tmp_path, g):
    row = 1 + 9e-10
    P = np.array([[[row, 0], [row, 0]], [[0, row], [0, row]]])
    mdp = ts.MDP.from_arrays(P, np.array([[1.0, -1.0], [1.0, -1.0]]), g, layout="SAS")
    c = certify(ts.solve(mdp), [1, 1])
    exact = 2 / (1 - Fraction(g) * Fraction(row))
    assert Fraction(c.mean_loss.lower) <= exact <= Fraction(c.mean_loss.upper)
    assert exact <= Fraction(c.bounds.policy_error.upper)
    assert exact <= Fraction(c.bounds.localisation.bound.upper)
    assert verdict(tmp_path, c, mdp).startswith("HOLDS")


def test_values_too_small_for_twice_the_precision_prove_nothing(tmp_path):
    """Below all that a pair of floats can hold, a residual of 0 is no proof."""
    mdp = two_states([[0, 0], [0, 0]], 0.999999)
    certify(ts.solve(mdp), [0, 0]).save(tmp_path / "c.json")
    mdp.save(tmp_path / "m.nc")
    content, model = (
        check.read_certificate(tmp_path / "c.json"),
        check.read_saved_model(tmp_path / "m.nc"),
    )
    assert said_of(content, model).startswith("HOLDS")
    content["optimal_value"] = content["policy_value"] = [5e-321, 5e-321]
    assert said_of(content, model).startswith("REJECTED")


def test_a_document_of_many_fields_is_read_in_time(tmp_path, capsys):
    names = ", ".join(f'"{k}": 0' for k in range(200_000))
    (tmp_path / "c.json").write_text("{" + names + ', "0": 1}')
    assert check.main([str(tmp_path / "m.nc"), str(tmp_path / "c.json")]) == 1
    assert "'0' is stated twice" in capsys.readouterr().out


@pytest.mark.parametrize("depth", [200, 900, 960, 990])
def test_deeply_nested_statements_are_rejected_without_a_traceback(tmp_path, capsys, depth):
    content, _ = small(tmp_path)
    text = json.dumps(content | {"margin": "@"}).replace('"@"', "[" * depth + "0" + "]" * depth)
    (tmp_path / "c.json").write_text(text)
    assert check.main([str(tmp_path / "m.nc"), str(tmp_path / "c.json")]) == 1
    assert capsys.readouterr().out.startswith("REJECTED")
