"""Imports point one way, and importing the package is quick.

The order of the layers is the order of the data. Two rules are part of the science: learners and
baselines never see the solver, and the judge never sees a learner.
"""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import tessella

SOURCE = Path(tessella.__file__).parent

LAYERS = (
    "errors",
    "files",
    "rounding",
    "support",
    "numerics",
    "grid",
    "criteria",
    "mdp",
    "problems",
    "modelfiles",
    "solvers",
    "tessellation",
    "learn",
    "baselines",
    "certificates",
    "checker",
    "rules",
    "plot",
    "conformance",
    "runner",
    "paper",
    "explore",
    "cli",
    "__main__",
)

# What a layer must not know, although it stands above it; directly or through another module.
BLIND = {
    "learn": {"solvers", "baselines"},
    "baselines": {"solvers", "learn"},
    "certificates": {"learn", "baselines"},
    "plot": {"solvers", "learn", "baselines", "certificates", "rules"},
}


@dataclass(frozen=True)
class Import:
    """One import of one module of the package by another."""

    importer: str  # "solvers.loop"
    imported: str  # "mdp.model"
    line: int
    when: str  # "loading", "calling" or "typing"

    def __str__(self) -> str:
        return f"{self.importer} (line {self.line}) imports {self.imported} when {self.when}"


def layer(module: str) -> str:
    return module.split(".")[0]


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules() -> dict[str, Path]:
    """Name within the package to file; "" is the package's own table of contents."""
    return {module_name(path): path for path in sorted(SOURCE.rglob("*.py"))}


def walk(node: ast.AST, when: str) -> Iterator[tuple[ast.Import | ast.ImportFrom, str]]:
    """All import statements below ``node``, with the moment at which they run."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, when
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from walk(child, when if when == "typing" else "calling")
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for statement in child.body:
                yield from walk(ast.Module([statement], []), "typing")
            for statement in child.orelse:
                yield from walk(ast.Module([statement], []), when)
        else:
            yield from walk(child, when)


def imports_of(name: str, text: str, known: set[str], package: bool = False) -> list[Import]:
    """The imports of package modules in the source ``text`` of the module ``name``."""
    found = []
    for node, when in walk(ast.parse(text), "loading"):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        else:
            targets = [f"{_base(node, name, package)}.{alias.name}" for alias in node.names]
        for target in targets:
            if target.split(".")[0] != "tessella":
                continue
            inside = target.removeprefix("tessella").lstrip(".")
            while inside not in known:  # a name inside a module, not a module
                inside = inside.rpartition(".")[0]
            found.append(Import(name, inside, node.lineno, when))
    return found


def _base(node: ast.ImportFrom, name: str, package: bool) -> str:
    if not node.level:
        return node.module or ""
    here = f"tessella.{name}".rstrip(".").split(".")
    up = here[: len(here) - node.level + (1 if package else 0)]
    return ".".join([*up, *([node.module] if node.module else [])])


@cache
def all_imports() -> list[Import]:
    known = set(modules())
    return [
        one
        for name, path in modules().items()
        if name
        for one in imports_of(name, path.read_text(), known, path.name == "__init__.py")
    ]


def upward(imports: list[Import]) -> list[Import]:
    """Imports of a later layer; even the types of a later layer are none of an earlier one's."""
    order = {name: position for position, name in enumerate(LAYERS)}
    return [
        one for one in imports if order.get(layer(one.imported), 0) > order[layer(one.importer)]
    ]


def peeking(imports: list[Import]) -> list[str]:
    """Chains of imports, at run time, from a layer to one that it must not know."""
    steps: dict[str, list[str]] = {}
    for one in imports:
        if one.when != "typing":
            steps.setdefault(one.importer, []).append(one.imported)
    found = []
    for start in sorted(steps):
        forbidden = BLIND.get(layer(start), set())
        queue, seen = [(start,)], {start}
        while queue:
            chain = queue.pop(0)
            for target in steps.get(chain[-1], []):
                if layer(target) in forbidden:
                    found.append(" -> ".join([*chain, target]))
                elif target not in seen:
                    seen.add(target)
                    queue.append((*chain, target))
    return found


def cycle(imports: list[Import]) -> list[str]:
    """Modules that import one another, as one closed chain; empty if none do.

    An import that waits in a function until it is called ties its modules together all the same.
    """
    steps: dict[str, list[str]] = {}
    for one in imports:
        if one.when != "typing" and one.imported != one.importer:
            steps.setdefault(one.importer, []).append(one.imported)
    done: set[str] = set()

    def visit(module: str, chain: list[str]) -> list[str]:
        if module in chain:
            return [*chain[chain.index(module) :], module]
        if module in done:
            return []
        for target in steps.get(module, []):
            found = visit(target, [*chain, module])
            if found:
                return found
        done.add(module)
        return []

    return next((found for module in sorted(steps) if (found := visit(module, []))), [])


def test_every_module_belongs_to_a_layer():
    assert {layer(name) for name in modules() if name} <= set(LAYERS)


def test_no_module_imports_from_a_later_layer():
    assert [str(one) for one in upward(all_imports())] == []


def test_learners_do_not_see_the_solver_and_the_judge_does_not_see_learners():
    assert peeking(all_imports()) == []


def test_learners_and_baselines_do_not_even_name_the_solver():
    named = [
        str(one)
        for one in all_imports()
        if layer(one.importer) in ("learn", "baselines") and layer(one.imported) == "solvers"
    ]
    assert named == []


