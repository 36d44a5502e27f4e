"""Which files decide what the outputs look like: every file of the package."""

from __future__ import annotations

import hashlib
from pathlib import Path

PACKAGE_FOLDER = Path(__file__).parents[1]
# Modules, templates, and the page of the explorer; the package has no other files.
SOURCE_SUFFIXES = (".py", ".j2", ".html", ".css", ".js", ".svg")


def list_sources(package: Path = PACKAGE_FOLDER) -> list[Path]:
    """The files, by name."""
    return sorted(
        file for file in package.rglob("*") if file.suffix in SOURCE_SUFFIXES and file.is_file()
    )


def hash_sources(package: Path = PACKAGE_FOLDER) -> str:
    """Of their places in the package, and of their content."""
    digest = hashlib.sha256()
    for file in list_sources(package):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(package).as_posix()} {content}\n".encode())
    return digest.hexdigest()
