"""The policy-loss decomposition and its kin, against dense linear algebra."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.models import random_model

import tessella as ts
from tessella.certificates.certify import certify
from tessella.certificates.loss_bounds import decompose, find_nearest_faces
from tessella.solvers.policy_evaluation import Occupancy
from tessella.solvers.result import ValueAccuracy


class Dense:
    """V*, V_pi, local losses and occupancy by matrices, from a model's plain arrays."""

    def __init__(self, mdp, table, start=None):
        model = mdp.to_sparse()
        self.n, self.gamma = mdp.n_states, mdp.discount
        every, flat = np.arange(self.n), np.asarray(table).ravel()
        P = np.stack([m.toarray() for m in model.transition])
        self.best = self.optimum(P, model.reward)
        self.operator = np.eye(self.n) - self.gamma * P[flat, every]
        self.worth = np.linalg.solve(self.operator, model.reward[every, flat])
        q = model.reward + self.gamma * (P @ self.best).T
        self.local = q.max(axis=1) - q[every, flat]
        self.mu = np.full(self.n, 1 / self.n) if start is None else start
        self.d = (1 - self.gamma) * np.linalg.solve(self.operator.T, self.mu)

    def optimum(self, P, reward):
        policy = reward.argmax(axis=1)
        every = np.arange(self.n)
        while True:
            system = np.eye(self.n) - self.gamma * P[policy, every]
            value = np.linalg.solve(system, reward[every, policy])
            q = reward + self.gamma * (P @ value).T
            better = q.argmax(axis=1)
            if (q[every, better] <= q[every, policy] + 1e-11).all():
                return value
            policy = better


def spoiled(solution, share, seed):
    """The optimal table with a share of its entries drawn at random."""
    rng = np.random.default_rng(seed)
    table = solution.policy.table.copy()
    spoil = rng.random(table.shape) < share
    table[spoil] = rng.integers(0, solution.mdp.n_actions, spoil.sum())
    return table


def check_identity(solution, table, start=None):
    c = certify(solution, table, start)
    dense = Dense(solution.mdp, table, start)
    loss = dense.best - dense.worth
    by_state = np.linalg.solve(dense.operator, c.local_loss.ravel())
    np.testing.assert_allclose(by_state, loss, rtol=0, atol=1e-9)
    np.testing.assert_allclose(c.loss.ravel(), loss, rtol=0, atol=1e-9)
    np.testing.assert_allclose(c.local_loss.ravel(), dense.local, rtol=0, atol=1e-9)
    np.testing.assert_allclose(c.occupancy.ravel(), dense.d, rtol=0, atol=1e-9)
    by_occupancy = (c.occupancy * c.local_loss).sum() / (1 - c.criterion.discount)
    assert by_occupancy == pytest.approx(dense.mu @ loss, abs=1e-9, rel=1e-9)
    assert c.mean_loss == pytest.approx(dense.mu @ loss, abs=1e-9)
    return c


@pytest.mark.parametrize("label", list(ts.BENCHMARKS))
def test_the_loss_is_the_accumulated_local_loss_on_every_benchmark(solved, label):
    solution = solved(label)
    check_identity(solution, spoiled(solution, 0.05, seed=1))


@pytest.mark.parametrize("seed", range(4))
def test_the_loss_is_the_accumulated_local_loss_for_random_policies_of_random_models(seed):
    rng = np.random.default_rng(seed)
    solution = ts.solve(random_model(rng))
    start = rng.dirichlet(np.ones(solution.mdp.n_states))
    check_identity(solution, spoiled(solution, 1.0, seed), start)


@pytest.mark.parametrize("label", [b for b in ts.BENCHMARKS if b.startswith("QUE")])
def test_on_the_queues_each_error_costs_its_margin(solved, label):
    solution = solved(label)
    table = spoiled(solution, 0.3, seed=2)
    c = certify(solution, table)
    wrong = table != solution.policy.table
    np.testing.assert_array_equal(c.local_loss, np.where(wrong, solution.margin, 0.0))
    assert c.bounds.second_best.holds
    assert c.bounds.second_best.loss == pytest.approx(c.mean_loss, abs=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 1.0])
