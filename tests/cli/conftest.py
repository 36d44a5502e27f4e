"""One folder of remembered solutions for all commands of a session."""

from __future__ import annotations

from functools import partial

import pytest
from cli.commands import tessella


@pytest.fixture(scope="session")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def run(tmp_path, kept):
    """Runs ``tessella`` in an empty folder."""
    return partial(tessella, cwd=tmp_path, kept=kept)
