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
    rule = ts.compress(ts.solve(ts.benchmark(label)), loss, prefer="smallest")
    assert script["cell"](rule) == expected


def test_the_table_of_published_trees_has_the_models_of_its_script(benchmarks):
    rows = read_rows("yardstick.md")
    for name, (problem, settings, published, _) in benchmarks("yardstick")["MODELS"].items():
        states, *_, printed, _, _, _, _ = rows[name]
        assert states == f"{ts.problem(problem).build(**settings).n_states:,}"
        assert printed == ", ".join(map(str, published))


def read_results() -> str:
    """The page of results on rules, without line breaks."""
    return " ".join((ROOT / "docs" / "results" / "rules.md").read_text().split())


def read_count(cell: str) -> int:
    """The parameters in a cell of the table of rules; 0 where another row has them."""
    found = re.match(r"\d+", cell)
    return int(found[0]) if found else 0


def test_the_page_of_results_counts_parameters_as_the_table_does():
    rows = {name: cells for name, cells in read_rows("rules.md").items() if len(cells) == 9}
    losses = rows.pop("problem")
    exact, one_percent = losses.index("0.0%"), losses.index("1.0%")
    largest = max(read_count(cells[exact]) for cells in rows.values())
    sizes = {name: read_count(cells[one_percent]) for name, cells in rows.items()}
    assert f"Exact policies need up to {largest}." in read_results()
    assert f"INV-Hard needs {sizes.pop('INV-Hard')}." in read_results()
    assert {n for name, n in sizes.items() if name.startswith("INV") and n} == {2}
    assert {n for name, n in sizes.items() if name.startswith("QUE") and n} == {1}


def test_the_page_of_results_counts_seconds_and_proofs_as_the_table_of_trees_does():
    rows = read_rows("yardstick.md")
    columns = rows.pop("model")
    del rows["---"]
    frontier, proofs, above = (columns.index(c) for c in ("frontier, s", "proofs, s", "above"))
    seconds = {name: round(float(cells[frontier])) for name, cells in rows.items()}
    slow = ", ".join(f"{name}: {seconds.pop(name)}" for name in ("firewire-3", "storm_csma2"))
    most_proofs = max(round(float(cells[proofs])) for cells in rows.values())
    published = [cells for cells in rows.values() if cells[columns.index("published")] != "-"]
    sizes = [cell for cells in published for cell in cells[1:5]]
    n_proven = sum(cell.startswith("= ") for cell in sizes)
    assert {cells[above] for cells in rows.values()} == {"0"}
    assert f"{n_proven} of the {len(sizes)} sizes are proven minimal" in read_results()
    assert f"at most {max(seconds.values())} processor seconds for all sizes" in read_results()
    assert f"({slow}), and the proofs at most {most_proofs} more" in read_results()


def test_the_page_of_results_has_the_losses_of_the_tables_of_stock_and_of_cart():
    _, *stock = (ROOT / "docs/generated/perishable_rules.md").read_text().split("\n| ")[1:]
    losses = [[float(c) for c in re.findall(r"([\d.]+)%", row)] for row in stock]
    base, _, _, three, _, five, *_ = zip(*filter(None, losses), strict=True)
    assert f"Three parameters stay within {max(three)} % of the optimum" in read_results()
    assert f"five within {max(five)} %" in read_results()
    assert f"loses {min(base):.1f} to {max(base):.1f} %" in read_results()
    cart = [c for c in read_rows("cart.md").values() if re.match(r"[\d.]+$", "".join(c[2:3]))]
    shares = [float(cells[2]) for cells in cart]
    assert {cells[1] for cells in cart} == {"0"}
    span = f"between {100 * min(shares):.0f} and {100 * max(shares):.0f} % of CART's"
    assert span in read_results()


@pytest.mark.parametrize(("limit", "size", "printed"), [(0.006, 2, 0.59), (0.00115, 3, 0.114)])
def test_the_last_case_of_two_suppliers_loses_what_its_table_says(limit, size, printed):
    mdp = ts.problem("dual_sourcing").build(lead_time=4, express_cost=110.0)
    rule = ts.compress(ts.solve(mdp), limit, classes=["order up to"], time_limit=60)
    assert rule.size == size
    assert 100 * rule.facts["relative_loss"] == pytest.approx(printed, abs=0.005)
    assert "| 4, 110 | 220.6122 | 0.59 % | 0.114 % |" in read_results()