def test_all_bounds_lie_above_the_loss_of_an_inventory_policy(inventory, share):
    c = certify(inventory, spoiled(inventory, share, seed=3))
    b = c.bounds
    assert c.mean_loss.upper <= b.policy_error.upper
    assert b.policy_error.upper <= b.localisation.bound.upper
    if share:
        assert b.localisation.bound.upper <= b.rate.bound.upper
        assert b.localisation.eps >= inventory.margin[c.policy.table != c.optimal].max()


def test_the_premise_of_localisation_is_checked_and_its_exceptions_counted(inventory):
    table = spoiled(inventory, 0.3, seed=4)
    wrong = table != inventory.policy.table
    eps = float(np.median(inventory.margin[wrong]))
    near = certify(inventory, table, eps=eps).bounds.localisation
    outside = wrong & (inventory.margin > eps)
    assert near.holds is False
    assert near.bound is None
    assert near.exceptions == outside.sum()
    assert outside.flat[near.example]
    everywhere = certify(inventory, table, eps=1e6).bounds.localisation
    assert everywhere.holds
    assert everywhere.neighbourhood == pytest.approx(1.0)


def test_an_eps_that_rounding_cannot_place_is_reported_as_open(inventory):
    wrong = np.zeros(inventory.mdp.grid.shape, dtype=bool)
    wrong.flat[inventory.margin.argmin()] = True
    second = np.argsort(inventory.q, axis=-1)[..., -2]
    table = np.where(wrong, second, inventory.policy.table)
    near = certify(inventory, table, eps=float(inventory.margin.min())).bounds.localisation
    assert near.holds is None
    assert near.bound is None


def test_the_margin_rate_covers_the_occupancy_of_every_margin_in_its_range(inventory):
    c = certify(inventory, spoiled(inventory, 0.1, seed=5))
    rate = c.bounds.rate
    assert rate.exponent > 0
    for eps in np.geomspace(rate.smallest, rate.largest, 200):
        assert c.occupancy[c.margin <= eps].sum() <= rate.constant * eps**rate.exponent
    at = np.geomspace(rate.smallest, rate.largest, 2000)
    tightest = min(rate.constant * e**rate.exponent - c.occupancy[c.margin <= e].sum() for e in at)
    assert tightest <= 0.02


def test_every_decomposition_adds_up_to_the_loss(inventory):
    table = spoiled(inventory, 0.2, seed=6)
    c = certify(inventory, table)
    d = c.decomposition
    for part in (d.state, d.region, d.pair, d.face):
        assert part.value.sum() == pytest.approx(c.mean_loss, abs=1e-9)
        assert part.lower.sum() <= c.mean_loss <= part.upper.sum()
    best, taken = 3, 1
    chosen = (c.optimal == best) & (table == taken)
    assert d.pair.value[best, taken] == pytest.approx(d.state.value[chosen].sum())
    assert d.region.value[best] == pytest.approx(d.state.value[c.optimal == best].sum())
    assert (np.diag(d.pair.upper) == 0).all()


def test_a_decomposition_allows_for_what_the_occupancy_may_be_off_by(inventory):
    c = certify(inventory, spoiled(inventory, 0.2, seed=6))
    rng = np.random.default_rng(0)
    off = np.zeros(c.grid.shape)
    off.flat[rng.choice(off.size, 3, replace=False)] = [2e-3, -1e-3, 3e-3]
    off.flat[c.decomposition.state.value.argmax()] = -4e-3
    rough = Occupancy(
        inventory.mdp,
        c.policy,
        c.start,
        np.maximum(c.occupancy + off, 0),
        float(np.abs(off).sum()),
    )
    found = decompose(c.optimal, c.policy.table, 5, c.local_losses, rough)
    for name in ("state", "region", "pair", "face"):
        true, part = getattr(c.decomposition, name).value, getattr(found, name)
        assert (part.lower <= true + 1e-9).all()
        assert (true - 1e-9 <= part.upper).all()


