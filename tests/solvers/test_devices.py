"""One model on several devices: processes with 8 devices, and two processes with 2 each.

What they find is held against the same solve on one device.
"""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.routes import plan_by

import tessella as ts
from tessella.mdp.stages.partition import find_partition
from tests.solvers.sharing import ring, shop

WORKER = Path(__file__).with_name("sharing.py")


def start(out: Path, devices: int, *arguments: str) -> subprocess.Popen:
    flags = f"--xla_force_host_platform_device_count={devices}"
    package = Path(ts.__file__).parents[1]
    settings = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(package)}
    command = [sys.executable, str(WORKER), str(out), *arguments]
    return subprocess.Popen(
        command, env=settings, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def finished(process: subprocess.Popen) -> None:
    said, _ = process.communicate()
    assert process.returncode == 0, said


@pytest.fixture(scope="module")
def eight(tmp_path_factory):
    """What a process with eight devices found."""
    out = tmp_path_factory.mktemp("eight") / "found.json"
    finished(start(out, 8))
    return json.loads(out.read_text())


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """What each of two processes with two devices found."""
    folder = tmp_path_factory.mktemp("hosts")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    files = [folder / "0.json", folder / "1.json"]
    processes = [start(file, 2, address, "2", str(i)) for i, file in enumerate(files)]
    for process in processes:
        finished(process)
    return [json.loads(file.read_text()) for file in files]


def agree(found: dict, one: ts.Solution) -> None:
    apart = np.abs(np.array(found["value"]) - one.value).max()
    assert apart <= found["bound"] + one.error_bound
    np.testing.assert_array_equal(found["policy"], one.policy.table)


def test_eight_devices_find_what_one_finds_with_the_same_bound(eight):
    mdp = shop()
    one = ts.solve(mdp, plan=plan_by(mdp, "stages", tol=1e-9))
    agree(eight["usual"], one)
    assert eight["usual"]["sweeps"] == one.sweeps
    assert eight["usual"]["bound"] <= 1e-9


def test_what_eight_devices_find_is_certified_on_one(eight):
    solved_on, certified_on, loss = eight["certified"]
    assert (solved_on, certified_on) == (8, 0)  # none share it
    assert loss < 1e-7


def test_a_plan_counts_what_each_of_eight_devices_holds_and_times_them(eight):
    made = eight["plan"]
    assert made["own"] == made["held"] > 0
    assert made["point"] == 16 * 16 * 5  # of 121 stocks by 5 regimes, 16 stocks each
    assert (made["devices"], made["compiled"]) == (8, True)
    assert made["seconds"] > 0
    assert "on each of 8 devices" in made["said"]


def test_the_program_of_the_page_runs_on_eight_devices(tmp_path):
    flags = "--xla_force_host_platform_device_count=8"
    settings = os.environ | {"XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    settings["PYTHONPATH"] = str(Path(__file__).parents[1])
    said = 'from support.pages import check_page; check_page("scaling.md")'
    subprocess.run([sys.executable, "-c", said], env=settings, check=True, cwd=tmp_path)


def test_an_axis_that_the_devices_do_not_divide_is_no_obstacle(eight):
    one = ts.solve(ring(), ts.ValueIteration(1e-9))
    agree(eight["ring"], one)
    assert eight["ring"]["bound"] <= 1e-9
    np.testing.assert_allclose(eight["ring"]["last"], one.value[-1], atol=2e-9)


def test_no_device_holds_more_than_its_part(eight):
    for name, states in (("usual", shop().n_states), ("ring", ring().n_states)):
        assert eight[name]["devices"] == 8
        assert eight[name]["part"] <= states / 8 + 5


def test_what_cannot_be_cut_is_refused_in_a_sentence(eight):
    none, many, wide = eight["refused"]
    assert none == "devices must be a whole number, at least 1; got 0"
    assert "got 9, and JAX sees 8" in many
    assert "each would need all of this one" in wide


def test_two_processes_solve_one_model(hosts):
    one = ts.solve(shop(), ts.ValueIteration(1e-7))
    for host in hosts:
        agree(host["usual"], one)
        assert not host["usual"]["addressable"], "each holds its half"
        assert host["usual"]["devices"] == 2
    assert hosts[0]["usual"] == hosts[1]["usual"]


def test_two_processes_keep_no_checkpoint(hosts):
    assert all("kept by one process" in host["refused"] for host in hosts)


def test_other_criteria_and_tables_are_refused_and_one_device_is_what_it_was():
    average = shop().with_criterion(ts.Average())
    table = ts.MDP.from_arrays(np.eye(3)[None], np.zeros((3, 1)), 0.9)
    for mdp in (average, table):
        with pytest.raises(ts.ArgumentError, match="models of stages with discounted rewards"):
            ts.solve(mdp, devices=2)
    usual, one = ts.solve(shop(), tol=1e-9), ts.solve(shop(), tol=1e-9, devices=1)
    np.testing.assert_array_equal(usual.value, one.value)


def test_the_slowest_axis_is_cut_unless_another_needs_much_less_around_it():
    long = find_partition(shop().dynamics, 4)
    assert long is not None
    assert (long.axis, long.block_length, long.halo_below, long.halo_above) == (0, 31, 6, 3)
    short = find_partition(ts.inventory().dynamics, 5)  # a period may sell all of its stock
    assert short is not None
    assert (short.axis, short.block_length, short.halo_below, short.halo_above) == (1, 5, 1, 1)
    assert find_partition(ring("wrap").dynamics, 4) is None
