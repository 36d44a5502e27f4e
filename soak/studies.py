"""A study that is killed at random times and resumed equals an uninterrupted one."""

from __future__ import annotations

import random
import tempfile
import time
from functools import cache
from pathlib import Path

METHODS = ("toy:slow", "linear")
KILL_MAX_SECONDS = 8.0  # latest kill after the start


@cache
def make_cache_folder() -> Path:
    """A folder for compiled code that the studies of this process share."""
    return Path(tempfile.mkdtemp(prefix="soak-compiled-"))


@cache
def run_uninterrupted() -> dict[str, tuple]:
    """Results of all runs in this process, without a cluster."""
    from test_interruptions import asked, numbers

    from tessella.runner.run import run_batch
    from tessella.runner.study import make_batches

    every = make_batches(asked(*METHODS).specs)
    return numbers(record for batch in every for record in run_batch(batch).records)


def check_killed_study(seed: int) -> list[str]:
    """Faults of one study; the seed decides when and how often it is killed."""
    from conftest import Shell
    from test_interruptions import ASKED, numbers

    rng, shell = random.Random(seed), Shell(make_cache_folder())
    arguments = (*ASKED, "--methods", ",".join(METHODS))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        try:
            for _ in range(rng.randint(1, 3)):
                process = shell.paper(out, *arguments, "--workers", "2")
                time.sleep(rng.uniform(0, KILL_MAX_SECONDS))
                process.kill()
                process.wait()
            status, output = shell.finish(shell.paper(out, *arguments))
            if status != 0:
                return [f"the resumed study ends with status {status}: {output[-500:]}"]
            return find_differences(numbers(shell.records(out)), run_uninterrupted())
        finally:
            shell.close()


def find_differences(records: dict[str, tuple], expected: dict[str, tuple]) -> list[str]:
    missing, extra = expected.keys() - records.keys(), records.keys() - expected.keys()
    different = [key for key in expected.keys() & records.keys() if records[key] != expected[key]]
    counts = {"missing": len(missing), "not requested": len(extra), "different": len(different)}
    return [f"{count} records are {how}" for how, count in counts.items() if count]