def test_each_state_is_charged_to_the_nearest_face():
    rng = np.random.default_rng(0)
    table = rng.integers(0, 3, (3, 4)).repeat(4, axis=0).repeat(3, axis=1)
    code = find_nearest_faces(table, 3)
    ends = []
    for axis in (0, 1):
        low, high = (np.moveaxis(table, axis, 0)[cut] for cut in (np.s_[:-1], np.s_[1:]))
        for place in np.argwhere(low != high):
            pair = sorted((low[tuple(place)], high[tuple(place)]))
            here = place if axis == 0 else place[::-1]
            there = here + np.eye(2, dtype=int)[axis]
            ends += [(here, pair), (there, pair)]
    for state in np.ndindex(table.shape):
        steps = [np.abs(np.array(state) - end).sum() for end, _ in ends]
        nearest = {
            pair[0] * 3 + pair[1]
            for (_, pair), k in zip(ends, steps, strict=True)
            if k == min(steps)
        }
        assert code[state] in nearest


def test_without_faces_the_loss_stays_with_the_only_action():
    assert (find_nearest_faces(np.full((2, 3), 2), 4) == 2 * 4 + 2).all()


def test_a_coarse_solution_still_certifies_its_own_policy_exactly():
    solution = ts.solve(ts.benchmark("QUE-Lin"), tol=1e-4)
    assert solution.decided.all()
    c = certify(solution, solution)
    assert (c.mean_loss.lower, c.mean_loss.upper) == (0.0, 0.0)
    spoiled_one = certify(solution, spoiled(solution, 0.05, seed=7))
    fine = certify(ts.solve(solution.mdp), spoiled_one.policy)
    assert fine.mean_loss in spoiled_one.mean_loss
    assert (spoiled_one.losses.lower <= fine.losses.upper).all()
    assert (fine.losses.lower <= spoiled_one.losses.upper).all()


def test_huge_penalties_that_no_policy_pays_cost_no_digits():
    """The rounding of a backup is that of the best actions, not that of what nobody does."""
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(np.ones(30), (4, 30))
    reward = rng.normal(size=(30, 4))
    reward[:, 3] = -1e9
    solution = ts.solve(ts.MDP.from_arrays(rows, reward, 0.99))
    certificate = certify(solution, solution.policy)
    assert certificate.optimal_value_error < 1e-10
    assert certificate.policy_value_error < 1e-10


def test_where_only_the_certificate_tells_actions_apart_the_best_is_optimal():
    """The policy of a solution that could not may take the other there, and then surely errs."""
    rng = np.random.default_rng(1)
    rows = np.repeat(rng.dirichlet(np.ones(5), 5)[None], 2, axis=0)
    mdp = ts.MDP.from_arrays(rows, np.array([[0.0, 1e-7]] * 5), 0.9)
    found = ts.solve(mdp)
    first = mdp.policy(np.zeros(5, np.int32))
    rough = replace(found, policy=first, accuracy=ValueAccuracy(found.error_bound, 1e-6))
    assert not rough.decided.any()
    certificate = certify(rough, first)
    assert (certificate.optimal == 1).all()
    assert certificate.policy_error.lower > 0.99


def test_an_action_within_the_tolerance_is_no_costly_error(inventory):
    table = np.argsort(inventory.q, axis=-1)[..., -2]
    c = certify(inventory, table, tol=0.1)
    assert c.policy_error == 1.0
    assert c.costly_error == pytest.approx((inventory.margin > 0.1).mean())


def test_models_that_can_end_are_certified_too():
    gymnasium = pytest.importorskip("gymnasium")
    mdp = ts.MDP.from_gymnasium(gymnasium.make("FrozenLake-v1"), discount=0.9)
    solution = ts.solve(mdp)
    table = np.random.default_rng(0).integers(0, 4, mdp.n_states)
    check_identity(solution, table, np.full(mdp.n_states, 1 / mdp.n_states))


@pytest.mark.parametrize("given", [{"eps": -1.0}, {"tol": np.nan}, {"eps": np.inf}])
def test_numbers_that_make_no_sense_are_refused(queue, given):
    with pytest.raises(ts.ArgumentError, match="not negative"):
        certify(queue, queue, **given)
