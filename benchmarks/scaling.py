"""A rule compressed on small instances, certified on one that is 10,000 times larger.

    python benchmarks/scaling.py [LARGEST SCALE]

The inventory model with stocks and regimes times the scale: 825 states at 1, 8.3 million at 104.
"""

from __future__ import annotations

import sys
import time

import tessella as ts


def build(scale: int) -> ts.MDP:
    return ts.inventory(max_stock=32 * scale, max_regime=24 * scale, demand_slope=0.36 / scale)


def main() -> None:
    largest = int(sys.argv[1]) if len(sys.argv) > 1 else 104
    for classes in ([ts.OrderUpTo()], [ts.AxisTree()]):
        start = time.perf_counter()
        result = ts.scaling(
            build,
            (1, 2, 3, 4, largest),
            2.5,
            worst=True,
            relative=False,
            classes=classes,
            tol=1e-6,
            time_limit=30,
        )
        print(f"{result}\n{time.perf_counter() - start:.0f} s")
        print(result.certificate, flush=True)


if __name__ == "__main__":
    main()
