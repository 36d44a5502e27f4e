"""Generated tables of the docs name their script, and their quick entries are what the code gives.

The table of the study is compared whole in paper/test_published.py, the geometry in
tessellation/test_paper_policies.py, pictures in paper/test_pictures.py.
"""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

import tessella as ts

ROOT = Path(__file__).parents[1]
GENERATED = ROOT / "docs" / "generated"


@pytest.fixture(scope="module")
def benchmarks():
    """Scripts of the benchmarks by name, run as modules."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    yield lambda name: runpy.run_path(str(ROOT / "benchmarks" / f"{name}.py"))
    sys.path.remove(str(ROOT / "benchmarks"))


def read_rows(name: str) -> dict[str, list[str]]:
    """The rows of a table, by their first cell."""
    lines = (GENERATED / name).read_text().splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return {first: cells for first, *cells in rows}


@pytest.mark.parametrize("page", sorted(GENERATED.glob("*.md")), ids=lambda page: page.name)
def test_every_generated_page_names_a_script_or_command_that_is_there(page):
    made_by = re.search(r"(?:Written|Made) by `(.*?)`", page.read_text()).group(1)
    scripts = re.findall(r"(?:benchmarks|scripts)/[\w.]+", made_by)
    assert made_by == "tessella paper" or (ROOT / scripts[0]).exists()


def test_the_page_of_the_benchmarks_lists_every_script():
    folder = ROOT / "benchmarks"
    scripts = [path for path in folder.glob("*.py") if "__main__" in path.read_text()]
    page = (folder / "README.md").read_text()
    listed = set(re.findall(r"python benchmarks/(\w+\.py)", page))
    assert sorted(path.name for path in scripts) == sorted(listed)


@pytest.mark.parametrize(("label", "loss"), [("QUE-Mix", 0.001), ("QUE-Lin", 0.01)])
def test_the_table_of_rules_is_what_the_code_gives(benchmarks, label, loss):
    """Quick entries of it: otherwise run benchmarks/rules.py."""
    script = benchmarks("rules")
    expected = read_rows("rules.md")[label][script["LOSSES"].index(loss)]
    assert script["cell"](ts.compress(ts.solve(ts.benchmark(label)), loss)) == expected


def test_the_table_of_published_trees_has_the_models_of_its_script(benchmarks):
    rows = read_rows("yardstick.md")
    for name, (problem, settings, published, _) in benchmarks("yardstick")["MODELS"].items():
        states, *_, printed, _, _, _, _ = rows[name]
        assert states == f"{ts.problem(problem).build(**settings).n_states:,}"
        assert printed == ", ".join(map(str, published))
