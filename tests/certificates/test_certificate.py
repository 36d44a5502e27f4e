"""The certificate as a thing: numbers that are intervals, files, words, imports."""

from __future__ import annotations

import ast
import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tessella as ts
from tessella.certificates.certificate import Certificate
from tessella.certificates.certify import certify
from tessella.certificates.interval import Interval, IntervalArray, enclose_mean
from tessella.checker import check

finite = st.floats(-1e6, 1e6)


def spoiled(solution):
    table = solution.policy.table.copy()
    table[2:5, 3:9] = (table[2:5, 3:9] + 1) % solution.mdp.n_actions
    return table


def test_an_enclosed_number_is_a_float_and_keeps_its_interval():
    x = Interval(0.5, 0.25, 1.0)
    assert x + 1 == 1.5
    assert f"{x:.3f}" == "0.500"
    assert 0.3 in x
    assert 1.1 not in x
    copy = pickle.loads(pickle.dumps(x))
    assert (copy, copy.lower, copy.upper) == (0.5, 0.25, 1.0)
    with pytest.raises(ArithmeticError):
        Interval(2.0, 0.0, 1.0)
    with pytest.raises(ArithmeticError, match="two enclosures of the loss do not intersect"):
        x.intersect(Interval(2.0, 1.5, 3.0), "the loss")


@given(a=finite, b=finite, x=finite, factor=st.floats(0, 1e3))
def test_interval_products_and_quotients_hold_those_of_their_members(a, b, x, factor):
    low, high = sorted((a, b))
    number = Interval(low, low, high)
    scaled = number.scale(factor)
    assert low * factor in scaled
    assert high * factor in scaled
    ratio = number.divide(Interval(x, x, x))
    if x == 0 or not math.isfinite(max(abs(low), abs(high)) / abs(x)):
        assert ratio is None
    else:
        assert low / abs(x) in ratio
        assert high / abs(x) in ratio


@given(values=st.lists(finite, min_size=1, max_size=40), seed=st.integers(0, 99))
def test_an_enclosed_mean_holds_the_mean_of_every_member(values, seed):
    from fractions import Fraction

    rng = np.random.default_rng(seed)
    x = np.array(values)
    w = rng.random(x.size)
    band = IntervalArray(x, x - rng.random(x.size), x + rng.random(x.size))
    found = enclose_mean(w, band)
    for member in (band.lower, band.value, band.upper):
        exact = sum(
            Fraction(a) * Fraction(b) for a, b in zip(w.tolist(), member.tolist(), strict=True)
        )
        assert Fraction(found.lower) <= exact <= Fraction(found.upper)


@pytest.mark.parametrize("label", ["INV-Mix", "QUE-Mix"])
def test_a_certificate_survives_its_file(solved, tmp_path, label):
    c = certify(solved(label), spoiled(solved(label)), eps=0.3)
    c.save(tmp_path / "c.json")
    back = Certificate.load(tmp_path / "c.json")
    assert back.summary() == c.summary()
    assert back.bounds == c.bounds
    assert repr(back.mean_loss) == repr(c.mean_loss)
    for name in (
        "optimal",
        "start",
        "optimal_value",
        "policy_value",
        "margin",
        "occupancy",
        "loss",
    ):
        np.testing.assert_array_equal(getattr(back, name), getattr(c, name))
    np.testing.assert_array_equal(back.policy.table, c.policy.table)
    np.testing.assert_array_equal(back.decomposition.face.upper, c.decomposition.face.upper)
    back.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == (tmp_path / "c.json").read_text()


def test_a_state_with_one_feasible_action_survives_the_file(tmp_path):
    P = np.random.default_rng(0).dirichlet(np.ones(4), (3, 4))
    feasible = np.arange(12).reshape(4, 3) != 1
    feasible[0] = [True, False, False]
    mdp = ts.MDP.from_arrays(P, np.arange(12.0).reshape(4, 3), 0.5, feasible=feasible)
    c = certify(ts.solve(mdp), [0, 0, 0, 0])
    c.save(tmp_path / "c.json")
    assert np.isinf(c.margin[0])
    np.testing.assert_array_equal(Certificate.load(tmp_path / "c.json").margin, c.margin)


def test_the_optimum_of_another_criterion_is_not_called_optimal():
    mdp = ts.inventory(max_stock=12, max_regime=2)
    solution = ts.solve(mdp)
    other = ts.solve(mdp.with_discount(0.2))
    assert certify(solution, solution).policy.name == "optimal"
    assert certify(solution, other).policy.name == "optimal for discount 0.2"
    found = certify(solution, other.policy)
    assert found.policy.name == "optimal for another model or criterion"
    assert found.summary().startswith('Certificate of the policy "optimal for another model')


@pytest.mark.parametrize("content", ["", '{"format": "other", "version": 1}', "[1, 2]", "{}"])
def test_a_file_that_is_no_certificate_is_refused(tmp_path, content):
    (tmp_path / "c.json").write_text(content)
    with pytest.raises(ts.FileError, match="cannot be read as a certificate"):
        Certificate.load(tmp_path / "c.json")


def test_a_certificate_travels_between_processes(queue):
    c = certify(queue, spoiled(queue))
    back = pickle.loads(pickle.dumps(c))
    assert back.mean_loss.lower == c.mean_loss.lower
    assert back.summary() == c.summary()


