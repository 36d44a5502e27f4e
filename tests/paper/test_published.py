"""The full study whose records and table are in the docs."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tessella.paper.conclusions import conclusions
from tessella.paper.plan import paper_study
from tessella.paper.results import Results
from tessella.paper.table import markdown, rows
from tessella.runner.parquet import read_parquet

GENERATED = Path(__file__).parents[2] / "docs" / "generated"

pytestmark = pytest.mark.xdist_group("published")


@pytest.fixture(scope="module")
def results() -> Results:
    return Results(paper_study(), read_parquet(GENERATED / "records.parquet"))


def test_it_is_the_study_that_this_version_plans(results):
    """A changed setting needs a new run: `make paper`, then copy its records and table."""
    # The keys as they were stored, not as this version would write them.
    stored = pq.read_table(GENERATED / "records.parquet", columns=["key"])["key"].to_pylist()
    assert set(stored) == {spec.key for spec in paper_study().specs}
    assert results.failed == []


def test_every_conclusion_of_the_paper_holds(results):
    assert [finding for finding in conclusions(results) if finding.holds is not True] == []


def test_the_table_in_the_docs_is_made_from_these_records(results):
    assert (GENERATED / "table.md").read_text() == markdown(rows(results))
