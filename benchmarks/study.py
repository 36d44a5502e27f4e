"""Times the study against the plain way: scikit-learn and Python loops, one fit after another.

    python benchmarks/study.py [--seeds 15] [--sample 4] [--seed 0] [--out FOLDER]

Runs the study of the paper's seven methods afresh and watches its wall time and peak memory (all
processes). In the same run, a random sample of the same specs, drawn in equal numbers from every
method and size, is fitted the plain way on the same samples and transitions; its CPU time,
extrapolated to the whole study and divided among the same cores, is what the plain way takes. Ours
is the whole of `make paper` for these methods, with start-up, evaluation and report. A method whose
error, paired over the sampled specs, exceeds the plain one's by more than two standard errors is
marked, and its time is left out of the plain side.
"""

from __future__ import annotations

import argparse
import io
import tempfile
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from dask.system import CPU_COUNT
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from tessella.baselines.training import Transitions, draw_uniform_transitions
from tessella.learn.sample import Sample, draw
from tessella.paper.published import PAPER_METHODS, paper_study
from tessella.paper.reproduce import reproduce
from tessella.runner.methods import find_method
from tessella.runner.methods.method import Instance, get_instance
from tessella.runner.record import Record, Spec
from tessella.runner.store import Store
from tessella.runner.study import Study
from tessella.support.progress import PlainProgress

LEARNING_RATE = 0.1


def train_linear(instance: Instance, sample: Sample, seed: int) -> NDArray:
    return _classify(instance, sample, LogisticRegression())


def train_network(instance: Instance, sample: Sample, seed: int) -> NDArray:
    return _classify(instance, sample, MLPClassifier((64, 64), random_state=seed % 2**32))


def train_margin(instance: Instance, sample: Sample, seed: int) -> NDArray:
    weights = 1 / (sample.margins + find_method("margin").settings()["eta"])
    network = MLPClassifier((64, 64), random_state=seed % 2**32)
    return _classify(instance, sample, network, mlpclassifier__sample_weight=weights)


def train_neighbours(instance: Instance, sample: Sample, seed: int) -> NDArray:
    return _classify(instance, sample, KNeighborsClassifier(5, weights="distance"))


def _classify(instance: Instance, sample: Sample, classifier, **options: NDArray) -> NDArray:
    if len(set(sample.labels)) == 1:
        return np.full(instance.mdp.n_states, sample.labels[0])
    pipeline = make_pipeline(StandardScaler(), classifier)
    return pipeline.fit(sample.points, sample.labels, **options).predict(instance.mdp.grid.points)


def train_q(instance: Instance, transitions: Transitions, seed: int) -> NDArray:
    mdp = instance.mdp
    q = np.zeros((mdp.n_states, mdp.n_actions))
    for s, a, r, t in zip(
        transitions.states, transitions.actions, transitions.rewards, transitions.nexts, strict=True
    ):
        q[s, a] += LEARNING_RATE * (r + mdp.discount * q[t].max() - q[s, a])
    return q.argmax(axis=1)


def train_double_q(instance: Instance, transitions: Transitions, seed: int) -> NDArray:
    mdp = instance.mdp
    q = np.zeros((2, mdp.n_states, mdp.n_actions))
    rows = zip(
        transitions.states,
        transitions.actions,
        transitions.rewards,
        transitions.nexts,
        transitions.coins,
        strict=True,
    )
    for s, a, r, t, i in rows:
        q[i, s, a] += LEARNING_RATE * (
            r + mdp.discount * q[1 - i, t, q[i, t].argmax()] - q[i, s, a]
        )
    return q.sum(axis=0).argmax(axis=1)


def train_fitted_q(instance: Instance, transitions: Transitions, seed: int) -> NDArray:
    mdp, settings = instance.mdp, find_method("fitted_q").settings()
    points, n_actions = mdp.grid.points, mdp.n_actions

    def make_rows(states: NDArray) -> NDArray:
        actions = np.tile(np.arange(n_actions), len(states))
        return np.column_stack([np.repeat(points[states], n_actions, axis=0), actions])

    inputs = np.column_stack([points[transitions.states], transitions.actions])
    next_inputs, target = make_rows(transitions.nexts), transitions.rewards
    forest = ExtraTreesRegressor(settings["trees"], min_samples_leaf=settings["leaf"])
    for k in range(settings["iterations"]):
        forest.set_params(random_state=(seed + k) % 2**32).fit(inputs, target)
        future = forest.predict(next_inputs).reshape(-1, n_actions).max(axis=1)
        target = transitions.rewards + mdp.discount * future
    table = forest.predict(make_rows(np.arange(mdp.n_states)))
    return table.reshape(-1, n_actions).argmax(axis=1)


