"""``.. public:: MDP solve ...``: public names of tessella, first as a list, then one by one.

What scikit-learn adds to its estimators by itself (``set_fit_request``) is left out.
"""

from __future__ import annotations

import dataclasses
import inspect

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import tessella


class Public(SphinxDirective):
    """A summary of the names, and below it the documentation of each."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        names = " ".join(self.content).split()
        lines = [".. currentmodule:: tessella", "", ".. autosummary::", "   :nosignatures:", ""]
        lines += [f"   {name}" for name in names if callable(getattr(tessella, name))] + [""]
        for name in names:
            lines += entry(name)
        here = nodes.container()
        self.state.nested_parse(StringList(lines, source=self.env.docname), 0, here)
        return here.children


def entry(name: str) -> list[str]:
    """What documents one name: a class with its members, a function, a value."""
    found = getattr(tessella, name)
    if inspect.isclass(found):
        kind = "exception" if issubclass(found, BaseException) else "class"
        left_out = ", ".join(name for name in dir(found) if name.endswith("_request"))
        return [f".. auto{kind}:: {name}", "   :members:", f"   :exclude-members: {left_out}", ""]
    if callable(found):
        return [f".. autofunction:: {name}", ""]
    return [f".. data:: {name}", "", f"   {type(found).__name__}: {', '.join(found)}.", ""]


def of_fields(app, what, name, found, options, signature, returned):
    """A record is shown with the names of its fields and their defaults; types are told below."""
    if what != "class" or not dataclasses.is_dataclass(found):
        return None
    shown = []
    for field in dataclasses.fields(found):
        if field.init:
            plain = isinstance(field.default, bool | int | float | str | None)
            made = field.default_factory is not dataclasses.MISSING
            given = field.default is not dataclasses.MISSING
            default = f"={field.default!r}" if plain and given else "=..." if made or given else ""
            shown.append(field.name + default)
    return f"({', '.join(shown)})", None


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("public", Public)
    app.connect("autodoc-process-signature", of_fields)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
