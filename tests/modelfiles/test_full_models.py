"""A model told in a file is the model that the same story gives in Python."""

from __future__ import annotations

import json
import pickle
import tomllib
from pathlib import Path

import numpy as np
import pytest
from support.schemas import find_faults

import tessella as ts
from tessella.mdp.describe import describe_events
from tessella.modelfiles.schema import published_schema

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples" / "models").glob("*.toml"))
ROUNDED = {"battery_arbitrage", "seat_revenue"}  # told by other formulas, the same but for rounding


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_problems_told_in_full_are_those_of_the_zoo(path):
    told, built = ts.read_model(path), ts.problem(path.stem).build()
    assert told.name == path.stem
    assert (told.fingerprint == built.fingerprint) == (path.stem not in ROUNDED)
    assert told.grid == built.grid
    assert told.actions == built.actions
    assert told.criterion == built.criterion
    np.testing.assert_array_equal(told.feasible_mask, built.feasible_mask)
    possible = told.feasible_mask
    np.testing.assert_allclose(told.reward[possible], built.reward[possible], rtol=0, atol=1e-12)
    for action in range(told.n_actions):
        rows = np.flatnonzero(possible[:, action])
        mine, theirs = (mdp.dynamics.to_sparse()[action][rows] for mdp in (told, built))
        assert abs(mine - theirs).max() < 1e-15


STORY = """
name = "shop"
start = { stock = 0, season = "low" }
feasible = "stock + order <= 6"

[parameters]
price = 4.0
sizes = [0, 2, 3]

[axes]
stock = { from = 0, to = 6 }
season = ["low", "high"]

[actions]
name = "order"
values = "sizes"

[criterion]
kind = "discounted"
discount = 0.9

[tables.mean]
by = ["season"]
values = [0.5, 2.5]

[terms]
sold = "min(stock, demand)"

[distributions.demand]
kind = "poisson"
mean = "mean[season]"
largest = 4

[[stages]]
kind = "decide"
axis = "stock"
to = "stock + order"
costs = "order + 0.5 * (order > 0)"

[[stages]]
kind = "shift"
axis = "stock"
noise = "demand"
by = "-demand"
pays = "price * sold"
costs = "0.1 * (stock - sold)"

[[stages]]
kind = "move"
axis = "season"
matrix = [[0.8, 0.2], [0.3, 0.7]]
"""


def shop(price=4.0, sizes=(0, 2, 3)):
    def mean(season):
        return np.where(season == "high", 2.5, 0.5)

    return ts.MDP.staged(
        {"stock": range(7), "season": ["low", "high"]},
        sizes,
        0.9,
        [
            ts.Decide(
                "stock",
                to=lambda stock, order: stock + order,
                costs=lambda order: order + 0.5 * (order > 0),
            ),
            ts.Shift(
                "stock",
                ts.Noise("demand", range(5), lambda season: ts.truncated_poisson(mean(season), 4)),
                by=lambda demand: -demand,
                pays=lambda stock, demand: price * np.minimum(stock, demand),
                costs=lambda stock, demand: 0.1 * (stock - np.minimum(stock, demand)),
            ),
            ts.Move("season", [[0.8, 0.2], [0.3, 0.7]]),
        ],
        feasible=lambda stock, order: stock + order <= 6,
        action_name="order",
    ).with_start({"stock": 0, "season": "low"})


def test_a_story_with_tables_terms_text_and_infeasible_actions_is_the_same_in_python(file):
    told = ts.read_model(file(STORY))
    assert told.fingerprint == shop().fingerprint
    assert told.name == "shop"
    assert told.parameters == {"price": 4.0, "sizes": [0, 2, 3]}


def test_settings_take_the_place_of_parameters_of_the_file(file):
    path = file(STORY)
    for settings in ({"price": 5, "sizes": [0, 1]}, {"price": "5.0", "sizes": " 0, 1 "}):
        assert ts.read_model(path, settings).fingerprint == shop(5.0, (0, 1)).fingerprint
    with pytest.raises(ts.ArgumentError, match=r"no parameter 'prize'; did you mean 'price'\?"):
        ts.read_model(path, {"prize": 5})
    for wrong in ("dear", float("nan"), True, None, "1e999"):
        with pytest.raises(ts.ArgumentError, match="price must be a number, as in the file; got"):
            ts.read_model(path, {"price": wrong})


def test_a_model_from_a_file_travels_between_processes(file):
    told = ts.read_model(file(STORY))
    again = pickle.loads(pickle.dumps(told))
    assert again.fingerprint == told.fingerprint
    policy = np.zeros(told.n_states, dtype=int)
    paths = [ts.simulate(mdp, policy, 20, rng=3) for mdp in (told, again)]
    np.testing.assert_array_equal(paths[0].returns, paths[1].returns)


def test_a_simulation_pays_what_the_expressions_say(file):
    told, mine = ts.read_model(file(STORY)), shop()
    policy = np.zeros(told.n_states, dtype=int)
    paths = [ts.simulate(mdp, policy, 20, rng=3, paths=5) for mdp in (told, mine)]
    np.testing.assert_array_equal(paths[0].returns, paths[1].returns)


