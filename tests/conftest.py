"""What is compiled for a shape is compiled once for the whole session.

Most of the time of the tests goes into compiling, often the same piece again: in both workers, in
processes that tests start, and after the engine's table has dropped it. So compiled code is kept in
a folder of the session, which is named in the environment before JAX is first imported. What
commands remember is kept there too.

Files are handed out to workers one by one, so those that take longest come first: the last ones are
then short, and all workers end together.
"""

from __future__ import annotations

import gc
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("whenever", deadline=None)  # the machine may be busy with other things
settings.load_profile("whenever")

FOLDER, REMEMBERED = "JAX_COMPILATION_CACHE_DIR", "TESSELLA_CACHE"
KEEP_ALL = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}
# Tests of execution plans take 27 s of CPU, not 69; the programs are the same. Soak and benchmarks
# optimise in full.
QUICK_COMPILATION = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
HERE = Path(__file__).parent
LONGEST = (
    "runner/test_interruptions.py",
    "cli/test_commands.py",
    "paper/test_results.py",
    "solvers/test_execution_plan.py",
    "rules/test_compress.py",
    "test_wheel.py",
    "test_tutorials.py",
    "solvers/test_compilation_cache.py",
    "solvers/test_build_rounding.py",
    "runner/test_dispatch.py",
    "paper/test_failures.py",
    "solvers/test_benchmarks.py",
    "problems/test_platelets.py",
    "mdp/test_gpu_kernels.py",
    "solvers/test_devices.py",
    "test_site.py",
    "learn/test_network.py",
    "certificates/test_check.py",
    "learn/test_fit.py",
)


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder, once: workers inherit the environment of the process that started them."""
    if FOLDER in os.environ:
        return
    folder = tempfile.TemporaryDirectory(prefix="tessella-tests-", ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    config.add_cleanup(lambda: [os.environ.pop(name) for name in (FOLDER, REMEMBERED)])
    kept = {REMEMBERED: os.path.join(folder.name, "kept")}  # not what the user's commands keep
    flags = f"{os.environ.get('XLA_FLAGS', '')} {QUICK_COMPILATION}".strip()
    os.environ.update({FOLDER: folder.name, "XLA_FLAGS": flags, **KEEP_ALL, **kept})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the files that take longest first."""
    ranks = {HERE / name: rank for rank, name in enumerate(LONGEST)}
    assert all(path.is_file() for path in ranks), "LONGEST names files that are there"
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


@pytest.fixture(autouse=True, scope="module")
def problems_of_before() -> Iterator[None]:
    """What a module registers, by a study of its own problems say, is gone after it."""
    from tessella.problems import registry

    before = dict(registry._registered)
    yield
    registry._registered.clear()
    registry._registered.update(before)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
    """At the very end, one line for the tests that were skipped, with what they need."""
    yield
    skipped = [report.longrepr for report in terminalreporter.stats.get("skipped", [])]
    counts = Counter(str(reason).removeprefix("Skipped: ") for *_, reason in skipped)
    if counts:
        said = "; ".join(f"{count} {why}" for why, count in counts.items())
        terminalreporter.write_line(f"tests were skipped: {said}", yellow=True, bold=True)


def pytest_collection_finish() -> None:
    """What was imported stays: the collector need not look at it again and again."""
    gc.collect()
    gc.freeze()
