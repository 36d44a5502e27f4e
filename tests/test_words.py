"""Names are plain words, and one name means one thing."""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from count_words import count_words, keep_prose, list_pages

import tessella
from tessella.paper.published import paper_study

SOURCE = Path(tessella.__file__).parent

# What nobody says today, or what only its author understands.
FORBIDDEN = {"dearest", "faced", "lively", "suits", "aught", "behold", "hence", "thence", "whence"}


# Words of a private dialect, and what to write instead. Prose of the README and the docs is free of
# them, outside blocks of code and inline code.
GLOSSARY = {
    r"told|tells?|telling": "state, describe, define; distinguish",
    r"refus\w+": "reject, raise an error",
    r"stands?|stood": "is",
    r"besides?": "with, next to, in addition",
    r"of one's own|one's own": "your own, custom",
    r"zoo": "example problems, published problems, gallery",
    r"promis\w+": "loss limit, guarantee",
    r"anew": "again",
    r"asked for": "requested",
    r"so many(?! that)": "that many, a number of",
    r"judg\w+": "evaluate",
    r"for ever": "forever",
    r"whoever": "who; the person or program that",
    r"undercuts?": "lose less than, be better than",
    r"by lot|draws? lots": "at random",
    r"forgiv\w+": "allow",
    r"mend(?:s|ed|ing)?": "fix",
    r"hence|thence|whence|thereby|therein|wherein|whereof": "so, therefore",
    r"aught|naught|nought|lest|ere": "nothing, so that not, before",
    r"knows? no": "has no, does not know",
}
PROSE_MAX_WORDS = 28_000


@cache
def names() -> dict[str, set[str]]:
    """Every name that the package gives to something, with the files that give it."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            for name in given(node):
                found[name].add(str(path.relative_to(SOURCE)))
    return found


def given(node: ast.AST) -> list[str]:
    """The names that one node of a syntax tree gives."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.arg):
        return [node.arg]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    return [node.asname] if isinstance(node, ast.alias) and node.asname else []


def test_no_name_is_archaic_or_private():
    strange = {
        name: files for name, files in names().items() if FORBIDDEN & set(name.lower().split("_"))
    }
    assert strange == {}


def test_settings_become_json_and_come_back_in_one_place():
    """Six functions called ``_plain`` did that once, each in its own way."""
    assert "_plain" not in names()
    assert names()["setting_to_json"] == names()["setting_from_json"] == {"support/json_values.py"}


def test_every_way_of_giving_a_name_is_seen():
    text = "import a as b\nasync def c(d, *e): f = g\nclass h:\n    i: int = 1\nfor j in k: ..."
    found = [name for node in ast.walk(ast.parse(text)) for name in given(node)]
    assert sorted(found) == list("bcdefhij")


def test_no_module_gives_a_public_name_to_something_else():
    given_by: dict[str, set[str]] = defaultdict(set)
    for path in SOURCE.rglob("*.py"):
        file = str(path.relative_to(SOURCE))
        for node in ast.parse(path.read_text()).body:
            name = getattr(node, "name", "")
            if name in tessella.__all__ and file != "cli.py":
                given_by[name].add(file)
    assert {name: files for name, files in given_by.items() if len(files) > 1} == {}


def test_the_runner_does_not_know_the_paper():
    told = [path.name for path in (SOURCE / "runner").rglob("*.py") if "paper" in path.read_text()]
    assert told == []


def test_what_is_solved_is_called_a_problem_wherever_a_user_reads_or_types_it():
    docs = SOURCE.parents[1] / "docs"
    pages = [*(SOURCE / "paper").rglob("*.j2"), *(SOURCE / "cli").glob("*.py"), docs / "study.md"]
    assert [page.name for page in pages if "environments" in page.read_text()] == []
    assert "problems" in inspect.signature(paper_study).parameters


def test_examples_of_the_docs_are_run_in_one_place():
    tests = SOURCE.parents[1] / "tests"
    runner = "DocTest" + "Runner"  # this file does not run them
    found = [path.name for path in tests.rglob("*.py") if runner in path.read_text()]
    assert found == ["pages.py"]


def test_a_name_with_a_colon_is_imported_in_one_place():
    found = [path.name for path in SOURCE.rglob("*.py") if "import_module(m" in path.read_text()]
    assert found == ["registry.py"]


def test_references_that_run_once_say_so_in_one_place():
    text = (SOURCE / "runner" / "methods" / "builtin.py").read_text()
    _, _, references = text.partition("class DeterministicMethod")
    assert references.count("[(0, 0)]") == 1


def list_prose() -> list[Path]:
    """All pages that people read, generated ones included."""
    root = SOURCE.parents[1]
    generated = [root / "docs" / name for name in ("generated", "api")]
    pages = [page for folder in generated for page in sorted(folder.glob("*.md"))]
    names = ("CHANGELOG.md", "CONTRIBUTING.md", "DESIGN.md", "benchmarks/README.md")
    return [*list_pages(), *pages, *(root / name for name in names)]


def find_private_words(text: str) -> list[str]:
    """The glossary's words in the prose of a page, each with what to write instead."""
    return find_in_prose(keep_prose(text))


def find_in_prose(text: str) -> list[str]:
    """The glossary's words outside of inline code, each with what to write instead."""
    prose = re.sub(r'``.*?``|`[^`]*`|"refuse"|\]\([^)]*\)|stand-alone', " ", text, flags=re.DOTALL)
    return [
        f"{found[0]!r}: {better}"
        for pattern, better in GLOSSARY.items()
        for found in re.finditer(rf"\b(?:{pattern})\b", prose, re.IGNORECASE)
    ]


def list_sentences(source: str) -> list[str]:
    """Docstrings and text of messages and help: the strings of a module that have a space."""
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    texts = [node.value for node in nodes if isinstance(node.value, str) and " " in node.value]
    program = r"^ *>>> .*(?:\n.+)*"  # with what it prints
    return [re.sub(rf"{program}|^ *\w+:", " ", text, flags=re.MULTILINE) for text in texts]


def list_comments(source: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


@pytest.mark.parametrize("page", list_prose(), ids=lambda page: "/".join(page.parts[-2:]))
def test_prose_is_free_of_private_words(page):
    assert find_private_words(page.read_text()) == []


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_docstrings_messages_and_comments_are_free_of_private_words(path):
    source = path.read_text()
    texts = [*list_sentences(source), *list_comments(source)]
    assert [word for text in texts for word in find_in_prose(text)] == []


def test_private_words_are_found_in_docstrings_messages_and_comments():
    source = 'def f():\n    """What was asked for."""\n    raise E(f"{x} is refused")  # for ever'
    texts = [*list_sentences(source), *list_comments(source)]
    assert len([word for text in texts for word in find_in_prose(text)]) == 3
    assert list_sentences('f("told"); zoo = "besides"') == []
    assert find_in_prose("See ``told`` and `zoo`.") == []


def test_private_words_are_found_in_prose_and_not_in_code():
    assert len(find_private_words("What was told stands beside the zoo.")) == 4
    assert find_private_words('`off_grid="refuse"`\n\n```\ntold\n```\n| told |') == []


def test_readme_and_docs_have_few_words():
    """`python scripts/count_words.py` lists the pages by length."""
    assert sum(count_words(page) for page in list_pages()) <= PROSE_MAX_WORDS
