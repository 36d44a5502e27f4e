"""When outputs are written again, and when they stand."""

from __future__ import annotations

import io

import pytest

from tessella.study import outputs
from tessella.study.plan import Study, batches
from tessella.study.progress import Lines
from tessella.study.reproduce import reproduce
from tessella.study.run import run_batch
from tessella.study.store import Store

ONE = Study(("QUE-Lin",), ("exact_table",))
TWO = Study(("QUE-Lin", "QUE-Mix"), ("exact_table",))


@pytest.fixture
def folder(tmp_path):
    """A folder with all runs of both studies."""
    with Store.writer(tmp_path) as store:
        for batch in batches({spec.key: spec for spec in ONE.specs + TWO.specs}.values()):
            outcome = run_batch(batch.specs)
            store.add(outcome.records, outcome.context)
    return tmp_path


def said(study: Study, folder) -> str:
    stream = io.StringIO()
    assert reproduce(study, folder, Lines(stream)).started == 0
    return stream.getvalue()


def test_outputs_stand_until_something_changes(folder):
    assert "report: 5 of 5" in said(ONE, folder)
    assert "up to date" in said(ONE, folder)
    (folder / "table.csv").unlink()
    assert "report: 5 of 5" in said(ONE, folder)
    assert (folder / "table.csv").exists()
    (folder / "figures" / "figure-2.png").unlink()
    assert "report: 5 of 5" in said(ONE, folder)
    assert "report: 5 of 5" in said(TWO, folder), "another study"
    assert "up to date" in said(TWO, folder)


def test_what_another_study_began_to_write_does_not_pass_for_this_ones(folder, monkeypatch):
    said(ONE, folder)
    ours = (folder / "table.csv").read_text()

    def dies(results):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(outputs, "parquet", dies)
        with pytest.raises(KeyboardInterrupt):
            said(TWO, folder)
    assert (folder / "table.csv").read_text() != ours
    assert "report: 5 of 5" in said(ONE, folder)
    assert (folder / "table.csv").read_text() == ours


def test_figures_that_a_study_has_not_are_removed(folder):
    (folder / "figures").mkdir()
    (folder / "figures" / "figure-5.png").write_text("of an earlier study")
    said(ONE, folder)
    assert sorted(file.name for file in (folder / "figures").iterdir()) == [
        "figure-1.png",
        "figure-1.svg",
        "figure-2.png",
        "figure-2.svg",
    ]
