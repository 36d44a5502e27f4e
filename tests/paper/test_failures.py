"""What failed runs, few seeds and odd studies leave of conclusions, tables, captions and report.

The records are made up, not trained: boundary methods err in few states, at the smallest margins,
fewer with n; baselines err in many states anywhere.
"""

from __future__ import annotations

import csv
import io
import re
import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure

from tessella.paper import report
from tessella.paper.claims import Finding, check_claims
from tessella.paper.derived_numbers import (
    final_errors,
    final_runs,
    low_margin_shares,
    sweeps_until_settled,
)
from tessella.paper.figures import (
    describe_cost,
    describe_heatmap,
    describe_margins,
    describe_scaling,
    draw_heatmap,
)
from tessella.paper.limits import describe_limits
from tessella.paper.published import PAPER_METHODS, PAPER_SIZES, paper_study
from tessella.paper.report import format_command, render_report, write_outputs
from tessella.paper.results import PaperResults
from tessella.paper.table import make_rows, to_csv, to_latex, to_markdown
from tessella.runner.methods import find_method
from tessella.runner.methods.method import get_instance
from tessella.runner.record import InformationBudget, Record, Spec
from tessella.runner.study import Study
from tessella.solvers.policy_iteration import ValueIteration
from tessella.solvers.solve import solve
from tessella.support.progress import PlainProgress

STUDY = paper_study(("INV-Mix", "INV-Lin", "QUE-Lin"), PAPER_METHODS, (100, 400, 6400), 3)


def made(spec: Spec, errors: int | None = None) -> Record:
    """A record with this many errors, or with as many as its method's group makes."""
    solution = get_instance(spec).solution
    rng = np.random.default_rng([spec.n, spec.seed, zlib.crc32(spec.method.encode())])
    near = find_method(spec.method).group == "boundary"
    usual = 6000 // spec.n + int(rng.integers(3)) if near else 200 + int(rng.integers(90))
    order = np.argsort(solution.margin, axis=None) if near else rng.permutation(solution.value.size)
    best = solution.policy.table.ravel()
    wrong = order[: usual if errors is None else errors]
    actions = best.copy()
    actions[wrong] = (best[wrong] + 1) % solution.mdp.n_actions
    share = wrong.size / best.size
    told = InformationBudget(
        labels=spec.n, margins=spec.n if spec.method == "margin" else 0, backups=10
    )
    return Record(spec, share, share, share, share, 7, told, 0.1, actions.astype(np.uint8))


def page(found: PaperResults) -> str:
    """The report, without figures."""
    return render_report(found, make_rows(found), check_claims(found), [])


def results(
    study: Study = STUDY, errors: Callable[[Spec], int | None] | None = None
) -> PaperResults:
    return PaperResults(study, tuple(made(s, errors(s) if errors else None) for s in study.specs))


def broken(whole: PaperResults, fails: Callable[[Spec], bool]) -> PaperResults:
    """The same with some runs failed."""
    records = (Record(r.spec, reason="x") if fails(r.spec) else r for r in whole.records)
    return PaperResults(whole.study, tuple(records))


@pytest.fixture(scope="module")
def whole() -> PaperResults:
    return results()


def without_linear(spec: Spec) -> bool:
    return (spec.method, spec.problem) == ("linear", "QUE-Lin")


def without_largest(spec: Spec) -> bool:
    return (spec.method, spec.n) == ("linear", 6400)


def about(found: PaperResults | list[Finding], subject: str) -> dict[str, Finding]:
    """Findings whose claim has these words, by claim."""
    findings = check_claims(found) if isinstance(found, PaperResults) else found
    return {f.claim: f for f in findings if subject in f.claim}


LOWER = "every boundary method has a lower"


def test_the_made_up_records_bear_out_every_claim_about_boundary_methods(whole):
    general = [LOWER, "concentrate", "falls faster", "errs less", "spread over seeds", "contiguous"]
    findings = check_claims(whole)
    found = [finding for words in general for finding in about(findings, words).values()]
    assert [finding.verdict for finding in found] == ["reproduced"] * 11


@pytest.mark.parametrize("method", ["linear", "margin", "tabular_q"])
def test_a_claim_cannot_be_told_without_the_runs_of_one_of_its_methods(whole, method):
    found = check_claims(broken(whole, lambda s: (s.method, s.family) == (method, "queue")))
    queue = about(found, f"Queue admission: {LOWER}") | about(found, "Queue admission: errors of")
    assert len(queue) == 3
    for finding in queue.values():
        assert finding.verdict == "undecided"
        assert f"{find_method(method).title}: no finished runs at n = 6,400" in finding.evidence
        assert "nan" not in finding.evidence
    for words in (f"Inventory: {LOWER}", "INV-Mix: every boundary"):
        assert {f.verdict for f in about(found, words).values()} == {"reproduced"}


