"""reproduce(study, folder): run what is not stored yet, then write tables, figures and report."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from tessella.files import writing
from tessella.paper.results import Results
from tessella.paper.sources import source_hash
from tessella.runner.display import Display
from tessella.runner.record import Record
from tessella.runner.run_study import COMPILED, EACH, Cluster, fill, stored
from tessella.runner.store import Store
from tessella.runner.study import Study

OUTPUTS = 8_000_000  # bytes for tables, figures and report


@dataclass(frozen=True, eq=False)
class Finished:
    """A study that came to its end."""

    folder: Path
    started: int  # runs that were not stored before
    failed: tuple[Record, ...]


def reproduce(
    study: Study,
    folder: str | Path,
    display: Display,
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
    with Store.writer(folder, space=OUTPUTS + COMPILED + EACH * len(study.specs)) as store:
        started = fill(store, study, display, cluster, retry=retry)
        results = Results(study, *stored(store, study))
        if report:
            _write(results, folder, display)
    return Finished(folder, started, tuple(results.failed))


def _write(results: Results, folder: Path, display: Display) -> None:
    """Write tables, figures and report, unless all are there and nothing has changed since."""
    from tessella.paper.outputs import write

    stamp, made = folder / "report.stamp", _digest(results)
    if _stands(stamp, made):
        display.note("the report is up to date")
        return
    # While files of two studies may lie side by side, there is no stamp.
    stamp.unlink(missing_ok=True)
    files = write(results, folder, display)
    with writing(stamp) as part:
        part.write_text("\n".join([made, *(str(file.relative_to(folder)) for file in files)]))


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
    digest.update(source_hash().encode())
    return digest.hexdigest()
