"""The command: sweep for a stated time, or repeat one case.

    python -m soak --minutes 30                     all kinds, in turns
    python -m soak --kind staged --minutes 5        one of them
    python -m soak --kind staged --seed 123         exactly that case

Ends with a table of counts; the exit status is 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time

from soak.turns import Tally, judged, serve, take

NAMES = (
    "staged",
    "building",
    "certificates",
    "checker",
    "lies",
    "criteria",
    "gains",
    "totals",
    "decomposable",
    "slices",
    "constraints",
    "rules",
    "proofs",
    "exports",
    "spreadsheets",
    "hostile files",
    "studies",
    "shapes",
)
TURNS = 4  # for each kind, in the whole time ...
SHORTEST = 30.0  # ... unless they were shorter than this, most of which goes into starting
SHOWN = 300  # characters of a fault


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="how long to sweep")
    parser.add_argument("--kind", choices=NAMES, action="append", help="only this kind")
    parser.add_argument("--seed", type=int, help="one case, or the first of a turn")
    parser.add_argument("--turn", type=float, help=argparse.SUPPRESS)  # seconds
    asked = parser.parse_args()
    kinds = tuple(asked.kind or NAMES)
    if asked.turn is not None:
        serve(kinds[0], asked.seed, asked.turn)
        return 0
    if asked.seed is not None:
        if len(kinds) > 1:
            parser.error("a seed belongs to one kind: say --kind")
        return repeat(kinds[0], asked.seed)
    return sweep(kinds, 60 * asked.minutes)


def repeat(kind: str, seed: int) -> int:
    """Judge one case here."""
    faults = judged(kind, seed)
    print(*(faults or [f"{kind} {seed}: nothing is wrong"]), sep="\n")
    return 1 if faults else 0


def sweep(kinds: tuple[str, ...], seconds: float) -> int:
    """Turn after turn, the kind that has had the least time next."""
    end = time.monotonic() + seconds
    first = int(time.time()) % 10**6 * 10**6  # new ground each time
    totals = {kind: Tally() for kind in kinds}
    each = seconds / len(kinds)
    share = min(each, max(each / TURNS, SHORTEST))
    compiled = tempfile.TemporaryDirectory(prefix="soak-")
    try:
        while (left := end - time.monotonic()) > 0:
            kind = min(kinds, key=lambda name: totals[name].seconds)
            turn = take(kind, first + totals[kind].cases, min(left, share), compiled.name)
            report(kind, turn)
            totals[kind] = together(totals[kind], turn)
    except KeyboardInterrupt:
        print("interrupted")
    finally:
        compiled.cleanup()
    print(table(totals))
    return 1 if any(total.faults for total in totals.values()) else 0


def together(one: Tally, other: Tally) -> Tally:
    return Tally(one.cases + other.cases, one.seconds + other.seconds, one.faults + other.faults)


def report(kind: str, turn: Tally) -> None:
    """What a turn found, as it is found."""
    for seed, fault in turn.faults:
        print(f"FAULT  {kind} {seed}: {fault[:SHOWN]}")
        print(f"       python -m soak --kind {kind} --seed {seed}")
    print(f"{kind}: {turn.cases:,} cases in {turn.seconds:.0f} s, {len(turn.faults)} faults")
    sys.stdout.flush()


def table(totals: dict[str, Tally]) -> str:
    rows = [("kind", "cases", "faulty", "seconds")]
    for kind, total in totals.items():
        faulty = len({seed for seed, _ in total.faults})
        rows.append((kind, f"{total.cases:,}", f"{faulty:,}", f"{total.seconds:.0f}"))
    every = [sum(total.cases for total in totals.values())]
    every.append(sum(len({seed for seed, _ in total.faults}) for total in totals.values()))
    every.append(round(sum(total.seconds for total in totals.values())))
    rows.append(("all", *(f"{count:,}" for count in every)))
    return "\n".join(f"{a:<14}{b:>9}{c:>9}{d:>9}" for a, b, c, d in rows)


if __name__ == "__main__":
    sys.exit(main())
