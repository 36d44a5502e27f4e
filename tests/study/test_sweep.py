"""The sweep's decisions, on a cluster that does what a test tells it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from distributed import KilledWorker

from tessella.study.folder import StudyError
from tessella.study.plan import Batch
from tessella.study.record import Record
from tessella.study.run import Outcome
from tessella.study.spec import Spec
from tessella.study.sweep import AHEAD, Sweep


def batch(*seeds: int, n: int = 100) -> Batch:
    return Batch(tuple(Spec("E", "inventory", {}, "m", {}, 1, n, seed) for seed in seeds), 1.0)


@dataclass
class Future:
    """A task that ended as it was told to."""

    key: str
    outcome: object
    status: str = "finished"

    def cancelled(self) -> bool:
        return self.status == "cancelled"

    def result(self):
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome

    def add_done_callback(self, call) -> None:
        self.done = call


@dataclass
class Client:
    """Runs one task at a time, last in first out; ``deadly`` seeds kill, ``broken`` ones raise."""

    deadly: set[int] = field(default_factory=set)
    broken: set[int] = field(default_factory=set)
    workers: int = 2
    error: Exception = field(default_factory=lambda: ValueError("bad"))
    status: str = "finished"
    tried: list[tuple[int, ...]] = field(default_factory=list)
    flying: list[Future] = field(default_factory=list)
    most: int = 0

    def nthreads(self) -> dict[str, int]:
        # The sweep asks before it feeds: a good moment for the last task to end.
        if self.flying:
            future = self.flying.pop()
            future.done(future)
        return {f"worker-{i}": 1 for i in range(self.workers)}

    def submit(self, function, specs, key, pure) -> Future:
        seeds = tuple(spec.seed for spec in specs)
        self.tried.append(seeds)
        outcome: object = Outcome(tuple(Record(spec, policy_error=0.1) for spec in specs), {})
        if self.deadly & set(seeds):
            outcome = KilledWorker(key, None, 1)
        elif self.broken & set(seeds):
            outcome = self.error
        future = Future(key, outcome, self.status)
        self.flying.append(future)
        self.most = max(self.most, len(self.flying))
        return future


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr("tessella.study.sweep.TICK", 0.001)


def swept(client: Client, *batches: Batch) -> list[Record]:
    accepted: list[Record] = []
    Sweep(client, lambda outcome: accepted.extend(outcome.records)).run(batches)
    return accepted


def test_every_spec_is_accepted_once_whatever_the_order_of_arrival():
    records = swept(Client(), *(batch(i, i + 100) for i in range(30)))
    assert sorted(r.spec.seed for r in records) == sorted([*range(30), *range(100, 130)])


def test_the_work_in_flight_is_bounded():
    client = Client(workers=3)
    swept(client, *(batch(i) for i in range(50)))
    assert 1 < client.most <= AHEAD * 3


def test_work_is_sent_out_even_while_no_worker_is_there_yet():
    client = Client(workers=0)
    assert len(swept(client, batch(0), batch(1))) == 2
    assert client.most == 1


def test_of_a_batch_that_kills_workers_only_the_culprit_fails():
    client = Client(deadly={7})
    records = swept(client, batch(1, 2), batch(6, 7, 8), batch(3))
    assert {r.spec.seed for r in records if r.failed} == {7}
    assert sorted(r.spec.seed for r in records) == [1, 2, 3, 6, 7, 8]
    # Suspects are tried one by one, after all others.
    assert sorted(client.tried[-3:]) == [(6,), (7,), (8,)]


def test_a_single_spec_is_tried_alone_before_it_is_blamed():
    client = Client(deadly={7})
    (failed,) = swept(client, batch(7))
    assert client.tried == [(7,), (7,)]
    assert failed.reason == "its worker died each time it was tried"


def test_of_a_batch_that_raises_only_the_culprit_fails():
    records = swept(Client(broken={2}), batch(1, 2, 3))
    assert {r.spec.seed: r.reason for r in records} == {1: "", 2: "ValueError: bad", 3: ""}


def test_a_worker_without_the_package_ends_the_study_and_blames_no_run():
    client = Client(broken={1}, error=ModuleNotFoundError("No module named 'tessella'"))
    with pytest.raises(StudyError, match="a worker cannot run this study: No module named"):
        swept(client, batch(1))


@pytest.mark.parametrize("status", ["cancelled", "lost"])
def test_a_scheduler_that_goes_away_ends_the_study(status):
    with pytest.raises(StudyError, match="the scheduler went away"):
        swept(Client(status=status), batch(1))


def test_names_of_tasks_are_never_used_again():
    seen = set()

    class Watching(Client):
        def submit(self, function, specs, key, pure):
            seen.add(key)
            return super().submit(function, specs, key, pure)

    for _ in range(2):
        swept(Watching(broken={1}), batch(1, 2))
    assert len(seen) == 2 * 3
