"""The command: run random cases for a stated time, or repeat one case.

    python -m soak --minutes 30                     all kinds, in turns
    python -m soak --kind staged --minutes 5        one kind
    python -m soak --kind staged --seed 123         one case

It ends with a table of counts; the exit status is 1 if there was any fault.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time

from soak.turns import Tally, run_case, run_seeds, run_turn

KIND_NAMES = (
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
    "listed",
    "rules",
    "proofs",
    "exports",
    "spreadsheets",
    "hostile files",
    "studies",
    "shapes",
)
TURNS_PER_KIND = 4  # in the whole time, unless turns would be too short
TURN_MIN_SECONDS = 30.0  # the start takes a large part of a shorter turn
FAULT_MAX_CHARACTERS = 300


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="how long to run")
    parser.add_argument("--kind", choices=KIND_NAMES, action="append", help="only this kind")
    parser.add_argument("--seed", type=int, help="the seed of one case")
    parser.add_argument("--turn", type=float, help=argparse.SUPPRESS)  # seconds
    options = parser.parse_args()
    kinds = tuple(options.kind or KIND_NAMES)
    if options.turn is not None:
        run_seeds(kinds[0], options.seed, options.turn)
        return 0
    if options.seed is not None:
        if len(kinds) > 1:
            parser.error("--seed needs one --kind")
        return repeat_case(kinds[0], options.seed)
    return sweep(kinds, 60 * options.minutes)


def repeat_case(kind: str, seed: int) -> int:
    """Run one case in this process."""
    faults = run_case(kind, seed)
    print(*(faults or [f"{kind} {seed}: nothing is wrong"]), sep="\n")
    return 1 if faults else 0


def sweep(kinds: tuple[str, ...], seconds: float) -> int:
    """Run turns until the time is up; the kind with the least time so far is next."""
    end = time.monotonic() + seconds
    first = int(time.time()) % 10**6 * 10**6  # other seeds in each run
    totals = {kind: Tally() for kind in kinds}
    seconds_per_kind = seconds / len(kinds)
    turn_seconds = min(seconds_per_kind, max(seconds_per_kind / TURNS_PER_KIND, TURN_MIN_SECONDS))
    cache_folder = tempfile.TemporaryDirectory(prefix="soak-")
    try:
        while (remaining := end - time.monotonic()) > 0:
            kind = min(kinds, key=lambda name: totals[name].seconds)
            turn = run_turn(
                kind, first + totals[kind].cases, min(remaining, turn_seconds), cache_folder.name
            )
            print_turn(kind, turn)
            totals[kind] = add_tallies(totals[kind], turn)
    except KeyboardInterrupt:
        print("interrupted")
    finally:
        cache_folder.cleanup()
    print(format_table(totals))
    return 1 if any(total.faults for total in totals.values()) else 0


def add_tallies(one: Tally, other: Tally) -> Tally:
    return Tally(one.cases + other.cases, one.seconds + other.seconds, one.faults + other.faults)


def print_turn(kind: str, turn: Tally) -> None:
    """Print the faults of a turn."""
    for seed, fault in turn.faults:
        print(f"FAULT  {kind} {seed}: {fault[:FAULT_MAX_CHARACTERS]}")
        print(f"       python -m soak --kind {kind} --seed {seed}")
    print(f"{kind}: {turn.cases:,} cases in {turn.seconds:.0f} s, {len(turn.faults)} faults")
    sys.stdout.flush()


def format_table(totals: dict[str, Tally]) -> str:
    rows = [("kind", "cases", "faulty", "seconds")]
    for kind, total in totals.items():
        faulty = len({seed for seed, _ in total.faults})
        rows.append((kind, f"{total.cases:,}", f"{faulty:,}", f"{total.seconds:.0f}"))
    sums = [sum(total.cases for total in totals.values())]
    sums.append(sum(len({seed for seed, _ in total.faults}) for total in totals.values()))
    sums.append(round(sum(total.seconds for total in totals.values())))
    rows.append(("all", *(f"{count:,}" for count in sums)))
    return "\n".join(f"{a:<14}{b:>9}{c:>9}{d:>9}" for a, b, c, d in rows)


if __name__ == "__main__":
    sys.exit(main())
