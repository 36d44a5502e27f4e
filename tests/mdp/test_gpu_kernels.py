"""Sums over slices in tiles: kernels of accelerators, interpreted, against the plain form."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tessella as ts
from tessella.mdp.compilation import in_float64
from tessella.mdp.dynamics import TileSizes
from tessella.mdp.stages.gpu_kernels import (
    TiledAxisShift,
    TileGrid,
    build_tiled_operation,
    find_significant_terms,
    fuse_inner_shifts,
)
from tessella.mdp.stages.move import AxisMatrix, build_chain
from tessella.mdp.stages.shift import build_shift
from tessella.rounding import EPS
from tessella.solvers.execution_plan import Thresholds, choose_tiles, make_plan

TILES = TileSizes(columns=64, window_bytes=16, unrolled_terms=2, interpret=True)
SHAPE = 3, 11, 70  # ends within a tile, along rows and along columns


def law(rng, *shape):
    """(A | 1, K, *broadcast) random probabilities."""
    drawn = rng.random(shape)
    return drawn / drawn.sum(axis=1, keepdims=True)


def walk(n, up):
    rows = np.diag(np.full(n - 1, up), 1) + np.diag(np.full(n - 1, 0.3), -1)
    return (rows + np.diag(1 - rows.sum(axis=1)))[None]


def operations():
    rng = np.random.default_rng(0)

    def shifted(axis, steps, edge, *broadcast):
        steps = np.asarray(steps)
        return build_shift(SHAPE, axis, steps, law(rng, 1, steps.shape[1], *broadcast), edge)

    down = [[0, -1, -2, -3, -4]]
    yield "a window slides down", shifted(1, down, "clip", 1, 1, 70)
    yield "a window slides up, reflected", shifted(1, [[0, 1, 2]], "reflect", 3, 1, 1)
    yield "a window with its own probabilities", shifted(1, [[0, -1, -2]], "clip", 3, 11, 70)
    yield "jumps, around the ends", shifted(0, [[0, 2, -1]], "wrap", 1, 11, 1)
    yield "along columns", shifted(2, [[0, -1, 5]], "clip", 3, 1, 1)
    yield "along columns, reflected", shifted(2, [list(range(9))], "reflect", 1, 1, 70)
    yield "along columns, clipped", shifted(2, [[-1, 0, 1]], "clip", 1, 1, 1)
    yield "along columns, by column", shifted(2, [[-1, 0, 1]], "reflect", 1, 1, 70)
    probs = walk(11, 0.2).transpose(0, 2, 1)[:, :, None, :, None]
    yield "a banded chain", build_chain(AxisMatrix(SHAPE, (1,), probs))


OPERATIONS = dict(operations())


@in_float64
def both(operation, w, action=0, reward=None):
    """(plain, in tiles) sums over slices of ``w``."""
    arrays = {name: jnp.asarray(array) for name, array in operation.arrays().items()}
    if w.dtype == np.float32:
        arrays["probs"] = arrays["probs"].astype(jnp.float32)
    kernel = build_tiled_operation(operation, True, TILES)
    assert isinstance(kernel, TiledAxisShift)
    plain = operation.compile(True).apply(arrays, jnp.asarray(w), action)
    if reward is None:
        return plain, kernel.apply(arrays, jnp.asarray(w), action)
    arrays["reward"] = jnp.asarray(reward)
    return plain + reward[0], kernel.apply_with_reward(arrays, jnp.asarray(w), action)


@pytest.mark.parametrize("kind", OPERATIONS)
def test_a_kernel_gives_the_plain_sum_and_what_is_paid(kind):
    operation = OPERATIONS[kind]
    rng = np.random.default_rng(1)
    w, reward = rng.normal(size=SHAPE), rng.normal(size=(1, 1, 11, 70))
    plain, kernel = both(operation, w, reward=reward)
    most = np.abs(w).max() + np.abs(reward).max()
    np.testing.assert_allclose(
        kernel, plain, rtol=0, atol=EPS * (operation.rounding_terms + 2) * most
    )


def test_single_precision_is_kept():
    w = np.random.default_rng(2).normal(size=SHAPE).astype(np.float32)
    operation = OPERATIONS["a window slides down"]
    plain, kernel = both(operation, w)
    assert kernel.dtype == jnp.float32
    np.testing.assert_allclose(kernel, plain, rtol=0, atol=6e-7 * (operation.rounding_terms + 2))


def test_each_action_has_its_own_offsets_and_probabilities():
    rng = np.random.default_rng(3)
    operation = build_shift(
        SHAPE, 1, np.array([[0, -1], [-2, -3]]), law(rng, 2, 2, 1, 1, 1), "clip"
    )
    w = rng.normal(size=SHAPE)
    for action in (0, 1):
        plain, kernel = both(operation, w, action)
        np.testing.assert_allclose(kernel, plain, rtol=0, atol=1e-14)


@in_float64
def test_the_adjoint_of_a_kernel_is_that_of_the_plain_form():
    operation = OPERATIONS["a window slides down"]
    arrays = {name: jnp.asarray(array) for name, array in operation.arrays().items()}
    w = jnp.asarray(np.random.default_rng(4).normal(size=SHAPE))
    forms = build_tiled_operation(operation, False, TILES), operation.compile(False)
    kernel, plain = (
        jax.linear_transpose(lambda v, form=form: form.apply(arrays, v, 0), w)(w)[0]
        for form in forms
    )
    np.testing.assert_array_equal(kernel, plain)


@in_float64
def fuse(*operations, payment=None):
    """Operations in tiles, fused where that is possible, and their numbers."""
    arrays: list[dict[str, Any]] = [operation.arrays() for operation in operations]
    if payment is not None:
        arrays[-1] |= {"reward": payment}
    compiled = [build_tiled_operation(operation, False, TILES) for operation in operations]
    fused, numbers = fuse_inner_shifts(compiled, arrays)
    return fused, jax.tree.map(jnp.asarray, numbers)


@in_float64
@pytest.mark.parametrize("inner", ["along columns, clipped", "along columns, by column"])
@pytest.mark.parametrize("outer", ["a window slides down", "a window slides up, reflected"])
def test_a_short_shift_along_columns_happens_inside_a_window(outer, inner):
    operations = OPERATIONS[outer], OPERATIONS[inner]
    (kernel,), (numbers,) = fuse(*operations)
    rng = np.random.default_rng(8)
    w, reward = jnp.asarray(rng.normal(size=SHAPE)), jnp.asarray(rng.normal(size=(1, *SHAPE)))

    def plain(v):
        for operation in reversed(operations):
            arrays = {name: jnp.asarray(array) for name, array in operation.arrays().items()}
            v = operation.compile(False).apply(arrays, v, 0)
        return v

    terms = sum(operation.rounding_terms + 2 for operation in operations)
    close = {"rtol": 0, "atol": EPS * terms * float(abs(w).max() + abs(reward).max())}
    np.testing.assert_allclose(kernel.apply(numbers, w, 0), plain(w), **close)
    paid = kernel.apply_with_reward(numbers | {"reward": reward}, w, 0)
    np.testing.assert_allclose(paid, plain(w) + reward[0], **close)
    adjoints = [
        jax.linear_transpose(form, w)(w)[0]
        for form in (lambda v: kernel.apply(numbers, v, 0), plain)
    ]
    np.testing.assert_array_equal(*adjoints)


@pytest.mark.parametrize(
    ("outer", "inner", "payment"),
    [
        ("a window slides down", "along columns, clipped", np.ones((1, 1, 1, 70))),
        ("a window slides down", "along columns", None),  # its probabilities depend on the row
        ("a window slides down", "along columns, reflected", None),  # nine terms
        ("jumps, around the ends", "along columns, clipped", None),  # no window
        ("along columns, clipped", "along columns, by column", None),  # no rows
        ("along columns, clipped", "a window slides down", None),
    ],
)
def test_other_shifts_keep_their_own_pass(outer, inner, payment):
    assert len(fuse(OPERATIONS[outer], OPERATIONS[inner], payment=payment)[0]) == 2


@in_float64
def test_terms_are_left_out_only_where_they_weigh_less_than_rounding():
    # 70 columns in tiles of 64: the first weighs terms 2 and 3, the second the last alone.
    probs = np.full((8, 1, 70), 1e-30)
    probs[2, 0, 0] = probs[3, 0, 63] = 0.5
    probs[7, 0, 69] = 1.0
    grid = TileGrid(jax.ShapeDtypeStruct((5, 70), np.dtype(float)), TILES)
    first, rounds = np.asarray(find_significant_terms(jnp.asarray(probs), grid, 2)).T
    assert list(zip(first, rounds, strict=True)) == [(2, 1), (6, 1)]
    probs[5, 0, 10] = EPS  # beside what rounding does to a sum of eight, this counts
    assert find_significant_terms(jnp.asarray(probs), grid, 2)[0].tolist() == [2, 2]


def test_what_tails_leave_out_is_below_rounding():
    means = np.linspace(1.0, 12.0, 70)[:, None]
    probs = np.moveaxis(ts.truncated_poisson(means, 40), -1, 0)[None, :, None, None, :]
    shape = 1, 90, 70
    operation = build_shift(shape, 1, -np.arange(41)[None], probs, "clip")
    w = np.random.default_rng(5).normal(size=shape)
    plain, kernel = both(operation, w)
    np.testing.assert_allclose(kernel, plain, rtol=0, atol=2 * EPS * np.abs(w).max())


def test_the_device_and_the_size_choose_the_form(monkeypatch):
    def chosen(*shape: int) -> TileSizes | None:
        return choose_tiles(shape, Thresholds())[0]

    assert chosen(4096, 1024) is None  # on a CPU
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert chosen(4096, 1024) == TileSizes()
    assert chosen(40, 1024) is None, "too small"
    assert chosen(1 << 20, 12) is None, "columns too short"
    assert chosen(1 << 16, 1 << 16) is None, "positions would not fit into 32 bits"


def test_a_model_in_tiles_has_the_same_optimum_within_both_bounds():
    settings: dict[str, Any] = {
        "max_stock": 20,
        "max_regime": 69,
        "demand_slope": 0.02,
        "max_demand": 9,
    }
    mdp = ts.inventory(**settings)
    plan = make_plan(mdp, ts.ValueIteration(1e-8), representation="stages")
    assert plan.tiles is None
    plain = ts.solve(mdp, plan=plan)
    tiles = ts.solve(mdp, plan=plan.using(tiles=TILES))
    assert tiles.plan is not None
    program: Any = tiles.plan.backend_model.backend
    fused = [part for part in program.operations if isinstance(part, TiledAxisShift)]
    assert [part.inner is not None for part in fused] == [True], "demand, and the regime inside"
    apart = np.abs(tiles.value - plain.value).max()
    assert apart <= plain.error_bound + tiles.error_bound < 1e-7
    np.testing.assert_array_equal(tiles.policy.table, plain.policy.table)


def test_a_short_last_axis_takes_the_plain_form():
    rng = np.random.default_rng(6)
    shape = 6, 5
    narrow = build_shift(shape, 0, np.array([[0, 1]]), law(rng, 1, 2, 1, 1), "clip")
    plain, kernel = both(narrow, rng.normal(size=shape))
    np.testing.assert_array_equal(kernel, plain)
