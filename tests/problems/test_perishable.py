"""Perishable stock: De Moor et al. (2022), with the values of Farrington et al. (2025), Table 3."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from support.small import evaluate_policy, iterate_values

import tessella as ts

PRINTED = {  # (life, lead time): waste 7 LIFO, FIFO, waste 10 LIFO, FIFO
    (2, 1): (-1553, -1457, -1571, -1463),
    (3, 1): (-1490, -1424, -1498, -1425),
    (2, 2): (-1551, -1461, -1569, -1469),
}
CASES = [(7, "LIFO"), (7, "FIFO"), (10, "LIFO"), (10, "FIFO")]
SIMULATED = 0.3  # beside half a digit; one simulated year has a standard deviation of 61


@cache
def solved(**settings) -> tuple[ts.MDP, np.ndarray]:
    """Model and optimal policy, (S,)."""
    mdp = ts.problem("perishable").build(**settings)
    return mdp, iterate_values(mdp).policy


def measured(mdp: ts.MDP, table: np.ndarray) -> float:
    """Mean discounted reward of 365 days after 100 unscored days from empty."""
    table, n = np.ravel(table), mdp.n_states
    chosen = [sp.diags_array(1.0 * (table == a)) for a in range(mdp.n_actions)]
    rows = sum(d @ P for d, P in zip(chosen, mdp.dynamics.to_sparse(), strict=True))
    forward, reward = sp.csr_array(rows).T.tocsr(), mdp.reward[np.arange(n), table]
    share = np.eye(1, n)[0]
    for _ in range(100):
        share = forward @ share
    total = 0.0
    for day in range(365):
        total += 0.99**day * (share @ reward)
        share = forward @ share
    return float(total)


@pytest.mark.parametrize(("life", "lead"), PRINTED)
def test_the_optimum_is_worth_what_is_printed(life, lead):
    for (waste, issuing), printed in zip(CASES, PRINTED[life, lead], strict=True):
        found = measured(*solved(life=life, lead_time=lead, waste_cost=waste, issuing=issuing))
        assert abs(found - printed) < 0.5 + SIMULATED


@pytest.mark.parametrize(("issuing", "value"), [("LIFO", -1552.991), ("FIFO", -1457.281)])
def test_two_values_agree_to_three_digits_with_others_who_computed_them(issuing, value):
    assert round(measured(*solved(issuing=issuing)), 3) == value


LIFO = [[order] * 9 for order in (3, 3, 3, 2, 1, 0, 0, 0, 0)]
FIFO = [
    [4, 4, 4, 4, 4, 4, 4, 4, 4],
    [4, 4, 3, 3, 3, 3, 3, 3, 3],
    [4, 3, 3, 3, 2, 2, 2, 2, 2],
    [3, 3, 2, 2, 1, 1, 1, 1, 1],
    [3, 2, 2, 1, 1, 1, 1, 0, 0],
    [2, 2, 1, 1, 0, 0, 0, 0, 0],
    [2, 1, 1, 0, 0, 0, 0, 0, 0],
    [1, 1, 0, 0, 0, 0, 0, 0, 0],
    [1, 0, 0, 0, 0, 0, 0, 0, 0],
]


@pytest.mark.parametrize(("issuing", "printed"), [("LIFO", LIFO), ("FIFO", FIFO)])
def test_the_policies_are_those_that_de_moor_prints(issuing, printed):
    """Order by stock of age 1 (two days left) in rows, of age 2 (one day left) in columns."""
    _, policy = solved(issuing=issuing)
    np.testing.assert_array_equal(policy.reshape(11, 11)[:9, :9], printed)


def test_base_stock_loses_between_half_and_two_and_a_half_per_cent():
    """The best level in 121 states: -1565 (LIFO) and -1474 (FIFO) as printed."""
    for issuing, printed in (("LIFO", -1565), ("FIFO", -1474)):
        mdp, policy = solved(issuing=issuing)
        total = np.add.outer(np.arange(11), np.arange(11))
        worths = [measured(mdp, np.clip(level - total, 0, 10)) for level in range(3, 12)]
        assert abs(max(worths) - printed) < 0.5 + SIMULATED
        best, _ = evaluate_policy(mdp, policy)
        simple, _ = evaluate_policy(mdp, np.clip(3 + int(np.argmax(worths)) - total, 0, 10))
        assert 0.005 < 1 - best[0] / simple[0] < 0.025


def test_a_unit_of_stock_replaces_at_most_one_of_the_order_and_the_fresher_the_more():
    """Nahmias (1975): orders fall by at most one, faster in fresh than in old stock."""
    for issuing in ("FIFO", "LIFO"):
        order = solved(issuing=issuing)[1].reshape(11, 11)
        fresh, old = -np.diff(order, axis=0), -np.diff(order, axis=1)
        assert set(np.unique(fresh)) | set(np.unique(old)) <= {0, 1}
        assert (order[1:, :-1] <= order[:-1, 1:]).all()  # one fresh unit for one old
