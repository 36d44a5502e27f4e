"""A problem is a record: what may be set is checked by name, kind and range, and builds a model."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import tessella as ts
from tessella.errors import ArgumentError
from tessella.problems import registry
from tessella.problems.problem import integer


def walk(size: int, drift: float, moves: list[int], start: str, discount: float) -> ts.MDP:
    """Stay, or step up with a chance; the numbers decide everything."""
    stay, up = np.eye(size), (1 - drift) * np.eye(size) + drift * np.eye(size, k=1)
    up[-1, -1] = 1.0
    reward = np.outer(np.arange(size), [1.0, 0.5]) + (start == "high")
    return ts.MDP.from_arrays([stay, up], reward, discount, grid={"x": range(size)})


WALK = ts.Problem(
    "walk",
    "A walk with drift",
    walk,
    parameters=(
        ts.Integer("size", 5, "states", low=2),
        ts.Number("drift", 0.5, "chance of a step", low=0, high=1),
        ts.Numbers("moves", (0.5, 1), "not used", above=0),
        ts.Choice("start", "low", "where", ("low", "high")),
        ts.Number("discount", 0.9, "worth of the next period", low=0, below=1),
    ),
    observation_noise=0.3,
)


@pytest.fixture
def known(monkeypatch):
    """What a test registers is forgotten after it."""
    monkeypatch.setattr(registry, "_registered", {})


def test_settings_are_all_of_them_plain_and_checked():
    given = WALK.settings(size=np.int64(7), drift=1, moves=range(1, 4))
    assert given == {
        "size": 7,
        "drift": 1.0,
        "moves": [1.0, 2.0, 3.0],
        "start": "low",
        "discount": 0.9,
        "observation_noise": 0.3,
    }
    assert json.loads(json.dumps(given)) == given
    kinds = [type(value) for value in given.values()]
    assert kinds == [int, float, list, str, float, float]


def test_a_builder_may_state_its_parameters_as_the_defaults_of_its_arguments():
    size = integer(3, "states", low=1)

    def build(size: int = size, slope: float = 1.0) -> ts.MDP:
        return ts.MDP.from_arrays([np.eye(size)], slope * np.ones((size, 1)), 0.9)

    line = ts.Problem("line", "A line", build)
    assert line.parameters == (ts.Integer("size", 3, "states", low=1),)
    assert line.build(size=4).n_states == 4


def test_a_model_knows_its_settings_and_the_noise_stands_beside_them():
    mdp = WALK.build(size=3, observation_noise=0.1)
    assert (mdp.name, mdp.n_states, mdp.discount) == ("walk", 3, 0.9)
    assert mdp.parameters == {
        "size": 3,
        "drift": 0.5,
        "moves": [0.5, 1.0],
        "start": "low",
        "discount": 0.9,
    }
    assert mdp.observation_noise == 0.1
    assert WALK(size=3, name="short").name == "short"


def test_the_noise_decides_samples_and_nothing_of_the_model():
    clear, noisy = WALK.build(observation_noise=0), WALK.build(observation_noise=0.4)
    assert clear.fingerprint == noisy.fingerprint
    assert clear.content_hash != WALK.build(size=6).content_hash
    points = [ts.draw(ts.solve(mdp), 50, rng=0).points for mdp in (clear, noisy)]
    assert np.array_equal(points[0], np.rint(points[0]))
    said = ts.draw(ts.solve(clear), 50, noise=0.4, rng=0).points
    np.testing.assert_array_equal(points[1], said)
    other = clear.with_observation_noise(0.4)
    np.testing.assert_array_equal(ts.draw(ts.solve(other), 50, rng=0).points, said)


@pytest.mark.parametrize("noise", [0.0, 0.3, (0.1,)])
def test_the_noise_travels_with_a_saved_model(tmp_path, noise):
    WALK.build().with_observation_noise(noise).save(tmp_path / "model.nc")
    assert np.array_equal(ts.MDP.load(tmp_path / "model.nc").observation_noise, noise)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sise": 3}, "walk has no parameter 'sise'; did you mean 'size'"),
        ({"x": 3}, "walk has no parameter 'x'; there are size, drift, moves, start, disc"),
        ({"size": 1}, "size must be a whole number at least 2; walk got 1"),
        ({"size": 2.5}, "size must be a whole number at least 2; walk got 2.5"),
        ({"size": True}, "size must be a whole number at least 2; walk got True"),
        ({"drift": 1.5}, "drift must be a number from 0 to 1; walk got 1.5"),
        ({"drift": float("nan")}, "drift must be a number from 0 to 1; walk got nan"),
        ({"drift": "half"}, "drift must be a number from 0 to 1; walk got 'half'"),
        ({"drift": None}, "drift must be a number from 0 to 1; walk got None"),
        ({"moves": (1, 0)}, r"moves must be a list of numbers, each above 0; walk got \(1, 0\)"),
        ({"moves": "12"}, "moves must be a list of numbers, each above 0; walk got '12'"),
        ({"moves": ()}, r"moves must be a list of numbers, each above 0; walk got \(\)"),
        ({"moves": 3}, "moves must be a list of numbers, each above 0; walk got 3"),
        ({"start": "middle"}, "start must be one of low, high; walk got 'middle'"),
        ({"start": ["low"]}, r"start must be one of low, high; walk got \['low'\]"),
        ({"discount": 1}, "discount must be a number at least 0 and below 1; walk got 1"),
        ({"observation_noise": -1}, "observation_noise must be a number from 0 to 100; walk"),
    ],
)
def test_what_is_out_of_range_is_refused_with_parameter_range_and_value(settings, message):
    with pytest.raises(ArgumentError, match=message):
        WALK.build(**settings)


NUMERIC = [
    (problem, parameter)
    for problem in ts.all_problems()
    for parameter in problem.settable
    if not isinstance(parameter, ts.Choice)
]


@pytest.mark.parametrize(
    ("problem", "parameter"), NUMERIC, ids=lambda part: getattr(part, "name", "")
)
def test_a_slider_can_be_drawn_for_every_number_of_our_own_problems(problem, parameter):
    lowest = parameter.low if parameter.low is not None else parameter.above
    highest = parameter.high if parameter.high is not None else parameter.below
    assert lowest < highest < float("inf")
    for beyond in (lowest - 1, highest + 1):
        wrong = [int(beyond)] if isinstance(parameter, ts.Integers) else beyond
        with pytest.raises(ArgumentError, match=f"{parameter.name} must be .*; {problem.name} got"):
            problem.settings(**{parameter.name: wrong})


@pytest.mark.parametrize("name", ["unit_cost", "fixed_cost", "holding_cost", "shortage_cost"])
def test_a_cost_below_zero_is_refused(name):
    with pytest.raises(ArgumentError, match=f"{name} must be a number from 0 to 1000000; inv.* -5"):
        ts.inventory(**{name: -5})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": ""}, "a problem needs a name"),
        ({"observation_noise": -0.1}, "observation_noise must be a number from 0 to 100"),
        (
            {"parameters": (ts.Number("x", 2.0, high=1),)},
            "x must be a number at most 1; walk got 2",
        ),
        ({"parameters": (ts.Number("x", 1.0), ts.Integer("x", 1))}, "names of their own.*has 'x'"),
        ({"parameters": (ts.Number("name", 1.0),)}, "other than name and edition; walk has 'name'"),
        ({"parameters": (ts.Number("observation_noise", 1.0),)}, "has 'observation_noise'"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(change, message):
    with pytest.raises(ArgumentError, match=message):
        replace(WALK, **change)


def test_a_variant_has_other_defaults_and_the_same_family():
    steep = WALK.variant("steep", "A steep walk", drift=0.9, observation_noise=0.0)
    assert (steep.family, steep.name, steep.title) == ("walk", "steep", "A steep walk")
    assert steep.build().fingerprint == WALK.build(drift=0.9).fingerprint
    assert steep.build().observation_noise == 0
    assert WALK.settings()["drift"] == 0.5
    assert steep.variant("long", size=50).settings()["drift"] == 0.9


def test_an_edition_enters_the_identity_from_the_second_on():
    assert WALK.identity() == WALK.settings()
    assert replace(WALK, edition=2).identity() == WALK.settings() | {"edition": 2}


def test_the_registry_lists_ours_and_what_was_registered(known):
    ours = [problem.name for problem in ts.all_problems()]
    assert ours == [
        "inventory",
        "queue_admission",
        *ts.BENCHMARKS,
        *(p.name for p in registry.PUBLISHED_PROBLEMS),
    ]
    assert ts.register(WALK) is WALK
    assert ts.all_problems()[-1] is WALK
    assert ts.problem("walk") is WALK
    assert ts.problem("Inventory-Mixed-0.45") is ts.problem("INV-Mix")
    assert ts.problem("inv-mix") is ts.problem("INV-Mix")
    ts.register(WALK.variant("Walk"))
    assert ts.problem("walk") is WALK
    with pytest.raises(ArgumentError, match="'WALK'; did you mean"):
        ts.problem("WALK")


def test_a_problem_may_be_registered_again_and_the_packages_own_may_not_be_taken(known):
    ts.register(WALK)
    later = ts.register(WALK.variant("walk", size=9))
    assert ts.problem("walk") is later
    assert ts.register(ts.inventory) is ts.inventory
    for name in ("INV-Mix", "inventory", "Queue-Mixed-0.25"):
        with pytest.raises(ArgumentError, match=f"keeps its name; '{name}' is taken"):
            ts.register(WALK.variant(name))
    with pytest.raises(ArgumentError, match="register needs a Problem; got a function"):
        ts.register(walk)  # type: ignore[arg-type]


def test_a_benchmark_is_its_family_with_other_settings():
    for label, known in ts.BENCHMARKS.items():
        family = {"inventory": ts.inventory, "queue": ts.queue_admission}[known.family]
        assert family.build(**known.settings()).fingerprint == known.build().fingerprint
        assert known.build().name == label


def test_a_record_prints_what_may_be_set_and_what_theory_says():
    text = str(ts.problem("INV-Hard"))
    assert text.startswith("INV-Hard: Inventory control, a hard mix of demand\n")
    assert "  strength           1.2 " in text
    assert text.endswith(
        "(s, S) in stock: order from s down, up to S as far as lots allow (Scarf 1960)"
    )


def test_a_problem_whose_function_fails_says_which_and_how():
    def make():
        return {}["a"]

    with pytest.raises(ts.ModelError, match=r"the problem broken could not be built .* KeyError"):
        ts.Problem("broken", "fails", make).build()


def test_a_coordinate_is_explained_by_its_name_or_by_that_of_its_family():
    shelf = replace(WALK, axes={"x": "where it stands", "due#": "units, number # to arrive"})
    said = [shelf.coordinate(axis) for axis in ("x", "due2", "due12", "due", "y1")]
    assert said == [
        "where it stands",
        "units, number 2 to arrive",
        "units, number 12 to arrive",
        "",
        "",
    ]


@pytest.mark.parametrize(
    "axes", [[("x", "y")], {"x": 3}, {"": "where"}, {0: "where"}, "x", None], ids=repr
)
def test_axes_that_explain_nothing_are_refused_at_once(axes):
    with pytest.raises(ts.ArgumentError, match=r"axes maps names of axes to .* walk"):
        replace(WALK, axes=axes)


@pytest.mark.parametrize("known", registry.all_problems(), ids=lambda known: known.name)
def test_every_axis_of_the_packages_own_problems_is_explained(known):
    longer = {p.name: 3 for p in known.parameters if p.name in ("lead_time", "life")}
    axes = known.build(**longer).grid.axes
    assert all(known.coordinate(axis) for axis in axes), axes
    unused = [
        name
        for name in known.axes
        if not any(known.coordinate(a) and name.rstrip("#") in a for a in axes)
    ]
    assert not unused


def wide_problem(stages, criterion=0.9):
    """A problem of a million states and a thousand actions, with these stages."""

    def build() -> ts.MDP:
        return ts.MDP.staged({"x": range(1000), "y": range(1000)}, range(1000), criterion, stages)

    return ts.Problem("wide", "Too large", build)


def never(**given):
    """Fails the test when it is called on whole axes."""
    assert all(array.size <= 2 for array in given.values())
    return sum(given.values()) * 0.0


TOO_LARGE = {
    "a reward": [ts.Pay(lambda x, y, action: never(x=x, y=y, action=action))],
    "a target": [ts.Decide("x", to=lambda x, y, action: never(x=x, y=y, action=action))],
    "a law": [
        ts.Shift(
            "x",
            ts.Noise("w", range(1000), lambda x, y: never(x=x, y=y) + np.full(1000, 1e-3)),
            by=lambda w: 0 * w,
        )
    ],
}


@pytest.mark.parametrize("stages", TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_problem_that_would_work_out_too_many_numbers_is_rejected_before_it_does(stages):
    with pytest.raises(ts.ModelError, match=r"at most 200,000,000 numbers .* 1,000,000,000;"):
        wide_problem(stages).build()


def test_a_function_that_depends_on_few_of_the_axes_it_names_is_counted_by_what_it_returns():
    wide = wide_problem([ts.Pay(lambda x, y, action: 0.0 * x)])
    assert wide.build().n_states == 1_000_000


def test_numbers_of_periods_that_time_changes_are_counted_for_all_periods():
    periods = []

    def pays(time, x):
        periods.extend([int(time.flat[0])] if x.size > 2 else [])
        return 0.0 * x + time

    def build(length: int) -> ts.MDP:
        horizon = ts.FiniteHorizon(length)
        return ts.MDP.staged({"x": range(10_000)}, range(2), horizon, [ts.Pay(pays)])

    long = ts.Problem("long", "A long horizon", build, (ts.Integer("length", 3),))
    with pytest.raises(ts.ModelError, match="at most 200,000,000 numbers"):
        long.build(length=100_000)
    assert periods == [0]  # the second is not begun
    assert long.build().grid.shape == (3, 10_000)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("inventory", {"max_stock": 10**6, "max_regime": 10**6, "max_demand": 10**6}),
        ("lost_sales", {"lead_time": 8, "slack": 100}),
        ("dual_sourcing", {"lead_time": 5, "max_demand": 50, "max_stock": 200, "max_order": 50}),
        ("perishable", {"life": 6, "lead_time": 6, "max_order": 100}),
        ("two_products", {"life": 4, "max_order_a": 30, "max_order_b": 30, "max_demand": 1000}),
        ("hydro_reservoir", {"cuts": 100_000, "releases": 1000}),
        ("maintenance", {"max_wear": 100_000, "max_load": 10_000}),
    ],
)
def test_a_problem_of_the_package_with_huge_settings_is_rejected_with_the_limit(name, settings):
    with pytest.raises(
        ts.ModelError,
        match=r"at most (200,000,000 numbers .* smaller settings|100,000,000,000 states)",
    ):
        ts.problem(name).build(**settings)


def test_a_model_of_too_many_states_is_refused_before_anything_is_built():
    with pytest.raises(ts.ModelError, match=r"at most 100,000,000,000 states.*285,311,670,611"):
        ts.problem("perishable").build(life=6, lead_time=6)


def test_a_problem_in_place_of_its_model_is_answered_with_build():
    with pytest.raises(ArgumentError, match=r"solve needs an MDP; got a Problem; its method build"):
        ts.solve(WALK)  # type: ignore[arg-type]
