"""The zoo: every record keeps its promises, and what theory says is found in the optimal policy.

Optima are found by NumPy (``support.small``), so that nothing needs to be compiled.
"""

from __future__ import annotations

import numpy as np
import pytest
from support.small import evaluate_policy, iterate_policies, iterate_values

import tessella as ts
from tessella.conformance import check_problem
from tessella.problems.registry import PUBLISHED_PROBLEMS
from tessella.tessellation import through_sum

SMALL = 450  # states, for dense linear algebra


@pytest.mark.parametrize(
    "problem",
    # Aircraft at full size take half a minute to build: benchmarks/vertical_cas.py does.
    [known for known in PUBLISHED_PROBLEMS if known.name != "vertical_cas"],
    ids=lambda problem: problem.name,
)
def test_every_record_keeps_its_promises(problem):
    check_problem(problem, theory=False)


@pytest.mark.parametrize(
    "problem",
    [known for known in PUBLISHED_PROBLEMS if known.theory],
    ids=lambda problem: problem.name,
)
def test_what_theory_says_is_found_in_the_optimal_policy(problem):
    mdp = problem.build()
    if isinstance(mdp.criterion, ts.FiniteHorizon):
        policy = ts.solve(mdp).policy
    else:
        policy = (iterate_policies(mdp) if mdp.n_states < SMALL else iterate_values(mdp)).policy
    found = ts.examine(ts.tessellate(mdp, policy)).evidence
    for known in problem.theory:
        assert found[known.structure], found[known.structure].describe()


TOLD_IN_COSTS = {  # where the literature minimises costs and nothing is earned
    "dual_sourcing",
    "lost_sales",
    "machine_replacement",
    "parallel_queues",
    "perishable",
    "platelets",
    "two_class_server",
}


def test_problems_of_costs_are_told_in_costs_and_no_others():
    slow = {"vertical_cas"}
    told = {
        known.name
        for known in PUBLISHED_PROBLEMS
        if known.name not in slow and known.build().minimise
    }
    assert told == TOLD_IN_COSTS


def best_of(name: str, **settings):
    mdp = ts.problem(name).build(**settings)
    return mdp, iterate_policies(mdp)


def test_dual_sourcing_costs_what_gijsbrechts_et_al_print():
    """Gijsbrechts et al. (2022): 216.770 at lead time 2 and express cost 105."""
    _, best = best_of("dual_sourcing")
    assert round(-best.gain, 3) == 216.770
    _, wider = best_of("dual_sourcing", min_stock=-7, max_stock=15, max_order=7)
    assert best.gain == pytest.approx(wider.gain, abs=1e-9)


def test_a_capped_dual_index_policy_of_three_numbers_comes_within_a_ninth_of_a_per_cent():
    """Gijsbrechts et al. (2022): within 0.11 % of the optimum in all six cases."""
    mdp, best = best_of("dual_sourcing")
    stock, due = np.meshgrid(*mdp.grid.values, indexing="ij")

    def cost(low: int, high: int, cap: int) -> float:
        express = np.clip(low - stock, 0, 5)
        regular = np.clip(high - stock - express - due, 0, cap)
        return -evaluate_policy(mdp, 6 * express + regular)[1]

    costs = [cost(a, b, c) for a in (3, 4, 5) for b in (5, 6, 7, 8, 9) for c in (2, 3, 4)]
    assert -best.gain <= min(costs) <= 1.0011 * -best.gain


def test_the_best_wear_to_replace_at_is_that_of_renewal():
    """Derman (1963): (K + c / p sum_{i < N} i) / (1 + N / p), least over N."""
    for price in (5.0, 40.0, 300.0):
        _, best = best_of("machine_replacement", price=price)
        n = np.arange(1, 31)
        costs = (price + n * (n - 1) / 2 / 0.4) / (1 + n / 0.4)
        assert -best.gain == pytest.approx(costs.min())
        assert best.policy.argmax() == n[costs.argmin()]


@pytest.mark.parametrize("rho", [0.3, 0.9, 1.5])
@pytest.mark.parametrize("worth", [2.5, 10.2, 18.7])
def test_naors_thresholds_are_those_of_the_closed_form(rho, worth):
    """Naor (1969): society lets in up to n, fewer than would join by themselves."""
    _, best = best_of("naor_admission", arrivals=rho, admission_reward=worth)
    n = np.arange(1, 41)
    effort = (n * (1 - rho) - rho * (1 - rho**n)) / (1 - rho) ** 2
    limit = n[effort <= worth].max(initial=0)
    np.testing.assert_array_equal(best.policy, np.arange(41) < limit)
    assert limit <= np.floor(worth)


