"""A study survives whatever happens to its processes, and says what to do next."""

from __future__ import annotations

import json
import os
import pty
import random
import re
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest
from support import warm

from tessella.runner.run import run_batch
from tessella.runner.run_study import StudyInterrupted, run_missing
from tessella.runner.store import Store
from tessella.runner.study import Study, make_batches
from tessella.support.progress import ProgressDisplay

SIZES = tuple(range(100, 1300, 100))
ASKED = ("--problems", "INV-Mix", "--seeds", "3", "--sizes", ",".join(map(str, SIZES)))
RUNS = 3 * len(SIZES)  # of each method
FEW = ("--problems", "INV-Mix", "--seeds", "3", "--sizes", "100,200")  # where time plays no part


def numbers(records) -> dict[str, tuple]:
    """All that a spec decides, by key: everything but the time it took."""
    rows = [record.row() for record in records]
    return {r["key"]: tuple(v for name, v in r.items() if name != "seconds") for r in rows}


def asked(*methods: str, sizes=SIZES, seeds: int = 3) -> Study:
    return Study(("INV-Mix",), methods, sizes, seeds)


@pytest.fixture(scope="module", autouse=True)
def toys_can_be_found(request: pytest.FixtureRequest):
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(Path(__file__).parent)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def expected(toys_can_be_found: None) -> dict[str, dict[str, tuple]]:
    """What each method's runs give when nothing happens: in this process, without a cluster."""
    return {
        method: numbers(
            record
            for batch in make_batches(asked(method).specs)
            for record in run_batch(batch).records
        )
        for method in ("toy:slow", "linear", "local")
    }


def test_a_study_killed_three_times_resumes_to_what_an_uninterrupted_one_gives(
    shell, tmp_path, expected
):
    chance = random.Random()
    methods = ("--methods", "toy:slow,linear,local")
    process = shell.paper(tmp_path, *ASKED, *methods, "--workers", "2")
    late = time.monotonic() + chance.uniform(0, 5)
    shell.until(lambda: time.monotonic() > late or shell.stored(tmp_path), process)
    process.kill()
    process.wait()
    for workers in ("2", "1"):
        process = shell.paper(tmp_path, *ASKED, *methods, "--workers", workers)
        enough = shell.stored(tmp_path) + chance.randint(1, RUNS)
        shell.until(lambda enough=enough: shell.stored(tmp_path) >= enough, process)
        time.sleep(chance.uniform(0, 0.1))
        process.kill()
        process.wait()
    assert shell.stored(tmp_path) < 3 * RUNS, "the kills came too late to test anything"
    status, output = shell.finish(shell.paper(tmp_path, *ASKED, *methods, "--workers", "1"))
    assert status == 0, output
    records = shell.records(tmp_path)
    assert len(records) == 3 * RUNS
    assert numbers(records) == expected["toy:slow"] | expected["linear"] | expected["local"]


def test_a_killed_worker_loses_nothing(shell, tmp_path, expected):
    process = shell.paper(tmp_path, *ASKED, "--methods", "toy:slow", "--workers", "2")
    shell.until(lambda: shell.stored(tmp_path), process)
    os.kill(shell.workers(process)[0].pid, signal.SIGKILL)
    status, output = shell.finish(process)
    assert status == 0, output
    assert numbers(shell.records(tmp_path)) == expected["toy:slow"]
    # In a pipe there are plain lines.
    assert f"Slow (toy:slow): {RUNS} of {RUNS}" in output
    assert set(output) <= {"\n", *map(chr, range(32, 127))}


def test_only_poisoned_runs_fail_and_the_message_says_how_to_run_them_again(shell, tmp_path):
    words = (*FEW, "--methods", "toy:deadly,toy:broken,toy:quick", "--workers", "2")
    status, output = shell.finish(shell.paper(tmp_path, *words))
    assert status == 1
    assert "2 runs failed; to run them again: tessella paper" in output
    assert output.rstrip().endswith("--retry")
    failed = {r.spec.method: r for r in shell.records(tmp_path) if r.failed}
    assert {(m, r.spec.n, r.spec.seed) for m, r in failed.items()} == {
        ("toy:deadly", 200, 1),
        ("toy:broken", 200, 1),
    }
    assert "its worker died" in failed["toy:deadly"].reason
    assert "this one cannot be learned" in failed["toy:broken"].reason
    assert shell.stored(tmp_path) == 18
    status, output = shell.finish(shell.paper(tmp_path, *words))
    assert status == 1, "a failure is not forgotten"
    assert "all 18 runs are stored" in output


def test_a_failed_run_that_was_mended_is_run_again_on_request(shell, tmp_path):
    words = (*FEW, "--methods", "toy:broken", "--workers", "1")
    status, output = shell.finish(shell.paper(tmp_path, *words))
    assert status == 1
    assert "1 run failed; to run it again" in output
    toys = Path(__file__).with_name("toy.py").read_text()
    (tmp_path / "toy.py").write_text(toys.replace('raise ValueError("this', 'print("this'))
    status, output = shell.finish(shell.paper(tmp_path, *words, "--retry", cwd=tmp_path))
    assert (status, [r for r in shell.records(tmp_path) if r.failed]) == (0, []), output


