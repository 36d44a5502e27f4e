"""Models of other tools: DRN text and UMB files."""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import tarfile
from contextlib import suppress

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import tessella as ts
from tessella.cli import main
from tessella.cli.arguments import NamedModel
from tessella.errors import ArgumentError, FileError
from tessella.grid import StateGrid

# A walk on an L of places; (1, 1) is not among them. State 4 is not reached, state 5 has no values.
WALK = """\
// Exported by storm
@type: MDP
@parameters

@reward_models
steps tolls
@nr_states
6
@nr_choices
7
@model
state 0 [1, 0] init
//[x=0	& y=1	& !paid]
	action go [0, 2]
		1 : 0.75
		0 : 1/4
	action wait
		0 : 1
state 1 [1, 0]
//[x=0	& y=0	& paid]
	action go [0.5, 0]
		2 : 0.33333333333
		3 : 0.66666666666
state 2 [1, 0] far
//[x=1	& y=0	& paid]
	action go [0, 0]
		3 : 1
state 3 [0, 7] far done
//[x=2	& y=0	& paid]
	action go [0, 0]
		5 : 1
state 4 [0, 0]
//[x=9	& y=9	& paid]
	action jump [0, 0]
		0 : 1
state 5 [0, 0] sink
	action go [0, 0]
		5 : 1
"""


@pytest.fixture
def walk(tmp_path):
    path = tmp_path / "walk.drn"
    path.write_text(WALK)
    return path


def read(tmp_path, text: str) -> ts.MDP:
    path = tmp_path / "model.drn"
    path.write_text(text)
    return ts.MDP.from_drn(path, 0.5, goal="done")


def test_variables_become_axes_and_what_is_not_reached_does_not_exist(walk):
    mdp = ts.MDP.from_drn(walk, 0.5, goal="done", minimise=True)
    assert mdp.grid == StateGrid.from_states(x=[0, 0, 1, 2], y=[0, 1, 0, 0], paid=[1, 0, 1, 1])
    assert mdp.actions == ("go", "wait")
    assert mdp.start.tolist() == [0, 1, 0, 0]
    assert mdp.feasible_mask.tolist() == [[True, False], [True, True], [True, False], [True, False]]
    assert (mdp.name, mdp.minimise) == ("walk", True)


def test_rewards_of_states_and_actions_are_added_and_end_with_the_goal(walk):
    mdp = ts.MDP.from_drn(walk, 0.5, goal="done")
    np.testing.assert_array_equal(mdp.reward, [[1.5, 0], [1, 1], [1, 0], [0, 0]])
    tolls = ts.MDP.from_drn(walk, 0.5, goal="done", reward="tolls")
    np.testing.assert_array_equal(tolls.reward, [[0, 0], [2, 0], [0, 0], [0, 0]])
    # V = 1 + (0.75 V1 + 0.25 V) / 2 with V1 = 1.5 + (1/3) (1) / 2, going at once.
    go_at_once = (1 + 0.375 * (1.5 + 1 / 6)) / 0.875
    value = ts.solve(mdp).value
    assert value[1] == pytest.approx(max(go_at_once, 2.0))  # waiting earns 2
    assert ts.evaluate(mdp, [0, 0, 0, 0]).value[1] == pytest.approx(go_at_once)


def test_labels_and_other_rewards_are_counted(walk):
    mdp = ts.MDP.from_drn(walk, 0.5, goal="done")
    assert {"far", "done", "tolls"} <= set(mdp.measures)
    tolls = mdp.with_objective({"tolls": 1.0}).reward
    np.testing.assert_array_equal(tolls, [[0, 0], [2, 0], [0, 0], [0, 0]])
    np.testing.assert_array_equal(mdp.with_objective({"far": 1.0}).reward[:, 0], [0, 0, 1, 0])


def test_a_total_until_the_goal_has_measures(walk):
    mdp = ts.MDP.from_drn(walk, criterion=ts.Total(), goal="done", without_actions=["wait"])
    measures = ts.evaluate(mdp, ts.solve(mdp).policy).measures
    # From state 0 as from state 1, a third of the walks pass the one place that is far.
    assert measures["far"].value == pytest.approx(1 / 3)
    assert measures["tolls"].value == pytest.approx(2 / 0.75)
    assert measures["done"].value == 0


