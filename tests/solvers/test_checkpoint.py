"""Long solves that are broken off, and go on."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from support.disks import limit_file_size

import tessella as ts
from tessella.solvers.loop import Progress, RunLog
from tessella.solvers.result import CheckpointWriter, History

METHOD = ts.ValueIteration(1e-7)

SLOWLY = """
import sys, time
import tessella as ts

def told(progress):
    print(progress.sweep, flush=True)
    time.sleep(0.02)

kept = ts.Checkpoint(sys.argv[1], every=0)
ts.solve(ts.inventory(), ts.ValueIteration(1e-7), checkpoint=kept, callback=told)
"""


@pytest.fixture(scope="module")
def whole():
    """The same solve, not broken off."""
    return ts.solve(ts.inventory(), METHOD)


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """The file that a killed process left, and the sweeps that it had told of."""
    path = tmp_path_factory.mktemp("kept") / "run.npz"
    child = subprocess.Popen(
        [sys.executable, "-c", SLOWLY, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    told = [int(child.stdout.readline()) for _ in range(20)]
    child.kill()
    told += [int(line) for line in child.communicate()[0].split()]
    return path, told[-1]


def bounds_in(path):
    with np.load(path) as file:
        return file["bound"]


def test_a_killed_process_loses_at_most_one_interval(killed):
    path, told = killed
    assert told >= 20
    assert len(bounds_in(path)) >= told - 1  # written after each sweep


def test_a_solve_goes_on_from_where_it_was_killed(killed, whole):
    path, _ = killed
    before = bounds_in(path)
    found = ts.solve(ts.inventory(), METHOD, checkpoint=path)
    assert found.converged
    np.testing.assert_array_equal(found.history.bound[: len(before)], before)
    np.testing.assert_allclose(
        found.history.bound[: len(before)], whole.history.bound[: len(before)]
    )
    assert whole.sweeps - 2 <= found.sweeps <= whole.sweeps + 2  # not all of them again
    assert (np.diff(found.history.seconds) >= 0).all()
    apart = np.abs(found.value - whole.value).max()
    assert apart <= found.error_bound + whole.error_bound < 1e-6


def test_a_finished_solve_is_not_done_again(tmp_path, whole):
    path = tmp_path / "run.npz"
    ts.solve(ts.inventory(), METHOD, checkpoint=path)
    again = ts.solve(ts.inventory(), METHOD, checkpoint=path)
    assert again.sweeps == whole.sweeps + 1  # one look at what was kept
    assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]


def test_a_write_that_fails_leaves_the_file_before_it(tmp_path, whole):
    path = tmp_path / "run.npz"
    keeper = CheckpointWriter(ts.Checkpoint(path), whole.mdp)
    keeper.write(whole.value, whole.history)
    with limit_file_size(1000), pytest.raises(ts.FileError, match="File too large"):
        keeper.write(np.zeros_like(whole.value), whole.history)
    kept = keeper.load_run()
    assert kept is not None
    np.testing.assert_array_equal(kept[0], whole.value)
    assert [file.name for file in tmp_path.iterdir()] == ["run.npz"]


def test_a_checkpoint_of_another_model_is_refused(tmp_path, whole):
    path = tmp_path / "run.npz"
    CheckpointWriter(ts.Checkpoint(path), whole.mdp).write(whole.value, whole.history)
    with pytest.raises(ts.FileError, match="checkpoint of another model"):
        ts.solve(ts.inventory(holding_cost=0.09), METHOD, checkpoint=path)
    path.write_bytes(b"torn")
    with pytest.raises(ts.FileError, match="cannot be read as a checkpoint"):
        ts.solve(whole.mdp, METHOD, checkpoint=path)


@pytest.mark.parametrize(
    ("given", "rule"),
    [("run.nc", "ends in .npz"), (("run.npz", -1.0), "0 or more"), (("run.npz", "x"), "0 or more")],
)
def test_what_is_no_checkpoint_is_refused(given: Any, rule):
    with pytest.raises(ts.ArgumentError, match=rule):
        ts.Checkpoint(*given) if isinstance(given, tuple) else ts.solve(
            ts.inventory(), checkpoint=given
        )


def test_methods_of_several_runs_say_that_they_keep_none(tmp_path):
    mdp = ts.inventory().with_criterion(ts.FiniteHorizon(3))
    with pytest.raises(ts.ArgumentError, match="checkpoints are supported for discounted models"):
        ts.solve(mdp, checkpoint=tmp_path / "run.npz")


def test_the_time_between_writes_grows_with_what_is_asked_for(tmp_path, whole):
    keeper = CheckpointWriter(ts.Checkpoint(tmp_path / "run.npz", every=1000), whole.mdp)
    assert not keeper.check_clock()
    assert not keeper.check_clock()
    assert keeper.iterations_per_check == 4  # doubled while there is time
    keeper.interval_seconds = 0
    assert keeper.check_clock()
    assert keeper.iterations_per_check == 1


def test_progress_tells_the_time_left():
    seen: list[Progress] = []

    def told(progress: Progress) -> None:
        seen.append(progress)

    ts.solve(ts.inventory(), METHOD, callback=told)
    assert seen[0].left is None  # nothing to go by
    assert all(progress.left is not None for progress in seen[20:])
    assert seen[-1].left == 0.0


def test_the_time_left_follows_from_the_pace_of_the_last_rounds():
    bounds = np.asarray(1024.0 * 0.5 ** np.arange(30), dtype=np.float64)
    seconds = np.asarray(2.0 * np.arange(30), dtype=np.float64)
    before = History(bounds, np.zeros(30, np.int64), seconds)
    log = RunLog(None, before)
    log.target = bounds[-1] / 8
    # Three halvings, two seconds each.
    assert log.estimate_seconds_left() == pytest.approx(3 * 2.0)
    log.target = bounds[-1] * 2
    assert log.estimate_seconds_left() == 0.0
    assert RunLog(None, None).estimate_seconds_left() is None
