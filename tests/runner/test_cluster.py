"""How many cores a study takes."""

from __future__ import annotations

import os
from pathlib import Path

from tessella.runner.dispatch import count_cores


def test_a_study_takes_the_cores_that_its_process_may_use(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5, 7}, raising=False)
    assert count_cores() == 3


def test_where_the_system_does_not_tell_a_study_takes_all_cores(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    assert count_cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert count_cores() == 1


def test_nobody_else_asks_the_system_for_cores():
    """What only some systems can tell is asked for, with care, in one place."""
    root = Path(__file__).parents[2]
    folders = ("src", "benchmarks", "scripts", "soak")
    files = [path for folder in folders for path in (root / folder).rglob("*.py")]
    assert [p.name for p in files if "sched_getaffinity" in p.read_text()] == ["dispatch.py"]
