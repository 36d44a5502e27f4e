"""Where numbers come from: versions and machine of the process that computed them."""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("tessella", "jax", "jaxlib", "numpy", "scipy", "scikit-learn", "optax", "distributed")
FLAGS = ("XLA_FLAGS", "JAX_PLATFORMS", "OMP_NUM_THREADS")


@cache
def context() -> dict[str, Any]:
    """Versions of all that computes, the machine, and the settings that decide its threads."""
    return {
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES},
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": os.cpu_count(),
        "flags": {name: os.environ[name] for name in FLAGS if name in os.environ},
    }


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    """The processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
