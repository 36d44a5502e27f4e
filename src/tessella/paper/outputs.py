"""Everything that a study leaves in its folder, written from the store.

table.md, table.csv, table.tex     ours beside the paper's
figures/*.svg, figures/*.png       the paper's figures, and loss against information
records.parquet                    every run, with its policy
report.html                        all of it in one file
"""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from tessella.files import atomic_write
from tessella.paper.figures import FIGURES, FigureSpec
from tessella.paper.figures.style import FIGURE_STYLE
from tessella.paper.report import RenderedFigure, render_report
from tessella.paper.results import PaperResults
from tessella.paper.table import make_rows, to_csv, to_latex, to_markdown
from tessella.runner.parquet import records_to_parquet
from tessella.runner.progress import ProgressDisplay

PNG_DOTS_PER_INCH = 200
OUTPUT_TASK = "Tables, figures, report"


def write_outputs(results: PaperResults, folder: Path, display: ProgressDisplay) -> list[Path]:
    """Write all outputs; figures that need runs which the study has not are left out.

    Gives the files; figures of another study that this one has not are removed.
    """
    figure_specs = [
        figure_spec
        for figure_spec in FIGURES
        if not figure_spec.needs_runs or results.has_comparison
    ]
    display.add_task(OUTPUT_TASK, len(figure_specs) + 3, len(figure_specs) + 3.0)
    table = make_rows(results)
    files = []
    for name, form in (("table.md", to_markdown), ("table.csv", to_csv), ("table.tex", to_latex)):
        files.append(write_file(folder / name, form(table).encode()))
    display.advance(OUTPUT_TASK, 1, 1.0)
    files.append(write_file(folder / "records.parquet", records_to_parquet(results.records)))
    display.advance(OUTPUT_TASK, 1, 1.0)
    rendered = []
    figure_folder = folder / "figures"
    with suppress(OSError):  # writing into it says what is wrong
        figure_folder.mkdir(exist_ok=True)
    for figure_spec in figure_specs:
        rendered.append(_draw_figure(results, figure_spec, figure_folder))
        files += [figure_folder / f"{figure_spec.name}.{form}" for form in ("svg", "png")]
        display.advance(OUTPUT_TASK, 1, 1.0)
    for figure_spec in FIGURES:
        if figure_spec not in figure_specs:
            for form in ("svg", "png"):
                (figure_folder / f"{figure_spec.name}.{form}").unlink(missing_ok=True)
    files.append(
        write_file(folder / "report.html", render_report(results, table, rendered).encode())
    )
    display.advance(OUTPUT_TASK, 1, 1.0)
    return files


def write_file(path: Path, content: bytes) -> Path:
    """Write ``content`` and return the path."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)
    return path


def _draw_figure(results: PaperResults, figure_spec: FigureSpec, folder: Path) -> RenderedFigure:
    with rc_context(FIGURE_STYLE):
        wide = figure_spec.draw(results, False)
        narrow = figure_spec.draw(results, True)
        svg = render_image(wide, "svg")
        write_file(folder / f"{figure_spec.name}.svg", svg)
        write_file(folder / f"{figure_spec.name}.png", render_image(wide, "png"))
        return RenderedFigure(
            figure_spec.name,
            figure_spec.title,
            figure_spec.describe(results),
            svg,
            render_image(narrow, "svg"),
        )


def render_image(figure: Figure, form: str) -> bytes:
    """The figure as the bytes of a file, ``svg`` or ``png``."""
    # No dates or versions: the same results give the same bytes.
    no_metadata = {"Date": None, "Creator": None} if form == "svg" else {"Software": None}
    file = io.BytesIO()
    figure.savefig(file, format=form, dpi=PNG_DOTS_PER_INCH, metadata=no_metadata)
    return file.getvalue()
