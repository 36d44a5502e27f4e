"""The sweep on a cluster of worker processes: what it does when work fails or workers go."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tessella.errors import StudyError
from tessella.runner.dispatch import (
    BATCHES_IN_FLIGHT_PER_THREAD,
    RESTART_TIMEOUT_SECONDS,
    Dispatcher,
    connect,
)
from tessella.runner.record import Record
from tessella.runner.run import BatchResult
from tessella.runner.run_study import _WorkerMonitor
from tessella.runner.study import Batch, Study
from tessella.support.progress import PlainProgress

WORKERS = 2
PATIENCE = 60  # seconds
UNDONE = {"waiting", "no-worker", "queued", "processing"}


@pytest.fixture(scope="module", autouse=True)
def toys_can_be_found() -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.syspath_prepend(Path(__file__).parent)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def client(toys_can_be_found: None, compiled: Path) -> Iterator[Any]:
    with connect(WORKERS, cache=compiled) as opened:
        yield opened


def batch(*seeds: int, method: str = "toy:quick", n: int = 100) -> Batch:
    specs = Study(("QUE-Mix",), (method,), (n,), max(seeds) + 1).specs
    return tuple(spec for spec in specs if spec.seed in seeds)


def swept(client: Any, *batches: Batch) -> list[Record]:
    accepted: list[Record] = []
    Dispatcher(client, lambda outcome: accepted.extend(outcome.records)).run(batches)
    return accepted


def reasons(records: list[Record]) -> dict[int, str]:
    assert len({record.spec.key for record in records}) == len(records), "accepted twice"
    return {record.spec.seed: record.reason for record in records}


def states(client: Any) -> set[str]:
    """Of all tasks that the scheduler knows."""
    return client.run_on_scheduler(
        lambda dask_scheduler: {task.state for task in dask_scheduler.tasks.values()}
    )


def until(condition: Callable[[], object]) -> None:
    limit = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.02)


def test_every_spec_is_accepted_once(client):
    records = swept(client, *(batch(i, i + 40) for i in range(30)))
    assert reasons(records) == dict.fromkeys([*range(30), *range(40, 70)], "")


def test_the_work_in_flight_is_bounded(client):
    seen = []

    def accept(outcome: BatchResult) -> None:
        seen.append(client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))

    Dispatcher(client, accept).run(batch(i, method="toy:slow") for i in range(20))
    assert 1 < max(seen) <= BATCHES_IN_FLIGHT_PER_THREAD * WORKERS


def test_work_waits_for_the_first_worker():
    with connect(1) as client:
        client.cluster.scale(0)
        client.sync(client.cluster._correct_state)
        asked = []

        def idle(workers: int) -> None:
            if not workers and not asked:
                client.cluster.scale(1)
                asked.append(workers)

        accepted: list[BatchResult] = []
        Dispatcher(client, accepted.append, idle).run([batch(0), batch(1)])
    assert (len(accepted), asked) == (2, [0])


def test_of_a_batch_that_kills_workers_only_the_culprit_fails(client):
    batches = batch(0, 2, n=300), batch(0, 1, 2, method="toy:deadly", n=200), batch(1, n=400)
    records = swept(client, *batches)
    assert len(records) == sum(map(len, batches))
    (failed,) = [record for record in records if record.failed]
    assert (failed.spec.method, failed.spec.seed) == ("toy:deadly", 1)
    assert failed.reason == "its worker died each time it was tried"


def test_of_a_batch_that_raises_only_the_culprit_fails(client):
    records = swept(client, batch(0, 1, 2, method="toy:broken", n=200))
    assert reasons(records) == {0: "", 1: "ValueError: this one cannot be learned", 2: ""}


def test_an_outcome_that_dies_with_its_worker_is_computed_again(client):
    accepted: list[BatchResult] = []

    def accept(outcome: BatchResult) -> None:
        if not accepted:
            # The other outcomes still lie on the workers when these die.
            until(lambda: "memory" in states(client) and not states(client) & UNDONE)
            for process in client.run(os.getpid).values():
                os.kill(process, signal.SIGKILL)
            until(lambda: "memory" not in states(client))
        accepted.append(outcome)

    Dispatcher(client, accept).run(
        [batch(i) for i in range(BATCHES_IN_FLIGHT_PER_THREAD * WORKERS)]
    )
    records = [record for outcome in accepted for record in outcome.records]
    assert reasons(records) == dict.fromkeys(range(BATCHES_IN_FLIGHT_PER_THREAD * WORKERS), "")


def test_a_run_that_lacks_a_package_is_one_failed_run(client):
    records = swept(client, batch(0, 1, 2, method="toy:lacking", n=200))
    assert reasons(records) == {0: "", 1: "ModuleNotFoundError: No module named 'nosuch'", 2: ""}


def test_a_worker_without_the_method_ends_the_study_and_blames_no_run(
    client, tmp_path, monkeypatch
):
    (tmp_path / "elsewhere.py").write_text("from toy import quick")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(StudyError, match="a worker cannot run this study: no method is called"):
        swept(client, batch(0, 1, method="elsewhere:quick"))


def test_a_scheduler_that_goes_away_ends_the_study(shell, tmp_path):
    address = tmp_path / "scheduler.json"
    file = ("--scheduler-file", str(address))
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    scheduler = shell.start(
        *file, "--port", "0", "--no-dashboard", main="distributed.cli.dask_scheduler", **quiet
    )
    shell.until(address.exists, scheduler)
    words = (*file, "--no-nanny", "--no-dashboard")
    shell.start(*words, main="distributed.cli.dask_worker", **quiet)
    with (
        connect(scheduler=json.loads(address.read_text())["address"]) as client,
        pytest.raises(StudyError, match="the scheduler went away"),
    ):
        Dispatcher(client, lambda outcome: scheduler.kill()).run(batch(i) for i in range(20))


def test_names_of_tasks_are_never_used_again(client):
    seen: list[str] = []
    submit = client.submit

    def watched(*given: Any, key: str, **named: Any) -> Any:
        seen.append(key)
        return submit(*given, key=key, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "submit", watched)
        for _ in range(2):
            swept(client, batch(1, 2, method="toy:broken", n=200))
    assert len(set(seen)) == len(seen) == 2


def test_a_lost_worker_is_not_given_up_before_a_crowded_machine_can_start_it_again(client):
    import dask

    assert (
        dask.config.get("distributed.deploy.lost-worker-timeout") == f"{RESTART_TIMEOUT_SECONDS}s"
    )


def test_workers_of_this_machine_that_never_come_back_end_the_study():
    said = io.StringIO()
    here, there = (
        _WorkerMonitor(PlainProgress(said), is_local=is_local) for is_local in (True, False)
    )
    for waiting in (here, there):
        waiting(0)
        waiting.idle_since -= RESTART_TIMEOUT_SECONDS + 1
    with pytest.raises(StudyError, match="the workers of this machine do not start again"):
        here(0)
    there(0)
    there(2)
    assert said.getvalue().count("no worker is connected; waiting for one") == 2
