"""A workbook calculates: an independent library finds no state of its check sheet that differs."""

from __future__ import annotations

import pytest
from support.exports import CASES, HOSTILE, ladder, rule

import tessella as ts
from tessella.mdp.program import Among, Choose
from tessella.rules.export.draft import Draft
from tessella.rules.export.formula import column, formula, value


def calculated(path) -> dict[str, object]:
    """Every cell of a workbook, by sheet and cell, calculated."""
    formulas = pytest.importorskip("formulas")
    solution = formulas.ExcelModel().loads(str(path)).finish().calculate()
    found = {}
    for key, cells in solution.items():
        name = str(key)
        if ":" not in name and "!" in name:
            found[name.split("]")[1].replace("'", "")] = cells.value[0, 0]
    return found


def test_the_check_sheet_of_a_workbook_agrees_in_every_row(tmp_path):
    pytest.importorskip("openpyxl")
    CASES["text_axis"].export(tmp_path / "a.xlsx")
    cells = calculated(tmp_path / "a.xlsx")
    assert [cells[f"CHECK!E{row}"] for row in range(2, 17)] == [True] * 15
    assert cells["CHECK!F1"] == 0
    assert [cells[f"CHECK!C{row}"] for row in (2, 3, 17 - 1)] == [0, 4.5, -8]


def test_texts_of_a_workbook_are_never_formulas(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    axes = {"label": [text for text in HOSTILE if "\r" not in text]}
    root = Among("label", ("=1+1",), Choose(6), Choose(0))
    rule(axes, HOSTILE, root, 2, "=2+2").export(tmp_path / "a.xlsx")
    book = openpyxl.load_workbook(tmp_path / "a.xlsx")
    kinds = {cell.value: cell.data_type for row in book["check"].iter_rows() for cell in row}
    assert kinds["=1+1"] == "s"
    assert book["rule"]["B1"].value == "=2+2"
    assert book["rule"]["B1"].data_type == "s"
    assert [c.data_type for c in book["check"]["B"]][1:] == ["f"] * len(axes["label"])


def test_a_control_character_is_refused_in_a_cell(tmp_path):
    pytest.importorskip("openpyxl")
    policy = ts.Policy.of(ts.StateGrid(label=["a\x01b", "c"]), (0, 1), [0, 1])
    with pytest.raises(ts.FileError, match="cannot hold control characters"):
        ts.export(policy, tmp_path / "a.xlsx")


def test_a_ladder_of_a_thousand_cuts_is_halved_and_a_formula_too_long_is_refused(tmp_path):
    many = range(300)
    cuts = [x + 0.5 for x in many][:-1]
    long = rule({"x": many}, (0, 1), ladder({"x": 1.0}, cuts, [x % 2 for x in many]), 9)
    text = formula(Draft(long), "order")
    assert len(text) < 8192
    assert text.count("IF(") == 300
    assert max(_depths(text)) <= 11
    more = range(2000)
    cuts = [x + 0.5 for x in more][:-1]
    longer = rule({"x": more}, (0, 1), ladder({"x": 1.0}, cuts, [x % 2 for x in more]), 9)
    with pytest.raises(ts.FileError, match=r"at most 8,192 characters and 64 levels; this rule"):
        longer.export(tmp_path / "a.txt")


def _depths(text):
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        yield depth


def test_texts_and_numbers_are_written_as_formulas_read_them():
    assert value('a"b\nc') == '"a""b"&CHAR(10)&"c"'
    assert [value(x) for x in (3, -3.0, 0.5, 1e-9, 2.5e20)] == [
        "3",
        "(-3)",
        "0.5",
        "1E-09",
        "2.5E+20",
    ]
    assert [column(k) for k in (0, 25, 26, 701, 702)] == ["A", "Z", "AA", "ZZ", "AAA"]
    with pytest.raises(ts.FileError, match="at most 255 characters"):
        value("x" * 256)
