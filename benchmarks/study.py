"""Times the study against the plain way: scikit-learn and Python loops, one fit after another.

    python benchmarks/study.py [--seeds 15] [--sample 4] [--seed 0] [--out FOLDER]

Runs the study of the paper's seven methods afresh and watches its wall time and peak memory (all
processes). In the same run, a random sample of the same specs, drawn in equal numbers from every
method and size, is fitted the plain way on the same samples and transitions; its CPU time,
extrapolated to the whole study and divided among the same cores, is what the plain way takes. Ours
is the whole of `make paper` for these methods, with start-up, judging and report. A method whose
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
from tessella.paper.reproduce import ClusterOptions, reproduce
from tessella.runner.dispatch import count_cores
from tessella.runner.methods import find_method
from tessella.runner.methods.method import Instance, get_instance
from tessella.runner.record import Record, Spec
from tessella.runner.store import Store
from tessella.runner.study import Study
from tessella.support.progress import PlainProgress

STEP = 0.1


def plain_linear(instance: Instance, sample: Sample, seed: int) -> NDArray:
    return _classified(instance, sample, LogisticRegression())


def plain_network(instance: Instance, sample: Sample, seed: int) -> NDArray:
    return _classified(instance, sample, MLPClassifier((64, 64), random_state=seed % 2**32))


def plain_margin(instance: Instance, sample: Sample, seed: int) -> NDArray:
    weights = 1 / (sample.margins + find_method("margin").settings()["eta"])
    network = MLPClassifier((64, 64), random_state=seed % 2**32)
    return _classified(instance, sample, network, mlpclassifier__sample_weight=weights)


def plain_neighbours(instance: Instance, sample: Sample, seed: int) -> NDArray:
    return _classified(instance, sample, KNeighborsClassifier(5, weights="distance"))


def _classified(instance: Instance, sample: Sample, classifier, **given: NDArray) -> NDArray:
    if len(set(sample.labels)) == 1:
        return np.full(instance.mdp.n_states, sample.labels[0])
    pipeline = make_pipeline(StandardScaler(), classifier)
    return pipeline.fit(sample.points, sample.labels, **given).predict(instance.mdp.grid.points)


def plain_q(instance: Instance, seen: Transitions, seed: int) -> NDArray:
    mdp = instance.mdp
    q = np.zeros((mdp.n_states, mdp.n_actions))
    for s, a, r, t in zip(seen.states, seen.actions, seen.rewards, seen.nexts, strict=True):
        q[s, a] += STEP * (r + mdp.discount * q[t].max() - q[s, a])
    return q.argmax(axis=1)


def plain_double_q(instance: Instance, seen: Transitions, seed: int) -> NDArray:
    mdp = instance.mdp
    q = np.zeros((2, mdp.n_states, mdp.n_actions))
    rows = zip(seen.states, seen.actions, seen.rewards, seen.nexts, seen.coins, strict=True)
    for s, a, r, t, i in rows:
        q[i, s, a] += STEP * (r + mdp.discount * q[1 - i, t, q[i, t].argmax()] - q[i, s, a])
    return q.sum(axis=0).argmax(axis=1)


def plain_fitted_q(instance: Instance, seen: Transitions, seed: int) -> NDArray:
    mdp, settings = instance.mdp, find_method("fitted_q").settings()
    points, n_actions = mdp.grid.points, mdp.n_actions

    def every_action(states: NDArray) -> NDArray:
        actions = np.tile(np.arange(n_actions), len(states))
        return np.column_stack([np.repeat(points[states], n_actions, axis=0), actions])

    inputs = np.column_stack([points[seen.states], seen.actions])
    ahead, target = every_action(seen.nexts), seen.rewards
    forest = ExtraTreesRegressor(settings["trees"], min_samples_leaf=settings["leaf"])
    for k in range(settings["iterations"]):
        forest.set_params(random_state=(seed + k) % 2**32).fit(inputs, target)
        future = forest.predict(ahead).reshape(-1, n_actions).max(axis=1)
        target = seen.rewards + mdp.discount * future
    table = forest.predict(every_action(np.arange(mdp.n_states)))
    return table.reshape(-1, n_actions).argmax(axis=1)


PLAIN: dict[str, Callable[[Instance, object, int], NDArray]] = {
    "linear": plain_linear,
    "neural": plain_network,
    "margin": plain_margin,
    "local": plain_neighbours,
    "double_q": plain_double_q,
    "fitted_q": plain_fitted_q,
    "tabular_q": plain_q,
}  # type: ignore[assignment]


@dataclass
class Watch:
    """Peak memory of a process and its children, shared pages once, looked at each second."""

    peak: int = 0

    def __enter__(self) -> Watch:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        me = psutil.Process()
        while not self._stop.wait(1.0):
            total = 0
            for process in (me, *me.children(recursive=True)):
                try:
                    total += process.memory_full_info().pss
                except (psutil.NoSuchProcess, psutil.AccessDenied):
                    continue
            self.peak = max(self.peak, total)


def plain(spec: Spec) -> tuple[float, float]:
    """CPU seconds and policy error of one spec, the plain way."""
    instance = get_instance(spec)
    if find_method(spec.method).group == "boundary":
        told: object = draw(instance.solution, spec.n, rng=spec.generator("sample"))
    else:
        told = draw_uniform_transitions(
            instance.mdp, spec.n, spec.entropy("transitions", every_n=True)
        )
    began = time.process_time()
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore", ConvergenceWarning)
        actions = PLAIN[spec.method](instance, told, spec.entropy("training"))
    seconds = time.process_time() - began
    return seconds, float((actions != instance.solution.policy.table.ravel()).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=15)
    parser.add_argument("--sample", type=int, default=4, help="specs of each method and size")
    parser.add_argument("--seed", type=int, default=0, help="which specs are sampled")
    parser.add_argument("--workers", type=int, default=count_cores())
    parser.add_argument("--out", type=Path, help="keep the study here; it must not exist")
    asked = parser.parse_args()
    study = paper_study(methods=PAPER_METHODS, seeds=asked.seeds)
    with tempfile.TemporaryDirectory() as scratch, Watch() as watch:
        folder = asked.out or Path(scratch) / "study"
        if folder.exists():
            parser.error(f"{folder} exists; the study must start afresh")
        began = time.perf_counter()
        reproduce(study, folder, PlainProgress(io.StringIO()), ClusterOptions(asked.workers))
        wall = time.perf_counter() - began
        with Store.reader(folder) as store:
            ours = {record.spec.key: record for record in store.records()}
    rng = np.random.default_rng(asked.seed)
    rows = [compared(study, method, ours, asked.sample, rng) for method in study.methods]
    print(f"{'method':12}{'CPU s, ours':>12}{'plain':>8}{'error, ours':>13}{'plain':>8}")
    for row in rows:
        mark = "" if row.no_worse else "  ours errs more: not counted"
        print(
            f"{row.method:12}{row.ours:12.0f}{row.plain:8.0f}{row.error:13.4f}"
            f"{row.plain_error:8.4f}{mark}"
        )
    whole = sum(row.plain for row in rows if row.no_worse) / asked.workers
    print(
        f"plain: {whole:.0f} s on {asked.workers} cores (extrapolated); ours: {wall:.0f} s in all"
    )
    print(f"ratio {whole / wall:.1f}; peak memory of ours {watch.peak / 1e9:.2f} GB")


@dataclass(frozen=True)
class Compared:
    """One method: training times of the whole study, errors over the sampled specs."""

    method: str
    ours: float
    plain: float
    error: float
    plain_error: float
    no_worse: bool


def compared(
    study: Study, method: str, ours: dict[str, Record], each: int, rng: np.random.Generator
) -> Compared:
    groups: dict[int, list[Spec]] = defaultdict(list)
    for spec in study.specs:
        if spec.method == method:
            groups[spec.n].append(spec)
    total, pairs = 0.0, []
    for specs in groups.values():
        chosen = [specs[i] for i in rng.choice(len(specs), min(each, len(specs)), replace=False)]
        measured = [plain(spec) for spec in chosen]
        total += len(specs) * float(np.mean([seconds for seconds, _ in measured]))
        pairs += [(ours[s.key].policy_error, e) for s, (_, e) in zip(chosen, measured, strict=True)]
    mine, theirs = np.array(pairs).T
    slack = 2 * (mine - theirs).std(ddof=1) / np.sqrt(len(pairs))
    trained = sum(record.seconds for record in ours.values() if record.spec.method == method)
    return Compared(
        method,
        trained,
        total,
        float(mine.mean()),
        float(theirs.mean()),
        bool(mine.mean() <= theirs.mean() + slack),
    )


if __name__ == "__main__":
    main()
