"""The comparison with rivals: it goes on without those that fail, and gives all the same model."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks" / "rivals"


@pytest.fixture
def rivals(monkeypatch):
    """A function that imports a file of the comparison, by its own name and not for long."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(FOLDER)):
            del sys.modules[name]


@pytest.fixture
def without_setup(rivals, monkeypatch):
    """Environments that run this Python, so that none has to be set up."""

    def create(home: Path, **_: object) -> None:
        python = home / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        python.chmod(0o755)

    monkeypatch.setattr(rivals("environments").venv, "create", create)


FIGURES = {
    "build_s": 0.1,
    "build_cpu": 0.1,
    "first_s": 0.2,
    "solve_s": 0.002,
    "solve_cpu": 0.003,
    "memory": 5_000_000,
    "error": 1e-7,
    "wrong": 0,
    "other": 0,
}


def test_a_rival_that_cannot_be_installed_is_left_out_and_the_page_says_why(
    rivals, without_setup, tmp_path
):
    environments, report = rivals("environments"), rivals("report")
    absent = environments.Rival("absent", "Absent", ("--no-index", "no-such-package-at-all"))
    home = environments.prepare_environment(absent, tmp_path / "homes")
    assert home.failed.startswith("was not installed: ERROR: No matching distribution")
    sharing = environments.Rival("sharing", "Sharing", (), shared_environment="absent")
    assert environments.prepare_environment(sharing, tmp_path / "homes").failed

    ours = environments.Rival("tessella", "tessella", ())
    results = {
        f"inventory {n:,}, 0.95": {
            "group": "structured",
            "states": n,
            "figures": {"tessella": FIGURES},
        }
        for n in (825, 5_151)
    }
    reactions = {"an easy case": {"tessella": ("right", True)}}
    trees = rivals("trees")
    comparisons = [trees.TreeComparison("INV-Mix", 825, trees.grow_trees(home, tmp_path))]
    report.write(tmp_path, [ours], results, reactions, comparisons, {"Absent": home.failed})
    page = (tmp_path / "generated" / "rivals.md").read_text()
    assert "Absent took no part: it was not installed: ERROR: No matching distribution" in page
    assert "| INV-Mix | 825 | not installed |" in page
    assert (tmp_path / "images" / "rivals.svg").exists()


def test_a_process_without_an_answer_is_distinguished_from_one_that_rejects(rivals):
    explain_failure = rivals("contest").explain_failure
    assert explain_failure(-11, "") == "died of signal 11"
    assert explain_failure(1, "Traceback\nnumpy.MemoryError: 8 GB") == "out of memory"
    assert explain_failure(1, "Traceback\nsome.package.ModelError: rows must sum to 1") == (
        "ModelError: rows must sum to 1"
    )
    assert explain_failure(0, "") == "ended without a word"


def test_a_process_that_takes_too_long_is_stopped_and_the_reason_is_its_limit(rivals, tmp_path):
    contest, environments = rivals("contest"), rivals("environments")
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        (tmp_path / "stderr.txt").open("w+") as stderr,
        subprocess.Popen(command, **pipes) as process,
    ):
        slow = contest.Contender(environments.Rival("slow", "Slow", ()), process, stderr)
        assert slow.read_figures(0.05) == {"failed": "no answer in 0 s by the clock"}
        assert process.returncode == -9


def test_arrays_and_stages_of_the_structured_model_are_one_model(rivals):
    models = rivals("models")
    models.BLOCK_PAIRS = 70  # so that several blocks are put together
    model = models.Model("small", "inventory", (9, 3), 0.9)
    arrays, staged = model.build_pairs(), rivals("contenders.with_tessella").build(model).to_pairs()
    assert np.array_equal(arrays.state, staged.states)
    assert np.array_equal(arrays.action, staged.choices)
    assert np.allclose(arrays.reward, staged.reward, atol=1e-12)
    assert abs(arrays.rows - staged.transition).max() < 1e-14
