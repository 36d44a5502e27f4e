"""When outputs are written again, and when they stand."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tessella.errors import StudyError
from tessella.paper import report
from tessella.paper.published import paper_study
from tessella.paper.reproduce import reproduce
from tessella.runner.record import read_parquet
from tessella.runner.run import run_batch
from tessella.runner.store import Store
from tessella.runner.study import Study, make_batches
from tessella.support.progress import PlainProgress

ONE = paper_study(("QUE-Lin",), ("exact_table",))
TWO = paper_study(("QUE-Lin", "QUE-Mix"), ("exact_table",))


@pytest.fixture
def folder(tmp_path):
    """A folder with all runs of both studies."""
    with Store.writer(tmp_path) as store:
        for batch in make_batches({spec.key: spec for spec in ONE.specs + TWO.specs}.values()):
            outcome = run_batch(batch)
            store.add(outcome.records, outcome.context)
    return tmp_path


@pytest.fixture
def undrawn(monkeypatch):
    """Figures are files of a few bytes: what is in them plays no part."""
    monkeypatch.setattr(report, "render_image", lambda figure, form: f"<{form}/>".encode())


def said(study: Study, folder) -> str:
    stream = io.StringIO()
    reproduce(study, folder, PlainProgress(stream))
    shown = stream.getvalue()
    assert f"all {len(study.specs)} runs are stored" in shown
    return shown


def test_outputs_stand_until_something_changes(folder, undrawn):
    assert "report: 5 of 5" in said(ONE, folder)
    assert "up to date" in said(ONE, folder)
    (folder / "table.csv").unlink()
    assert "report: 5 of 5" in said(ONE, folder)
    assert (folder / "table.csv").exists()
    (folder / "figures" / "figure-2.png").unlink()
    assert "report: 5 of 5" in said(ONE, folder)
    assert "report: 5 of 5" in said(TWO, folder), "another study"
    assert "up to date" in said(TWO, folder)


def test_what_another_study_began_to_write_does_not_pass_for_this_ones(
    folder, undrawn, monkeypatch
):
    said(ONE, folder)
    ours = (folder / "table.csv").read_text()

    def dies(results):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(report, "records_to_parquet", dies)
        with pytest.raises(KeyboardInterrupt):
            said(TWO, folder)
    assert (folder / "table.csv").read_text() != ours
    assert "report: 5 of 5" in said(ONE, folder)
    assert (folder / "table.csv").read_text() == ours


def test_figures_that_a_study_has_not_are_removed(folder):
    (folder / "figures").mkdir()
    (folder / "figures" / "figure-5.png").write_text("of an earlier study")
    said(ONE, folder)
    assert {file.name for file in (folder / "figures").iterdir()} == {
        f"figure-{number}{ending}"
        for number in (1, 2)
        for ending in (".png", ".svg", "-column.pdf", "-column.svg")
    }


def written(folder) -> list[dict]:
    with Store.reader(folder) as store:
        records = tuple(store.records())
    (folder / "records.parquet").write_bytes(report.records_to_parquet(records))
    return pq.read_table(folder / "records.parquet").to_pylist()


def rewrite(folder, rows: list[dict]) -> None:
    pq.write_table(pa.Table.from_pylist(rows), folder / "records.parquet")


@pytest.mark.parametrize(
    ("column", "value"), [("mean_loss", 0.5), ("spec", "{}"), ("actions", b"\0" * 651), ("n", 1)]
)
def test_an_altered_record_of_the_parquet_file_is_named_and_refused(folder, column, value):
    first, second = written(folder)
    assert len(read_parquet(folder / "records.parquet")) == 2
    rewrite(folder, [first, {**second, column: value}])
    message = rf"records.parquet cannot be read .* the record {second['key'][:12]} .* was altered"
    with pytest.raises(StudyError, match=message):
        read_parquet(folder / "records.parquet")


@pytest.mark.parametrize("lacking", ["seconds", "dtype", "checksum"])
def test_a_parquet_file_that_lacks_a_column_is_refused(folder, lacking):
    rewrite(folder, [{k: v for k, v in row.items() if k != lacking} for row in written(folder)])
    with pytest.raises(StudyError, match=f"has no {lacking}"):
        read_parquet(folder / "records.parquet")


def test_what_is_no_parquet_file_is_refused(tmp_path):
    (tmp_path / "records.parquet").write_text("something else")
    for name in ("records.parquet", "nowhere.parquet"):
        with pytest.raises(StudyError, match=f"{name} cannot be read as a study's records"):
            read_parquet(tmp_path / name)


def test_an_altered_record_stops_a_study_before_its_work(folder):
    with Store.writer(folder) as store:
        store._db.execute("UPDATE record SET mean_loss = 1 WHERE problem = 'QUE-Lin'")
    more = paper_study(("QUE-Lin",), ("exact_table", "value_iteration_2"))
    with pytest.raises(StudyError, match=r"the record .* \(QUE-Lin, exact_table, n=0, seed=0\)"):
        reproduce(more, folder, PlainProgress(io.StringIO()))
    with Store.reader(folder) as store:
        assert store.sessions() == []
