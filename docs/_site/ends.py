"""Blocks of code end with their last line: the blank one that closes a session is not drawn."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx


def trim(app: Sphinx, tree: nodes.document) -> None:
    for block in tree.findall(nodes.literal_block):
        text = block.astext().rstrip()
        block.rawsource = text  # Sphinx colours only what is as in the source
        block.children = []
        block += nodes.Text(text)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", trim)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
