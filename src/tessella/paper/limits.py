"""Where boundary methods do not win: looked for in the results, and said."""

from __future__ import annotations

from collections import Counter

import numpy as np

from tessella.paper.published import FAMILIES
from tessella.paper.readings import costs, title
from tessella.paper.results import Results
from tessella.paper.table import Row

NEARLY = 0.95  # share of states that counts as nearly every one
TABULAR = ("tabular_q", "double_q")  # all their values are equal where they have learned nothing


def limits(results: Results, table: list[Row]) -> list[tuple[str, list[str]]]:
    """Headings with their sentences, all computed; silent where there is nothing to say."""
    checks = {
        "A few sweeps of the model may do": _references,
        "The labels show nearly every state": _coverage,
        "The exact table is smaller": _sizes,
        "Small samples": _small_samples,
        "Spread over seeds": _spread,
        "Training time": _times,
        "More updates can mean more errors": _rising,
    }
    if not results.compared:
        return []
    found = ((heading, check(results, table)) for heading, check in checks.items())
    return [(heading, sentences) for heading, sentences in found if sentences]


def _of(table: list[Row], family: str, *groups: str) -> list[Row]:
    return [row for row in table if row.family == family and row.group in groups and row.there]


def _references(results: Results, table: list[Row]) -> list[str]:
    """A plain use of the model that was told less and loses no more."""
    found = []
    spent = costs(results)
    for family in results.families():
        ours = _of(table, family, "boundary")
        if not ours:
            continue
        best = min(ours, key=lambda row: row.mean_loss.mean)
        cost = _cost(spent, best)
        for row in _of(table, family, "reference"):
            if row.mean_loss.mean <= best.mean_loss.mean and _cost(spent, row) < cost:
                found.append(
                    f"{FAMILIES[family]}: {row.title} loses {row.mean_loss.mean:.3g} on average, "
                    f"{best.title} {best.mean_loss.mean:.3g}, with {_cost(spent, row):,.0f} "
                    f"state-action evaluations against the {cost:,.0f} behind the labels. Who has "
                    "the model and can afford a few sweeps needs no learner here."
                )
    return found


def _cost(spent, row: Row) -> float:
    of = spent[(spent["family"] == row.family) & (spent["method"] == row.method)]
    return float(of[of["n"] == row.n]["cost"].iloc[0])


def _coverage(results: Results, table: list[Row]) -> list[str]:
    """Families whose labels have already shown nearly the whole table."""
    found = []
    for family in results.families():
        ours = _of(table, family, "boundary")
        if not ours:
            continue
        n = max(row.n for row in ours)
        states = max(results.solutions[e].mdp.n_states for e in results.members(family))
        seen = 1 - (1 - 1 / states) ** n
        if seen >= NEARLY:
            found.append(
                f"{FAMILIES[family]}: {n:,} labels drawn from {states} states show "
                f"{seen:.2%} of all states, {n / states:.1f} times each on average."
                + _noise(results, family)
            )
    return found


def _noise(results: Results, family: str) -> str:
    """What is left to learn when the states have been seen, where observations are noisy."""
    members = results.members(family)
    clear = [e for e in members if not results.solutions[e].mdp.observation_noise]
    if len(clear) == len(members):
        return ""
    apart = f" (except in {', '.join(clear)}, without noise)" if clear else ""
    return (
        " What is left to learn at that size is the observation noise rather than unseen "
        f"states{apart}."
    )


def _sizes(results: Results, table: list[Row]) -> list[str]:
    """Methods that store more numbers than the table they approximate."""
    found = []
    for family in results.families():
        exact = [row for row in _of(table, family, "reference") if row.method == "exact_table"]
        larger = [
            row for row in _of(table, family, "boundary") if exact and row.size > exact[0].size
        ]
        if larger:
            listed = ", ".join(f"{row.title} {row.size:,}" for row in larger)
            found.append(
                f"{FAMILIES[family]}: the exact policy is a table of {exact[0].size} entries; "
                f"more numbers than that are stored by {listed}."
            )
    return found


