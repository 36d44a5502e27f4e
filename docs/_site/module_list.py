"""``.. module-list::``: every module of tessella with the first sentence of its docstring."""

from __future__ import annotations

import ast
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import tessella

SOURCE = Path(tessella.__file__).parent


class ModuleList(SphinxDirective):
    """One list for each folder."""

    def run(self) -> list[nodes.Node]:
        here = nodes.container()
        lines = module_lines()
        self.state.nested_parse(StringList(lines, source=self.env.docname), 0, here)
        return here.children


def module_lines() -> list[str]:
    lines = []
    for folder in sorted({path.parent for path in SOURCE.rglob("*.py")}):
        name = ".".join(("tessella", *folder.relative_to(SOURCE).parts))
        lines += ["", f"``{name}``", ""]
        for path in sorted(folder.glob("*.py")):
            lines.append(f"- ``{path.name}``: {describe(path)}")
    return lines


def describe(path: Path) -> str:
    """The first paragraph of a module's docstring, on one line."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.split("\n\n")[0].split())


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("module-list", ModuleList)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
