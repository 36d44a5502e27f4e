"""One explorer for all tests: its worker compiles the small problem once."""

from __future__ import annotations

import pytest
from explore.running import started


@pytest.fixture(scope="session")
def explorer():
    with started() as made:
        yield made
