"""Long names in tables may break where a word of theirs ends: after ``_``, ``.``, ``/``, ``:``."""

from __future__ import annotations

import re

from docutils import nodes
from sphinx.application import Sphinx

WORD = re.compile(r"(?<=[_/.:])(?=\w)")


def let_break(app: Sphinx, tree: nodes.document, name: str) -> None:
    if app.builder.format != "html":
        return
    for cell in tree.findall(nodes.entry):
        for literal in list(cell.findall(nodes.literal)):
            if len(literal.children) == 1:
                parts = WORD.split(literal.astext())
                literal.children = []
                for k, part in enumerate(parts):
                    literal += [nodes.raw("", "<wbr>", format="html")] * bool(k)
                    literal += nodes.Text(part)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-resolved", let_break)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