def test_the_summary_tells_cost_places_and_causes(queue):
    c = certify(queue, spoiled(queue), start=60)
    text = c.summary()
    assert "QUE-Mix, 651 states" in text
    assert f"started in {c.grid.describe(60)}" in text
    for head in ("Cost: ", "Differences: ", "Causes: ", "Certainty: ", "Theory: "):
        assert f"\n{head}" in text
    assert f"in {(c.policy.table != c.optimal).sum()} of 651 states" in text
    flowing = " ".join(text.split())
    assert f"start from is {c.grid.describe(c.worst_state)}" in flowing
    assert f"costliest single decision costs {c.local_loss.max():.4g}" in flowing
    assert max(len(line) for line in text.splitlines()) <= 88
    shares = [float(line.split(" %")[0]) for line in text.splitlines() if line.startswith("  ")]
    assert sum(shares) == pytest.approx(100, abs=0.3)


def test_the_summary_of_the_optimum_says_so(inventory):
    text = certify(inventory, inventory).summary()
    assert "This policy is optimal" in text
    assert "Causes" not in text


def test_a_harmless_difference_is_called_harmless():
    P = np.random.default_rng(0).dirichlet(np.ones(4), (3, 4))
    mdp = ts.MDP.from_arrays(P, np.ones((4, 3)), 0.5)
    c = certify(ts.solve(mdp), [1, 2, 1, 2])
    assert c.policy_error == 1
    assert c.costly_error == 0
    assert 0.0 in c.mean_loss
    text = " ".join(c.summary().split())
    assert "as good as the optimal one" in text
    assert "No loss can be seen" in text


def test_policy_error_by_margin_counts_every_state_once(inventory):
    table = spoiled(inventory)
    c = certify(inventory, table)
    wrong = table != c.optimal
    found = c.margin_error(8)
    assert found.states.sum() == c.grid.size
    assert found.errors.sum() == wrong.sum()
    for k in range(8):
        low, high = found.edges[k], found.edges[k + 1]
        inside = (c.margin >= low) & ((c.margin < high) | (k == 7))
        assert found.rate[k] == pytest.approx(wrong[inside].mean())
        assert found.margins[k] == pytest.approx(c.margin[inside].mean())
    own = c.margin_error(np.array([0.0, 0.1, 1e3]))
    np.testing.assert_array_equal(own.states, [(c.margin < 0.1).sum(), (c.margin >= 0.1).sum()])
    with pytest.raises(ts.ArgumentError, match="increase"):
        c.margin_error(np.array([1.0, 0.0]))
    with pytest.raises(ts.ArgumentError, match="at least one bin"):
        c.margin_error(0)


def test_the_margin_figure_shows_the_counts(inventory):
    from matplotlib.figure import Figure

    from tessella.plot.maps import margin_error

    found = certify(inventory, spoiled(inventory)).margin_error(6)
    axes = Figure().subplots()
    assert margin_error(axes, found, label="ours") is axes
    (line,) = axes.lines
    np.testing.assert_array_equal(line.get_xdata(), found.margins)
    np.testing.assert_array_equal(line.get_ydata(), found.rate)
    assert axes.get_xscale() == "log"
    assert line.get_label() == "ours"


def test_the_judge_does_not_know_the_defendant_and_the_checker_knows_nobody():
    checker = Path(check.__file__).parent
    certificates = checker.parent / "certificates"
    for path in [*certificates.glob("*.py"), *checker.glob("*.py")]:
        forbidden = ("tessella.learn", "tessella.baselines", "tessella.plot")
        if path.parent == checker:
            forbidden = ("tessella",)
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level < 2
                names = [f"{node.module}.{a.name}" for a in node.names]
            assert not any(name.startswith(forbidden) for name in names)


def test_paragraphs_are_sentences_that_no_line_break_cuts(inventory):
    c = certify(inventory, spoiled(inventory))
    cost, differences, causes, certainty, theory = c.paragraphs()
    for part in (cost, differences, certainty, theory):
        assert "\n" not in part
        assert part.endswith(".")
    assert min(map(len, (cost, differences, theory))) > 88, "longer than a line of the summary"
    first, *entries, last = causes.split("\n")
    assert first.startswith("Causes: ")
    assert all(entry.startswith("  ") for entry in entries)
    assert last.startswith("The states that cost most: ")
    assert last.endswith(".")
    assert "\n\n".join(c.paragraphs()).split() == c.summary().split("\n\n", 1)[1].split()


def test_the_file_is_plain_json(queue, tmp_path):
    certify(queue, queue).save(tmp_path / "c.json")
    content = json.loads((tmp_path / "c.json").read_text(), parse_constant=pytest.fail)
    assert content["grid"]["queue"] == list(range(31))


def test_a_share_too_large_for_a_float_is_absent_and_not_infinite():
    tiny = Interval(2e-310, 1e-310, 3e-310)
    assert Interval(1.0, 0.5, 2.0).divide(tiny) is None
    share = Interval(1e-310, 0.0, 2e-310).divide(tiny)
    assert share is not None
    assert 0.5 in share
    assert share.upper >= 2.0


@pytest.mark.parametrize(
    "changes",
    [
        {"bound": None},
        {"holds": False},
        {"holds": False, "bound": None, "example": 10**9},
    ],
    ids=str,
)
def test_a_file_whose_bounds_contradict_their_premises_is_rejected(inventory, tmp_path, changes):
    certificate = ts.certify(inventory, np.zeros(inventory.mdp.grid.shape, int))
    assert certificate.bounds.localisation.holds
    certificate.save(tmp_path / "c.json")
    content = json.loads((tmp_path / "c.json").read_text())
    content["bounds"]["localisation"] |= changes
    (tmp_path / "c.json").write_text(json.dumps(content))
    with pytest.raises(ts.FileError, match=r"localisation\.(bound|example) must be"):
        ts.Certificate.load(tmp_path / "c.json")
