"""The page of the command line: its files are written and its commands run, in an empty folder."""

from __future__ import annotations

import doctest
import re
import shlex
import shutil
import sqlite3
from pathlib import Path

import pytest
from support.pages import check_page

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "command-line.md").read_text()
FILE = re.compile(r"^```(?:csv|toml) (\S+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```console\n\$ tessella (.*?)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def follow(page: str, run, folder: Path) -> int:
    """Write the files of a page and run its commands; how many there are."""
    text = (DOCS / page).read_text()
    for name, content in FILE.findall(text):
        (folder / name).write_text(content)
    commands = BLOCK.findall(text)
    for words, told in commands:
        done = run(*shlex.split(words))
        assert done.status == 0, done.err
        same = doctest.OutputChecker().check_output(told, done.out, doctest.ELLIPSIS)
        assert same, f"{words}\n{done.out}"
    return len(commands)


def query(path: Path, shelf: str) -> list[tuple]:
    """What a rule in SQL answers for the rows of a shelf."""
    base = sqlite3.connect(":memory:")
    base.execute(f"create table shelf as {shelf}")
    rule = path.read_text().rstrip().rstrip(";")
    return base.execute(f"select {rule} from shelf order by stock").fetchall()


def test_a_column_of_demand_becomes_a_rule_in_sql_by_six_commands(run, tmp_path, monkeypatch):
    assert follow("tutorials/toml.md", run, tmp_path) == 6
    shelf = "select 4 as stock, 5 as coming union select 30, 15"
    assert query(tmp_path / "rule.sql", shelf) == [(15,), (0,)]
    monkeypatch.chdir(tmp_path)
    check_page("tutorials/toml.md", at_least=4)


def test_a_service_level_becomes_a_rule_in_sql_by_four_commands(run, tmp_path):
    shutil.copy(DOCS / "tutorials" / "demand.csv", tmp_path)
    assert follow("tutorials/service-levels.md", run, tmp_path) == 4
    assert (tmp_path / "reorder.xlsx").is_file()
    shelf = "select 3 as stock, 6 as due1, 0 as due2 union select 13, 0, 0"
    assert query(tmp_path / "reorder.sql", shelf) == [(12,), (0,)]


def test_the_map_of_the_first_five_minutes_is_what_is_printed(run):
    ((words, told),) = BLOCK.findall((DOCS / "start.md").read_text())
    assert run(*shlex.split(words)).out == told


def test_no_other_page_shows_what_commands_print():
    shown = [page.name for page in DOCS.rglob("*.md") if "```console" in page.read_text()]
    assert sorted(shown) == ["service-levels.md", "start.md", "toml.md"]


def test_the_page_names_every_command():
    from tessella.cli import COMMAND_NAMES

    listed = re.findall(r"^\| `(\w+)", PAGE.split("## Commands")[1], re.MULTILINE)
    assert tuple(listed) == COMMAND_NAMES


@pytest.mark.parametrize("name", ["commands.schema.json", "model-files.md", "deploying.md"])
def test_what_the_page_leads_to_is_there(name):
    assert f"({name})" in PAGE
    assert (DOCS / name).is_file()


PAGES = [DOCS.parent / "README.md", *DOCS.rglob("*.md")]
TYPED = {
    (page.name, line.strip())
    for page in PAGES
    for block in re.findall(r"^```(?:console|sh)?\n(.*?)^```", page.read_text(), re.M | re.S)
    for line in re.findall(r"^(?:\$ )?(tessella .*?)(?:  +#.*)?$", block, re.M)
}


@pytest.mark.parametrize(("page", "line"), sorted(TYPED))
def test_commands_in_the_pages_are_commands_with_those_options(page, line):
    import click

    from tessella.cli import main

    _, name, *words = shlex.split(line.split(" > ")[0])
    command = main.get_command(click.Context(main), name)
    assert command is not None, name
    known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)}
    asked = {word.partition("=")[0] for word in words if re.match(r"-+[a-z]", word)}
    assert asked <= known | {"--help", "-h"}


def test_help_says_of_each_command_what_its_own_help_says():
    import click

    from tessella.cli import COMMAND_SECTIONS, main

    for commands in COMMAND_SECTIONS.values():
        for name, said in commands.items():
            found = main.get_command(click.Context(main), name)
            assert found is not None
            assert found.get_short_help_str(200) == said