def _small_samples(results: Results, table: list[Row]) -> list[str]:
    """Environments and sizes at which a baseline errs no more than a boundary method."""
    frame = results.frame
    mean = frame.groupby(["method", "environment", "n"])["policy_error"].mean()
    lost: Counter[tuple[str, str]] = Counter()
    cells: dict[tuple[str, str], int] = {}
    at: dict[tuple[str, str], list[int]] = {}
    for ours in results.group("boundary"):
        for theirs in results.group("value"):
            both = mean[ours].to_frame("ours").join(mean[theirs].rename("theirs"), how="inner")
            worse = both[both["ours"] >= both["theirs"]]
            lost[ours, theirs], cells[ours, theirs] = len(worse), len(both)
            at[ours, theirs] = sorted(set(worse.index.get_level_values("n")))
    found = [
        f"{title(ours)} errs at least as much as {title(theirs)} in {count} of "
        f"{cells[ours, theirs]} combinations of problem and size "
        f"(n = {', '.join(map(str, at[ours, theirs]))})."
        for (ours, theirs), count in lost.items()
        if count
    ]
    if not found and lost:
        whole = len(results.study.problems) * len(results.study.sizes)
        runs = "" if min(cells.values()) == whole else " of those with finished runs"
        found = [
            f"At no size and in no problem{runs} does a baseline err less than a boundary method."
        ]
    return found


def _spread(results: Results, table: list[Row]) -> list[str]:
    """Sizes and families at which a boundary method varies more over seeds than a baseline."""
    frame = results.frame
    of = frame[frame["environment"] == results.representative]
    spread = of.groupby(["n", "method"])["policy_error"].std()
    ours, theirs = results.group("boundary"), results.group("value")
    found = []
    for n, part in spread.groupby(level="n"):
        there = part.droplevel("n").dropna()
        mine, other = there[there.index.isin(ours)], there[there.index.isin(theirs)]
        if len(mine) and len(other) and mine.max() >= other.min():
            found.append(
                f"n = {n:,} ({title(mine.idxmax())} {mine.max():.4f}, "
                f"{title(other.idxmin())} {other.min():.4f})"
            )
    listed = [f"On {results.representative} a boundary method varies more at {'; '.join(found)}."]
    return (listed if found else []) + _family_spread(results, table)


def _family_spread(results: Results, table: list[Row]) -> list[str]:
    return [
        f"{FAMILIES[family]}: at the largest n the average of {a.title} varies as much or more "
        f"({a.policy_error.std:.4f}) as that of {b.title} ({b.policy_error.std:.4f})."
        for family in results.families()
        for a in _of(table, family, "boundary")
        for b in _of(table, family, "value")
        if a.policy_error.std >= b.policy_error.std
    ]


def _times(results: Results, table: list[Row]) -> list[str]:
    """Boundary methods that train longer than the quickest baseline."""
    found = []
    for family in results.families():
        theirs = _of(table, family, "value")
        if not theirs:
            continue
        quick = min(theirs, key=lambda row: row.seconds)
        slow = [r for r in _of(table, family, "boundary") if r.seconds > quick.seconds]
        if slow:
            listed = ", ".join(f"{r.title} {r.seconds / quick.seconds:.1f} times" for r in slow)
            found.append(
                f"{FAMILIES[family]}: {quick.title} trains quickest of the baselines "
                f"({quick.seconds:.3g} s); longer than that: {listed}. The solve behind the labels "
                "comes on top."
            )
    return found


def _rising(results: Results, table: list[Row]) -> list[str]:
    """Baselines whose error rises with their budget; for tables, with the likely reason."""
    found = []
    for method in results.group("value"):
        frame = results.frame
        of = frame[(frame["method"] == method) & (frame["environment"] == results.representative)]
        mean = of.groupby("n")["policy_error"].mean()
        if len(mean) < 2 or mean.iloc[-1] <= mean.iloc[0]:
            continue
        found.append(
            f"{title(method)} errs more with more updates on {results.representative} "
            f"({mean.iloc[0]:.3f} at n = {mean.index[0]}, {mean.iloc[-1]:.3f} at n = "
            f"{mean.index[-1]:,})" + (_first_action(results) if method in TABULAR else ".")
        )
    return found


def _first_action(results: Results) -> str:
    share = float(np.mean(results.solutions[results.representative].policy.table == 0))
    return (
        ", probably because, where it has learned nothing yet, all values are equal and the tie "
        f"goes to the first action, which is optimal in {share:.0%} of the states."
    )
