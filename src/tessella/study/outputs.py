"""Everything that a study leaves in its folder, written from the store.

    table.md, table.csv, table.tex     ours beside the paper's
    figures/*.svg, figures/*.png       the paper's figures, and loss against what was told
    records.parquet                    every run, with its policy
    report.html                        all of it in one file

A file appears whole or not at all.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from tessella.errors import StudyError
from tessella.study.figures import PICTURES, Picture
from tessella.study.figures.looks import STYLE
from tessella.study.progress import Progress
from tessella.study.record import Record, read, seal, unseal
from tessella.study.report import Drawn, report
from tessella.study.results import Results
from tessella.study.table import as_csv, latex, markdown, rows

DOTS_PER_INCH = 200
STAGE = "Tables, figures, report"


def write(results: Results, folder: Path, progress: Progress) -> list[Path]:
    """Write all outputs; figures that need runs which the study has not are left out.

    Gives the files; figures of another study that this one has not are removed.
    """
    pictures = [picture for picture in PICTURES if not picture.learned or results.compared]
    progress.stage(STAGE, len(pictures) + 3, len(pictures) + 3.0)
    table = rows(results)
    files = []
    for name, form in (("table.md", markdown), ("table.csv", as_csv), ("table.tex", latex)):
        files.append(put(folder / name, form(table).encode()))
    progress.advance(STAGE, 1, 1.0)
    files.append(put(folder / "records.parquet", parquet(results)))
    progress.advance(STAGE, 1, 1.0)
    drawn, figures = [], folder / "figures"
    for picture in pictures:
        drawn.append(_draw(results, picture, figures))
        files += [figures / f"{picture.name}.{form}" for form in ("svg", "png")]
        progress.advance(STAGE, 1, 1.0)
    for picture in PICTURES:
        if picture not in pictures:
            for form in ("svg", "png"):
                (figures / f"{picture.name}.{form}").unlink(missing_ok=True)
    files.append(put(folder / "report.html", report(results, table, drawn).encode()))
    progress.advance(STAGE, 1, 1.0)
    return files


def _draw(results: Results, picture: Picture, folder: Path) -> Drawn:
    with rc_context(STYLE):
        wide, narrow = picture.draw(results, False), picture.draw(results, True)
        svg = _image(wide, "svg")
        put(folder / f"{picture.name}.svg", svg)
        put(folder / f"{picture.name}.png", _image(wide, "png"))
        return Drawn(picture.name, picture.title, picture.says(results), svg, _image(narrow, "svg"))


def _image(figure: Figure, form: str) -> bytes:
    # No dates or versions: the same results give the same bytes.
    nothing = {"Date": None, "Creator": None} if form == "svg" else {"Software": None}
    file = io.BytesIO()
    figure.savefig(file, format=form, dpi=DOTS_PER_INCH, metadata=nothing)
    return file.getvalue()


def parquet(results: Results) -> bytes:
    """All records, failures too."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    table = pa.Table.from_pylist([seal(record.row()) for record in results.records])
    pq.write_table(table, file, compression="zstd")
    return file.getvalue()


def read_parquet(path: Path) -> tuple[Record, ...]:
    """The records of a ``records.parquet``; one that was altered is named and refused.

    A file from before there were checksums has one byte for each state, and is taken as it is.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(path).to_pylist()
        if rows and "checksum" not in rows[0]:
            return tuple(read({"dtype": "uint8", **row}) for row in rows)
        return tuple(unseal(row) for row in rows)
    except (OSError, StudyError, pa.ArrowException) as error:
        raise StudyError(f"{path} cannot be read as a study's records: {error}") from error


def put(path: Path, content: bytes) -> Path:
    """Write a file whole or not at all."""
    part = path.with_name(f".{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise StudyError(f"{path} cannot be written: {error.strerror}") from error
    return path
