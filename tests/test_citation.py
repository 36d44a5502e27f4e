"""What others cite, and what they upgrade by: CITATION.cff and the changelog name this version."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import tessella as ts

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def cited() -> dict:
    yaml = pytest.importorskip("yaml", reason="PyYAML, which comes with distributed, is not here")
    return yaml.safe_load((ROOT / "CITATION.cff").read_text())


def test_the_citation_is_that_of_this_version_of_the_package(cited):
    assert cited["cff-version"] == "1.2.0"
    assert {"message", "authors"} <= set(cited)
    assert cited["title"] == PROJECT["name"]
    assert str(cited["version"]) == PROJECT["version"] == ts.__version__
    assert cited["license"] == PROJECT["license"]
    assert cited["keywords"] == PROJECT["keywords"]


def test_the_paper_is_cited_as_the_readme_names_it(cited):
    (paper,) = cited["references"]
    said = " ".join((ROOT / "README.md").read_text().split())
    number = paper["url"].rpartition("/")[2]
    assert paper["identifiers"] == [{"type": "other", "value": f"arXiv:{number}"}]
    assert f"*{paper['title']}* (arXiv {number})" in said
    assert [one["family-names"] for one in paper["authors"]] == ["Pokou"]


def test_the_changelog_tells_of_what_is_not_released_first_and_of_this_version():
    heads = re.findall(r"^## (.*)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert heads[0] == "Unreleased"
    assert heads[1].split()[0] == PROJECT["version"]
