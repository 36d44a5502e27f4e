"""reproduce(study, folder): run what is not stored yet, then write tables, figures and report.

Nothing is kept in memory that the store does not hold, so a study may be stopped at any moment and
goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tessella.errors import StudyError
from tessella.study.cluster import RESTART, connect
from tessella.study.methods import by_name
from tessella.study.plan import Batch, Study, batches, seconds
from tessella.study.progress import Progress
from tessella.study.record import Record
from tessella.study.results import Results
from tessella.study.run import Outcome
from tessella.study.spec import Spec
from tessella.study.store import Store
from tessella.study.sweep import Sweep

WHOLE = "All runs"
SPACE = 48_000_000, 3_000  # bytes for compiled code, tables, figures and report; and for each run


@dataclass(frozen=True)
class Cluster:
    """Where to run: ``workers`` processes here, or those of ``scheduler``."""

    workers: int | None = None
    scheduler: str | None = None


@dataclass(frozen=True, eq=False)
class Finished:
    """A study that came to its end."""

    folder: Path
    started: int  # runs that were not stored before
    failed: tuple[Record, ...]


class Interrupted(Exception):  # noqa: N818
    """A study was stopped; ``stored`` of ``total`` runs are in the store."""

    def __init__(self, stored: int, total: int) -> None:
        super().__init__(f"{stored:,} of {total:,} runs are stored")
        self.stored, self.total = stored, total


def reproduce(
    study: Study,
    folder: str | Path,
    progress: Progress,
    cluster: Cluster = Cluster(),  # noqa: B008
    *,
    retry: bool = False,
    report: bool = True,
) -> Finished:
    """Run ``study`` into ``folder``.

    Args:
        retry: run again what failed before.
        report: write tables, figures and the report from the store.
    """
    folder = Path(folder)
    with Store.writer(folder, space=SPACE[0] + SPACE[1] * len(study.specs)) as store:
        keys = {spec.key for spec in study.specs}
        store.records(keys)  # an altered one is refused before the work, not after it
        missing = _missing(study, store, retry)
        _work(study, store, missing, progress, cluster, folder)
        records = tuple(store.records(keys))
        if report:
            results = Results(study, records, store.sessions(), store.contexts(keys))
            _write(results, folder, progress)
    return Finished(folder, len(missing), tuple(r for r in records if r.failed))


def _missing(study: Study, store: Store, retry: bool) -> list[Spec]:
    states = store.states()
    return [spec for spec in study.specs if spec.key not in states or (retry and states[spec.key])]


def _work(
    study: Study,
    store: Store,
    missing: Sequence[Spec],
    progress: Progress,
    cluster: Cluster,
    folder: Path,
) -> None:
    if not missing:
        progress.note(f"all {len(study.specs):,} runs are stored")
        return
    work = batches(missing)
    _announce(study, work, progress)
    began, session = time.monotonic(), store.begin(f"{len(missing)} of {len(study.specs)} runs")
    stored = 0

    def accept(outcome: Outcome) -> None:
        nonlocal stored
        store.add(outcome.records, outcome.context)
        stored += len(outcome.records)
        _advance(outcome.records, progress)

    outcome = "failed"
    try:
        with connect(cluster.workers, cluster.scheduler, folder / "compiled") as client:
            Sweep(client, accept, _Waiting(progress, cluster)).run(work)
        outcome = "finished"
    except KeyboardInterrupt:
        outcome = "interrupted"
        raise Interrupted(len(study.specs) - len(missing) + stored, len(study.specs)) from None
    finally:
        store.end(session, time.monotonic() - began, stored, outcome)


class _Waiting:
    """Says so, once, when there is no worker; those of this machine must come back in time."""

    def __init__(self, progress: Progress, cluster: Cluster) -> None:
        self.progress, self.ours, self.since = progress, cluster.scheduler is None, 0.0

    def __call__(self, workers: int) -> None:
        now = time.monotonic()
        if workers:
            self.since = 0.0
        elif not self.since:
            self.since = now
            self.progress.note("no worker is connected; waiting for one")
        elif self.ours and now - self.since > RESTART:
            raise StudyError("the workers of this machine do not start again")


def _announce(study: Study, work: Sequence[Batch], progress: Progress) -> None:
    """One stage for the whole, and one for each method."""
    left = [spec for batch in work for spec in batch.specs]
    taken = dict.fromkeys(study.names, 0.0)
    for spec in left:
        taken[spec.method] += seconds(spec)
    total, missing = Counter(s.method for s in study.specs), Counter(s.method for s in left)
    progress.stage(WHOLE, len(study.specs), sum(taken.values()), len(study.specs) - len(left))
    for method in study.names:
        if missing[method]:
            done = total[method] - missing[method]
            progress.stage(_shown(method), total[method], taken[method], done)


def _shown(method: str) -> str:
    """A method of one's own may have any title; its name is its own."""
    return f"{by_name(method).title} ({method})" if ":" in method else by_name(method).title


def _advance(records: Sequence[Record], progress: Progress) -> None:
    name = records[0].spec.method
    work = sum(seconds(record.spec) for record in records)
    progress.advance(_shown(name), len(records), work)
    progress.advance(WHOLE, len(records), work)
    for record in records:
        if record.failed:
            progress.note(f"failed: {record.spec}: {record.reason}")


def _write(results: Results, folder: Path, progress: Progress) -> None:
    """Write tables, figures and report, unless all are there and nothing has changed since."""
    from tessella.study.outputs import put, write

    stamp, made = folder / "report.stamp", _digest(results)
    if _stands(stamp, made):
        progress.note("the report is up to date")
        return
    # While files of two studies may lie side by side, there is no stamp.
    stamp.unlink(missing_ok=True)
    files = write(results, folder, progress)
    put(stamp, "\n".join([made, *(str(file.relative_to(folder)) for file in files)]).encode())


def _stands(stamp: Path, made: str) -> bool:
    """Whether the outputs are those that ``made`` names, and all of them are there."""
    if not stamp.exists():
        return False
    digest, *files = stamp.read_text().splitlines()
    return digest == made and all((stamp.parent / file).exists() for file in files)


def _digest(results: Results) -> str:
    """What the outputs depend on: the study, its records, and the code that shows them."""
    digest = hashlib.sha256(repr(results.study).encode())
    for record in results.records:
        digest.update(f"{record.spec.key} {record.seconds} {record.reason}".encode())
    for told in (*results.sessions, *results.contexts):
        digest.update(json.dumps(told, sort_keys=True).encode())
    for file in sorted(Path(__file__).parents[1].rglob("*.[pj][y2]")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


__all__ = ["Cluster", "Finished", "Interrupted", "reproduce"]
