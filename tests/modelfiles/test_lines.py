"""Every key of a TOML document is found on its line, however the document is written."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tessella.modelfiles.toml_document import (
    BRACKETS_MAX_DEPTH,
    KEY_MAX_PARTS,
    SCALAR_MAX_CHARACTERS,
    LimitError,
    TomlDocument,
    find_lines,
)


def paths_of(value, path=()):
    """All key paths of what ``tomllib`` read."""
    yield path
    inside = enumerate(value) if isinstance(value, list) else ()
    for key, item in value.items() if isinstance(value, dict) else inside:
        yield from paths_of(item, (*path, key))


DOCUMENT = '''\
name = "shop"  # a = 1
"quoted key" = [1, [2,
  3], { x = 1, y.z = 2 }]   # [table]
text = """
[not] = a table
key = "not a key" \\"""
"""
lit = \'\'\'it's
x = 3\'\'\'
a.b . "c.d" = 1979-05-27 07:32:00
[ tables . "a\\u0041" ]
k = -inf
[[stages]]
kind = "pay"
[stages.to]
x = 1
[[stages]]
kind = 'jump'
[[stages.inner]]
z = [
  # a comment ]
  "a",
  "b",
]
[[stages.inner]]
z = {}
'''

LINES = {
    ("name",): 1,
    ("quoted key",): 2,
    ("quoted key", 0): 2,
    ("quoted key", 1): 2,
    ("quoted key", 1, 1): 3,
    ("quoted key", 2): 3,
    ("quoted key", 2, "y", "z"): 3,
    ("text",): 4,
    ("lit",): 8,
    ("a", "b", "c.d"): 10,
    ("tables", "aA"): 11,
    ("tables", "aA", "k"): 12,
    ("stages",): 13,
    ("stages", 0): 13,
    ("stages", 0, "kind"): 14,
    ("stages", 0, "to"): 15,
    ("stages", 0, "to", "x"): 16,
    ("stages", 1): 17,
    ("stages", 1, "kind"): 18,
    ("stages", 1, "inner", 0, "z", 0): 22,
    ("stages", 1, "inner", 0, "z", 1): 23,
    ("stages", 1, "inner", 1, "z"): 26,
}


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_every_way_of_writing_a_key_is_found_on_its_line(newline):
    text = DOCUMENT.replace("\n", newline)
    found = find_lines(text)
    assert {path: found.get(path) for path in LINES} == LINES
    assert set(paths_of(tomllib.loads(text))) == {(), *found}


def test_what_has_no_line_of_its_own_has_that_of_what_it_stands_in():
    document = TomlDocument(Path("m.toml"), {}, find_lines("a = 1\n[b]\nc = 2\n"))
    assert document.find_line(("b", "d", 3)) == 2
    assert document.find_line(("z",)) == 1


KEYS = st.one_of(
    st.text("abAB-_09", min_size=1, max_size=4),
    st.text(max_size=4).map(lambda text: '"' + "".join(map(escaped, text)) + '"'),
    st.text('ab .#=[]"', max_size=4).map(lambda text: f"'{text}'"),
)
BLANKS = st.sampled_from(["", " ", "\t "])


def escaped(letter: str) -> str:
    if letter in '"\\' or not letter.isprintable():
        return f"\\U{ord(letter):08x}" if not 0xD800 <= ord(letter) < 0xE000 else "?"
    return letter


SCALARS = st.one_of(
    st.sampled_from(["1", "-2.5e3", "true", "inf", "1979-05-27T07:32:00Z", "07:32:00"]),
    st.text("ab#[]{}=,.'\n", max_size=8).map(lambda text: f'"{text.replace(chr(10), "n")}"'),
    st.text("ab#[]{}=,.\"\n'", max_size=8)
    .filter(lambda text: "'''" not in text and not text.endswith("'"))
    .map(lambda text: f"'''{text}'''"),
    st.text('ab#[]{}=,.\n\\"', max_size=8)
    .map(lambda text: text.replace("\\", "\\\\").replace('"', '\\"'))
    .map(lambda text: f'"""{text}"""'),
)
GAPS = st.sampled_from(["", " ", "\n", " # ] }\n", "\n\n\t"])


@st.composite
def arrays(draw, inner):
    items = draw(st.lists(inner, max_size=3))
    parts = [f"{draw(GAPS)}{item}{draw(GAPS)}" for item in items]
    return "[" + ",".join(parts) + (draw(GAPS)) + "]"


@st.composite
def inline_tables(draw, inner):
    keys = draw(st.lists(KEYS, max_size=3))
    pairs = [f"{key}{draw(BLANKS)}={draw(BLANKS)}{draw(inner)}" for key in keys]
    return "{ " + ", ".join(pairs) + " }"


VALUES = st.recursive(SCALARS, lambda inner: arrays(inner) | inline_tables(inner), max_leaves=6)


@st.composite
def documents(draw):
    lines = []
    for _ in range(draw(st.integers(0, 6))):
        key = f"{draw(BLANKS)}.{draw(BLANKS)}".join(draw(st.lists(KEYS, min_size=1, max_size=3)))
        kind = draw(st.sampled_from(["pair", "pair", "table", "tables", "comment"]))
        lines.append(
            {
                "pair": lambda key=key: f"{key} = {draw(VALUES)}",
                "table": lambda key=key: f"[{draw(BLANKS)}{key}{draw(BLANKS)}]",
                "tables": lambda key=key: f"[[{key}]] # [x]",
                "comment": lambda: "# [a] b = 1",
            }[kind]()
        )
    return lines


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents())
def test_the_paths_that_are_found_are_those_that_tomllib_reads_each_where_it_was_written(lines):
    text, before, first = "", {}, 1
    for statement in lines:
        longer = f"{text}{statement}\n"
        try:
            read = tomllib.loads(longer)
        except tomllib.TOMLDecodeError:
            find_lines(longer)  # whatever it is, it ends
            continue
        found, last = find_lines(longer), first + statement.count("\n")
        assert {(), *found} == set(paths_of(read))
        assert {path: found[path] for path in before} == before
        assert all(first <= line <= last for path, line in found.items() if path not in before)
        text, before, first = longer, found, last + 1


@settings(max_examples=200, deadline=None)
@given(st.text("ab=[]{}\"'\\.,#\n 1", max_size=60))
def test_whatever_the_text_is_looking_for_lines_ends(text):
    find_lines(text)


def test_the_line_of_a_key_is_where_it_stands_and_not_where_its_table_began():
    body = "\n".join(f"k{i} = {i}" for i in range(50))
    found = find_lines(f"[t]\n{body}")
    assert [found["t", f"k{i}"] for i in range(50)] == [*range(2, 52)]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("\nx = " + "[" * (BRACKETS_MAX_DEPTH + 2), 2, "brackets are nested at most"),
        ("x = " + "[\n" * 9 + "{a=" * BRACKETS_MAX_DEPTH, 10, "brackets are nested at most"),
        ("\n\n" + "a." * KEY_MAX_PARTS + "a = 1", 3, f"a key has at most {KEY_MAX_PARTS} parts"),
        ("[" + "a." * 100_000 + "a]", 1, f"a key has at most {KEY_MAX_PARTS} parts"),
        ("\nx = [1,\n" + "9" * (SCALAR_MAX_CHARACTERS + 1) + "]", 3, "a number has at most"),
    ],
)
def test_what_goes_too_far_is_refused_before_it_is_read(text, line, said):
    with pytest.raises(LimitError, match=said) as found:
        find_lines(text)
    assert found.value.line == line
