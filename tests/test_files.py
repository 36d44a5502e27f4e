"""Files are written whole or not at all, on any disk; only regular files are read."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from support.disks import NO_MOUNT, limit_file_size, mount_disk

import tessella as ts
from tessella.cli.solve import _write_csv as save_paths
from tessella.files import atomic_write
from tessella.paper.report import write_file
from tessella.solvers.result import CheckpointWriter

SOURCE = Path(ts.__file__).parent
MODEL = ts.benchmark("INV-Mix")
OLD = b"25 bytes that were there."
LITTLE = 500  # bytes, fewer than any of these files has


@cache
def solve_model() -> ts.Solution:
    return ts.solve(MODEL)


@cache
def find_rule() -> ts.Rule:
    return ts.compress(solve_model(), 0.05, classes=[ts.OrderUpTo()])


def write_checkpoint(path: Path) -> None:
    solution = solve_model()
    CheckpointWriter(ts.Checkpoint(path), MODEL).write(solution.value, solution.history)


SAVES = {  # nothing is solved before a test saves it
    "model.nc": MODEL.save,
    "solution.nc": lambda path: solve_model().save(path),
    "whole.nc": lambda path: solve_model().save(path, with_model=True),
    "policy.json": lambda path: solve_model().policy.save(path),
    "policy.csv": lambda path: solve_model().policy.to_csv(path),
    "certificate.json": lambda path: ts.certify(solve_model(), solve_model()).save(path),
    "rule.json": lambda path: find_rule().save(path),
    "rule.py": lambda path: find_rule().export(path),
    "rule.csv": lambda path: find_rule().export(path),
    "model.toml": lambda path: ts.write_model("inventory", path),
    "paths.csv": lambda path: save_paths(ts.simulate(MODEL, solve_model(), 50, 0, paths=10), path),
    "table.md": lambda path: write_file(path, bytes(10_000)),
    "run.npz": write_checkpoint,
}


@pytest.mark.parametrize("name", SAVES)
def test_a_save_that_fails_leaves_the_old_file_and_nothing_else(name, tmp_path):
    path = tmp_path / name
    SAVES[name](path)  # what it needs is computed while files may be long
    path.write_bytes(OLD)
    with limit_file_size(LITTLE), pytest.raises(ts.FileError, match="cannot be written; "):
        SAVES[name](path)
    assert path.read_bytes() == OLD
    assert [file.name for file in tmp_path.iterdir()] == [name]
    SAVES[name](path)
    assert path.read_bytes() != OLD


def test_a_full_disk_keeps_the_old_files_wherever_one_can_be_mounted(tmp_path):
    with mount_disk(tmp_path, "64k") as is_disk:
        if not is_disk:  # the limit on the size of files above is the same test without a mount
            pytest.skip(NO_MOUNT)
        for name in SAVES:
            (tmp_path / name).write_bytes(OLD)
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "filler").write_bytes(bytes(100_000))
        for name, save in SAVES.items():
            with pytest.raises(ts.FileError, match="cannot be written; No space left"):
                save(tmp_path / name)
            assert (tmp_path / name).read_bytes() == OLD
        assert {file.name for file in tmp_path.iterdir()} == {*SAVES, "filler"}


def test_nothing_in_the_package_writes_a_file_but_through_one_function():
    """What stands here writes into a folder of its own, or appends to what is only a log."""
    direct = re.compile(r"""write_text\(|write_bytes\(|open\("[wax]|open\([^)]*, "[wax]|to_csv\(""")
    apart = {"runner/store.py", "rules/export/code.py", "rules/export/data_files.py"}
    apart |= {"cli/__init__.py", "cli/solve.py"}
    found = set()
    for file in SOURCE.rglob("*.py"):
        for line in file.read_text().splitlines():
            if direct.search(line) and not re.search(r"\b(part|temporary)[.,)]|def ", line):
                found.add(str(file.relative_to(SOURCE)))
    assert found == apart


def test_a_new_file_has_the_mode_of_the_old_one_and_a_link_stays_a_link(tmp_path):
    old, link = tmp_path / "old.json", tmp_path / "link.json"
    old.write_bytes(OLD)
    old.chmod(0o640)
    link.symlink_to(old)
    solve_model().policy.save(link)
    assert link.is_symlink()
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert np.array_equal(ts.Policy.load(old).table, solve_model().policy.table)


def test_a_new_file_has_the_mode_that_any_program_gives_it(tmp_path):
    solve_model().policy.save(tmp_path / "new.json")
    (tmp_path / "plain").touch()
    modes = {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert len(modes) == 1


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with atomic_write(pipe) as part:
        part.write_bytes(OLD)
    assert os.read(reader, 100) == OLD
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


SAVE_TO = """
import sys, tessella as ts
mdp = ts.MDP.from_arrays([[[0.5, 0.5], [0.5, 0.5]]], [[1.0], [2.0]], 0.9)
mdp.policy([0, 0]).save(sys.argv[1])
"""


@pytest.mark.parametrize("target", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_a_save_to_standard_output_goes_through_a_pipe(target):
    saving = subprocess.Popen([sys.executable, "-c", SAVE_TO, target], stdout=subprocess.PIPE)
    head = subprocess.run(["head", "-n", "1000"], stdin=saving.stdout, capture_output=True)
    assert saving.wait() == 0
    saving.stdout.close()
    assert json.loads(head.stdout)["table"] == [0, 0]


def test_a_save_to_standard_output_replaces_the_file_that_it_names(tmp_path):
    with open(tmp_path / "policy.json", "wb") as out:
        subprocess.run([sys.executable, "-c", SAVE_TO, "/dev/stdout"], stdout=out, check=True)
    assert ts.Policy.load(tmp_path / "policy.json").table.tolist() == [0, 0]
    assert [file.name for file in tmp_path.iterdir()] == ["policy.json"]


def test_a_link_to_a_file_that_is_not_there_yet_creates_that_file(tmp_path):
    (tmp_path / "link.json").symlink_to("new.json")
    solve_model().policy.save(tmp_path / "link.json")
    assert (tmp_path / "link.json").is_symlink()
    assert not (tmp_path / "new.json").is_symlink()
    assert np.array_equal(ts.Policy.load(tmp_path / "new.json").table, solve_model().policy.table)


REQUIRE_WRITABLE = """
import os, sys
from tessella.errors import FileError
from tessella.files import require_writable
if os.getuid() == 0:
    os.setuid(65534)  # a user without rights
for path in sys.argv[1:]:
    try:
        print(require_writable(path))
    except FileError as error:
        print(error)
"""


def test_a_folder_that_may_not_be_written_to_is_an_error_before_any_work():
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)  # others may enter
        paths, modes = [], {"open": 0o777, "closed": 0o555}
        for folder in (Path(name, mode) for mode in modes):
            folder.mkdir()
            (folder / "old.json").touch()
            (folder / "old.json").chmod(0o666)
            folder.chmod(modes[folder.name])
            paths += [str(folder / "old.json"), str(folder / "new.json")]
        os.symlink(paths[-1], Path(name, "link.json"))
        command = [sys.executable, "-c", REQUIRE_WRITABLE, *paths, f"{name}/link.json", "/dev/null"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    closed = f"the folder {name}/closed may not be written to"
    wrong = [f"{path} cannot be written; {closed}" for path in (*paths[2:], f"{name}/link.json")]
    assert lines.splitlines() == ["None", "None", *wrong, "None"]


@pytest.mark.parametrize("load", [ts.Policy.load, ts.Rule.load, ts.Certificate.load, ts.MDP.load])
def test_a_device_or_a_pipe_is_not_waited_for(load, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        with pytest.raises(ts.FileError, match="it is no regular file"):
            load(path)
    with pytest.raises(ts.FileError, match="it is a folder"):
        load(tmp_path)


OTHERS = {"notes.txt": b"to do\n", "empty.nc": b"", "photo.png": b"\x89PNG\0", "list.json": b"[]"}
NOUNS = {
    ts.Certificate.load: "a certificate",
    ts.MDP.load: "a saved model",
    ts.Solution.load: "a saved solution",
}


@pytest.mark.parametrize(
    ("name", "load", "reason"),
    [
        ("model.nc", ts.Certificate.load, "it must be a JSON file; it is a netCDF file"),
        ("notes.txt", ts.Certificate.load, "it must be a JSON file; it is a text file"),
        ("list.json", ts.Certificate.load, "it must hold a JSON object; got []"),
        (
            "rule.json",
            ts.Certificate.load,
            "it must have format 'tessella certificate', version 5; got 'tessella rule', version 1",
        ),
        (
            "certificate.json",
            ts.MDP.load,
            "it must be a netCDF file; it is a JSON file of format 'tessella certificate'",
        ),
        ("list.json", ts.MDP.load, "it must be a netCDF file; it is a JSON file"),
        ("photo.png", ts.MDP.load, "it must be a netCDF file; it is a binary file"),
        (
            "model.nc",
            ts.Solution.load,
            "it must have format 'tessella-solution-4'; got 'tessella model'",
        ),
        ("empty.nc", ts.Solution.load, "it must be a netCDF file; it is an empty file"),
    ],
)
def test_a_file_of_another_kind_is_named_with_the_kind_that_is_expected(
    name, load, reason, tmp_path
):
    path = tmp_path / name
    SAVES.get(name, lambda path: path.write_bytes(OTHERS[name]))(path)
    with pytest.raises(ts.FileError) as error:
        load(path)
    assert str(error.value) == f"{path} cannot be read as {NOUNS[load]}; {reason}"
