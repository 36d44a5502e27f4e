"""A printed bound is a bound: the number in a text, read back, is never tighter than the figure."""

from __future__ import annotations

import re
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import tessella as ts
from tessella.certificates.loss import loss
from tessella.checker import check
from tessella.rounding import format_percent_bound, format_with_error_bound, round_down, round_up

FINITE = st.floats(allow_nan=False, allow_infinity=False)
SHARES = st.floats(0, 1e6)
DIGITS = st.integers(1, 12)


def read(text: str) -> float:
    return float(text.replace(",", ""))


def last_digit(text: str) -> Decimal:
    """What one more in the last printed digit makes."""
    return Decimal(1).scaleb(Decimal(text.replace(",", "")).as_tuple().exponent)


@given(FINITE, DIGITS)
def test_an_upper_bound_is_printed_no_smaller_and_by_less_than_its_last_digit(bound, digits):
    text = round_up(bound, digits)
    assert bound <= read(text)
    assert Decimal(text.replace(",", "")) - Decimal(repr(bound)) < last_digit(text)


@given(FINITE, DIGITS)
def test_a_lower_bound_is_the_mirror_of_an_upper_one(bound, digits):
    assert round_down(bound, digits).removeprefix("-") == round_up(-bound, digits).removeprefix("-")
    assert read(round_down(bound, digits)) <= bound


@given(FINITE, FINITE)
def test_the_checker_prints_bounds_outward_and_by_less_than_their_last_digit(lower, upper):
    low, high = (Decimal(text) for text in check.write_bounds(lower, upper))
    assert float(low) <= lower
    assert upper <= float(high)
    for text, bound in ((low, lower), (high, upper)):
        assert abs(text - Decimal(repr(bound))) < Decimal(1).scaleb(text.as_tuple().exponent)
        assert len(text.as_tuple().digits) <= 12


@pytest.mark.parametrize("criterion", [0.9, ts.FiniteHorizon(4), ts.Average(), ts.Total()], ids=str)
def test_what_the_checker_proves_in_words_is_no_tighter_than_the_certificate(
    criterion, tmp_path, capsys
):
    """Losses of random sizes: nearest digits would be tighter in half of all bounds."""
    number = r"(-?\d[\d.]*(?:e[+-]\d+)?)"
    for seed in range(8):
        rng = np.random.default_rng(seed)
        rows, reward = rng.dirichlet(np.ones(4), (2, 4)), -rng.random((4, 2))
        rows[:, 0], reward[0] = (np.eye(4)[0], 0) if criterion == ts.Total() else (rows[:, 0], -1)
        solution = ts.solve(ts.MDP.from_arrays(rows, reward, criterion))
        made = ts.certify(solution, 1 - solution.policy.table)
        solution.mdp.save(tmp_path / "m.nc")
        made.save(tmp_path / "c.json")
        assert check.main([str(tmp_path / "m.nc"), str(tmp_path / "c.json")]) == 0
        text = capsys.readouterr().out
        loss = made.mean_loss
        lower, upper = re.search(rf"proven to be between {number} and {number}", text).groups()
        assert loss.lower - 1e-11 * abs(loss) <= read(lower) <= loss.lower
        assert loss.upper <= read(upper) <= loss.upper + 1e-11 * abs(loss)
        if criterion != ts.Average():
            worst, most = made.worst_loss, read(re.search(rf"at most {number}", text)[1])
            assert worst.upper <= most <= worst.upper + 1e-11 * abs(worst)


@given(SHARES)
def test_a_share_is_printed_in_percent_that_are_no_fewer(share):
    words, number = re.fullmatch(r"(at most|less than) (.+)%", format_percent_bound(share)).groups()
    assert Decimal(number.replace(",", "")) >= 100 * Decimal(repr(share))
    assert (words == "less than") == (0 < share < 1e-5)


