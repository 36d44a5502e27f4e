"""Models in continuous time, by second routes: the generator, closed forms, another clock."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from support.draws import make_lookup

import tessella as ts
from tessella.mdp.stages.events import EVENT

AXES = {"x": range(4), "y": range(3)}
ACTIONS = range(3)
ALL = ["x", "y", "action"]
BETA = 0.3


class Told:
    """A random model in continuous time as tables, and the matrices that theory makes of them."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.rates = {
            "a": ("x", "action", rng.gamma(1.0, size=(4, 3))),
            "b": ("y", "action", rng.gamma(1.0, size=(3, 3)) * (rng.random((3, 3)) < 0.7)),
            "c": ("x", "y", rng.gamma(1.0, size=(4, 3)) * (rng.random((4, 3)) < 0.7)),
        }
        self.to = {name: rng.integers((4, 3), size=(4, 3, 3, 2)) for name in "abc"}
        self.lump = {"b": rng.normal(size=(4, 3, 3)), "c": rng.normal(size=(4, 3, 3))}
        self.paid = rng.normal(size=(4, 3, 3))
        self.feasible = rng.random((4, 3, 3)) < 0.7
        self.feasible[..., 1] = True

    def events(self):
        def mover(name):
            to_x, to_y = (make_lookup(ALL, self.to[name][..., i]) for i in range(2))
            return lambda **given: {"x": to_x(**given), "y": to_y(**given)}

        for name, (first, second, table) in self.rates.items():
            pays = self.lump.get(name)
            yield ts.Event(
                name,
                make_lookup([first, second], table),
                mover(name),
                None if pays is None else make_lookup(ALL, pays),
            )

    def build(self, interest=BETA, **options):
        pays = make_lookup(ALL, self.paid)
        options = {"feasible": self.feasible, "pays_rate": pays} | options
        return ts.MDP.from_rates(AXES, ACTIONS, list(self.events()), interest, **options)

    def generator(self):
        """Q (A, S, S) and r (S, A) per unit of time, one entry after the other."""
        Q, r = np.zeros((3, 12, 12)), np.zeros((12, 3))
        for x, y, a in itertools.product(range(4), range(3), range(3)):
            s, at = 3 * x + y, {"x": x, "y": y, "action": a}
            r[s, a] += self.paid[x, y, a]
            for name, (first, second, table) in self.rates.items():
                rate, (to_x, to_y) = table[at[first], at[second]], self.to[name][x, y, a]
                Q[a, s, 3 * to_x + to_y] += rate
                Q[a, s, s] -= rate
                r[s, a] += rate * self.lump[name][x, y, a] if name in self.lump else 0.0
        return Q, r


def worth(Q, r, policy):
    """(beta I - Q)^-1 r of a policy."""
    at = np.arange(len(policy))
    return np.linalg.solve(BETA * np.eye(len(at)) - Q[policy, at], r[at, policy])


def best(Q, r, feasible):
    """Policy iteration on the generator."""
    policy = feasible.argmax(axis=1)
    for _ in range(100):
        v = worth(Q, r, policy)
        ascent = np.where(feasible, r + (Q @ v).T - BETA * v[:, None], -np.inf)
        better = ascent.max(axis=1) > 1e-10
        if not better.any():
            return v, policy
        policy = np.where(better, ascent.argmax(axis=1), policy)
    raise AssertionError


@pytest.mark.parametrize("seed", range(8))
def test_a_policy_is_worth_what_the_generator_says(seed):
    told = Told(seed)
    mdp, (Q, r) = told.build(), told.generator()
    flat = told.feasible.reshape(12, 3)
    policy = np.array(
        [np.random.default_rng(s).choice(np.flatnonzero(f)) for s, f in enumerate(flat)]
    )
    found = ts.evaluate(mdp, mdp.policy(policy.reshape(4, 3)))
    np.testing.assert_allclose(found.value.ravel(), worth(Q, r, policy), atol=1e-11)


@pytest.mark.parametrize("seed", range(8))
def test_the_optimum_is_that_of_the_generator(seed):
    told = Told(seed)
    solution = ts.solve(told.build())
    value, policy = best(*told.generator(), told.feasible.reshape(12, 3))
    np.testing.assert_allclose(solution.value.ravel(), value, atol=1e-10)
    np.testing.assert_array_equal(solution.policy.table.ravel(), policy)


