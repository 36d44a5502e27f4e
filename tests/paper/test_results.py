"""From stored runs to conclusions, tables, figures and a report."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from matplotlib import rc_context
from matplotlib.text import Text

from tessella.certificates.certify import certify
from tessella.paper.claims import check_claims, count_reproduced
from tessella.paper.derived_numbers import low_margin_shares, method_title
from tessella.paper.figures import (
    COLUMN_STYLE,
    FIGURES,
    NARROW_INCHES,
    WIDE_INCHES,
    bin_margins,
    draw_scaling,
    pool_errors,
)
from tessella.paper.limits import describe_differences, describe_limits
from tessella.paper.published import MAIN_TABLE, PAPER_METHODS, paper_study
from tessella.paper.report import write_outputs
from tessella.paper.results import PaperResults
from tessella.paper.table import make_rows, to_csv, to_latex, to_markdown
from tessella.runner.record import Record
from tessella.runner.run import run_batch
from tessella.runner.store import Store
from tessella.runner.study import make_batches
from tessella.support.progress import PlainProgress

SIZES = (100, 6400)
SHOWN = (*PAPER_METHODS, "value_iteration_2", "value_iteration_4", "exact_table")
STUDY = paper_study(("INV-Mix", "QUE-Lin"), SHOWN, SIZES, 4)


# Claims about all boundary methods and all baselines.
GENERAL = re.compile("every boundary method|concentrate")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> PaperResults:
    """A small fresh study, by way of a store."""
    folder = tmp_path_factory.mktemp("study")
    with Store.writer(folder) as store:
        for batch in make_batches(STUDY.specs):
            outcome = run_batch(batch)
            store.add(outcome.records, outcome.context)
        return PaperResults(STUDY, tuple(store.records()), store.sessions(), store.contexts())


@pytest.fixture(scope="module")
def written(results: PaperResults, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    write_outputs(results, folder, PlainProgress(io.StringIO()))
    return folder


def exchanged(results: PaperResults) -> PaperResults:
    """The same runs with the roles of boundary methods and baselines exchanged."""
    other = {"linear": "tabular_q", "neural": "double_q", "margin": "fitted_q"}
    other |= {theirs: ours for ours, theirs in other.items()}
    kept = [r for r in results.done if r.spec.method in other]
    turned = [replace(r, spec=replace(r.spec, method=other[r.spec.method])) for r in kept]
    return PaperResults(replace(results.study, methods=tuple(other)), tuple(turned))


def test_the_papers_conclusions_about_boundary_methods_come_out(results):
    found = [f for f in check_claims(results) if GENERAL.search(f.claim)]
    assert len(found) == 9
    assert [finding for finding in found if finding.verdict != "reproduced"] == []


def test_the_checker_says_so_when_a_conclusion_does_not_hold(results):
    found = [f for f in check_claims(exchanged(results)) if GENERAL.search(f.claim)]
    assert {finding.verdict for finding in found} == {"not reproduced"}


def test_nothing_is_concluded_from_one_group_alone(results):
    ours = tuple(r for r in results.records if r.spec.method in ("linear", "local"))
    found = [f for f in check_claims(PaperResults(results.study, ours)) if GENERAL.search(f.claim)]
    assert {finding.verdict for finding in found} == {"undecided"}


def test_the_low_margin_share_is_a_count_of_errors(results):
    share = low_margin_shares(results)["inventory", "linear"]
    solution = results.solutions["INV-Mix"]
    order = np.argsort(solution.margin, axis=None)
    low = set(order[: 825 // 4 + 1].tolist())
    inside = total = 0
    for record in results.done:
        if (record.spec.problem, record.spec.method) == ("INV-Mix", "linear"):
            if record.spec.n != max(SIZES):
                continue
            for state, action in enumerate(record.actions):
                if action != solution.policy.table.ravel()[state]:
                    total += 1
                    inside += state in low
    assert share == pytest.approx(inside / total)


def test_the_table_holds_family_averages_at_the_largest_n(results):
    by_name = {(row.family, row.method): row for row in make_rows(results)}
    errors = [
        r.policy_error
        for r in results.done
        if (r.spec.problem, r.spec.method, r.spec.n) == ("INV-Mix", "neural", max(SIZES))
    ]
    row = by_name["inventory", "neural"]
    assert row.policy_error.mean == pytest.approx(np.mean(errors))
    assert row.policy_error.std == pytest.approx(np.std(errors, ddof=1))
    assert by_name["queue", "exact_table"].policy_error.mean == 0
    assert row.published is None, "another n and fewer problems are not the paper's setting"


def test_ratios_are_ours_over_the_papers(results):
    row = replace(make_rows(results)[0], published=MAIN_TABLE["inventory", "linear"])
    assert row.ratio("policy_error") == pytest.approx(row.policy_error.mean / 0.0408)
    assert row.ratio("value_gap") == pytest.approx(row.value_gap.mean / 0.099)


def test_the_same_table_stands_in_markdown_csv_and_latex(results):
    table = make_rows(results)
    lines = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert len(lines) == len(table) == 2 * len(SHOWN)
    first = table[0]
    assert float(lines[0]["policy_error_mean"]) == first.policy_error.mean
    shown = f"{first.policy_error.mean:.4f} ± {first.policy_error.std:.4f}"
    assert shown in to_markdown(table)
    assert shown.replace("±", r"$\pm$") in to_latex(table)
    widths = {line.count("|") for line in to_markdown(table).splitlines() if "Linear" in line}
    assert widths == {12, 10}


def test_limits_name_the_reference_that_needs_less(results):
    said = dict(describe_limits(results, make_rows(results)))
    sentences = said["A few sweeps of the model may be enough"]
    first = "Inventory: Value iteration, 4 sweeps loses 0 on average"
    assert any(sentence.startswith(first) for sentence in sentences)
    assert "6,400 labels drawn from 825 states" in said["The labels show nearly every state"][0]


def test_numbers_far_from_the_papers_are_named_with_their_ratio(results):
    table = make_rows(results)
    near = replace(
        table[0], published=replace(_printed(table[0]), policy_error=table[0].policy_error.mean)
    )
    far = replace(
        table[0], published=replace(_printed(table[0]), policy_error=table[0].policy_error.mean / 2)
    )
    assert describe_differences([near])["Where the numbers differ"][0].startswith("Every ratio")
    assert (
        "policy error 2.00 times the paper's"
        in (describe_differences([far])["Where the numbers differ"][0])
    )


def _printed(row):
    return replace(MAIN_TABLE["inventory", "linear"], value_gap=row.value_gap.mean)


class Links(HTMLParser):
    """Everything that a page asks its reader to fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.found += [v for k, v in attrs if k in ("src", "srcset", "href", "action") and v]
        if tag not in ("meta", "img", "source"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_certificates_are_told_whole_in_paragraphs(written, results):
    solution = results.solutions["INV-Mix"]
    given = certify(solution, solution.mdp.policy(np.zeros(solution.mdp.grid.shape, int)))
    said, parts = given.summary(), given.paragraphs()
    assert " ".join(" ".join(parts).split()) == " ".join(said.split("\n\n", 1)[1].split())
    assert [part.count("\n") > 0 for part in parts] == [False, False, True, False, False]
    assert max(map(len, said.splitlines())) < 100 < max(map(len, parts))
    page = (written / "report.html").read_text()
    for method in PAPER_METHODS:
        assert f"<summary><b>{method_title(method)}</b> loses " in page
    told = re.findall(r'<p class="certificate">(.*?)</p>', page, re.DOTALL)
    assert len(told) >= 4 * len(PAPER_METHODS)
    begun = r"  |(Cost|Differences|Causes|Certainty|Theory|The states that cost most): "
    assert [line for part in told for line in part.split("\n") if not re.match(begun, line)] == []


def test_the_report_is_one_file_that_asks_for_nothing(written):
    page = (written / "report.html").read_text()
    links = Links()
    links.feed(page)
    assert links.open == []
    assert {link.split(":")[0] for link in links.found if not link.startswith("#")} == {"data"}
    assert not re.search(r"@import|url\(|<script", page)
    assert 'name="viewport"' in page


def test_the_report_says_what_was_found(written, results):
    page = (written / "report.html").read_text()
    text = re.sub(r"<[^>]+>", "", page)
    for finding in check_claims(results):
        assert finding.claim.replace("'", "&#39;") in text
    assert f"{count_reproduced(check_claims(results))}claims reproduced" in text
    assert text.index("Where boundary methods do not win\n") < text.index("claims, checked")
    assert "This is a partial study" in text
    assert f"{len(results.records):,}" in text


@pytest.mark.parametrize("name", ["1", "2", "3", "4", "5", "a1", "cost"])
def test_every_figure_is_there_in_both_widths(written, name):
    for width, inches in (("", WIDE_INCHES), ("-column", NARROW_INCHES)):
        svg = (written / "figures" / f"figure-{name}{width}.svg").read_text()
        assert float(re.search(r'width="([\d.]+)pt"', svg).group(1)) == pytest.approx(72 * inches)
        assert "<dc:date>" not in svg
    png = (written / "figures" / f"figure-{name}.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    pdf = (written / "figures" / f"figure-{name}-column.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"CreationDate" not in pdf


@pytest.mark.parametrize("figure_spec", FIGURES, ids=lambda figure_spec: figure_spec.name)
def test_text_of_a_column_has_eight_points_and_stays_inside(results, figure_spec):
    """Spreads in the cells of the heat map have seven points, which is what two lines leave."""
    with rc_context(COLUMN_STYLE):
        figure = figure_spec.draw(results, True)
        figure.draw_without_rendering()
        box = figure.get_tightbbox()
    texts = [t for t in figure.findobj(Text) if t.get_text().strip() and t.get_text()[0] != "±"]
    assert min(text.get_fontsize() for text in texts) >= 8
    slack = 0.02  # inches
    assert min(box.x0, box.y0) > -slack
    assert box.x1 < figure.get_figwidth() + slack
    assert box.y1 < figure.get_figheight() + slack


def test_no_band_of_the_scaling_figure_reaches_zero(results):
    axes = draw_scaling(results, narrow=False).axes[0]
    for band in axes.collections:
        assert (band.get_paths()[0].vertices[:, 1] > 0).all()
    low, _ = axes.get_ylim()
    assert min(band.get_paths()[0].vertices[:, 1].min() for band in axes.collections) >= low


def test_the_margin_figure_counts_every_error_once(results):
    margins, bins = bin_margins(results, "inventory")
    assert (np.diff(margins) > 0).all()
    states = np.bincount(bins["INV-Mix"])
    assert abs(states - 82.5).max() < 2, "a tenth of 825 states each, but for equal margins"
    errors = [e.mean * n for e, n in zip(pool_errors(results, bins, "linear"), states, strict=True)]
    assert sum(errors) * STUDY.seeds == results.wrong_actions("INV-Mix", "linear").sum()


def test_all_records_are_in_the_parquet_file(written, results):
    table = pq.read_table(written / "records.parquet").to_pylist()
    assert [row["key"] for row in table] == [r.spec.key for r in results.records]
    np.testing.assert_array_equal(
        np.frombuffer(table[-1]["actions"], np.uint8), results.records[-1].actions
    )


def test_a_study_of_failures_and_of_strangers_still_has_a_report(tmp_path, results):
    failed = Record(results.records[0].spec, reason="no <luck>")
    study = paper_study(("INV-Mix",), ("linear",), (100,), 1)
    write_outputs(PaperResults(study, (failed,)), tmp_path, PlainProgress(io.StringIO()))
    page = (tmp_path / "report.html").read_text()
    assert "no &lt;luck&gt;" in page
    assert "undecided" in page
