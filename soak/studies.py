"""A study that is killed at random moments and resumed gives what an uninterrupted one gives."""

from __future__ import annotations

import random
import tempfile
import time
from functools import cache
from pathlib import Path

METHODS = ("toy:slow", "linear")
LATEST = 8.0  # seconds after which a kill may come


@cache
def compiled() -> Path:
    """Compiled code that the studies of this process share."""
    return Path(tempfile.mkdtemp(prefix="soak-compiled-"))


@cache
def uninterrupted() -> dict[str, tuple]:
    """What the runs give in this process, without a cluster."""
    from test_kill import asked, numbers

    from tessella.runner.run import run_batch
    from tessella.runner.study import make_batches

    every = make_batches(asked(*METHODS).specs)
    return numbers(record for batch in every for record in run_batch(batch.specs).records)


def killed_study(seed: int) -> list[str]:
    """Faults of one study; the seed decides when it is killed, and how often."""
    from conftest import Shell
    from test_kill import ASKED, numbers

    chance, shell = random.Random(seed), Shell(compiled())
    words = (*ASKED, "--methods", ",".join(METHODS))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        try:
            for _ in range(chance.randint(1, 3)):
                process = shell.paper(out, *words, "--workers", "2")
                time.sleep(chance.uniform(0, LATEST))
                process.kill()
                process.wait()
            status, output = shell.finish(shell.paper(out, *words))
            if status != 0:
                return [f"the resumed study ends with status {status}: {output[-500:]}"]
            return differences(numbers(shell.records(out)), uninterrupted())
        finally:
            shell.close()


def differences(got: dict[str, tuple], expected: dict[str, tuple]) -> list[str]:
    missing, more = expected.keys() - got.keys(), got.keys() - expected.keys()
    other = [key for key in expected.keys() & got.keys() if got[key] != expected[key]]
    counts = {"missing": len(missing), "unasked": len(more), "different": len(other)}
    return [f"{count} records are {how}" for how, count in counts.items() if count]
