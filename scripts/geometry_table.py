"""Measure the optimal policies of all benchmarks: ``python scripts/geometry_table.py``.

Writes docs/generated/geometry.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import tessella as ts
from tessella.problems.registry import BENCHMARKS
from tessella.tessellation import (
    Evidence,
    Geometry,
    LinearIndex,
    Monotone,
    Tessellation,
    examine,
    measure,
    tessellate,
)

TARGET = Path(__file__).parents[1] / "docs" / "generated" / "geometry.md"
MARGINS = (0.01, 0.1, 1.0)


def render_page() -> str:
    """The whole page, in Markdown."""
    maps = {label: tessellate(ts.solve(ts.benchmark(label))) for label in BENCHMARKS}
    evidence_by_label = {label: examine(t).evidence for label, t in maps.items()}
    parts = [
        "# Geometry of the eleven benchmarks",
        "Written by `scripts/geometry_table.py`. [Geometry](../geometry.md) explains the columns.",
        "## Diagnostics",
        render_diagnostics(maps),
        "## Sizes and margins",
        render_sizes(maps),
        "## Without the rim",
        "The same after leaving out the outermost layer of states on every side.",
        render_diagnostics(maps, rim=1),
        "## Structure",
        render_structure(evidence_by_label),
        "## Evidence",
        "The first contradiction of each test that fails, and the linear index where there is one.",
        *(render_reasons(label, evidence) for label, evidence in evidence_by_label.items()),
    ]
    return "\n\n".join(parts) + "\n"


def render_diagnostics(maps: dict[str, Tessellation], rim: int = 0) -> str:
    head = ("", "L", "F", "C_B", "C_R", "kappa", "kappa by states")
    rows = []
    for label, t in maps.items():
        g = measure(t, rim)
        rows.append(
            (label, *map(format_number, (*g.diagnostics.values(), g.corner_index_by_states)))
        )
    return render_table(head, rows)


def render_sizes(maps: dict[str, Tessellation]) -> str:
    head = ("", "states", "states of each action", "faces across each axis", "largest cell")
    head += tuple(f"margin <= {eps:g}" for eps in MARGINS)
    return render_table(head, [(label, *_sizes(measure(t))) for label, t in maps.items()])


def _sizes(g: Geometry) -> tuple[str, ...]:
    t = g.tessellation
    volumes = ", ".join(f"{a}: {v}" for a, v in zip(t.actions, g.volumes, strict=True))
    faces = ", ".join(f"{axis}: {n}" for axis, n in g.faces_per_axis.items())
    shares = (g.largest_cell_share, *g.margin_profile(MARGINS))
    return f"{t.grid.size:,}", volumes, faces, *(f"{share:.3f}" for share in shares)


def render_structure(evidence_by_label: dict[str, Mapping[str, Evidence]]) -> str:
    """Whether each structure holds, or in how many pairs it fails; a dash where untested."""
    tests = list(
        dict.fromkeys(name.split(" in ")[0] for e in evidence_by_label.values() for name in e)
    )
    head = ("", *tests)
    rows = [
        (label, *(_cell(evidence, test) for test in tests))
        for label, evidence in evidence_by_label.items()
    ]
    return render_table(head, rows)


def _cell(evidence: Mapping[str, Evidence], test: str) -> str:
    cells = []
    for name, e in evidence.items():
        kind, _, axis = name.partition(" in ")
        if kind == test:
            count = f" ({len(e.violations)})" if e.violations.shape[1] == 2 else ""
            holds = e.direction if isinstance(e, Monotone) else "yes"
            outcome = holds if e else f"no{count}"
            cells.append(f"{axis}: {outcome}" if axis else outcome)
    return "; ".join(cells) or "-"


def render_reasons(label: str, evidence: Mapping[str, Evidence]) -> str:
    items = (e for e in evidence.values() if not e or isinstance(e, LinearIndex))
    return "\n".join([f"### {label}", "", *(f"- {e.describe()}" for e in items)])


def format_number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.4f}"


def render_table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = tuple(head)
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(render_page())
