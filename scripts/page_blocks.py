"""Parts of a page that a script writes, between two comments that name them."""

from __future__ import annotations


def replace_block(text: str, name: str, content: str) -> str:
    """``text``, with ``content`` between ``<!-- name -->`` and ``<!-- end of name -->``."""
    opening = f"<!-- {name} -->\n"
    closing = f"<!-- end of {name} -->"
    before, opened, rest = text.partition(opening)
    _, closed, after = rest.partition(closing)
    if not opened or not closed:
        raise ValueError(f"the page has no block {name!r}")
    return f"{before}{opening}\n{content.strip()}\n\n{closing}{after}"