def test_a_claim_about_a_family_cannot_be_told_without_one_of_its_problems(whole):
    found = broken(whole, lambda s: (s.method, s.problem) == ("margin", "INV-Lin"))
    for finding in about(found, f"Inventory: {LOWER}").values():
        assert finding.verdict == "undecided"
        assert "Margin Boundary: without INV-Lin" in finding.evidence
    assert {f.verdict for f in about(found, f"Queue admission: {LOWER}").values()} == {"reproduced"}


@pytest.mark.parametrize(
    ("fewer", "verdict"),
    [((3, 3, 3), "reproduced"), ((3, 0, -3), "tie"), ((-3, -3, -3), "not reproduced")],
)
def test_the_best_method_must_beat_each_other_one_seed_by_seed(fewer, verdict):
    """Seeds differ by far more than methods do: only a comparison within seeds can tell."""

    def errors(spec: Spec) -> int | None:
        if find_method(spec.method).group != "boundary":
            return None
        return 10 + 20 * spec.seed - (fewer[spec.seed] if spec.method == "margin" else 0)

    found = results(errors=errors)
    margin = about(found, "Inventory: Margin Boundary has the lowest policy error of all methods")
    (finding,) = margin.values()
    assert finding.verdict == verdict
    assert "; difference " in finding.evidence
    assert "; at n = 100 the difference is " in finding.evidence
    (neural,) = about(found, "Neural Boundary has the lowest value gap").values()
    assert neural.verdict != "reproduced"


@pytest.mark.parametrize("missing", ["margin", "tabular_q"])
def test_the_best_method_cannot_be_told_without_the_runs_of_another(whole, missing):
    found = broken(whole, lambda s: (s.method, s.problem) == (missing, "INV-Lin"))
    best = [f for f in about(found, "of all methods").values() if f.claim.startswith("Inventory")]
    assert [finding.verdict for finding in best] == ["undecided"] * 3
    assert "without INV-Lin" in best[0].evidence


def test_the_moderate_sizes_and_the_steady_fall_of_a_network_are_judged(whole):
    """Made-up errors fall from 100 to 400 labels, and by less from there on."""
    steady = about(whole, "Neural Boundary improves")
    assert [f.verdict for f in steady.values()] == ["reproduced"]
    flat = results(errors=lambda s: 20 + s.seed if s.method == "neural" else None)
    assert [f.verdict for f in about(flat, "Neural Boundary improves").values()] == ["tie"]
    fewer = results(errors=lambda s: 5 + s.seed if s.method in ("local", "margin") else None)
    moderate = about(fewer, "moderate sample sizes")
    assert [f.verdict for f in moderate.values()] == ["reproduced"] * 2
    no_such_sizes = results(replace(STUDY, sizes=(100, 6400)))
    assert [f.verdict for f in about(no_such_sizes, "moderate").values()] == ["undecided"] * 2


def test_every_method_that_ties_with_the_lowest_is_bold():
    def errors(spec: Spec) -> int | None:
        usual = {"linear": 30, "neural": 10, "margin": 10, "local": 9 + 3 * (spec.seed % 2)}
        return usual.get(spec.method)

    study = replace(STUDY, problems=("INV-Mix",), sizes=(6400,), seeds=4)
    table = make_rows(results(study, errors))
    both = ("policy_error", "value_gap")
    assert {row.method: row.best for row in table if row.best} == {
        "neural": both,  # exactly as many errors as Margin Boundary
        "margin": both,
        "local": both,  # one less or two more, from seed to seed
    }
    shown = "0.0121 ± 0.0000"
    assert to_markdown(table).count(f"| **{shown}** |") == 2
    assert to_latex(table).count(r"\textbf{0.0121 $\pm$ 0.0000}") == 2
    assert len(re.findall(r'class="best"', page(results(study, errors)))) == 6


