"""The paper's study on whichever device JAX finds: seconds, and its records.

python benchmarks/study_here.py SEEDS records.json [processes]
python benchmarks/study_here.py compare one.json other.json     (or records.parquet of a study)

One process trains what JAX trains, one batch after the other: several would share the device in
slices of time, and all of them wait. The others, where there are some, take the rest, which is
NumPy's and scikit-learn's.

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
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tessella.paper.published import paper_study
from tessella.runner.record import METRICS
from tessella.runner.run import run_batch_safely
from tessella.runner.study import Batch, make_batches

NETWORKS = {"neural", "margin"}
FIRST_METHODS = {"tabular_q_100"}  # of those that JAX trains: they come first
JAX_METHODS = NETWORKS | FIRST_METHODS | {"tabular_q", "double_q"}  # by JAX
REASONS = {
    "found without them": "which agree to the bounds of solves and of exact evaluations",
    "trained by gradients": "which differ where sums are made in another order",
}
TOLERANCES = {
    "found without them": dict.fromkeys(METRICS, 1e-6),
    "trained by gradients": {
        "policy_error": 0.02,  # of the states, all near the boundary
        "value_gap": 0.2,
        "mean_loss": 1.5,  # of values in the hundreds
        "worst_loss": 5.0,  # of a single state
    },
}


def to_json(record: Any) -> dict[str, Any]:
    figures = {name: getattr(record, name) for name in METRICS}
    return {"spec": str(record.spec), "figures": figures}


def main() -> None:
    if sys.argv[1] == "compare":
        compare(*sys.argv[2:])
        return
    seeds, out = int(sys.argv[1]), Path(sys.argv[2])
    processes = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    start, records = time.perf_counter(), []
    seconds_by_method: dict[str, float] = {}
    for method, batch_records, seconds in run_batches(
        make_batches(paper_study(seeds=seeds).specs), processes
    ):
        records += batch_records
        seconds_by_method[method] = seconds_by_method.get(method, 0.0) + seconds
        out.write_text(json.dumps(records))
    wall = time.perf_counter() - start
    print(f"{get_device()}: {len(records)} records in {wall:.0f} s by {processes} processes")
    for method, seconds in sorted(seconds_by_method.items(), key=lambda item: -item[1]):
        print(f"  {method}: {seconds:.0f} s of a process")


def run_batches(
    batches: Sequence[Batch], processes: int
) -> Iterator[tuple[str, list[dict], float]]:
    """(method, records, seconds) of each batch, as they end."""
    if processes == 1:
        yield from map(run_batch, batches)
        return
    spawn = get_context("spawn")
    pools = ProcessPoolExecutor(1, spawn), ProcessPoolExecutor(processes - 1, spawn)
    ordered = sorted(batches, key=lambda batch: batch[0].method not in FIRST_METHODS)
    with pools[0], pools[1]:
        futures = [
            pools[batch[0].method not in JAX_METHODS].submit(run_batch, batch) for batch in ordered
        ]
        for future in as_completed(futures):
            yield future.result()


def run_batch(batch: Batch) -> tuple[str, list[dict], float]:
    """One batch in this process."""
    start = time.perf_counter()
    records = [to_json(record) for record in run_batch_safely(batch).records]
    return batch[0].method, records, time.perf_counter() - start


def get_device() -> str:
    import jax

    return jax.devices()[0].device_kind


def compare(first_path: str, second_path: str) -> None:
    first, second = (
        {r["spec"]: r["figures"] for r in read_records(Path(p))} for p in (first_path, second_path)
    )
    common = sorted(first.keys() & second.keys())
    print(f"{len(common)} records in both, {len(first)} and {len(second)} in each")
    for kind, why in REASONS.items():
        specs = [spec for spec in common if get_kind(spec) == kind]
        print(f"{kind}, {why}:")
        for name in METRICS if specs else ():
            pairs = np.array([[side[spec][name] for side in (first, second)] for spec in specs])
            print(f"  {describe_figure(name, TOLERANCES[kind][name], pairs)}")


def read_records(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        from tessella.runner.record import read_parquet

        return [to_json(record) for record in read_parquet(path)]
    return json.loads(path.read_text())


def get_kind(spec: str) -> str:
    """How the policy of a run is found, from the second word of its spec."""
    return "trained by gradients" if spec.split(", ")[1] in NETWORKS else "found without them"


def describe_figure(name: str, tolerance: float, pairs: NDArray[np.float64]) -> str:
    """Agreement of one figure: ``pairs`` (records, 2); runs that failed in both are alike."""
    gaps = np.abs(pairs[:, 0] - pairs[:, 1])
    gaps = np.where(np.isnan(pairs).all(axis=1), 0.0, gaps)
    within = int((gaps <= tolerance).sum())  # one that failed on one side only is not
    known = gaps[~np.isnan(gaps)]
    spread = (
        f"{known.mean():.1e} on average, {known.max():.1e} at most" if known.size else "unknown"
    )
    return f"{name}: {within} of {len(gaps)} within {tolerance:g}; apart by {spread}"


if __name__ == "__main__":
    main()
