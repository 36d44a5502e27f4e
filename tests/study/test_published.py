"""The full study whose records and table are in the docs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tessella.study.conclusions import conclusions
from tessella.study.outputs import read_parquet
from tessella.study.plan import Study
from tessella.study.results import Results
from tessella.study.table import markdown, rows

GENERATED = Path(__file__).parents[2] / "docs" / "generated"

pytestmark = pytest.mark.xdist_group("published")


@pytest.fixture(scope="module")
def results() -> Results:
    return Results(Study(), read_parquet(GENERATED / "records.parquet"))


def test_it_is_the_study_that_this_version_plans(results):
    """A changed setting needs a new run: `make paper`, then copy its records and table."""
    assert {r.spec.key for r in results.records} == {spec.key for spec in Study().specs}
    assert results.failed == []


def test_every_conclusion_of_the_paper_holds(results):
    assert [finding for finding in conclusions(results) if finding.holds is not True] == []


def test_the_table_in_the_docs_is_made_from_these_records(results):
    assert (GENERATED / "table.md").read_text() == markdown(rows(results))
