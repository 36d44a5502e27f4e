"""Long solves that may be broken off: the best point so far, in a file.

Any point is a start, so the value is all that a run needs to go on; its history goes with it. A
file appears whole (``tessella.files``): whoever is killed, at whatever moment, leaves the last one
or the one before, and loses no more than what came after it.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tessella.errors import ArgumentError, FileError, is_number
from tessella.files import atomic_write, read_errors
from tessella.mdp.model import MDP
from tessella.solvers.result import History

CHECKPOINT_FORMAT = "tessella checkpoint 1"


@dataclass(frozen=True)
class Checkpoint:
    """Where a solve is kept while it goes on.

    Args:
        path: of the file, which ends in ``.npz``. A file of the same model is gone on from.
        every: seconds after which it is written again; a single round is never cut.
    """

    path: str | Path
    every: float = 60.0

    def __post_init__(self) -> None:
        if Path(self.path).suffix != ".npz":
            raise ArgumentError("a checkpoint ends in .npz", value=f"got {str(self.path)!r}")
        if not is_number(self.every) or not self.every >= 0:
            requirement = "a checkpoint is written every so many seconds, 0 or more"
            raise ArgumentError(requirement, value=f"got {self.every!r}")


def as_checkpoint(source: str | Path | Checkpoint | None) -> Checkpoint | None:
    """A checkpoint as it is; a path as a checkpoint of every minute."""
    return source if source is None or isinstance(source, Checkpoint) else Checkpoint(source)


@dataclass(frozen=True, eq=False)
class SavedRun:
    """What a file holds of a run."""

    value: NDArray[np.float64]
    history: History


class CheckpointWriter:
    """Keeps one run of a model: reads what there is, and writes when it is time."""

    def __init__(self, checkpoint: Checkpoint, mdp: MDP) -> None:
        self.path = Path(checkpoint.path)
        self.interval_seconds = checkpoint.every
        self.fingerprint = mdp.fingerprint
        self.shape = mdp.grid.shape
        self.rounds_per_check = 1  # rounds between two readings of the clock
        self._last_write = time.monotonic()

    def load_run(self) -> SavedRun | None:
        """What the file holds; None where there is none. One of another model is refused."""
        if not self.path.exists():
            return None
        with read_errors(self.path, "a checkpoint"), np.load(self.path, allow_pickle=False) as file:
            metadata = json.loads(str(file["about"]))
            if (
                metadata.get("format") != CHECKPOINT_FORMAT
                or metadata.get("fingerprint") != self.fingerprint
            ):
                raise FileError(
                    f"{self.path} is the checkpoint of another model",
                    value=f"its model is {str(metadata.get('fingerprint'))[:12]}, "
                    f"this one is {self.fingerprint[:12]}",
                )
            history = History(*(file[name] for name in ("bound", "changed", "seconds")))
            value = file["value"].reshape(self.shape)
            if value.dtype != np.float64 or not np.isfinite(value).all():
                raise FileError("the value of a checkpoint must be finite")
            return SavedRun(value, history)

    @property
    def is_due(self) -> bool:
        """Whether it is time to write; also finds how many rounds fit before the next check."""
        elapsed = time.monotonic() - self._last_write
        self.rounds_per_check = (
            min(2 * self.rounds_per_check, 1 << 20) if elapsed < self.interval_seconds / 2 else 1
        )
        return elapsed >= self.interval_seconds

    def write(self, value: NDArray[np.float64], history: History) -> None:
        metadata = json.dumps({"format": CHECKPOINT_FORMAT, "fingerprint": self.fingerprint})
        with atomic_write(self.path) as part:
            np.savez(part, about=np.asarray(metadata), value=value, **vars(history))
        self._last_write = time.monotonic()