def test_every_file_that_is_read_fits_the_published_schema():
    texts = [path.read_text() for path in EXAMPLES] + [STORY, ts.write_model("perishable")]
    for text in texts:
        assert find_faults(tomllib.loads(text), "model.schema.json") == []
    for wrong in ("problem = 3", "axes = 3", STORY.replace("axis =", "axs ="), STORY + "x = 1"):
        assert find_faults(tomllib.loads(wrong), "model.schema.json") != []
    beyond = 'problem = "perishable"\n[parameters]\nlife = 7'
    assert find_faults(tomllib.loads(beyond), "model.schema.json") != []


def test_the_published_schema_is_that_of_the_code():
    """To write it anew: python -m tessella.modelfiles.schema > docs/model.schema.json"""
    text = json.dumps(published_schema(), indent=1) + "\n"
    assert (ROOT / "docs" / "model.schema.json").read_text() == text


MORE = """
[axes]
stock = { from = 0, to = 4 }
[scratch]
delivery = [0, 1, 2]
[actions]
name = "order"
components = { fast = [0, 1], slow = { from = 0, to = 1 } }
[criterion]
kind = "horizon"
periods = 3
discount = 0.5
final = "2 * stock"
[distributions.part]
kind = "values"
values = [0, 1, 2]
probabilities = ["1 - fast / 2", "fast / 2 * (time == 0)", "fast / 2 * (time > 0)"]
[[stages]]
kind = "shift"
axis = "delivery"
noise = "part"
[[stages]]
kind = "decide"
axis = "stock"
to = "stock + delivery + slow"
edge = "clip"
pays = "-fast - time"
"""


def test_scratch_axes_components_and_a_horizon_are_told_as_in_python(file):
    def part(fast, time):
        one = [1 - fast / 2, fast / 2 * (time == 0), fast / 2 * (time > 0)]
        return np.concatenate(np.broadcast_arrays(*one), axis=-1)

    mine = ts.MDP.staged(
        {"stock": range(5)},
        {"fast": range(2), "slow": range(2)},
        ts.FiniteHorizon(3, 0.5, lambda stock: 2.0 * stock),
        [
            ts.Shift("delivery", ts.Noise("part", range(3), part)),
            ts.Decide(
                "stock",
                to=lambda stock, delivery, slow: stock + delivery + slow,
                edge="clip",
                pays=lambda fast, time: -fast - time,
            ),
        ],
        scratch={"delivery": range(3)},
        action_name="order",
    )
    assert ts.read_model(file(MORE)).fingerprint == mine.fingerprint


CHAIN = """
[axes]
level = { from = 0, to = 1, step = 0.25 }
[actions]
values = ["slow", "fast"]
[criterion]
kind = "total"
[[stages]]
kind = "move"
axis = "level"
matrix = "where(action == 'fast', next == 0, where(level == 0, next == 0, (next == level - 0.25)))"
costs = "level > 0"
"""


def test_a_chain_is_an_expression_of_its_axis_and_of_what_comes_next(file):
    told = ts.read_model(file(CHAIN))
    assert told.minimise
    np.testing.assert_array_equal(told.grid.values[0], [0, 0.25, 0.5, 0.75, 1])
    slow, fast = told.to_arrays().transition
    np.testing.assert_array_equal(slow, np.eye(5, k=-1) + np.diag([1.0, 0, 0, 0, 0]))
    np.testing.assert_array_equal(fast, np.tile([1.0, 0, 0, 0, 0], (5, 1)))


@pytest.mark.parametrize(
    ("told", "values"),
    [
        ("{ from = 1, to = 7, step = 3 }", [1, 4, 7]),
        ("{ from = 3, to = 1, step = -1 }", [3, 2, 1]),
        ("{ from = 0, to = 0 }", [0]),
        ("{ from = 0, to = 1, points = 3 }", [0.0, 0.5, 1.0]),
        ("[0.5, 3, -1]", [0.5, 3.0, -1.0]),
    ],
)
def test_values_of_an_axis_are_a_list_or_a_range(told, values, file):
    text = STORY.replace("{ from = 0, to = 6 }", "[0]").replace("[0, 2, 3]", "[0]")
    text = text.replace("[axes]", f"[axes]\nextra = {told}")
    found = ts.read_model(file(text)).grid.values[0]
    assert found.tolist() == values
    assert found.dtype == np.asarray(values).dtype


JUMPS = """
[axes]
{axis} = [0, 1, 2]
[actions]
name = "{action}"
values = [0, 1]
[criterion]
kind = "average"
[[stages]]
kind = "jump"
to = {{ {axis} = "min({axis} + {action}, 2)" }}
pays = "{axis}"
"""


@pytest.mark.parametrize("names", [("end", "go"), ("x", "end"), ("x", "go")])
def test_a_jump_without_noise_takes_no_name_from_the_user(names, file):
    mdp = ts.read_model(file(JUMPS.format(axis=names[0], action=names[1])))
    np.testing.assert_array_equal(mdp.dynamics.to_sparse()[1].toarray(), np.eye(3)[[1, 2, 2]])
    assert describe_events(mdp) == [
        f"{names[0]} gets a new value, from {names[0]} and {names[1]}; it pays"
    ]
