"""Whatever stands in a file, the answer is a model or a list of mistakes: never a traceback.

Files are stories in which something was changed: a value, a key, a line, a letter.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tessella as ts

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"
STORIES = [
    (EXAMPLES / f"{name}.toml").read_text()
    for name in ("machine_replacement", "naor_admission", "seat_revenue", "battery_arbitrage")
]
STORIES += [ts.write_model("naor_admission")]
STORIES += [
    """
feasible = "x + a <= 3"
start = { x = 0 }
[axes]
x = [0, 1, 2, 3]
[scratch]
y = ["p", "q"]
[actions]
components = { a = [0, 1], b = ["u", "v"] }
[criterion]
kind = "discounted"
discount = 0.5
[tables.t]
by = ["y", "b"]
values = [[1, 2], [3, 4]]
[distributions.n]
kind = "values"
values = [0, 1]
probabilities = ["0.5 + 0.5 * (y == 'p')", "0.5 - 0.5 * (y == 'p')"]
[distributions.m]
kind = "empirical"
csv = "data.csv"
column = "n"
[[stages]]
kind = "decide"
axis = "y"
to = "where(b == 'u', 'p', 'q')"
pays = "t[y, b]"
[[stages]]
kind = "jump"
noise = "n"
to = { x = "min(x + n * a, 3)", y = "y" }
[[stages]]
kind = "shift"
axis = "x"
noise = "m"
edge = "reflect"
"""
]
WORDS = re.compile(r"\"[^\"\n]*\"|[A-Za-z_]+|-?[0-9.]+|\[\[|[\[\]{}=,]")
NASTY = st.sampled_from(
    [
        *("0", "-1", "1.5", "nan", "-inf", "1e308", "99999999999999999999", "2026-01-01", "true"),
        *('""', '"x"', '"1/0"', '"x.y"', '"9**9**9"', '"where(x>1,1,2)"', '"log(0-1)"', '"a" * 9'),
        *('"__class__"', '"../x.csv"', '"data.csv"', '"time"', '"next"', '"' + "(" * 99 + '"'),
        *("[]", "{}", "[[]]", "{ x = 1 }", "[1, 'a']", "[nan]", "kind", "values", "\n", "#", "="),
        *('"poisson"', '"jump"', '"move"', '"horizon"', '"average"', '"total"', "[x]", "[[x]]"),
        *('"normal"', '"empirical"', '"binomial"', "x", "stages", "events", "problem", "''''"),
    ]
)
PAGE = st.text(st.characters(codec="utf-8"), max_size=8)


@st.composite
def altered(draw):
    """A story in which up to three words are something else, or a line is gone or stands twice."""
    text = draw(st.sampled_from(STORIES))
    for _ in range(draw(st.integers(1, 3))):
        lines = text.split("\n")
        way = draw(st.sampled_from(["word", "word", "word", "drop", "twice", "swap", "letter"]))
        i, j = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        if way == "word":
            words = [*WORDS.finditer(text)]
            if words:
                start, end = words[draw(st.integers(0, len(words) - 1))].span()
                text = text[:start] + draw(NASTY) + text[end:]
            continue
        if way == "letter":
            at = draw(st.integers(0, len(text)))
            text = text[:at] + draw(PAGE) + text[at:]
            continue
        if way == "swap":
            lines[i], lines[j] = lines[j], lines[i]
        else:
            lines[i : i + 1] = [] if way == "drop" else [lines[i], lines[i]]
        text = "\n".join(lines)
    return text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / "data.csv").write_text("n,k\n0,a\n1,b\n1,c\n")
    return folder


@pytest.mark.parametrize("story", STORIES, ids=range(len(STORIES)))
def test_the_stories_are_models_as_they_stand(story, folder):
    (folder / "model.toml").write_text(story)
    assert ts.read_model(folder / "model.toml").n_states > 1


@settings(max_examples=250, deadline=None, suppress_health_check=[*HealthCheck])
@given(text=altered())
def test_an_altered_story_is_a_model_or_a_list_of_mistakes(text, folder):
    path = folder / "model.toml"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    error = refusal(path)
    for mistake, line in (
        zip(error.mistakes, str(error).splitlines(), strict=not error.more) if error else ()
    ):
        assert line == f"{path}:{mistake.line}: {mistake.text}"
        assert 1 <= mistake.line <= text.count("\n") + 1
        assert mistake.text.isprintable()
        assert len(mistake.text) <= 500


def refusal(path):
    """What is wrong with a file; None where it is a model."""
    try:
        ts.read_model(path)
    except ts.ModelFileError as error:
        return error
    return None


@settings(max_examples=200, deadline=None, suppress_health_check=[*HealthCheck])
@given(content=st.binary(max_size=60) | st.text("ax=[]{}\"'\n.#1,", max_size=60).map(str.encode))
def test_any_bytes_are_no_model_and_get_a_list_of_mistakes(content, folder):
    path = folder / "bytes.toml"
    path.write_bytes(content)
    with pytest.raises(ts.ModelFileError):
        ts.read_model(path)