def test_the_value_in_continuous_time_does_not_depend_on_the_clock():
    plain = Told(3).build()
    assert plain.clock.interest == BETA
    for faster in (1.0, 1.5, 40.0):
        other = Told(3).build(clock=faster * plain.clock.rate)
        assert other.clock.rate == faster * plain.clock.rate
        a, b = ts.solve(plain), ts.solve(other)
        np.testing.assert_allclose(a.value, b.value, atol=1e-10)
        np.testing.assert_array_equal(a.policy.table, b.policy.table)


def test_bounds_enclose_the_value_in_rational_arithmetic():
    """Rates are quarters of the clock's, and the discount is 15/16: nothing is rounded there."""

    def down(x):
        return {"x": x - 1}

    mdp = ts.MDP.from_rates(
        {"x": range(4)},
        (1, 2),
        [
            ts.Event("up", lambda x: 15 / 32 * (x < 3), lambda x: {"x": x + 1}, pays=1 / 3),
            ts.Event("down", lambda x, action: 15 / 64 * action * (x > 0), down),
        ],
        0.0625,
        pays_rate=lambda x, action: -0.1 * x - 0.07 * action,
        clock=0.9375,
    )
    assert mdp.discount == 0.9375
    solution = ts.solve(mdp)
    policy = [mdp.actions[a] for a in solution.policy.table]
    exact = _rational(policy)
    error = max(abs(Fraction(v) - e) for v, e in zip(solution.value.tolist(), exact, strict=True))
    assert error <= solution.error_bound < 1e-10


def _rational(policy):
    """beta v = c + sum q (R + v' - v), solved in fractions by elimination."""
    n, beta = 4, Fraction(1, 16)
    rows = []
    for x in range(n):
        row = [Fraction(0)] * (n + 1)
        up = Fraction(15, 32) if x < 3 else Fraction(0)
        down = Fraction(15 * policy[x], 64) if x > 0 else Fraction(0)
        row[x] = beta + up + down
        if up:
            row[x + 1] -= up
        if down:
            row[x - 1] -= down
        row[n] = -Fraction(0.1) * x - Fraction(0.07) * policy[x] + up * Fraction(1 / 3)
        rows.append(row)
    for i in range(n):
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for j in range(n):
            if j != i:
                rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [row[n] for row in rows]


def queue(rate, service, servers, longest, beta):
    """Expected discounted number in an M/M/c with a long waiting room."""
    return ts.MDP.from_rates(
        {"n": range(longest + 1)},
        (0,),
        [
            ts.Event("arrival", lambda n: rate * (n < longest), lambda n: {"n": n + 1}),
            ts.Event("service", lambda n: service * np.minimum(n, servers), lambda n: {"n": n - 1}),
        ],
        beta,
        pays_rate=lambda n: n,
    )


def test_one_server_has_its_closed_form():
    """beta M_i = i + (l - m) / beta + m P_i0, P_i0 = z^i / (beta + l (1 - z)) the time at 0."""
    rate, service, beta = 0.8, 1.1, 0.5
    v = ts.solve(queue(rate, service, 1, 150, beta)).value[:30]
    z = (rate + service + beta - np.sqrt((rate + service + beta) ** 2 - 4 * rate * service)) / (
        2 * rate
    )
    i = np.arange(30)
    empty = z**i / (beta + rate * (1 - z))
    np.testing.assert_allclose(
        v, (i + (rate - service) / beta + service * empty) / beta, rtol=1e-11
    )


def test_a_server_for_everyone_has_its_closed_form():
    """E n_t = i exp(-m t) + (l / m) (1 - exp(-m t)), as in an M/M/c with c beyond every queue."""
    rate, service, beta = 3.0, 0.7, 0.2
    v = ts.solve(queue(rate, service, 80, 80, beta)).value[:20]
    i = np.arange(20)
    load = rate / service
    np.testing.assert_allclose(v, (i - load) / (beta + service) + load / beta, rtol=1e-10)


def test_a_simulated_period_pays_the_expected_reward_on_average():
    told = Told(1)
    mdp = told.build()
    (stage,) = mdp.dynamics.stages
    states = np.arange(12)
    for a in range(3):
        mean = np.zeros(12)
        for k, name in enumerate(stage.noise[1]):
            names = mdp.grid.coordinates(states) | {"action": np.full(12, ACTIONS[a])}
            paid = stage.paid.function(**names | {EVENT: np.full(12, name)})
            mean += np.broadcast_to(stage.operation.probs[a, k], (4, 3)).ravel() * paid
        allowed = told.feasible[..., a].ravel()
        np.testing.assert_allclose(mean[allowed], mdp.reward[allowed, a], atol=1e-12)
    path = ts.simulate(mdp, ts.solve(mdp), 50, rng=0, paths=20)
    assert np.isfinite(path.returns).all()


