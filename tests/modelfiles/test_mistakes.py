"""All that is wrong with a file is said at once, each with its line and the nearest name."""

from __future__ import annotations

import pickle

import pytest

import tessella as ts

STORY = """\
name = "shop"
feasible = "stock + order <= most"

[parameters]
most = 6
price = 4.0

[axes]
stock = { from = 0, to = "most" }
season = ["low", "high"]

[actions]
name = "order"
values = [0, 2, 3]

[criterion]
kind = "discounted"
discount = 0.9

[tables.mean]
by = ["season"]
values = [0.5, 2.5]

[distributions.demand]
kind = "poisson"
mean = "mean[season]"
largest = 4

[[stages]]
kind = "decide"
axis = "stock"
to = "stock + order"
costs = "order + 0.5 * (order > 0)"

[[stages]]
kind = "shift"
axis = "stock"
noise = "demand"
by = "-demand"
pays = "price * min(stock, demand)"

[[stages]]
kind = "move"
axis = "season"
matrix = [[0.8, 0.2], [0.3, 0.7]]
"""


def planted(*changes: tuple[str, str]) -> str:
    text = STORY
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_the_story_itself_has_none(file):
    assert ts.read_model(file(STORY)).n_states == 14


def test_a_mistake_in_a_table_is_said_once_and_not_where_the_table_is_looked_up(file, mistakes):
    text = planted(("[0.5, 2.5]", "[0.5]"), ("mean[season]", "mean[season, 1]"))
    (found,) = mistakes(file(text))
    assert found.startswith("20: its values must be 2 numbers")


def test_five_planted_mistakes_get_five_messages_each_with_its_line(file, mistakes):
    text = planted(
        ("discount = 0.9", "discont = 0.9"),
        ('kind = "poisson"', 'kind = "poison"'),
        ('axis = "stock"\nto', 'axis = "stok"\nto'),
        ("-demand", "-demnd"),
        ('kind = "move"\naxis = "season"', 'kind = "move"\naxes = "season"'),
    )
    assert mistakes(file(text)) == [
        "18: unknown key 'discont' in the criterion of kind 'discounted'; did you mean 'discount'?",
        "25: unknown kind 'poison' of a distribution; did you mean 'poisson'?",
        "31: unknown axis 'stok'; did you mean 'stock'?",
        "39: by: unknown name 'demnd'; did you mean 'demand'? (character 2)",
        "44: unknown key 'axes' in a stage of kind 'move'; did you mean 'axis'?",
    ]


def test_five_planted_slips_of_the_keyboard_get_five_messages(file, mistakes):
    text = planted(
        ('"stock + order <= most"', '"stock + ordr <= most"'),
        ('to = "most"', 'to = "mots"'),
        ('by = ["season"]', 'by = ["saison"]'),
        ('noise = "demand"', 'noise = "damand"'),
        ("[[0.8, 0.2], [0.3, 0.7]]", "[[0.8, 0.2], [0.3, 0.7a]]".replace("0.7a", '"prise"')),
    )
    assert mistakes(file(text)) == [
        "2: feasible: unknown name 'ordr'; did you mean 'order'? (character 9)",
        "9: to: unknown name 'mots'; did you mean 'most'? (character 1)",
        "21: unknown axis, action or distribution 'saison'; did you mean 'season'?",
        "38: unknown distribution 'damand'; did you mean 'demand'?",
        "45: matrix 2 2: unknown name 'prise'; did you mean 'price'? (character 1)",
    ]


def test_what_has_a_mistake_of_its_own_is_not_called_unknown_wherever_it_is_used(file, mistakes):
    text = planted(
        (
            "[tables.mean]",
            '[terms]\nsold = "min(stock, demnd)"\ngain = "price * sold"\n\n[tables.mean]',
        ),
        ('"price * min(stock, demand)"', '"gain + sold"'),
        ("season = [", "value = ["),
        ('by = ["season"]', 'by = ["value"]'),
        ('"mean[season]"', '"mean[value]"'),
        ('axis = "season"', 'axis = "value"'),
    )
    taken, sold = mistakes(file(text))
    assert taken.startswith("10: an axis cannot be called 'value': a solution holds value, q,")
    assert sold == "21: sold: unknown name 'demnd'; did you mean 'demand'? (character 12)"


