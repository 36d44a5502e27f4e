"""A spec is everything that decides a run's numbers, and nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessella.errors import StudyError
from tessella.runner.record import Spec
from tessella.support.json_values import setting_from_json, setting_to_json, to_canonical_json

SPEC = Spec(
    "INV-Mix", "inventory", {"max_stock": 32, "orders": [0, 4]}, "linear", {"C": 1.0}, 1, 100, 0
)

OTHERS = [
    {"problem": "INV-Lin"},
    {"family": "queue"},
    {"model": {"max_stock": 33, "orders": [0, 4]}},
    {"model": {"max_stock": 32, "orders": [4, 0]}},
    {"method": "local"},
    {"settings": {"C": 2.0}},
    {"settings": {}},
    {"edition": 2},
    {"n": 200},
    {"seed": 1},
]


@pytest.mark.parametrize("change", OTHERS)
def test_every_field_decides_the_key(change):
    assert replace(SPEC, **change).key != SPEC.key


def test_the_order_of_names_does_not_decide_the_key():
    turned = replace(SPEC, model={"orders": [0, 4], "max_stock": 32})
    assert turned == SPEC
    assert hash(turned) == hash(SPEC)


def test_a_spec_survives_its_json():
    assert Spec.from_json(SPEC.json) == SPEC
    assert Spec.from_json(SPEC.json).json == SPEC.json


@pytest.mark.parametrize("value", [math.nan, math.inf, object(), {1, 2}])
def test_what_has_no_unique_form_is_refused(value):
    with pytest.raises(StudyError, match="a spec holds finite numbers"):
        to_canonical_json({"setting": value})


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.none()


@given(st.dictionaries(st.text(), numbers | st.lists(numbers)))
def test_canonical_json_is_the_same_after_a_round_trip(value):
    import json

    assert to_canonical_json(json.loads(to_canonical_json(value))) == to_canonical_json(value)


def test_all_methods_of_one_problem_size_and_seed_see_the_same_sample():
    other = replace(SPEC, method="local", settings={})
    assert SPEC.generator("sample").random() == other.generator("sample").random()


def test_variants_of_a_problem_see_the_same_draws():
    other = replace(SPEC, problem="INV-Lin", model={"max_stock": 32})
    assert SPEC.generator("sample").random() == other.generator("sample").random()


@pytest.mark.parametrize("change", [{"n": 200}, {"seed": 1}])
def test_sizes_and_seeds_see_different_samples(change):
    assert SPEC.entropy("sample") != replace(SPEC, **change).entropy("sample")
    assert SPEC.entropy("sample") != SPEC.entropy("training")


def test_randomness_that_is_the_same_for_every_n_depends_on_nothing_else_less():
    assert SPEC.entropy("x", every_n=True) == replace(SPEC, n=200).entropy("x", every_n=True)
    assert SPEC.entropy("x", every_n=True) != replace(SPEC, seed=1).entropy("x", every_n=True)


@dataclass(frozen=True)
class Slow:
    steps: int = 3


@dataclass(frozen=True)
class Fast:
    steps: int = 4


@pytest.mark.parametrize(
    ("setting", "kinds", "stored"),
    [
        (Slow(5), (Slow,), {"steps": 5}),
        (Slow(5), (Slow, Fast), {"kind": "Slow", "steps": 5}),
        ((Fast(), None), (Slow, Fast), [{"kind": "Fast", "steps": 4}, None]),
        ((64, 64), (Slow,), [64, 64]),
        (0.1, (), 0.1),
        ("range", (), "range"),
        (True, (), True),
    ],
)
def test_a_setting_comes_back_from_what_a_spec_holds(setting, kinds, stored):
    assert setting_to_json(setting, kinds) == stored
    assert setting_from_json(stored, kinds) == setting


@pytest.mark.parametrize(
    ("setting", "stored"),
    [
        (math.nan, "nan"),
        (Slow(2), "Slow(steps=2)"),
        (object(), "object"),
        (math.sqrt, repr(math.sqrt)),
    ],
)
def test_a_setting_that_json_cannot_hold_is_stored_as_what_it_prints_or_is_called(setting, stored):
    assert setting_to_json(setting) == stored
