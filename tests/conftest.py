"""What is compiled for a shape is compiled once for the whole session.

Most of the time of the tests goes into compiling, often the same piece again: in both workers, in
processes that tests start, and after the engine's table has dropped it. So compiled code is kept in
a folder of the session, which is named in the environment before JAX is first imported. What
commands remember is kept there too.
"""

from __future__ import annotations

import os
import tempfile

import pytest
from hypothesis import settings

settings.register_profile("whenever", deadline=None)  # the machine may be busy with other things
settings.load_profile("whenever")

FOLDER, REMEMBERED = "JAX_COMPILATION_CACHE_DIR", "TESSELLA_CACHE"
KEEP_ALL = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder, once: workers inherit the environment of the process that started them."""
    if FOLDER in os.environ:
        return
    folder = tempfile.TemporaryDirectory(prefix="tessella-tests-", ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    config.add_cleanup(lambda: [os.environ.pop(name) for name in (FOLDER, REMEMBERED)])
    kept = {REMEMBERED: os.path.join(folder.name, "kept")}  # not what the user's commands keep
    os.environ.update({FOLDER: folder.name, **KEEP_ALL, **kept})
