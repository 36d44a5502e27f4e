"""Long random tests with independent oracles: ``make soak``, ``python -m soak --minutes 30``.

Each kind checks one random case for each seed, with the oracles of ``tests/support``. The kinds
take turns. Each turn runs in its own process, so that compiled code does not accumulate and a crash
counts as a fault.
"""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path[:0] = [str(TESTS / "runner"), str(TESTS)]  # studies use the fixtures of the runner's tests
