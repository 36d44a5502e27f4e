"""The user's cache folder, and keeping it within bounds."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path


def cache_folder() -> Path:
    """Where commands keep things for each other: ``TESSELLA_CACHE``, else the system's place."""
    named = os.environ.get("TESSELLA_CACHE")
    if named:
        return Path(named)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "tessella"
    base = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME")
    return (Path(base) if base else Path("~/.cache").expanduser()) / "tessella"


def make_room(folder: Path, most: int) -> None:
    """Drop the files of a folder that were not touched for longest, but for the latest."""
    kept = []
    for path in folder.iterdir():
        with suppress(OSError):
            known = path.stat()
            if path.is_file():
                kept.append((known.st_mtime, known.st_size, path))
    total = sum(size for _, size, _ in kept)
    for _, size, path in sorted(kept)[:-1]:
        if total <= most:
            break
        with suppress(OSError):
            path.unlink()
        total -= size
