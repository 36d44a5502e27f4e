"""The paper's study in one process, on whichever device JAX finds: seconds, and its records.

python benchmarks/study_here.py SEEDS records.json [K/N]     (K/N: the K-th of N parts of it)
python benchmarks/study_here.py compare one.json other.json

Two devices add up in another order. Solves and exact evaluations differ by no more than their
bounds, so what is found without gradients agrees to those. A network that is trained in single
precision takes thousands of steps, each from where the last one ended: a last digit that differs
early is another network late, about as good, which errs in a few other states near the boundary.
``compare`` prints how many records lie within the tolerance that is stated for each kind.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from tessella.paper.plan import paper_study
from tessella.runner.dispatch import dispatch_here
from tessella.runner.record import FIGURES
from tessella.runner.study import batches

NETWORKS = {"neural", "margin"}
REASONS = {
    "found without them": "which agree to the bounds of solves and of exact evaluations",
    "trained by gradients": "which differ where sums are made in another order",
}
TOLERANCES = {
    "found without them": dict.fromkeys(FIGURES, 1e-6),
    "trained by gradients": {
        "policy_error": 0.02,  # of the states, all near the boundary
        "value_gap": 0.2,
        "mean_loss": 1.5,  # of values in the hundreds
        "worst_loss": 5.0,  # of a single state
    },
}


def told(record: Any) -> dict[str, Any]:
    figures = {name: getattr(record, name) for name in FIGURES}
    return {"spec": str(record.spec), "figures": figures}


def main() -> None:
    if sys.argv[1] == "compare":
        compare(*sys.argv[2:])
        return
    seeds, out = int(sys.argv[1]), Path(sys.argv[2])
    part, parts = map(int, (sys.argv[3] if len(sys.argv) > 3 else "1/1").split("/"))
    began, records = time.perf_counter(), []

    def accept(outcome: Any) -> None:
        records.extend(map(told, outcome.records))
        out.write_text(json.dumps(records))

    dispatch_here(batches(paper_study(seeds=seeds).specs)[part - 1 :: parts], accept)
    spent = time.perf_counter() - began
    print(f"{jax.devices()[0].device_kind}: {len(records)} records in {spent:.0f} s")


def compare(one: str, other: str) -> None:
    first, second = (
        {r["spec"]: r["figures"] for r in json.loads(Path(p).read_text())} for p in (one, other)
    )
    both = sorted(first.keys() & second.keys())
    print(f"{len(both)} records in both, {len(first)} and {len(second)} in each")
    for kind, why in REASONS.items():
        specs = [spec for spec in both if kind_of(spec) == kind]
        print(f"{kind}, {why}:")
        for name in FIGURES if specs else ():
            pairs = np.array([[side[spec][name] for side in (first, second)] for spec in specs])
            print(f"  {line(name, TOLERANCES[kind][name], pairs)}")


def kind_of(spec: str) -> str:
    """How the policy of a run is found, from the second word of its spec."""
    return "trained by gradients" if spec.split(", ")[1] in NETWORKS else "found without them"


def line(name: str, tolerance: float, pairs: NDArray[np.float64]) -> str:
    """What is said of one figure: ``pairs`` (records, 2); runs that failed in both are alike."""
    gaps = np.abs(pairs[:, 0] - pairs[:, 1])
    gaps = np.where(np.isnan(pairs).all(axis=1), 0.0, gaps)
    within = int((gaps <= tolerance).sum())  # one that failed on one side only is not
    told = gaps[~np.isnan(gaps)]
    spread = f"{told.mean():.1e} on average, {told.max():.1e} at most" if told.size else "none told"
    return f"{name}: {within} of {len(gaps)} within {tolerance:g}; apart by {spread}"


if __name__ == "__main__":
    main()
