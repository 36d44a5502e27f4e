"""Which files decide what the outputs look like, said and not guessed by a pattern."""

from __future__ import annotations

import shutil

import pytest

from tessella.paper.reproduce import PACKAGE_FOLDER, SOURCE_SUFFIXES, hash_sources, list_sources


@pytest.fixture
def package(tmp_path):
    """A copy of the package that may be changed."""
    ignored = shutil.ignore_patterns("__pycache__")
    return shutil.copytree(PACKAGE_FOLDER, tmp_path / "tessella", ignore=ignored)


def test_every_file_of_the_package_counts():
    there = {p for p in PACKAGE_FOLDER.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    assert set(list_sources()) == there
    assert {path.suffix for path in there} == set(SOURCE_SUFFIXES)


@pytest.mark.parametrize("file", ["grid.py", "paper/table.py", "paper/templates/report.html.j2"])
def test_a_change_of_any_file_is_seen(package, file):
    before = hash_sources(package)
    assert before == hash_sources()
    (package / file).write_text((package / file).read_text() + " ")
    assert hash_sources(package) != before


def test_a_file_that_moves_is_seen(package):
    before = hash_sources(package)
    (package / "paper" / "limits.py").rename(package / "paper" / "holes.py")
    assert hash_sources(package) != before