def test_a_second_study_on_the_same_store_says_so_and_leaves(shell, tmp_path):
    first = shell.paper(tmp_path, *ASKED, "--methods", "toy:slow", "--workers", "1")
    shell.until(lambda: (tmp_path / "study.sqlite").exists(), first)
    status, output = shell.finish(shell.paper(tmp_path, *ASKED, "--methods", "toy:slow"))
    assert status == 1
    assert f"another study is writing to {tmp_path} (process {first.pid}, since" in output
    assert first.poll() is None


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(shell, tmp_path):
    (tmp_path / "file").write_text("in the way")
    status, output = shell.finish(shell.paper(tmp_path / "file" / "results", *ASKED))
    assert status == 1
    assert output.startswith("Error: ")
    assert "cannot be written: Not a directory" in output


def test_a_disk_without_room_is_refused_before_any_work(shell, tmp_path):
    little = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000000, 1000000))"
    status, output = shell.finish(shell.paper(tmp_path, *ASKED, first=little))
    assert status == 1
    assert "has too little free space for this study" in output
    assert shell.stored(tmp_path) == 0


def test_a_disk_that_fills_up_stops_the_study_and_keeps_what_is_stored(shell, tmp_path, expected):
    words = (*ASKED, "--methods", "toy:slow", "--workers", "1")
    process = shell.paper(tmp_path, *words)
    shell.until(lambda: shell.stored(tmp_path), process)
    psutil.Process(process.pid).rlimit(psutil.RLIMIT_FSIZE, (4096, 4096))
    status, output = shell.finish(process)
    assert status == 1
    assert "study.sqlite cannot be written" in output
    assert "to continue: tessella paper" in output
    kept = numbers(shell.records(tmp_path))
    assert kept.items() <= expected["toy:slow"].items()
    assert kept
    assert shell.finish(shell.paper(tmp_path, *words))[0] == 0
    assert numbers(shell.records(tmp_path)) == expected["toy:slow"]


def test_an_existing_scheduler_finishes_a_study_though_a_worker_dies_and_another_joins(
    shell, tmp_path, expected
):
    address = tmp_path / "scheduler.json"
    file = ("--scheduler-file", str(address))
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = shell.start(
        *file, "--port", "0", "--no-dashboard", main="distributed.cli.dask_scheduler", **quiet
    )
    shell.until(address.exists, scheduler)

    def worker() -> warm.Process:
        words = (
            *file,
            "--no-nanny",
            "--nthreads",
            "1",
            "--no-dashboard",
            "--local-directory",
            str(tmp_path),
        )
        return shell.start(*words, main="distributed.cli.dask_worker", **quiet)

    first, _ = worker(), worker()
    to = ("--scheduler", json.loads(address.read_text())["address"])
    study = tmp_path / "study"
    process = shell.paper(study, *ASKED, "--methods", "toy:slow", *to)
    shell.until(lambda: shell.stored(study), process)
    first.kill()
    worker()
    status, output = shell.finish(process)
    assert status == 0, output
    assert numbers(shell.records(study)) == expected["toy:slow"]


def test_in_a_terminal_there_are_bars_and_an_interrupt_ends_cleanly(shell, tmp_path):
    ours, theirs = pty.openpty()
    ends = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    # A session of its own, whose terminal interrupts all its processes, workers too. The runs of
    # two sizes end at once and the others never do: the interrupt cannot come too late.
    process = shell.paper(
        tmp_path,
        *ASKED,
        "--methods",
        "toy:patient",
        "--workers",
        "1",
        **ends,
        start_new_session=True,
        # Who starts the tests in the background has them ignore interrupts, and so all they start.
        first="import fcntl, signal, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
        "signal.signal(signal.SIGINT, signal.default_int_handler)",
    )
    os.close(theirs)
    shell.until(lambda: shell.stored(tmp_path) == 6, process)
    os.write(ours, b"\x03")
    shown = read_all(ours)
    assert process.wait(timeout=60) == 130, shown
    words = " ".join(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).split())
    assert re.search(rf"Patient \(toy:patient\)\W+\d+ of {RUNS}", words), words
    assert re.search(r" \d+\.\d/s", words), words
    assert re.search(r" \d+:\d\d left", words), words
    assert "Traceback" not in shown
    assert f"6 of {RUNS} runs are stored; to continue: tessella paper" in " ".join(shown.split())


class InterruptedStore(Store):
    """A store whose second batch is interrupted as soon as it is stored."""

    def add(self, records, context) -> None:
        super().add(records, context)
        if len(self.failure_reasons()) > 3:
            raise KeyboardInterrupt


def test_an_interrupt_right_after_storing_reports_what_is_stored(tmp_path):
    study = asked("local")
    with (
        InterruptedStore.writer(tmp_path) as store,
        pytest.raises(StudyInterrupted, match=rf"^6 of {RUNS} runs are stored$"),
    ):
        run_missing(store, study, ProgressDisplay())


def read_all(descriptor: int) -> str:
    shown = b""
    while True:
        try:
            shown += os.read(descriptor, 65536)
        except OSError:
            return shown.decode(errors="replace")
