"""benchmarks/study_here.py compare: how many records of two devices agree, by kind of method."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

SCRIPT = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "study_here.py"))


def test_every_figure_has_a_tolerance_and_records_within_it_are_counted(tmp_path, capsys):
    def records(off: float) -> list[dict]:
        figures = dict.fromkeys(SCRIPT["METRICS"], 0.1)
        away = dict.fromkeys(SCRIPT["METRICS"], 0.1 + off)
        failed = dict.fromkeys(SCRIPT["METRICS"], float("nan"))
        told = {"linear, n=1": figures, "local, n=1": away, "neural, n=1": away, "margin": failed}
        return [{"spec": f"INV-Mix, {s}, seed=0", "figures": f} for s, f in told.items()]

    files = [tmp_path / "one.json", tmp_path / "other.json"]
    for file, off in zip(files, (0.0, 0.01), strict=True):
        file.write_text(json.dumps(records(off)))
    SCRIPT["compare"](*map(str, files))
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "4 records in both, 4 and 4 in each"
    lines = [line.strip() for line in said if line.startswith("  ")]
    assert len(lines) == 2 * len(SCRIPT["METRICS"])
    assert (
        lines[0]
        == "policy_error: 1 of 2 within 1e-06; apart by 5.0e-03 on average, 1.0e-02 at most"
    )
    assert lines[4].startswith("policy_error: 2 of 2 within 0.02;")
