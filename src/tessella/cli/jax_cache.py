"""Compiled code that is kept between commands: the second solve of a shape compiles nothing.

JAX keeps it in the user's cache folder, one for each machine, since code for one processor may not
run on another. What was not written for longest goes when all takes more than
``JAX_CACHE_MAX_BYTES``.
"""

from __future__ import annotations

import os
import platform
import warnings
from contextlib import suppress

from tessella.cli.cache import cache_folder, evict

JAX_CACHE_MAX_BYTES = 1 << 29  # bytes
CACHE_FOLDER_VARIABLE = "JAX_COMPILATION_CACHE_DIR"
JAX_CACHE_VARIABLES = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.1",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0",
}


def enable_jax_cache() -> None:
    """Name the folder in the environment; JAX reads it when it is first imported."""
    # An entry that another command is just writing is compiled anew.
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
    if CACHE_FOLDER_VARIABLE in os.environ:
        return
    with suppress(OSError, RuntimeError):
        folder = cache_folder() / "compiled" / platform.node()
        folder.mkdir(parents=True, exist_ok=True)
        evict(folder, JAX_CACHE_MAX_BYTES)
        os.environ.update({CACHE_FOLDER_VARIABLE: str(folder), **JAX_CACHE_VARIABLES})