def test_what_a_model_refuses_gets_the_line_of_its_stage_for_every_stage(file, mistakes):
    text = planted(
        ('to = "stock + order"', 'to = "stock + order + 1"'),
        ('"price * min(stock, demand)"', '"price * log(stock - 7)"'),
        ("[[0.8, 0.2], [0.3, 0.7]]", "[[0.8, 0.2], [0.3, 0.8]]"),
    )
    assert mistakes(file(text)) == [
        "29: deciding stock leaves the grid: stock must stay on its axis; "
        "stock=6, order=0 goes to stock=7 (3 of 21 cases)",
        "35: the reward of the shift of stock by demand must be finite; "
        "stock=0 pays nan (7 of 7 rewards)",
        "42: the rows of the move of season must sum to 1; season=high sums to 1.1 (1 of 2 rows)",
    ]


def test_only_the_first_stage_that_moves_may_say_anything_where_an_action_is_infeasible(
    file, mistakes
):
    late = '[[stages]]\nkind = "decide"\naxis = "stock"\nto = "stock + order"\n'
    first = 'kind = "decide"\naxis = "stock"\nto = "stock + order"'
    text = planted((first, first.replace("stock + order", "stock"))) + late
    assert mistakes(file(text)) == [
        "46: deciding stock leaves the grid: stock must stay on its axis; "
        "stock=5, order=2 goes to stock=7 (5 of 21 cases)"
    ]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("discount = 0.9", "discount = 1.5", "16: discount must lie in [0, 1); got 1.5"),
        ("discount = 0.9", 'discount = "9 ** 9 ** 9"', "18: discount must be finite; it is inf"),
        (
            "discount = 0.9",
            'discount = "stock"',
            "18: discount: 'stock' is not known at this place",
        ),
        ("discount = 0.9", "interest = 0.1", "18: an interest rate is for events"),
        ("discount = 0.9", "discount = nan", "18: criterion, discount must be finite; got nan"),
        ("discount = 0.9", "discount = 2020-01-01", "18: criterion, discount must be a number, or"),
        ("discount = 0.9", "discount = true", "18: criterion, discount must be a number, or an"),
        ("values = [0, 2, 3]", "", "12: actions need 'values' or 'components'"),
        ("values = [0, 2, 3]", "values = []", "14: actions, values needs at least one entry"),
        ("values = [0, 2, 3]", 'values = "sizes"', "14: no parameter 'sizes' is a list; there are"),
        ("values = [0, 2, 3]", "values = [0, 0]", "8: actions must differ from one another"),
        ('["low", "high"]', '["low", 3]', "10: the values of axis 'season' must be all numbers"),
        ('["low", "high"]', '["low", "low"]', "10: axis values must differ from one another"),
        ('["low", "high"]', "{ from = 0 }", "10: a range needs 'to'"),
        ('["low", "high"]', "{ from = 0, to = 1, step = 0 }", "10: a range goes from its first"),
        ('["low", "high"]', "{ from = 0, to = 1e12 }", "10: a range goes from its first value"),
        ('["low", "high"]', "{ from = 0, to = 1, step = 0.3 }", "10: a range goes from its first"),
        (
            '["low", "high"]',
            "{ from = 0, to = 1, step = 1, points = 2 }",
            "10: a range has 'step' or",
        ),
        ('["low", "high"]', "3", "10: axes, season must be a list of values, a range"),
        (
            "season = [",
            "price = [",
            "10: an axis cannot be called 'price': a parameter has this name",
        ),
        ("season = [", "value = [", "10: an axis cannot be called 'value': a solution holds"),
        ("season = [", "max = [", "10: an axis cannot be called 'max': expressions use it"),
        ("season = [", '"my axis" = [', "10: a name is letters, digits and underscores"),
        ("season = [", "s" * 101 + " = [", "10: a name has at most 100 characters"),
        ("season = [", "__class__ = [", "10: a name is letters, digits and underscores"),
        (
            'name = "order"',
            'name = "stock"',
            "13: the action cannot be called 'stock': an axis has this name",
        ),
        ("[0.5, 2.5]", "[0.5]", "20: its values must be 2 numbers, in the order of season"),
        ("[0.5, 2.5]", '[0.5, "a"]', "20: its values must be 2 numbers, in the order of season"),
        ("values = [0.5, 2.5]", "", "20: a table has 'values', or 'csv' and 'column'"),
        ('by = ["season"]', 'by = ["season", "season"]', "21: a table is looked up by different"),
        ("[0.5, 2.5]", "[\n0.5,\nnan]", "24: tables, mean, values 2 must be finite; got nan"),
        ('"mean[season]"', "inf", "26: distributions, demand, mean must be finite; got inf"),
        ("most = 6", "most = 6\nclass = 1", None),
        (
            'season = ["low", "high"]',
            'season = ["low", "high"]\nclass = [0]\n[terms]\nworst = "2 * class"',
            "13: worst: 'class' is a word of Python: give it another name (character 5)",
        ),
        ('"-demand"', '"-demand * stock"', "39: by: 'stock' is not known at this place, which may"),
        (
            '"-demand"',
            '"stock.__class__"',
            "39: by: '.' is not allowed here: names have no parts (ch",
        ),
        ('"stock + order <= most"', '"stock + order"', "2: feasible: this must be a condition; it"),
        ('"stock + order <= most"', '"stock < 3"', "2: every state needs a feasible action; "),
        (
            '"stock + order <= most"',
            "\"mean[where(stock > 3, 'dry', season)] > 0\"",
            "2: a condition must have a value; stock=4, season=low has none, as there is no mean[d",
        ),
        (
            '"stock + order"',
            "\"where(mean[where(stock > 3, 'dry', season)] > 0, stock, 0)\"",
            "29: deciding stock leaves the grid: stock must stay on its axis; stock=4",
        ),
        (
            '"order + 0.5 * (order > 0)"',
            "\"mean[where(stock > 3, 'dry', season)] > 0\"",
            "29: the reward of deciding stock must be finite; stock=4",
        ),
        ('name = "shop"', "start = { stok = 1 }", "1: unknown axis 'stok'; did you mean 'stock'?"),
        ('name = "shop"', "start = { stock = 99 }", "1: a start must lie on the grid; stock=99"),
        (
            'name = "shop"',
            "nmae = 3",
            "1: unknown key 'nmae' in a model file; did you mean 'name'?",
        ),
        ('name = "shop"', "name = 3", "1: name must be text; got 3"),
        (
            'name = "shop"',
            "name = 'a'\nname = 'b'",
            "2: not a valid TOML file: Cannot overwrite a value",
        ),
        ('name = "shop"', "name = ", "1: not a valid TOML file: Invalid value"),
        (
            'to = "stock + order"',
            'to = "stock + order"\nedge = "wrap"',
            "33: stages 1, edge must be",
        ),
        ("[0.3, 0.7]]", "[0.3, 0.7], 1]", "45: stages 3, matrix 3 must be a row of numbers; got 1"),
        ("[0.3, 0.7]]", "[0.3]]", "42: the move of season must be a rectangular array of numbers"),
        ('axis = "stock"\nnoise', 'axis = "season"\nnoise', None),
    ],
)
def test_a_mistake_is_said_in_one_line_with_its_place(old, new, said, file, mistakes):
    path = file(planted((old, new)))
    if said is None:
        assert ts.read_model(path).n_states == 14  # a text axis shifts by positions
    else:
        assert any(one.startswith(said) for one in mistakes(path)), mistakes(path)


