"""run_study(study): run what is not stored yet, and return all of it as StudyResults.

Every result is stored when it arrives, so a study may be stopped at any moment and continued later.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

from tessella.errors import StudyError, counted, require_packages, require_type
from tessella.runner.dispatch import RESTART_TIMEOUT_SECONDS, Dispatcher, connect
from tessella.runner.methods import find_method
from tessella.runner.methods.method import get_instance
from tessella.runner.record import METRICS, RECORD_COLUMNS, Record, Spec
from tessella.runner.run import BatchResult, run_batch_safely
from tessella.runner.store import Store
from tessella.runner.study import Batch, Study, estimate_seconds, make_batches, pack_objects
from tessella.solvers.policy_evaluation import evaluate
from tessella.solvers.solution import Solution
from tessella.support.progress import ProgressDisplay

STUDY_PACKAGES = ("distributed", "jinja2", "optax", "pyarrow", "rich")  # of the extra ``study``
LISTED_MAX_FAILURES = 5  # failures that are listed in full
FRAME_EXCLUDED_COLUMNS = {"actions", "dtype", "spec", "reason", "measures"}
ALL_RUNS_TASK = "All runs"
STORE_BYTES_PER_RUN = 3_000  # bytes of the store for each run
COMPILED_CODE_BYTES = 40_000_000  # bytes of compiled code that workers of this machine leave


@dataclass(frozen=True, eq=False)
class StudyResults:
    """The results of a study.

    Attributes:
        records: of the study's specs, failures included.
        sessions: the processes that worked on the store.
        contexts: where the records were computed.
    """

    study: Study
    records: tuple[Record, ...]
    sessions: Sequence[dict[str, Any]] = field(default_factory=list)
    contexts: Sequence[dict[str, Any]] = field(default_factory=list)

    @cached_property
    def done(self) -> list[Record]:
        return [record for record in self.records if not record.failed]

    @cached_property
    def failed(self) -> list[Record]:
        return [record for record in self.records if record.failed]

    @cached_property
    def frame(self) -> Any:
        """pandas frame with one row for each finished run, measures included, policies not.

        A ratio whose denominator is 0 is missing, and so is a measure that a model does not have.
        """
        names = [name for name in RECORD_COLUMNS if name not in FRAME_EXCLUDED_COLUMNS]
        rows = [
            {**measured, **record.measures, **record.row()}
            for measured, record in zip(self.model_measures, self.done, strict=True)
        ]
        return pd.DataFrame(rows, columns=pd.Index(dict.fromkeys([*names, *self.measures])))

    @cached_property
    def model_measures(self) -> list[dict[str, float]]:
        """Of each finished run, the measures of its model; equal policies are evaluated once."""
        found: dict[tuple[str, bytes], dict[str, float]] = {}
        for record in self.done:
            key = _policy_key(record)
            if key not in found:
                found[key] = _evaluate_measures(record)
        return [found[_policy_key(record)] for record in self.done]

    @cached_property
    def measures(self) -> tuple[str, ...]:
        """Names of all measures: those of the study, and those of its models."""
        of_models = (name for measured in self.model_measures for name in measured)
        return tuple(dict.fromkeys([*self.study.measures, *of_models]))

    def table(self, *columns: str) -> Any:
        """Mean over seeds by problem, method and n, of policy error, losses and measures."""
        selected = [*columns] or [*METRICS, *self.measures]
        return self.frame.groupby(["problem", "method", "n"], sort=False)[selected].mean()

    @cached_property
    def solutions(self) -> dict[str, Solution]:
        """Exact solution of each problem, by its name."""
        first_spec = {spec.problem: spec for spec in reversed(self.study.specs)}
        return {name: get_instance(first_spec[name]).solution for name in self.study.problems}

    def __str__(self) -> str:
        study = self.study
        heading = (
            f"Study: {len(self.done):,} of {len(self.records):,} runs finished; "
            f"{counted(len(study.problems), 'problem')}, {counted(len(study.methods), 'method')}"
        )
        means = self.table("policy_error", "mean_loss", *self.measures)
        lines = [heading, means.to_string(na_rep="-")]
        lines += [f"failed: {r.spec}: {r.reason}" for r in self.failed[:LISTED_MAX_FAILURES]]
        n_unlisted = len(self.failed) - LISTED_MAX_FAILURES
        if n_unlisted > 0:
            lines.append(f"and {n_unlisted:,} more failed")
        return "\n".join(lines)


def _policy_key(record: Record) -> tuple[str, bytes]:
    return record.spec.dynamics, record.actions.tobytes()


def _evaluate_measures(record: Record) -> dict[str, float]:
    """The measures of the model of a record, for its policy; none for a failed run."""
    mdp = get_instance(record.spec).mdp
    if not mdp.measures or not record.actions.size:
        return {}
    measures = evaluate(mdp, record.actions.astype(int).reshape(mdp.grid.shape)).measures
    return {name: value.value for name, value in measures.items() if value is not None}


class StudyInterrupted(Exception):  # noqa: N818
    """A study was stopped; the message says how many of its runs are stored."""


def run_study(
    study: Study,
    folder: str | Path | None = None,
    *,
    workers: int | None = 0,
    scheduler: str | None = None,
    retry: bool = False,
    progress: ProgressDisplay | None = None,
) -> StudyResults:
    """Run ``study`` and return its records.

    Args:
        study: problems, methods, sizes and seeds.
        folder: where records are stored; the same study on the same folder continues.
            None: in a temporary folder, removed afterwards.
        workers: processes on this machine; 0 for the current one, None for one on each core.
        scheduler: address of a dask scheduler whose workers run it instead.
        retry: run again what failed before.
        progress: shows how far it is: ``with ts.open_progress() as progress``.

    Returns:
        Records, a frame with a row for each run, and tables of means.

    Raises:
        StudyError: the folder is in use, or holds records that were altered.

    Example:
        >>> study = ts.Study(problems=["QUE-Lin"], methods=["linear"], sizes=(50,), seeds=2)
        >>> len(ts.run_study(study, workers=0).frame)
        2
    """
    require_type("run_study", study, Study)
    require_packages("a study", "study", STUDY_PACKAGES)
    if folder is None:
        with TemporaryDirectory(prefix="study-") as temporary:
            settings = {"workers": workers, "scheduler": scheduler, "progress": progress}
            return run_study(study, temporary, **settings)
    in_process = workers == 0 and scheduler is None
    space = STORE_BYTES_PER_RUN * len(study.specs) + (0 if in_process else COMPILED_CODE_BYTES)
    with Store.writer(folder, space=space) as store:
        run_missing(store, study, progress or ProgressDisplay(), workers, scheduler, retry=retry)
        return StudyResults(study, *load_stored(store, study))


def load_stored(store: Store, study: Study) -> tuple[tuple[Record, ...], list, list]:
    """What the store holds of ``study``: records, sessions and contexts."""
    keys = {spec.key for spec in study.specs}
    return tuple(store.records(keys)), store.sessions(), store.contexts(keys)


def run_missing(
    store: Store,
    study: Study,
    display: ProgressDisplay,
    workers: int | None = 0,
    scheduler: str | None = None,
    *,
    retry: bool = False,
) -> None:
    """Run what the store lacks of ``study``; ``workers`` and ``scheduler`` as in ``run_study``."""
    store.records({spec.key for spec in study.specs})  # an altered one is rejected before the work
    reasons = store.failure_reasons()
    missing = [
        spec for spec in study.specs if spec.key not in reasons or (retry and reasons[spec.key])
    ]
    if missing:
        _StudyRun(study, store, display, workers, scheduler).run(missing)
    else:
        display.note(f"all {len(study.specs):,} runs are stored")


@dataclass
class _StudyRun:
    """The runs that a store lacks of a study: batch by batch into the store."""

    study: Study
    store: Store
    display: ProgressDisplay
    workers: int | None
    scheduler: str | None
    n_stored: int = 0

    def run(self, missing: Sequence[Spec]) -> None:
        batches = make_batches(missing)
        self._add_tasks(missing)
        n_specs = len(self.study.specs)
        began = time.monotonic()
        session = self.store.begin_session(f"{len(missing)} of {n_specs} runs")
        ending = "failed"
        try:
            self._dispatch(batches)
            ending = "finished"
        except KeyboardInterrupt:
            ending = "interrupted"
            # Counted in the store: an interrupt may come before a batch is counted here.
            n_done = len(self.store.failure_reasons().keys() & {s.key for s in self.study.specs})
            raise StudyInterrupted(f"{n_done:,} of {n_specs:,} runs are stored") from None
        finally:
            self.store.end_session(session, time.monotonic() - began, self.n_stored, ending)

    def _dispatch(self, batches: list[Batch]) -> None:
        if self.workers == 0 and self.scheduler is None:
            for batch in batches:
                self._accept(run_batch_safely(batch))
            return
        packed = pack_objects(self.study.objects)
        cache = self.store.path.parent / "compiled"
        monitor = _WorkerMonitor(self.display, is_local=self.scheduler is None)
        with connect(self.workers, self.scheduler, cache) as client:
            Dispatcher(client, self._accept, monitor, packed).run(batches)

    def _accept(self, result: BatchResult) -> None:
        records = result.records
        self.store.add(records, result.context)
        self.n_stored += len(records)
        work = sum(estimate_seconds(record.spec) for record in records)
        self.display.advance(_task_name(records[0].spec.method), len(records), work)
        self.display.advance(ALL_RUNS_TASK, len(records), work)
        for record in records:
            if record.failed:
                self.display.note(f"failed: {record.spec}: {record.reason}")

    def _add_tasks(self, remaining: Sequence[Spec]) -> None:
        """One task for the whole, and one for each method."""
        specs = self.study.specs
        expected_seconds = dict.fromkeys(self.study.methods, 0.0)
        for spec in remaining:
            expected_seconds[spec.method] += estimate_seconds(spec)
        total = Counter(spec.method for spec in specs)
        missing = Counter(spec.method for spec in remaining)
        work = sum(expected_seconds.values())
        self.display.add_task(ALL_RUNS_TASK, len(specs), work, len(specs) - len(remaining))
        for method, seconds in expected_seconds.items():
            if missing[method]:
                done = total[method] - missing[method]
                self.display.add_task(_task_name(method), total[method], seconds, done)


@dataclass
class _WorkerMonitor:
    """Reports once that no worker is connected; raises if local ones do not restart in time."""

    display: ProgressDisplay
    is_local: bool
    idle_since: float = 0.0

    def __call__(self, workers: int) -> None:
        now = time.monotonic()
        if workers:
            self.idle_since = 0.0
        elif not self.idle_since:
            self.idle_since = now
            self.display.note("no worker is connected; waiting for one")
        elif self.is_local and now - self.idle_since > RESTART_TIMEOUT_SECONDS:
            raise StudyError("the workers of this machine do not start again")


def _task_name(method: str) -> str:
    """The title of a method, and its name where it is imported: such a title may not be unique."""
    title = find_method(method).title
    return f"{title} ({method})" if ":" in method else title
