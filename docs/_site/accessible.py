"""What keyboards and screen readers need: levels of headings, and focus for what scrolls."""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx

AFTER_THE_THEME = 900  # priority of an event handler; those of the theme have 500
NAVIGATION = "furo_navigation_tree"
FOCUSABLE = {
    "<pre>": '<pre tabindex="0">',
    '<div class="table-wrapper': '<div tabindex="0" class="table-wrapper',
    '<div class="formula': '<div tabindex="0" class="formula',
}


def complete(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    captions = str(context.get(NAVIGATION, ""))
    context[NAVIGATION] = captions.replace('role="heading"', 'role="heading" aria-level="2"')
    if "body" in context:
        for opening, focusable in FOCUSABLE.items():
            context["body"] = context["body"].replace(opening, focusable)


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", complete, priority=AFTER_THE_THEME)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