@pytest.mark.parametrize(
    ("old", "place"),
    [
        ('"shop"', "1: name"),
        ('"low"', "10: axes, season 1"),
        ("4.0", "6: parameters, price"),
        ("0, 2, 3", "14: actions, values 1"),
    ],
)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (r"a\u001b[31mX", r"must be printable, on one line; got 'a\x1b[31mX'"),
        (r"a\nb", r"must be printable, on one line; got 'a\nb'"),
        (r"a\u202eb", r"must be printable, on one line; got 'a\u202eb'"),
        ("a" * 101, "has at most 100 characters; got 101"),
    ],
)
def test_text_that_a_model_shows_is_short_and_can_be_printed(
    old, place, text, said, file, mistakes
):
    assert f"{place} {said}" in mistakes(file(planted((old, f'"{text}"'))))


def test_text_that_is_set_from_outside_is_short_and_can_be_printed_too(file):
    path = file(planted(("price = 4.0", 'price = 4.0\nword = "low"\nwords = ["low"]')))
    assert ts.read_model(path, {"word": "high", "words": "low,high"}).n_states == 14
    for settings in ({"word": "\x1b[31m"}, {"words": ["low", "a" * 101]}, {"words": "a\tb"}):
        with pytest.raises(ts.ArgumentError, match=r"word.? (must be printable|has at most 100)"):
            ts.read_model(path, settings)