def test_few_errors_are_counts_and_none_are_exact():
    def errors(spec: Spec) -> int | None:
        return {"neural": int(spec.seed == 2), "margin": 0}.get(spec.method)

    found = results(replace(STUDY, sizes=(6400,), seeds=15), errors)
    rows = {(row.family, row.method): row for row in make_rows(found)}
    assert (rows["inventory", "neural"].errors, rows["inventory", "neural"].decisions) == (2, 24750)
    text = to_markdown(list(rows.values()))
    assert "| Neural Boundary | **2 errors in 24,750** | " in text
    assert "1 error in 9,765" not in text, "this prints as 0.0001"
    assert "| Margin Boundary | **no error in 24,750** | " in text
    assert "| Margin Boundary | exact | exact | 0 | 0 |" in text
    assert not re.search(r"\b0\.0+ ±|\[0\.0+, 0\.0+\]", text)
    assert r"$<$ 0.0001" in to_latex(list(rows.values()))


def test_methods_that_print_the_same_mean_are_bold_together():
    """A difference in the digits that are not shown makes no difference to a reader."""
    study = replace(STUDY, problems=("INV-Mix",), sizes=(6400,))
    found = results(study, lambda s: 10 if s.method in ("neural", "margin") else 30)
    lower = [
        replace(r, policy_error=r.policy_error - 1e-6 * (r.spec.method == "margin"))
        for r in found.done
    ]
    table = make_rows(PaperResults(study, tuple(lower)))
    assert [row.method for row in table if "policy_error" in row.best] == ["neural", "margin"]


def test_missing_seeds_are_named_and_leave_the_verdict():
    found = broken(
        results(replace(STUDY, seeds=6)),
        lambda s: (s.method, s.seed, s.problem) == ("margin", 1, "INV-Lin"),
    )
    for finding in about(found, f"Inventory: {LOWER}").values():
        assert finding.verdict == "reproduced"
        assert "Margin Boundary: 5 of 6 seeds" in finding.evidence


def test_no_claim_about_one_problem_is_told_without_a_method_there(whole):
    found = broken(whole, lambda s: (s.method, s.problem) == ("local", "INV-Mix"))
    for words in ("INV-Mix: the error of every", "INV-Mix: every boundary", "INV-Mix: the spread"):
        (finding,) = about(found, words).values()
        assert finding.verdict == "undecided"
        assert "Local Boundary: no finished runs at n = 6,400" in finding.evidence


def test_no_errors_are_not_no_runs(whole):
    faultless = results(errors=lambda s: 0 if s.method == "local" else None)
    found = broken(faultless, without_linear)
    shares = low_margin_shares(found)
    assert np.isnan(shares["queue", "local"])
    assert ("queue", "linear") not in shares
    (finding,) = about(found, "Queue admission: errors of boundary").values()
    assert "no errors at all: Local Boundary; Linear Boundary: no finished runs" in finding.evidence


def test_the_largest_n_is_the_plans_whatever_failed(whole):
    found = broken(whole, without_largest)
    row = make_rows(found)[0]
    assert (row.method, row.n, row.has_runs) == ("linear", 6400, False)
    assert found.wrong_actions("INV-Mix", "linear").shape == (0, 825)
    assert "linear" not in final_runs(found)
    assert final_errors(found).loc["linear"].isna().all()
    note = "no finished runs at n = 6,400"
    assert f"| Linear Boundary ({note}) | – |" in to_markdown(make_rows(found))
    assert make_rows(whole)[0].n == 6400
    first_cells = re.findall(r"^\| (.*?) \|", to_markdown(make_rows(whole)), re.MULTILINE)
    assert not [cell for cell in first_cells if "(" in cell]


def test_rows_that_lack_runs_are_marked_everywhere(whole, tmp_path):
    found = broken(
        whole,
        lambda s: (
            s.method == "neural"
            and (s.problem == "INV-Lin" or (s.problem, s.seed) == ("INV-Mix", 2))
        ),
    )
    table = make_rows(found)
    note = "2 of 3 seeds, without INV-Lin"
    assert table[1].missing_runs.note == note
    assert table[1].policy_error.seeds == 2
    assert f"| Neural Boundary ({note}) |" in to_markdown(table)
    assert "Runs have failed" in to_markdown(table)
    assert "Runs have failed" not in to_markdown(make_rows(whole))
    assert [line["note"] for line in csv.DictReader(io.StringIO(to_csv(table)))][:2] == ["", note]
    assert f"& Neural Boundary ({note}) &" in to_latex(table)
    shown = page(found)
    assert f'Neural Boundary<span class="note">{note}</span>' in shown
    assert "Runs have failed" in shown


