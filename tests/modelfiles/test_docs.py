"""The page about model files says what is so: its files are read, its examples run."""

from __future__ import annotations

import re
from pathlib import Path

from support.pages import DOCS, check_page

from tessella.modelfiles.expressions.parse import DEEPEST
from tessella.modelfiles.expressions.tokens import LONGEST
from tessella.modelfiles.expressions.tree import FUNCTIONS
from tessella.modelfiles.extent import MOST_ACTIONS, MOST_ENTRIES, MOST_STATES
from tessella.modelfiles.own_model import MOST_PERIODS
from tessella.modelfiles.schema import CRITERION, DISTRIBUTION, EVENT, OWN, STAGE, STAGES

PAGE = (DOCS / "model-files.md").read_text()
FILES = re.findall(r"`([\w-]+\.(?:toml|csv))`:\n\n```(?:toml|csv)\n(.*?)```", PAGE, re.DOTALL)


def test_the_examples_of_the_page_are_true(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert [name for name, _ in FILES] == ["shelf.toml", "history.csv", "bakery.toml", "slips.toml"]
    for name, text in FILES:
        Path(name).write_text(text)
    check_page("model-files.md", at_least=8)


def test_the_page_names_every_key_and_every_kind():
    keys = {*OWN, *STAGES, *EVENT["properties"]}
    for schema in (STAGE, CRITERION, DISTRIBUTION):
        for branch in schema["oneOf"]:
            keys |= {branch["properties"]["kind"]["const"], *branch["properties"]}
    said = set(re.findall(r"\w+", "".join(re.findall(r"`[^`\n]+`", PAGE))))
    assert keys - said == set()


def test_the_page_names_every_function_and_the_bounds():
    said = set(re.findall(r"`(\w+)[`(]", PAGE))
    assert set(FUNCTIONS) <= said
    assert f"{LONGEST:,} characters" in PAGE
    assert f"{DEEPEST} brackets deep" in PAGE
    assert f"{MOST_STATES // 10**6} million states, {MOST_ACTIONS:,} actions" in PAGE
    assert f"{MOST_PERIODS:,} periods" in PAGE
    assert f"{MOST_ENTRIES // 10**6} million combinations" in PAGE
