"""One explorer for all tests: its worker compiles the small problem once."""

from __future__ import annotations

import pytest
from explore.explorer_process import crossing, started


@pytest.fixture(scope="session")
def explorer():
    with started(crossing) as made:
        yield made
