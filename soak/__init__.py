"""Long random sweeps against independent oracles: ``make soak``, ``python -m soak --minutes 30``.

Each kind judges one random case for each seed, with the oracles of ``tests/support``. The kinds
take turns, each turn in a process of its own, so that compiled code does not pile up and a crash is
a fault like any other.
"""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS / "runner"), str(TESTS)]  # studies start as the runner's tests do