def test_with_a_horizon_time_is_the_time_and_nothing_else(file, mistakes):
    text = planted(
        ('kind = "discounted"', 'kind = "horizon"\nperiods = 3'),
        ("price = 4.0", "price = 4.0\ntime = 2"),
    )
    assert mistakes(file(text)) == [
        "18: the time cannot be called 'time': a parameter has this name"
    ]


def test_mistakes_of_bytes_and_brackets_have_lines_too(file, mistakes, tmp_path):
    (tmp_path / "model.toml").write_bytes(b"name = 'a'\nx = '\xff'\n")
    assert mistakes(tmp_path / "model.toml") == ["2: the file is not text in UTF-8"]
    assert mistakes(file("a = 1\nb = " + "[" * 5000)) == ["2: brackets are nested at most 16 deep"]
    assert mistakes(file("\n" + "a." * 5000 + "a = 1")) == ["2: a key has at most 16 parts"]
    long = "\n\nx = " + "9" * 5000
    assert mistakes(file(long)) == ["3: a number has at most 64 characters"]


def test_no_more_mistakes_are_told_than_somebody_reads(file, mistakes):
    text = "\n".join(f"x{i} = 1" for i in range(90))
    assert len(mistakes(file(text))) == 50
    with pytest.raises(ts.ModelFileError) as found:
        ts.read_model(file(text))
    assert str(found.value).splitlines()[50:] == ["and 44 more"]  # and 4 keys that are needed
    again = pickle.loads(pickle.dumps(found.value))
    assert (again.mistakes, again.more, str(again)) == (
        found.value.mistakes,
        "44",
        str(found.value),
    )
    wrong = planted(("[[0.8, 0.2], [0.3, 0.7]]", str([["no"] * 300])))
    with pytest.raises(ts.ModelFileError, match=r"\nand at least 150 more$"):
        ts.read_model(file(wrong))
    text = "\n".join(f"x{i} = 1" for i in range(500))
    assert mistakes(file(text)) == ["1: a model file has 500 unknown keys"]


