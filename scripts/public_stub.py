"""Write the type stub of the package: `python scripts/public_stub.py`.

``tessella/__init__.py`` lists each public name once and loads it when it is first used, which type
checkers cannot follow. The stub tells them where each name is defined.
"""

from __future__ import annotations

from pathlib import Path

import tessella

STUB = Path(tessella.__file__).with_suffix(".pyi")


def render() -> str:
    """The text of the stub."""
    lines = ["# Written by scripts/public_stub.py.", ""]
    for home, names in tessella._HOME.items():
        lines += [f"from tessella.{home} import {name} as {name}" for name in sorted(names.split())]
    return "\n".join([*lines, "", "__version__: str", ""])


if __name__ == "__main__":
    STUB.write_text(render(), encoding="utf-8")
