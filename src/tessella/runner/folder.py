"""The folder of a study: one process at a time writes there, and only when there is room."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO

from tessella.errors import StudyError

LOCK_FILE = "study.lock"
PROBE_FILE = "space.probe"


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the folder for writing; the lock goes with the process, however it ends."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / LOCK_FILE).open("a+")
    except OSError as error:
        raise StudyError(f"{folder} cannot be written: {error.strerror}") from error
    with file:
        _acquire_lock(file, folder)
        yield


def _acquire_lock(file: IO[str], folder: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        raise StudyError(
            f"another study is at work on {folder} ({file.read().strip()}); wait for it, stop it, "
            "or choose another folder"
        ) from None
    except OSError as error:
        raise StudyError(f"{folder} cannot be locked: {error.strerror}") from error
    with suppress(OSError):  # who holds the lock is a courtesy
        file.truncate(0)
        file.write(f"process {os.getpid()}, since {datetime.now():%Y-%m-%d %H:%M}\n")
        file.flush()


def require_space(folder: Path, space: int) -> None:
    """Refuse a folder into which ``space`` bytes do not fit, by putting them there for a moment."""
    probe = folder / PROBE_FILE
    try:
        with probe.open("wb") as file:
            if space and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, space)
            elif shutil.disk_usage(folder).free < space:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        raise StudyError(
            f"{folder} has no room for this study (about {space / 1e6:.0f} MB): {error.strerror}"
        ) from error
    finally:
        with suppress(OSError):
            probe.unlink()
