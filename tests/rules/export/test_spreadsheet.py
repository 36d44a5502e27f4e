"""A workbook calculates: an independent library finds no state of its check sheet that differs."""

from __future__ import annotations

import formulas
import openpyxl
import pytest
from support.exports import CASES, HOSTILE, make_rule, make_split

import tessella as ts
from tessella.mdp.rule_tree import LabelSplit, Leaf
from tessella.rules.export.export_context import ExportContext
from tessella.rules.export.spreadsheet import format_cell_value, format_column, format_formula


def calculated(path) -> dict[str, object]:
    """Every cell of a workbook, by sheet and cell, calculated."""
    solution = formulas.ExcelModel().loads(str(path)).finish().calculate()
    found = {}
    for key, cells in solution.items():
        name = str(key)
        if ":" not in name and "!" in name:
            found[name.split("]")[1].replace("'", "")] = cells.value[0, 0]
    return found


def test_the_check_sheet_of_a_workbook_agrees_in_every_row(tmp_path):
    CASES["text_axis"].export(tmp_path / "a.xlsx")
    cells = calculated(tmp_path / "a.xlsx")
    assert [cells[f"CHECK!E{row}"] for row in range(2, 17)] == [True] * 15
    assert cells["CHECK!F1"] == 0
    assert [cells[f"CHECK!C{row}"] for row in (2, 3, 17 - 1)] == [0, 4.5, -8]


def test_texts_of_a_workbook_are_never_formulas(tmp_path):
    axes = {"label": [text for text in HOSTILE if "\r" not in text]}
    root = LabelSplit("label", ("=1+1",), Leaf(6), Leaf(0))
    make_rule(axes, HOSTILE, root, 2, "=2+2").export(tmp_path / "a.xlsx")
    book = openpyxl.load_workbook(tmp_path / "a.xlsx")
    kinds = {cell.value: cell.data_type for row in book["check"].iter_rows() for cell in row}
    assert kinds["=1+1"] == "s"
    assert book["rule"]["B3"].value == "=2+2"
    assert book["rule"]["B3"].data_type == "s"
    assert [c.data_type for c in book["check"]["B"]][1:] == ["f"] * len(axes["label"])


@pytest.mark.parametrize("label", ["a\x01b", "a\r\nb", "_x0041_"])
def test_a_text_that_a_cell_would_change_is_rejected(tmp_path, label):
    policy = ts.Policy.from_table(ts.StateGrid(label=[label, "c"]), (0, 1), [0, 1])
    with pytest.raises(ts.FileError, match="cannot hold control characters") as rejected:
        ts.export(policy, tmp_path / "a.xlsx")
    assert repr(label) in str(rejected.value)


@pytest.mark.parametrize("name", ["a.txt", "a.xlsx"])
def test_a_rule_that_depends_on_more_than_fifteen_digits_is_rejected(tmp_path, name):
    close = ts.StateGrid(x=[1.0, 1.0 + 2e-14, 2.0])
    apart = ts.StateGrid(x=[1.0, 1.0 + 2e-12, 2.0])
    sums = {"x": range(4), "y": range(4)}
    on_a_state = make_split({"x": 0.1, "y": 0.2}, (0.7,), (0, 1))
    for policy in (
        ts.Policy.from_table(close, (0, 1), [0, 1, 1]),
        make_rule(sums, (0, 1), on_a_state, 3),
    ):
        with pytest.raises(ts.FileError, match=r"15 digits.* distinguishes differ by"):
            ts.export(policy, tmp_path / name)
    assert ts.export(ts.Policy.from_table(apart, (0, 1), [0, 1, 1]), tmp_path / name).states == 3


def test_a_workbook_opens_with_the_rule_in_words_above_the_cells_to_fill_in(tmp_path):
    CASES["text_axis"].export(tmp_path / "a.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "a.xlsx")["rule"]
    words, *more = CASES["text_axis"].explain().splitlines()
    assert sheet["A1"].value == words
    assert [cell.value for cell in sheet[3]] == ["stock", "season", "order"]
    assert all(cell.font.bold for cell in sheet[3])
    assert [cell.value for cell in sheet[4]][:2] == [0, "dry"]
    assert [sheet.cell(8 + i, 1).value for i in range(len(more))] == more


def test_a_ladder_of_a_thousand_cuts_is_halved_and_a_formula_too_long_is_refused(tmp_path):
    many = range(300)
    cuts = [x + 0.5 for x in many][:-1]
    long = make_rule({"x": many}, (0, 1), make_split({"x": 1.0}, cuts, [x % 2 for x in many]), 9)
    text = format_formula(ExportContext(long), "order")
    assert len(text) < 8192
    assert text.count("IF(") == 300
    assert max(_depths(text)) <= 11
    more = range(2000)
    cuts = [x + 0.5 for x in more][:-1]
    longer = make_rule({"x": more}, (0, 1), make_split({"x": 1.0}, cuts, [x % 2 for x in more]), 9)
    with pytest.raises(ts.FileError, match=r"at most 8,192 characters and 64 levels; this rule"):
        longer.export(tmp_path / "a.txt")


def _depths(text):
    depth = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        yield depth


def test_texts_and_numbers_are_written_as_formulas_read_them():
    assert format_cell_value('a"b\nc') == '"a""b"&CHAR(10)&"c"'
    assert [format_cell_value(x) for x in (3, -3.0, 0.5, 1e-9, 2.5e20)] == [
        "3",
        "(-3)",
        "0.5",
        "1E-09",
        "2.5E+20",
    ]
    assert [format_column(k) for k in (0, 25, 26, 701, 702)] == ["A", "Z", "AA", "ZZ", "AAA"]
    with pytest.raises(ts.FileError, match="at most 255 characters"):
        format_cell_value("x" * 256)