PLAIN_METHODS: dict[str, Callable[[Instance, object, int], NDArray]] = {
    "linear": train_linear,
    "neural": train_network,
    "margin": train_margin,
    "local": train_neighbours,
    "double_q": train_double_q,
    "fitted_q": train_fitted_q,
    "tabular_q": train_q,
}  # type: ignore[assignment]


@dataclass
class MemoryMonitor:
    """Peak memory of a process and its children, shared pages once, read each second."""

    peak: int = 0

    def __enter__(self) -> MemoryMonitor:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _poll(self) -> None:
        own = psutil.Process()
        while not self._stop.wait(1.0):
            total = 0
            for child in (own, *own.children(recursive=True)):
                try:
                    total += child.memory_full_info().pss
                except (psutil.NoSuchProcess, psutil.AccessDenied):
                    continue
            self.peak = max(self.peak, total)


def time_plain(spec: Spec) -> tuple[float, float]:
    """CPU seconds and policy error of one spec, the plain way."""
    instance = get_instance(spec)
    if find_method(spec.method).group == "boundary":
        data: object = draw(instance.solution, spec.n, rng=spec.generator("sample"))
    else:
        data = draw_uniform_transitions(
            instance.mdp, spec.n, spec.entropy("transitions", every_n=True)
        )
    start = time.process_time()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        actions = PLAIN_METHODS[spec.method](instance, data, spec.entropy("training"))
    seconds = time.process_time() - start
    return seconds, float((actions != instance.solution.policy.table.ravel()).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=15)
    parser.add_argument("--sample", type=int, default=4, help="specs of each method and size")
    parser.add_argument("--seed", type=int, default=0, help="which specs are sampled")
    parser.add_argument("--workers", type=int, default=CPU_COUNT)
    parser.add_argument("--out", type=Path, help="keep the study here; it must not exist")
    options = parser.parse_args()
    study = paper_study(methods=PAPER_METHODS, seeds=options.seeds)
    with tempfile.TemporaryDirectory() as scratch, MemoryMonitor() as monitor:
        folder = options.out or Path(scratch) / "study"
        if folder.exists():
            parser.error(f"{folder} exists; the study must start afresh")
        start = time.perf_counter()
        reproduce(study, folder, PlainProgress(io.StringIO()), options.workers)
        wall = time.perf_counter() - start
        with Store.reader(folder) as store:
            ours = {record.spec.key: record for record in store.records()}
    rng = np.random.default_rng(options.seed)
    rows = [compare_method(study, method, ours, options.sample, rng) for method in study.methods]
    print(f"{'method':12}{'CPU s, ours':>12}{'plain':>8}{'error, ours':>13}{'plain':>8}")
    for row in rows:
        mark = "" if row.is_no_worse else "  ours errs more: not counted"
        print(
            f"{row.method:12}{row.ours:12.0f}{row.plain:8.0f}{row.error:13.4f}"
            f"{row.plain_error:8.4f}{mark}"
        )
    plain_seconds = sum(row.plain for row in rows if row.is_no_worse) / options.workers
    print(
        f"plain: {plain_seconds:.0f} s on {options.workers} cores (extrapolated); "
        f"ours: {wall:.0f} s in all"
    )
    print(f"ratio {plain_seconds / wall:.1f}; peak memory of ours {monitor.peak / 1e9:.2f} GB")


@dataclass(frozen=True)
class Comparison:
    """One method: training times of the whole study, errors over the sampled specs."""

    method: str
    ours: float
    plain: float
    error: float
    plain_error: float
    is_no_worse: bool


def compare_method(
    study: Study,
    method: str,
    records: dict[str, Record],
    sample_size: int,
    rng: np.random.Generator,
) -> Comparison:
    groups: dict[int, list[Spec]] = defaultdict(list)
    for spec in study.specs:
        if spec.method == method:
            groups[spec.n].append(spec)
    total, pairs = 0.0, []
    for specs in groups.values():
        chosen = [
            specs[i] for i in rng.choice(len(specs), min(sample_size, len(specs)), replace=False)
        ]
        results = [time_plain(spec) for spec in chosen]
        total += len(specs) * float(np.mean([seconds for seconds, _ in results]))
        pairs += [
            (records[s.key].policy_error, e) for s, (_, e) in zip(chosen, results, strict=True)
        ]
    our_errors, plain_errors = np.array(pairs).T
    margin = 2 * (our_errors - plain_errors).std(ddof=1) / np.sqrt(len(pairs))
    our_seconds = sum(record.seconds for record in records.values() if record.spec.method == method)
    return Comparison(
        method,
        our_seconds,
        total,
        float(our_errors.mean()),
        float(plain_errors.mean()),
        bool(our_errors.mean() <= plain_errors.mean() + margin),
    )


if __name__ == "__main__":
    main()
