"""The checker, alone with the two files: what holds passes, what was altered is found."""

from __future__ import annotations

import copy
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import netCDF4
import numpy as np
import pytest
from support.alterations import map_field_types

import tessella as ts
from tessella.certificates.certify import certify
from tessella.checker import check
from tessella.checker.claim import INTERVAL_PARTS, IntervalsReader, ValueClaim


@pytest.fixture(scope="module")
def files(queue, tmp_path_factory):
    """A true certificate and its model file."""
    folder = tmp_path_factory.mktemp("check")
    table = queue.policy.table.copy()
    table[3:9, 4:7] = 1 - table[3:9, 4:7]
    certify(queue, table).save(folder / "certificate.json")
    queue.mdp.save(folder / "model.nc")
    return folder


@pytest.fixture
def altered(files, tmp_path, capsys):
    """Alter a copy of the files and hand them to the checker: (exit status, message)."""

    def run(change=None, model=None):
        folder = Path(shutil.copytree(files, tmp_path / "copy", dirs_exist_ok=True))
        content = json.loads((folder / "certificate.json").read_text())
        if change is not None:
            change(content)
            (folder / "certificate.json").write_text(json.dumps(content))
        if model is not None:
            model(folder / "model.nc")
        status = check.main([str(folder / "model.nc"), str(folder / "certificate.json")])
        return status, capsys.readouterr().out

    return run


def test_a_true_certificate_holds(altered, files):
    status, said = altered()
    assert status == 0
    loss = json.loads((files / "certificate.json").read_text())["mean_loss"][0]
    assert said.startswith("HOLDS: QUE-Mix (content ")
    assert f"): loss {loss:.12g} on average" in said


@pytest.mark.parametrize("label", ["INV-Mix", "INV-Hard"])
@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_true_certificates_of_other_models_hold(solved, tmp_path, capsys, label, share):
    solution = solved(label)
    rng = np.random.default_rng(0)
    table = solution.policy.table.copy()
    spoil = rng.random(table.shape) < share
    table[spoil] = rng.integers(0, 5, spoil.sum())
    certify(solution, table, start=40).save(tmp_path / "c.json")
    solution.mdp.save(tmp_path / "m.nc")
    assert check.main([str(tmp_path / "m.nc"), str(tmp_path / "c.json")]) == 0, capsys.readouterr()


@pytest.mark.parametrize("tol", [None, 1.0])
@pytest.mark.parametrize(
    "asked", [{}, {"eps": 0.0}, {"eps": 0.05, "tol": 0.1}, {"start": 5}, {"eps": 100.0}], ids=str
)
def test_true_certificates_of_a_small_model_hold(tmp_path, capsys, tol, asked):
    """With text on an axis, infeasible actions, states without a choice and ties."""
    rng = np.random.default_rng(0)
    P, R = rng.dirichlet(np.ones(12), (3, 12)), rng.normal(size=(12, 3)).round(1)
    P[1, :4], R[:4, 1] = P[0, :4], R[:4, 0]
    feasible = rng.random((12, 3)) < 0.8
    feasible[:4, :2], feasible[4] = True, [False, True, False]
    grid = ts.StateGrid(size=[0.5, 1.5, 4.0], mood=["low", "fair", "good", "high"])
    mdp = ts.MDP.from_arrays(P, R, 0.8, feasible=feasible, grid=grid)
    table = (rng.random((12, 3)) * feasible).argmax(axis=1)
    certify(ts.solve(mdp, tol=tol), table, **asked).save(tmp_path / "c.json")
    mdp.save(tmp_path / "m.nc")
    assert check.main([str(tmp_path / "m.nc"), str(tmp_path / "c.json")]) == 0, capsys.readouterr()


@pytest.mark.parametrize("part", ["value", "lower", "upper"])
def test_an_altered_loss_is_found(altered, part):
    def change(content):
        content["values"]["losses"][part][2][5] += 1e-6

    status, said = altered(change)
    assert status == 1
    assert f"losses.{part} is" in said or "losses.value is" in said
    assert "as stated at queue=2, regime=5" in said


def test_a_loss_altered_together_with_the_value_behind_it_is_found(altered):
    def change(content):
        for part in ("value", "lower", "upper"):
            content["values"]["losses"][part][2][5] -= 1e-3
        content["values"]["policy_value"][2][5] += 1e-3

    status, said = altered(change)
    assert status == 1
    assert "does not satisfy the equation of the policy" in said


