"""Solutions that commands keep for each other."""

from __future__ import annotations

import pytest
from support import warm

import tessella as ts
from tessella.cli.cache import cache_folder, solve_cached


@pytest.fixture
def lake(tmp_path, monkeypatch):
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path / "kept"))
    return ts.problem("frozen_lake").build()


def solutions_folder():
    return cache_folder() / "solutions"


def test_a_solve_is_found_again_and_is_the_same(lake):
    first, second = solve_cached(lake), solve_cached(lake)
    assert (first.is_cached, second.is_cached) == (False, True)
    assert (first.solution.value == second.solution.value).all()
    assert (first.solution.policy.table == second.solution.policy.table).all()


def test_another_model_is_solved_anew(lake):
    solve_cached(lake)
    assert not solve_cached(lake.with_discount(0.9)).is_cached


def test_what_is_good_enough_serves_and_nothing_else(lake):
    assert not solve_cached(lake, 1e-3).is_cached
    assert solve_cached(lake, any_tol=True).is_cached
    assert not solve_cached(lake).is_cached  # the usual tolerance was not solved for yet
    assert solve_cached(lake, 1e-3).is_cached


def test_a_file_that_is_cut_short_is_solved_anew(lake):
    solve_cached(lake)
    (path,) = solutions_folder().glob("*.nc")
    path.write_bytes(path.read_bytes()[:500])
    assert not solve_cached(lake).is_cached
    assert solve_cached(lake).is_cached


def test_the_oldest_go_when_there_is_no_room(lake):
    solve_cached(lake)
    (first,) = solutions_folder().glob("*.nc")
    solve_cached(lake.with_discount(0.9), max_bytes=int(1.5 * first.stat().st_size))
    left = list(solutions_folder().glob("*"))
    assert len(left) == 1
    assert left != [first]


def test_without_a_folder_nothing_is_kept_and_nothing_fails(lake, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path / "file" / "below"))
    assert not solve_cached(lake).is_cached
    assert not solve_cached(lake).is_cached


def test_processes_that_solve_at_once_leave_one_whole_file(lake, tmp_path):
    code = (
        "import tessella as ts\n"
        "from tessella.cli.cache import solve_cached\n"
        "print(solve_cached(ts.problem('frozen_lake').build()).solution.converged)\n"
    )
    both = [warm.start_process(code) for _ in range(2)]
    assert [process.communicate()[0].strip() for process in both] == ["True", "True"]
    assert len(list(solutions_folder().iterdir())) == 1
    assert solve_cached(lake).is_cached
