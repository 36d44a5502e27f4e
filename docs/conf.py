"""The documentation site: Markdown pages of this folder, made into HTML by `make docs`.

Nothing is fetched while it is built, and no page loads anything from outside: formulas are MathML,
fonts are those of the reader's system.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pygments.lexers.special import TextLexer

sys.path.insert(0, str(Path(__file__).parent / "_site"))

project = "tessella"
author = "the tessella authors"
copyright = "the tessella authors; MIT licence"
version = release = "0.1.0"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon"]
extensions += ["blocks", "breaks", "mathml", "module_list", "public_names"]
exclude_patterns = ["_site", "_static"]

myst_enable_extensions = ["dollarmath", "attrs_block"]
myst_heading_anchors = 4

autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
# Shown by their names, not by what they stand for.
ALIASES = "ArrayLike Actions Callback Feasible Function Labels Layout OffGrid Rim Scale Start"
autodoc_type_aliases = {name: name for name in ALIASES.split()}
autosummary_generate = False
napoleon_use_ivar = True
napoleon_attr_annotations = False
napoleon_use_rtype = False
python_maximum_signature_line_length = 80
python_use_unqualified_type_names = True
add_module_names = False

html_theme = "furo"
html_title = "tessella"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
highlight_language = "none"  # a block without a language is what one types in a shell
pygments_style = "friendly"
pygments_dark_style = "github-dark"


def setup(app) -> None:
    app.add_lexer("csv", TextLexer)