def test_actions_can_be_left_out(walk):
    mdp = ts.MDP.from_drn(walk, 0.5, goal="done", without_actions=["wait"])
    assert mdp.actions == ("go",)
    with pytest.raises(ArgumentError, match="'dance' does not"):
        ts.MDP.from_drn(walk, 0.5, goal="done", without_actions=["dance"])


def test_compressed_files_are_read_alike(tmp_path, walk):
    path = tmp_path / "walk.drn.gz"
    path.write_bytes(gzip.compress(WALK.encode()))
    same = ts.MDP.from_drn(path, 0.5, goal="done")
    assert same.fingerprint == ts.MDP.from_drn(walk, 0.5, goal="done").fingerprint


def test_a_file_that_was_cut_off_is_rejected(tmp_path):
    with pytest.raises(FileError, match="line 8 declares 6, but the file lists 5"):
        read(tmp_path, WALK[: WALK.index("state 5")])
    path = tmp_path / "walk.drn.gz"
    packed = gzip.compress(WALK.encode())
    for length in (len(packed) - 8, len(packed) - 1, len(packed) // 2, 5):
        path.write_bytes(packed[:length])
        with pytest.raises(FileError, match="cannot be read as a DRN model"):
            ts.MDP.from_drn(path, 0.5, goal="done")


def test_corrupt_compression_is_an_error_of_the_file(tmp_path):
    packed = gzip.compress(WALK.encode(), mtime=0)
    flipped = [
        bytes([*packed[:i], packed[i] ^ 1, *packed[i + 1 :]]) for i in range(10, len(packed))
    ]
    path = tmp_path / "walk.drn.gz"
    for content in (b"\x1f\x8b\x08abc", *flipped):
        path.write_bytes(content)
        with pytest.raises(FileError, match="cannot be read as a DRN model"):
            ts.MDP.from_drn(path, 0.5, goal="done")


@pytest.mark.parametrize("compression", ["gz", "xz", "bz2"])
def test_corrupt_archives_are_errors_of_the_file(tmp_path, compression):
    path = tmp_path / "walk.umb"
    write_archive(path, *make_walk_archive(), compression)
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(bytes([*whole[:place], whole[place] ^ 4, *whole[place + 1 :]]))
        with suppress(ts.TessellaError):
            ts.MDP.from_umb(path, 0.5, goal="done")


def test_without_variables_the_axis_is_the_state_and_full_products_are_plain_grids(tmp_path):
    bare = "\n".join(line for line in WALK.splitlines() if not line.startswith("//["))
    assert read(tmp_path, bare).grid == StateGrid(state=[0, 1, 2, 3])
    full = WALK.replace("x=1\t& y=0", "x=1\t& y=1").replace("x=2\t& y=0", "x=1\t& y=0")
    full = full.replace("!paid", "paid")
    assert read(tmp_path, full).grid == StateGrid(x=[0, 1], y=[0, 1])


def test_choices_of_one_name_are_told_apart_and_numbers_are_numbers(tmp_path):
    assert read(tmp_path, WALK.replace("wait", "go")).actions == ("go", "go (2)")
    numbered = WALK.replace("wait", "10").replace("action go", "action 9")
    assert read(tmp_path, numbered).actions == (9, 10)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("@type: MDP", "@type: CTMC", "the type must be MDP or DTMC; line 2"),
        ("@parameters\n", "@parameters\np", "no numbers; line 4"),
        ("state 1 [1, 0]", "state 7 [1, 0]", "state 1 comes next; line 19"),
        ("action go [0.5, 0]", "action go [0.5]", "2 rewards, as @reward_models; line 21"),
        ("0 : 1/4", "0 : p", "'p' is not a number; line 16"),
        ("0 : 1/4", "0 : 1/0", "'1/0' is not a number; line 16"),
        ("0 : 1/4", "up : 0.25", "a state, an action of it, or"),
        ("	action wait\n", "	perhaps\n", "a state, an action of it, or .*; line 17"),
        ("state 0 [1, 0] init\n", "", "an action of it, or .*; line 13"),
        ("		3 : 1\n", "		33 : 1\n", "transitions to them"),
        ("x=1", "x=one", "'one' is not a number; line 25"),
        (
            "_states\n6",
            "_states\n9",
            "@nr_states must be .* states that .*; line 8 declares 9, .* 6",
        ),
        ("_choices\n7", "_choices\n6", "@nr_choices must be .*; line 10 declares 6, .* lists 7"),
        ("_choices\n7", "_choices\nsix", "@nr_choices must be a whole number; line 10 six"),
    ],
)
def test_mistakes_are_reported_with_their_lines(tmp_path, old, new, message):
    assert old in WALK
    with pytest.raises(FileError, match=message):
        read(tmp_path, WALK.replace(old, new))


