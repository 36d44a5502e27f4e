"""Data beside a model file are read from there and from nowhere else, and checked cell by cell."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tessella as ts
from tessella.modelfiles import tables
from tessella.modelfiles.read_model import read_limited
from tessella.modelfiles.toml_document import ReadLimits

FRAME = """
[axes]
region = ["north", "south"]
size = [1, 2]
[actions]
name = "send"
values = [0, 1]
[criterion]
kind = "average"
[tables.cost]
by = ["region", "size"]
csv = "{path}"
column = "cost"
[[stages]]
kind = "pay"
costs = "cost[region, size] * send"
"""
COSTS = "size,region,cost\n1,south,3\n2,south,4.5\n1,north,1\n2,north,2\n"


@pytest.fixture(params=["by steps", "by path"])
def way(request, monkeypatch):
    """How a file is found: from folder to folder, or as on Windows, which cannot do that."""
    if request.param == "by path":
        monkeypatch.delattr(os, "O_DIRECTORY")


def told(file, path="costs.csv"):
    return file(FRAME.format(path=path))


def test_a_table_is_looked_up_by_the_columns_that_say_where(file):
    file(COSTS, "costs.csv")
    mdp = ts.read_model(told(file))
    np.testing.assert_array_equal(mdp.reward, [[0, -1], [0, -2], [0, -3], [0, -4.5]])
    file("\ufeff" + COSTS.replace("\n", "\r\n") + "\r\n", "costs.csv")  # as spreadsheets write it
    assert ts.read_model(told(file)).fingerprint == mdp.fingerprint


def test_data_may_lie_in_a_folder_below_and_the_model_is_read_from_anywhere(file, monkeypatch, way):
    file(COSTS, "data/costs.csv")
    path = told(file, "data/costs.csv")
    monkeypatch.chdir("/")
    assert ts.read_model(path).n_states == 4
    monkeypatch.chdir(path.parent)
    assert ts.read_model("model.toml").n_states == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            COSTS.replace("4.5", "dear"),
            "costs.csv, line 3, column 'cost' has 'dear' (1 of 4 cells)",
        ),
        (COSTS.replace("4.5", "nan"), "a cell must be a finite number; costs.csv, line 3"),
        (COSTS.replace("4.5", "1e999"), "a cell must be a finite number; costs.csv, line 3"),
        (COSTS.replace("4.5", ""), "column 'cost' has '' (1 of 4 cells)"),
        (COSTS.replace("4.5", "1_0"), "column 'cost' has '1_0'"),
        (COSTS.replace("4.5", "4.5,6"), "costs.csv, line 3 has 4, the first has 3"),
        (COSTS.replace("2,south", "two,south"), "line 3, column 'size' has 'two' (1 of 4 cells)"),
        (COSTS.replace("2,south", "1,south"), "line 3: region=south, size=1 is there again"),
        (COSTS.replace("2,south,4.5\n", ""), "every combination of region, size; region=south"),
        ("a,a,b\n1,2,3", "must name its columns, each differently; got 'a, a, b'"),
        ("", "must name its columns"),
        ("size,region,cost\n", "costs.csv has no rows"),
        ('size,region,cost\n1,"north,3', "costs.csv is no CSV file; unexpected end of data"),
        ("size,region,cost\n1,north," + "9" * 200_000, "costs.csv is no CSV file; field larger"),
    ],
)
def test_a_faulty_cell_is_named_by_file_line_and_column(text, said, file, mistakes):
    file(text, "costs.csv")
    (found,) = mistakes(told(file))
    assert found.startswith("10: ")
    assert said in found


def test_a_column_that_is_not_there_has_the_line_that_names_it(file, mistakes):
    file("siz,region,cst\n1,north,2\n", "costs.csv")
    seen = '[distributions.seen]\nkind = "empirical"\ncsv = "costs.csv"\ncolumn = "cots"\n'
    assert mistakes(file(FRAME.format(path="costs.csv") + seen)) == [
        "11: costs.csv has no column 'size'; did you mean 'siz'?",
        "13: costs.csv has no column 'cost'; did you mean 'cst'?",
        "20: costs.csv has no column 'cots'; did you mean 'cst'?",
    ]


def test_a_column_has_values_of_the_kind_of_its_axis(file):
    file(COSTS.replace("north", "1").replace("south", "02"), "costs.csv")
    path = file(FRAME.format(path="costs.csv").replace('"north", "south"', '"1", "02"'))
    np.testing.assert_array_equal(ts.read_model(path).reward[:, 1], [-1, -2, -3, -4.5])


def test_an_empty_line_among_those_of_one_column_is_refused(file, mistakes):
    seen = '[distributions.seen]\nkind = "empirical"\ncsv = "seen.csv"\ncolumn = "n"\n'
    file(COSTS, "costs.csv")
    path = file(FRAME.format(path="costs.csv") + seen)
    file("n\n1\n2\n\n", "seen.csv")
    assert ts.read_model(path).n_states == 4
    file("n\n1\n\n2\n", "seen.csv")
    assert mistakes(path) == ["17: a cell must not be empty; seen.csv, line 3 is"]


def test_bytes_that_are_no_text_are_refused_with_their_line(file, mistakes, tmp_path):
    (tmp_path / "costs.csv").write_bytes(COSTS.encode() + b"\xff\xfe")
    assert mistakes(told(file)) == ["10: costs.csv, line 6 is not text in UTF-8"]


OUTSIDE = "data must be in the folder of the model file, or below it"


@pytest.mark.parametrize(
    "path",
    [
        "../costs.csv",
        "data/../../costs.csv",
        "data/../costs.csv",
        "/etc/passwd",
        "//etc/passwd",
        "C:/costs.csv",
        "..\\\\costs.csv",
        "",
        ".",
        "/dev/zero",
        "/proc/self/environ",
    ],
)
def test_a_path_that_leaves_the_folder_is_refused(path, file, mistakes, tmp_path, way):
    (tmp_path.parent / "costs.csv").write_text(COSTS)
    file(COSTS, "data/costs.csv")
    file(COSTS, "costs.csv")
    (found,) = mistakes(told(file, path))
    assert OUTSIDE in found


def test_symbolic_links_are_not_followed(file, mistakes, tmp_path, way):
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (outside / "costs.csv").write_text(COSTS)
    (tmp_path / "linked.csv").symlink_to(outside / "costs.csv")
    (tmp_path / "folder").symlink_to(outside)
    (tmp_path / "loop.csv").symlink_to(tmp_path / "loop.csv")
    file(COSTS, "costs.csv")
    (tmp_path / "inside.csv").symlink_to("costs.csv")
    for path in ("linked.csv", "loop.csv", "inside.csv"):
        assert mistakes(told(file, path)) == [f"10: {path!r} cannot be read; it is a symbolic link"]
    (found,) = mistakes(told(file, "folder/costs.csv"))
    assert found.startswith("10: 'folder/costs.csv' cannot be read; ")


def test_pipes_devices_folders_and_missing_files_are_refused_at_once(file, mistakes, tmp_path, way):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "folder.csv").mkdir()
    file(COSTS, "costs.csv")
    says = {
        "pipe.csv": "it is no regular file",
        "folder.csv": "it is a folder",
        "none.csv": "it is missing",
        "none/costs.csv": "it is missing",
        "costs.csv/costs.csv": "Not a directory",
        "a\\u0000b.csv": "embedded null byte",
        "x" * 300: "File name too long",
    }
    for path, said in says.items():
        (found,) = mistakes(told(file, path))
        assert found.endswith(said)


def test_the_model_file_itself_is_a_regular_file_of_bounded_size(tmp_path, file):
    pipe = tmp_path / "pipe.toml"
    os.mkfifo(pipe)
    for path, said in {
        pipe: "it is no regular file",
        "/dev/zero": "it is no regular file",
        tmp_path: "it is a folder",
        tmp_path / "none.toml": "it is missing",
        "a\0b": "embedded null byte",
    }.items():
        with pytest.raises(ts.FileError) as found:
            ts.read_model(path)
        assert str(found.value) == f"{path} cannot be read as a model file; {said}"
    with pytest.raises(ts.FileError, match="it is larger than 100 bytes"):
        read_limited(file("# " + "x" * 200), {}, ReadLimits(model_file_max_bytes=100))


def test_a_data_file_is_read_no_further_than_it_may_be_long(file, mistakes):
    file(COSTS, "costs.csv")
    said = "10: 'costs.csv' cannot be read; it is larger than 20 bytes"
    assert mistakes(told(file), csv_max_bytes=20) == [said]


def test_the_rows_of_a_data_file_are_bounded(file, mistakes):
    file(COSTS, "costs.csv")
    assert read_limited(told(file), {}, ReadLimits(csv_max_rows=4)).n_states == 4
    said = "10: a data file has at most 3 rows; costs.csv, line 5 is one more"
    assert mistakes(told(file), csv_max_rows=3) == [said]


MORE = """
[tables.again]
by = ["size", "region"]
csv = "costs.csv"
column = "cost"
[distributions.seen]
kind = "empirical"
csv = "costs.csv"
column = "cost"
"""


def test_a_data_file_is_read_once_however_many_parts_name_it(file, mistakes, monkeypatch):
    reads, read = [], tables.read_data_file
    monkeypatch.setattr(tables, "read_data_file", lambda *of: reads.append(of[1]) or read(*of))
    file(COSTS, "costs.csv")
    path = file(FRAME.format(path="costs.csv") + MORE)
    assert ts.read_model(path).n_states == 4
    assert reads == ["costs.csv"]
    file("a,a\n", "costs.csv")
    assert len(mistakes(path)) == 3  # each part has its line
    assert reads == ["costs.csv"] * 2


def test_all_data_of_a_model_together_are_bounded(file, mistakes):
    file(COSTS, "costs.csv")
    file(COSTS, "other.csv")
    path = file(FRAME.format(path="costs.csv") + MORE.replace("costs.csv", "other.csv", 1))
    (found,) = mistakes(path, csv_max_total_bytes=2 * len(COSTS) - 1)
    assert "the data of a model file have at most 117 bytes together; with other.csv" in found


def test_a_file_that_is_exchanged_while_it_is_opened_is_refused(
    file, mistakes, monkeypatch, tmp_path
):
    monkeypatch.delattr(os, "O_DIRECTORY")
    other, lstat = file(COSTS, "other.csv"), os.lstat
    file(COSTS, "costs.csv")
    path = told(file)
    monkeypatch.setattr(os, "lstat", lambda p: lstat(other if p.name == "costs.csv" else p))
    assert mistakes(path) == ["10: 'costs.csv' cannot be read; it changes while it is read"]


def test_no_file_stays_open(file, mistakes, tmp_path, way):
    file(COSTS, "data/costs.csv")
    os.mkfifo(tmp_path / "data" / "pipe.csv")
    before = len(os.listdir("/dev/fd"))
    ts.read_model(told(file, "data/costs.csv"))
    for path in ("data/none.csv", "data/pipe.csv", "none/none.csv", "data/data/x", "../x"):
        mistakes(told(file, path))
    assert len(os.listdir("/dev/fd")) == before
