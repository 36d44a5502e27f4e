"""Files of data: JSON by its schema, CSV by the one door, dtControl's CSV both ways."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.exports import CASES
from support.schemas import find_faults

import tessella as ts

RULE = CASES["text_axis"]


@pytest.mark.parametrize("name", CASES)
def test_json_keeps_to_the_published_schema_and_comes_back(tmp_path, name):
    policy = CASES[name]
    ts.export(policy, tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text())
    assert find_faults(content, "rule.schema.json") == []
    again = type(policy).load(tmp_path / "a.json")
    assert np.array_equal(again.table, policy.table)
    assert again.actions == policy.actions


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda c: c.pop("facts"), "is not valid under any of the given schemas"),
        (lambda c: c.update(version=2), "is not valid under any of the given schemas"),
        (lambda c: c.update(program={"Guess": {}}), "is not valid under any of the given schemas"),
        (
            lambda c: c["program"]["Among"].update(extra=1),
            "is not valid under any of the given schemas",
        ),
        (lambda c: c["axes"].update(stock=[]), "is not valid under any of the given schemas"),
    ],
)
def test_the_schema_refuses_what_is_no_rule(tmp_path, change, told):
    RULE.export(tmp_path / "a.json")
    content = json.loads((tmp_path / "a.json").read_text())
    change(content)
    assert told in find_faults(content, "rule.schema.json")[0]


def test_csv_has_a_row_for_each_state_and_a_column_for_each_component(tmp_path):
    ts.export(CASES["linear"], tmp_path / "a.csv")
    head, first, *rest = (tmp_path / "a.csv").read_text().splitlines()
    assert (head, first) == ("stock,regime,fixed,fast,slow", "-1.0,3,7,0.5,no")
    assert len(rest) == 27


def test_dtcontrol_gets_numbers_and_a_config_with_the_names(tmp_path):
    RULE.export(tmp_path / "a.dtcontrol.csv")
    lines = (tmp_path / "a.dtcontrol.csv").read_text().splitlines()
    assert lines[:4] == ["#NON-PERMISSIVE", "#BEGIN 2 1", "0,0,0", "0,1,4.5"]
    assert len(lines) == 2 + 15
    config = json.loads((tmp_path / "a.dtcontrol_config.json").read_text())
    assert config["x_column_names"] == ["stock", "season"]
    assert config["x_column_types"] == {"numeric": [0], "categorical": [1]}
    assert config["x_category_names"] == {"season": ["dry", "wet", "cold"]}
    assert "fingerprint: 0123abcd" in config["about"]


@pytest.mark.parametrize("name", CASES)
def test_dtcontrol_files_come_back(tmp_path, name):
    ts.export(CASES[name], tmp_path / "a.dtcontrol.csv")
    again = ts.read_dtcontrol(tmp_path / "a.dtcontrol.csv", CASES[name])
    assert np.array_equal(again.table, CASES[name].table)


GRID = ts.StateGrid(x=range(2), y=[0.5, 1.5])
MODEL = ts.Policy.from_table(GRID, (0, 4), [0, 0, 0, 0])
GOOD = "#PERMISSIVE\n#BEGIN 2 1\n1,1.5,4\n0,0.5,0\n0,1.5,4\n1,0.5,4.0\n0,0.5,0\n"


def read(tmp_path, text):
    (tmp_path / "c.csv").write_text(text)
    return ts.read_dtcontrol(tmp_path / "c.csv", MODEL)


def test_a_controller_of_others_is_read_whatever_the_order_of_its_rows(tmp_path):
    assert read(tmp_path, GOOD).table.tolist() == [[0, 1], [1, 1]]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("#BEGIN 2 1", "#BEGIN 3 1", "must have a line '#BEGIN 2 1'.*got '3 1'"),
        ("#BEGIN 2 1\n", "", "must have a line '#BEGIN 2 1'"),
        ("1,1.5,4\n", "", r"one action for each state; x=1, y=1.5 has none \(1 of 4"),
        ("0,0.5,0\n0", "0,0.5,4\n0", r"one action for each state; x=0, y=0.5 has several \(1 of 4"),
        ("1,1.5,4", "1,1.6,4", r"must hold states of the grid; row 1 has \[1.0, 1.6\]"),
        ("1,1.5,4", "1,1.5,7", r"must name actions; row 1 has \[7.0\]"),
        ("1,1.5,4", "1,many,4", "must hold rows of numbers"),
        ("1,1.5,4", "1,1.5", "must hold rows of numbers"),
    ],
)
def test_a_controller_that_does_not_fit_is_refused_with_its_place(tmp_path, old, new, told):
    with pytest.raises(ts.FileError, match=told):
        read(tmp_path, GOOD.replace(old, new, 1))


def test_a_missing_controller_is_said_to_be_missing(tmp_path):
    with pytest.raises(ts.FileError, match="it is missing"):
        ts.read_dtcontrol(tmp_path / "none.csv", MODEL)
