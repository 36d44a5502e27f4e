"""The page about model files says what is so: its files are read, its examples run."""

from __future__ import annotations

import re
from pathlib import Path

from support.pages import DOCS, check_page

from tessella.modelfiles.expressions import (
    EXPRESSION_MAX_CHARACTERS,
    NAMED_FUNCTIONS,
    NESTING_MAX_LEVELS,
)
from tessella.modelfiles.model_document import MODEL_FILE_MAX_PERIODS
from tessella.modelfiles.schema import (
    CRITERION_SCHEMA,
    DISTRIBUTION_SCHEMA,
    EVENT_SCHEMA,
    EVENTS_KEYS,
    MODEL_KEYS,
    STAGE_SCHEMA,
    STAGES_KEY,
)
from tessella.modelfiles.toml_document import ReadLimits

PAGE = (DOCS / "model-files.md").read_text()
FILES = re.findall(r"`([\w-]+\.(?:toml|csv))`:\n\n```(?:toml|csv)\n(.*?)```", PAGE, re.DOTALL)


def test_the_examples_of_the_page_are_true(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["shelf.toml", "history.csv", "bakery.toml", "shop.toml", "slips.toml"]
    assert [name for name, _ in FILES] == names
    for name, text in FILES:
        Path(name).write_text(text)
    check_page("model-files.md", at_least=8)


def test_the_page_names_every_key_and_every_kind():
    keys = {*MODEL_KEYS, *STAGES_KEY, *EVENTS_KEYS, *EVENT_SCHEMA["properties"]}
    for schema in (STAGE_SCHEMA, CRITERION_SCHEMA, DISTRIBUTION_SCHEMA):
        for branch in schema["oneOf"]:
            keys |= {branch["properties"]["kind"]["const"], *branch["properties"]}
    said = set(re.findall(r"\w+", "".join(re.findall(r"`[^`\n]+`", PAGE))))
    assert keys - said == set()


def test_the_page_names_every_function_and_the_bounds():
    said = set(re.findall(r"`(\w+)[`(]", PAGE))
    assert set(NAMED_FUNCTIONS) <= said
    assert f"{EXPRESSION_MAX_CHARACTERS:,} characters" in PAGE
    assert f"{NESTING_MAX_LEVELS} brackets deep" in PAGE
    limits = ReadLimits()
    assert f"{limits.max_states // 10**6} million states, {limits.max_actions:,} actions" in PAGE
    assert f"{MODEL_FILE_MAX_PERIODS:,} periods" in PAGE
    assert f"{limits.max_entries // 10**6} million combinations" in PAGE
