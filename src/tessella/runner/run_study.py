"""run_study(study): run what is not stored yet, and give all of it back.

Nothing is kept in memory that the store does not hold, so a study may be stopped at any moment and
goes on where it was.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tessella.errors import StudyError, expect
from tessella.runner.carry import pack
from tessella.runner.cluster import RESTART, connect
from tessella.runner.dispatch import Dispatcher, dispatch_here
from tessella.runner.display import Display, Silence
from tessella.runner.methods import by_name
from tessella.runner.record import Record
from tessella.runner.results import StudyResults
from tessella.runner.run import Outcome
from tessella.runner.spec import Spec
from tessella.runner.store import Store
from tessella.runner.study import Batch, Study, batches, seconds

WHOLE = "All runs"
EACH = 3_000  # bytes of the store for each run
COMPILED = 40_000_000  # bytes of compiled code that workers of this machine leave


@dataclass(frozen=True)
class Cluster:
    """Where to run: ``workers`` processes here (None: one for each core), or a scheduler's."""

    workers: int | None = None
    scheduler: str | None = None


class Interrupted(Exception):  # noqa: N818
    """A study was stopped; ``stored`` of ``total`` runs are in the store."""

    def __init__(self, stored: int, total: int) -> None:
        super().__init__(f"{stored:,} of {total:,} runs are stored")
        self.stored, self.total = stored, total


def run_study(
    study: Study,
    folder: str | Path | None = None,
    *,
    workers: int | None = 0,
    scheduler: str | None = None,
    retry: bool = False,
    display: Display | None = None,
) -> StudyResults:
    """Run ``study``, and give back its records.

    Args:
        folder: where records are stored; the same study on the same folder goes on where it was.
            None keeps them for this call alone.
        workers: processes on this machine; 0 for this one, None for one on each core.
        scheduler: address of a dask scheduler whose workers run it instead.
        retry: run again what failed before.
        display: shows how far it is; see ``tessella.runner.display``.
    """
    expect("run_study", study, Study)
    if folder is None:
        with TemporaryDirectory(prefix="study-") as passing:
            settings = {"workers": workers, "scheduler": scheduler, "display": display}
            return run_study(study, passing, **settings)
    here = workers == 0 and scheduler is None
    cluster = None if here else Cluster(workers, scheduler)
    space = EACH * len(study.specs) + (0 if here else COMPILED)
    with Store.writer(folder, space=space) as store:
        fill(store, study, display or Silence(), cluster, retry=retry)
        return StudyResults(study, *stored(store, study))


def stored(store: Store, study: Study) -> tuple[tuple[Record, ...], list, list]:
    """What the store holds of ``study``: records, sessions and contexts."""
    keys = {spec.key for spec in study.specs}
    return tuple(store.records(keys)), store.sessions(), store.contexts(keys)


def fill(
    store: Store,
    study: Study,
    display: Display,
    cluster: Cluster | None = None,
    *,
    retry: bool = False,
) -> int:
    """Run what the store lacks of ``study``, in this process without a cluster; how many ran."""
    store.records({spec.key for spec in study.specs})  # an altered one is refused before the work
    missing = _missing(study, store, retry)
    _work(study, store, missing, display, cluster)
    return len(missing)


def _missing(study: Study, store: Store, retry: bool) -> list[Spec]:
    states = store.states()
    return [spec for spec in study.specs if spec.key not in states or (retry and states[spec.key])]


def _work(
    study: Study, store: Store, missing: Sequence[Spec], display: Display, cluster: Cluster | None
) -> None:
    if not missing:
        display.note(f"all {len(study.specs):,} runs are stored")
        return
    work = batches(missing)
    _announce(study, work, display)
    began, session = time.monotonic(), store.begin(f"{len(missing)} of {len(study.specs)} runs")
    count = 0

    def accept(outcome: Outcome) -> None:
        nonlocal count
        store.add(outcome.records, outcome.context)
        count += len(outcome.records)
        _advance(outcome.records, display)

    outcome = "failed"
    try:
        _dispatch(study, store, work, accept, display, cluster)
        outcome = "finished"
    except KeyboardInterrupt:
        outcome = "interrupted"
        raise Interrupted(len(study.specs) - len(missing) + count, len(study.specs)) from None
    finally:
        store.end(session, time.monotonic() - began, count, outcome)


def _dispatch(
    study: Study,
    store: Store,
    work: list[Batch],
    accept: Any,
    display: Display,
    cluster: Cluster | None,
) -> None:
    if cluster is None:
        dispatch_here(work, accept)
        return
    packed, cache = pack(study.carried), store.path.parent / "compiled"
    with connect(cluster.workers, cluster.scheduler, cache) as client:
        Dispatcher(client, accept, _Waiting(display, cluster), packed).run(work)


class _Waiting:
    """Says so, once, when there is no worker; those of this machine must come back in time."""

    def __init__(self, display: Display, cluster: Cluster) -> None:
        self.display, self.ours, self.since = display, cluster.scheduler is None, 0.0

    def __call__(self, workers: int) -> None:
        now = time.monotonic()
        if workers:
            self.since = 0.0
        elif not self.since:
            self.since = now
            self.display.note("no worker is connected; waiting for one")
        elif self.ours and now - self.since > RESTART:
            raise StudyError("the workers of this machine do not start again")


def _announce(study: Study, work: Sequence[Batch], display: Display) -> None:
    """One stage for the whole, and one for each method."""
    left = [spec for batch in work for spec in batch.specs]
    taken = dict.fromkeys(study.methods, 0.0)
    for spec in left:
        taken[spec.method] += seconds(spec)
    total, missing = Counter(s.method for s in study.specs), Counter(s.method for s in left)
    display.stage(WHOLE, len(study.specs), sum(taken.values()), len(study.specs) - len(left))
    for method in study.methods:
        if missing[method]:
            done = total[method] - missing[method]
            display.stage(_shown(method), total[method], taken[method], done)


def _shown(method: str) -> str:
    """A method of one's own may have any title; its name is its own."""
    return f"{by_name(method).title} ({method})" if ":" in method else by_name(method).title


def _advance(records: Sequence[Record], display: Display) -> None:
    name = records[0].spec.method
    work = sum(seconds(record.spec) for record in records)
    display.advance(_shown(name), len(records), work)
    display.advance(WHOLE, len(records), work)
    for record in records:
        if record.failed:
            display.note(f"failed: {record.spec}: {record.reason}")