def test_what_a_file_lacks_is_named(tmp_path, walk):
    with pytest.raises(
        FileError, match=r"with goal=LABEL \(--set goal=LABEL\) .* labels are far, done, sink"
    ):
        ts.MDP.from_drn(walk, 0.5)
    with pytest.raises(ArgumentError, match="the labels are far, done, sink"):
        ts.MDP.from_drn(walk, 0.5, goal="win")
    with pytest.raises(ArgumentError, match="its rewards are steps, tolls"):
        ts.MDP.from_drn(walk, 0.5, reward="gold", goal="done")
    without_rewards = WALK[: WALK.index("@reward_models")] + WALK[WALK.index("@nr_states") :]
    with pytest.raises(ArgumentError, match=r"^the file needs rewards; it has none$"):
        read(tmp_path, re.sub(r" \[\d.*?\]", "", without_rewards))
    with pytest.raises(FileError, match="it must list states"):
        read(tmp_path, "")
    with pytest.raises(ts.TessellaError, match="sum to 1"):
        read(tmp_path, WALK.replace("1 : 0.75", "1 : 0.7"))


@given(st.binary(max_size=200), st.integers(0, len(WALK)))
def test_no_bytes_do_more_than_be_rejected(tmp_path_factory, junk, place):
    path = tmp_path_factory.mktemp("junk") / "junk.drn"
    path.write_bytes(WALK.encode()[:place] + junk + WALK.encode()[place:])
    with suppress(ts.TessellaError):
        ts.MDP.from_drn(path, 0.5, goal="done")


def test_the_rule_of_a_file_is_a_tree_over_its_variables(walk):
    solution = ts.solve(ts.MDP.from_drn(walk, 0.5, goal="done"))
    rule = ts.compress(solution, loss=0.0, classes=[ts.AxisTree()])
    assert (rule.size, rule.size_needed) == (4, 4)  # wait where y is 1, or where nothing is paid


@pytest.mark.parametrize("name", ["perishable", "frozen_lake", "maintenance"])
def test_what_umb_holds_is_read_back(tmp_path, name):
    mdp = ts.problem(name).build()
    if (mdp.to_pairs().transition.sum(axis=1) < 0.99).any():
        with pytest.raises(ArgumentError, match="this one can end"):
            mdp.to_umb(tmp_path / "model.umb")
        return
    mdp.to_umb(tmp_path / "model.umb")
    options = {"minimise": mdp.minimise, "criterion": mdp.criterion}
    again = ts.MDP.from_umb(tmp_path / "model.umb", **options)
    assert again.grid == mdp.grid
    assert again.actions == mdp.actions
    np.testing.assert_array_equal(again.to_pairs().reward, mdp.to_pairs().reward)
    difference = again.to_pairs().transition - mdp.to_pairs().transition
    assert abs(difference).max() <= np.finfo(float).eps  # what is above 1 by rounding is cut off
    assert set(again.measures) >= set(mdp.dynamics.counts)


def test_listed_states_counts_and_starts_survive_umb(tmp_path):
    grid = StateGrid.from_states(place=[0.5, 1, 0.5], day=[0, 0, 1])
    rows = np.array([[[0, 1, 0], [0, 0, 1], [0.5, 0.5, 0]]])
    mdp = ts.MDP.from_arrays(rows, np.array([1.0, 2.5, -1.0]), 0.9, grid=grid)
    mdp = mdp.with_measures(nights=[1.0, 0.0, 1.0]).with_start([0, 2])
    mdp.to_umb(tmp_path / "model.umb")
    again = ts.MDP.from_umb(tmp_path / "model.umb", 0.9)
    order = again.grid.nearest(grid.points)
    np.testing.assert_array_equal(again.grid.points[order], grid.points)
    np.testing.assert_allclose(ts.solve(again).value[order], ts.solve(mdp).value, rtol=1e-11)
    np.testing.assert_array_equal(again.start[order], mdp.start)
    np.testing.assert_array_equal(again.with_objective({"nights": 1.0}).reward[order, 0], [1, 0, 1])
    with pytest.raises(ArgumentError, match="more likely than others"):
        mdp.with_start([0.2, 0.3, 0.5]).to_umb(tmp_path / "model.umb")
    text = ts.MDP.from_arrays(rows, np.zeros(3), 0.9, grid={"place": ["inn", "road", "end"]})
    with pytest.raises(ArgumentError, match="some are text"):
        text.to_umb(tmp_path / "model.umb")


