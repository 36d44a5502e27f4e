"""Everything that a study leaves in its folder, written from the store.

table.md, table.csv, table.tex     ours beside the paper's
figures/*.svg, figures/*.png       the paper's figures, and loss against what was told
records.parquet                    every run, with its policy
report.html                        all of it in one file
"""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from tessella.files import writing
from tessella.paper.figures import PICTURES, Picture
from tessella.paper.figures.looks import STYLE
from tessella.paper.report import Drawn, report
from tessella.paper.results import Results
from tessella.paper.table import as_csv, latex, markdown, rows
from tessella.runner.display import Display
from tessella.runner.parquet import parquet

DOTS_PER_INCH = 200
STAGE = "Tables, figures, report"


def write(results: Results, folder: Path, display: Display) -> list[Path]:
    """Write all outputs; figures that need runs which the study has not are left out.

    Gives the files; figures of another study that this one has not are removed.
    """
    pictures = [picture for picture in PICTURES if not picture.learned or results.compared]
    display.stage(STAGE, len(pictures) + 3, len(pictures) + 3.0)
    table = rows(results)
    files = []
    for name, form in (("table.md", markdown), ("table.csv", as_csv), ("table.tex", latex)):
        files.append(put(folder / name, form(table).encode()))
    display.advance(STAGE, 1, 1.0)
    files.append(put(folder / "records.parquet", parquet(results.records)))
    display.advance(STAGE, 1, 1.0)
    drawn, figures = [], folder / "figures"
    with suppress(OSError):  # writing into it says what is wrong
        figures.mkdir(exist_ok=True)
    for picture in pictures:
        drawn.append(_draw(results, picture, figures))
        files += [figures / f"{picture.name}.{form}" for form in ("svg", "png")]
        display.advance(STAGE, 1, 1.0)
    for picture in PICTURES:
        if picture not in pictures:
            for form in ("svg", "png"):
                (figures / f"{picture.name}.{form}").unlink(missing_ok=True)
    files.append(put(folder / "report.html", report(results, table, drawn).encode()))
    display.advance(STAGE, 1, 1.0)
    return files


def put(path: Path, content: bytes) -> Path:
    """Write ``content`` and return the path."""
    with writing(path) as part:
        part.write_bytes(content)
    return path


def _draw(results: Results, picture: Picture, folder: Path) -> Drawn:
    with rc_context(STYLE):
        wide, narrow = picture.draw(results, False), picture.draw(results, True)
        svg = image(wide, "svg")
        put(folder / f"{picture.name}.svg", svg)
        put(folder / f"{picture.name}.png", image(wide, "png"))
        return Drawn(picture.name, picture.title, picture.says(results), svg, image(narrow, "svg"))


def image(figure: Figure, form: str) -> bytes:
    """The figure as the bytes of a file, ``svg`` or ``png``."""
    # No dates or versions: the same results give the same bytes.
    nothing = {"Date": None, "Creator": None} if form == "svg" else {"Software": None}
    file = io.BytesIO()
    figure.savefig(file, format=form, dpi=DOTS_PER_INCH, metadata=nothing)
    return file.getvalue()