def test_a_criterion_is_taken_as_it_is_and_the_clock_reads_rewards_per_unit_of_time():
    told, criterion = Told(2), ts.Average()
    mdp = told.build(criterion)
    assert mdp.criterion is criterion
    assert mdp.clock.interest == 0.0
    _, r = told.generator()
    allowed = told.feasible.reshape(12, 3)
    np.testing.assert_allclose(mdp.clock.per_time(mdp.reward)[allowed], r[allowed], atol=1e-12)
    discounted = told.build()
    again = discounted.clock.per_time(discounted.reward)
    np.testing.assert_allclose(again[allowed], r[allowed], atol=1e-12)


def test_the_average_of_a_queue_per_unit_of_time_is_that_of_its_stationary_law():
    """M/M/2/8 that pays 1 for each customer in it: the mean number in the system."""
    arrivals, service, servers, room = 2.0, 1.5, 2, 8
    events = [
        ts.Event(
            "arrival", lambda n: arrivals * (n < room), to=lambda n: {"n": np.minimum(n + 1, room)}
        ),
        ts.Event(
            "departure",
            lambda n: service * np.minimum(n, servers),
            to=lambda n: {"n": np.maximum(n - 1, 0)},
        ),
    ]
    mdp = ts.MDP.from_rates(
        {"n": range(room + 1)}, (0,), events, ts.Average(), pays_rate=lambda n: 1.0 * n
    )
    weights = np.cumprod(
        [1.0, *(arrivals / (service * min(n, servers)) for n in range(1, room + 1))]
    )
    found = ts.solve(mdp)
    mean = (weights * np.arange(room + 1)).sum() / weights.sum()
    assert (
        abs(mdp.clock.per_time(found.gain) - mean) <= mdp.clock.per_time(found.error_bound) + 1e-12
    )


def test_the_clock_is_shown_and_kept_in_files(tmp_path):
    mdp = queue(2.0, 1.0, 3, 5, 0.5)
    assert repr(mdp) == (
        "MDP(n 6; 1 actions, discount 0.909091, 5 periods per unit of time, staged)"
    )
    mdp.save(tmp_path / "queue.nc")
    assert ts.MDP.load(tmp_path / "queue.nc").clock == ts.Clock(5.0, 0.5)
    with pytest.raises(ts.ModelError, match="another interest rate needs a new model"):
        mdp.with_discount(0.5)
    with pytest.raises(ts.ModelError, match="another interest rate needs a new model"):
        mdp.with_criterion(ts.Average())


def test_the_same_rates_are_the_same_model_whoever_wrote_the_functions():
    """What functions pay is in the arrays: they themselves, dictionaries of them too, are not."""
    told = Told(0)
    assert told.build().fingerprint == told.build().fingerprint
    assert told.build().fingerprint != told.build(interest=2 * BETA).fingerprint


def test_events_without_rewards_or_moves_are_events_too():
    ring = ts.Event("ring", 2.0, pays=3.0)
    mdp = ts.MDP.from_rates({"x": range(2)}, (0,), [ring], 0.1)
    np.testing.assert_allclose(ts.solve(mdp).value, 2.0 * 3.0 / 0.1)
    assert ts.MDP.from_rates({"x": [0]}, (0,), [ts.Event("e", 1)], 1.0).reward.tolist() == [[0.0]]


def test_the_clock_is_as_fast_as_the_busiest_pair_that_can_occur_whatever_the_others_say():
    def rate(x, action):
        return np.where((x == 0) & (action == 1), np.nan, 1.0 + 5.0 * action)

    mdp = ts.MDP.from_rates(
        {"x": range(3)},
        (0, 1),
        [
            ts.Event("rest", lambda x: 9.0 * (x == 0)),
            ts.Event("work", rate, lambda x, action: {"x": x - action}, pays=lambda x: x),
            ts.Event("reset", lambda action: 6.0 * action, lambda: {"x": 2}),
        ],
        1.0,
        feasible=lambda x, action: (x > 0) | (action == 0),
    )
    assert mdp.clock.rate == 12.0
    assert mdp.dynamics.row_sums.deviation < 1e-12


