"""How long it takes to import the package and to build a model, and the memory that a build needs.

    python benchmarks/build.py

Each size runs in a process of its own: seconds of wall time, and the peak of resident memory above
what the process held after a first small model (which imports everything that a build uses). The
benchmarks of the study are built in one process, each five times, and the least time counts; the
import is the least of five processes, less that of five that import nothing. Horizons whose demand
depends on time are built, solved, followed and certified: processor seconds, which double with the
periods.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

SIZES = (316, 1000, 3162)  # about 10^5, 10^6 and 10^7 states
PERIODS = (250, 500, 1000)


@dataclass(frozen=True)
class Cost:
    """What one build took."""

    states: int
    seconds: float
    megabytes: float

    @property
    def bytes_per_state(self) -> float:
        return self.megabytes * 1e6 / self.states


def read_peak() -> float:
    """Largest resident size of this process so far, in megabytes."""
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes * 1024 / 1e6 if sys.platform != "darwin" else kilobytes / 1e6


def build(size: int) -> Cost:
    """Build an inventory model of ``size`` x (``size`` + 1) states in this process."""
    from tessella.problems.inventory import inventory

    inventory()
    before = read_peak()
    start = time.perf_counter()
    mdp = inventory(max_stock=size - 1, max_regime=size)
    return Cost(mdp.n_states, time.perf_counter() - start, read_peak() - before)


def measure(size: int) -> Cost:
    """The same in a fresh process."""
    command = [sys.executable, __file__, str(size)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return Cost(**json.loads(output))


def time_best(action: Callable[[], object]) -> float:
    """The least seconds of five runs of ``action``."""
    times = []
    for _ in range(5):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


def time_import() -> float:
    """Seconds that ``import tessella`` adds to a process."""

    def time_process(code: str) -> float:
        return time_best(lambda: subprocess.run([sys.executable, "-c", code], check=True))

    return time_process("import tessella") - time_process("pass")


def find_slowest_benchmark() -> tuple[str, float]:
    """The benchmark that takes longest to build, and its seconds."""
    from tessella.problems.registry import BENCHMARKS, benchmark

    seconds = {label: time_best(lambda: benchmark(label)) for label in BENCHMARKS}  # noqa: B023
    return max(seconds.items(), key=lambda item: item[1])


def time_horizon(periods: int) -> list[float]:
    """Processor seconds of building, solving, occupancy and certificate of 21 stocks over time."""
    import numpy as np

    import tessella as ts

    mean = 3 + 2 * np.sin(np.arange(periods) / 7)
    demand = ts.Noise("demand", range(16), lambda time: ts.truncated_poisson(mean[time], 15))
    stages = [
        ts.Decide("stock", lambda stock, order: np.minimum(stock + order, 20)),
        ts.Shift("stock", demand, by=lambda demand: -demand, pays=lambda stock: -0.1 * stock),
    ]
    horizon = ts.FiniteHorizon(periods, 0.99)
    times = [time.process_time()]
    mdp = ts.MDP.staged({"stock": range(21)}, (0, 5), horizon, stages, action_name="order")
    times.append(time.process_time())
    solution = ts.solve(mdp)
    times.append(time.process_time())
    ts.occupancy(mdp, solution.policy)
    times.append(time.process_time())
    ts.certify(solution, solution.policy)
    times.append(time.process_time())
    return np.diff(times).tolist()


def main(arguments: list[str]) -> None:
    if arguments:
        print(json.dumps(asdict(build(int(arguments[0])))))
        return
    label, seconds = find_slowest_benchmark()
    print(f"import tessella: {time_import():.4f} seconds")
    print(f"slowest benchmark to build: {label}, {seconds:.4f} seconds")
    print(f"{'states':>12}  {'seconds':>8}  {'peak MB':>8}  {'bytes a state':>13}")
    for size in SIZES:
        cost = measure(size)
        print(
            f"{cost.states:>12,}  {cost.seconds:>8.4f}  {cost.megabytes:>8.1f}  "
            f"{cost.bytes_per_state:>13.1f}"
        )
    time_horizon(5)  # imports what the others use
    print(f"{'periods':>12}  {'build':>8}  {'solve':>8}  {'occupancy':>9}  {'certify':>8}")
    for periods in PERIODS:
        build_seconds, solve_seconds, occupancy_seconds, certify_seconds = time_horizon(periods)
        print(
            f"{periods:>12,}  {build_seconds:>8.3f}  {solve_seconds:>8.3f}  "
            f"{occupancy_seconds:>9.3f}  {certify_seconds:>8.3f}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
