"""Counts, measures and constraints of a file are those of the same model in Python."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest
from support.schemas import find_faults

import tessella as ts

SHOP = """\
[parameters]
most = 6
level = 0.9

[axes]
stock = { from = 0, to = "most" }

[actions]
name = "order"
values = [0, 2, 3]

[criterion]
kind = "discounted"
discount = 0.9

[measures]
fill_rate = "1 - lost / demand"

[constraints]
fill_rate = { at_least = "level" }
orders = { at_most = 9.5 }

[distributions.demand]
kind = "poisson"
mean = 1.5
largest = 4

[[stages]]
kind = "decide"
axis = "stock"
to = "min(stock + order, most)"
costs = "order + 0.5 * (order > 0)"
counts = { orders = "order > 0", days = 1 }

[[stages]]
kind = "shift"
axis = "stock"
noise = "demand"
by = "-demand"
costs = "0.1 * stock"
counts = { demand = "demand", lost = "max(demand - stock, 0)" }
"""

QUEUE = """\
pays_rate = "-0.5 * present"
counts_rate = { waiting = "max(present - 1, 0)" }

[axes]
present = { from = 0, to = 8 }

[actions]
name = "admit"
values = [0, 1]

[criterion]
kind = "average"

[measures]
rejected_share = "1 - admitted / arrived"

[constraints]
rejected_share = { at_most = 0.1 }

[[events]]
name = "arrival"
rate = 0.9
to = { present = "present + admit * (present < 8)" }
pays = "4 * admit * (present < 8)"
counts = { arrived = 1, admitted = "admit * (present < 8)" }

