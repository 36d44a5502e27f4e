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

extensions = ["myst_parser", "accessible", "blocks", "breaks", "mathml", "unlisted"]
exclude_patterns = ["_site", "_static"]

myst_enable_extensions = ["dollarmath", "attrs_block"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = "tessella"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sourcelink = False
highlight_language = "none"  # a block without a language is what one types in a shell
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"


def setup(app) -> None:
    app.add_lexer("csv", TextLexer)
