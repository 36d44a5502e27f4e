"""Blocks of code and of what it prints.

They end with their last line: the blank one that closes a session is not drawn. Long lines that are
printed go on below (``site.css``), but not those of tables, which stand in columns.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

PRINTED = re.compile(r'<span class="go">(.*?)</span>')
COLUMNS = re.compile(r"\S {2,}\S")


def trim(app: Sphinx, tree: nodes.document) -> None:
    for block in tree.findall(nodes.literal_block):
        if [type(child) for child in block.children] != [nodes.Text]:
            continue  # with markup of its own, which Sphinx does not colour
        text = block.astext().rstrip()
        block.rawsource = text  # Sphinx colours only what is as in the source
        block.children = []
        block += nodes.Text(text)


def keep_columns(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    def marked(found: re.Match[str]) -> str:
        kind = "go columns" if COLUMNS.search(found[1]) else "go"
        return f'<span class="{kind}">{found[1]}</span>'

    if "body" in context:
        context["body"] = PRINTED.sub(marked, context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", trim)
    app.connect("html-page-context", keep_columns)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