def test_a_loss_hidden_by_a_large_stated_error_is_found(altered):
    def change(content):
        content["mean_loss"] = [0.0, 0.0, 1.0]

    status, said = altered(change)
    assert status == 1
    assert "mean_loss is" in said


def test_an_altered_policy_entry_is_found(altered):
    def change(content):
        content["policy"]["table"][20][10] = 1 - content["policy"]["table"][20][10]

    status, said = altered(change)
    assert status == 1
    assert "does not satisfy the equation of the policy within its error; first at" in said


def test_a_certificate_that_states_little_is_reported_as_proving_little(tmp_path, capsys):
    mdp = ts.benchmark("QUE-Mix")
    coarse = ts.solve(mdp, tol=10.0)
    certify(coarse, np.zeros(mdp.grid.shape, int)).save(tmp_path / "c.json")
    mdp.save(tmp_path / "m.nc")
    assert check.main([str(tmp_path / "m.nc"), str(tmp_path / "c.json")]) == 0
    low, high = proven(capsys.readouterr().out)
    assert high - low > 1


def test_what_is_proven_about_a_fine_certificate_is_narrow(altered):
    low, high = proven(altered()[1])
    assert 0 < high - low < 1e-8


def proven(said: str) -> list[float]:
    return [float(x) for x in said.split("proven to be between ")[1].split(" on")[0].split(" and ")]


def test_renamed_actions_are_found(altered):
    def change(content):
        content["actions"] = [1, 0]

    assert altered(change)[0] == 1


def test_an_action_that_does_not_exist_is_found(altered):
    def change(content):
        content["policy"]["table"][20][10] = 7

    status, said = altered(change)
    assert status == 1
    assert "an action does not exist; first at queue=20, regime=10" in said


def test_a_start_that_does_not_sum_to_1_is_found(altered):
    """Mean loss and occupancy are linear in the start: scaled together, they fit one another."""

    def change(content):
        parts = content, content["decomposition"], content
        for part, name in zip(parts, ("start", "occupancy", "mean_loss"), strict=True):
            part[name] = (0.01 * np.array(part[name])).tolist()

    status, said = altered(change)
    assert status == 1
    assert "start must sum to 1, not to 0.01" in said


def test_an_occupancy_that_does_not_sum_to_1_is_found(altered):
    def change(content):
        part = content["decomposition"]
        part["occupancy"] = (0.9 * np.array(part["occupancy"])).tolist()

    status, said = altered(change)
    assert status == 1
    assert "occupancy" in said


@pytest.mark.parametrize(
    ("name", "found"),
    [("start", "start: a probability is negative"), ("occupancy", "the occupancy is not where")],
)
def test_probability_that_is_moved_is_found(altered, name, found):
    def change(content):
        weights = content["start"] if name == "start" else content["decomposition"][name]
        moved = 0.003 if name == "start" else 0.5 * weights[20][3]
        weights[3][3] += moved
        weights[20][3] -= moved

    status, said = altered(change)
    assert status == 1
    assert found in said


@pytest.mark.parametrize(
    "path",
    [
        "relative_loss.0",
        "policy_mean.1",
        "figures.costly_error.0",
        "mean_loss.2",
        "figures.value_gap.0",
        "figures.policy_error.0",
        "decisions.local_losses.value.4.5",
        "decomposition.pair.value.1.0",
        "bounds.policy_error.0",
        "decisions.margin.3.3",
        "bounds.reward_bound",
        "bounds.rate.exponent",
        "grid.queue.30",
        "worst_loss.0",
    ],
)
def test_an_altered_figure_is_named(altered, path):
    steps = [int(name) if name.isdigit() else name for name in path.split(".")]
    named = ".".join(name for name in steps if isinstance(name, str))

    def change(content):
        owner_of(content, steps)[steps[-1]] += 1e-3

    status, said = altered(change)
    assert status == 1
    assert {
        "bounds.rate.exponent": "bounds.rate.constant is not the smallest for its exponent",
        "grid.queue": "of another model: grid differs",
    }.get(named, named) in said


@pytest.mark.parametrize(
    ("action", "found"), [(7, "an action does not exist"), (0.5, "must hold whole numbers")]
)
@pytest.mark.parametrize("path", ["policy.table", "decisions.optimal"])
def test_what_is_no_action_is_found(altered, path, action, found):
    def change(content):
        steps = path.split(".")
        owner_of(content, steps)[steps[-1]][4][4] = action

    status, said = altered(change)
    assert status == 1
    assert said.startswith(f"REJECTED: {path}")
    assert found in said


