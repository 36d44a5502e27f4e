"""Pages of some folders are linked from others, and are not in the navigation.

Raw tables are not in the search index either: they would come before the pages that explain them.
"""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx

FOLDERS = ("gallery/", "generated/")
NOT_SEARCHED = "generated/"


def leave_out(app: Sphinx, tree: nodes.document) -> None:
    name = app.env.docname
    if name.startswith(FOLDERS):
        app.env.metadata[name]["orphan"] = True
    if name.startswith(NOT_SEARCHED):
        app.env.metadata[name]["nosearch"] = True


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", leave_out)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