def test_seeds_that_finished_nowhere_in_common_are_said(whole):
    split = {("INV-Mix", 0), ("INV-Mix", 1), ("INV-Lin", 2)}
    found = broken(whole, lambda s: s.method == "local" and (s.problem, s.seed) in split)
    assert make_rows(found)[3].missing_runs.note == "no seed finished in every problem"


def laid_out(figure: Figure, form: str) -> bytes:
    """All of a figure is drawn, for the page and for the phone, and none of it made a file of."""
    if form == "svg":
        figure.draw_without_rendering()
    return b"<svg/>"


@pytest.mark.parametrize(
    ("fails", "image"),
    [
        (lambda s: (s.method, s.problem) == ("linear", "INV-Mix"), report.render_image),
        (lambda s: s.problem == "INV-Mix", laid_out),
        (lambda s: s.problem == "QUE-Lin" or s.n == 6400, laid_out),
        (lambda s: s.method != "fitted_q" or s.problem != "QUE-Lin", laid_out),
    ],
)
def test_whatever_failed_there_is_a_report_without_holes(
    whole, tmp_path, fails, image, monkeypatch
):
    monkeypatch.setattr(report, "render_image", image)
    write_outputs(broken(whole, fails), tmp_path, PlainProgress(io.StringIO()))
    _, body = (tmp_path / "report.html").read_text().split("</style>")
    text = re.sub(r"<[^>]+>", "", body)
    assert not re.search(r"\bnan\b", text)
    assert not re.search(r": \.|p \.|: ;", text)


def test_labels_that_show_few_states_are_not_said_to_show_nearly_all():
    heading = "The labels show nearly every state"
    few, many = (results(replace(STUDY, sizes=(n,))) for n in (100, 6400))
    assert heading not in dict(describe_limits(few, make_rows(few)))
    said = dict(describe_limits(many, make_rows(many)))[heading]
    assert "observation noise" in said[0]


def test_noise_is_left_to_learn_only_where_there_is_some():
    def said(*problems: str) -> str:
        found = results(paper_study(problems, PAPER_METHODS, (6400,), 1))
        return dict(describe_limits(found, make_rows(found)))["The labels show nearly every state"][
            0
        ]

    assert "noise" not in said("INV-N0")
    assert "(except in INV-N0, without noise)" in said("INV-Mix", "INV-N0")


@pytest.mark.parametrize(("fewer", "is_listed"), [(-2, True), (0, True), (2, False)])
def test_margin_weights_are_a_limit_unless_they_lower_the_error(fewer, is_listed):
    def errors(spec: Spec) -> int | None:
        network = 20 + spec.seed - fewer * (spec.method == "margin")
        return network if spec.method in ("neural", "margin") else None

    found = results(errors=errors)
    said = dict(describe_limits(found, make_rows(found)))
    assert ("Margin weights" in said) is is_listed
    if fewer < 0:
        assert "and more at n = 100 (+0.00242 in every seed)" in said["Margin weights"][0]