@given(FINITE, st.floats(0, 1e300), DIGITS)
@example(6.245704186987677e-10, 1e7, 10)
def test_a_printed_number_and_its_bound_hold_whatever_the_bound_held(value, bound, digits):
    text, off = (
        Decimal(part.replace(",", "")) for part in format_with_error_bound(value, bound, digits)
    )
    exact, room = Decimal(repr(value)), Decimal(repr(bound))
    assert text - off <= exact - room
    assert exact + room <= text + off


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (0.005, "0.005"),
        (0.006394766, "0.0064"),
        (1234.2, "1,235"),
        (4.23217e-13, "4.24e-13"),
        (np.float64(99.999), "100"),
        (np.inf, "inf"),
    ],
)
def test_bounds_are_printed_in_three_digits_and_nothing_as_0(bound, text):
    assert round_up(bound) == text


def rough_policies(solution: ts.Solution) -> list[ts.Policy]:
    """Policies that lose a little and a lot."""
    best, rng = solution.policy.table, np.random.default_rng(3)
    moved = np.where(rng.random(best.shape) < 0.1, rng.permuted(best), best)
    return [solution.mdp.policy(table) for table in (moved, np.zeros_like(best))]


@pytest.fixture(scope="module")
def solved() -> dict[str, ts.Solution]:
    return {name: ts.solve(ts.problem(name).build()) for name in ("perishable", "naor_admission")}


@pytest.mark.parametrize("name", ["perishable", "naor_admission"])
def test_no_text_states_a_loss_tighter_than_what_is_proven(solved, name):
    solution = solved[name]
    clock = solution.mdp.clock
    for promise in (0.2, 0.01):
        rule = ts.compress(solution, promise, time_limit=2)
        times = 1.0 if clock is None else clock.per_time(1.0)
        said = rule.explain().splitlines()
        text = next(line for line in said if "Guaranteed " in line)
        most = read(re.search(r"at most ([\d.,e+-]*\d)", text)[1])
        assert times * rule.facts["mean_loss"] <= most <= times * rule.facts["mean_loss"] * 1.002
        for share in re.findall(r"([\d.]+)%", text):
            assert 100 * rule.facts["relative_loss"] <= read(share)


def test_the_loss_that_a_certificate_prints_reaches_as_far_as_the_certificate(solved):
    for solution in solved.values():
        for policy in rough_policies(solution):
            made = ts.certify(solution, policy)
            figure, text = made.mean_loss, " ".join(made.summary().split())
            value, off = re.search(r"is (\S+) and at most (\S+) off", text).groups()
            assert Decimal(value) - Decimal(off) <= Decimal(figure.lower)
            assert Decimal(figure.upper) <= Decimal(value) + Decimal(off)
            assert read(off) <= 10 * (figure.width + 1e-11 * abs(figure))


def test_what_solving_evaluating_and_losing_print_holds_the_bound(solved):
    for solution in solved.values():
        policy = rough_policies(solution)[0]
        for found in (solution, ts.evaluate(solution.mdp, policy), loss(solution, policy)):
            clock = solution.mdp.clock if getattr(found, "gain", None) is not None else None
            bound = found.error_bound * (1.0 if clock is None else clock.per_time(1.0))
            text = re.search(r"(?:at most|<=) ([\d.e-]*\d)", str(found))[1]
            assert bound <= read(text)


def test_a_model_of_rates_prints_averages_per_unit_of_time(solved):
    solution = solved["naor_admission"]
    per_time = solution.mdp.clock.per_time(solution.gain)
    rule = ts.compress(solution, 0.2, time_limit=2)
    assert f"{per_time:.8g}" in str(solution)
    assert f"{per_time:.8g}" in str(ts.evaluate(solution.mdp, solution.policy))
    for text in (str(solution), str(ts.evaluate(solution.mdp, rule)), rule.explain()):
        assert "per unit of time" in text.split("Requested limit")[0]
    summary = " ".join(ts.certify(solution, rule).summary().split())
    assert f"value per unit of time is {per_time:.4g}" in summary
