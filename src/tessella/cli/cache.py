"""The user's cache folder, and keeping it within bounds."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path


def cache_folder() -> Path:
    """Where commands keep things for each other: ``TESSELLA_CACHE``, else the system's place."""
    from_environment = os.environ.get("TESSELLA_CACHE")
    if from_environment:
        return Path(from_environment)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tessella"
    base = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "tessella"


def evict(folder: Path, max_bytes: int) -> None:
    """Drop the files of a folder that were not touched for longest, but for the latest."""
    files = []
    for path in folder.iterdir():
        with suppress(OSError):
            status = path.stat()
            if path.is_file():
                files.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files)[:-1]:
        if total <= max_bytes:
            break
        with suppress(OSError):
            path.unlink()
        total -= size