GRID = {"queue": range(4)}
UP, DOWN = (lambda queue: {"queue": queue + 1}), (lambda queue: {"queue": queue - 1})


@pytest.mark.parametrize(
    ("events", "options", "message"),
    [
        (
            [ts.Event("up", lambda queue: 2.0 - queue)],
            {},
            r"the rate of up must be finite and not negative; queue=3 is -1 \(1 of 4 rates\)",
        ),
        (
            [ts.Event("up", lambda queue, action: np.where(queue > 1, np.inf, action))],
            {},
            r"the rate of up must be finite .*; queue=2, action=0 is inf \(4 of 8 rates\)",
        ),
        ([ts.Event("up", np.nan)], {}, r"the rate of up must be finite and not negative; .*is nan"),
        ([ts.Event("up", "often")], {}, "the rate of up must be numbers; .*is 'often'"),
        (
            [ts.Event("up", 1.0, UP)],
            {},
            r"the event up leaves the grid: queue must stay on its axis; queue=3 goes to queue=4 "
            r"\(1 of 4 cases\)",
        ),
        (
            [ts.Event("up", 2.0), ts.Event("down", lambda queue: queue)],
            {"clock": 4.0},
            r"the clock must tick at least as fast as all events together; "
            r"queue=3 has rates of 5 together, the clock 4 \(1 of 4 pairs\)",
        ),
        ([ts.Event("up", 1.0)], {"clock": np.nan}, "the clock must tick at least as .*; got nan"),
        ([ts.Event("up", 1.0)], {"clock": "fast"}, "the clock must tick at least as .*; got 'fast"),
        ([ts.Event("up", 0.0)], {}, "some event must have a positive rate.*; the largest sum is 0"),
        ([ts.Event("up", 1e308), ts.Event("down", 1e308)], {}, "a finite one; .* sum is inf"),
        ([ts.Event("up", 1.0)], {"interest": 0}, "an interest rate must be .* above 0; .*; got 0"),
        ([ts.Event("up", 1.0)], {"interest": -0.1}, "an interest rate must be .*; got -0.1"),
        ([ts.Event("up", 1.0)], {"interest": np.inf}, "an interest rate must be .*; got inf"),
        ([ts.Event("up", 1.0)], {"interest": "low"}, "an interest rate must be .*; got low"),
        (
            [ts.Event("up", 1.0)],
            {"interest": 1e-20},
            "must not be negligible against the rate of the clock; 1e-20",
        ),
        (
            [ts.Event("up", 1.0)],
            {"interest": ts.Discounted(0.9)},
            "an interest rate, not a discount per period; got discount 0.9",
        ),
        (
            [ts.Event("up", 1.0, pays=lambda queue: np.log(queue))],
            {},
            r"the reward of the event up must be finite; queue=0 pays -inf \(1 of 4 rewards\)",
        ),
        (
            [ts.Event("up", 1.0)],
            {"pays_rate": lambda queue: queue * np.nan},
            "the reward per unit of time must be finite; queue=0 pays nan",
        ),
        (
            [ts.Event("up", 1e10, pays=lambda queue: 1e308 * (queue > 0))],
            {},
            r"expected reward of a period must be finite; queue=1 is inf \(3 of 4 rewards\)",
        ),
        ([ts.Event("up", 1.0), ts.Event("up", 2.0)], {}, "different names; up occurs 2 times"),
        ([ts.Event("nothing", 1.0)], {}, "a name of its own, other than 'nothing'; got 'nothing'"),
        ([], {}, "needs at least one event"),
        (0.1, {}, "a model in continuous time needs a list of events; got 0.1"),
        ([1.0], {}, r"events must be Event\(name, rate, \.\.\.\); got 1.0"),
        ([ts.Event("up", 1.0)], {"action_name": "event"}, "neither axis nor action .* 'event'"),
        ([ts.Event("up", 1.0, lambda queue: queue)], {}, "the event up must return a mapping"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.filterwarnings("ignore:overflow")
def test_faulty_rates_are_refused_with_place_and_value(events, options, message):
    interest = options.pop("interest", 0.1)
    with pytest.raises(ts.ModelError, match=message):
        ts.MDP.from_rates(GRID, (0, 1), events, interest, **options)


def test_an_event_may_point_anywhere_where_its_rate_is_0():
    served = ts.Event("down", lambda queue: 1.0 * (queue > 0), DOWN)
    assert ts.MDP.from_rates(GRID, (0,), [served], 0.1).n_states == 4