EVENTS = """\
costs_rate = "queue"
[axes]
queue = { from = 0, to = 9 }
[actions]
name = "speed"
values = [1, 2]
[criterion]
kind = "discounted"
interest = 0.1
[[events]]
name = "arrival"
rate = "0.5 * (queue < 9)"
to = { queue = "queue + 1" }
[[events]]
name = "service"
rate = "speed * (queue > 0)"
to = { queue = "queue - 1" }
costs = "speed ** 2"
"""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "interest = 0.1",
            "discount = 0.1",
            "7: with events a discounted criterion has 'interest'",
        ),
        ('queue = "queue + 1"', 'queu = "queue + 1"', "13: unknown axis 'queu'; did you mean 'q"),
        ("0.5 * (", "-0.5 * (", "10: the rate of arrival must be finite and not negative"),
        ('"queue"\n[', '"quue"\n[', "1: costs_rate: unknown name 'quue'; did you mean 'queue'?"),
        (
            'name = "service"',
            'name = "arrival"',
            "15: events must have different names; 'arrival' is used above",
        ),
        ("speed * (", "-speed * (", "14: the rate of service must be finite and not negative; "),
        ('"queue - 1"', '"queue - 2"', "14: the event service leaves the grid: queue must stay"),
        ('"speed ** 2"', '"log(speed - 2)"', "14: the reward of the event service must be finite"),
        ('"queue"\n[', '"log(queue)"\n[', "1: the reward per unit of time must be finite; queue=0"),
        ('"queue"\n[', '"queue"\nclock = 1\n[', "2: the clock must tick at least as fast as all"),
        ("interest = 0.1", "interest = 0", "7: an interest rate must be finite and above 0"),
        ('name = "service"', 'name = "nothing"', "14: an event needs a name of its own, other"),
        ("to = 9", "to = 199_999_999", "3: a range goes from"),
        ('name = "service"', "", "14: an event needs 'name'"),
    ],
)
def test_mistakes_of_events_have_lines_too(old, new, said, file, mistakes):
    assert EVENTS.count(old) == 1
    path = file(EVENTS.replace(old, new))
    (found,) = mistakes(path)
    assert found.startswith(said)


def test_each_of_several_events_that_are_refused_has_its_line(file, mistakes):
    text = EVENTS.replace("0.5 * (", "-0.5 * (").replace('"queue - 1"', '"queue - 2"')
    arrival, service = mistakes(file(text))
    assert arrival.startswith("10: the rate of arrival must be finite and not negative; queue=0")
    assert service.startswith("14: the event service leaves the grid: queue must stay")


def test_events_that_are_too_large_have_the_line_of_the_largest(file, mistakes):
    text = EVENTS.replace("to = 9", "to = 99_999").replace("[1, 2]", "{ from = 1, to = 9999 }")
    held, found = mistakes(file(text))
    assert held.startswith("16: an expression holds at most 200,000,000 numbers at once")
    assert found.startswith("16: a model file describes at most 200,000,000 entries of all")


def test_a_model_has_stages_or_events_and_is_told_so_once(file, mistakes):
    text = "stages = [{ kind = 'pay', pays = 1 }]\n" + EVENTS
    assert mistakes(file(text)) == ["11: a model file has stages or events, not both"]


def test_events_tell_the_model_that_rates_give_in_python(file):
    mine = ts.MDP.from_rates(
        {"queue": range(10)},
        (1, 2),
        [
            ts.Event(
                "arrival",
                lambda queue: 0.5 * (queue < 9),
                to=lambda queue: {"queue": queue + 1},
            ),
            ts.Event(
                "service",
                lambda queue, speed: speed * (queue > 0),
                to=lambda queue: {"queue": queue - 1},
                costs=lambda speed: speed**2,
            ),
        ],
        0.1,
        costs_rate=lambda queue: queue,
        action_name="speed",
    )
    told = ts.read_model(file(EVENTS))
    assert told.fingerprint == mine.fingerprint
    assert told.minimise
    assert told.clock == mine.clock


def test_a_name_that_differs_in_capitals_alone_is_the_nearest():
    from tessella.modelfiles.toml_document import suggest_name

    assert suggest_name("east", ["week", "West", "East"]) == "; did you mean 'East'?"
