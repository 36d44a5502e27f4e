"""Disks that are full: real ones, and the system's own limit on the size of files."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NO_MOUNT = "no right to mount a disk (run as root)"


@contextmanager
def limit_file_size(size: int) -> Iterator[None]:
    """Inside this, the system fails every write beyond ``size`` bytes of a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@contextmanager
def mount_disk(folder: Path, size: str) -> Iterator[bool]:
    """A disk of this size at ``folder``; False where this user cannot mount one."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        done = False
    try:
        yield done
    finally:
        if done:
            subprocess.run(["umount", str(folder)], check=True)
