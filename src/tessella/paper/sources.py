"""Which files decide what the outputs look like: every module and every template of the package."""

from __future__ import annotations

import hashlib
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
KINDS = (".py", ".j2")  # modules and templates; the package has no other files


def sources(package: Path = PACKAGE) -> list[Path]:
    """The files, by name."""
    return sorted(file for file in package.rglob("*") if file.suffix in KINDS and file.is_file())


def source_hash(package: Path = PACKAGE) -> str:
    """Of their places in the package, and of their content."""
    digest = hashlib.sha256()
    for file in sources(package):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(package).as_posix()} {content}\n".encode())
    return digest.hexdigest()
