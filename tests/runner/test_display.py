"""How far a study, a solve or a search is, and how long it still takes."""

from __future__ import annotations

import io
import re
from contextlib import closing

import pytest

import tessella as ts
from tessella.support.progress import (
    PlainProgress,
    ProgressDisplay,
    TerminalProgress,
    Throughput,
    format_task,
    open_progress,
)
from tessella.support.text import format_duration


def test_the_time_left_is_the_work_left_at_the_pace_so_far():
    stage = Throughput(total=10, work=100.0, start_time=0.0)
    stage.add(count=2, work=25.0, now=5.0)
    assert stage.seconds_left(now=5.0) == pytest.approx(75 * 5 / 25)
    assert stage.rate(now=5.0) == pytest.approx(2 / 5)


def test_what_was_stored_before_counts_as_done_and_not_towards_the_rate():
    stage = Throughput(total=10, work=20.0, done=8, start_time=0.0)
    stage.add(1, 10.0, now=2.0)
    assert (stage.done, stage.rate(2.0)) == (9, 0.5)
    stage.add(1, 10.0, now=4.0)
    assert stage.seconds_left(9.0) == 0
    assert stage.elapsed(9.0) == 4.0, "a stage that ended stands still"


def test_nothing_is_said_about_pace_before_anything_arrived():
    stage = Throughput(total=10, work=20.0)
    assert stage.rate(3.0) is None
    assert stage.seconds_left(3.0) is None
    assert format_task("Linear", stage, 3.0) == "Linear: 0 of 10"


def test_the_time_left_is_being_estimated_until_a_tenth_of_the_work_is_done():
    stage = Throughput(total=1000, work=100.0, start_time=0.0)
    assert format_task("Linear", stage, 2.0) == "Linear: 0 of 1,000, estimating the time left"
    stage.add(20, 9.0, now=20.0)
    assert format_task("Linear", stage, 20.0) == (
        "Linear: 20 of 1,000, 1.0 a second, estimating the time left"
    )
    stage.add(20, 1.0, now=40.0)
    assert stage.format_time_left(40.0) == "6:00 left"


def test_a_long_study_has_its_estimate_after_a_minute_with_some_runs():
    stage = Throughput(total=10_000, work=10_000.0, start_time=0.0)
    for second in (10.0, 20.0, 30.0, 40.0):
        stage.add(1, 5.0, now=second)
    assert stage.seconds_left(61.0) is None
    stage.add(1, 5.0, now=50.0)
    assert stage.seconds_left(59.0) is None
    assert stage.seconds_left(62.5) == pytest.approx((10_000 - 25) * 62.5 / 25)


def test_bars_say_that_the_time_left_is_being_estimated_of_what_has_begun():
    stream = io.StringIO()
    with closing(TerminalProgress(stream)) as shown:
        shown.add_task("All", 100, 100.0)
        shown.add_task("Later", 50, 50.0)
        shown.advance("All", 1, 1.0)
    said = {text.split()[0]: text for text in stream.getvalue().splitlines() if text.strip()}
    assert "estimating" in said["All"]
    assert "estimating" not in said["Later"]


def test_a_line_has_counts_rate_and_time_left():
    stage = Throughput(total=1155, work=100.0, start_time=0.0)
    stage.add(300, 25.0, now=10.0)
    assert format_task("Linear", stage, 10.0) == "Linear: 300 of 1,155, 30.0 a second, 0:30 left"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (247, "4:07"), (3723, "1:02:03")]
)
def test_clock(seconds, text):
    assert format_duration(seconds) == text


def test_lines_say_when_a_stage_ends():
    stream = io.StringIO()
    with open_progress(stream) as shown:
        assert isinstance(shown, PlainProgress)
        shown.add_task("All", 4, 4.0)
        shown.add_task("Linear", 2, 2.0)
        shown.advance("Linear", 1, 1.0)
        assert stream.getvalue() == ""
        shown.advance("Linear", 1, 1.0)
    assert stream.getvalue().startswith("Linear: 2 of 2")


def test_the_first_arrival_starts_the_clock_of_a_stage_and_is_not_part_of_its_pace():
    stage = Throughput(total=30, work=30.0)
    stage.add(10, 10.0, now=100.0)
    assert (stage.rate(100.0), stage.seconds_left(100.0)) == (None, None)
    stage.add(10, 10.0, now=105.0)
    assert stage.rate(105.0) == pytest.approx(2.0)
    assert stage.seconds_left(105.0) == pytest.approx(5.0)


def test_a_title_is_shown_as_it_is_whatever_it_looks_like():
    stream = io.StringIO()
    with closing(TerminalProgress(stream)) as shown:
        shown.add_task("Odd [/b] [red]one", 1, 1.0)
        shown.advance("Odd [/b] [red]one", 1, 1.0)
    assert "Odd [/b] [red]one" in stream.getvalue()


class Recorder(ProgressDisplay):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def status(self, text: str) -> None:
        self.lines.append(text)


def test_one_display_shows_a_solve_and_the_search_for_a_rule():
    shown = Recorder()
    solution = ts.solve(ts.benchmark("QUE-Lin"), callback=shown.sweep)
    assert solution.converged
    assert re.fullmatch(r"sweep \d+: bound \S+, \d+ s(, about \d+ s left)?", shown.lines[-1])
    n_sweeps = len(shown.lines)
    ts.compress(solution, 0.05, progress=shown.status)
    assert len(shown.lines) > n_sweeps


def test_nothing_stays_of_a_status_in_a_terminal_and_no_line_is_longer_than_it():
    stream = io.StringIO()
    with closing(TerminalProgress(stream)) as shown:
        shown.status("x" * 500)
    assert stream.getvalue().startswith("\r\x1b[Kx")
    assert stream.getvalue().endswith("x\r\x1b[K")
    assert stream.getvalue().count("x") < 500


def test_a_pipe_gets_a_status_now_and_then_and_notes_always():
    stream = io.StringIO()
    with open_progress(stream) as shown:
        shown.status("solving")
        shown.note("done")
    assert stream.getvalue() == "done\n"
