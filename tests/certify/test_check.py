"""The checker, alone with the two files: what holds passes, what was altered is found."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import netCDF4
import numpy as np
import pytest

import tessella as ts
from tessella.certify import certify, check


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
        copy = Path(shutil.copytree(files, tmp_path / "copy", dirs_exist_ok=True))
        content = json.loads((copy / "certificate.json").read_text())
        if change is not None:
            change(content)
            (copy / "certificate.json").write_text(json.dumps(content))
        if model is not None:
            model(copy / "model.nc")
        status = check.main([str(copy / "certificate.json"), str(copy / "model.nc")])
        return status, capsys.readouterr().out

    return run


def test_a_true_certificate_holds(altered, files):
    status, said = altered()
    assert status == 0
    loss = json.loads((files / "certificate.json").read_text())["mean_loss"][0]
    assert said.startswith(f"HOLDS: loss {loss:.12g} on average")


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
    assert check.main([str(tmp_path / "c.json"), str(tmp_path / "m.nc")]) == 0, capsys.readouterr()


@pytest.mark.parametrize("part", ["value", "lower", "upper"])
def test_an_altered_loss_is_found(altered, part):
    def change(content):
        content["losses"][part][2][5] += 1e-6

    status, said = altered(change)
    assert status == 1
    assert f"the stated loss ({part}) is not the difference" in said
    assert "queue=2, regime=5" in said


def test_a_loss_altered_together_with_the_value_behind_it_is_found(altered):
    def change(content):
        for part in ("value", "lower", "upper"):
            content["losses"][part][2][5] -= 1e-3
        content["policy_value"][2][5] += 1e-3

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
    assert "does not satisfy the equation of the policy; first at" in said


def test_a_certificate_that_states_little_is_reported_as_proving_little(altered):
    def change(content):
        content["optimal_value_error"] = 10.0

    status, said = altered(change)
    assert status == 0
    low, high = said.split("proven to be between ")[1].split(" on")[0].split(" and ")
    assert float(low) == 0
    assert float(high) > 10


def test_renamed_actions_are_found(altered):
    def change(content):
        content["policy"]["actions"] = [1, 0]

    assert altered(change)[0] == 1


def test_an_action_that_does_not_exist_is_found(altered):
    def change(content):
        content["policy"]["table"][20][10] = 7

    status, said = altered(change)
    assert status == 1
    assert "an action does not exist; first at queue=20, regime=10" in said


@pytest.mark.parametrize(
    "name", ["mean_loss", "worst_loss", "value_gap", "policy_error", "occupancy"]
)
def test_an_altered_figure_is_found(altered, name):
    def change(content):
        if name == "occupancy":
            content[name][3][3] += 1e-3
        else:
            content[name] = [1.01 * x for x in content[name]]

    status, said = altered(change)
    assert status == 1
    assert name in said


def test_a_false_optimum_is_found(altered):
    def change(content):
        shifted = np.array(content["optimal_value"]) + 0.01
        content["optimal_value"] = shifted.tolist()

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

    status, said = altered(model=swap)
    assert status == 1
    assert "does not satisfy the optimality equation of the model" in said


@pytest.mark.parametrize("which", ["certificate.json", "model.nc"])
@pytest.mark.parametrize("kept", [0.0, 0.5, 0.99])
def test_a_truncated_file_is_found(files, tmp_path, capsys, which, kept):
    copy = Path(shutil.copytree(files, tmp_path / "copy"))
    content = (copy / which).read_bytes()
    (copy / which).write_bytes(content[: int(kept * len(content))])
    status = check.main([str(copy / "certificate.json"), str(copy / "model.nc")])
    said = capsys.readouterr().out
    assert status == 1
    assert which in said
    assert "cut short" in said


def test_the_checker_runs_alone_without_the_package(files, tmp_path):
    alone = shutil.copy(check.__file__, tmp_path / "alone.py")
    arguments = [str(files / "certificate.json"), str(files / "model.nc")]
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); sys.modules['tessella'] = None; "
    code += f"import alone; sys.exit(alone.main({arguments!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert Path(alone).exists()
    assert (done.returncode, done.stdout[:6], done.stderr) == (0, "HOLDS:", "")


def test_the_command_runs_and_loads_nothing_of_what_it_checks(files):
    arguments = [str(files / "certificate.json"), str(files / "model.nc")]
    command = [sys.executable, "-X", "importtime", "-m", "tessella.certify.check", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    for name in ("jax", "tessella.solve", "tessella.certify.assess"):
        assert f" {name}\n" not in done.stderr


def test_wrong_arguments_are_answered_with_the_usage(capsys):
    assert check.main(["one.json"]) == 2
    assert "usage:" in capsys.readouterr().out