def test_umb_holds_labels_as_rewards_and_the_error_says_so(tmp_path, walk):
    path = tmp_path / "walk.umb"
    mdp = ts.MDP.from_drn(walk, criterion=ts.Total(), goal="done", without_actions=["wait"])
    mdp.to_umb(path)
    again = ts.MDP.from_umb(path, criterion=ts.Total())  # what was absorbing still is
    np.testing.assert_allclose(ts.solve(again).value, ts.solve(mdp).value, rtol=1e-12)
    with pytest.raises(ArgumentError, match=r"labels are none; a reward .* to_umb writes labels"):
        ts.MDP.from_umb(path, criterion=ts.Total(), goal="done")


def write_archive(path, index: dict, arrays: dict, compression: str = "xz") -> None:
    files = {"index.json": json.dumps(index).encode()}
    files |= {f"{name}.bin": content for name, content in arrays.items()}
    with tarfile.open(path, f"w:{compression}") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))


def make_walk_archive() -> tuple[dict, dict]:
    """Two states and a choice each, in the bits that other tools write."""
    double = {"type": "double", "size": 64}
    variables = [
        {"name": "level", "type": {"type": "int", "size": 4}},
        {"name": "on", "type": {"type": "bool", "size": 1}, "is-optional": False},
        {"name": "floor", "type": {"type": "uint", "size": 2}, "offset": 7, "upper": 9},
        {"padding": 1},
    ]
    index = {
        "format-version": 1,
        "transition-system": {
            "time": "discrete",
            "#players": 1,
            "#states": 2,
            "branch-probability-type": {"type": "rational", "size": 128},
        },
        "annotations": {
            "aps": {"a0": {"alias": "done", "applies-to": ["states"]}},
            "rewards": {"time": {"applies-to": ["states", "choices", "branches"], "type": double}},
        },
        "valuations": {"states": {"classes": [{"variables": variables}]}},
    }
    arrays = {
        "state-is-initial": struct.pack("<Q", 0b01),
        "choice-to-branches": struct.pack("<3Q", 0, 2, 3),
        "branch-to-target": struct.pack("<3Q", 0, 1, 1),
        "branch-to-probability": struct.pack("<6q", 1, 4, 3, 4, 1, 1),
        "annotations/aps/a0/states/values": struct.pack("<Q", 0b10),
        "annotations/rewards/time/states/values": struct.pack("<2d", 1, 0),
        "annotations/rewards/time/choices/values": struct.pack("<2d", 10, 0),
        "annotations/rewards/time/branches/values": struct.pack("<3d", 100, 200, 0),
        "valuations/states/valuations": bytes([0b0_10_1_1101, 0b0_00_0_0101]),
    }
    return index, arrays


def test_archives_of_other_tools_are_read(tmp_path):
    path = tmp_path / "walk.umb"
    write_archive(path, *make_walk_archive())
    mdp = ts.MDP.from_umb(path, criterion=ts.Total(), goal="done", minimise=True)
    assert mdp.grid == StateGrid.from_states(level=[-3, 5], on=[1, 0], floor=[9, 7])
    assert mdp.actions == (0,)
    paid = 1 + 10 + 0.25 * 100 + 0.75 * 200
    assert ts.solve(mdp).cost.tolist() == pytest.approx([paid / 0.75, 0])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("branch-to-target", struct.pack("<3Q", 0, 1, 9), "cannot be read"),
        ("branch-to-target", struct.pack("<2Q", 0, 1), "branch-to-target must have 3 entries"),
        ("choice-to-branches", struct.pack("<3Q", 0, 3, 2), "must ascend from 0"),
        ("choice-to-branches", struct.pack("<3Q", 0, 2, 2**63), "must ascend from 0"),
        ("branch-to-probability", struct.pack("<6q", 1, 0, 3, 4, 1, 1), "other than 0"),
        ("valuations/states/valuations", b"", "must have 2 entries"),
        ("state-is-initial", b"", "must have 8 entries"),
    ],
)
def test_altered_arrays_are_rejected(tmp_path, name, content, message):
    index, arrays = make_walk_archive()
    write_archive(tmp_path / "walk.umb", index, arrays | {name: content})
    with pytest.raises(ts.TessellaError, match=message):
        ts.MDP.from_umb(tmp_path / "walk.umb", 0.5, goal="done")


