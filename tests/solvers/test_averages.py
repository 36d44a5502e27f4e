"""Averages of large models: a slow coordinate costs few rounds, and the gain alone still less."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.routes import plan_by

import tessella as ts
from tessella.mdp.compilation import in_float64
from tessella.solvers import hitting_times, multigrid
from tessella.solvers.execution_plan import make_plan
from tessella.solvers.mixed_precision import WARM_UP_MAX_ITERATIONS, make_phases
from tessella.solvers.prepared_model import PreparedModel

REGIMES = 300  # mixing takes about 100,000 periods


@pytest.fixture(scope="module")
def slow() -> ts.MDP:
    return slowly_wandering()


def slowly_wandering() -> ts.MDP:
    """Stock under a demand that wanders slowly over many regimes."""
    mean = np.linspace(0.5, 4, REGIMES)
    return ts.MDP.staged(
        {"stock": range(12), "regime": range(REGIMES)},
        (0, 2, 4),
        ts.Average(),
        [
            ts.Decide("stock", to=lambda stock, order: np.minimum(stock + order, 11)),
            ts.Shift(
                "stock",
                ts.Noise("demand", range(9), lambda regime: ts.truncated_poisson(mean[regime], 8)),
                by=lambda demand: -demand,
                pays=lambda stock, demand: 3.0 * np.minimum(stock, demand) - 0.5 * stock,
            ),
            ts.Shift("regime", ts.Noise("drift", (-1, 0, 1), (0.25, 0.5, 0.25))),
        ],
        action_name="order",
    )


def plan_as_large(mdp: ts.MDP, *method: ts.Method, representation: str = "rows", **requests):
    """The plan by which large averages are solved, for a small one."""
    return plan_by(mdp, representation, *method, preconditioner="coarse", **requests)


METHOD = ts.InexactPolicyIteration(max_products=40)  # without the correction: far over 200 rounds


@pytest.fixture(scope="module")
def found(slow) -> ts.Solution:
    return ts.solve(slow, plan=plan_as_large(slow, METHOD))


@pytest.mark.xdist_group("slow averages")
def test_a_slow_coordinate_takes_few_rounds_and_its_relative_values_are_bounded(found):
    assert found.converged
    assert found.error_bound < 1e-8
    assert found.sweeps <= 25
    assert found.value_error < 1e-2  # relative values span tens of thousands
    assert np.ptp(found.value) > 1e4
    assert found.decided.mean() > 0.9


@pytest.mark.xdist_group("slow averages")
def test_the_gain_is_that_of_the_sparse_linear_system(slow, found):
    """g + h - P h = r with h = 0 in the first state, for the policy that was found."""
    from scipy.sparse import csr_array, diags_array, eye_array
    from scipy.sparse.linalg import splu

    table, n = found.policy.table.ravel(), slow.n_states
    sparse = slow.to_sparse()
    chain = sum(diags_array((table == a) * 1.0) @ p for a, p in enumerate(sparse.transition))
    system = (eye_array(n) - csr_array(chain)).tolil()
    system[:, 0] = 1.0  # in place of h(0) stands the gain
    exact = splu(system.tocsc()).solve(sparse.reward[np.arange(n), table])
    assert found.gain == pytest.approx(exact[0], abs=1e-7)
    relative = np.concatenate([[0.0], exact[1:]])
    assert np.abs(found.value.ravel() - relative).max() < found.value_error + 1e-4


@pytest.mark.xdist_group("slow averages")
def test_a_policy_and_its_long_run_are_found_with_the_same_help(slow, found):
    table = np.where(np.arange(12)[:, None] < 4, 1, 0) + np.zeros((1, REGIMES), int)
    worth = ts.evaluate(slow, table, plan=found.plan)
    visits = ts.occupancy(slow, table, plan=found.plan)
    assert worth.sweeps <= 20
    assert visits.error_bound < 1e-6
    reward = np.take_along_axis(slow.reward, table.reshape(-1, 1), 1)[:, 0]
    earned = float(visits.share.ravel() @ reward)
    assert earned == pytest.approx(worth.gain, abs=10 * (worth.error_bound + visits.error_bound))
    assert found.gain > worth.gain


@pytest.mark.xdist_group("slow averages")
def test_the_gain_alone_does_not_bound_relative_values(slow, found, monkeypatch):
    def asked(*_):
        raise AssertionError("asked")

    monkeypatch.setattr(hitting_times, "bound_relative_error", asked)
    again = ts.solve(slow, plan=found.plan)
    assert again.gain == found.gain
    assert again.policy.table.shape == (12, REGIMES)
    for name in ("decided", "tie_tolerance", "value_error", "upper"):
        with pytest.raises(AssertionError, match="asked"):
            getattr(again, name)


@pytest.mark.xdist_group("slow averages")
def test_a_callback_sees_sweeps_counted_through_and_may_stop_in_either_part(slow, found):
    seen: list[int] = []
    ts.solve(slow, plan=found.plan, callback=lambda p: seen.append(p.sweep))
    assert seen == list(range(1, found.sweeps + 1))
    for last in (2, found.sweeps - 1):

        def stop(progress, last=last):
            return progress.sweep == last

        part = ts.solve(slow, plan=found.plan, callback=stop)
        assert part.sweeps == last
        assert not part.converged
        assert abs(part.gain - found.gain) <= part.error_bound + found.error_bound


@pytest.mark.xdist_group("slow averages")
@pytest.mark.parametrize("helps", [True, False], ids=["single helps", "single brings little"])
def test_through_stages_single_precision_comes_first_and_double_where_it_brings_little(
    found, monkeypatch, helps
):
    if not helps:
        monkeypatch.setattr(
            ts.MixedPrecision, "_solve_system", lambda self, single, policy, d, _: d
        )
    # Another limit of products than elsewhere, so that nothing compiled before is met.
    method = ts.MixedPrecision(max_products=101 if helps else 102)
    mdp = slowly_wandering()
    prepared = PreparedModel(plan_as_large(mdp, method, representation="stages"))
    phases = make_phases(prepared, method)
    assert [type(phase.method).__name__ for phase in phases] == [
        "MixedPrecision",
        "MixedPrecision",
        "InexactPolicyIteration",
    ]
    assert [phase.uses_coarse_correction for phase in phases] == [False, True, True]
    again = ts.solve(mdp, plan=prepared.plan)
    assert again.method == "MixedPrecision"
    assert again.converged
    assert again.sweeps == len(again.history.bound)
    assert again.error_bound < 1e-8
    assert abs(again.gain - found.gain) <= again.error_bound + found.error_bound


@pytest.mark.xdist_group("slow averages")
def test_rewards_beyond_single_precision_are_averaged_all_the_same():
    scale = 1e40  # single precision ends at 3e38
    found, plain = (
        ts.solve(mdp, plan=plan_as_large(mdp, ts.MixedPrecision(), representation="stages"))
        for mdp in (machine(scale), machine(1.0))
    )
    assert found.converged
    off = found.error_bound / scale + plain.error_bound
    assert abs(found.gain / scale - plain.gain) <= off
    assert off < 1e-6


def machine(reward: float) -> ts.MDP:
    """Wear that a repair undoes; all rewards are multiples of ``reward``."""
    repair = ts.Decide(
        "wear",
        to=lambda wear, repair: np.where(repair == 1, 0, wear),
        pays=lambda repair: -7.0 * reward * repair,
    )
    worse = ts.Noise("w", [0, 1, 2], [0.3, 0.4, 0.3])
    wear = ts.Shift("wear", worse, edge="clip", pays=lambda wear: -reward * wear)
    stages, axes = [repair, wear], {"wear": range(40)}
    return ts.MDP.staged(axes, (0, 1), ts.Average(), stages, action_name="repair")


@pytest.mark.xdist_group("slow averages")
@pytest.mark.parametrize("most", [1, 4])
def test_a_limit_of_sweeps_is_one_for_all_phases(most):
    mdp = slowly_wandering()
    plan = plan_as_large(mdp, ts.MixedPrecision(max_sweeps=most), representation="stages")
    part = ts.solve(mdp, plan=plan, partial=True)
    with pytest.raises(ts.NotConverged, match=f"limit of {most} sweep"):
        ts.solve(mdp, plan=plan)
    assert not part.converged
    assert part.sweeps == most


@pytest.mark.xdist_group("slow averages")
def test_an_average_with_phases_continues_from_its_checkpoint(tmp_path, slow, found):
    """Interrupted after a few sweeps, as a callback that raises does it."""
    method = ts.MixedPrecision()
    plan = plan_as_large(slow, method, representation="stages")
    checkpoint = ts.Checkpoint(tmp_path / "run.npz", every=0)

    def interrupt(progress):
        if progress.sweep == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ts.solve(slow, plan=plan, callback=interrupt, checkpoint=checkpoint)
    again = ts.solve(slow, plan=plan, checkpoint=checkpoint)
    assert again.converged
    assert again.sweeps > 3
    assert abs(again.gain - found.gain) <= again.error_bound + found.error_bound


def test_sweeps_that_converge_are_the_answer():
    rows = np.random.default_rng(0).dirichlet(np.ones(6), size=(2, 6))
    mdp = ts.MDP.from_arrays(rows, np.arange(12.0).reshape(6, 2), ts.Average())
    found = ts.solve(mdp, plan=plan_as_large(mdp, tol=1e-6))
    assert found.converged
    assert found.sweeps <= WARM_UP_MAX_ITERATIONS


def make_hats(axis: multigrid.CoarseAxis) -> np.ndarray:
    """(m, length) the functions of an axis, from their definition."""
    positions, rows = np.arange(axis.length), np.eye(len(axis.cut_points))
    return np.stack([np.interp(positions, axis.cut_points, row) for row in rows])


def test_hat_functions_sum_to_one_and_are_one_at_their_own_cut_point():
    for length, spacing, count in (
        (1, 1, 1),
        (2, 1, 2),
        (2, 4, 1),
        (33, 1, 33),
        (34, 34, 2),
        (501, 8, 64),
    ):
        axis = multigrid.CoarseAxis.with_spacing(length, spacing, (1, 1))
        assert len(axis.cut_points) == count
        assert max(np.diff(axis.cut_points), default=0) <= spacing
        hats = multigrid.interpolate(
            np.eye(count), [axis.cell_weights, np.zeros((count, 1))], [length, count]
        ).T
        assert hats.sum(axis=0) == pytest.approx(np.ones(length))
        assert (hats[:, axis.cut_points] == np.eye(count)).all()
        assert hats == pytest.approx(make_hats(axis), abs=1e-12)
        colours = [hats[c :: axis.n_colours].sum(0) for c in range(axis.n_colours)]
        assert axis.sum_by_colour() == pytest.approx(np.stack(colours), abs=1e-12)


GRIDS = [
    ((7,), (3,)),
    ((1, 9), (1, 2)),
    ((12, 5), (4, 20)),
    ((33, 8), (1, 8)),
    ((6, 10, 7), (6, 3, 2)),
    ((4, 4, 3, 5), (2, 1, 9, 3)),
]


@in_float64
@pytest.mark.parametrize(("shape", "spacings"), GRIDS, ids=str)
def test_interpolation_is_that_of_dense_functions_and_restriction_its_transpose(shape, spacings):
    axes = [
        multigrid.CoarseAxis.with_spacing(*each, (1, 1))
        for each in zip(shape, spacings, strict=True)
    ]
    weights = [axis.cell_weights for axis in axes]
    nodes = [len(axis.cut_points) for axis in axes]
    rng = np.random.default_rng(0)
    c, x = rng.normal(size=nodes), rng.normal(size=shape)
    dense = np.ones((1, 1))
    for axis in axes:
        dense = np.kron(dense, make_hats(axis))
    wide, sums = multigrid.interpolate(c, weights, shape), multigrid.restrict(x, weights, nodes)
    assert wide.ravel() == pytest.approx(c.ravel() @ dense, abs=1e-12)
    assert sums.ravel() == pytest.approx(dense @ x.ravel(), abs=1e-12)
    assert (wide * x).sum() == pytest.approx((c * sums).sum(), abs=1e-11)
    compiled = jax.jit(
        lambda c, x: (
            multigrid.interpolate(c, weights, shape),
            multigrid.restrict(x, weights, nodes),
        )
    )
    for ours, expected in zip(compiled(c, x), (wide, sums), strict=True):
        assert np.asarray(ours) == pytest.approx(expected, abs=1e-12)


SHAPES = [(1,), (12, 300), (33, 25), (1001, 501), (8,) * 6, (100_000,), (15_000, 2), (9, 9, 400)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("limits", [multigrid.PROCESSOR_LIMITS, multigrid.ACCELERATOR_LIMITS])
def test_a_solve_on_the_nodes_costs_little_and_slow_axes_are_cut_finer(limits, shape, far):
    reaches = [(n, n) if far else (1, 1) for n in shape]
    axes = multigrid.choose_coarse_axes(shape, reaches, limits)
    nodes, node_blocks, states = (
        [len(c.cut_points) for c in axes],
        multigrid.NodeBlocks.choose(axes),
        np.prod(shape),
    )
    assert node_blocks.n_blocks * node_blocks.block_size == np.prod(nodes)
    for spent, in_all, each in (
        (node_blocks.solve_cost, limits.solve_numbers, limits.solve_numbers_per_state),
        (node_blocks.factor_cost, limits.factor_products, limits.factor_products_per_state),
    ):
        assert spent <= min(in_all, each * states)
    assert np.prod([c.n_colours for c in axes]) <= multigrid.SETUP_MAX_PRODUCTS
    assert far <= (node_blocks.axis is None)  # blocks are for chains that move to the next only
    assert max(nodes) <= limits.axis_cut_points
    if not far:  # no axis was cut while another that could be cut had longer cells
        cells = [n / max(m - 1, 0.5) for n, m in zip(shape, nodes, strict=True)]
        could = [cell for cell, n, m in zip(cells, shape, nodes, strict=True) if m < n]
        was = [cell for cell, m in zip(cells, nodes, strict=True) if m > 1]
        assert max(could, default=0) <= 2 * min(was, default=np.inf) + 2


@in_float64
@pytest.mark.parametrize("length", [10_001, 100_000])
@pytest.mark.parametrize("limits", [multigrid.PROCESSOR_LIMITS, multigrid.ACCELERATOR_GAIN_LIMITS])
def test_a_long_line_is_helped_by_few_nodes(limits, length):
    """A lazy walk to and fro: what moves slowest is found but for the size of a spacing.

    At a node all the bend of a spacing is met by one step to and fro, so A_c is larger by that.
    """

    def expect(x):
        stays = jnp.concatenate([x[:1], x, x[-1:]])
        return 0.25 * stays[:-2] + 0.5 * x + 0.25 * stays[2:]

    axes = multigrid.choose_coarse_axes((length,), [(1, 1)], limits)
    seen = np.asarray(multigrid.probe_coarse_system(expect, axes, jnp.zeros(length)))
    found = multigrid.build_correction(seen, axes, has_gain=True)
    assert found is not None
    assert sum(each.size for each in jax.tree.leaves(found)) <= 100 * length
    x = np.cos(np.pi * np.arange(length) / length)  # the slowest of all
    right = x - np.asarray(expect(jnp.asarray(x)))
    smooth = np.asarray(multigrid.apply_correction(found, right)) - right
    assert axes[0].cut_points[1] * smooth == pytest.approx(x, abs=0.03)


def lazy_walk(length: int, reach: tuple[int, int], seed: int) -> np.ndarray:
    """(length, length) a chain that moves no further than ``reach``, differently in each state."""
    up = np.subtract.outer(np.arange(length), np.arange(length)).T
    near = (-reach[0] <= up) & (up <= reach[1])
    rows = np.where(near, np.random.default_rng(seed).random((length, length)), 0)
    return rows / rows.sum(axis=1, keepdims=True)


def system_of(
    walks: list[np.ndarray], axes, inverse_rows: int = multigrid.PROCESSOR_LIMITS.inverse_rows
) -> tuple[np.ndarray, multigrid.CoarseCorrection]:
    """A of independent chains along two axes, dense, and the correction as the solvers make it."""

    def expect(x):
        return jnp.asarray(walks[0]) @ x @ jnp.asarray(walks[1]).T

    like = jnp.zeros([len(walk) for walk in walks])
    seen = np.asarray(multigrid.probe_coarse_system(expect, axes, like))
    dense = np.eye(like.size) - np.kron(*walks) + 1 / like.size
    found = multigrid.build_correction(seen, axes, True, inverse_rows)
    assert found is not None
    return dense, found


REACHES = [
    ((1, 1), (1, 1)),
    ((3, 0), (1, 2)),
    ((2, 6), (4, 4)),
    ((0, 1), (64, 64)),
    ((5, 1), (2, 1)),
]


@in_float64
@pytest.mark.parametrize("spacings", [(5, 4), (10, 9), (3, 1), (80, 5)])
@pytest.mark.parametrize("reaches", REACHES)
def test_one_product_for_each_colour_gives_the_system_of_all_nodes(reaches, spacings):
    lengths = 41, 64
    walks = [
        lazy_walk(n, r, seed) for seed, (n, r) in enumerate(zip(lengths, reaches, strict=True))
    ]
    axes = tuple(map(multigrid.CoarseAxis.with_spacing, lengths, spacings, reaches))
    dense, found = system_of(walks, axes, 50)
    functions = np.kron(*map(make_hats, axes)).T
    nodes = np.ravel_multi_index(np.ix_(*(c.cut_points for c in axes)), lengths).ravel()
    c = np.random.default_rng(0).normal(size=len(nodes))
    right = (dense @ functions)[nodes] @ c
    # A leak is felt for as long as the chain takes to forget: here 1e4 periods, or so.
    assert multigrid._solve_coarse(found, right) == pytest.approx(
        c, abs=1e4 * multigrid.LEAK_PROBABILITY * 10
    )
    assert multigrid._solve_coarse(found, right) @ c == pytest.approx(
        right @ multigrid._solve_coarse_adjoint(found, c)
    )
    x, on_device = np.cos(np.arange(41 * 64.0)).reshape(41, 64), jax.tree.map(jnp.asarray, found)
    apply_adjoint = partial(multigrid.apply_correction, adjoint=True)
    for function in (multigrid.apply_correction, apply_adjoint):
        single = jax.jit(function)(on_device, jnp.asarray(x, jnp.float32))
        assert single.dtype == jnp.float32
        plain = function(found, x)
        assert np.asarray(single) == pytest.approx(plain, abs=1e-4 * abs(plain).max())


@in_float64
@pytest.mark.parametrize("has_gain", [True, False])
@pytest.mark.parametrize("reaches", REACHES)
def test_an_accelerator_computes_the_same_correction(reaches, has_gain):
    lengths, spacings = (41, 64), (5, 4)
    walks = [lazy_walk(n, r, 7) for n, r in zip(lengths, reaches, strict=True)]
    axes = tuple(map(multigrid.CoarseAxis.with_spacing, lengths, spacings, reaches))

    def expect(x):
        return jnp.asarray(walks[0]) @ x @ jnp.asarray(walks[1]).T

    probes = multigrid.probe_coarse_system(expect, axes, jnp.zeros(lengths))
    order = multigrid.order_by_blocks(axes)
    factorise = partial(multigrid.factorise_correction, axes, has_gain, inverse_rows=50)
    compiled, size = jax.jit(factorise)(probes, jnp.asarray(order))
    plain, plain_size = factorise(np.asarray(probes), order)
    assert float(size) == pytest.approx(plain_size, rel=1e-6)
    for ours, expected in zip(jax.tree.leaves(compiled), jax.tree.leaves(plain), strict=True):
        assert np.asarray(ours) == pytest.approx(expected, rel=1e-6, abs=1e-9 * abs(expected).max())


@pytest.mark.parametrize("count", range(1, 10))
@pytest.mark.parametrize("together", [0, 10])
def test_a_matrix_of_blocks_is_solved_whatever_their_number(count, together):
    n, rng = 3, np.random.default_rng(count)
    on, beside = rng.random((count, n, n)), rng.random((2, count - 1, n, n))
    on += 9 * np.eye(n)  # rows that no elimination brings near to zero
    whole = np.zeros((count, n, count, n))
    for k in range(count):
        whole[k, :, k] = on[k]
    for k in range(count - 1):
        whole[k + 1, :, k], whole[k, :, k + 1] = beside[0, k], beside[1, k]
    whole = whole.reshape(count * n, -1)
    factors, x = (
        multigrid.factorise_blocks(multigrid.BlockTridiagonal(beside[0], on, beside[1]), together),
        rng.normal(size=(count, n)),
    )
    assert factors.solve((whole @ x.ravel()).reshape(x.shape)) == pytest.approx(x)
    assert factors.transposed.solve((x.ravel() @ whole).reshape(x.shape)) == pytest.approx(x)


def test_colours_and_blocks_are_used_where_a_period_leads_not_far():
    near, wide = (
        multigrid.CoarseAxis.with_spacing(501, 4, (1, 1)),
        multigrid.CoarseAxis.with_spacing(501, 4, (5, 1)),
    )
    assert (near.n_colours, near.is_narrow) == (3, True)
    assert (wide.n_colours, wide.is_narrow) == (4, False)
    assert multigrid.NodeBlocks.choose(
        (multigrid.CoarseAxis.with_spacing(1001, 16, (20, 45)), near)
    ) == (
        1,
        126,
        64,
    )
    assert multigrid.NodeBlocks.choose(
        (multigrid.CoarseAxis.with_spacing(1001, 16, (20, 45)), wide)
    ) == (
        None,
        1,
        64 * 126,
    )


@in_float64
def test_the_correction_inverts_a_system_whose_states_are_all_nodes_and_has_an_adjoint():
    reaches = (1, 1), (2, 2)
    walks = [lazy_walk(9, reaches[0], 0), lazy_walk(14, reaches[1], 1)]
    axes = (
        multigrid.CoarseAxis.with_spacing(9, 1, reaches[0]),
        multigrid.CoarseAxis.with_spacing(14, 1, reaches[1]),
    )
    dense, whole = system_of(walks, axes)
    f = np.cos(np.arange(9))[:, None] + np.arange(14.0) ** 2
    right = (dense @ f.ravel()).reshape(f.shape)
    assert multigrid.apply_correction(whole, right) == pytest.approx(right + f, abs=1e-4)

    part = system_of(
        walks,
        (
            multigrid.CoarseAxis.with_spacing(9, 3, reaches[0]),
            multigrid.CoarseAxis.with_spacing(14, 4, reaches[1]),
        ),
    )[1]
    there, back = (
        multigrid.apply_correction(part, f),
        multigrid.apply_correction(part, right, adjoint=True),
    )
    assert (there * right).sum() == pytest.approx((f * back).sum(), rel=1e-9)
    single = multigrid.apply_correction(part, f.astype(np.float32))
    assert single.dtype == np.float32
    assert single == pytest.approx(there, rel=1e-4)


@pytest.mark.parametrize("seen", [np.full((3, 3), np.nan), np.eye(3), np.full((3, 3), 1e300)])
def test_a_chain_that_falls_apart_or_is_no_number_corrects_nothing(seen):
    axes = (multigrid.CoarseAxis.with_spacing(3, 1, (2, 2)),)
    assert multigrid.build_correction(seen, axes, has_gain=True) is None


def test_the_way_back_is_bounded_where_a_linear_solver_breaks_down():
    """BiCGSTAB ends in what is no number for this chain, after it had been near."""
    mdp = ts.queue_admission.build(max_queue=20, max_regime=10).with_criterion(ts.Average())
    table = np.ones(mdp.grid.shape, int)
    table[16:] = 0
    found = hitting_times.bound_policy_hitting_time(PreparedModel(make_plan(mdp)), table)
    moves = mdp.to_arrays().transition[table.ravel(), np.arange(mdp.n_states)]
    shares = np.linalg.matrix_power(moves, 10_000)[0]
    back = moves * (np.arange(len(moves)) != shares.argmax())
    exact = np.linalg.solve(np.eye(len(moves)) - back, np.ones(len(moves))).max()
    assert exact <= found == pytest.approx(exact, rel=1e-6)
