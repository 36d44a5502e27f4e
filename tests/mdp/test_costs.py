"""Models in costs: the same numbers with the other sign, and words for costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

import tessella as ts
from tessella.checker import check
from tessella.support.text import format_money

ROWS = np.array([[[0.5, 0.5], [0.25, 0.75]], [[1.0, 0.0], [1.0, 0.0]]])
COSTS = np.array([[1.0, 4.0], [6.0, 3.0]])
DEMAND = ts.Noise("demand", range(3), [0.25, 0.5, 0.25])


def shop(criterion=0.9, **paid) -> ts.MDP:
    order = ts.Decide("stock", lambda stock, order: np.minimum(stock + order, 4))
    sell = ts.Shift("stock", DEMAND, lambda demand: -demand, **paid)
    axes, name = {"stock": range(5)}, "shop"
    return ts.MDP.staged(axes, range(3), criterion, [order, sell], action_name="order", name=name)


def kept(stock, demand):
    return 1.0 * stock + 5.0 * np.maximum(demand - stock, 0)


def test_costs_are_rewards_less_a_sign_in_every_stage():
    by_cost, by_reward = shop(costs=kept), shop(pays=lambda stock, demand: -kept(stock, demand))
    assert by_cost.fingerprint == by_reward.fingerprint
    assert (by_cost.minimise, by_reward.minimise) == (True, False)
    found = ts.solve(by_cost)
    assert (found.cost == -found.value).all()
    assert (found.cost > 0).all()


def test_what_both_pays_and_costs_pays_the_difference():
    price = shop(pays=lambda demand: 2.0 * demand, costs=kept)
    net = shop(pays=lambda stock, demand: 2.0 * demand - kept(stock, demand))
    assert (price.reward == net.reward).all()
    assert not price.minimise
    walk = [ts.simulate(mdp, np.ones(5, int), 50, 0).rewards for mdp in (price, net)]
    assert (walk[0] == walk[1]).all()


@pytest.mark.parametrize(
    "build",
    [
        lambda: ts.MDP.from_arrays(ROWS, COSTS, 0.9, minimise=True),
        lambda: ts.MDP.from_arrays([sp.csr_array(r) for r in ROWS], COSTS, 0.9, minimise=True),
        lambda: ts.MDP.from_pairs(
            [0, 0, 1, 1],
            [0, 1, 0, 1],
            ROWS.transpose(1, 0, 2).reshape(4, 2),
            COSTS.ravel(),
            0.9,
            minimise=True,
        ),
        lambda: ts.MDP.from_step(
            lambda x, action: ({"x": 0 * x}, x + 2.0 * action), {"x": [0, 1]}, [0, 1], 0.9,
            minimise=True,
        ),
    ],
    ids=["dense", "sparse", "pairs", "step"],
)  # fmt: skip
def test_every_builder_takes_costs(build):
    mdp = build()
    assert mdp.minimise
    assert (mdp.reward <= 0).all()
    assert "costs" in repr(mdp)


def test_events_and_rates_may_cost():
    def queue(**paid):
        return ts.MDP.from_rates(
            {"n": range(4)},
            ["serve"],
            [
                ts.Event("arrival", 1.0, to=lambda n: {"n": np.minimum(n + 1, 3)}, **paid),
                ts.Event("service", 2.0, to=lambda n: {"n": np.maximum(n - 1, 0)}),
            ],
            ts.Average(),
            costs_rate=lambda n: 1.0 * n,
        )

    assert queue(costs=lambda n: 7.0 * (n == 3)).minimise
    assert queue().minimise
    assert not queue(pays=1.0).minimise
    # M/M/1/3 with load 1/2: p = 8, 4, 2, 1 fifteenths.
    found = ts.solve(queue(costs=lambda n: 7.0 * (n == 3)))
    clock = found.mdp.clock
    assert clock.per_time(found.cost) == pytest.approx((4 + 4 + 3 + 7) / 15, abs=1e-10)


def test_an_action_that_costs_inf_cannot_be_taken():
    costs = np.array([[1.0, np.inf], [6.0, 3.0]])
    mdp = ts.MDP.from_arrays(ROWS, costs, 0.9, minimise=True)
    assert mdp.feasible_mask.tolist() == [[True, False], [True, True]]


def test_whatever_is_printed_speaks_of_costs():
    mdp = shop(ts.Average(), costs=kept)
    found = ts.solve(mdp)
    assert f"cost of {-found.gain:.8g} per period" in repr(found)
    assert found.cost == -found.gain > 0
    assert str(ts.evaluate(mdp, found.policy)).startswith("Cost of optimal, shop: 2 per")
    mdp = shop(costs=kept)
    worth = ts.evaluate(mdp, np.ones(5, int))
    assert f"Cost of a policy, shop: mean {-worth.mean:.6g} over" in str(worth)
    assert "discounted cost: mean" in str(ts.simulate(mdp, np.ones(5, int), 5, 0))


def test_certificates_estimates_and_differences_speak_of_costs():
    mdp, table = shop(costs=kept), np.ones(5, int)
    found = ts.solve(mdp)
    made = ts.certify(found, table)
    told = " ".join(made.summary().split())
    assert f"the best possible long-run cost is {format_money(-made.optimal_mean)}" in told
    assert f"this policy costs {format_money(-made.policy_mean)}. " in told
    assert f"Its mean extra cost is {format_money(made.mean_loss)} (" in told
    assert "of the best cost)" in told
    assert "with an extra cost of" in told
    assert "the average extra cost is" in told
    assert " loss" not in told
    assert " value" not in told
    assert "No extra cost can be seen" in ts.certify(found, found.policy).summary()
    rough = ts.estimate(mdp, table, rng=0, paths=50)
    assert f"the long-run cost of the policy is {format_money(-rough.mean)}" in str(rough)
    assert rough.lower <= rough.mean <= rough.upper < 0
    beside = str(ts.estimate(mdp, table, found, rng=0, paths=50)).replace("\n", " ")
    assert 'the extra cost of the policy against "optimal" is' in beside
    dearer = ts.diff(mdp, found.policy, table)
    assert f"the new one costs {-dearer.gain:.6g} more" in str(dearer)
    assert f"  {-dearer.pairs[0][3]:+.4g}  order" in str(dearer)
    plain = shop(pays=lambda stock, demand: -kept(stock, demand))
    assert "It gives away" in ts.certify(ts.solve(plain), table).summary()
    assert "the new one is worth" in str(ts.diff(plain, found.policy.table, table))


def test_a_certificate_that_hides_that_it_is_about_costs_is_rejected(tmp_path, capsys):
    mdp = shop(costs=kept)
    mdp.save(tmp_path / "m.nc")
    made = ts.certify(ts.solve(mdp), np.ones(5, int))
    for stated, status in ((True, 0), (False, 1)):
        replace(made, minimise=stated).save(tmp_path / "c.json")
        assert check.main([str(tmp_path / "m.nc"), str(tmp_path / "c.json")]) == status
        assert ts.Certificate.load(tmp_path / "c.json").minimise is stated
    assert "minimise is True, not False as stated" in capsys.readouterr().out


def test_files_keep_that_a_model_is_stated_in_costs(tmp_path):
    for mdp in (shop(costs=kept), shop(pays=kept)):
        mdp.save(tmp_path / "m.nc")
        assert ts.MDP.load(tmp_path / "m.nc").minimise == mdp.minimise


def test_a_stage_that_neither_pays_nor_costs_is_no_pay_stage():
    with pytest.raises(ts.ModelError, match="needs what it pays, what it costs, or what it counts"):
        ts.Pay()


def test_a_cost_that_asks_for_what_there_is_not_is_named():
    with pytest.raises(ts.ModelError, match="has an unknown argument 'price'"):
        shop(costs=lambda price: price)


def test_what_stands_in_the_place_of_a_noise_is_named():
    with pytest.raises(ts.ModelError, match=r"a shift of stock needs a noise, Noise\(name"):
        ts.Shift("stock", lambda demand: -demand)
    with pytest.raises(ts.ModelError, match="a jump needs a noise"):
        ts.Jump(None, lambda stock: {"stock": stock})


@pytest.mark.parametrize(
    ("mean", "largest", "words"),
    [
        (-1, 5, "finite and not negative; got -1"),
        ([[1.0], [np.nan]], 5, "finite and not negative; got nan"),
        (2.0, -1, "a whole number, at least 0; got -1"),
        (2.0, 2.5, "a whole number, at least 0; got 2.5"),
    ],
)
def test_a_poisson_that_is_none_is_named(mean, largest, words):
    with pytest.raises(ts.ModelError, match=words):
        ts.truncated_poisson(mean, largest)
