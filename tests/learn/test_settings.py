"""The page that lists the hyper-parameters, against the code."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from tessella import baselines, learn

PAGE = Path(__file__).parents[2] / "docs" / "learners.md"


def listed():
    """(class, setting) -> (value, whose) from the table in the page."""
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| `(.+?)` \| (\w+) \|", PAGE.read_text(), re.M)
    return {(name, setting): (value, whose) for name, setting, value, whose in rows}


def defaults():
    """(class, setting) -> default, from the code; randomness is no setting."""
    found = {}
    for name in ("LinearBoundary", "NeuralBoundary", "MarginBoundary", "LocalBoundary"):
        learner = getattr(learn, name)()
        found |= {(name, k): v for k, v in learner.get_params().items() if k != "random_state"}
    for name in ("TabularQ", "DoubleQ", "FittedQ"):
        baseline = getattr(baselines, name)()
        found |= {(name, f.name): getattr(baseline, f.name) for f in fields(baseline)}
    return found


def test_the_page_lists_every_setting_with_its_value():
    assert {key: value for key, (value, _) in listed().items()} == {
        key: repr(value) for key, value in defaults().items()
    }


@pytest.mark.parametrize("key", sorted(defaults()))
def test_every_setting_is_marked_as_the_papers_or_ours(key):
    assert listed()[key][1] in ("paper", "ours")
