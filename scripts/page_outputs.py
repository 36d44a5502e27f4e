"""Write what the programs on pages print into the blocks called ``output`` that follow them.

python scripts/page_outputs.py [PAGE ...]    # README.md and all pages with such blocks by default
"""

from __future__ import annotations

import argparse
import io
import os
import re
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROGRAM = re.compile(
    r"```python\n(?P<program>.*?)```(?:\n\n```output\n(?P<output>.*?)```)?", re.DOTALL
)
HAS_OUTPUT = re.compile(r"```\n\n```output\n")


def run_program(program: str, names: dict) -> str:
    """What a program prints."""
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(program, "page", "exec"), names)
    return printed.getvalue()


def render(text: str) -> str:
    """The page with what its programs print today, each run with the names of those before."""
    names: dict = {}

    def replace_output(match: re.Match[str]) -> str:
        program = match["program"]
        if ">>>" in program:
            return match[0]
        printed = run_program(program, names)
        if match["output"] is None:
            return match[0]
        return f"```python\n{program}```\n\n```output\n{printed}```"

    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return PROGRAM.sub(replace_output, text)
        finally:
            os.chdir(before)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="*", type=Path)
    everything = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in parser.parse_args().pages or everything:
        text = page.read_text(encoding="utf-8")
        if HAS_OUTPUT.search(text):
            page.write_text(render(text), encoding="utf-8")
            print(page)


if __name__ == "__main__":
    main()
