"""A short file cannot ask for much: what would be too large is refused before it is made.

Without its bound, each of these takes minutes or all memory.
"""

from __future__ import annotations

import pytest

import tessella as ts

FRAME = """
{top}
[axes]
x = {x}
y = {y}
[actions]
values = {actions}
[criterion]
{criterion}
[distributions.n]
kind = "uniform"
smallest = 0
largest = {largest}
{more}
[[stages]]
kind = "jump"
noise = "n"
to = {{ x = "min(x + n, 3)" }}
"""
SMALL = {
    "top": "",
    "x": "[0, 1, 2, 3]",
    "y": "[0]",
    "actions": "[0]",
    "criterion": 'kind = "average"',
    "largest": 3,
    "more": "",
}
CHOICES = "where(x < y, -x, " * 28 + "y" + ")" * 28


def told(**changes) -> str:
    return FRAME.format(**SMALL | changes)


def thousands(n: int) -> str:
    return f"{{ from = 0, to = {n}999 }}"


def test_the_small_one_is_a_model(file):
    assert ts.read_model(file(told())).n_states == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (told(x=thousands(1e9)), "a range goes from its first value in steps to its last, at most"),
        (
            told(x="{ from = 0, to = 1, points = 1e9 }"),
            "points must be a whole number from 2 to 1,",
        ),
        (told(x=thousands(9), y=thousands(9)), "at most 20,000,000 states, scratch axes and time"),
        (told(actions=thousands(900)), "at most 100,000 actions; got 901,000"),
        (
            told(y=thousands(9), actions=thousands(9), top='feasible = "x >= action"'),
            "at most 200,000,000 pairs of state and action",
        ),
        (
            told(criterion='kind = "horizon"\nperiods = 1e9'),
            "periods must be a whole number from 1",
        ),
        (told(criterion='kind = "horizon"\nperiods = 9999', y=thousands(9)), "20,000,000 states"),
        (told(largest=1e9), "largest must be a whole number from -10,000,000 to 10,000,000"),
        (told(largest=10**6), "a distribution goes up from its smallest value, to 100,000 at most"),
        (told(largest=99_999, y=thousands(1)), "at most 200,000,000 entries of all its"),
        (
            told(
                y=thousands(9),
                more='[[stages]]\nkind = "move"\naxis = "y"\nmatrix = "next == y * x"',
            ),
            "at most 200,000,000 entries of all its expressions",
        ),
        (
            told(
                y=thousands(9),
                more='[distributions.m]\nkind = "poisson"\nmean = "x + y"\nlargest = 99999',
            ),
            "at most 200,000,000 entries of all its expressions",
        ),
        (
            told(
                y=thousands(900),
                more='[[stages]]\nkind = "pay"\npays = "x * y"\n' * 99,
            ),
            "at most 200,000,000 entries of all its expressions",
        ),
        (
            told(
                y=thousands(999),
                more=f'[[stages]]\nkind = "pay"\npays = "{CHOICES}"',
            ),
            "16: an expression holds at most 200,000,000 numbers at once; it would be",
        ),
        (told(more='[[stages]]\nkind = "pay"\npays = 1\n' * 200), "stages has at most 100 entries"),
        (
            told(more="[terms]\n" + "\n".join(f't{i} = "x"' for i in range(200))),
            "terms has at most 100 entries; got 200",
        ),
        (
            told(top="[scratch]\n" + "\n".join(f"s{i} = [0]" for i in range(70))),
            "scratch has at most 10 entries; got 70",
        ),
        (
            "x = "
            + "{ a.b.c.d.e.f.g.h = " * 15
            + "{ "
            + "i.j = 1, " * 9000
            + "k = 1 }"
            + " }" * 15,
            "tables and lists are nested at most 24 keys deep",
        ),
        ("x = [" + "'a', " * 150_000 + "]", "a model file needs 'axes'"),
        (told(x="[" + "true, " * 150_000 + "]"), "axes, x 1 must be a number or text; got True"),
        (told(x="[" + "1, " * 150_000 + "]"), "axis values must differ from one another"),
    ],
)
def test_what_would_be_too_large_is_refused_before_it_is_made(text, said, file, mistakes):
    assert any(said in one for one in mistakes(file(text))), mistakes(file(text))


def test_an_action_that_decides_nothing_of_a_jump_does_not_count(file, mistakes):
    text = told(y=thousands(19), actions=thousands(1), largest=1)
    assert ts.read_model(file(text)).n_actions == 2000
    acts = text.replace("x + n", "x + n * (action > 3)")
    (found,) = mistakes(file(acts))
    assert "at most 200,000,000 entries" in found
    assert "got 320,016,008" in found  # 4 x 20,000 states, 2 values, 2,000 actions; the expression


def test_a_model_of_a_million_states_is_not_too_large(file):
    text = told(y=thousands(249)).replace('"n"\nto', '"m"\nto').replace("x + n", "x + m")
    law = '[distributions.m]\nkind = "uniform"\nsmallest = 0\nlargest = 1\n'
    assert ts.read_model(file(text.replace("[[stages]]", f"{law}[[stages]]", 1))).n_states == 10**6


def test_the_probability_of_one_value_counts_once(file, mistakes):
    law = '[distributions.m]\nkind = "values"\nvalues = [0, 1, 2, 3]\nprobabilities = '
    (found,) = mistakes(file(told(more=law + str(["0 * x + 0.25"] * 4))), max_entries=1)
    # 4 probabilities by x; where the jump goes by x and n, and the jump itself; both ends of n.
    assert "got 56" in found
