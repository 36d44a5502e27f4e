"""The paper's study in one process, on whichever device JAX finds: seconds, and its records.

python benchmarks/study_here.py SEEDS records.json
python benchmarks/study_here.py compare one.json other.json
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tessella.paper.plan import paper_study
from tessella.runner.dispatch import dispatch_here
from tessella.runner.record import FIGURES
from tessella.runner.study import batches


def told(record: Any) -> dict[str, Any]:
    figures = {name: getattr(record, name) for name in FIGURES}
    return {"spec": str(record.spec), "figures": figures}


def main() -> None:
    if sys.argv[1] == "compare":
        compare(*sys.argv[2:])
        return
    seeds, out = int(sys.argv[1]), Path(sys.argv[2])
    began, records = time.perf_counter(), []

    def accept(outcome: Any) -> None:
        records.extend(map(told, outcome.records))
        out.write_text(json.dumps(records))

    dispatch_here(batches(paper_study(seeds=seeds).specs), accept)
    spent = time.perf_counter() - began
    print(f"{jax.devices()[0].device_kind}: {len(records)} records in {spent:.0f} s")


def compare(one: str, other: str) -> None:
    first, second = (
        {r["spec"]: r["figures"] for r in json.loads(Path(p).read_text())} for p in (one, other)
    )
    both = sorted(first.keys() & second.keys())
    apart: dict[str, list[float]] = {}
    for spec in both:
        for name, value in first[spec].items():
            apart.setdefault(name, []).append(abs(value - second[spec].get(name, np.nan)))
    for name, gaps in apart.items():
        print(f"{name}: {np.mean(gaps):.2e} on average, {np.max(gaps):.2e} at most, {len(gaps)}")


if __name__ == "__main__":
    main()
