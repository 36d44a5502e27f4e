"""A process may meet any number of shapes: what is compiled for them is kept within bounds.

Linux allows a process 65,530 memory maps, and each shape that is solved and certified takes some
six hundred. The long form of these tests is ``benchmarks/shapes.py``.
"""

from __future__ import annotations

import gc
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.routes import plan_by

import tessella as ts
from tessella.mdp import compilation

linux = pytest.mark.skipif(sys.platform != "linux", reason="memory maps are counted in /proc")


def maps() -> int:
    gc.collect()
    return compilation.count_memory_maps()


@pytest.fixture
def table(monkeypatch):
    """A function that gives the engine a small table of its own."""

    def made(**limits: int) -> compilation.CompilationCache:
        pieces = compilation.CompilationCache(**limits)
        monkeypatch.setattr(compilation, "COMPILATION_CACHE", pieces)
        return pieces

    return made


@pytest.fixture
def compilations(caplog):
    """Names of what was compiled since the last call."""

    def names() -> list[str]:
        said = [record.getMessage() for record in caplog.records]
        caplog.clear()
        found = (re.match(r"Finished XLA compilation of jit\((\w+)\)", one) for one in said)
        return [one[1] for one in found if one]

    with jax.log_compiles():
        yield names


@compilation.compile_per_shape("times")
def powers(times: int, matrix, start):
    """Something small that still leaves several kernels."""
    for _ in range(times):
        start = matrix @ start
        start = start / jnp.abs(start).max()
    return start


def ask(n: int) -> np.ndarray:
    return np.asarray(powers(3, np.eye(n) + 0.5, np.arange(1.0, n + 1)))


def small(n: int, seed: int = 0) -> ts.MDP:
    pays = np.random.default_rng(seed).normal(size=n)
    stages = [
        ts.Decide("x", to=lambda x, action: np.minimum(x + action, n - 1)),
        ts.Shift("x", ts.Noise("w", [-1, 1], [0.5, 0.5]), pays=lambda x: pays[x]),
    ]
    return ts.MDP.staged({"x": range(n)}, (0, 1), 0.9, stages)


def certified(mdp: ts.MDP) -> ts.Certificate:
    """Of a small model that is compiled as large ones are."""
    solution = ts.solve(mdp, plan=plan_by(mdp, "stages"))
    return ts.certify(solution, np.zeros(mdp.grid.shape, dtype=int))


@linux
def test_sixteen_shapes_leave_no_more_maps_than_the_table_holds(table):
    pieces = table(max_functions=4)
    ask(2)
    before = maps()
    ask(3)
    each = maps() - before
    assert each > 2  # or the rest would show nothing
    for n in range(4, 20):
        ask(n)
    assert len(pieces) == 4
    assert maps() - before <= 6 * each


@linux
def test_where_maps_run_short_fewer_pieces_are_kept_but_enough_to_work_with(table):
    pieces = table(max_maps=1)
    for n in range(80, 82 + compilation.CACHE_MIN_FUNCTIONS):
        ask(n)
    assert len(pieces) == compilation.CACHE_MIN_FUNCTIONS


@linux
def test_new_shapes_solved_and_certified_take_the_place_of_old_ones(table):
    pieces = table(max_functions=5)  # what one shape needs
    before = maps()
    certified(small(11))
    each, full = maps() - before, maps()
    certified(small(12))
    assert len(pieces) == 5
    assert maps() - full < each / 2


def test_a_shape_met_before_compiles_nothing_and_a_new_one_only_its_five_pieces(
    table, compilations
):
    table()
    five = sorted(
        ["run_iterations", "_decide", "_correct", "run_iterations", "compute_block_residuals"]
    )
    certified(small(11))
    assert sorted(compilations()) == five  # rounds and bounds for the optimum and the policy
    certified(small(11, seed=1))
    assert compilations() == []
    certified(small(12))
    assert sorted(compilations()) == five
    again = small(12)
    ts.solve(again, plan=plan_by(again, "stages"), callback=lambda progress: None)
    assert compilations() == []


def test_the_piece_unused_for_longest_makes_room(table, compilations):
    table(max_functions=2)
    for n in (50, 51, 50, 52):
        ask(n)
    compilations()
    ask(50)
    assert compilations() == []
    ask(51)
    assert compilations() == ["powers"]


def test_what_the_user_compiled_stays_until_the_caches_are_renewed(table, compilations):
    table(max_functions=2, reset_interval=8)
    one = np.ones(3)

    @jax.jit
    def own(x):
        return x + 1

    own(one)
    for n in range(60, 67):
        ask(n)
    compilations()
    own(one)
    assert compilations() == []
    ask(67)
    compilations()
    own(one)
    assert compilations() == ["own"]  # JAX has no way to forget only its own traces


def test_threads_share_the_table_and_get_the_same_answers(table):
    sizes = [*range(70, 74)] * 5
    alone = {n: ask(n) for n in set(sizes)}
    pieces = table(max_functions=2, reset_interval=9)
    with ThreadPoolExecutor(4) as pool:
        for n, found in zip(sizes, pool.map(ask, sizes), strict=True):
            assert (found == alone[n]).all()
    assert len(pieces) <= 2


def test_all_compiled_code_of_the_package_goes_through_the_table():
    source = Path(ts.__file__).parent
    jitted = [str(file.relative_to(source)) for file in source.rglob("*.py") if _jits(file)]
    # A window that is read from several devices has a function of its own, which goes with it.
    assert sorted(jitted) == ["mdp/compilation.py", "mdp/stages/sharded.py"]


def _jits(file: Path) -> bool:
    return re.search(r"\bjax\.jit\b|\bimport jit\b|jax\.pmap", file.read_text()) is not None


def test_arrays_of_the_engine_are_copies():
    mine = [np.ones(1000) for _ in range(20)]  # some, by chance, lie where they could be shared
    theirs = compilation.to_device(mine)
    for array in mine:
        array[:] = 2.0
    assert all(array.dtype == np.float64 for array in theirs)
    assert all((np.asarray(array) == 1.0).all() for array in theirs)


def test_structure_comes_before_arrays():
    with pytest.raises(TypeError, match="must begin with its static arguments"):
        compilation.compile_per_shape("method")(lambda arrays, method: arrays)
