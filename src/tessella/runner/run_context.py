"""Where numbers come from: versions and machine of the process that computed them."""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RECORDED_PACKAGES = (
    "tessella",
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "scikit-learn",
    "optax",
    "distributed",
)
RECORDED_VARIABLES = ("XLA_FLAGS", "JAX_PLATFORMS", "OMP_NUM_THREADS")


@cache
def collect_context() -> dict[str, Any]:
    """Versions of all that computes, the machine, and the settings that decide its threads."""
    return {
        "python": platform.python_version(),
        "versions": {name: _package_version(name) for name in RECORDED_PACKAGES},
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor_name(),
        "cores": os.cpu_count(),
        "flags": {name: os.environ[name] for name in RECORDED_VARIABLES if name in os.environ},
    }


def _package_version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _processor_name() -> str:
    """The processor's name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