def test_no_modules_import_one_another_not_even_when_called():
    assert cycle(all_imports()) == []


def test_of_the_solvers_only_solve_knows_constraints():
    """Constrained optimisation stands above: its pricing problem is an ordinary solve."""
    folder = "solvers.constraints"
    known_by = {one.importer for one in all_imports() if one.imported.startswith(folder)}
    solvers = {name for name in known_by if layer(name) == "solvers"}
    assert {name for name in solvers if not name.startswith(folder)} == {"solvers.solve"}


def test_only_the_last_layers_import_the_table_of_contents():
    """The explorer and the commands, which may use all that it leads to."""
    importers = {layer(one.importer) for one in all_imports() if not one.imported}
    assert importers <= {"explore", "cli"}


KNOWN = {
    "",
    "grid",
    "mdp",
    "mdp.model",
    "mdp.file",
    "solvers",
    "solvers.loop",
    "learn",
    "learn.fit",
    "plot",
}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("mdp.model", "from tessella.solvers.loop import run", ("solvers.loop", "loading")),
        ("mdp.model", "import tessella.solvers.loop as d", ("solvers.loop", "loading")),
        ("mdp.model", "from tessella import solvers", ("solvers", "loading")),
        ("mdp.model", "from tessella.solvers import solve", ("solvers", "loading")),
        ("mdp.model", "from ..solvers.loop import run", ("solvers.loop", "loading")),
        ("mdp.model", "from .. import solvers", ("solvers", "loading")),
        ("mdp.model", "def f():\n    from tessella.solvers import solve", ("solvers", "calling")),
        (
            "mdp.model",
            "class C:\n  def f(self):\n    import tessella.solvers",
            ("solvers", "calling"),
        ),
        (
            "mdp.model",
            "if TYPE_CHECKING:\n    from tessella.solvers import S",
            ("solvers", "typing"),
        ),
        ("mdp.model", "try:\n    import tessella.solvers\nexcept E: ...", ("solvers", "loading")),
    ],
)
def test_an_upward_import_is_seen_however_it_is_written(name, text, expected):
    found = imports_of(name, text, KNOWN)
    assert [(one.imported, one.when) for one in found] == [expected]
    assert upward(found) == found


def test_peeking_through_another_module_is_seen():
    chain = [
        Import("learn.fit", "mdp.model", 1, "loading"),
        Import("mdp.model", "solvers.loop", 1, "calling"),
    ]
    assert peeking(chain) == ["learn.fit -> mdp.model -> solvers.loop"]
    assert peeking([Import("plot", "solvers", 1, "typing")]) == []
    assert peeking([Import("plot", "solvers", 1, "loading")]) == ["plot -> solvers"]


@pytest.mark.parametrize("there", ["loading", "calling"])
@pytest.mark.parametrize("back", ["loading", "calling"])
def test_a_cycle_is_seen_wherever_its_imports_stand(there, back):
    both = [Import("mdp.model", "mdp.file", 1, there), Import("mdp.file", "mdp.model", 1, back)]
    assert cycle(both) == ["mdp.file", "mdp.model", "mdp.file"]


def test_naming_a_type_of_the_other_module_makes_no_cycle():
    there, back = Import("mdp.model", "mdp.file", 1, "loading"), ("mdp.file", "mdp.model", 1)
    assert cycle([there, Import(*back, "typing")]) == []


DESIGN = SOURCE.parents[1] / "DESIGN.md"


def test_every_module_says_what_it_is_in_a_sentence():
    silent = []
    for name, path in modules().items():
        docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
        if not docstring.split("\n\n")[0].strip():
            silent.append(name)
    assert silent == []


def test_the_type_stub_lists_the_public_names():
    """`python scripts/public_stub.py` writes it."""
    script = runpy.run_path(str(SOURCE.parents[1] / "scripts" / "public_stub.py"))
    assert (SOURCE / "__init__.pyi").read_text() == script["render"]()


def test_the_layers_in_the_design_page_are_those_of_the_package():
    table = re.findall(r"^\| (`.*?`) \|", DESIGN.read_text(), re.MULTILINE)
    drawn = [name for names in table for name in re.findall(r"\w+", names)]
    built = {layer(name) for name in modules() if name}
    assert drawn == [name for name in LAYERS if name in built]


HEAVY = ("jax", "sklearn", "matplotlib", "xarray", "pandas", "scipy.stats", "dask", "netCDF4")


def run(code: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return result.stdout


def test_importing_the_package_loads_nothing_heavy():
    loaded = run("import sys, tessella; print(*sys.modules)").split()
    assert [name for name in HEAVY if name in loaded] == []


def test_building_simulating_and_planning_do_not_load_the_compiled_engine():
    code = (
        "import sys, tessella as ts; m = ts.benchmark('INV-Mix');"
        "ts.simulate(m, [0] * m.n_states, 3, 0); ts.plan(m, calibrate=False);"
        "print(*sys.modules)"
    )
    assert "jax" not in run(code).split()


def test_importing_the_package_loads_the_standard_library_and_itself():
    """Every other module waits until a name that needs it is used."""
    before = set(run("import sys; print(*sys.modules)").split())
    loaded = set(run("import sys, tessella; print(*sys.modules)").split()) - before
    tops = {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names)
    assert tops == {"tessella"}
    assert {name for name in loaded if name.startswith("tessella.")} == set()
