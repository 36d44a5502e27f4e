"""Solved benchmarks, each solved once."""

from __future__ import annotations

from functools import cache

import pytest

import tessella as ts


@cache
def _solved(label: str) -> ts.Solution:
    return ts.solve(ts.benchmark(label))


@pytest.fixture(scope="session")
def solved():
    """Benchmark label -> solution."""
    return _solved


@pytest.fixture(scope="session")
def inventory(solved):
    return solved("INV-Mix")


@pytest.fixture(scope="session")
def queue(solved):
    return solved("QUE-Mix")
