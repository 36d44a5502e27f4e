"""reproduce(study, folder): run what is not stored yet, then write tables, figures and report."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tessella.errors import require_packages
from tessella.files import atomic_write
from tessella.paper.results import PaperResults
from tessella.runner.run_study import (
    COMPILED_CODE_BYTES,
    STORE_BYTES_PER_RUN,
    STUDY_PACKAGES,
    load_stored,
    run_missing,
)
from tessella.runner.store import Store
from tessella.runner.study import Study
from tessella.support.progress import ProgressDisplay

OUTPUT_BYTES = 8_000_000  # bytes for tables, figures and report
PACKAGE_FOLDER = Path(__file__).parents[1]
# Modules, the type stub, templates, and the page of the explorer; the package has no other files.
SOURCE_SUFFIXES = (".py", ".pyi", ".j2", ".html", ".css", ".js", ".svg")


def reproduce(
    study: Study,
    folder: str | Path,
    display: ProgressDisplay,
    workers: int | None = None,
    scheduler: str | None = None,
    *,
    retry: bool = False,
    report: bool = True,
) -> PaperResults:
    """Run ``study`` into ``folder``.

    Args:
        workers: processes on this machine; None for one on each core.
        scheduler: address of a dask scheduler whose workers run it instead.
        retry: run again what failed before.
        report: write tables, figures and the report from the store.
    """
    require_packages("the paper", "study", STUDY_PACKAGES)
    folder = Path(folder)
    with Store.writer(
        folder, space=OUTPUT_BYTES + COMPILED_CODE_BYTES + STORE_BYTES_PER_RUN * len(study.specs)
    ) as store:
        run_missing(store, study, display, workers, scheduler, retry=retry)
        results = PaperResults(study, *load_stored(store, study))
        if report:
            _write_report(results, folder, display)
    return results


def _write_report(results: PaperResults, folder: Path, display: ProgressDisplay) -> None:
    """Write tables, figures and report, unless all are there and nothing has changed since."""
    from tessella.paper.report import write_outputs

    stamp = folder / "report.stamp"
    digest = _digest_results(results)
    if _is_up_to_date(stamp, digest):
        display.note("the report is up to date")
        return
    # There is no stamp while the folder may hold files of two studies.
    stamp.unlink(missing_ok=True)
    files = write_outputs(results, folder, display)
    with atomic_write(stamp) as temporary:
        temporary.write_text(
            "\n".join([digest, *(str(file.relative_to(folder)) for file in files)])
        )


def _is_up_to_date(stamp: Path, digest: str) -> bool:
    """Whether the outputs are those of ``digest``, and all of them are there."""
    if not stamp.exists():
        return False
    stored_digest, *files = stamp.read_text().splitlines()
    return stored_digest == digest and all((stamp.parent / file).exists() for file in files)


def _digest_results(results: PaperResults) -> str:
    """What the outputs depend on: the study, its records, and the code that shows them."""
    digest = hashlib.sha256(repr(results.study).encode())
    for record in results.records:
        digest.update(f"{record.spec.key} {record.seconds} {record.reason}".encode())
    for entry in (*results.sessions, *results.contexts):
        digest.update(json.dumps(entry, sort_keys=True).encode())
    digest.update(hash_sources().encode())
    return digest.hexdigest()


def list_sources(package: Path = PACKAGE_FOLDER) -> list[Path]:
    """The files that decide how the outputs look: every file of the package, by name."""
    return sorted(
        file for file in package.rglob("*") if file.suffix in SOURCE_SUFFIXES and file.is_file()
    )


def hash_sources(package: Path = PACKAGE_FOLDER) -> str:
    """SHA-256 of the names of these files in the package and of their contents."""
    digest = hashlib.sha256()
    for file in list_sources(package):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(package).as_posix()} {content}\n".encode())
    return digest.hexdigest()