def test_ties_explain_a_rising_error_only_of_tables_and_only_probably():
    rising = results(errors=lambda s: 10 + s.n // 10 if s.method in PAPER_METHODS[4:] else None)
    said = dict(describe_limits(rising, make_rows(rising)))["More updates can mean more errors"]
    reason = {s.split(" errs")[0]: "probably because" in s for s in said}
    assert reason == {
        "Double Q-learning": True,
        "Fitted Q iteration": False,
        "Tabular Q-learning": True,
    }


def test_a_study_without_some_problems_is_partial():
    partial = PaperResults(paper_study(("INV-Mix",), PAPER_METHODS, PAPER_SIZES, 15), ())
    full = PaperResults(paper_study(), ())
    assert "This is a partial study" in page(partial)
    assert "This is a partial study" not in page(full)


def test_the_command_in_the_report_runs_the_same_study(whole):
    said = format_command(STUDY)
    assert said == (
        "tessella paper --seeds 3 --methods linear,neural,margin,local,double_q,fitted_q,tabular_q "
        "--problems INV-Mix,INV-Lin,QUE-Lin --sizes 100,400,6400"
    )
    assert said in page(whole)
    assert format_command(paper_study()) == "tessella paper --seeds 15"


def test_one_seed_has_no_interval_and_few_seeds_a_warning(whole):
    one = make_rows(results(replace(STUDY, seeds=1)))
    tabular = next(row for row in one if row.method == "tabular_q")
    assert f"| Tabular Q-learning | {tabular.policy_error.iqm:.4f} |" in to_markdown(one)
    assert "One seed has neither a standard deviation nor an interval" in to_markdown(one)
    warning = "intervals of 3 seeds are too narrow"
    assert warning in to_markdown(make_rows(whole))
    assert warning in page(whole)
    enough = results(paper_study(("INV-Mix",), ("linear", "tabular_q"), (100,), 10))
    assert "too narrow" not in to_markdown(make_rows(enough)) + page(enough)


def test_families_stay_together_in_the_heat_map_whatever_their_order(whole):
    mixed = replace(STUDY)
    object.__setattr__(mixed, "problems", ("INV-Mix", "QUE-Lin", "INV-Lin"))
    found = PaperResults(mixed, whole.records)
    assert list(final_errors(found)) == ["INV-Mix", "INV-Lin", "QUE-Lin"]
    groups, families = draw_heatmap(found, narrow=False).axes[0].lines
    assert list(groups.get_ydata()) == [3.5, 3.5]
    assert list(families.get_xdata()) == [1.5, 1.5]


def test_methods_stand_by_group_whatever_their_order():
    turned = replace(STUDY, methods=("tabular_q", "local", "fitted_q", "linear"))
    table = final_errors(results(turned))
    assert list(table.index) == ["local", "linear", "tabular_q", "fitted_q"]


def test_the_heat_map_counts_only_problems_where_every_method_has_runs(whole):
    assert "In 3 of 3 problems the worst" in describe_heatmap(whole)
    said = describe_heatmap(broken(whole, without_linear))
    assert "In 2 of 2 problems in which every method has finished runs the worst" in said


def test_captions_have_a_sentence_where_there_is_nothing_to_list(whole):
    assert "with p for boundary methods" in describe_scaling(whole)
    one = results(replace(STUDY, sizes=(100,)))
    assert describe_scaling(one).endswith("so no power is known.")
    faultless = results(errors=lambda s: 0 if s.family == "queue" else None)
    said = describe_margins(faultless)
    assert "Queue admission: boundary methods make no errors, value-based methods make no" in said
    unrun = broken(whole, lambda s: s.family == "queue")
    assert describe_margins(unrun).endswith("Queue admission: no finished runs.")


@pytest.mark.parametrize("label", ["INV-Mix", "QUE-Lin"])
def test_the_greedy_policy_is_optimal_from_the_sweep_on_that_is_named(whole, label):
    solution = whole.solutions[label]
    last = sweeps_until_settled(solution)

    def greedy(sweeps: int) -> np.ndarray:
        before = ValueIteration(max_sweeps=sweeps - 1)
        return np.argmax(solve(solution.mdp, before, partial=True).q, axis=-1)

    assert (greedy(last) == solution.policy.table).all()
    assert (greedy(last - 1) != solution.policy.table).any()


def test_the_unit_of_cost_and_what_no_label_needs_are_said(whole):
    assert "One evaluation is one action in one state" in describe_cost(whole)
    shown = page(whole)
    assert "a solve to twelve digits" in shown
    assert "Inventory: after 4 of 446 to 449 sweeps; Queue admission: after 30 of 408" in shown


def test_margins_are_among_what_a_method_was_told(whole):
    table = make_rows(whole)
    assert [row.margins for row in table[:4]] == [0, 0, 6400, 0]
    assert "| Labels | Margins | Backups behind them |" in to_markdown(table)
    assert "Margin Boundary also uses the exact margin of every labelled state" in page(whole)


def test_latex_has_interquartile_means_and_escapes_what_it_must(whole, monkeypatch):
    table = make_rows(whole)
    error = next(row for row in table if row.method == "tabular_q").policy_error
    text = to_latex(table)
    assert f"& {error.iqm:.4f} [{error.low:.4f}, {error.high:.4f}] &" in text
    body = [line for line in text.splitlines() if line.endswith(r"\\") and "multi" not in line]
    assert {line.count(" & ") for line in body} == {9}
    monkeypatch.setattr("tessella.paper.table.method_title", lambda method: "A_b & c#1 50%")
    assert r"& A\_b \& c\#1 50\% &" in to_latex(table)


@pytest.mark.parametrize(("seconds", "text"), [(247.0, "4 min 7 s"), (3725.0, "1 h 2 min")])
def test_the_run_time_has_its_units(whole, seconds, text):
    worked = replace(whole, sessions=[{"seconds": seconds}])
    assert f"<b>{text}</b><span>run time" in page(worked)
