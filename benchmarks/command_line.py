"""How long the first commands take beyond a bare interpreter, and a map after a solve.

    python benchmarks/command_line.py [rounds]

Each is run in turn, several times over; the median of each is printed, with what it takes more than
``python -c 0`` in the same rounds.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

COMMANDS = {
    "python -c 0": ["-c", "0"],
    "tessella --help": ["-m", "tessella", "--help"],
    "tessella list": ["-m", "tessella", "list"],
    "tessella show INV-Mix": ["-m", "tessella", "show", "INV-Mix"],
    "tessella solve INV-Mix, kept": ["-m", "tessella", "solve", "INV-Mix"],
    "tessella map INV-Mix, kept": ["-m", "tessella", "map", "INV-Mix"],
}


def main(rounds: int = 9) -> None:
    with tempfile.TemporaryDirectory() as kept:
        environment = os.environ | {"TESSELLA_CACHE": kept}
        spent: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for turn in range(rounds + 1):
            for name, words in COMMANDS.items():
                began = time.perf_counter()
                command = [sys.executable, *words]
                subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
                if turn:  # the first round solves, and reads files from the disk
                    spent[name].append(time.perf_counter() - began)
    medians = {name: statistics.median(times) for name, times in spent.items()}
    bare = medians["python -c 0"]
    print(f"{'command':32}{'seconds':>9}{'more':>9}")
    for name, median in medians.items():
        print(f"{name:32}{median:9.2f}{median - bare:9.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