@given(st.integers(0, 400), st.integers(0, 255))
def test_no_altered_archive_does_more_than_be_rejected(tmp_path_factory, place, byte):
    index, arrays = make_walk_archive()
    content = bytearray(json.dumps(index).encode())
    content[place % len(content)] = byte
    path = tmp_path_factory.mktemp("junk") / "junk.umb"
    with suppress(ValueError):
        write_archive(path, json.loads(content), arrays)
        with suppress(ts.TessellaError):
            ts.MDP.from_umb(path, 0.5, goal="done")


def test_files_that_are_no_umb_are_rejected(tmp_path):
    path = tmp_path / "model.umb"
    for content in (b"", b"no archive", gzip.compress(b"nothing"), bytes(range(256)) * 8):
        path.write_bytes(content)
        with pytest.raises(FileError, match="cannot be read as a UMB model"):
            ts.MDP.from_umb(path, 0.9)
    with pytest.raises(FileError, match="it is missing"):
        ts.MDP.from_umb(tmp_path / "none.umb", 0.9)


def load_model(word: str, assignments: tuple[str, ...]) -> ts.MDP:
    return NamedModel(word, assignments).mdp


def test_commands_take_such_files_with_the_options_as_settings(walk):
    typed = load_model(str(walk), ("discount=0.5", "goal=done", "minimise=true"))
    same = ts.MDP.from_drn(walk, 0.5, goal="done", minimise=True)
    assert (typed.fingerprint, typed.minimise) == (same.fingerprint, True)
    with pytest.raises(ArgumentError, match="has no setting 'tempo'"):
        load_model(str(walk), ("tempo=3",))


@pytest.mark.parametrize("text", ["Total()", "total", " Total ( ) "])
def test_commands_take_criteria_by_name(walk, text):
    typed = load_model(str(walk), (f"criterion={text}", "goal=done"))
    assert typed.fingerprint == ts.MDP.from_drn(walk, ts.Total(), goal="done").fingerprint


def test_commands_take_the_arguments_of_criteria(tmp_path):
    (tmp_path / "walk.drn").write_text(re.sub(r"\t?//\[.*\n", "", WALK))
    word = str(tmp_path / "walk.drn")
    typed = load_model(word, ("criterion=FiniteHorizon(3, discount=0.9)",))
    assert typed.criterion == ts.FiniteHorizon(3, 0.9)
    assert load_model(word, ("criterion=average",)).criterion == ts.Average()
    assert load_model(word, ("criterion=Discounted(0.5)",)).criterion == ts.Discounted(0.5)
    for text in ("best", "0.9", "Total(3)", "Total(", "FiniteHorizon(x)", "os.system('ls')"):
        with pytest.raises(ArgumentError, match="a criterion is written Average"):
            load_model(word, (f"criterion={text}",))
    with pytest.raises(ts.ModelError, match="a horizon is a whole number"):
        load_model(word, ("criterion=FiniteHorizon(0)",))
    with pytest.raises(ArgumentError, match="has no setting 'path'"):
        load_model(word, ("path=other.drn",))


def test_tessella_solve_finds_a_total(walk, tmp_path):
    settings = (
        "--set",
        "criterion=Total()",
        "--set",
        "goal=done",
        "--set",
        'without_actions=["wait"]',
    )
    done = CliRunner(env={"TESSELLA_CACHE": str(tmp_path)}).invoke(
        main, ("solve", str(walk), *settings)
    )
    assert done.exit_code == 0, done.output
    assert "total reward" in done.output