@pytest.mark.parametrize("servers", [1, 3])
def test_the_gain_of_admission_to_servers_is_that_of_birth_and_death(servers):
    """pi_k proportional to prod lambda / (mu min(k, c)); the best limit by trying them all."""
    mdp, best = best_of("naor_admission", servers=servers, arrivals=2.2)
    assert mdp.clock is not None

    def gain(limit: int) -> float:
        k = np.arange(limit + 1)
        share = np.cumprod([1.0, *(2.2 / np.minimum(k[1:], servers))])
        share /= share.sum()
        return 2.2 * 10 * (1 - share[-1]) - share @ k

    found = mdp.clock.per_time(best.gain)
    assert found == pytest.approx(max(gain(limit) for limit in range(1, 40)))


def test_trunks_are_reserved_for_the_class_that_pays_more():
    """Miller (1969): only the number of busy servers counts; the first class is always let in."""
    mdp, best = best_of("two_class_admission")
    table = best.policy.reshape(mdp.grid.shape)
    assert through_sum(ts.tessellate(mdp, best.policy), ("first", "second"))
    busy = np.add.outer(*mdp.grid.values)
    assert (table[busy < 12] >= 1).all()
    assert (table[busy < 12] == 1).sum() > 0


def test_with_equal_classes_everybody_is_let_in_and_erlang_says_what_is_earned():
    """Erlang (1917): the share lost is B(c, a), B(c) = a B(c - 1) / (c + a B(c - 1))."""
    mdp, best = best_of("two_class_admission", first_pays=1.0)
    lost = 1.0
    for servers in range(1, 13):
        lost = 13 * lost / (servers + 13 * lost)
    assert mdp.clock is not None
    assert mdp.clock.per_time(best.gain) == pytest.approx(13 * (1 - lost))


@pytest.mark.parametrize(("first", "second"), [((1.0, 1.0), (1.5, 1.0)), ((1.0, 3.0), (2.0, 1.0))])
def test_the_class_with_the_larger_c_mu_is_served_first(first, second):
    """Cox and Smith (1961), whatever the arrivals."""
    rates = {"first_service": first[0], "second_service": second[0]}
    mdp, best = best_of(
        "two_class_server", **rates, first_cost=first[1], second_cost=second[1], longest=10
    )
    table = best.policy.reshape(mdp.grid.shape)
    ahead = int(np.prod(second) > np.prod(first))
    there = table[:, 1:] if ahead else table[1:]
    assert (there == ahead).all()


def test_with_equal_servers_the_shorter_queue_is_joined():
    """Winston (1977): a switching curve along the diagonal, symmetric."""
    mdp, best = best_of("parallel_queues", second_service=1.0, longest=12)
    table = best.policy.reshape(mdp.grid.shape)
    first, second = np.meshgrid(*mdp.grid.values, indexing="ij")
    assert (table[first < second] == 0).all()
    assert (table[first > second] == 1).all()


def test_a_quicker_server_is_joined_at_a_longer_queue():
    """Hajek (1984): along the switching curve both queues rise."""
    mdp, best = best_of("parallel_queues")
    table = best.policy.reshape(mdp.grid.shape)[:-1, :-1]
    ends = (table == 0).sum(axis=0)  # join the first queue below this length
    assert (np.diff(ends) >= 0).all()
    assert (ends > np.arange(20)).all()


def test_a_busy_machine_runs_on_until_the_load_falls_where_wear_costs_little():
    """What is earned meanwhile can be worth more: a counterexample to thresholds in wear."""
    mdp, best = best_of("maintenance", wear_cost=0.1)
    busiest = best.policy.reshape(mdp.grid.shape)[:, -2]
    assert (np.diff(busiest) < 0).any()
    assert set(np.unique(best_of("maintenance")[1].policy)) == {0, 1, 2}


def test_a_battery_in_a_market_of_one_price_is_emptied_and_never_charged():
    mdp, best = best_of("battery_arbitrage", regimes=1)
    trades = np.array(mdp.actions)[best.policy]
    assert (trades == -np.minimum(np.arange(21), 4)).all()


def test_water_is_kept_for_the_winter_when_it_is_dear():
    mdp = ts.problem("hydro_reservoir").build()
    release = np.array(mdp.actions)[iterate_values(mdp, 1e-7).policy].reshape(mdp.grid.shape)
    months = list(mdp.grid.values[1])
    low = mdp.grid.values[0] <= 6
    assert release[low, months.index("Jan")].mean() > release[low, months.index("Jul")].mean()
