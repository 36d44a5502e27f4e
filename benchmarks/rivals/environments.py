"""A virtual environment for each rival, so that their pinned versions do not conflict.

A rival that cannot be installed is left out of the comparison, and the report gives the reason.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

INSTALL_LIMIT_SECONDS = 900


@dataclass(frozen=True)
class Rival:
    """A package to compare with."""

    name: str  # of the module contenders/with_NAME.py
    title: str
    packages: tuple[str, ...]
    shared_environment: str = ""  # name of the rival whose environment it uses


RIVALS = (
    Rival("quantecon", "QuantEcon, modified", ("quantecon==0.11.4",)),
    Rival("quantecon_pi", "QuantEcon, policy iteration", (), shared_environment="quantecon"),
    Rival("stormpy", "Storm", ("stormpy==2.0.0", "numpy", "scipy")),
    Rival("mdpsolver", "mdpsolver", ("mdpsolver==0.10.2", "numpy", "scipy")),
    Rival("mdpax", "mdpax", ("mdpax==0.2.2",)),
    Rival("pymdptoolbox", "pymdptoolbox", ("pymdptoolbox==4.0b3",)),
)
DTCONTROL = Rival(
    "dtcontrol",
    "dtControl",
    ("setuptools<80", "psutil", "pandas<3", "numpy<2", "scikit-learn<1.4", "dtcontrol==2.1.15"),
)


@dataclass(frozen=True)
class Environment:
    """The Python that runs a contender; ``failed`` is the reason if it cannot run."""

    python: str
    failed: str = ""


def prepare_environment(rival: Rival, folder: Path) -> Environment:
    """Find the environment of a rival, or create and install it."""
    home = folder / (rival.shared_environment or rival.name)
    python, ready = home / "bin" / "python", home / "ready"
    if ready.exists():
        return Environment(str(python))
    if rival.shared_environment:
        return Environment("", f"needs the environment of {rival.shared_environment}")
    print(f"installing {rival.title} ...", file=sys.stderr, flush=True)
    venv.create(home, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        result = subprocess.run(
            [*command, *rival.packages],
            capture_output=True,
            text=True,
            timeout=INSTALL_LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return Environment("", f"was not installed within {INSTALL_LIMIT_SECONDS} s")
    if result.returncode:
        errors = [line for line in result.stderr.splitlines() if line.startswith("ERROR")]
        return Environment("", f"was not installed: {(errors or ['no reason given'])[-1]}")
    ready.touch()
    return Environment(str(python))