[[events]]
name = "service"
rate = "present > 0"
to = { present = "max(present - 1, 0)" }
"""


def build_shop() -> ts.MDP:
    demand = ts.Noise("demand", range(5), ts.truncated_poisson(1.5, 4))
    return ts.MDP.staged(
        {"stock": range(7)},
        (0, 2, 3),
        0.9,
        [
            ts.Decide(
                "stock",
                to=lambda stock, order: np.minimum(stock + order, 6),
                costs=lambda order: order + 0.5 * (order > 0),
                counts={"orders": lambda order: order > 0, "days": 1},
            ),
            ts.Shift(
                "stock",
                demand,
                by=lambda demand: -demand,
                costs=lambda stock: 0.1 * stock,
                counts={
                    "demand": lambda demand: demand,
                    "lost": lambda stock, demand: np.maximum(demand - stock, 0),
                },
            ),
        ],
        action_name="order",
    ).with_measures(fill_rate="1 - lost / demand")


def build_queue() -> ts.MDP:
    def enters(present, admit):
        return admit * (present < 8)

    arrival = ts.Event(
        "arrival",
        0.9,
        to=lambda present, admit: {"present": present + enters(present, admit)},
        pays=lambda present, admit: 4 * enters(present, admit),
        counts={"arrived": 1, "admitted": enters},
    )
    service = ts.Event(
        "service",
        lambda present: 1.0 * (present > 0),
        to=lambda present: {"present": np.maximum(present - 1, 0)},
    )
    return ts.MDP.from_rates(
        {"present": range(9)},
        (0, 1),
        [arrival, service],
        ts.Average(),
        pays_rate=lambda present: -0.5 * present,
        counts_rate={"waiting": lambda present: np.maximum(present - 1, 0)},
        action_name="admit",
    ).with_measures(rejected_share="1 - admitted / arrived")


@pytest.mark.parametrize(
    ("text", "built", "asked"),
    [
        (SHOP, build_shop(), {"fill_rate": ts.AtLeast(0.9), "orders": ts.AtMost(9.5)}),
        (QUEUE, build_queue(), {"rejected_share": ts.AtMost(0.1)}),
    ],
    ids=["stages", "events"],
)
def test_a_file_gives_the_solution_that_python_gives(text, built, asked, file):
    told = ts.read_model(file(text))
    assert told.fingerprint == built.fingerprint
    assert told.measures == built.measures
    assert told.constraints == asked
    mine, theirs = (ts.solve(mdp, subject_to=asked) for mdp in (told, built))
    assert (mine.low, mine.high) == (theirs.low, theirs.high)
    assert mine.measures == theirs.measures
    for name, constraint in asked.items():
        found = mine.measures[name]
        assert found is not None
        assert constraint.sign * (found.value - constraint.level) >= -found.error_bound
    assert any(one.is_binding for one in mine.constraints)


def test_another_level_is_a_parameter(file):
    told = ts.read_model(file(SHOP), {"level": "0.8"})
    assert told.constraints["fill_rate"] == ts.AtLeast(0.8)


def test_a_file_that_names_a_problem_bounds_its_measures(file):
    text = """
        problem = "inventory"
        [measures]
        lost_share = "lost / demand"
        [constraints]
        fill_rate = { at_least = 0.9 }
        lost_share = { at_most = 0.2 }
    """
    told = ts.read_model(file(text))
    assert set(told.measures) == {"demand", "lost", "fill_rate", "lost_share"}
    assert told.constraints == {"fill_rate": ts.AtLeast(0.9), "lost_share": ts.AtMost(0.2)}
    assert told.fingerprint == ts.inventory.build().fingerprint


def test_the_example_counts_what_the_problem_counts():
    from modelfiles.test_full_models import ROOT

    told = ts.read_model(ROOT / "examples" / "models" / "inventory.toml")
    built = ts.inventory.build()
    assert told.measures == built.measures
    policy = np.ones(told.n_states, dtype=int)
    assert ts.evaluate(told, policy).measures == ts.evaluate(built, policy).measures


def test_a_horizon_keeps_measures_and_constraints(file):
    told = ts.read_model(file(SHOP)).with_criterion(ts.FiniteHorizon(3))
    assert "fill_rate" in told.measures
    assert set(told.constraints) == {"fill_rate", "orders"}


@pytest.mark.parametrize("text", [SHOP, QUEUE])
def test_what_is_read_fits_the_published_schema(text):
    assert find_faults(tomllib.loads(text), "model.schema.json") == []
    assert find_faults(tomllib.loads(text.replace("at_m", "m")), "model.schema.json") != []


COUNTS = "counts (days, demand, lost, orders)"
MISTAKES = {
    "an unknown count": (
        ('"1 - lost / demand"', '"1 - lst / demand"'),
        f"17: a measure is written with {COUNTS}, reward, cost, numbers, + - * / and brackets; "
        "1 - lst / demand got 'lst'",
    ),
    "a product of counts": (
        ('"1 - lost / demand"', '"lost * demand"'),
        "17: a measure is a weighted sum of counts or a ratio of two such sums; "
        "lost * demand is neither",
    ),
    "half an expression": (
        ('"1 - lost / demand"', '"1 - lost /"'),
        "17: a measure is an expression such as 1 - lost / demand; got '1 - lost /'",
    ),
    "no expression": (
        ('"1 - lost / demand"', "3"),
        "17: measures, fill_rate must be an expression in quotes; got 3",
    ),
    "the name of a count": (
        ('fill_rate = "1', 'lost = "1'),
        "17: a measure needs a name of its own; 'lost' is a count\n"
        "20: unknown measure 'fill_rate'; there are lost, days, demand, orders",
    ),
    "the name of the objective": (
        ("days = 1", "cost = 1"),
        "33: a measure needs a name like 'lost', other than 'reward' and 'cost'; got 'cost'",
    ),
    "an unknown measure": (
        ("fill_rate = {", "fil_rate = {"),
        "20: unknown measure 'fil_rate'; did you mean 'fill_rate'?",
    ),
    "a level that names nothing": (
        ('"level"', '"levle"'),
        "20: at_least: unknown name 'levle'; did you mean 'level'? (character 1)",
    ),
    "a level that is no number": (
        ('"level"', "true"),
        "20: constraints, fill_rate, at_least must be a number, or an expression in quotes; "
        "got True",
    ),
    "a level that is not finite": (
        ('"level"', '"1 / 0"'),
        "20: at_least must be finite; it is inf",
    ),
    "two levels": (
        ("at_most = 9.5", "at_most = 9.5, at_least = 3"),
        "21: a constraint has 'at_least' or 'at_most'; orders has 2 of them",
    ),
    "an unknown bound": (
        ("at_most = 9.5", "most = 9.5"),
        "21: unknown key 'most' in a constraint such as { at_least = 0.98 }; "
        "did you mean 'at_most'?",
    ),
    "a bare level": (
        ("{ at_most = 9.5 }", "9.5"),
        "21: constraints, orders must be a constraint such as { at_least = 0.98 }; got 9.5",
    ),
    "an unknown name in a count": (
        ('"max(demand - stock, 0)"', '"max(demnd - stock, 0)"'),
        "41: lost: unknown name 'demnd'; did you mean 'demand'? (character 5)",
    ),
    "counts without names": (
        ('{ orders = "order > 0", days = 1 }', '"order"'),
        "17: a measure is written with counts (demand, lost), reward, cost, numbers, + - * / and "
        "brackets; orders got 'orders'\n"
        "21: unknown measure 'orders'; there are fill_rate, demand, lost\n"
        "33: stages 1, counts must be a table of counts; got 'order'",
    ),
    "a count that is not finite": (
        ('"order > 0", days', '"1 / (stock - 3)", days'),
        "28: the count 'orders' of deciding stock must be finite; stock=3 pays inf "
        "(1 of 7 rewards)",
    ),
    "a stage that does nothing": (
        ('kind = "shift"', 'kind = "pay"\n\n[[stages]]\nkind = "shift"'),
        "35: a stage of kind 'pay' needs 'pays', 'costs' or 'counts'",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_reported_with_its_line(name, file, mistakes):
    (old, new), told = MISTAKES[name]
    assert SHOP.count(old) == 1
    text = SHOP.replace(old, new)
    if name == "counts without names":
        text = text.replace('"1 - lost / demand"', '"orders"')
    assert mistakes(file(text)) == told.splitlines()


def test_a_bad_rate_of_a_count_is_reported_with_its_line(file, mistakes):
    text = QUEUE.replace("max(present - 1, 0)", "1 / present", 1)
    told = "2: the count 'waiting' per unit of time must be finite; present=0 pays inf "
    told += "(1 of 9 rewards)"
    assert mistakes(file(text)) == [told]
    text = QUEUE.replace("max(present - 1, 0)", "max(presnt, 0)", 1)
    told = "2: waiting: unknown name 'presnt'; did you mean 'present'? (character 5)"
    assert mistakes(file(text)) == [told]


def test_a_mistake_in_a_file_that_names_a_problem_has_its_line(file, mistakes):
    text = 'problem = "inventory"\n[constraints]\nfil_rate = { at_least = 0.9 }\n'
    assert mistakes(file(text)) == ["3: unknown measure 'fil_rate'; did you mean 'fill_rate'?"]
