"""Time of the first commands beyond a bare interpreter, and of a map after a solve.

    python benchmarks/command_line.py [rounds]

Each runs in turn, several times; the script prints the median of each, and how much longer it is
than ``python -c 0`` in the same rounds.
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
    with tempfile.TemporaryDirectory() as cache_folder:
        environment = os.environ | {"TESSELLA_CACHE": cache_folder}
        seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
        for round_number in range(rounds + 1):
            for name, arguments in COMMANDS.items():
                start = time.perf_counter()
                command = [sys.executable, *arguments]
                subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
                if round_number:  # the first round solves, and reads files from the disk
                    seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    interpreter = medians["python -c 0"]
    print(f"{'command':32}{'seconds':>9}{'more':>9}")
    for name, median in medians.items():
        print(f"{name:32}{median:9.2f}{median - interpreter:9.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
