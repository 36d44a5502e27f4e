"""Which files decide what the outputs look like, said and not guessed by a pattern."""

from __future__ import annotations

import shutil

import pytest

from tessella.paper.sources import KINDS, PACKAGE, source_hash, sources


@pytest.fixture
def package(tmp_path):
    """A copy of the package that may be changed."""
    ignored = shutil.ignore_patterns("__pycache__")
    return shutil.copytree(PACKAGE, tmp_path / "tessella", ignore=ignored)


def test_every_file_of_the_package_counts():
    there = {p for p in PACKAGE.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    assert set(sources()) == there
    assert {path.suffix for path in there} == set(KINDS)


@pytest.mark.parametrize("file", ["grid.py", "paper/table.py", "paper/templates/report.html.j2"])
def test_a_change_of_any_file_is_seen(package, file):
    before = source_hash(package)
    assert before == source_hash()
    (package / file).write_text((package / file).read_text() + " ")
    assert source_hash(package) != before


def test_a_file_that_moves_is_seen(package):
    before = source_hash(package)
    (package / "paper" / "gaps.py").rename(package / "paper" / "holes.py")
    assert source_hash(package) != before