def test_an_error_of_the_value_that_is_made_larger_to_hide_a_lie_is_found(altered):
    def change(content):
        content["figures"]["optimal_value_error"] = 10.0
        content["relative_loss"] = [0.0, 0.0, 1.0]

    status, said = altered(change)
    assert status == 1
    assert "margin_slack is" in said


def test_what_no_model_file_can_confirm_is_said_to_be_unchecked(altered):
    def change(content):
        content["policy"] |= {"name": "another", "size": 7}

    status, said = altered(change)
    assert status == 0
    assert said.rstrip().endswith("not checked: policy.name, policy.size")


def statements(content, path=()):
    """Paths of all numbers, texts, flags and nulls, of all three numbers of an enclosure, and of
    one entry of each other array."""
    if isinstance(content, dict):
        for name, part in content.items():
            yield from statements(part, (*path, name))
    elif isinstance(content, list) and not isinstance(content[0], list):
        few = range(len(content)) if len(content) == 3 else [len(content) // 3]
        yield from ((*path, k) for k in few)
    elif isinstance(content, list):
        yield from statements(content[len(content) // 6], (*path, len(content) // 6))
    else:
        yield path


def otherwise(stated, sign):
    """Another statement of the same kind, clearly so."""
    if stated is None or isinstance(stated, bool | str):
        return {None: 3, True: False, False: True}.get(stated, f"{stated}x")
    if isinstance(stated, int):
        return stated + (1 if sign > 0 or stated == 0 else -1)
    return stated + sign * 0.01 * max(1.0, abs(stated))


def owner_of(content, path):
    for name in path[:-1]:
        content = content[name]
    return content


# The name and the size of a policy describe it to the reader; the model does not know them, and the
# checker says so. A tolerance or an eps asks and does not claim: what is stated about it must fit,
# as it does for any other between the costs or the margins of the same two states.
UNCHECKED = {("policy", "name"), ("policy", "size")}
ASKED = {("figures", "tolerance"), ("bounds", "localisation", "eps")}


@pytest.fixture(scope="module", params=["all near the boundary", "exceptions far from it"])
def document(request, tmp_path_factory):
    """Contents of a certificate and of its model: two actions and null premises, or five."""
    files = tmp_path_factory.mktemp("document")
    if request.param.startswith("exceptions"):
        solution = ts.solve(ts.inventory.build(max_stock=9, max_regime=4))
        table = np.random.default_rng(0).integers(0, 5, solution.policy.table.shape)
        made = certify(solution, table, eps=0.3, tol=0.1)
    else:
        solution = ts.solve(ts.queue_admission.build(max_queue=10, max_regime=6))
        table = solution.policy.table.copy()
        table[3:6, 2:5] = 1 - table[3:6, 2:5]
        made = certify(solution, table)
    made.save(files / "certificate.json")
    solution.mdp.save(files / "model.nc")
    content = json.loads((files / "certificate.json").read_text())
    return content, check.read_saved_model(str(files / "model.nc"))


def verdict(content, model):
    """What the checker says of a document, which it must say without a traceback."""
    with np.errstate(all="ignore"):
        try:
            check.check_certificate(content, model)
        except check.Rejected as reason:
            return f"REJECTED: {reason}"
    return "HOLDS"


def has_parts(hint):
    return isinstance(getattr(hint, "__metadata__", [None])[0], IntervalsReader)


FIELDS = [
    tuple(path.split(".")) + part
    for path, hint in map_field_types(ValueClaim).items()
    for part in ([(p,) for p in INTERVAL_PARTS] if has_parts(hint) else [()])
]


def test_the_fields_of_the_checker_are_those_of_a_certificate(document):
    def named(path):
        return tuple(name for name in path if isinstance(name, str))

    content, grid = document[0], ("grid",)
    assert {grid if path[:1] == grid else named(path) for path in statements(content)} == set(
        FIELDS
    )


@pytest.mark.parametrize("field", FIELDS, ids=".".join)
@pytest.mark.parametrize("sign", [1, -1])
def test_every_altered_statement_is_found(document, field, sign):
    content, model = document
    paths = [path for path in statements(content) if path[: len(field)] == field]
    assert paths
    for path in set(paths) - ASKED:
        forged = copy.deepcopy(content)
        owner = owner_of(forged, path)
        owner[path[-1]] = otherwise(owner[path[-1]], sign)
        expected = "HOLDS" if path in UNCHECKED else "REJECTED"
        assert verdict(forged, model).startswith(expected), path


def parts_of(content, path=()):
    """Paths of all named parts of a document, the grid's axes included."""
    if isinstance(content, dict):
        for name, part in content.items():
            yield (*path, name)
            yield from parts_of(part, (*path, name))


def test_a_tolerance_that_the_costly_error_does_not_fit_is_found(document):
    content, model = copy.deepcopy(document[0]), document[1]
    costliest = float(np.max(content["decisions"]["local_losses"]["value"]))
    content["figures"]["tolerance"] = 1.01 * costliest
    assert verdict(content, model).startswith("REJECTED: figures.costly_error is 0, not")


@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_an_eps_that_its_neighbourhood_does_not_fit_is_found(document, factor):
    content, model = copy.deepcopy(document[0]), document[1]
    content["bounds"]["localisation"]["eps"] *= factor
    said = verdict(content, model)
    assert said.startswith("REJECTED: bounds.localisation")


@pytest.mark.parametrize("text", ["", "[1, 2]", "{}", "7", "null", "[" * 100_000, '{"format": 1}'])
def test_a_file_that_is_no_certificate_is_rejected(files, tmp_path, capsys, text):
    (tmp_path / "c.json").write_text(text)
    assert check.main([str(files / "model.nc"), str(tmp_path / "c.json")]) == 1
    assert capsys.readouterr().out.startswith("REJECTED: ")


def test_a_file_of_another_kind_is_named_with_what_is_expected(files, queue, tmp_path, capsys):
    certificate, model = files / "certificate.json", files / "model.nc"
    other, table = tmp_path / "solution.nc", tmp_path / "table.csv"
    queue.save(other)
    table.write_text("a,b\n1,2\n")
    document = json.loads(certificate.read_text())
    rule, old = tmp_path / "rule.json", tmp_path / "old.json"
    rule.write_text(json.dumps(document | {"format": "tessella rule"}))
    old.write_text(json.dumps(document | {"version": 3}))
    for pair, reason in {
        (model, model): "model.nc is a netCDF file, as saved models are, and a certificate is",
        (table, model): "table.csv is not a certificate, which is a JSON file",
        (
            rule,
            model,
        ): "the document has the format 'tessella rule', and 'tessella certificate' is expected",
        (old, model): "has version 3 of its format; this checker reads version 5",
        (certificate, certificate): "certificate.json is not a saved model, which is a netCDF file",
        (certificate, other): "solution.nc has the format 'tessella-solution-4', and a saved model",
    }.items():
        assert check.main([str(pair[1]), str(pair[0])]) == 1
        assert reason in capsys.readouterr().out


def test_a_model_and_a_certificate_in_the_wrong_order_are_not_a_rejected_certificate(files, capsys):
    model, certificate = str(files / "model.nc"), str(files / "certificate.json")
    assert check.main([certificate, model]) == 2
    said = capsys.readouterr().out
    assert said == "NOT CHECKED: the arguments seem to be swapped: the model comes first\n"


def test_a_field_that_nobody_knows_is_rejected(document):
    content, model = document
    for name in ("audited", "bounds.rate", "mean_loss.value"):
        said = verdict(content | {name: None}, model)
        assert said == f"REJECTED: {name!r} is not a field of a certificate"


@pytest.mark.parametrize(
    "name", ["indptr", "indices", "data", "row_of", "reward", "feasible", "grid", "discount"]
)
def test_a_model_file_that_lacks_something_is_rejected(files, tmp_path, capsys, name):
    with netCDF4.Dataset(files / "model.nc") as old, netCDF4.Dataset(tmp_path / "m.nc", "w") as new:
        new.setncatts({key: old.getncattr(key) for key in old.ncattrs() if key != name})
        for key, size in old.dimensions.items():
            new.createDimension(key, len(size))
        for key, array in old.variables.items():
            if key != name:
                new.createVariable(key, array.dtype, array.dimensions)[:] = array[:]
    assert check.main([str(tmp_path / "m.nc"), str(files / "certificate.json")]) == 1
    assert "m.nc cannot be read" in capsys.readouterr().out


def test_every_missing_field_is_named(files, tmp_path, capsys):
    content = json.loads((files / "certificate.json").read_text())
    for path in parts_of(content):
        forged = copy.deepcopy(content)
        del owner_of(forged, path)[path[-1]]
        (tmp_path / "c.json").write_text(json.dumps(forged))
        status = check.main([str(files / "model.nc"), str(tmp_path / "c.json")])
        said = capsys.readouterr().out
        assert (status, said[:9]) == (1, "REJECTED:"), path
        assert path[0] in said


MALFORMED = [None, True, "7", "", [], [[]], {}, {"x": 1}, math.nan, math.inf, -math.inf]
MALFORMED += [-1, 0.5, 7, 10**30, 1e308, [1, [2]], [None, 1, 2], ["1", "2", "3"], [math.nan] * 3]


@pytest.mark.parametrize("field", FIELDS, ids=".".join)
def test_no_malformed_field_passes_or_breaks_the_checker(document, field):
    """The whole field, and one entry of it."""
    content, model = document
    paths = {field} | {path for path in statements(content) if path[: len(field)] == field}
    for path in paths - UNCHECKED:
        owner = owner_of(content, path)
        stated = owner[path[-1]]
        for value in MALFORMED:
            if value == stated or (path in ASKED and value in (0.5, 7)):
                continue
            owner[path[-1]] = value
            said = verdict(content, model)
            owner[path[-1]] = stated
            assert said.startswith("REJECTED"), (path, value)
    assert verdict(content, model) == "HOLDS"


def test_a_false_optimum_is_found(altered):
    def change(content):
        shifted = np.array(content["values"]["optimal_value"]) + 0.01
        content["values"]["optimal_value"] = shifted.tolist()

    status, said = altered(change)
    assert status == 1
    assert "does not satisfy the optimality equation" in said


def test_a_swapped_model_is_found(altered):
    other = ts.benchmark("QUE-Lin")
    status, said = altered(model=other.save)
    assert status == 1
    assert "the model file is of another model" in said


def test_a_swapped_model_that_bears_the_right_fingerprint_is_found(altered, queue):
    def swap(path):
        ts.benchmark("QUE-Lin").save(path)
        with netCDF4.Dataset(path, "a") as file:
            file.setncattr("fingerprint", queue.mdp.fingerprint)
            file.setncattr("name", queue.mdp.name)

    status, said = altered(model=swap)
    assert status == 1
    assert "the model file is of another model: content" in said


@pytest.mark.parametrize("which", ["model.nc", "certificate.json"])
@pytest.mark.parametrize("kept", [0.0, 0.5, 0.99])
def test_a_truncated_file_is_found(files, tmp_path, capsys, which, kept):
    folder = Path(shutil.copytree(files, tmp_path / "copy"))
    content = (folder / which).read_bytes()
    (folder / which).write_bytes(content[: int(kept * len(content))])
    status = check.main([str(folder / "model.nc"), str(folder / "certificate.json")])
    said = capsys.readouterr().out
    assert status == 1
    assert which in said
    assert "cut short" in said


def test_the_checker_runs_alone_without_the_package(files, tmp_path):
    alone = shutil.copytree(Path(check.__file__).parent, tmp_path / "alone")
    arguments = [str(files / "model.nc"), str(files / "certificate.json")]
    block = "import sys; sys.modules['tessella'] = None; "
    code = f"{block}import alone; sys.exit(alone.main({arguments!r}))"
    run_folder = f"{block}import runpy; sys.argv = [{str(alone)!r}, *{arguments!r}]; "
    run_folder += f"runpy.run_path({str(alone)!r}, run_name='__main__')"
    for command in (
        ["-c", code],
        ["-m", "alone", *arguments],
        ["-I", str(alone), *arguments],
        ["-I", "-c", run_folder],
    ):
        done = subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, check=False, cwd=tmp_path
        )
        assert (done.returncode, done.stdout[:6], done.stderr) == (0, "HOLDS:", "")


def test_the_command_runs_and_loads_nothing_of_what_it_checks(files):
    arguments = [str(files / "model.nc"), str(files / "certificate.json")]
    command = [sys.executable, "-X", "importtime", "-m", "tessella.checker", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    for name in ("jax", "tessella.solvers", "tessella.certificates.certify"):
        assert f" {name}\n" not in done.stderr


def test_wrong_arguments_are_answered_with_the_usage(capsys):
    assert check.main(["one.json"]) == 2
    assert "usage:" in capsys.readouterr().out
