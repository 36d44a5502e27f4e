"""An environment of its own for each rival, so that their pins do not meet.

A rival that cannot be installed is out of the comparison, and the report says so and why.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

LIMIT = 900  # seconds for one installation


@dataclass(frozen=True)
class Rival:
    """A package to compare with."""

    name: str  # of the file contenders/with_NAME.py
    title: str
    packages: tuple[str, ...]
    shares: str = ""  # the environment of another


RIVALS = (
    Rival("quantecon", "QuantEcon, modified", ("quantecon==0.11.4",)),
    Rival("quantecon_pi", "QuantEcon, policy iteration", (), shares="quantecon"),
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
    """Where a contender runs; ``failed`` says why it cannot."""

    python: str
    failed: str = ""


def environment(rival: Rival, folder: Path) -> Environment:
    """The environment of a rival, made where it is missing."""
    home = folder / (rival.shares or rival.name)
    python, ready = home / "bin" / "python", home / "ready"
    if ready.exists():
        return Environment(str(python))
    if rival.shares:
        return Environment("", f"needs the environment of {rival.shares}")
    print(f"installing {rival.title} ...", file=sys.stderr, flush=True)
    venv.create(home, with_pip=True, clear=True)
    asked = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        done = subprocess.run(
            [*asked, *rival.packages], capture_output=True, text=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return Environment("", f"was not installed within {LIMIT} s")
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        return Environment("", f"was not installed: {(said or ['no reason given'])[-1]}")
    ready.touch()
    return Environment(str(python))
